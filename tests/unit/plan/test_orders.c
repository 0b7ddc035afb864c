/* Known orders: the generator against literals of torch, every vector width against the plain one, the search
 * by how many candidates it tried. tests/e2e/test_orders.py asks torch itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fetch/plan/order_thread.h"

#define SEEN 10 /* indices that a job announced before we look */
#define WAIT_MS 30000

static uint32_t random_word(void)
{
    static uint64_t state = 88172645463325252u; /* xorshift64's usual start: the same test each time */
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 16);
}

static void test_twister(void **state)
{
    (void)state;
    struct hr_mt mt, skipped;
    hr_mt_seed(&mt, 5489); /* the 1st and the 10,000th output are the C++ standard's (rand.predef) */
    assert_int_equal(hr_mt_next(&mt), 3499211612u);
    for (unsigned i = 2; i < 10000; i++) {
        (void)hr_mt_next(&mt);
    }
    assert_int_equal(hr_mt_next(&mt), 4123659995u);
    hr_mt_seed(&mt, 123);
    assert_true(hr_torch_draw(&mt) == 0x324bcdfeb6843d6dull);
    static const uint64_t skips[] = {0, 1, 623, 624, 625, 1248, 5000};
    for (size_t i = 0; i < sizeof skips / sizeof *skips; i++) {
        hr_mt_seed(&mt, 7);
        hr_mt_seed(&skipped, 7 + (5ull << 32)); /* only the low half counts */
        for (uint64_t left = skips[i]; left > 0; left--) {
            (void)hr_mt_next(&mt);
        }
        hr_mt_skip(&skipped, skips[i]);
        assert_int_equal(hr_mt_next(&skipped), hr_mt_next(&mt));
    }
}

static void test_literals_of_torch(void **state)
{
    (void)state;
    static const struct {
        uint32_t n, seed, want[10];
    } known[] = {
        {10, 0, {4, 1, 7, 5, 3, 9, 0, 8, 6, 2}},
        {10, 42, {2, 6, 1, 8, 4, 5, 0, 9, 3, 7}},
        {7, UINT32_MAX, {2, 1, 3, 6, 4, 5, 0}},
        {2, 0, {0, 1}},
        {1, 5, {0}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t have[10];
        struct hr_order order = {.n = known[i].n, .seed = known[i].seed, .replicas = 1};
        hr_order_make(&order, have);
        assert_memory_equal(have, known[i].want, known[i].n * sizeof have[0]);
    }
}

static uint32_t *make(const struct hr_order *order)
{
    uint32_t *whole = malloc(order->n * sizeof *whole);
    assert_non_null(whole);
    hr_order_make(order, whole);
    return whole;
}

static void test_prefix_is_the_head(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 3, 10, 100, 1000, 1023, 1024, 1025, 5000, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (unsigned round = 0; round < 5; round++) {
            struct hr_order order = {.n = sizes[i], .seed = random_word(), .replicas = 1, .skip = round};
            uint32_t *whole = make(&order);
            uint32_t prefix[HR_TORCH_PREFIX_MAX];
            unsigned count = sizes[i] < HR_TORCH_PREFIX_MAX ? sizes[i] : HR_TORCH_PREFIX_MAX;
            struct hr_mt mt;
            hr_mt_seed(&mt, order.seed);
            hr_mt_skip(&mt, order.skip);
            hr_torch_prefix(&mt, order.n, count, prefix);
            assert_memory_equal(prefix, whole, count * sizeof *prefix);
            free(whole);
        }
    }
}

