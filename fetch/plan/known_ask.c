/* What an epoch's notes say, in the search's words. */
#include "fetch/plan/known_epoch.h"

#include <stdlib.h>

#include "fetch/plan/ranks.h"

#define WALK_LEAST 6 /* so many that ascend are hardly shuffled... */
#define WALK_STEP 8  /* ...and fewer, where each is so near to the last */

static int by_position(const void *a, const void *b)
{
    const struct hr_order_seen *one = a, *other = b;
    return (one->position > other->position) - (one->position < other->position);
}

bool hr_epoch_ascends(const struct hr_epoch *epoch)
{
    unsigned i = 1;
    while (i < epoch->note_count && epoch->notes[i - 1].index < epoch->notes[i].index) {
        i++;
    }
    return i >= epoch->note_count;
}

static bool fits_memory(uint64_t n)
{
    return n < HR_TORCH_SMALL_MAX && n * sizeof(uint32_t) <= HR_KNOWN_ORDERS_BYTES_MAX;
}

/* ---- announced: the base is known, the set ends with a directory that holds it ---- */

static void list_announced(const struct hr_epoch *epoch, struct hr_order_set *set)
{
    for (unsigned i = 0; i < epoch->note_count; i++) {
        const struct hr_epoch_note *note = &epoch->notes[i];
        uint64_t position = (uint64_t)note->number * epoch->batch_size + note->at;
        if (position < HR_TORCH_PREFIX_MAX) {
            set->seen[set->seen_count++] = (struct hr_order_seen){(uint32_t)position, note->index};
        }
    }
    qsort(set->seen, set->seen_count, sizeof set->seen[0], by_position);
}

static void ask_announced(const struct hr_epoch *epoch, struct hr_order_ask *ask)
{
    const struct hr_index *index = &epoch->tree->index;
    uint32_t dir = hr_index_parent(index, hr_ranks_entry(epoch->tree->ranks, epoch->base));
    while (ask->set_count < HR_ORDER_SETS_MAX) {
        uint64_t n =
            hr_ranks_of(epoch->tree->ranks, hr_index_end(index, index->dirs[dir].entry)) - epoch->base;
        bool known = ask->set_count > 0 && ask->sets[ask->set_count - 1].n == n;
        if (n > epoch->highest && !known && fits_memory(n)) {
            struct hr_order_set *set = &ask->sets[ask->set_count++];
            set->n = (uint32_t)n;
            list_announced(epoch, set);
        }
        if (dir == 0) {
            break;
        }
        dir = index->dirs[dir].parent < dir ? index->dirs[dir].parent : 0;
    }
}

/* ---- opens: the set is a directory that holds the last; what lies beside it does not count ---- */

static void list_opened(const struct hr_epoch *epoch, uint32_t base, struct hr_order_set *set)
{
    set->base = base;
    for (unsigned i = 0; i < epoch->note_count; i++) {
        uint32_t rank = epoch->notes[i].index;
        set->before += i < epoch->asked && rank >= base && rank - base < set->n;
        if (rank >= base && rank - base < set->n) {
            set->seen[set->seen_count] = (struct hr_order_seen){set->seen_count, rank - base};
            set->seen_count++;
        }
    }
}

static void ask_opened(const struct hr_epoch *epoch, struct hr_order_ask *ask)
{
    const struct hr_index *index = &epoch->tree->index;
    const struct hr_ranks *ranks = epoch->tree->ranks;
    uint32_t dir = hr_index_parent(index, hr_ranks_entry(ranks, epoch->last_rank));
    uint64_t last = 0;
    while (ask->set_count < HR_ORDER_SETS_MAX) {
        uint64_t base = hr_ranks_of(ranks, index->dirs[dir].first);
        uint64_t n = hr_ranks_of(ranks, hr_index_end(index, index->dirs[dir].entry)) - base;
        if (n > last && fits_memory(n)) {
            struct hr_order_set *set = &ask->sets[ask->set_count];
            set->n = (uint32_t)n;
            list_opened(epoch, (uint32_t)base, set);
            if (set->seen_count >= 2) {
                ask->set_count++;
                last = n;
            } else {
                *set = (struct hr_order_set){0};
            }
        }
        if (dir == 0) {
            break;
        }
        dir = index->dirs[dir].parent < dir ? index->dirs[dir].parent : 0;
    }
}

static bool walks(const struct hr_epoch *epoch)
{
    const struct hr_epoch_note *notes = epoch->notes;
    unsigned near = 1;
    while (near < epoch->note_count && notes[near].index - notes[near - 1].index <= WALK_STEP) {
        near++;
    }
    return near >= epoch->note_count || (epoch->note_count >= WALK_LEAST && hr_epoch_ascends(epoch));
}

bool hr_epoch_ask(const struct hr_epoch *epoch, struct hr_order_ask *ask)
{
    struct hr_order_search search;
    ask->deep = epoch->note_count >= HR_KNOWN_DEEP;
    if (!epoch->opens) {
        ask_announced(epoch, ask);
        return ask->deep && ask->set_count > 0;
    }
    if (walks(epoch)) {
        return false;
    }
    ask_opened(epoch, ask);
    hr_order_search_begin(&search, ask);
    return ask->set_count > 0 && (ask->deep || search.phase != HR_ORDER_PHASES);
}

bool hr_epoch_agrees(struct hr_epoch *epoch, const struct hr_order *order, const uint32_t *permutation,
                     uint32_t base)
{
    uint32_t length = hr_order_length(order), position = 0, at = 0;
    for (unsigned i = 0; i < epoch->note_count; i++) {
        uint32_t rank = epoch->notes[i].index;
        if (rank >= base && rank - base < order->n) {
            if (position >= length || hr_order_at(order, permutation, position) != rank - base) {
                return false;
            }
            position++;
        }
    }
    epoch->agreed = position;
    epoch->position = position;
    if (epoch->note_count == HR_ORDER_SEEN_MAX && epoch->last_rank >= base) {
        while (at < length && hr_order_at(order, permutation, at) != epoch->last_rank - base) {
            at++;
        }
        epoch->position = at < length && at >= position ? at + 1 : position;
    }
    return true;
}
