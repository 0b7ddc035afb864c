#include "fetch/plan/known.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "fetch/plan/inner.h"
#include "fetch/plan/order_thread.h"
#include "fetch/plan/ranks.h"

#define EPOCHS_MAX 16                   /* loaders at a time: 8 ranks, train and val */
#define ORDERS_BYTES_MAX (128ull << 20) /* of all known orders together; the oldest goes first */
#define SEEN_LEAST 10     /* indices before a search: more than are needed, so that no lie passes */
#define QUEUE_MAX 4096    /* wants that wait: the rest of an epoch leaves room for what is announced */
#define FIRST_NUMBERS 256 /* batches that tell one epoch from the next */
#define MISSES_MAX 3 /* searches for nothing, before a loader is taken for one whose sampler is another */
#define SEED_BITS 32
#define ADVANCE_MAX 16384 /* entries looked at in one go: the loop must not stall */

enum epoch_state { EPOCH_NEW, EPOCH_ASKED, EPOCH_KNOWN, EPOCH_OTHER };

struct note {
    uint32_t number, at, index;
};

/* What one loader does in one epoch. */
struct epoch {
    uint64_t id; /* of its search; 0: free */
    struct hr_plan_tree *tree;
    uint32_t gen;
    uint64_t base;
    uint32_t loader;
    enum epoch_state state;
    unsigned misses;     /* searches in a row that found nothing, over epochs */
    uint32_t batch_size; /* the largest seen: the last of an epoch is smaller */
    uint32_t highest;    /* index */
    struct note notes[HR_ORDER_SEEN_MAX];
    unsigned note_count;
    uint32_t last_number;                 /* of a batch: the highest */
    uint64_t numbers[FIRST_NUMBERS / 64]; /* which of the first came */
    struct hr_order order;
    uint32_t *permutation;
    uint32_t next;   /* position that was not asked for */
    uint64_t agreed; /* indices that were what the known order has */
};

struct hr_knowns {
    struct hr_order_searcher *searcher;
    struct epoch epochs[EPOCHS_MAX];
    uint64_t last_id;
    struct hr_order recent[HR_ORDER_RECENT_MAX]; /* the newest first */
    unsigned recent_count;
    uint64_t shown; /* id of the epoch that became known last */
};

static bool is_current(const struct epoch *epoch)
{
    const struct hr_names *names = epoch->tree->index.names;
    return names && names->gen == epoch->gen && epoch->tree->ranks;
}

static void forget(struct hr_plan *plan, struct epoch *epoch)
{
    if (epoch->state == EPOCH_ASKED) {
        hr_order_searcher_cancel(plan->knowns->searcher, epoch->id);
    }
    free(epoch->permutation);
    *epoch = (struct epoch){0};
}

void hr_known_free(struct hr_plan *plan)
{
    if (!plan->knowns) {
        return;
    }
    for (unsigned i = 0; i < EPOCHS_MAX; i++) {
        free(plan->knowns->epochs[i].permutation);
    }
    if (plan->knowns->searcher) {
        hr_loop_unwatch(plan->options.loop, hr_order_searcher_fd(plan->knowns->searcher));
        hr_order_searcher_free(plan->knowns->searcher);
    }
    free(plan->knowns);
    plan->knowns = NULL;
}

/* ---- asking ---- */

/* The data set begins at its base and ends with a directory that holds it. */
static void list_sizes(const struct epoch *epoch, struct hr_order_ask *ask)
{
    const struct hr_index *index = &epoch->tree->index;
    uint32_t dir = hr_index_parent(index, hr_ranks_entry(epoch->tree->ranks, epoch->base));
    while (ask->size_count < HR_ORDER_SIZES_MAX) {
        uint64_t n =
            hr_ranks_of(epoch->tree->ranks, hr_index_end(index, index->dirs[dir].entry)) - epoch->base;
        bool known = ask->size_count > 0 && ask->sizes[ask->size_count - 1] == n;
        if (n > epoch->highest && !known && n < HR_TORCH_SMALL_MAX &&
            n * sizeof(uint32_t) <= ORDERS_BYTES_MAX) {
            ask->sizes[ask->size_count++] = (uint32_t)n;
        }
        if (dir == 0) {
            break;
        }
        dir = index->dirs[dir].parent < dir ? index->dirs[dir].parent : 0;
    }
}