/* DistributedSampler: every rank as many, the start once more where they would not. */
static void test_ranks_and_batches(void **state)
{
    (void)state;
    struct hr_order order = {.n = 10, .seed = 0, .replicas = 4};
    uint32_t *whole = make(&order);
    unsigned counts[10] = {0};
    for (order.rank = 0; order.rank < 4; order.rank++) {
        assert_int_equal(hr_order_length(&order), 3);
        uint32_t batch[2];
        assert_int_equal(hr_order_batch(&order, whole, 0, 2, batch), 2);
        assert_int_equal(batch[0], whole[order.rank]);
        assert_int_equal(batch[1], whole[order.rank + 4]);
        counts[batch[0]]++;
        counts[batch[1]]++;
        assert_int_equal(hr_order_batch(&order, whole, 1, 2, batch), 1);
        assert_int_equal(batch[0], whole[(order.rank + 8) % 10]);
        counts[batch[0]]++;
        assert_int_equal(hr_order_batch(&order, whole, 2, 2, batch), 0);
    }
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(counts[whole[i]], i < 2 ? 2 : 1);
    }
    free(whole);
    order = (struct hr_order){.n = 3, .seed = 1, .replicas = 8, .rank = 7}; /* more ranks than objects */
    whole = make(&order);
    assert_int_equal(hr_order_length(&order), 1);
    assert_int_equal(hr_order_at(&order, whole, 0), whole[7 % 3]);
    free(whole);
}

static unsigned see(struct hr_order_seen *seen, const struct hr_order *order, unsigned count)
{
    uint32_t *whole = make(order);
    uint32_t length = hr_order_length(order);
    count = count < length ? count : length;
    for (uint32_t i = 0; i < count; i++) {
        seen[i] = (struct hr_order_seen){i, hr_order_at(order, whole, i)};
    }
    free(whole);
    return count;
}

static struct hr_order_ask ask_of(uint32_t n)
{
    return (struct hr_order_ask){.sets = {{.n = n}}, .set_count = 1};
}

/* The first `count` of the order are what was seen, of each set. */
static void look(struct hr_order_ask *ask, const struct hr_order *order, unsigned count)
{
    for (unsigned i = 0; i < ask->set_count; i++) {
        ask->sets[i].seen_count = see(ask->sets[i].seen, order, count);
    }
}

/* The sieve lets the right seed pass at every position that it takes, at every width, and the widths agree on
 * all others. */
static void test_widths_agree(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {3, 32, 97, 1000, 4096, 1281167, 1u << 27};
    unsigned sieves = 0;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (unsigned round = 0; round < 12; round++) {
            uint32_t seeds[HR_ORDER_LANES], prefix[HR_TORCH_PREFIX_MAX];
            uint32_t want[HR_ORDER_LANES], have[HR_ORDER_LANES];
            for (unsigned i = 0; i < HR_ORDER_LANES; i++) {
                seeds[i] = i < 2 ? -i : random_word();
            }
            unsigned skip = round % 3, right = random_word() % HR_ORDER_LANES;
            unsigned reach = sizes[s] < 227 - skip ? sizes[s] : 227 - skip;
            struct hr_mt mt;
            hr_mt_seed(&mt, seeds[right]);
            hr_mt_skip(&mt, skip);
            hr_torch_prefix(&mt, sizes[s], reach, prefix);
            struct hr_order_sieve sieve = {.any = round % 2};
            unsigned most = 1 + random_word() % HR_ORDER_SIEVE_MAX;
            for (uint32_t at = random_word() % reach; at < reach && sieve.count < most; at++) {
                if (!hr_order_sieve_add(&sieve, skip, sizes[s], at, prefix[at])) {
                    break;
                }
            }
            if (sieve.count == 0) {
                continue;
            }
            sieves++;
            assert_true(hr_order_sieve_pass(HR_ORDER_SCALAR, &sieve, seeds, want));
            assert_int_not_equal(want[right], 0);
            for (enum hr_order_width width = HR_ORDER_BASE; width < HR_ORDER_WIDTH_COUNT; width++) {
                if (hr_order_width_here(width)) {
                    assert_true(hr_order_sieve_pass(width, &sieve, seeds, have));
                    assert_memory_equal(have, want, sizeof want);
                }
            }
        }
    }
    assert_true(sieves > 40);
    assert_true(hr_order_width_here(hr_order_widest()));
}

