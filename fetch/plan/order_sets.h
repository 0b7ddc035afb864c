/* The sizes of the sets of candidates, which order_search.c cuts into slices and order_try.c tries. */
#ifndef HR_PLAN_ORDER_SETS_H
#define HR_PLAN_ORDER_SETS_H

#include "fetch/plan/order_lanes.h"
#include "fetch/plan/order_search.h"

#define LIKELY_SEEDS (1u << 12) /* below: written by people, or an epoch's number added */
#define SMALL_SEEDS (1u << 20)  /* below: 0.1 s on one thread */
#define OTHERS_SEEDS (1u << 16) /* below: a seed costs a whole shuffle there */
#define ALL_SEEDS (UINT64_C(1) << 32)
#define DRAWS 64u                  /* of one outer seed: an iterator draws two, so 32 epochs */
#define NEXT_SEEDS 8               /* DistributedSampler's next epochs */
#define BATCHES_SEEDS (1u << 11)   /* below: a year and an epoch, too; a seed costs 4 us there */
#define BATCHES_OUTPUTS (1u << 23) /* of all candidates for one set: 15 ms */

#define GOES_ON 10u /* ways in which a generator goes on from one epoch to a later one */
#define FOLLOWERS (2 * NEXT_SEEDS + GOES_ON) /* of one recent order */

#define FAVOURITES 34u /* seeds that people write down, and those of libraries */
/* Of each: itself with and without an iterator's draw, what a sampler draws from it in the first epochs, and
 * the others' shuffles. */
#define OTHERS (HR_ORDER_GENERATORS - 1)
#define FAVOURITE_DRAWS 8u
#define FAVOURITE_ORDERS (2 + FAVOURITE_DRAWS + OTHERS)
#define FAVOURITE_SEEDS (1 + FAVOURITE_DRAWS) /* of each as torch's */

#define OUTERS 4u /* seeds that scripts give to manual_seed before they make a model */

/* Outputs of each that may be a sampler's seed. */
static inline uint64_t hr_order_late_outputs(const struct hr_order_ask *ask)
{
    return ask->steps / OUTERS / HR_ORDER_LANES * HR_ORDER_LANES;
}

#endif
