#include "fetch/plan/order_search.h"

#define LIKELY_SEEDS (1u << 12)
#define SMALL_SEEDS (1u << 20)
#define ALL_SEEDS (UINT64_C(1) << 32)
#define DRAWS 64u         /* of one outer seed: an iterator draws two, so 32 epochs */
#define SLICE (1u << 16)  /* 2 ms with the widest vectors, 50 ms without any */
#define SIEVE_POSITIONS 2 /* n * n sieves well enough */
#define FOLLOWERS 24      /* of one recent order */
#define NEXT_SEEDS 8      /* DistributedSampler's next epochs */

/* What a DataLoader draws between two epochs from a generator that it shares with its sampler. */
#define BASE_SEED_OUTPUTS 2u

static uint64_t phase_end(const struct hr_order_ask *ask, enum hr_order_phase phase)
{
    switch (phase) {
    case HR_ORDER_RECENT:
        return ask->recent_count * FOLLOWERS;
    case HR_ORDER_DISTRIBUTED:
        return LIKELY_SEEDS;
    case HR_ORDER_SMALL:
    case HR_ORDER_SMALL_USED:
    case HR_ORDER_RANKS:
        return SMALL_SEEDS;
    case HR_ORDER_DRAWN:
        return LIKELY_SEEDS * DRAWS;
    default:
        return ask->all ? ALL_SEEDS : 0;
    }
}

