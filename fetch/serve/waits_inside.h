/* What the two files of waits share. */
#ifndef HR_SERVE_WAITS_INSIDE_H
#define HR_SERVE_WAITS_INSIDE_H

#include "fetch/serve/waits.h"

#define HR_WAIT_BUCKETS 1024 /* power of two */

struct wait {
    struct wait *thread_prev, *thread_next; /* in by_thread */
    struct wait *prev, *next;               /* in by_target */
    uint32_t context, pid, tid, op, tree, gen, entry, ticket;
    int64_t since_us, asked_ms;
    bool begun; /* the plan did not answer at once */
    struct hr_segment_ask ask;
    uint32_t path_len;
    char *path; /* NULL: by entry, or by ask */
};

struct hr_waits {
    struct hr_plan *plan;
    void (*ended)(void *owner, const struct hr_wait_ended *wait);
    void *owner;
    unsigned count;
    struct wait *by_thread[HR_WAIT_BUCKETS];
    struct wait *by_target[HR_WAIT_BUCKETS]; /* FETCH: the entry; else the ticket */
    struct hr_wait_sum sums[HR_WAIT_REASONS];
};

#endif
