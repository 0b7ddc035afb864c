#include "fetch/plan/known.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "fetch/plan/known_epoch.h"
#include "fetch/plan/ranks.h"
#include "fetch/plan/victims.h"

#define OPENS_LOADER UINT32_MAX /* no process */

static void forget(struct hr_plan *plan, struct hr_epoch *epoch)
{
    if (epoch->state == HR_EPOCH_ASKED) {
        hr_order_searcher_cancel(plan->knowns->searcher, epoch->id);
    }
    if (epoch->follows.making_id) {
        hr_order_searcher_cancel(plan->knowns->searcher, epoch->follows.making_id);
    }
    hr_victims_end(plan, epoch->id);
    free(epoch->permutation);
    *epoch = (struct hr_epoch){0};
}

void hr_known_free(struct hr_plan *plan)
{
    if (!plan->knowns) {
        return;
    }
    hr_victims_free(plan);
    for (unsigned i = 0; i < HR_KNOWN_EPOCHS_MAX; i++) {
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

static void on_results(void *owner, int fd, uint32_t events);

static struct hr_knowns *knowns_of(struct hr_plan *plan)
{
    if (!plan->knowns && (plan->knowns = calloc(1, sizeof *plan->knowns))) {
        struct hr_knowns *knowns = plan->knowns;
        if (hr_order_searcher_new(plan->options.order_search, plan->options.order_idle, &knowns->searcher) <
                0 ||
            hr_loop_watch(plan->options.loop, hr_order_searcher_fd(knowns->searcher), EPOLLIN, on_results,
                          plan) < 0) {
            hr_order_searcher_free(knowns->searcher);
            free(knowns);
            plan->knowns = NULL;
        }
    }
    return plan->knowns;
}

/* ---- knowing ---- */

static void keep_memory_bounded(struct hr_plan *plan, const struct hr_epoch *newest)
{
    for (;;) {
        uint64_t bytes = 0;
        struct hr_epoch *oldest = NULL;
        for (unsigned i = 0; i < HR_KNOWN_EPOCHS_MAX; i++) {
            struct hr_epoch *epoch = &plan->knowns->epochs[i];
            bytes += epoch->permutation ? (uint64_t)epoch->order.n * sizeof *epoch->permutation : 0;
            if (epoch->permutation && epoch != newest && (!oldest || epoch->heard < oldest->heard)) {
                oldest = epoch;
            }
        }
        if (bytes <= HR_KNOWN_ORDERS_BYTES_MAX || !oldest) {
            return;
        }
        forget(plan, oldest);
    }
}

void hr_known_stats(const struct hr_plan *plan, struct hr_plan_stats *stats)
{
    const struct hr_knowns *knowns = plan->knowns;
    stats->known_generator = stats->known_generator ? stats->known_generator : "";
    for (unsigned i = 0; knowns && i < HR_KNOWN_EPOCHS_MAX; i++) {
        const struct hr_epoch *epoch = &knowns->epochs[i];
        stats->known_now += epoch->state == HR_EPOCH_KNOWN;
        if (epoch->state == HR_EPOCH_KNOWN && epoch->id == knowns->shown) {
            stats->known_indices = epoch->agreed;
            stats->known_confidence = 1 - exp2(-hr_epoch_spare_bits(epoch));
        }
    }
}

/* Nothing fits what was noted until then. */
static void on_nothing(struct hr_plan *plan, struct hr_epoch *epoch)
{
    if (epoch->asked < HR_KNOWN_DEEP || epoch->renoted) {
        epoch->state = HR_EPOCH_NEW;
        if (epoch->note_count > epoch->asked || epoch->renoted) {
            epoch->renoted = false;
            hr_known_ask(plan, epoch);
        }
        return;
    }
    epoch->state = HR_EPOCH_OTHER;
    if (!epoch->by_news) {
        epoch->missed = true;
        epoch->misses++;
        plan->stats.order_misses++;
        hr_known_next_missed(plan, epoch);
    }
    hr_known_ask_by_news(plan, epoch);
}

/* What came before the order was known. Batches of a queue that is not understood yet are not announced, and
 * nothing of them was read: they are what comes next. */
static void note_begun(struct hr_plan *plan, const struct hr_epoch *epoch)
{
    for (uint32_t number = 0; !epoch->opens && number <= epoch->last_number; number++) {
        if (number >= HR_KNOWN_FIRST_NUMBERS || hr_epoch_is_begun(epoch, number)) {
            uint32_t first = hr_epoch_first(epoch, number);
            hr_victims_begun(plan, epoch->id, first, hr_epoch_first(epoch, number + 1) - first);
        }
    }
    if (epoch->opens) {
        hr_victims_begun(plan, epoch->id, 0, epoch->position);
    }
}

/* True: it was known already, of other batches. */
static bool unite(struct hr_plan *plan, struct hr_epoch *epoch)
{
    struct hr_epoch *rest = epoch->opens ? NULL : hr_epoch_rest_of(plan->knowns, epoch);
    if (rest) {
        hr_epoch_add_numbers(epoch, rest);
        epoch->agreed += rest->agreed;
        forget(plan, rest);
    }
    return rest;
}

static void on_known(struct hr_plan *plan, struct hr_epoch *epoch, const struct hr_order_result *result)
{
    struct hr_knowns *knowns = plan->knowns;
    struct hr_plan_stats *stats = &plan->stats;
    epoch->state = HR_EPOCH_KNOWN;
    epoch->misses = 0;
    epoch->order = result->order;
    epoch->permutation = result->permutation;
    epoch->candidates = result->candidates;
    if (epoch->opens) {
        epoch->data.base = epoch->bases[result->set];
        epoch->next = epoch->position;
    } else {
        hr_epoch_take_turns(epoch);
        epoch->next = 0; /* what was announced is passed over */
        epoch->agreed = hr_epoch_agreeing_notes(epoch);
    }
    stats->known_orders += !unite(plan, epoch);
    knowns->shown = epoch->id;
    hr_victims_begin(plan, epoch->id, &epoch->data, &epoch->order, epoch->permutation, !epoch->opens);
    note_begun(plan, epoch);
    hr_known_remember(knowns, &epoch->order);
    keep_memory_bounded(plan, epoch);
    hr_known_next(plan, epoch);
    stats->known_seed = epoch->order.seed;
    stats->known_objects = epoch->order.n;
    stats->known_generator = hr_order_generator_name(epoch->order.generator);
    stats->known_after = epoch->asked;
    hr_log(HR_LOG_INFO,
           "known order: process %u shuffles %u objects by %s with seed %u after %llu outputs, rank %u of %u "
           "(%u seen, %llu tried)",
           epoch->opens ? 0 : epoch->loader, epoch->order.n, stats->known_generator, epoch->order.seed,
           (unsigned long long)epoch->order.skip, epoch->order.rank, epoch->order.replicas, epoch->note_count,
           (unsigned long long)result->tried);
    hr_epoch_advance(plan, epoch);
    hr_known_tell_others(plan, epoch);
}

static void on_result(struct hr_plan *plan, struct hr_order_result *result)
{
    struct hr_knowns *knowns = plan->knowns;
    struct hr_epoch *epoch = NULL;
    for (unsigned i = 0; i < HR_KNOWN_EPOCHS_MAX && !epoch; i++) {
        epoch = knowns->epochs[i].id == result->id ? &knowns->epochs[i] : NULL;
    }
    bool asked = epoch && epoch->state == HR_EPOCH_ASKED;
    if (asked && result->permutation &&
        (!epoch->opens ||
         hr_epoch_agrees(epoch, &result->order, result->permutation, epoch->bases[result->set]))) {
        on_known(plan, epoch, result);
        return;
    }
    free(result->permutation);
    if (asked) {
        on_nothing(plan, epoch);
    }
}

static void on_results(void *owner, int fd, uint32_t events)
{
    struct hr_plan *plan = owner;
    struct hr_order_result result;
    (void)fd, (void)events;
    while (hr_order_searcher_take(plan->knowns->searcher, &result)) {
        if (!hr_known_next_made(plan, &result)) {
            on_result(plan, &result);
        }
    }
    hr_plan_pump(plan);
}

/* The same order again, of which `begun` positions were read. */
static void once_more(struct hr_plan *plan, struct hr_epoch *epoch, uint32_t begun)
{
    epoch->next = begun;
    hr_victims_begin(plan, epoch->id, &epoch->data, &epoch->order, epoch->permutation, !epoch->opens);
    hr_victims_begun(plan, epoch->id, 0, begun);
    hr_known_next(plan, epoch);
    plan->stats.known_orders++;
}

void hr_known_left(struct hr_plan *plan, uint32_t loader)
{
    for (unsigned i = 0; plan->knowns && i < HR_KNOWN_EPOCHS_MAX; i++) {
        struct hr_epoch *epoch = &plan->knowns->epochs[i];
        if (epoch->id && !epoch->opens && epoch->loader == loader) {
            hr_epoch_abandon(epoch);
            forget(plan, epoch);
        }
    }
}

/* ---- batches ---- */

/* A free one, else the one that was not heard of for longest. */
static struct hr_epoch *make_place(struct hr_plan *plan)
{
    struct hr_epoch *place = &plan->knowns->epochs[0];
    for (unsigned i = 0; i < HR_KNOWN_EPOCHS_MAX; i++) {
        struct hr_epoch *epoch = &plan->knowns->epochs[i];
        place = epoch->heard < place->heard ? epoch : place;
    }
    forget(plan, place);
    return place;
}

/* What lasts over a loader's epochs. A queue that was closed late does not tell which loader's it was: then
 * it is taken for the one of the process and the set that was heard of last. */
static struct hr_epoch inherited(const struct hr_plan *plan, const struct hr_epoch *epoch,
                                 const struct hr_known_batch *batch)
{
    const struct hr_epoch *from = epoch;
    for (unsigned i = 0; !epoch->id && i < HR_KNOWN_EPOCHS_MAX; i++) {
        const struct hr_epoch *one = &plan->knowns->epochs[i];
        bool its = one->id && one->loader == batch->loader && hr_dataset_is(&one->data, &batch->data);
        from = its && one->heard > from->heard ? one : from;
    }
    return (struct hr_epoch){
        .misses = from->misses, .missed_size = from->missed_size, .follows.predict = from->follows.predict};
}

static void begin(struct hr_plan *plan, struct hr_epoch *epoch, const struct hr_known_batch *batch)
{
    struct hr_epoch begun = inherited(plan, epoch, batch);
    forget(plan, epoch);
    begun.id = ++plan->knowns->last_id;
    begun.data = batch->data;
    begun.loader = batch->loader;
    begun.iteration = batch->iteration;
    begun.opens = batch->loader == OPENS_LOADER;
    begun.batch_size = begun.opens;
    *epoch = begun;
}

static void hear(struct hr_plan *plan, struct hr_epoch *epoch)
{
    epoch->heard = ++plan->knowns->heard;
    epoch->rests = false;
}

/* Another batch than the known order has there, and the first batch was all that told it: of a rank among
 * others, as this one shows? */
static bool turns_out(struct hr_plan *plan, struct hr_epoch *epoch, const struct hr_known_batch *batch)
{
    if (epoch->further_count > 0 || epoch->last_number > 0) {
        return false;
    }
    hr_epoch_note_further(epoch, batch);
    hr_epoch_take_turns(epoch);
    if (!hr_epoch_is_as_known(epoch, batch)) {
        return false;
    }
    epoch->next = 0;
    hr_victims_begin(plan, epoch->id, &epoch->data, &epoch->order, epoch->permutation, !epoch->opens);
    note_begun(plan, epoch);
    hr_known_remember(plan->knowns, &epoch->order);
    hr_known_next(plan, epoch);
    return true;
}

/* Another batch than the known order has there: it is of the next epoch, or the order was wrong. */
static void part(struct hr_plan *plan, struct hr_epoch *epoch, const struct hr_known_batch *batch, bool again)
{
    uint32_t lead, size = epoch->batch_size, first_number = epoch->first_number + batch->number;
    bool over = false, wrong = !again && batch->number > epoch->last_number;
    if (wrong) {
        over = hr_epoch_is_over(epoch, batch, &lead);
        wrong = !over;
    }
    plan->stats.known_dropped += wrong;
    if (wrong) {
        hr_known_next_missed(plan, epoch);
    }
    begin(plan, epoch, batch);
    epoch->state = wrong ? HR_EPOCH_OTHER : HR_EPOCH_NEW;
    if (over) {
        epoch->first_number = first_number;
        epoch->lead = lead;
        epoch->batch_size = size;
    }
}

/* What the epoch becomes with this batch, before it is noted. A number that comes again begins the next
 * epoch. Queues that are understood late bring theirs late, so smaller ones alone do not. */
static void judge(struct hr_plan *plan, struct hr_epoch *epoch, const struct hr_known_batch *batch, bool next)
{
    struct hr_known_batch its = hr_epoch_batch(epoch, batch);
    bool anew = epoch->id == 0 || batch->number < epoch->first_number;
    bool again = anew || next || hr_epoch_was_noted(epoch, its.number);
    if (epoch->state == HR_EPOCH_KNOWN && (anew || !hr_epoch_is_as_known(epoch, &its))) {
        if (again || !turns_out(plan, epoch, &its)) {
            part(plan, epoch, &its, again);
        }
    } else if (epoch->state != HR_EPOCH_KNOWN &&
               (again || (epoch->state == HR_EPOCH_OTHER && batch->number == 0))) {
        begin(plan, epoch, batch);
    } else if (epoch->state == HR_EPOCH_KNOWN &&
               again) { /* the same order once more: a sampler whose seed stays */
        memset(epoch->numbers, 0, sizeof epoch->numbers);
        memset(epoch->passed, 0, sizeof epoch->passed);
        epoch->last_number = 0;
        epoch->iteration = batch->iteration;
        once_more(plan, epoch, 0);
    }
}

void hr_known_note(struct hr_plan *plan, const struct hr_known_batch *batch)
{
    struct hr_knowns *knowns = plan->options.order_search == HR_ORDER_MODE_OFF ? NULL : knowns_of(plan);
    if (!knowns || batch->count == 0) {
        return;
    }
    bool next;
    struct hr_epoch *epoch = hr_epoch_of_batch(knowns, batch, &next);
    epoch = epoch ? epoch : make_place(plan);
    judge(plan, epoch, batch, next);
    if (next) {
        hr_epoch_rest_others(plan, epoch);
    }
    hear(plan, epoch);
    struct hr_known_batch its = hr_epoch_batch(epoch, batch);
    hr_epoch_note_number(epoch, its.number);
    if (epoch->state == HR_EPOCH_KNOWN) {
        epoch->agreed += its.count;
        hr_victims_heard(plan, epoch->id, its.indices, its.count);
        return;
    }
    bool renotes = epoch->state == HR_EPOCH_ASKED && its.number == 0;
    if (epoch->state == HR_EPOCH_NEW || renotes) {
        hr_epoch_take_notes(epoch, &its);
    }
    if (epoch->state != HR_EPOCH_OTHER) {
        hr_epoch_note_further(epoch, &its);
    }
    if (epoch->state == HR_EPOCH_NEW && epoch->note_count >= HR_KNOWN_DEEP) {
        hr_known_ask(plan, epoch);
    }
}

void hr_known_end(struct hr_plan *plan, const struct hr_dataset *data)
{
    for (unsigned i = 0; plan->knowns && i < HR_KNOWN_EPOCHS_MAX; i++) {
        struct hr_epoch *epoch = &plan->knowns->epochs[i];
        if (epoch->id && !epoch->opens && hr_dataset_is(&epoch->data, data)) {
            plan->stats.known_dropped += epoch->state == HR_EPOCH_KNOWN;
            forget(plan, epoch);
        }
    }
}

/* ---- opens ---- */

static struct hr_epoch *opens_of(struct hr_plan *plan, const struct hr_plan_tree *tree)
{
    for (unsigned i = 0; i < HR_KNOWN_EPOCHS_MAX; i++) {
        struct hr_epoch *epoch = &plan->knowns->epochs[i];
        if (epoch->id && epoch->opens && epoch->data.tree == tree && hr_dataset_is_current(&epoch->data)) {
            return epoch;
        }
    }
    return make_place(plan);
}

/* One more of an order that is known. True: it begins another. */
static bool follow(struct hr_plan *plan, struct hr_epoch *epoch, uint32_t rank, bool *ret_over)
{
    uint32_t index = rank - (uint32_t)epoch->data.base, length = hr_order_length(&epoch->order);
    *ret_over = false;
    if (rank < epoch->data.base || index >= epoch->order.n) {
        return false; /* what lies beside the set is another matter */
    }
    if (epoch->position < length &&
        hr_order_at(&epoch->order, epoch->permutation, epoch->position) == index) {
        epoch->position++;
        epoch->agreed++;
        hr_victims_heard(plan, epoch->id, NULL, 0);
        epoch->next = epoch->position > epoch->next ? epoch->position : epoch->next;
        plan->ahead_due = true;
        return false;
    }
    if (hr_order_at(&epoch->order, epoch->permutation, 0) == index) { /* a sampler whose seed stays */
        epoch->position = 1;
        epoch->ahead_bytes = 0;
        once_more(plan, epoch, 1);
        plan->ahead_due = true;
        return true;
    }
    *ret_over = true;
    return true;
}

bool hr_known_open(struct hr_plan_tree *tree, uint32_t rank, bool again)
{
    struct hr_plan *plan = tree->plan;
    if (!knowns_of(plan)) {
        return false;
    }
    const struct hr_known_batch whose = {.data = {.tree = tree, .gen = tree->index.names->gen},
                                         .loader = OPENS_LOADER};
    struct hr_epoch *epoch = opens_of(plan, tree);
    hear(plan, epoch);
    bool anew = again || epoch->id == 0, moved = false;
    if (epoch->state == HR_EPOCH_KNOWN) {
        bool over;
        moved = follow(plan, epoch, rank, &over);
        if (!over) {
            return moved && !again;
        }
        plan->stats.known_dropped += !again && epoch->position < hr_order_length(&epoch->order);
        anew = true;
    }
    if (anew) {
        begin(plan, epoch, &whose);
        hear(plan, epoch);
    }
    epoch->last_rank = rank;
    if (epoch->note_count < HR_ORDER_SEEN_MAX) {
        epoch->notes[epoch->note_count++] = (struct hr_epoch_note){.index = rank};
    }
    if (epoch->state == HR_EPOCH_NEW && epoch->note_count >= 2) {
        hr_known_ask(plan, epoch);
    }
    return moved && !again;
}
