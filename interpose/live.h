/* What a process has mapped of one daemon's life. Mappings are shared, opened and closed at once, checked
 * (regular file, ours, big enough) and never unmapped once handed out. */
#ifndef HR_LIVE_H
#define HR_LIVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "interpose/context.h"

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

/* Zeroed and immortal; NULL when the kernel has no memory. */
struct hr_live *hr_live_new(void);

#endif
