/* Tries one slice's candidates: the likely sets one by one, large ones through a sieve on vectors. */
#include <stdlib.h>

#include "fetch/plan/order_batches.h"
#include "fetch/plan/order_sets.h"

#define SIEVE_POSITIONS 2               /* n * n sieves well enough */
#define GOES_ON_OUTPUTS (1u << 24)      /* drawn for all recent orders but the newest: 20 ms */
#define FAVOURITE_OTHERS_MAX (1u << 14) /* objects, for 10 ms */
#define SKIP (1u << 18)                 /* outputs, 0.3 ms: between two looks at whether it is given up */

/* What a DataLoader draws between two epochs from a generator that it shares with its sampler. */
#define BASE_SEED_OUTPUTS 2u

/* How a generator goes on from one epoch to a later one: permutations drawn meanwhile, and DataLoaders'
 * seeds. An infinite sampler (detectron2's, mmengine's) draws one permutation an epoch, RandomSampler that
 * was read to its end a second one, of which it takes nothing. The fewest outputs first. */
static const struct {
    uint8_t permutations, base_seeds;
} goes_on[] = {{1, 0}, {1, 1}, {2, 0}, {2, 1}, {2, 2}, {3, 0}, {3, 3}, {4, 0}, {4, 2}, {4, 4}};
_Static_assert(sizeof goes_on / sizeof goes_on[0] == GOES_ON, "as order_sets.h says");

/* Seeds that people write down; that of a torch.Generator() which nobody seeded, 67280421310721, and that of
 * Ultralytics' loaders, 6148914691236517205 - 1. */
#define UNSEEDED 4053586177u /* their low halves */
#define ULTRALYTICS 1431655764u
static const uint32_t favourites[] = {0,    1,    2,    3,     4,     5,        6,          7,    8,
                                      9,    10,   42,   43,    100,   123,      1234,       1337, 2020,
                                      2021, 2022, 2023, 2024,  2025,  2026,     666,        777,  999,
                                      3407, 4321, 5489, 12345, 31337, UNSEEDED, ULTRALYTICS};
_Static_assert(sizeof favourites / sizeof favourites[0] == FAVOURITES, "as order_sets.h says");

/* What scripts give to manual_seed before they make a model, whose parameters take outputs: a seed that a
 * sampler draws afterwards is any output. ResNet-50's are 51 million. */
static const uint32_t outers[] = {42, 0, 1, 1234};
_Static_assert(sizeof outers / sizeof outers[0] == OUTERS, "as order_sets.h says");

/* What one lot of candidates is compared with. */
struct sifting {
    const struct hr_order_ask *ask;
    const struct hr_order_set *set;
    unsigned needed;
    uint32_t *whole; /* room for n, for generators whose first index comes last; NULL: there is none */
    struct hr_order_sieve sieve;
    enum hr_order_width width;
    uint64_t skip;
    uint32_t n;
    bool ranks;
};

/* A thread of idle priority may need seconds for a millisecond's work. */
static bool is_given_up(const struct sifting *sifting)
{
    return sifting->ask->given_up && atomic_load_explicit(sifting->ask->given_up, memory_order_relaxed);
}

static bool is_it(const struct hr_order *order, const struct sifting *sifting)
{
    const struct hr_order_set *set = sifting->set;
    if (order->generator == HR_ORDER_TORCH) {
        struct hr_mt mt;
        hr_mt_seed(&mt, order->seed);
        hr_mt_skip(&mt, order->skip);
        return hr_order_fits(&mt, order, set->seen, set->seen_count) >= sifting->needed;
    }
    unsigned i = 0;
    if (sifting->whole) {
        hr_order_make(order, sifting->whole);
        while (i < set->seen_count && set->seen[i].position < order->n &&
               sifting->whole[set->seen[i].position] == set->seen[i].index) {
            i++;
        }
    }
    return i == set->seen_count && i >= sifting->needed;
}

/* mt: after the order's skip. */
static bool is_it_for_some_rank(struct hr_order *order, const struct sifting *sifting, const struct hr_mt *mt)
{
    return hr_order_fits_rank(mt, order, HR_ORDER_REPLICAS_MAX, sifting->set->seen,
                              sifting->set->seen_count) >= sifting->needed;
}