/* All 2^32, but only the neighbourhood is gone through. */
static void test_full_search_in_a_window(void **state)
{
    (void)state;
    static const uint32_t seeds[] = {0x9e3779b9u, 0x12345678u, UINT32_MAX, 1u << 31, (1u << 20) + 77};
    static const uint32_t sizes[] = {400, 4000, 1281167};
    for (enum hr_order_width width = 0; width < HR_ORDER_WIDTH_COUNT; width++) {
        uint64_t before = width == HR_ORDER_SCALAR ? 2000 : 40000;
        for (size_t i = 0; hr_order_width_here(width) && i < sizeof seeds / sizeof *seeds; i++) {
            struct hr_order order = {.n = sizes[i % 3], .seed = seeds[i], .replicas = 1}, found;
            struct hr_order_ask ask = ask_of(order.n);
            ask.all = true;
            look(&ask, &order, SEEN);
            struct hr_order_slice slice = {.phase = HR_ORDER_ALL,
                                           .first = seeds[i] - before,
                                           .end = seeds[i] == UINT32_MAX ? UINT64_C(1) << 32
                                                                         : (uint64_t)seeds[i] + 1000};
            uint64_t tried;
            assert_true(hr_order_slice_run(&slice, &ask, width, &found, &tried));
            assert_int_equal(found.seed, order.seed);
            assert_int_equal(found.n, order.n);
            assert_true(found.skip == 0 && found.replicas == 1 && found.rank == 0);
            assert_in_range(tried, before + 1, before + HR_ORDER_LANES);
            slice.end = seeds[i]; /* and nothing where it is not */
            assert_false(hr_order_slice_run(&slice, &ask, width, &found, &tried));
            assert_true(tried == before);
        }
    }
}

static void search(struct hr_order_search *search_, const struct hr_order_ask *ask)
{
    struct hr_order_slice slice;
    hr_order_search_begin(search_, ask);
    while (hr_order_search_claim(search_, &slice)) {
        struct hr_order order;
        uint64_t tried;
        bool found = hr_order_slice_run(&slice, ask, hr_order_widest(), &order, &tried);
        hr_order_search_finish(search_, &slice, found ? &order : NULL, tried);
    }
    assert_true(hr_order_search_over(search_));
}

static void expect_found(const struct hr_order_ask *ask, const struct hr_order *order, uint64_t tried_max)
{
    struct hr_order_search result;
    search(&result, ask);
    assert_true(result.found);
    assert_int_equal(result.order.seed, order->seed);
    assert_true(result.order.skip == order->skip);
    assert_int_equal(result.order.n, order->n);
    assert_int_equal(result.order.replicas, order->replicas);
    assert_int_equal(result.order.rank, order->rank);
    assert_in_range(result.tried, 1, tried_max);
}

/* seed + epoch below 2^12, whatever the ranks: with the 10th index, before any other candidate. */
static void test_distributed_sampler(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1000, 4000, 50000, 1281167};
    for (unsigned round = 0; round < 40; round++) {
        struct hr_order order = {.n = sizes[round % 4], .seed = random_word() % 4096};
        order.replicas = round == 0 ? 1 : 1 + random_word() % HR_ORDER_REPLICAS_MAX;
        order.rank = round == 1 ? order.replicas - 1 : random_word() % order.replicas;
        struct hr_order_ask ask = ask_of(order.n);
        look(&ask, &order, SEEN);
        expect_found(&ask, &order, 416 + 4096);
    }
}

static void test_small_seeds(void **state)
{
    (void)state;
    static const uint32_t seeds[] = {0, 4096, 123456, (1u << 20) - 1};
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        struct hr_order order = {.n = 4000, .seed = seeds[i], .replicas = 1};
        struct hr_order_ask ask = {.sets = {{.n = 1281167}, {.n = 4000}}, .set_count = 2};
        look(&ask, &order, SEEN);
        expect_found(&ask, &order, 2 * 416 + 2 * 4096 + 2 * (1 << 20));
        order.skip = 2; /* a DataLoader's generator=: its own seed comes first */
        look(&ask, &order, SEEN);
        expect_found(&ask, &order, 2 * 416 + 2 * 4096 + 4 * (1 << 20));
    }
}

