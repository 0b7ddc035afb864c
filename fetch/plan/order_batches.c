#include "fetch/plan/order_batches.h"

#define LOOKED_AT 6u /* indices of a rank's first batch: one of them stands where its output put it */

bool hr_order_batches_may(const struct hr_mt *start, uint32_t n, uint32_t batch,
                          const struct hr_order_seen *seen, unsigned count)
{
    struct hr_mt mt = *start;
    uint64_t drawn = 0;
    for (unsigned rank = 0; rank < HR_ORDER_BATCHES_RANKS_MAX; rank++) {
        for (unsigned i = 0; i < count && i < LOOKED_AT && seen[i].position < batch; i++) {
            uint64_t place = (uint64_t)rank * batch + seen[i].position;
            if (place >= n / 2) {
                return false;
            }
            hr_mt_skip(&mt, place - drawn);
            drawn = place + 1;
            if (place + hr_mt_next(&mt) % (n - (uint32_t)place) == seen[i].index) {
                return true;
            }
        }
    }
    return false;
}

/* n: it is nowhere. */
static uint32_t place_of(const struct hr_order *order, const uint32_t *permutation, uint32_t index)
{
    uint32_t place = 0;
    while (place < order->n && permutation[place] != index) {
        place++;
    }
    return place;
}

/* By an index of a later batch than the first. 0: there are none so many. */
static uint32_t replicas_by(const struct hr_order *order, const uint32_t *permutation,
                            const struct hr_order_seen *seen)
{
    uint32_t place = place_of(order, permutation, seen->index), number = seen->position / order->batch;
    uint32_t at = place / order->batch, turns = at > order->rank ? at - order->rank : 0;
    bool right = place < order->n && place % order->batch == seen->position % order->batch &&
                 turns % number == 0 && turns / number > order->rank;
    return right ? turns / number : 0;
}

unsigned hr_order_batches_fit(struct hr_order *order, const uint32_t *permutation, uint32_t batch,
                              const struct hr_order_seen *seen, unsigned count)
{
    struct hr_order its = *order;
    if (count == 0 || seen[0].position != 0) {
        return 0;
    }
    uint32_t place = place_of(order, permutation, seen[0].index);
    its.batch = batch;
    its.rank = place / batch;
    bool keeps = order->batch == batch && order->replicas > its.rank;
    its.replicas = keeps ? order->replicas : its.rank + 1;
    unsigned i = 0;
    while (i < count && seen[i].position < batch) {
        i++;
    }
    its.replicas = i < count ? replicas_by(&its, permutation, &seen[i]) : its.replicas;
    if (place >= order->n || place % batch != 0 || its.replicas == 0 ||
        its.replicas > HR_ORDER_BATCHES_RANKS_MAX || (uint64_t)its.replicas * batch > order->n) {
        return 0;
    }
    for (i = 0; i < count; i++) {
        if (seen[i].position >= hr_order_length(&its) ||
            hr_order_at(&its, permutation, seen[i].position) != seen[i].index) {
            return 0;
        }
    }
    *order = its;
    return count;
}
