#include "fetch/plan/victims.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "fetch/plan/dataset.h"
#include "fetch/plan/future.h"
#include "fetch/plan/inner.h"
#include "fetch/plan/next_epoch.h"
#include "fetch/plan/order_lanes.h"
#include "fetch/plan/ranks.h"

#define NEXT_BYTES_MAX (64ull << 20) /* of all that is predicted, two generations of it; ours */
#define JOIN_POSITIONS 4096u         /* noted with each read: 0.2 ms */
/* Somebody is about to open it. */
#define NOT_FREE (HR_ENTRY_ANNOUNCED | HR_ENTRY_SWEPT | HR_ENTRY_AWAITED)

/* Predicted epochs, for all ranks of a job. */
struct hr_epoch_next {
    struct hr_epoch_next *next;
    struct hr_dataset data;
    unsigned users; /* epochs before it */
    struct hr_next_epoch epoch;
};

struct hr_epoch_left {
    struct hr_epoch_left *next;
    uint64_t id;
    struct hr_dataset data;
    struct hr_order order;
    const uint32_t *permutation;
    struct hr_future future;
    uint64_t *told; /* a bit an index: it was announced; NULL: nothing is, whatever is opened counts */
    bool rests;
    uint64_t heard_at; /* tree->noted then; as many opens of others as it has files: it has ended */
    struct hr_epoch_next *then;
    uint32_t then_rank, then_joined; /* as hr_next_epoch_join has it */
};

static uint32_t index_at(const void *owner, uint32_t position)
{
    const struct hr_epoch_left *left = owner;
    return hr_order_at(&left->order, left->permutation, position);
}

static bool is_current(const struct hr_epoch_left *left)
{
    return hr_dataset_is_current(&left->data) && hr_dataset_invert(&left->data) &&
           left->data.tree->noted - left->heard_at <= left->order.n;
}

/* What it needs is kept. */
static bool is_active(const struct hr_epoch_left *left)
{
    return is_current(left) && !left->rests;
}

static uint32_t entry_of(const struct hr_epoch_left *left, uint32_t index)
{
    return hr_dataset_entry(&left->data, index, 0);
}

/* Its place in the order, if it has one. */
static bool index_of(const struct hr_epoch_left *left, uint32_t entry, uint32_t *ret_index)
{
    *ret_index = hr_dataset_index(&left->data, entry);
    return *ret_index < left->order.n;
}

static void end_next(struct hr_plan *plan, struct hr_epoch_left *left)
{
    struct hr_epoch_next *then = left->then;
    left->then = NULL;
    if (then && --then->users == 0) {
        LL_DELETE(plan->epochs_next, then);
        hr_next_epoch_end(&then->epoch);
        free(then);
    }
}

void hr_victims_end(struct hr_plan *plan, uint64_t id)
{
    struct hr_epoch_left *left, *next;
    LL_FOREACH_SAFE(plan->epochs_left, left, next)
    {
        if (left->id == id) {
            LL_DELETE(plan->epochs_left, left);
            end_next(plan, left);
            hr_future_end(&left->future);
            free(left->told);
            free(left);
        }
    }
}

void hr_victims_free(struct hr_plan *plan)
{
    while (plan->epochs_left) {
        hr_victims_end(plan, plan->epochs_left->id);
    }
}

void hr_victims_begin(struct hr_plan *plan, uint64_t id, const struct hr_dataset *data,
                      const struct hr_order *order, const uint32_t *permutation, bool by_batches)
{
    hr_victims_end(plan, id);
    struct hr_epoch_left *left = calloc(1, sizeof *left);
    if (!left) {
        return;
    }
    left->id = id;
    left->data = *data;
    left->order = *order;
    left->permutation = permutation;
    left->heard_at = data->tree->noted;
    left->future =
        (struct hr_future){.n = order->n, .length = hr_order_length(order), .at = index_at, .order = left};
    if (!is_current(left) || hr_future_begin(&left->future) < 0) {
        free(left);
        return;
    }
    left->told = by_batches ? calloc((size_t)order->n / 64 + 1, sizeof *left->told) : NULL;
    LL_PREPEND(plan->epochs_left, left);
}

