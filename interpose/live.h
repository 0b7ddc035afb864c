/* What a process has mapped of one daemon's life. Mappings are shared, opened and closed at once, checked
 * (regular file, ours, big enough) and never unmapped once handed out. */
#ifndef HR_LIVE_H
#define HR_LIVE_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "interpose/context.h"
#include "interpose/tiny.h"

struct hr_live {
    struct hr_session session;
    const char *dir; /* its cache_dir */
    uint32_t dir_len;
    _Atomic(const struct hr_residents *) residents;
    _Atomic uint32_t residents_gen;
    _Atomic(const struct hr_tree_view *) views[HR_TREES_MAX];
};

struct hr_mapping {
    void *base;
    size_t bytes;
};

/* dir/name, exactly (exact_bytes > 0) or any size that holds a header. 0 or -errno. */
int hr_live_map(const char *dir, const char *name, bool writable, size_t exact_bytes, struct hr_mapping *ret);
void hr_live_unmap(struct hr_mapping *mapping);
/* index/TREE-NUMBER-BOOT.dir. 0 or -errno. */
int hr_live_map_dir(const struct hr_session *session, uint32_t tree, uint32_t number, struct hr_mapping *ret);

/* The living one, or the last; NULL: this process has none yet. */
extern _Atomic(struct hr_live *) hr_live_current __attribute__((visibility("hidden")));
static inline struct hr_live *hr_live_now(void)
{
    return atomic_load_explicit(&hr_live_current, memory_order_acquire);
}
static inline bool hr_live_retired(const struct hr_live *live)
{
    return atomic_load_explicit(&live->session.control->retired, memory_order_acquire) != 0;
}

/* The mapped view of a tree (tree < HR_TREES_MAX) while it is of the published generation; NULL: ask
 * hr_session_tree. */
static inline const struct hr_tree_view *hr_live_view(const struct hr_live *live, uint32_t tree)
{
    uint32_t gen = atomic_load_explicit(&live->session.control->trees[tree].gen, memory_order_acquire);
    const struct hr_tree_view *view = atomic_load_explicit(&live->views[tree], memory_order_acquire);
    return view && view->gen == gen ? view : NULL;
}

/* The mapped table while it is the published one; NULL: ask hr_session_residents. */
static inline const struct hr_residents *hr_live_residents(const struct hr_live *live)
{
    uint32_t gen = atomic_load_explicit(&live->session.control->residents_gen, memory_order_acquire);
    /* The table's number after it and before it: whoever reads this one has that table, or a newer one. */
    uint32_t known_gen = atomic_load_explicit(&live->residents_gen, memory_order_acquire);
    const struct hr_residents *known = atomic_load_explicit(&live->residents, memory_order_acquire);
    return known && known_gen == gen && !atomic_load_explicit(&known->retired, memory_order_relaxed) ? known
                                                                                                     : NULL;
}

#define HR_LIVE_SHAPE "/objects/XX/ID______________"
#define HR_LIVE_FOLDER_AT (sizeof("/objects/") - 1)
/* As hr_session_file_path. */
static inline int hr_live_file_path(const struct hr_live *live, uint64_t file_id, char *ret_path, size_t room)
{
    const size_t shape_len = sizeof(HR_LIVE_SHAPE) - 1;
    size_t len = live->dir_len;
    if (len + sizeof(HR_LIVE_SHAPE) > room) {
        return -ENAMETOOLONG;
    }
    memcpy(ret_path, live->dir, len);
    char *end = ret_path + len;
    memcpy(end, HR_LIVE_SHAPE, sizeof(HR_LIVE_SHAPE));
    hr_hex16(file_id, end + shape_len - HR_HEX_DIGITS);
    memcpy(end + HR_LIVE_FOLDER_AT, end + shape_len - 2, 2);
    return (int)(len + shape_len);
}

/* Zeroed and immortal; NULL when the kernel has no memory. */
struct hr_live *hr_live_new(void);

#endif
