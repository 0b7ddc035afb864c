#include "interpose/spawn_actions.h"

#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "interpose/alias.h"
#include "interpose/cwd.h"
#include "interpose/face.h"
#include "interpose/path.h"
#include "interpose/standin.h"
#include "interpose/sys.h"
#include "interpose/tiny.h"
#include "interpose/view.h"
#include "interpose/way.h"
#include "interpose/inner.h"

/* Flags that mean something when a cache file is opened anew. */
#define KEPT_FLAGS (O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

/* libc's array of actions. It is private, but no function reads it; layout_fits() looks whether this is it.
 */
enum tag { TAG_CLOSE, TAG_DUP2, TAG_OPEN, TAG_CHDIR, TAG_FCHDIR, TAG_CLOSEFROM };
struct action {
    int tag;
    union {
        struct {
            int fd, to;
        } dup2;
        struct {
            int fd;
            char *path;
            int flags;
            mode_t mode;
        } open;
        char *chdir;
        int fd;
    } of;
};

/* One a rewritten action. */
struct slot {
    int fd; /* to be closed in the parent, or -1 */
    char path[PATH_MAX];
};

/* Where the child stands while its actions are carried out. */
struct stand {
    bool moved; /* else where we stand */
    bool known;
    bool mapped;
    size_t len;
    char path[HR_PLACE_MAX];
};

static struct action *actions_of(const posix_spawn_file_actions_t *actions)
{
    return (struct action *)actions->__actions;
}

/* ---- is the layout as we know it? ---- */

static bool layout_fits_now(void)
{
    posix_spawn_file_actions_t probe;
    if (posix_spawn_file_actions_init(&probe)) {
        return false;
    }
    bool fits = posix_spawn_file_actions_addopen(&probe, 11, "open", O_NOCTTY, 0123) == 0 &&
                posix_spawn_file_actions_adddup2(&probe, 12, 13) == 0 &&
                posix_spawn_file_actions_addchdir_np(&probe, "chdir") == 0 &&
                posix_spawn_file_actions_addfchdir_np(&probe, 14) == 0 && probe.__used == 4;
    if (fits) {
        const struct action *list = actions_of(&probe);
        fits = list[0].tag == TAG_OPEN && list[0].of.open.fd == 11 && list[0].of.open.flags == O_NOCTTY &&
               list[0].of.open.mode == 0123 && strcmp(list[0].of.open.path, "open") == 0 &&
               list[1].tag == TAG_DUP2 && list[1].of.dup2.fd == 12 && list[1].of.dup2.to == 13 &&
               list[2].tag == TAG_CHDIR && strcmp(list[2].of.chdir, "chdir") == 0 &&
               list[3].tag == TAG_FCHDIR && list[3].of.fd == 14;
    }
    posix_spawn_file_actions_destroy(&probe);
    return fits;
}

