#include "fetch/plan/victims.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "fetch/plan/future.h"
#include "fetch/plan/inner.h"
#include "fetch/plan/order_lanes.h"
#include "fetch/plan/ranks.h"

struct hr_epoch_left {
    struct hr_epoch_left *next;
    uint64_t id;
    struct hr_plan_tree *tree;
    uint32_t gen;
    uint64_t base;
    struct hr_order order;
    const uint32_t *permutation;
    struct hr_future future;
};

static uint32_t index_at(const void *owner, uint32_t position)
{
    const struct hr_epoch_left *left = owner;
    return hr_order_at(&left->order, left->permutation, position);
}

static bool is_current(const struct hr_epoch_left *left)
{
    const struct hr_names *names = left->tree->index.names;
    return names && names->gen == left->gen && left->tree->ranks &&
           left->base + left->order.n <= hr_ranks_count(left->tree->ranks);
}

static uint32_t entry_of(const struct hr_epoch_left *left, uint32_t index)
{
    return hr_ranks_entry(left->tree->ranks, left->base + index);
}

/* Its place in the order, if it has one. */
static bool index_of(const struct hr_epoch_left *left, uint32_t entry, uint32_t *ret_index)
{
    uint64_t rank = hr_ranks_of(left->tree->ranks, entry);
    if (rank < left->base || rank - left->base >= left->order.n) {
        return false;
    }
    *ret_index = (uint32_t)(rank - left->base);
    return true;
}

void hr_victims_end(struct hr_plan *plan, uint64_t id)
{
    struct hr_epoch_left *left, *next;
    LL_FOREACH_SAFE(plan->epochs_left, left, next)
    {
        if (left->id == id) {
            LL_DELETE(plan->epochs_left, left);
            hr_future_end(&left->future);
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

void hr_victims_begin(struct hr_plan *plan, uint64_t id, struct hr_plan_tree *tree, uint64_t base,
                      const struct hr_order *order, const uint32_t *permutation, uint32_t begun)
{
    hr_victims_end(plan, id);
    struct hr_epoch_left *left = calloc(1, sizeof *left);
    if (!left) {
        return;
    }
    left->id = id;
    left->tree = tree;
    left->gen = tree->index.names ? tree->index.names->gen : 0;
    left->base = base;
    left->order = *order;
    left->permutation = permutation;
    left->future =
        (struct hr_future){.n = order->n, .length = hr_order_length(order), .at = index_at, .order = left};
    if (!is_current(left) || hr_future_begin(&left->future) < 0) {
        free(left);
        return;
    }
    LL_PREPEND(plan->epochs_left, left);
    for (uint32_t i = 0; i < begun && i < left->future.length; i++) {
        uint32_t index = index_at(left, i);
        if (!(tree->marks[entry_of(left, index)] & HR_ENTRY_ANNOUNCED)) {
            hr_future_read(&left->future, index);
        }
    }
}

void hr_victims_read(struct hr_plan_tree *tree, uint32_t entry)
{
    struct hr_epoch_left *left;
    LL_FOREACH(tree->plan->epochs_left, left)
    {
        uint32_t index;
        if (left->tree == tree && is_current(left) && index_of(left, entry, &index)) {
            hr_future_read(&left->future, index);
        }
    }
}

/* ---- which goes ---- */

static const struct hr_cached *file_of(const struct hr_epoch_left *left, uint32_t index)
{
    const struct hr_state *state = &left->tree->states->states[entry_of(left, index)];
    uint64_t file_id = atomic_load_explicit(&state->file_id, memory_order_relaxed);
    const struct hr_cached *cached = file_id ? hr_cache_by_id(left->tree->plan->cache, file_id) : NULL;
    return cached && cached->kind == HR_CACHED_WHOLE ? cached : NULL;
}

static bool is_free(void *owner, uint32_t index)
{
    const struct hr_epoch_left *left = owner;
    uint32_t entry = entry_of(left, index);
    const struct hr_state *state = &left->tree->states->states[entry];
    bool there = HR_STATE_KIND(atomic_load_explicit(&state->word, memory_order_relaxed)) == HR_STATE_RESIDENT;
    return there && !(left->tree->marks[entry] & (HR_ENTRY_ANNOUNCED | HR_ENTRY_SWEPT)) &&
           file_of(left, index);
}

/* An epoch that still needs the object. */
static struct hr_epoch_left *needer_of(struct hr_plan *plan, const struct hr_cached *cached)
{
    struct hr_epoch_left *left;
    LL_FOREACH(plan->epochs_left, left)
    {
        uint32_t entry, index;
        if (!is_current(left) || memcmp(&left->tree->source, &cached->source, sizeof cached->source) != 0 ||
            !hr_tree_entry_of(left->tree, cached->key, cached->key_len, &entry)) {
            continue;
        }
        if (index_of(left, entry, &index) && hr_future_needs(&left->future, index)) {
            return left;
        }
    }
    return NULL;
}

/* Of all epochs over that tree: several ranks share it. */
static const struct hr_cached *read_of(struct hr_plan *plan, const struct hr_plan_tree *tree)
{
    struct hr_epoch_left *left;
    uint32_t index;
    LL_FOREACH(plan->epochs_left, left)
    {
        if (left->tree == tree && is_current(left) &&
            hr_future_find_read(&left->future, is_free, left, &index)) {
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
        if (left->tree == tree && is_current(left) &&
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
    const struct hr_epoch_left *left = plan->epochs_left ? needer_of(plan, victim) : NULL;
    if (!left) {
        return NULL;
    }
    const struct hr_cached *read = read_of(plan, left->tree);
    const struct hr_cached *last = read ? NULL : last_of(plan, left->tree);
    last = last == victim ? NULL : last;
    plan->stats.victims_read += read != NULL;
    plan->stats.victims_last += last != NULL;
    return read ? read : last;
}
