/* What known orders of the next epochs say about replacement: of what this epoch is done with, the best to
 * give up is what they read last, and before that what none of them reads here: of a DistributedSampler's
 * epoch the ranks of other nodes read the rest. An epoch hits no more than the cache holds when it begins, so
 * where one node reads everything this is worth nothing over a set that is kept; where n nodes share the
 * epochs, the cache holds up to n times as much of what is needed. Pure; O(1) over time. */
#ifndef HR_PLAN_NEXT_EPOCH_H
#define HR_PLAN_NEXT_EPOCH_H

#include "fetch/plan/future.h"
#include "fetch/plan/highest.h"
#include "fetch/plan/predict.h"

struct hr_next_epoch {
    struct hr_orders orders; /* of all ranks: their own say nothing */
    uint32_t n, replicas, batch;
    uint32_t positions;     /* of all epochs */
    uint32_t *permutations; /* of one epoch after the other */
    uint32_t *places; /* of each index: the first position at which a rank of ours reads it, or NOWHERE */
    /* What may be there and is not needed before: by its place, or behind all places by its index. What is
     * found not to be so is taken out when it is met, and comes in again when it was read. */
    struct hr_highest idle;
};

/* Takes the permutations that hr_order_searcher_make gives, also when it fails. All may be idle; no rank is
 * ours. 0 or -ENOMEM. */
int hr_next_epoch_begin(struct hr_next_epoch *next, const struct hr_orders *orders, uint32_t *permutations);
void hr_next_epoch_end(struct hr_next_epoch *next);
uint64_t hr_next_epoch_bytes(const struct hr_orders *orders);
/* The same epochs, of whatever rank? */
bool hr_next_epoch_is(const struct hr_next_epoch *next, const struct hr_orders *orders);

/* A rank is ours: notes the next so many of its positions. from: 0 at first; where it stopped is returned,
 * UINT32_MAX: at the end. */
uint32_t hr_next_epoch_join(struct hr_next_epoch *next, uint32_t rank, uint32_t from, uint32_t count);
/* Is it the rank that reads it first? index: below n, here and below. */
bool hr_next_epoch_reads(const struct hr_next_epoch *next, uint32_t rank, uint32_t index);
void hr_next_epoch_idle(struct hr_next_epoch *next, uint32_t index); /* it was read */
/* Of those that are free, the one that is read last; false: none, or none within one look. */
bool hr_next_epoch_find(struct hr_next_epoch *next, hr_future_there *is_free, void *owner,
                        uint32_t *ret_index);

#endif