static bool layout_fits(void)
{
    enum { UNKNOWN, YES, NO };
    static _Atomic int known;
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (answer == UNKNOWN) {
        answer = layout_fits_now() ? YES : NO;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == YES;
}

/* ---- which paths are ours ---- */

enum whose { KERNELS, OURS, OUTSIDE };

/* A path as the child would take it. OUTSIDE: the kernel's, but its own base would be a stand-in: ret->path
 * instead. */
static enum whose find(const struct stand *stand, const char *path, struct hr_place *ret)
{
    uint32_t root;
    if (path[0] == '/' || !stand->moved) {
        if (hr_path_find_as(AT_FDCWD, path, true, ret) || hr_alias_ahead(AT_FDCWD, path, true, ret) ||
            ((hr_path_above_maybe(path) || hr_path_maybe(AT_FDCWD, path)) &&
             hr_way_missed_looked(AT_FDCWD, path, ret))) {
            return OURS;
        }
        return hr_path_outside(AT_FDCWD, path, ret) == path ? KERNELS : OUTSIDE;
    }
    int len = stand->known && path[0] ? hr_path_join(stand->path, stand->len, path, ret->path,
                                                     sizeof(ret->path), &ret->must_be_dir)
                                      : -ENOENT;
    if (len < 0) {
        return KERNELS;
    }
    if (hr_way_at(ret)) {
        return OURS;
    }
    if (!hr_path_under(ret->path, &ret->map, &root)) {
        return stand->mapped ? OUTSIDE : KERNELS;
    }
    ret->len = (uint32_t)len;
    ret->rel = root + (ret->path[root] == '/');
    return OURS;
}

static void stand_at(struct stand *stand, const char *path, size_t len, bool mapped)
{
    memmove(stand->path, path, len + 1);
    stand->len = len;
    stand->moved = stand->known = true;
    stand->mapped = mapped;
}

/* After a chdir to a path that find() said `whose` of. */
static void move(struct stand *stand, const char *path, enum whose whose, const struct hr_place *place)
{
    char base[HR_PLACE_MAX];
    bool must_be_dir;
    if (whose == OURS) {
        stand_at(stand, place->path, place->len, true);
        return;
    }
    int len = stand->moved ? (int)stand->len : hr_cwd_get(stand->path, sizeof(stand->path));
    stand->known = len > 0 && (!stand->moved || stand->known);
    len = stand->known || path[0] == '/'
              ? hr_path_join(stand->path, (size_t)(len > 0 ? len : 0), path, base, sizeof(base), &must_be_dir)
              : -ENOENT;
    if (len > 0) {
        stand_at(stand, base, (size_t)len, false);
    }
    stand->moved = true;
    stand->known = len > 0;
}

/* After an fchdir in action `at`: its descriptor is one of ours, or a copy of one that an action made. */
static void move_to_fd(struct stand *stand, const struct action *list, int at)
{
    struct hr_place place;
    int fd = list[at].of.fd;
    stand->moved = true;
    stand->known = stand->mapped = false;
    while (--at >= 0) {
        if (list[at].tag == TAG_DUP2 && list[at].of.dup2.to == fd) {
            fd = list[at].of.dup2.fd;
        } else if (list[at].tag == TAG_OPEN && list[at].of.open.fd == fd) {
            return;
        }
    }
    if (hr_path_of_fd(fd, &place)) {
        stand_at(stand, place.path, place.len, true);
        return;
    }
    int len = hr_standin_readlink(fd, place.path, sizeof(place.path));
    if (len > 0 && place.path[0] == '/') {
        stand_at(stand, place.path, (size_t)len, false);
    }
}

/* ---- rewriting ---- */

struct rewrite {
    struct action *list;
    struct slot *slots;
    int count;
    int first_fd;  /* ours are above all that the actions name */
    bool hooked;   /* the child can read faces */
    bool by_pid;   /* a closefrom may have closed ours in the child */
    bool anything; /* something was rewritten */
};

/* Moves fd out of the actions' way and writes the name under which the child finds it. */
static int name_fd(struct rewrite *rewrite, int at, int fd)
{
    struct hr_out out;
    struct slot *slot = &rewrite->slots[at];
    long high = HR_SYS3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, rewrite->first_fd);
    hr_standin_unmark(fd);
    HR_SYS1(SYS_close, fd);
    if (high < 0) {
        return high == -EINVAL ? -EMFILE : (int)high; /* beyond the limit of descriptors */
    }
    slot->fd = (int)high;
    hr_out_init(&out, slot->path, sizeof(slot->path));
    hr_out_text(&out, "/proc/");
    if (rewrite->by_pid) {
        hr_out_decimal(&out, (uint64_t)HR_SYS0(SYS_getpid));
    } else {
        hr_out_text(&out, "self");
    }
    hr_out_text(&out, "/fd/");
    hr_out_decimal(&out, (uint64_t)high);
    rewrite->anything = true;
    return hr_out_done(&out) < 0 ? -ENAMETOOLONG : 0;
}

static int rewrite_open(struct rewrite *rewrite, int at, const struct hr_place *place)
{
    struct action *action = &rewrite->list[at];
    struct hr_object object;
    int flags = action->of.open.flags;
    int fd = hr_view_open(place, flags | O_CLOEXEC, action->of.open.mode);
    if (fd < 0) {
        return fd;
    }
    bool left = rewrite->hooked && !hr_face_is_stream(action->of.open.fd);
    int error = left ? 0 : hr_face_materialise_if(fd);
    if (error) {
        hr_standin_unmark(fd);
        HR_SYS1(SYS_close, fd);
        return error;
    }
    bool face = hr_face_maybe(fd);
    bool dir = hr_view_find(place, &object) == 0 && object.kind == HR_KIND_DIR;
    error = name_fd(rewrite, at, fd);
    action->of.open.path = rewrite->slots[at].path;
    action->of.open.flags = dir ? O_PATH | O_DIRECTORY | (flags & O_CLOEXEC)
                                : (face ? O_WRONLY : O_RDONLY) | (flags & KEPT_FLAGS);
    return error;
}

