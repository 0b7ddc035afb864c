/* Warming: what lies below some paths of a tree is brought into the cache because somebody said so (`headrace
 * warm`), small objects whole, large ones in whole cells. It stops when more would push out what it brought.
 * Main loop. */
#ifndef HR_PLAN_WARM_H
#define HR_PLAN_WARM_H

#include <stdbool.h>
#include <stdint.h>

#define HR_WARM_FAILED_MAX 100u /* names that are kept; all are counted */

struct hr_plan;

struct hr_warm_progress {
    uint64_t files, bytes; /* below what was asked for, as far as it was looked at */
    uint64_t there_files;  /* of them in the cache, */
    uint64_t there_bytes;  /* and their bytes, parts of large ones among them */
    uint64_t failed;
    bool full;     /* the cache has no room for the rest */
    bool finished; /* everything is there, has failed, or was given up */
};

/* A new one, or more paths for one that lives (`*id` not 0). path: relative to the tree's root, "" is all of
 * it. 0; -EAGAIN: the tree has no index yet, ask for it (LIST) and again; -EINVAL (no such tree or warming),
 * -ENOMEM, -ECANCELED. A warming whose progress nobody asks for ends by itself. */
int hr_warm_add(struct hr_plan *plan, uint32_t tree, const char *path, uint32_t path_len, uint32_t *id);
/* Nothing more will be added. */
void hr_warm_close(struct hr_plan *plan, uint32_t id);
/* -ENOENT: no such warming (any more). It finishes after it was closed. */
int hr_warm_progress(struct hr_plan *plan, uint32_t id, struct hr_warm_progress *ret);
/* The n-th name that failed, NULL behind the last that was kept. Valid until the next call. */
const char *hr_warm_failed(struct hr_plan *plan, uint32_t id, unsigned n, int *ret_error);
void hr_warm_forget(struct hr_plan *plan, uint32_t id); /* nobody asks any more */

/* Every heartbeat. */
void hr_warm_tick(struct hr_plan *plan);
/* After the wants are gone. */
void hr_warm_free(struct hr_plan *plan);

#endif
