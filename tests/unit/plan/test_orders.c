/* The search for a known order by how many candidates it tried, whoever's generator made it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fetch/plan/order_batches.h"
#include "tests/unit/plan/orders.h"

#define LIKELY 442                               /* candidates: 34 seeds in 13 ways */
#define RARER (4096 + 3 * (1 << 20) + 4096 * 64) /* ...and those after them, without batches */
#define FOLLOWERS 26                             /* of one recent order */
#define FAVOURED (34 * 9)                        /* seeds of batches by turns before those below 2^11 */

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
        expect_found(&ask, &order, LIKELY + 4096);
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
        expect_found(&ask, &order, 2 * LIKELY + 2 * 4096 + 2 * (1 << 20));
        order.skip = 2; /* a DataLoader's generator=: its own seed comes first */
        look(&ask, &order, SEEN);
        expect_found(&ask, &order, 2 * LIKELY + 2 * 4096 + 4 * (1 << 20));
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
        expect_found(&ask, &order, LIKELY + 4096 + 2 * (1 << 20) + 4096 * 64);
    }
}

/* What follows an order that is known costs a few candidates, however large the seed. */
static void test_recent_orders(void **state)
{
    (void)state;
    const struct hr_order known = {.n = 4000, .seed = 0xdeadbeef, .replicas = 1};
    const struct hr_order ranked = {.n = 4000, .seed = 0xcafe0000, .replicas = 100, .rank = 99};
    const struct hr_order infinite = {.n = 4000, .seed = 0xfeed0000, .replicas = 3, .rank = 2};
    struct hr_order next[] = {known, known, known, known, ranked, known, known, infinite};
    next[1].seed++;
    next[2].skip = 3999;           /* the generator goes on */
    next[3].skip = 2 * (3999 + 2); /* ...with an iterator's draw between, one epoch unseen */
    next[4].seed += 3;
    next[5].skip = 2 * 3999;     /* RandomSampler at its end draws another */
    next[6].skip = 2 * 3999 + 2; /* ...and a loader its seed before the next */
    next[7].skip = 3999;
    next[7].rank = 1; /* 4,000 is 3 x 1,333 + 1: the first place of the next permutation is rank 1's */
    for (size_t i = 0; i < sizeof next / sizeof *next; i++) {
        struct hr_order_ask ask = {
            .sets = {{.n = 4000}}, .set_count = 1, .recent = {known, ranked, infinite}, .recent_count = 3};
        look(&ask, &next[i], SEEN);
        expect_found(&ask, &next[i], 3 * FOLLOWERS);
    }
}

/* What a rank announced, of whole batches: the first, and so many further indices of the second. */
static void look_at_batches(struct hr_order_ask *ask, const struct hr_order *order, unsigned further)
{
    uint32_t *whole = make(order);
    struct hr_order_set *set = &ask->sets[0];
    set->seen_count = 0;
    for (uint32_t i = 0; i < order->batch + further && set->seen_count < HR_ORDER_SEEN_MAX; i++) {
        set->seen[set->seen_count++] = (struct hr_order_seen){i, hr_order_at(order, whole, i)};
    }
    ask->batch = order->batch;
    free(whole);
}

/* accelerate's ranks: batches by turns, of seed + epoch. Its first batch tells the rank, the second of how
 * many; without one they are the fewest. */
static void test_batches_by_turns(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1000, 4000, 50000, 1281167}, batches[] = {2, 8, 13, 64};
    for (unsigned round = 0; round < 12; round++) {
        struct hr_order order = {.n = sizes[round % 4], .seed = random_word() % 2048, .replicas = 1};
        struct hr_order_ask ask = ask_of(order.n);
        struct hr_order_search result;
        order.batch = batches[random_word() % 4];
        uint32_t most = order.n / 4 / order.batch < 64 ? order.n / 4 / order.batch : 64;
        order.replicas = 2 + random_word() % (most - 1);
        order.rank = 1 + random_word() % (order.replicas - 1);
        bool turns = order.batch < SEEN || round % 2; /* fewer do not suffice by themselves */
        look_at_batches(&ask, &order, turns ? SEEN : 0);
        ask.recent[0] = (struct hr_order){.n = order.n, .seed = 0xdeadbeef, .replicas = 1};
        ask.recent_count = 1;
        search(&result, &ask);
        assert_true(result.found && result.where.phase == HR_ORDER_BATCHES);
        order.replicas = turns && ask.sets[0].seen_count > order.batch ? order.replicas : order.rank + 1;
        assert_memory_equal(&result.order, &order, sizeof order);
        order.replicas += turns ? 0 : 3;
        ask.recent[1] = order; /* the epoch before: of how many is known */
        ask.recent_count = 2;
        order.seed++;
        look_at_batches(&ask, &order, turns ? SEEN : 0);
        search(&result, &ask);
        assert_true(result.found && result.where.phase == HR_ORDER_RECENT);
        assert_memory_equal(&result.order, &order, sizeof order);
    }
}