static int rewrite_chdir(struct rewrite *rewrite, int at, const struct hr_place *place)
{
    int fd = hr_view_standin(place, O_CLOEXEC);
    if (fd < 0) {
        return fd;
    }
    rewrite->list[at].of.chdir = rewrite->slots[at].path;
    return name_fd(rewrite, at, fd);
}

static int take_outside(struct rewrite *rewrite, int at, char **path, const struct hr_place *place)
{
    size_t bytes = strlen(place->path) + 1;
    if (bytes > sizeof(rewrite->slots[at].path)) {
        return -ENAMETOOLONG;
    }
    *path = memcpy(rewrite->slots[at].path, place->path, bytes);
    rewrite->anything = true;
    return 0;
}

/* The descriptor of ours that the child would open by its name: as long as no action before has changed it
 * there. */
static int named_face(const struct action *list, int at)
{
    int fd = hr_face_named(AT_FDCWD, list[at].of.open.path);
    for (int i = 0; i < at && fd >= 0; i++) {
        bool named = list[i].tag == TAG_DUP2 ? list[i].of.dup2.to == fd
                                             : list[i].tag != TAG_CHDIR && list[i].of.fd == fd;
        fd = named || list[i].tag == TAG_CLOSEFROM ? -1 : fd;
    }
    return fd;
}

static int rewrite_named(struct rewrite *rewrite, int at, int face_fd)
{
    struct action *action = &rewrite->list[at];
    int flags = action->of.open.flags;
    int fd =
        hr_face_reopen(face_fd, (flags & ~O_PATH) | O_DIRECT | O_CLOEXEC); /* O_DIRECT: as a plain file */
    if (fd < 0) {
        return fd;
    }
    int error = name_fd(rewrite, at, fd);
    action->of.open.path = rewrite->slots[at].path;
    action->of.open.flags = O_RDONLY | (flags & KEPT_FLAGS);
    return error;
}

/* The child would make a file: in a way, that is made here. `place` is the path as find() left it. */
static int make_ahead(const struct stand *stand, const struct action *action, const char *path, bool outside,
                      const struct hr_place *place)
{
    bool joined = outside || (stand->moved && stand->known && path[0] != '/');
    if (action->tag != TAG_OPEN || !(action->of.open.flags & O_CREAT) ||
        (!joined && stand->moved && path[0] != '/')) {
        return 0;
    }
    return hr_way_ahead(AT_FDCWD, joined ? place->path : path, -EISDIR);
}

static int rewrite_one(struct rewrite *rewrite, int at, struct stand *stand)
{
    struct hr_place place;
    struct action *action = &rewrite->list[at];
    bool is_chdir = action->tag == TAG_CHDIR;
    char **path = is_chdir ? &action->of.chdir : &action->of.open.path;
    const char *named = *path;
    enum whose whose = find(stand, named, &place);
    int face_fd = is_chdir ? -1 : named_face(rewrite->list, at);
    int error = 0;
    if (whose == OURS) {
        error = is_chdir ? rewrite_chdir(rewrite, at, &place) : rewrite_open(rewrite, at, &place);
    } else if (face_fd >= 0) {
        error = rewrite_named(rewrite, at, face_fd);
    } else {
        error = make_ahead(stand, action, named, whose == OUTSIDE, &place);
        error = error || whose != OUTSIDE ? error : take_outside(rewrite, at, path, &place);
    }
    if (is_chdir && !error) {
        move(stand, named, whose, &place);
    }
    return error;
}

/* What becomes the child's under another number, close-on-exec or not. */
static int rewrite_dup(const struct rewrite *rewrite, int at)
{
    bool left = rewrite->hooked && !hr_face_is_stream(rewrite->list[at].of.dup2.to);
    return left ? 0 : hr_face_materialise_if(rewrite->list[at].of.dup2.fd);
}