/* shuffle=True after manual_seed(42): the seed is drawn, after the iterator's own. */
static void test_drawn_seed(void **state)
{
    (void)state;
    struct hr_mt mt;
    hr_mt_seed(&mt, 42);
    for (unsigned epoch = 0; epoch < 32; epoch++) {
        (void)hr_torch_draw(&mt);
        struct hr_order order = {.n = 4000, .seed = (uint32_t)hr_torch_draw(&mt), .replicas = 1};
        struct hr_order_ask ask = ask_of(4000);
        look(&ask, &order, SEEN);
        expect_found(&ask, &order, 416 + 4096 + 2 * (1 << 20) + 4096 * 64);
    }
}

/* What follows an order that is known costs a few candidates, however large the seed. */
static void test_recent_orders(void **state)
{
    (void)state;
    const struct hr_order known = {.n = 4000, .seed = 0xdeadbeef, .replicas = 1};
    const struct hr_order ranked = {.n = 4000, .seed = 0xcafe0000, .replicas = 100, .rank = 99};
    struct hr_order next[] = {known, known, known, known, ranked};
    next[1].seed++;
    next[2].skip = 3999;           /* the generator goes on */
    next[3].skip = 2 * (3999 + 2); /* ...with an iterator's draw between, one epoch unseen */
    next[4].seed += 3;
    for (size_t i = 0; i < sizeof next / sizeof *next; i++) {
        struct hr_order_ask ask = {
            .sets = {{.n = 4000}}, .set_count = 1, .recent = {known, ranked}, .recent_count = 2};
        look(&ask, &next[i], SEEN);
        expect_found(&ask, &next[i], 48);
    }
}

#define LIKELY 416 /* candidates: 32 seeds in 13 ways */
#define RARER (4096 + 3 * (1 << 20) + 4096 * 64)

static void test_what_is_no_order_of_torch(void **state)
{
    (void)state;
    struct hr_order_search result;
    struct hr_order_ask ask = ask_of(4000);
    struct hr_order_seen *seen = ask.sets[0].seen;
    ask.sets[0].seen_count = SEEN;
    for (uint32_t i = 0; i < SEEN; i++) {
        seen[i] = (struct hr_order_seen){i, 1000 + i}; /* not shuffled at all */
    }
    search(&result, &ask);
    assert_false(result.found);
    assert_true(result.tried == LIKELY + RARER);
    struct hr_order order = {.n = 4000, .seed = 3, .replicas = 1};
    (void)see(seen, &order, SEEN);
    seen[7].index ^= 1; /* one lie */
    search(&result, &ask);
    assert_false(result.found);
    seen[7].index ^= 1;
    ask.sets[0].n = 4001; /* another set */
    search(&result, &ask);
    assert_false(result.found);
    ask.set_count = 0;
    search(&result, &ask);
    assert_false(result.found);
}

/* Of each phase as many indices as tell its candidates apart: a few for likely seeds. What was gone through
 * is not gone through again when more is seen. */
static void test_few_indices(void **state)
{
    (void)state;
    struct hr_order_search result;
    struct hr_order order = {.n = 4000, .seed = 777777, .replicas = 1};
    struct hr_order_ask ask = ask_of(4000);
    look(&ask, &order, 1);
    search(&result, &ask);
    assert_true(!result.found && result.tried == 0); /* not even tried */
    look(&ask, &order, 2);
    search(&result, &ask);
    assert_true(!result.found && result.tried == LIKELY);
    look(&ask, &order, 3);
    ask.sets[0].before = 2;
    search(&result, &ask);
    assert_true(result.found && result.where.phase == HR_ORDER_SMALL && result.order.seed == 777777);
    assert_in_range(result.tried, 777777, 1 << 20);
    order.seed = 42;
    look(&ask, &order, 2);
    ask.sets[0].before = 0;
    search(&result, &ask);
    assert_true(result.found && result.where.phase == HR_ORDER_LIKELY && result.order.seed == 42);
    assert_int_equal(hr_order_needed(4000, LIKELY), 2);
    assert_int_equal(hr_order_needed(4000, 1 << 20), 3);
    assert_int_equal(hr_order_needed(1000, 1 << 20), 4);
    assert_int_equal(hr_order_needed(4000, 4294967296.0), 4);
    assert_int_equal(hr_order_needed(10, 4294967296.0), UINT32_MAX); /* 10! is less than 2^32 */
}