/* To where the next slice begins. */
static void settle(struct hr_order_search *search)
{
    while (search->phase < HR_ORDER_PHASES && (search->size >= search->ask.size_count ||
                                               search->next >= phase_end(&search->ask, search->phase))) {
        search->next = 0;
        if (++search->size >= search->ask.size_count) {
            search->size = 0;
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
    uint64_t end = phase_end(&search->ask, search->phase);
    uint64_t stop = search->next + SLICE < end ? search->next + SLICE : end;
    *ret = (struct hr_order_slice){
        .phase = search->phase, .n = search->ask.sizes[search->size], .first = search->next, .end = stop};
    search->next = stop;
    search->running++;
    settle(search);
    return true;
}

void hr_order_search_finish(struct hr_order_search *search, const struct hr_order *found, uint64_t tried)
{
    search->running--;
    search->tried += tried;
    if (found && !search->found) {
        search->found = true;
        search->order = *found;
    }
}

bool hr_order_search_over(const struct hr_order_search *search)
{
    return search->running == 0 && (search->found || search->phase == HR_ORDER_PHASES);
}

static bool is_it(const struct hr_order *order, const struct hr_order_ask *ask)
{
    return hr_order_fits(order, ask->seen, ask->seen_count) >= hr_order_needed(order->n);
}

static bool is_it_for_some_rank(struct hr_order *order, const struct hr_order_ask *ask)
{
    return hr_order_fits_rank(order, HR_ORDER_REPLICAS_MAX, ask->seen, ask->seen_count) >=
           hr_order_needed(order->n);
}

/* The number-th order that may come after a known one: it again, the next seeds, the same generator going on
 * with or without the draw of an iterator, as one process or as before. */
static bool follower(const struct hr_order *known, unsigned number, uint32_t n, struct hr_order *ret)
{
    *ret = *known;
    if (number < NEXT_SEEDS) {
        ret->seed += number;
    } else if (number < 2 * NEXT_SEEDS) {
        ret->seed -= number - NEXT_SEEDS + 1;
    } else {
        unsigned epoch = (number - 2 * NEXT_SEEDS) / 2 + 1, draw = number % 2;
        ret->skip += epoch * ((uint64_t)known->n - 1 + draw * BASE_SEED_OUTPUTS);
    }
    ret->n = n;
    return number < 2 * NEXT_SEEDS || known->replicas == 1;
}

static bool run_recent(const struct hr_order_slice *slice, const struct hr_order_ask *ask,
                       struct hr_order *ret, uint64_t *tried)
{
    for (uint64_t i = slice->first; i < slice->end; i++) {
        struct hr_order order;
        if (!follower(&ask->recent[i / FOLLOWERS], i % FOLLOWERS, slice->n, &order)) {
            continue;
        }
        ++*tried;
        if (is_it(&order, ask) ||
            (order.replicas > 1 && i % FOLLOWERS < 2 * NEXT_SEEDS && is_it_for_some_rank(&order, ask))) {
            *ret = order;
            return true;
        }
    }
    return false;
}

/* What one lot of seeds is sieved by, and what is looked for in what passes. */
struct sifting {
    const struct hr_order_ask *ask;
    struct hr_order_sieve sieve;
    enum hr_order_width width;
    uint64_t skip;
    uint32_t n;
    bool ranks;
};

/* Two seen positions side by side make the best sieve. False: none is of use. */
static bool sieve_of_positions(struct sifting *sifting)
{
    const struct hr_order_ask *ask = sifting->ask;
    struct hr_order_sieve best = {0};
    for (unsigned from = 0; from < ask->seen_count && best.count < SIEVE_POSITIONS; from++) {
        struct hr_order_sieve sieve = {0};
        for (unsigned i = from; i < ask->seen_count && sieve.count < SIEVE_POSITIONS; i++) {
            if (!hr_order_sieve_add(&sieve, sifting->skip, sifting->n, ask->seen[i].position,
                                    ask->seen[i].index)) {
                break;
            }
        }
        best = sieve.count > best.count ? sieve : best;
    }
    sifting->sieve = best;
    return best.count > 0;
}

/* The first index of a rank: at any of the first positions. False: it may have been moved there. */
static bool sieve_of_ranks(struct sifting *sifting)
{
    const struct hr_order_ask *ask = sifting->ask;
    sifting->sieve = (struct hr_order_sieve){.any = true};
    if (ask->seen_count < 2 || ask->seen[0].position != 0) {
        return false;
    }
    for (uint32_t rank = 0; rank < HR_ORDER_REPLICAS_MAX && rank + 1 < sifting->n; rank++) {
        if (!hr_order_sieve_add(&sifting->sieve, sifting->skip, sifting->n, rank, ask->seen[0].index)) {
            return false;
        }
    }
    return true;
}

static bool look_closely(const struct sifting *sifting, uint32_t seed, struct hr_order *ret)
{
    *ret = (struct hr_order){.seed = seed, .skip = sifting->skip, .n = sifting->n, .replicas = 1};
    return sifting->ranks ? is_it_for_some_rank(ret, sifting->ask) : is_it(ret, sifting->ask);
}

/* seeds: HR_ORDER_LANES, of which `count` matter. */
static bool sift(const struct sifting *sifting, const uint32_t *seeds, unsigned count, struct hr_order *ret)
{
    uint32_t pass[HR_ORDER_LANES];
    if (hr_order_sieve_pass(sifting->width, &sifting->sieve, seeds, pass)) {
        for (unsigned i = 0; i < count; i++) {
            if (pass[i] && look_closely(sifting, seeds[i], ret)) {
                return true;
            }
        }
    }
    return false;
}

static bool run_seeds(const struct hr_order_slice *slice, const struct sifting *sifting, struct hr_order *ret,
                      uint64_t *tried)
{
    uint32_t seeds[HR_ORDER_LANES];
    for (uint64_t seed = slice->first; seed < slice->end; seed += HR_ORDER_LANES) {
        unsigned count = slice->end - seed < HR_ORDER_LANES ? (unsigned)(slice->end - seed) : HR_ORDER_LANES;
        for (unsigned i = 0; i < HR_ORDER_LANES; i++) {
            seeds[i] = (uint32_t)seed + i;
        }
        *tried += count;
        if (sift(sifting, seeds, count, ret)) {
            return true;
        }
    }
    return false;
}

/* Seeds that one outer generator draws, HR_ORDER_LANES at a time: several outer ones together. */
static bool run_drawn(const struct hr_order_slice *slice, const struct sifting *sifting, struct hr_order *ret,
                      uint64_t *tried)
{
    uint32_t seeds[HR_ORDER_LANES];
    for (uint64_t from = slice->first; from < slice->end; from += HR_ORDER_LANES) {
        for (unsigned i = 0; i < HR_ORDER_LANES; i += DRAWS) {
            struct hr_mt mt;
            hr_mt_seed(&mt, (from + i) / DRAWS);
            for (unsigned draw = 0; draw < DRAWS; draw++) {
                seeds[i + draw] = (uint32_t)hr_torch_draw(&mt);
            }
        }
        *tried += HR_ORDER_LANES;
        if (sift(sifting, seeds, HR_ORDER_LANES, ret)) {
            return true;
        }
    }
    return false;
}

/* Small sets, whose first index may have been moved: every seed exactly. */
static bool run_exactly(const struct hr_order_slice *slice, const struct sifting *sifting,
                        struct hr_order *ret, uint64_t *tried)
{
    for (uint64_t seed = slice->first; seed < slice->end; seed++) {
        ++*tried;
        if (look_closely(sifting, (uint32_t)seed, ret)) {
            return true;
        }
    }
    return false;
}

bool hr_order_slice_run(const struct hr_order_slice *slice, const struct hr_order_ask *ask,
                        enum hr_order_width width, struct hr_order *ret, uint64_t *ret_tried)
{
    struct sifting sifting = {.ask = ask, .width = width, .n = slice->n};
    struct hr_order found;
    bool is_found = false;
    *ret_tried = 0;
    sifting.ranks = slice->phase == HR_ORDER_DISTRIBUTED || slice->phase == HR_ORDER_RANKS;
    sifting.skip = slice->phase == HR_ORDER_SMALL_USED ? BASE_SEED_OUTPUTS : 0;
    if (slice->n >= HR_TORCH_SMALL_MAX || ask->seen_count < hr_order_needed(slice->n)) {
        return false;
    }
    if (slice->phase == HR_ORDER_RECENT) {
        is_found = run_recent(slice, ask, &found, ret_tried);
    } else if (sifting.ranks && !sieve_of_ranks(&sifting)) {
        is_found = slice->phase == HR_ORDER_DISTRIBUTED && run_exactly(slice, &sifting, &found, ret_tried);
    } else if (sifting.ranks || sieve_of_positions(&sifting)) {
        is_found =
            (slice->phase == HR_ORDER_DRAWN ? run_drawn : run_seeds)(slice, &sifting, &found, ret_tried);
    }
    if (is_found) {
        *ret = found;
    }
    return is_found;
}