static void set_told(struct hr_epoch_left *left, uint32_t index)
{
    if (left->told && index < left->order.n) {
        left->told[index / 64] |= UINT64_C(1) << index % 64;
    }
}

/* It was announced, and not read since. */
static bool awaits(const struct hr_epoch_left *left, uint32_t index)
{
    return left->told && left->told[index / 64] >> index % 64 & 1 && hr_future_needs(&left->future, index);
}

void hr_victims_begun(struct hr_plan *plan, uint64_t id, uint32_t first, uint32_t count)
{
    struct hr_epoch_left *left;
    LL_SEARCH_SCALAR(plan->epochs_left, left, id, id);
    for (uint32_t i = 0; left && is_current(left) && i < count && first + i < left->future.length; i++) {
        uint32_t index = index_at(left, first + i), entry = entry_of(left, index);
        set_told(left, index);
        if (entry != HR_TABLE_NONE &&
            !(left->data.tree->marks[entry] & (HR_ENTRY_ANNOUNCED | HR_ENTRY_AWAITED))) {
            hr_future_read(&left->future, index);
        }
    }
}

/* ---- the epoch after it ---- */

static uint64_t next_bytes(const struct hr_plan *plan)
{
    const struct hr_epoch_next *then;
    uint64_t bytes = 0;
    LL_FOREACH(plan->epochs_next, then)
    {
        bytes += hr_next_epoch_bytes(&then->epoch.orders);
    }
    return bytes;
}

unsigned hr_victims_foresee(const struct hr_order *order)
{
    struct hr_orders orders = {.orders = {*order}};
    orders.count = order->replicas < HR_PREDICT_MOST ? order->replicas : HR_PREDICT_MOST;
    while (orders.count > 0 && hr_next_epoch_bytes(&orders) > NEXT_BYTES_MAX / 2) {
        orders.count--;
    }
    return orders.count;
}

static struct hr_epoch_next *next_of(struct hr_plan *plan, const struct hr_epoch_left *left,
                                     const struct hr_orders *orders)
{
    struct hr_epoch_next *then;
    LL_FOREACH(plan->epochs_next, then)
    {
        if (hr_dataset_is(&then->data, &left->data) && hr_next_epoch_is(&then->epoch, orders)) {
            return then;
        }
    }
    return NULL;
}

static struct hr_epoch_next *make_next(struct hr_plan *plan, const struct hr_epoch_left *left,
                                       const struct hr_orders *orders, uint32_t *permutations)
{
    bool fits = next_bytes(plan) + hr_next_epoch_bytes(orders) <= NEXT_BYTES_MAX;
    struct hr_epoch_next *then = fits ? calloc(1, sizeof *then) : NULL;
    if (!then) {
        free(permutations);
        return NULL;
    }
    if (hr_next_epoch_begin(&then->epoch, orders, permutations) < 0) {
        free(then);
        return NULL;
    }
    then->data = left->data;
    LL_PREPEND(plan->epochs_next, then);
    return then;
}

static void join(struct hr_epoch_left *left)
{
    if (left->then && left->then_joined != UINT32_MAX) {
        left->then_joined =
            hr_next_epoch_join(&left->then->epoch, left->then_rank, left->then_joined, JOIN_POSITIONS);
    }
}

bool hr_victims_next(struct hr_plan *plan, uint64_t id, const struct hr_orders *orders,
                     uint32_t *permutations)
{
    struct hr_epoch_left *left;
    LL_SEARCH_SCALAR(plan->epochs_left, left, id, id);
    struct hr_epoch_next *then = left ? next_of(plan, left, orders) : NULL;
    if (!left || left->then || then) {
        free(permutations);
    } else if (permutations) {
        then = make_next(plan, left, orders, permutations);
    } else {
        return false;
    }
    if (left && !left->then && then) {
        left->then = then;
        left->then_rank = orders->orders[0].rank;
        left->then_joined = 0;
        then->users++;
        join(left);
        plan->stats.next_orders++;
    }
    return true;
}

