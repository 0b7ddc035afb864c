/* What to ask the search about an epoch, and when. */
#include "fetch/plan/known_epoch.h"

#include <stdlib.h>
#include <string.h>

#include "fetch/plan/ranks.h"

#define MISSES_MAX 3 /* searches for nothing, before a loader is taken for one whose sampler is another */
#define WALK_LEAST 6 /* so many that ascend are hardly shuffled... */
#define WALK_STEP 8  /* ...and fewer, where each is so near to the last */
#define MOST_CANDIDATES (4294967296.0 * HR_ORDER_SETS_MAX) /* of any phase of the search */

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

/* ---- announced: of a base the set ends with a directory that holds it, a table is all of it ---- */

/* The first batch by itself, if it is enough for any search: where ranks take batches by turns nobody knows
 * yet where the others are. */
static bool suffices(const struct hr_epoch *epoch, uint32_t n)
{
    unsigned count = 0;
    while (count < epoch->note_count && epoch->notes[count].number == 0) {
        count++;
    }
    return count >= hr_order_needed(n, MOST_CANDIDATES);
}

/* Of a table: one more than the highest index that was told of it. */
static uint32_t size_of(const struct hr_epoch *epoch)
{
    uint32_t size = hr_dataset_size(&epoch->data);
    return epoch->data.table && size <= epoch->highest ? epoch->highest + 1 : size;
}

static void list_announced(const struct hr_epoch *epoch, struct hr_order_set *set)
{
    bool first = suffices(epoch, set->n);
    for (unsigned i = 0; i < epoch->note_count; i++) {
        const struct hr_epoch_note *note = &epoch->notes[i];
        uint64_t position = (uint64_t)hr_epoch_first(epoch, note->number) + note->at;
        if (position < HR_TORCH_PREFIX_MAX && (!first || note->number == 0)) {
            set->seen[set->seen_count++] = (struct hr_order_seen){(uint32_t)position, note->index};
        }
    }
    qsort(set->seen, set->seen_count, sizeof set->seen[0], by_position);
}

static void add_announced(const struct hr_epoch *epoch, struct hr_order_ask *ask, uint64_t n)
{
    bool known = ask->set_count > 0 && ask->sets[ask->set_count - 1].n == n;
    if (n > epoch->highest && !known && fits_memory(n)) {
        struct hr_order_set *set = &ask->sets[ask->set_count++];
        set->n = (uint32_t)n;
        list_announced(epoch, set);
    }
}

static void ask_announced(const struct hr_epoch *epoch, struct hr_order_ask *ask)
{
    const struct hr_dataset *data = &epoch->data;
    const struct hr_index *index = &data->tree->index;
    if (data->table) {
        add_announced(epoch, ask, size_of(epoch));
        return;
    }
    uint32_t dir = hr_index_parent(index, hr_ranks_entry(data->tree->ranks, data->base));
    while (ask->set_count < HR_ORDER_SETS_MAX) {
        uint32_t end = hr_index_end(index, index->dirs[dir].entry);
        add_announced(epoch, ask, hr_ranks_of(data->tree->ranks, end) - data->base);
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
    const struct hr_index *index = &epoch->data.tree->index;
    const struct hr_ranks *ranks = epoch->data.tree->ranks;
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
        ask->batch = epoch->batch_size;
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

void hr_known_remember(struct hr_knowns *knowns, const struct hr_order *order)
{
    unsigned at = 0;
    while (at < knowns->recent_count && memcmp(&knowns->recent[at], order, sizeof *order) != 0) {
        at++;
    }
    if (at == knowns->recent_count) {
        at = at < HR_ORDER_RECENT_MAX ? knowns->recent_count++ : HR_ORDER_RECENT_MAX - 1;
    }
    memmove(knowns->recent + 1, knowns->recent, at * sizeof knowns->recent[0]);
    knowns->recent[0] = *order;
}

void hr_known_ask(struct hr_plan *plan, struct hr_epoch *epoch)
{
    struct hr_knowns *knowns = plan->knowns;
    struct hr_order_ask ask = {.recent_count = knowns->recent_count};
    memcpy(ask.recent, knowns->recent, sizeof ask.recent);
    bool deep = epoch->note_count >= HR_KNOWN_DEEP;
    bool worth = hr_epoch_ask(epoch, &ask);
    uint32_t size = size_of(epoch);
    epoch->misses = size == epoch->missed_size ? epoch->misses : 0;
    epoch->missed_size = size;
    if (epoch->misses >= MISSES_MAX || (deep && (!worth || hr_epoch_ascends(epoch)))) {
        epoch->state = HR_EPOCH_OTHER;
    } else if (worth && hr_order_searcher_ask(knowns->searcher, epoch->id, &ask) == 0) {
        for (unsigned i = 0; i < ask.set_count; i++) {
            epoch->bases[i] = ask.sets[i].base;
        }
        plan->stats.order_searches += epoch->asked == 0;
        epoch->state = HR_EPOCH_ASKED;
        epoch->asked = epoch->note_count;
        epoch->knew = plan->stats.known_orders;
        epoch->by_news = false;
    } /* busy, or too little: with the next */
}

void hr_known_ask_by_news(struct hr_plan *plan, struct hr_epoch *epoch)
{
    struct hr_knowns *knowns = plan->knowns;
    struct hr_order_ask ask = {.recent_count = knowns->recent_count, .news = true};
    memcpy(ask.recent, knowns->recent, sizeof ask.recent);
    if (epoch->opens || epoch->knew == plan->stats.known_orders || epoch->note_count < HR_KNOWN_DEEP ||
        !hr_dataset_is_current(&epoch->data) || hr_epoch_ascends(epoch) || !hr_epoch_ask(epoch, &ask)) {
        return;
    }
    ask.deep = false;
    for (unsigned i = 0; i < ask.set_count; i++) {
        ask.sets[i].before = ask.sets[i].seen_count;
    }
    if (hr_order_searcher_ask(knowns->searcher, epoch->id, &ask) == 0) {
        epoch->state = HR_EPOCH_ASKED;
        epoch->knew = plan->stats.known_orders;
        epoch->by_news = true;
    }
}

void hr_known_tell_others(struct hr_plan *plan, const struct hr_epoch *news)
{
    for (unsigned i = 0; i < HR_KNOWN_EPOCHS_MAX; i++) {
        struct hr_epoch *epoch = &plan->knowns->epochs[i];
        if (epoch->state == HR_EPOCH_OTHER && epoch->missed && hr_dataset_is(&epoch->data, &news->data) &&
            epoch->loader != news->loader) {
            hr_known_ask_by_news(plan, epoch);
        }
    }
}