static void skip(const struct sifting *sifting, struct hr_mt *mt, uint64_t outputs)
{
    for (; outputs > SKIP && !is_given_up(sifting); outputs -= SKIP) {
        hr_mt_skip(mt, SKIP);
    }
    hr_mt_skip(mt, outputs < SKIP ? outputs : SKIP);
}

/* The number-th order that may come after a known one: it again, the next seeds, the same generator going
 * on. */
static bool follower(const struct hr_order *known, unsigned number, uint32_t n, struct hr_order *ret)
{
    *ret = *known;
    ret->n = n;
    if (number < NEXT_SEEDS) {
        ret->seed += number;
    } else if (number < 2 * NEXT_SEEDS) {
        ret->seed -= number - NEXT_SEEDS + 1;
    } else {
        number -= 2 * NEXT_SEEDS;
        ret->skip += goes_on[number].permutations * ((uint64_t)known->n - 1) +
                     goes_on[number].base_seeds * BASE_SEED_OUTPUTS;
        return known->generator == HR_ORDER_TORCH;
    }
    return true;
}

/* A generator on its way, so that what follows needs no second way there. */
struct walk {
    struct hr_mt mt;
    uint32_t seed;
    uint64_t at;    /* outputs drawn */
    uint64_t drawn; /* in all */
    bool begun;
};

static void walk_to(struct walk *walk, const struct sifting *sifting, const struct hr_order *order)
{
    if (!walk->begun || walk->seed != order->seed || walk->at > order->skip) {
        hr_mt_seed(&walk->mt, order->seed);
        walk->seed = order->seed;
        walk->at = 0;
        walk->begun = true;
    }
    skip(sifting, &walk->mt, order->skip - walk->at);
    walk->drawn += order->skip - walk->at;
    walk->at = order->skip;
}

/* In batches of the loader's, for whichever rank. mt: before the permutation. */
static bool is_it_in_batches(struct hr_order *order, const struct sifting *sifting, const struct hr_mt *mt)
{
    const struct hr_order_set *set = sifting->set;
    uint32_t batch = sifting->ask->batch;
    if (batch < 2 || !sifting->whole ||
        !hr_order_batches_may(mt, order->n, batch, set->seen, set->seen_count)) {
        return false;
    }
    hr_order_make(order, sifting->whole);
    return hr_order_batches_fit(order, sifting->whole, batch, set->seen, set->seen_count) >= sifting->needed;
}

static bool is_it_after(struct hr_order *order, const struct sifting *sifting, struct walk *walk)
{
    const struct hr_order_set *set = sifting->set;
    if (order->generator != HR_ORDER_TORCH) {
        return is_it(order, sifting);
    }
    walk_to(walk, sifting, order);
    if (is_given_up(sifting)) {
        return false;
    }
    return hr_order_fits(&walk->mt, order, set->seen, set->seen_count) >= sifting->needed ||
           (order->replicas > 1 && order->batch == 0 && is_it_for_some_rank(order, sifting, &walk->mt)) ||
           is_it_in_batches(order, sifting, &walk->mt);
}

static bool run_recent(const struct hr_order_slice *slice, const struct sifting *sifting,
                       struct hr_order *ret, uint64_t *tried)
{
    struct walk walk = {.begun = false};
    for (uint64_t i = slice->first; i < slice->end && !is_given_up(sifting); i++) {
        struct hr_order order;
        bool dear = i >= FOLLOWERS && walk.drawn > GOES_ON_OUTPUTS;
        if (dear || !follower(&sifting->ask->recent[i / FOLLOWERS], i % FOLLOWERS, sifting->n, &order)) {
            continue;
        }
        ++*tried;
        if (is_it_after(&order, sifting, &walk)) {
            *ret = order;
            return true;
        }
    }
    return false;
}

/* What torch's samplers take of one: 0 the seed itself, then what they draw of it. */
static uint32_t favourite_seed(uint64_t which, unsigned way)
{
    struct hr_mt mt;
    if (way == 0) {
        return favourites[which];
    }
    hr_mt_seed(&mt, favourites[which]);
    hr_mt_skip(&mt, 2ull * (way - 1));
    return (uint32_t)hr_torch_draw(&mt);
}