/* A search with as many indices as it says it needs is rarely wrong: orders of no seed, of true chance. */
static void test_few_indices_rarely_lie(void **state)
{
    (void)state;
    struct hr_order_search result;
    unsigned found = 0;
    for (unsigned round = 0; round < 400; round++) {
        struct hr_order_ask ask = ask_of(1500 + round);
        struct hr_order_set *set = &ask.sets[0];
        set->seen_count = hr_order_needed(set->n, LIKELY);
        for (unsigned i = 0; i < set->seen_count; i++) {
            set->seen[i] = (struct hr_order_seen){i, random_word() % set->n};
        }
        search(&result, &ask);
        found += result.found;
    }
    assert_in_range(found, 0, 2); /* a tenth of one in the mean */
}

/* Literals of Python 3.11 and numpy 1.24. */
static void test_literals_of_the_others(void **state)
{
    (void)state;
    static const struct {
        enum hr_order_generator generator;
        uint32_t seed, want[10];
    } known[] = {
        {HR_ORDER_PYTHON, 0u, {7, 8, 1, 5, 3, 4, 2, 0, 9, 6}},
        {HR_ORDER_PYTHON, 42u, {7, 3, 2, 8, 5, 6, 9, 4, 0, 1}},
        {HR_ORDER_PYTHON, 4294967295u, {0, 7, 1, 5, 2, 6, 4, 8, 3, 9}},
        {HR_ORDER_NUMPY_LEGACY, 0u, {2, 8, 4, 9, 1, 6, 7, 3, 0, 5}},
        {HR_ORDER_NUMPY_LEGACY, 42u, {8, 1, 5, 0, 7, 2, 9, 4, 3, 6}},
        {HR_ORDER_NUMPY_LEGACY, 4294967295u, {6, 9, 5, 1, 8, 0, 7, 4, 2, 3}},
        {HR_ORDER_NUMPY, 0u, {4, 6, 2, 7, 3, 5, 9, 0, 8, 1}},
        {HR_ORDER_NUMPY, 42u, {5, 6, 0, 7, 3, 2, 4, 9, 1, 8}},
        {HR_ORDER_NUMPY, 4294967295u, {0, 1, 4, 8, 3, 7, 5, 6, 2, 9}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t have[10];
        struct hr_order order = {
            .n = 10, .seed = known[i].seed, .replicas = 1, .generator = known[i].generator};
        hr_order_make(&order, have);
        assert_memory_equal(have, known[i].want, sizeof have);
    }
}

/* A model has taken its numbers before the sampler draws: any output of the generator may be the seed. */
static void test_seed_drawn_late(void **state)
{
    (void)state;
    static const uint64_t taken[] = {0, 1, 5000000, 5000063, (1 << 24) - 1};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        struct hr_order_slice slice = {.phase = HR_ORDER_LATE};
        struct hr_order found, order = {.n = 4000, .replicas = 1};
        struct hr_order_ask ask = ask_of(4000);
        struct hr_mt mt;
        uint64_t tried;
        hr_mt_seed(&mt, 42); /* the first that is tried */
        hr_mt_skip(&mt, taken[i]);
        order.seed = hr_mt_next(&mt);
        look(&ask, &order, SEEN);
        ask.steps = 4ull << 24;
        slice.first = taken[i] / 4096 * 4096;
        slice.end = slice.first + 4096;
        assert_true(hr_order_slice_run(&slice, &ask, hr_order_widest(), &found, &tried));
        assert_int_equal(found.seed, order.seed);
        slice.first += 1 << 24; /* the next outer generator's */
        slice.end += 1 << 24;
        assert_false(hr_order_slice_run(&slice, &ask, hr_order_widest(), &found, &tried));
        assert_true(tried == 4096);
    }
}

