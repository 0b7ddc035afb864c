/* The whole check of a names file that was adopted by its header alone: one thread of idle priority, which
 * never touches what the loop's thread uses (it opens the file by itself). Owned by the loop's thread. */
#ifndef HR_LIST_RECHECK_H
#define HR_LIST_RECHECK_H

#include <stdint.h>

#include "fetch/net/loop.h"

struct hr_recheck;

struct hr_recheck_options {
    struct hr_loop *loop;
    const char *index_dir; /* must outlive it */
    uint64_t tree_id;
    uint32_t gen;
    /* Once, on the loop's thread, unless freed before: what hr_index_verify says. hr_recheck_free is allowed
     * inside. */
    void (*done)(void *owner, int error);
    void *owner;
};

/* 0 or -errno: nothing was started, done never comes. */
int hr_recheck_start(const struct hr_recheck_options *options, struct hr_recheck **ret);
void hr_recheck_free(struct hr_recheck *recheck); /* stops it and waits for its thread; accepts NULL */

#endif