static bool run_batches(const struct hr_order_slice *slice, const struct sifting *sifting,
                        struct hr_order *ret, uint64_t *tried)
{
    const uint64_t favoured = FAVOURITES * FAVOURITE_SEEDS;
    for (uint64_t i = slice->first; i < slice->end && !is_given_up(sifting); i++) {
        struct hr_order order = {.n = sifting->n, .seed = (uint32_t)(i - favoured), .replicas = 1};
        struct hr_mt mt;
        if (i < favoured) {
            order.seed = favourite_seed(i / FAVOURITE_SEEDS, i % FAVOURITE_SEEDS);
        }
        hr_mt_seed(&mt, order.seed);
        ++*tried;
        if (is_it_in_batches(&order, sifting, &mt)) {
            *ret = order;
            return true;
        }
    }
    return false;
}

static bool run_likely(const struct hr_order_slice *slice, const struct sifting *sifting,
                       struct hr_order *ret, uint64_t *tried)
{
    for (uint64_t i = slice->first; i < slice->end && !is_given_up(sifting); i++) {
        struct hr_order order = {.n = sifting->n, .seed = favourites[i / FAVOURITE_ORDERS], .replicas = 1};
        unsigned way = i % FAVOURITE_ORDERS;
        if (way < OTHERS) {
            if (sifting->n > FAVOURITE_OTHERS_MAX) {
                continue;
            }
            order.generator = HR_ORDER_TORCH + 1 + way;
        } else if (way < OTHERS + FAVOURITE_DRAWS) {
            order.seed = favourite_seed(i / FAVOURITE_ORDERS, 1 + way - OTHERS);
        } else {
            order.skip = way == OTHERS + FAVOURITE_DRAWS ? 0 : BASE_SEED_OUTPUTS;
        }
        ++*tried;
        if (is_it(&order, sifting)) {
            *ret = order;
            return true;
        }
    }
    return false;
}

static bool run_others(const struct hr_order_slice *slice, const struct sifting *sifting,
                       struct hr_order *ret, uint64_t *tried)
{
    for (uint64_t i = slice->first; i < slice->end && !is_given_up(sifting); i++) {
        struct hr_order order = {.n = sifting->n,
                                 .seed = (uint32_t)(i / OTHERS),
                                 .replicas = 1,
                                 .generator = HR_ORDER_TORCH + 1 + i % OTHERS};
        ++*tried;
        if (is_it(&order, sifting)) {
            *ret = order;
            return true;
        }
    }
    return false;
}