/* Python's and numpy's: seeds that people like at once, others as far as the steps go, and what follows one
 * that was found. */
static void test_search_for_the_others(void **state)
{
    (void)state;
    for (enum hr_order_generator generator = HR_ORDER_PYTHON; generator < HR_ORDER_GENERATORS; generator++) {
        struct hr_order_search result;
        struct hr_order order = {.n = 1200, .seed = 42, .replicas = 1, .generator = generator};
        struct hr_order_ask ask = ask_of(1200);
        look(&ask, &order, 3);
        search(&result, &ask);
        assert_true(result.found && result.where.phase == HR_ORDER_LIKELY);
        assert_memory_equal(&result.order, &order, sizeof order);
        order.seed = 900;
        look(&ask, &order, SEEN);
        ask.sets[0].before = 9; /* what is quicker is over */
        ask.steps = 901 * 1200;
        search(&result, &ask);
        assert_true(result.found && result.where.phase == HR_ORDER_OTHERS);
        assert_memory_equal(&result.order, &order, sizeof order);
        ask.steps = 900 * 1200; /* one seed less */
        search(&result, &ask);
        assert_true(!result.found && result.tried == 3 * 900 + 900 * 1200 / 256 * 256);
        ask.recent[0] = order;
        ask.recent_count = 1;
        ask.sets[0].before = 0;
        order.seed = 901;
        look(&ask, &order, 3);
        search(&result, &ask);
        assert_true(result.found && result.where.phase == HR_ORDER_RECENT);
        assert_int_equal(result.order.seed, 901);
    }
}

/* ---- the threads ---- */

static struct hr_order_result await(struct hr_order_searcher *searcher)
{
    struct hr_order_result result;
    struct pollfd ready = {.fd = hr_order_searcher_fd(searcher), .events = POLLIN};
    while (!hr_order_searcher_take(searcher, &result)) {
        assert_int_equal(poll(&ready, 1, WAIT_MS), 1);
    }
    assert_true(result.found == (result.permutation != NULL));
    if (result.found) {
        uint32_t *whole = make(&result.order);
        assert_memory_equal(whole, result.permutation, result.order.n * sizeof *whole);
        free(whole);
        free(result.permutation);
    }
    return result;
}

static void test_searcher(void **state)
{
    (void)state;
    struct hr_order_searcher *searcher = NULL;
    struct hr_order order = {.n = 4000, .seed = 31337, .replicas = 1};
    struct hr_order_ask ask = ask_of(4000), none = {0};
    look(&ask, &order, SEEN);
    assert_int_equal(hr_order_searcher_new(HR_ORDER_MODE_AUTO, &searcher), 0);
    assert_int_equal(hr_order_searcher_ask(searcher, 5, &ask), 0);
    struct hr_order_result result = await(searcher);
    assert_true(result.found && result.id == 5);
    assert_int_equal(result.order.seed, 31337);
    assert_true(hr_order_searcher_tried(searcher) == result.tried);
    assert_int_equal(hr_order_searcher_ask(searcher, 6, &none), 0); /* an ask about nothing ends, too */
    result = await(searcher);
    assert_true(!result.found && result.id == 6 && result.tried == 0);
    hr_order_searcher_free(searcher);
    assert_int_equal(hr_order_searcher_new(HR_ORDER_MODE_OFF, &searcher), 0);
    assert_int_equal(hr_order_searcher_ask(searcher, 5, &ask), -EOPNOTSUPP);
    hr_order_searcher_free(searcher);
}

/* Searches through everything, for what is not there: likely candidates of others are not held up, places
 * come back, and the end does not wait for them. */
