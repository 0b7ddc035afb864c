/* Sealing a listing on a thread of its own: sorting, writing and the disk's time for millions of names, while
 * the loop serves. Owned by the loop's thread. */
#ifndef HR_LIST_SEALER_H
#define HR_LIST_SEALER_H

#include <stdint.h>

#include "fetch/list/publish.h"
#include "fetch/net/loop.h"

struct hr_sealer;

/* Once, on the loop's thread, unless freed before: what hr_builder_publish says. An index is the owner's. The
 * builder has no keys any more and tells what was hidden, until hr_sealer_free, which is allowed inside. */
typedef void (*hr_sealed_fn)(void *owner, int error, struct hr_index *index,
                             const struct hr_index_builder *builder);

struct hr_sealer_options {
    struct hr_loop *loop;
    struct hr_index_builder *builder; /* the sealer's from a successful start on */
    const char *index_dir;            /* must outlive it */
    uint64_t tree_id;
    uint32_t gen; /* nobody else's */
    int64_t listed_ns;
    hr_sealed_fn done;
    void *owner;
};

/* 0 or -errno: nothing was started, done never comes, the builder stays the caller's. */
int hr_sealer_start(const struct hr_sealer_options *options, struct hr_sealer **ret);
/* Waits for its thread; a file that nobody was told of is removed. Accepts NULL. */
void hr_sealer_free(struct hr_sealer *sealer);

#endif