static int by_position(const void *a, const void *b)
{
    const struct hr_order_seen *one = a, *other = b;
    return (one->position > other->position) - (one->position < other->position);
}

static void list_seen(const struct epoch *epoch, struct hr_order_ask *ask)
{
    for (unsigned i = 0; i < epoch->note_count; i++) {
        const struct note *note = &epoch->notes[i];
        uint64_t position = (uint64_t)note->number * epoch->batch_size + note->at;
        if (position < HR_TORCH_PREFIX_MAX) {
            ask->seen[ask->seen_count++] = (struct hr_order_seen){(uint32_t)position, note->index};
        }
    }
    qsort(ask->seen, ask->seen_count, sizeof ask->seen[0], by_position);
}

/* Not shuffled. */
static bool ascends(const struct hr_order_ask *ask)
{
    unsigned i = 1;
    while (i < ask->seen_count && ask->seen[i - 1].index < ask->seen[i].index) {
        i++;
    }
    return i >= ask->seen_count;
}

static void on_results(void *owner, int fd, uint32_t events);

static struct hr_knowns *knowns_of(struct hr_plan *plan)
{
    if (!plan->knowns && (plan->knowns = calloc(1, sizeof *plan->knowns))) {
        struct hr_knowns *knowns = plan->knowns;
        if (hr_order_searcher_new(plan->options.order_search, &knowns->searcher) < 0 ||
            hr_loop_watch(plan->options.loop, hr_order_searcher_fd(knowns->searcher), EPOLLIN, on_results,
                          plan) < 0) {
            hr_order_searcher_free(knowns->searcher);
            free(knowns);
            plan->knowns = NULL;
        }
    }
    return plan->knowns;
}

static void ask_for(struct hr_plan *plan, struct epoch *epoch)
{
    struct hr_knowns *knowns = plan->knowns;
    struct hr_order_ask ask = {.recent_count = knowns->recent_count};
    memcpy(ask.recent, knowns->recent, sizeof ask.recent);
    list_seen(epoch, &ask);
    list_sizes(epoch, &ask);
    if (ask.seen_count < SEEN_LEAST || ask.size_count == 0 || epoch->misses >= MISSES_MAX || ascends(&ask)) {
        epoch->state = EPOCH_OTHER;
    } else if (hr_order_searcher_ask(knowns->searcher, epoch->id, &ask) == 0) {
        epoch->state = EPOCH_ASKED;
        plan->stats.order_searches++;
    } /* busy: with the next batch */
}

/* ---- knowing ---- */

/* False: the bound is reached, this one comes later. What is there already is touched when it is announced:
 * in order of need and this early, what is needed first would leave the cache first. */
static bool bring(struct hr_plan *plan, const struct epoch *epoch, uint32_t index)
{
    struct hr_plan_tree *tree = epoch->tree;
    uint32_t entry = hr_ranks_entry(tree->ranks, epoch->base + index);
    uint64_t before = tree->swept_bytes, size = tree->index.entries[entry].size;
    uint32_t word = atomic_load_explicit(&tree->states->states[entry].word, memory_order_relaxed);
    if (HR_STATE_KIND(word) != HR_STATE_ABSENT || size > plan->options.small_max_bytes) {
        return true;
    }
    (void)hr_sweep_ahead(tree, entry, HR_REASON_LOOKAHEAD);
    if (tree->swept_bytes != before) {
        plan->stats.known_ahead++;
        return true;
    }
    char path[HR_KEY_MAX + 1];
    int len = hr_index_path(&tree->index, entry, path, sizeof path);
    return size == 0 || len < 0 || hr_want_find(tree, path, (uint32_t)len);
}

static void advance(struct hr_plan *plan, struct epoch *epoch)
{
    uint32_t length = hr_order_length(&epoch->order);
    if (plan->ending || !is_current(epoch) || !epoch->tree->settings.prefetch) {
        return;
    }
    for (unsigned i = 0; i < ADVANCE_MAX && epoch->next < length && plan->stats.queued < QUEUE_MAX; i++) {
        if (!bring(plan, epoch, hr_order_at(&epoch->order, epoch->permutation, epoch->next))) {
            return;
        }
        epoch->next++;
    }
}

