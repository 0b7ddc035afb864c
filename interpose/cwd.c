#include "interpose/cwd.h"

#include <fcntl.h>
#include <stdatomic.h>

#include "interpose/path.h"
#include "interpose/standin.h"
#include "interpose/sys.h"
#include "interpose/tiny.h"
#include "interpose/inner.h"

enum cwd_kind { CWD_ELSEWHERE, CWD_ABOVE, CWD_INSIDE };

/* Snapshots are filled aside and published by one store; one is reused only after CWD_SNAPSHOTS - 1 later
 * chdirs. */
#define CWD_SNAPSHOTS 16
struct cwd_snapshot {
    _Atomic uint32_t stamp; /* odd while being filled */
    uint32_t len;
    enum cwd_kind kind;
    char path[HR_PLACE_MAX];
};
static struct cwd_snapshot snapshots[CWD_SNAPSHOTS];
static _Atomic uint32_t taken;
static _Atomic(struct cwd_snapshot *) current; /* NULL: not known */
/* Some vfork child has changed its own working directory: from then on relative paths cost a getpid. */
static _Atomic bool borrowed_moved;

/* Are we such a child, so that only the kernel knows where we stand? */
static inline bool is_apart(void)
{
    return HR_UNLIKELY(atomic_load_explicit(&borrowed_moved, memory_order_relaxed)) && hr_pid_is_borrowed();
}

int hr_cwd_read(char *out, size_t room, bool *ret_inside)
{
    struct hr_place place;
    long len = HR_SYS2(SYS_getcwd, place.path, sizeof(place.path));
    bool standin;
    unsigned map;
    uint32_t root;
    char kernel[HR_PLACE_MAX];

    if (len > 0 && place.path[0] == '/') {
        memcpy(kernel, place.path, (size_t)len);
        standin = hr_standin_place(kernel, &place);
    } else {
        /* A stand-in that somebody removed under us still tells its name. */
        static const char gone[] = " (deleted)";
        len = HR_SYS4(SYS_readlinkat, AT_FDCWD, "/proc/self/cwd", kernel, sizeof(kernel) - 1);
        long cut = len - (long)(sizeof(gone) - 1);
        if (cut <= 0 || memcmp(kernel + cut, gone, sizeof(gone) - 1) != 0) {
            return -ENOENT;
        }
        kernel[cut] = '\0';
        standin = hr_standin_place(kernel, &place);
        if (!standin) {
            return -ENOENT;
        }
    }
    const char *path = standin ? place.path : kernel;
    size_t path_len = strlen(path);
    if (path_len >= room) {
        return -ERANGE;
    }
    memcpy(out, path, path_len + 1);
    *ret_inside = standin || hr_path_under(out, &map, &root);
    return (int)path_len;
}

void hr_cwd_init(void)
{
    struct cwd_snapshot *snapshot = &snapshots[atomic_fetch_add(&taken, 1) % CWD_SNAPSHOTS];
    bool inside;

    atomic_fetch_or(&snapshot->stamp, 1);
    int len = hr_cwd_read(snapshot->path, sizeof(snapshot->path), &inside);
    if (len > 0) {
        if (inside) {
            hr_path_through_proc();
        }
        snapshot->len = (uint32_t)len;
        snapshot->kind =
            inside ? CWD_INSIDE
            : hr_path_above(snapshot->path, (size_t)len) || hr_path_above_link(snapshot->path, (size_t)len)
                ? CWD_ABOVE
                : CWD_ELSEWHERE;
    }
    atomic_fetch_add_explicit(&snapshot->stamp, 1, memory_order_release);
    atomic_store_explicit(&current, len > 0 ? snapshot : NULL, memory_order_release);
}

void hr_cwd_changed(void)
{
    if (hr_pid_is_borrowed()) {
        atomic_store_explicit(&borrowed_moved, true, memory_order_relaxed);
        return;
    }
    hr_cwd_init();
}

int hr_cwd_get(char *out, size_t room)
{
    bool inside;
    if (is_apart()) {
        return hr_cwd_read(out, room, &inside);
    }
    for (unsigned i = 0; i < CWD_SNAPSHOTS; i++) {
        const struct cwd_snapshot *snapshot = atomic_load_explicit(&current, memory_order_acquire);
        if (!snapshot) {
            break;
        }
        uint32_t stamp = atomic_load_explicit(&snapshot->stamp, memory_order_acquire);
        uint32_t len = snapshot->len;
        if ((stamp & 1) || len >= sizeof(snapshot->path)) {
            continue;
        }
        if (len >= room) {
            return -ERANGE;
        }
        hr_copy_shared(out, snapshot->path, len);
        out[len] = '\0';
        if (atomic_load_explicit(&snapshot->stamp, memory_order_relaxed) == stamp) {
            return (int)len;
        }
    }
    return hr_cwd_read(out, room, &inside);
}

bool hr_cwd_matters(void)
{
    const struct cwd_snapshot *snapshot = atomic_load_explicit(&current, memory_order_acquire);
    return (snapshot && snapshot->kind != CWD_ELSEWHERE) || is_apart();
}

static HR_NOINLINE bool read_inside(void)
{
    char path[HR_PLACE_MAX];
    bool inside;
    return hr_cwd_read(path, sizeof(path), &inside) > 0 && inside;
}

bool hr_cwd_inside(void)
{
    if (is_apart()) {
        return read_inside();
    }
    const struct cwd_snapshot *snapshot = atomic_load_explicit(&current, memory_order_acquire);
    return snapshot && snapshot->kind == CWD_INSIDE;
}

bool hr_cwd_leads(const char *path)
{
    const struct cwd_snapshot *snapshot = atomic_load_explicit(&current, memory_order_acquire);
    if (is_apart()) {
        return true;
    }
    if (!snapshot) {
        return false;
    }
    switch (snapshot->kind) {
    case CWD_INSIDE:
        return true;
    case CWD_ABOVE:
        return hr_path_above_then(snapshot->path, snapshot->len, path) || hr_path_is_odd(path);
    case CWD_ELSEWHERE:
        break;
    }
    return hr_path_climbs(path);
}