/* Two seen positions side by side make the best sieve. False: none is of use. */
static bool sieve_of_positions(struct sifting *sifting)
{
    const struct hr_order_set *set = sifting->set;
    struct hr_order_sieve best = {0};
    for (unsigned from = 0; from < set->seen_count && best.count < SIEVE_POSITIONS; from++) {
        struct hr_order_sieve sieve = {0};
        for (unsigned i = from; i < set->seen_count && sieve.count < SIEVE_POSITIONS; i++) {
            if (!hr_order_sieve_add(&sieve, sifting->skip, sifting->n, set->seen[i].position,
                                    set->seen[i].index)) {
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
    const struct hr_order_set *set = sifting->set;
    sifting->sieve = (struct hr_order_sieve){.any = true};
    if (set->seen_count < 2 || set->seen[0].position != 0) {
        return false;
    }
    for (uint32_t rank = 0; rank < HR_ORDER_REPLICAS_MAX && rank + 1 < sifting->n; rank++) {
        if (!hr_order_sieve_add(&sifting->sieve, sifting->skip, sifting->n, rank, set->seen[0].index)) {
            return false;
        }
    }
    return true;
}

static bool look_closely(const struct sifting *sifting, uint32_t seed, struct hr_order *ret)
{
    *ret = (struct hr_order){.seed = seed, .skip = sifting->skip, .n = sifting->n, .replicas = 1};
    if (!sifting->ranks) {
        return is_it(ret, sifting);
    }
    struct hr_mt mt;
    hr_mt_seed(&mt, seed);
    hr_mt_skip(&mt, sifting->skip);
    return is_it_for_some_rank(ret, sifting, &mt);
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
    for (uint64_t seed = slice->first; seed < slice->end && !is_given_up(sifting); seed += HR_ORDER_LANES) {
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
    for (uint64_t from = slice->first; from < slice->end && !is_given_up(sifting); from += HR_ORDER_LANES) {
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

/* Every output of one outer generator after the other. */
static bool run_late(const struct hr_order_slice *slice, const struct sifting *sifting, struct hr_order *ret,
                     uint64_t *tried)
{
    uint64_t outputs = hr_order_late_outputs(sifting->ask);
    uint32_t seeds[HR_ORDER_LANES];
    struct hr_mt mt;
    for (uint64_t from = slice->first; from < slice->end && !is_given_up(sifting); from += HR_ORDER_LANES) {
        if (from == slice->first || from % outputs == 0) {
            hr_mt_seed(&mt, outers[from / outputs]);
            skip(sifting, &mt, from % outputs);
        }
        for (unsigned i = 0; i < HR_ORDER_LANES; i++) {
            seeds[i] = hr_mt_next(&mt);
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
    for (uint64_t seed = slice->first; seed < slice->end && !is_given_up(sifting); seed++) {
        ++*tried;
        if (look_closely(sifting, (uint32_t)seed, ret)) {
            return true;
        }
    }
    return false;
}

static bool run(const struct hr_order_slice *slice, struct sifting *sifting, struct hr_order *ret,
                uint64_t *tried)
{
    switch (slice->phase) {
    case HR_ORDER_RECENT:
        return run_recent(slice, sifting, ret, tried);
    case HR_ORDER_LIKELY:
        return run_likely(slice, sifting, ret, tried);
    case HR_ORDER_OTHERS:
        return run_others(slice, sifting, ret, tried);
    case HR_ORDER_BATCHES:
        return run_batches(slice, sifting, ret, tried);
    case HR_ORDER_DISTRIBUTED:
    case HR_ORDER_RANKS:
        sifting->ranks = true;
        return sieve_of_ranks(sifting)
                   ? run_seeds(slice, sifting, ret, tried)
                   : slice->phase == HR_ORDER_DISTRIBUTED && run_exactly(slice, sifting, ret, tried);
    case HR_ORDER_DRAWN:
        return sieve_of_positions(sifting) && run_drawn(slice, sifting, ret, tried);
    case HR_ORDER_LATE:
        return sieve_of_positions(sifting) && run_late(slice, sifting, ret, tried);
    default:
        sifting->skip = slice->phase == HR_ORDER_SMALL_USED ? BASE_SEED_OUTPUTS : 0;
        return sieve_of_positions(sifting) && run_seeds(slice, sifting, ret, tried);
    }
}

bool hr_order_slice_run(const struct hr_order_slice *slice, const struct hr_order_ask *ask,
                        enum hr_order_width width, struct hr_order *ret, uint64_t *ret_tried)
{
    const struct hr_order_set *set = &ask->sets[slice->set];
    struct sifting sifting = {.ask = ask,
                              .set = set,
                              .width = width,
                              .n = set->n,
                              .needed =
                                  hr_order_needed(set->n, hr_order_candidates(ask, slice->phase, set->n))};
    struct hr_order found;
    *ret_tried = 0;
    if (set->n == 0 || set->n >= HR_TORCH_SMALL_MAX || set->seen_count < sifting.needed) {
        return false;
    }
    if (slice->phase == HR_ORDER_RECENT || slice->phase == HR_ORDER_OTHERS ||
        slice->phase == HR_ORDER_BATCHES ||
        (slice->phase == HR_ORDER_LIKELY && set->n <= FAVOURITE_OTHERS_MAX)) {
        sifting.whole = malloc(set->n * sizeof *sifting.whole);
    }
    bool is_found = run(slice, &sifting, &found, ret_tried);
    free(sifting.whole);
    if (is_found) {
        *ret = found;
    }
    return is_found;
}