void hr_known_advance(struct hr_plan *plan)
{
    for (unsigned i = 0; plan->knowns && i < EPOCHS_MAX; i++) {
        if (plan->knowns->epochs[i].state == EPOCH_KNOWN) {
            advance(plan, &plan->knowns->epochs[i]);
        }
    }
}

static void remember(struct hr_knowns *knowns, const struct hr_order *order)
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

static void keep_memory_bounded(struct hr_plan *plan, const struct epoch *newest)
{
    for (;;) {
        uint64_t bytes = 0;
        struct epoch *oldest = NULL;
        for (unsigned i = 0; i < EPOCHS_MAX; i++) {
            struct epoch *epoch = &plan->knowns->epochs[i];
            bytes += epoch->permutation ? (uint64_t)epoch->order.n * sizeof *epoch->permutation : 0;
            if (epoch->permutation && epoch != newest && (!oldest || epoch->id < oldest->id)) {
                oldest = epoch;
            }
        }
        if (bytes <= ORDERS_BYTES_MAX || !oldest) {
            return;
        }
        forget(plan, oldest);
    }
}

void hr_known_stats(const struct hr_plan *plan, struct hr_plan_stats *stats)
{
    const struct hr_knowns *knowns = plan->knowns;
    stats->known_generator = stats->known_generator ? stats->known_generator : "";
    for (unsigned i = 0; knowns && i < EPOCHS_MAX; i++) {
        const struct epoch *epoch = &knowns->epochs[i];
        stats->known_now += epoch->state == EPOCH_KNOWN;
        if (epoch->state == EPOCH_KNOWN && epoch->id == knowns->shown) {
            double bits = (double)epoch->agreed * log2(epoch->order.n);
            stats->known_indices = epoch->agreed;
            stats->known_confidence = bits > SEED_BITS ? 1 - exp2(SEED_BITS - bits) : 0;
        }
    }
}

static void on_result(struct hr_plan *plan, struct hr_order_result *result)
{
    struct hr_knowns *knowns = plan->knowns;
    struct epoch *epoch = NULL;
    for (unsigned i = 0; i < EPOCHS_MAX && !epoch; i++) {
        epoch = knowns->epochs[i].id == result->id ? &knowns->epochs[i] : NULL;
    }
    if (!epoch || epoch->state != EPOCH_ASKED || !result->permutation) {
        if (epoch) {
            epoch->state = EPOCH_OTHER;
            epoch->misses++;
            plan->stats.order_misses++;
        }
        free(result->permutation);
        return;
    }
    epoch->state = EPOCH_KNOWN;
    epoch->misses = 0;
    epoch->order = result->order;
    epoch->permutation = result->permutation;
    epoch->next = (epoch->last_number + 1) * epoch->batch_size;
    epoch->agreed = epoch->note_count;
    knowns->shown = epoch->id;
    remember(knowns, &epoch->order);
    keep_memory_bounded(plan, epoch);
    plan->stats.known_orders++;
    plan->stats.known_seed = epoch->order.seed;
    plan->stats.known_objects = epoch->order.n;
    plan->stats.known_generator = "torch";
    hr_log(HR_LOG_INFO,
           "known order: process %u shuffles %u objects by %s with seed %u after %llu outputs, rank %u of %u "
           "(%llu tried)",
           epoch->loader, epoch->order.n, plan->stats.known_generator, epoch->order.seed,
           (unsigned long long)epoch->order.skip, epoch->order.rank, epoch->order.replicas,
           (unsigned long long)result->tried);
    advance(plan, epoch);
}

static void on_results(void *owner, int fd, uint32_t events)
{
    struct hr_plan *plan = owner;
    struct hr_order_result result;
    (void)fd, (void)events;
    while (hr_order_searcher_take(plan->knowns->searcher, &result)) {
        on_result(plan, &result);
    }
    hr_plan_pump(plan);
}

/* ---- batches ---- */

static struct epoch *epoch_of(struct hr_plan *plan, const struct hr_known_batch *batch)
{
    struct hr_knowns *knowns = plan->knowns;
    struct epoch *place = &knowns->epochs[0];
    for (unsigned i = 0; i < EPOCHS_MAX; i++) {
        struct epoch *epoch = &knowns->epochs[i];
        if (epoch->id && epoch->tree == batch->tree && epoch->base == batch->base &&
            epoch->loader == batch->loader && is_current(epoch)) {
            return epoch;
        }
        place = epoch->id < place->id ? epoch : place; /* a free one, else the oldest */
    }
    forget(plan, place);
    return place;
}

