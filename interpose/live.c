#include "interpose/live.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "interpose/sys.h"
#include "interpose/tiny.h"
#include "interpose/inner.h"

/* Daemons' lives and index generations that cost no mmap of their own. */
#define LIVES_POOL 64
#define VIEWS_POOL 1024
#define HEADER_BYTES 64 /* no shared file is smaller */
#define GENERATION_TRIES 50

static struct hr_live lives[LIVES_POOL];
static struct hr_tree_view views[VIEWS_POOL];

static void *pages(size_t bytes)
{
    long memory = HR_SYS6(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory < 0 && memory >= -4095 ? NULL : (void *)memory;
}

struct hr_live *hr_live_new(void)
{
    static _Atomic uint32_t used;
    uint32_t slot = atomic_fetch_add(&used, 1);
    return slot < LIVES_POOL ? &lives[slot] : pages(sizeof(struct hr_live));
}

static struct hr_tree_view *view_new(void)
{
    static _Atomic uint32_t used;
    uint32_t slot = atomic_fetch_add(&used, 1);
    return slot < VIEWS_POOL ? &views[slot] : pages(sizeof(struct hr_tree_view));
}

int hr_live_map(const char *dir, const char *name, bool writable, size_t exact_bytes, struct hr_mapping *ret)
{
    char path[PATH_MAX];
    struct hr_out out;
    struct stat st;
    hr_out_init(&out, path, sizeof(path));
    hr_out_text(&out, dir);
    hr_out_text(&out, "/");
    hr_out_text(&out, name);
    if (hr_out_done(&out) < 0) {
        return -ENAMETOOLONG;
    }
    int flags = (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    long fd = HR_SYS4(SYS_openat, AT_FDCWD, path, flags, 0);
    if (fd < 0) {
        return (int)fd;
    }
    /* On both architectures the kernel's struct stat is libc's. */
    long result = HR_SYS2(SYS_fstat, fd, &st);
    if (result == 0 && (!S_ISREG(st.st_mode) || st.st_uid != (uid_t)HR_SYS0(SYS_geteuid))) {
        result = -EPERM;
    }
    size_t bytes = (size_t)st.st_size;
    if (result == 0 && (exact_bytes ? bytes != exact_bytes : bytes < HEADER_BYTES)) {
        result = -EPROTO;
    }
    if (result == 0) {
        int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
        result = HR_SYS6(SYS_mmap, 0, bytes, protection, MAP_SHARED, fd, 0);
    }
    HR_SYS1(SYS_close, fd);
    if (result < 0 && result >= -4095) {
        return (int)result;
    }
    *ret = (struct hr_mapping){.base = (void *)result, .bytes = bytes};
    return 0;
}

void hr_live_unmap(struct hr_mapping *mapping)
{
    HR_SYS2(SYS_munmap, mapping->base, mapping->bytes);
}

/* index/TREE-GEN[-BOOT].SUFFIX */
static int map_part(const struct hr_session *session, uint64_t id, uint32_t gen, const char *suffix,
                    bool of_boot, bool writable, struct hr_mapping *ret)
{
    char name[96];
    struct hr_out out;
    hr_out_init(&out, name, sizeof(name));
    hr_out_text(&out, "index/");
    hr_out_hex(&out, id, 16);
    hr_out_text(&out, "-");
    hr_out_hex(&out, gen, 8);
    if (of_boot) {
        hr_out_text(&out, "-");
        hr_out_hex(&out, session->control->boot, 16);
    }
    hr_out_text(&out, suffix);
    return hr_live_map(session->live->dir, name, writable, 0, ret);
}

int hr_live_map_dir(const struct hr_session *session, uint32_t tree, uint32_t number, struct hr_mapping *ret)
{
    return map_part(session, session->control->trees[tree].id, number, ".dir", true, false, ret);
}

/* Do the three files belong together and hold what they say? */
static bool parts_fit(const struct hr_tree_view *view, const struct hr_mapping part[3],
                      const struct hr_session *session)
{
    uint64_t count = view->index.names->entry_count;
    const struct hr_states *states = part[1].base;
    const struct hr_uses *uses = part[2].base;
    return view->index.names->gen == view->gen && count <= UINT32_MAX && states->magic == HR_MAGIC_STATES &&
           states->abi_version == HR_ABI_VERSION && states->boot == session->control->boot &&
           states->entry_count == count &&
           part[1].bytes >= sizeof(*states) + count * sizeof(struct hr_state) &&
           uses->magic == HR_MAGIC_USES && uses->abi_version == HR_ABI_VERSION &&
           uses->entry_count == count && part[2].bytes >= sizeof(*uses) + count;
}

static int map_view(const struct hr_session *session, uint32_t tree, uint32_t gen,
                    const struct hr_tree_view **ret)
{
    uint64_t id = session->control->trees[tree].id;
    struct hr_mapping part[3];
    struct hr_tree_view view = {.tree = tree, .gen = gen};
    unsigned have = 0;
    int error = map_part(session, id, gen, ".names", false, false, &part[0]);
    if (!error) {
        have = 1;
        error = map_part(session, id, gen, ".states", true, false, &part[1]);
    }
    if (!error) {
        have = 2;
        error = map_part(session, id, gen, ".uses", true, true, &part[2]);
    }
    if (!error) {
        have = 3;
        error = hr_index_adopt(&view.index, part[0].base, part[0].bytes);
    }
    struct hr_tree_view *kept = NULL;
    if (!error) {
        kept = parts_fit(&view, part, session) ? view_new() : NULL;
        error = kept ? 0 : -EIO;
    }
    if (error) {
        while (have > 0) {
            hr_live_unmap(&part[--have]);
        }
        return error;
    }
    view.states = part[1].base;
    view.uses = part[2].base;
    const struct hr_tree *of = &session->control->trees[tree];
    view.ino_head =
        hr_object_ino_head(of->salt, of->prefix, of->prefix_len <= HR_KEY_MAX ? of->prefix_len : HR_KEY_MAX);
    *kept = view;
    *ret = kept;
    return 0;
}

int hr_session_tree(const struct hr_session *session, uint32_t tree, const struct hr_tree_view **ret)
{
    if (tree >= HR_TREES_MAX) {
        return -EIO;
    }
    const _Atomic uint32_t *current_gen = &session->control->trees[tree].gen;
    _Atomic(const struct hr_tree_view *) *slot = &session->live->views[tree];
    int error = -EIO;
    for (unsigned i = 0; i < GENERATION_TRIES; i++) {
        uint32_t gen = atomic_load_explicit(current_gen, memory_order_acquire);
        if (gen == 0) {
            return -ENODATA;
        }
        const struct hr_tree_view *view = atomic_load_explicit(slot, memory_order_acquire);
        if (HR_LIKELY(view && view->gen == gen)) {
            *ret = view;
            return 0;
        }
        error = map_view(session, tree, gen, &view);
        if (!error) {
            atomic_store_explicit(slot, view, memory_order_release);
            *ret = view;
            return 0;
        }
        /* Gone because a newer one has replaced it meanwhile? Else it is really missing. */
        if (atomic_load_explicit(current_gen, memory_order_acquire) == gen) {
            break;
        }
    }
    return error == -EMFILE || error == -ENFILE || error == -ENOMEM ? error : -EIO;
}

const struct hr_residents *hr_session_residents(void)
{
    struct hr_live *live = hr_live_now();
    if (!live) {
        return NULL;
    }
    const struct hr_control *control = live->session.control;
    const struct hr_residents *current = hr_live_residents(live);
    uint32_t gen = atomic_load_explicit(&control->residents_gen, memory_order_acquire);
    const struct hr_residents *known = atomic_load_explicit(&live->residents, memory_order_acquire);
    if (current || gen == 0) {
        return current ? current : known;
    }
    char name[64];
    struct hr_out out;
    struct hr_mapping mapping;
    hr_out_init(&out, name, sizeof(name));
    hr_out_text(&out, "residents-");
    hr_out_hex(&out, control->boot, 16);
    hr_out_text(&out, "-");
    hr_out_hex(&out, gen, 8);
    if (hr_live_map(live->dir, name, false, 0, &mapping)) {
        return known;
    }
    const struct hr_residents *residents = mapping.base;
    uint64_t capacity = residents->capacity;
    if (residents->magic != HR_MAGIC_RESIDENTS || residents->abi_version != HR_ABI_VERSION || capacity == 0 ||
        (capacity & (capacity - 1)) ||
        capacity > (mapping.bytes - sizeof(*residents)) / sizeof(struct hr_resident)) {
        hr_live_unmap(&mapping);
        return known;
    }
    atomic_store_explicit(&live->residents, residents, memory_order_release);
    atomic_store_explicit(&live->residents_gen, gen, memory_order_release);
    return residents;
}