void hr_victims_heard(struct hr_plan *plan, uint64_t id, const uint32_t *indices, uint32_t count)
{
    struct hr_epoch_left *left;
    LL_SEARCH_SCALAR(plan->epochs_left, left, id, id);
    if (left) {
        left->heard_at = left->data.tree->noted;
        left->rests = false;
    }
    for (uint32_t i = 0; left && i < count; i++) {
        set_told(left, indices[i]);
    }
}

void hr_victims_rest(struct hr_plan *plan, uint64_t id)
{
    struct hr_epoch_left *left;
    LL_SEARCH_SCALAR(plan->epochs_left, left, id, id);
    if (left) {
        left->rests = true;
    }
}

static bool is_of(const struct hr_epoch_left *left, const struct hr_plan_tree *tree, uint32_t entry,
                  uint32_t *ret_index)
{
    return left->data.tree == tree && is_current(left) && index_of(left, entry, ret_index);
}

/* Two loaders of a set read it once each: it is of the one that told its workers to. */
void hr_victims_read(struct hr_plan_tree *tree, uint32_t entry)
{
    struct hr_epoch_left *left;
    uint32_t index;
    bool awaited = false;
    LL_FOREACH(tree->plan->epochs_left, left)
    {
        awaited |= is_of(left, tree, entry, &index) && awaits(left, index);
    }
    LL_FOREACH(tree->plan->epochs_left, left)
    {
        if (is_of(left, tree, entry, &index) && (!awaited || !left->told || awaits(left, index))) {
            hr_future_read(&left->future, index);
            if (left->then) {
                join(left);
                hr_next_epoch_idle(&left->then->epoch, index);
            }
        }
    }
}

/* ---- which goes ---- */

static const struct hr_cached *file_of(const struct hr_epoch_left *left, uint32_t index)
{
    uint32_t entry = entry_of(left, index);
    const struct hr_plan_tree *tree = left->data.tree;
    uint64_t file_id = entry == HR_TABLE_NONE
                           ? 0
                           : atomic_load_explicit(&tree->states->states[entry].file_id, memory_order_relaxed);
    const struct hr_cached *cached = file_id ? hr_cache_by_id(tree->plan->cache, file_id) : NULL;
    return cached && cached->kind == HR_CACHED_WHOLE ? cached : NULL;
}

static bool is_free(void *owner, uint32_t index)
{
    const struct hr_epoch_left *left = owner;
    const struct hr_plan_tree *tree = left->data.tree;
    uint32_t entry = entry_of(left, index);
    if (entry == HR_TABLE_NONE) {
        return false;
    }
    uint32_t word = atomic_load_explicit(&tree->states->states[entry].word, memory_order_relaxed);
    return HR_STATE_KIND(word) == HR_STATE_RESIDENT && !(tree->marks[entry] & NOT_FREE) &&
           file_of(left, index);
}

/* Is it of the epoch's set? */
static bool shuffles(const struct hr_epoch_left *left, const struct hr_cached *cached, uint32_t *ret_index)
{
    uint32_t entry;
    return is_active(left) && hr_tree_has_source(left->data.tree, cached->source) &&
           hr_tree_entry_of(left->data.tree, hr_cached_key(cached), cached->key_len, &entry) &&
           index_of(left, entry, ret_index);
}

/* An epoch that still needs the object. */
static struct hr_epoch_left *needer_of(struct hr_plan *plan, const struct hr_cached *cached)
{
    struct hr_epoch_left *left;
    LL_FOREACH(plan->epochs_left, left)
    {
        uint32_t index;
        if (shuffles(left, cached, &index) && hr_future_needs(&left->future, index)) {
            return left;
        }
    }
    return NULL;
}