static void begin(struct hr_plan *plan, struct epoch *epoch, const struct hr_known_batch *batch)
{
    unsigned misses = epoch->misses;
    forget(plan, epoch);
    *epoch = (struct epoch){.id = ++plan->knowns->last_id,
                            .tree = batch->tree,
                            .gen = batch->tree->index.names->gen,
                            .base = batch->base,
                            .loader = batch->loader,
                            .misses = misses};
}

/* Are the batch's indices what the known order has there? */
static bool is_as_known(const struct epoch *epoch, const struct hr_known_batch *batch)
{
    uint64_t first = (uint64_t)batch->number * epoch->batch_size;
    bool fits = batch->count <= epoch->batch_size && first + batch->count <= hr_order_length(&epoch->order);
    for (uint32_t i = 0; fits && i < batch->count; i++) {
        fits = hr_order_at(&epoch->order, epoch->permutation, (uint32_t)first + i) == batch->indices[i];
    }
    return fits;
}

static void take_notes(struct epoch *epoch, const struct hr_known_batch *batch)
{
    epoch->batch_size = batch->count > epoch->batch_size ? batch->count : epoch->batch_size;
    for (uint32_t i = 0; i < batch->count; i++) {
        epoch->highest = batch->indices[i] > epoch->highest ? batch->indices[i] : epoch->highest;
        if (epoch->note_count < HR_ORDER_SEEN_MAX) {
            epoch->notes[epoch->note_count++] = (struct note){batch->number, i, batch->indices[i]};
        }
    }
}

/* A number that comes again begins the next epoch. Queues that are understood late bring theirs late, so
 * smaller ones alone do not. */
static bool comes_again(const struct epoch *epoch, uint32_t number)
{
    return number < FIRST_NUMBERS && epoch->numbers[number / 64] >> number % 64 & 1;
}

static void note_number(struct epoch *epoch, uint32_t number)
{
    epoch->last_number = number > epoch->last_number ? number : epoch->last_number;
    if (number < FIRST_NUMBERS) {
        epoch->numbers[number / 64] |= UINT64_C(1) << number % 64;
    }
}

/* What the epoch becomes with this batch, before it is noted. */
static void judge(struct hr_plan *plan, struct epoch *epoch, const struct hr_known_batch *batch)
{
    bool again = epoch->id == 0 || comes_again(epoch, batch->number);
    if (epoch->state == EPOCH_KNOWN && !is_as_known(epoch, batch)) {
        bool wrong = !again && batch->number > epoch->last_number;
        plan->stats.known_dropped += wrong;
        begin(plan, epoch, batch);
        epoch->state = wrong ? EPOCH_OTHER : EPOCH_NEW;
    } else if (epoch->state != EPOCH_KNOWN &&
               (again || (epoch->state == EPOCH_OTHER && batch->number == 0))) {
        begin(plan, epoch, batch);
    } else if (epoch->state == EPOCH_KNOWN &&
               again) { /* the same order once more: a sampler whose seed stays */
        memset(epoch->numbers, 0, sizeof epoch->numbers);
        epoch->last_number = 0;
        epoch->next = 0;
        plan->stats.known_orders++;
    }
}

void hr_known_note(struct hr_plan *plan, const struct hr_known_batch *batch)
{
    struct hr_knowns *knowns = plan->options.order_search == HR_ORDER_MODE_OFF ? NULL : knowns_of(plan);
    if (!knowns || batch->count == 0) {
        return;
    }
    struct epoch *epoch = epoch_of(plan, batch);
    judge(plan, epoch, batch);
    note_number(epoch, batch->number);
    if (epoch->state == EPOCH_KNOWN) {
        uint32_t announced = (batch->number + 1) * epoch->batch_size;
        epoch->next = announced > epoch->next ? announced : epoch->next;
        epoch->agreed += batch->count;
    } else if (epoch->state == EPOCH_NEW) {
        take_notes(epoch, batch);
        if (epoch->note_count >= SEEN_LEAST) {
            ask_for(plan, epoch);
        }
    }
}