/* Seeds that are drawn of the likely ones; nothing where the loader's batches are none, or others. */
static void test_batches_of_a_drawn_seed(void **state)
{
    (void)state;
    struct hr_mt mt;
    struct hr_order_search result;
    struct hr_order order = {.n = 4000, .replicas = 6, .rank = 3, .batch = 16};
    struct hr_order_ask ask = ask_of(4000);
    hr_mt_seed(&mt, 42);
    hr_mt_skip(&mt, 4);
    order.seed = (uint32_t)hr_torch_draw(&mt);
    look_at_batches(&ask, &order, SEEN);
    search(&result, &ask);
    assert_true(result.found);
    assert_memory_equal(&result.order, &order, sizeof order);
    assert_in_range(result.tried, LIKELY + RARER - (1 << 20) + 1, LIKELY + RARER - (1 << 20) + FAVOURED);
    ask.batch = 0;
    search(&result, &ask);
    assert_true(!result.found && result.tried == LIKELY + RARER);
    ask.batch = 15;
    search(&result, &ask);
    assert_true(!result.found && result.tried == LIKELY + RARER + FAVOURED + 2048);
}

/* What was seen must fit in every place. */
static void test_batches_fit(void **state)
{
    (void)state;
    const struct hr_order order = {.n = 1000, .seed = 7, .replicas = 5, .rank = 4, .batch = 8};
    struct hr_order_ask ask = ask_of(1000);
    struct hr_order plain = {.n = 1000, .seed = 7, .replicas = 1}, found = plain;
    struct hr_order_seen *seen = ask.sets[0].seen;
    uint32_t *whole = make(&order);
    look_at_batches(&ask, &order, 24);
    unsigned count = ask.sets[0].seen_count;
    assert_int_equal(hr_order_batches_fit(&found, whole, 8, seen, count), count);
    assert_memory_equal(&found, &order, sizeof order);
    found = plain;
    assert_int_equal(hr_order_batches_fit(&found, whole, 8, seen, 8), 8);
    assert_int_equal(found.replicas, 5); /* rank 4: the fewest */
    found = plain;
    assert_int_equal(hr_order_batches_fit(&found, whole, 4, seen, count), 0); /* another batch's length */
    assert_int_equal(hr_order_batches_fit(&found, whole, 8, seen + 1, count - 1), 0);
    for (unsigned i = 0; i < count; i++) {
        seen[i].index ^= 1;
        assert_int_equal(hr_order_batches_fit(&found, whole, 8, seen, count), 0);
        seen[i].index ^= 1;
    }
    assert_memory_equal(&found, &plain, sizeof plain);
    free(whole);
}

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

/* What nobody wants any more ends at its next candidates, in every phase, though the right one is among them.
 */
static void test_given_up_slices_end(void **state)
{
    (void)state;
    atomic_bool given_up = false;
    struct hr_order order = {.n = 4000, .seed = 42, .replicas = 1}, found;
    struct hr_order_ask ask = ask_of(4000);
    look(&ask, &order, SEEN);
    ask.recent[0] = order;
    ask.recent_count = 1;
    ask.deep = ask.all = true;
    ask.batch = 8;
    ask.steps = 1u << 26;
    ask.given_up = &given_up;
    for (unsigned phase = 0; phase < HR_ORDER_PHASES; phase++) {
        struct hr_order_slice slice = {.phase = phase, .end = 256};
        uint64_t tried = 0;
        given_up = false;
        (void)hr_order_slice_run(&slice, &ask, hr_order_widest(), &found, &tried);
        assert_true(tried > 0);
        given_up = true;
        assert_false(hr_order_slice_run(&slice, &ask, hr_order_widest(), &found, &tried));
        assert_int_equal(tried, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_search_in_a_window),
        cmocka_unit_test(test_distributed_sampler),
        cmocka_unit_test(test_small_seeds),
        cmocka_unit_test(test_drawn_seed),
        cmocka_unit_test(test_recent_orders),
        cmocka_unit_test(test_what_is_no_order_of_torch),
        cmocka_unit_test(test_few_indices),
        cmocka_unit_test(test_few_indices_rarely_lie),
        cmocka_unit_test(test_seed_drawn_late),
        cmocka_unit_test(test_search_for_the_others),
        cmocka_unit_test(test_given_up_slices_end),
        cmocka_unit_test(test_batches_by_turns),
        cmocka_unit_test(test_batches_of_a_drawn_seed),
        cmocka_unit_test(test_batches_fit),
    };
    return cmocka_run_group_tests_name("orders", tests, NULL, NULL);
}
