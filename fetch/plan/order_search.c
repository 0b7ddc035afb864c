/* Which candidates are tried, in which order: the likely ones first, in slices. */
#include "fetch/plan/order_batches.h"
#include "fetch/plan/order_sets.h"

#define SLICE (1u << 16)              /* 2 ms with the widest vectors, 50 ms without any */
#define OTHERS_SLICE_STEPS (1u << 22) /* 30 ms */
#define LATE_SLICE (1u << 22)         /* outputs: less than 0.1 s, and less than that to get there */

/* A seed costs the outputs up to the last rank's first batch. */
static uint64_t batches_end(const struct hr_order_ask *ask, uint32_t n)
{
    uint64_t reach = (uint64_t)HR_ORDER_BATCHES_RANKS_MAX * ask->batch;
    reach = reach < n / 2 ? reach : n / 2;
    reach = reach > HR_MT_WORDS ? reach : HR_MT_WORDS;
    uint64_t seeds = BATCHES_OUTPUTS / reach;
    return ask->batch < 2 ? 0
                          : FAVOURITES * FAVOURITE_SEEDS + (seeds < BATCHES_SEEDS ? seeds : BATCHES_SEEDS);
}

/* Candidates of one set. */
static uint64_t phase_end(const struct hr_order_ask *ask, enum hr_order_phase phase, uint32_t n)
{
    uint64_t seeds = n > 0 ? ask->steps / n : 0;
    switch (phase) {
    case HR_ORDER_RECENT:
        return ask->recent_count * FOLLOWERS;
    case HR_ORDER_LIKELY:
        return FAVOURITES * FAVOURITE_ORDERS;
    case HR_ORDER_DISTRIBUTED:
        return LIKELY_SEEDS;
    case HR_ORDER_SMALL:
    case HR_ORDER_SMALL_USED:
    case HR_ORDER_RANKS:
        return SMALL_SEEDS;
    case HR_ORDER_DRAWN:
        return LIKELY_SEEDS * DRAWS;
    case HR_ORDER_BATCHES:
        return batches_end(ask, n);
    case HR_ORDER_LATE:
        return hr_order_late_outputs(ask) * OUTERS;
    case HR_ORDER_OTHERS:
        return (seeds < OTHERS_SEEDS ? seeds : OTHERS_SEEDS) * OTHERS;
    default:
        return ask->all ? ALL_SEEDS : 0;
    }
}

double hr_order_candidates(const struct hr_order_ask *ask, enum hr_order_phase phase, uint32_t n)
{
    const unsigned pairs = HR_ORDER_REPLICAS_MAX * (HR_ORDER_REPLICAS_MAX + 1) / 2; /* of replicas and rank */
    bool ranks = phase == HR_ORDER_DISTRIBUTED || phase == HR_ORDER_RANKS || phase == HR_ORDER_BATCHES;
    return (double)phase_end(ask, phase, n) * (ranks ? pairs : 1) * ask->set_count;
}

/* What was seen is enough for this phase, and was not when it was asked before. */
static bool is_due(const struct hr_order_ask *ask, enum hr_order_phase phase, unsigned set)
{
    const struct hr_order_set *of = &ask->sets[set];
    double candidates = hr_order_candidates(ask, phase, of->n);
    unsigned needed = hr_order_needed(of->n, candidates);
    return candidates > 0 && of->n < HR_TORCH_SMALL_MAX && of->seen_count >= needed &&
           (of->before < needed || phase >= HR_ORDER_LATE || (phase == HR_ORDER_RECENT && ask->news));
}

/* To where the next slice begins. */
static void settle(struct hr_order_search *search)
{
    const struct hr_order_ask *ask = &search->ask;
    while (search->phase < HR_ORDER_PHASES &&
           (search->set >= ask->set_count ||
            search->next >= phase_end(ask, search->phase, ask->sets[search->set].n) ||
            !is_due(ask, search->phase, search->set))) {
        search->next = 0;
        if (++search->set >= ask->set_count) {
            search->set = 0;
            search->phase++;
        }
    }
}

void hr_order_search_begin(struct hr_order_search *search, const struct hr_order_ask *ask)
{
    *search = (struct hr_order_search){.ask = *ask};
    settle(search);
}

bool hr_order_search_claim(struct hr_order_search *search, struct hr_order_slice *ret)
{
    if (search->found || search->phase == HR_ORDER_PHASES) {
        return false;
    }
    uint32_t n = search->ask.sets[search->set].n;
    uint64_t end = phase_end(&search->ask, search->phase, n), length = SLICE;
    if (search->phase == HR_ORDER_OTHERS) {
        length = n < OTHERS_SLICE_STEPS ? OTHERS_SLICE_STEPS / n : 1;
    }
    length = search->phase == HR_ORDER_LATE ? LATE_SLICE : length;
    uint64_t stop = search->next + length < end ? search->next + length : end;
    *ret = (struct hr_order_slice){
        .phase = search->phase, .set = search->set, .first = search->next, .end = stop};
    search->next = stop;
    search->running++;
    settle(search);
    return true;
}

void hr_order_search_finish(struct hr_order_search *search, const struct hr_order_slice *slice,
                            const struct hr_order *found, uint64_t tried)
{
    search->running--;
    search->tried += tried;
    if (found && !search->found) {
        search->found = true;
        search->order = *found;
        search->where = *slice;
    }
}

bool hr_order_search_over(const struct hr_order_search *search)
{
    return search->running == 0 && (search->found || search->phase == HR_ORDER_PHASES);
}