static void test_full_search_gives_way(void **state)
{
    (void)state;
    struct hr_order_searcher *searcher = NULL;
    struct hr_order_ask hopeless = ask_of(4000);
    struct hr_order order = {.n = 4000, .seed = 99, .replicas = 8, .rank = 5};
    struct hr_order_ask ask = ask_of(4000);
    hopeless.deep = true;
    hopeless.sets[0].seen_count = SEEN;
    for (uint32_t i = 0; i < SEEN; i++) {
        hopeless.sets[0].seen[i] = (struct hr_order_seen){i, 1000 + i};
    }
    look(&ask, &order, SEEN);
    assert_int_equal(hr_order_searcher_new(HR_ORDER_MODE_FULL, &searcher), 0);
    for (uint64_t id = 1; id < HR_ORDER_JOBS_MAX; id++) {
        assert_int_equal(hr_order_searcher_ask(searcher, id, &hopeless), 0);
    }
    for (unsigned round = 0; round < 3; round++) {
        assert_int_equal(hr_order_searcher_ask(searcher, 77, &ask), 0);
        struct hr_order_result result = await(searcher);
        assert_true(result.found && result.id == 77);
        assert_int_equal(result.order.rank, 5);
    }
    assert_int_equal(hr_order_searcher_ask(searcher, HR_ORDER_JOBS_MAX, &hopeless), 0);
    assert_int_equal(hr_order_searcher_ask(searcher, 78, &ask), -EBUSY);
    int error;
    hr_order_searcher_cancel(searcher, 2);
    while ((error = hr_order_searcher_ask(searcher, 78, &ask)) == -EBUSY) {
        (void)poll(NULL, 0, 1); /* its slices under way come to their end */
    }
    assert_int_equal(error, 0);
    struct hr_order_result result = await(searcher);
    assert_true(result.found && result.id == 78);
    hr_order_searcher_free(searcher);
}

/* ---- where all seeds may be gone through ---- */

static char folder[] = "/tmp/hr-orders-XXXXXX";

static void put(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void put_folder(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static bool has_quota(const char *cgroups)
{
    char path[512];
    put("cgroup", cgroups);
    snprintf(path, sizeof path, "%s/cgroup", folder);
    return hr_order_has_quota(path, folder);
}

static void test_quota(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_false(hr_order_has_quota("/nonexistent", folder));
    put_folder("a");
    put_folder("a/b");
    put("a/b/cpu.max", "max 100000\n");
    assert_false(has_quota("0::/a/b\n"));
    put("a/cpu.max", "200000 100000\n"); /* of the group above */
    assert_true(has_quota("0::/a/b\n"));
    assert_true(has_quota("0::/a\n"));
    assert_false(has_quota("0::/\n"));
    put("cpu.max",
        "50000 100000\n"); /* a container sees its own group at the top, maybe under the host's path */
    assert_true(has_quota("0::/\n"));
    assert_true(has_quota("0::/elsewhere/x\n"));
    put("cpu.max", "max 100000\n");
    put_folder("cpu,cpuacct");
    put_folder("cpu,cpuacct/job");
    put("cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
    assert_false(has_quota("5:memory:/a\n4:cpu,cpuacct:/job\n3:cpuset:/a\n"));
    put("cpu,cpuacct/cpu.cfs_quota_us", "150000\n");
    assert_true(has_quota("5:memory:/\n4:cpu,cpuacct:/job\n"));
    assert_false(has_quota("broken\n"));
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_twister),
        cmocka_unit_test(test_literals_of_torch),
        cmocka_unit_test(test_prefix_is_the_head),
        cmocka_unit_test(test_ranks_and_batches),
        cmocka_unit_test(test_widths_agree),
        cmocka_unit_test(test_full_search_in_a_window),
        cmocka_unit_test(test_distributed_sampler),
        cmocka_unit_test(test_small_seeds),
        cmocka_unit_test(test_drawn_seed),
        cmocka_unit_test(test_recent_orders),
        cmocka_unit_test(test_what_is_no_order_of_torch),
        cmocka_unit_test(test_few_indices),
        cmocka_unit_test(test_few_indices_rarely_lie),
        cmocka_unit_test(test_literals_of_the_others),
        cmocka_unit_test(test_seed_drawn_late),
        cmocka_unit_test(test_search_for_the_others),
        cmocka_unit_test(test_searcher),
        cmocka_unit_test(test_full_search_gives_way),
        cmocka_unit_test(test_quota),
    };
    return cmocka_run_group_tests_name("orders", tests, NULL, NULL);
}
