/* Ranks that take batches of one epoch by turns, as accelerate's BatchSamplerShard hands them out (also when
 * it splits each batch: the parts are the batches then). The first batch of rank r begins r batches into the
 * permutation, which is beyond what a prefix reaches: a quick look at the outputs alone tells whether the
 * whole is worth making. Pure, any thread. */
#ifndef HR_PLAN_ORDER_BATCHES_H
#define HR_PLAN_ORDER_BATCHES_H

#include "fetch/plan/order_torch.h"

#define HR_ORDER_BATCHES_RANKS_MAX 64u

/* seen: by position. May the generator's next permutation of n be the one that they are of, for some rank of
 * two batches or more? False is right but for indices that were all moved before their turn: of a rank whose
 * first batch is the middle of the permutation one in 64, in the first quarter one in 4096. */
bool hr_order_batches_may(const struct hr_mt *start, uint32_t n, uint32_t batch,
                          const struct hr_order_seen *seen, unsigned count);
/* How many of those seen fit the order's permutation in batches of `batch`; 0 when one does not, or when it
 * is not told which rank it is (position 0). Sets rank, replicas and batch. Where all are of the first batch,
 * replicas stays if it is of such an order, or is the fewest that there can be. */
unsigned hr_order_batches_fit(struct hr_order *order, const uint32_t *permutation, uint32_t batch,
                              const struct hr_order_seen *seen, unsigned count);

#endif
