#include "fetch/plan/next_epoch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NOWHERE UINT32_MAX
#define LOOK_NUMBERS 16384u /* in one go: a millisecond or two */

/* Of one epoch of all ranks: its end repeats its beginning. */
static uint32_t epoch_positions(const struct hr_order *order)
{
    return hr_order_length(order) * order->replicas;
}

uint64_t hr_next_epoch_bytes(const struct hr_orders *orders)
{
    const struct hr_order *first = &orders->orders[0];
    return (orders->count + 1) * (uint64_t)first->n * sizeof(uint32_t) +
           hr_highest_bytes(orders->count * epoch_positions(first) + first->n);
}

int hr_next_epoch_begin(struct hr_next_epoch *next, const struct hr_orders *orders, uint32_t *permutations)
{
    const struct hr_order *first = &orders->orders[0];
    *next = (struct hr_next_epoch){.orders = *orders,
                                   .n = first->n,
                                   .replicas = first->replicas,
                                   .batch = first->batch ? first->batch : 1,
                                   .positions = orders->count * epoch_positions(first),
                                   .permutations = permutations};
    next->places = malloc((size_t)next->n * sizeof *next->places);
    if (!next->places || hr_highest_begin(&next->idle, next->positions + next->n, next->positions) < 0) {
        hr_next_epoch_end(next);
        return -ENOMEM;
    }
    memset(next->places, 0xff, (size_t)next->n * sizeof *next->places);
    return 0;
}

void hr_next_epoch_end(struct hr_next_epoch *next)
{
    free(next->permutations);
    free(next->places);
    hr_highest_end(&next->idle);
    *next = (struct hr_next_epoch){.positions = 0};
}

bool hr_next_epoch_is(const struct hr_next_epoch *next, const struct hr_orders *orders)
{
    bool same = next->orders.count == orders->count;
    for (unsigned i = 0; same && i < orders->count; i++) {
        same = hr_order_same_epoch(&orders->orders[i], &next->orders.orders[i]);
    }
    return same;
}

static uint32_t index_at(const struct hr_next_epoch *next, uint32_t position)
{
    uint32_t epoch_length = next->positions / next->orders.count;
    const uint32_t *permutation = next->permutations + (size_t)(position / epoch_length) * next->n;
    return permutation[position % epoch_length % next->n];
}

static uint32_t number_of(const struct hr_next_epoch *next, uint32_t index)
{
    return next->places[index] != NOWHERE ? next->places[index] : next->positions + index;
}

/* The same rank's next position. */
static uint32_t after(const struct hr_next_epoch *next, uint32_t position)
{
    bool turn = (position + 1) % next->batch == 0; /* the other ranks' batches come first */
    return position + 1 + (turn ? (next->replicas - 1) * next->batch : 0);
}

uint32_t hr_next_epoch_join(struct hr_next_epoch *next, uint32_t rank, uint32_t from, uint32_t count)
{
    uint32_t position = from + (from == 0 ? rank * next->batch : 0);
    for (; count > 0 && position < next->positions; count--, position = after(next, position)) {
        uint32_t index = index_at(next, position);
        if (position < next->places[index]) {
            hr_highest_remove(&next->idle, number_of(next, index));
            next->places[index] = position;
            hr_highest_add(&next->idle, position);
        }
    }
    return position < next->positions ? position : UINT32_MAX;
}

bool hr_next_epoch_reads(const struct hr_next_epoch *next, uint32_t rank, uint32_t index)
{
    return next->places[index] != NOWHERE && next->places[index] / next->batch % next->replicas == rank;
}

void hr_next_epoch_idle(struct hr_next_epoch *next, uint32_t index)
{
    hr_highest_add(&next->idle, number_of(next, index));
}

bool hr_next_epoch_find(struct hr_next_epoch *next, hr_future_there *is_free, void *owner,
                        uint32_t *ret_index)
{
    uint32_t number;
    for (unsigned i = 0; i < LOOK_NUMBERS && hr_highest_find(&next->idle, &number); i++) {
        uint32_t index = number < next->positions ? index_at(next, number) : number - next->positions;
        if (is_free(owner, index)) {
            *ret_index = index;
            return true;
        }
        hr_highest_remove(&next->idle, number);
    }
    return false;
}