/* No rank needs it in this epoch, and none that is an epoch behind in the one that it is about to begin. */
static bool is_idle(void *owner, uint32_t index)
{
    const struct hr_epoch_left *asks = owner, *left;
    if (!is_free(owner, index)) {
        return false;
    }
    uint32_t entry = entry_of(asks, index), here;
    LL_FOREACH(asks->data.tree->plan->epochs_left, left)
    {
        if (left->data.tree != asks->data.tree || !is_active(left) || !index_of(left, entry, &here)) {
            continue;
        }
        if (hr_future_needs(&left->future, here) ||
            (left->then && left->then != asks->then &&
             hr_next_epoch_reads(&left->then->epoch, left->then_rank, here))) {
            return false;
        }
    }
    return true;
}

/* Of the set that the victim is of, what the next epoch reads last or not at all. The ranks that are ahead
 * come first. */
static const struct hr_cached *farthest_of(struct hr_plan *plan, const struct hr_cached *victim)
{
    struct hr_epoch_left *left;
    uint32_t index;
    LL_FOREACH(plan->epochs_left, left)
    {
        if (left->then && shuffles(left, victim, &index) &&
            hr_next_epoch_find(&left->then->epoch, is_idle, left, &index)) {
            return file_of(left, index);
        }
    }
    return NULL;
}

/* Of two loaders of one set both read it: it is needed until the second one has. */
static bool is_done(void *owner, uint32_t index)
{
    const struct hr_epoch_left *asks = owner, *left;
    bool done = is_free(owner, index);
    uint32_t entry = entry_of(asks, index), here;
    LL_FOREACH(asks->data.tree->plan->epochs_left, left)
    {
        done = done && !(left != asks && left->data.tree == asks->data.tree && is_active(left) &&
                         index_of(left, entry, &here) && hr_future_needs(&left->future, here));
    }
    return done;
}

/* Of all epochs over that tree: several ranks share it. */
static const struct hr_cached *read_of(struct hr_plan *plan, const struct hr_plan_tree *tree)
{
    struct hr_epoch_left *left;
    uint32_t index;
    LL_FOREACH(plan->epochs_left, left)
    {
        if (left->data.tree == tree && is_current(left) &&
            hr_future_find_read(&left->future, is_done, left, &index)) {
            return file_of(left, index);
        }
    }
    return NULL;
}

static const struct hr_cached *last_of(struct hr_plan *plan, const struct hr_plan_tree *tree)
{
    struct hr_epoch_left *left;
    const struct hr_cached *last = NULL;
    uint32_t index, distance = 0;
    LL_FOREACH(plan->epochs_left, left)
    {
        if (left->data.tree == tree && is_active(left) &&
            hr_future_find_last(&left->future, is_free, left, &index) &&
            hr_future_distance(&left->future) >= distance) {
            distance = hr_future_distance(&left->future);
            last = file_of(left, index);
        }
    }
    return last;
}

const struct hr_cached *hr_plan_needed_later(void *owner, const struct hr_cached *victim)
{
    struct hr_plan *plan = owner;
    const struct hr_cached *farthest = plan->epochs_next ? farthest_of(plan, victim) : NULL;
    if (farthest) {
        plan->stats.victims_next += farthest != victim;
        return farthest != victim ? farthest : NULL;
    }
    const struct hr_epoch_left *left = plan->epochs_left ? needer_of(plan, victim) : NULL;
    if (!left) {
        return NULL;
    }
    const struct hr_cached *read = read_of(plan, left->data.tree);
    const struct hr_cached *last = read ? NULL : last_of(plan, left->data.tree);
    last = last == victim ? NULL : last;
    plan->stats.victims_read += read != NULL;
    plan->stats.victims_last += last != NULL;
    return read ? read : last;
}