static int rewrite_all(struct rewrite *rewrite, bool *ret_cwd_is_mapped)
{
    struct stand stand = {0};
    int error = 0;
    for (int i = 0; i < rewrite->count && !error; i++) {
        switch (rewrite->list[i].tag) {
        case TAG_OPEN:
        case TAG_CHDIR:
            error = rewrite_one(rewrite, i, &stand);
            break;
        case TAG_FCHDIR:
            move_to_fd(&stand, rewrite->list, i);
            break;
        case TAG_DUP2:
            error = rewrite_dup(rewrite, i);
            break;
        case TAG_CLOSEFROM:
            rewrite->by_pid = true;
            break;
        default:
            break;
        }
    }
    *ret_cwd_is_mapped = stand.mapped;
    return error;
}

/* ---- the call ---- */

/* Could any action be about us? No system call. */
static bool worth_a_look(const struct action *list, int count)
{
    for (int i = 0; i < count; i++) {
        int tag = list[i].tag;
        if (tag == TAG_CHDIR || tag == TAG_FCHDIR || (tag == TAG_DUP2 && hr_face_maybe(list[i].of.dup2.fd)) ||
            (tag == TAG_OPEN &&
             (hr_alias_follows || hr_path_maybe(AT_FDCWD, list[i].of.open.path) ||
              hr_path_above_maybe(list[i].of.open.path) ||
              ((list[i].of.open.flags & O_CREAT) && hr_path_begins(list[i].of.open.path)) ||
              hr_face_named(AT_FDCWD, list[i].of.open.path) >= 0))) {
            return true;
        }
    }
    return false;
}

static int highest_fd(const struct action *list, int count)
{
    int highest = 2;
    for (int i = 0; i < count; i++) {
        int fd = list[i].tag == TAG_CHDIR ? 0 : list[i].of.fd; /* every other one begins with a descriptor */
        fd = list[i].tag == TAG_DUP2 && list[i].of.dup2.to > fd ? list[i].of.dup2.to : fd;
        highest = fd > highest ? fd : highest;
    }
    return highest;
}

static HR_NOINLINE int begin(const posix_spawn_file_actions_t *actions, bool hooked,
                             struct hr_spawn_actions *ret)
{
    int count = actions->__used;
    size_t list_bytes = (size_t)count * sizeof(struct action);
    size_t bytes = list_bytes + (size_t)count * sizeof(struct slot);
    long pages = HR_SYS6(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages < 0 && pages >= -4095) {
        return (int)pages;
    }
    struct rewrite rewrite = {.list = (struct action *)pages,
                              .slots = (struct slot *)((char *)pages + list_bytes),
                              .count = count,
                              .hooked = hooked,
                              .first_fd = highest_fd(actions_of(actions), count) + 1};
    memcpy(rewrite.list, actions_of(actions), list_bytes);
    for (int i = 0; i < count; i++) {
        rewrite.slots[i].fd = -1;
    }
    ret->own = *actions;
    ret->own.__actions = (void *)rewrite.list;
    ret->pages = rewrite.list;
    ret->bytes = bytes;
    int error = rewrite_all(&rewrite, &ret->cwd_is_mapped);
    if (error || !rewrite.anything) {
        hr_spawn_actions_end(ret);
        return error;
    }
    ret->use = &ret->own;
    return 0;
}

int hr_spawn_actions_begin(const posix_spawn_file_actions_t *actions, bool hooked,
                           struct hr_spawn_actions *ret)
{
    ret->use = actions;
    ret->cwd_is_mapped = false;
    ret->pages = NULL;
    if (HR_LIKELY(!hr_active) || !actions || actions->__used <= 0) {
        return 0;
    }
    int saved = errno;
    bool look = layout_fits() && worth_a_look(actions_of(actions), actions->__used);
    int error = look ? begin(actions, hooked, ret) : 0;
    errno = saved;
    return error;
}

void hr_spawn_actions_end(struct hr_spawn_actions *actions)
{
    if (!actions->pages) {
        return;
    }
    size_t count = actions->bytes / (sizeof(struct action) + sizeof(struct slot));
    const struct slot *slots = (const struct slot *)((struct action *)actions->pages + count);
    for (size_t i = 0; i < count; i++) {
        if (slots[i].fd >= 0) {
            HR_SYS1(SYS_close, slots[i].fd);
        }
    }
    HR_SYS2(SYS_munmap, actions->pages, actions->bytes);
    actions->pages = NULL;
}
