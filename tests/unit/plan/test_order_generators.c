/* The generators of known orders: against literals of torch, numpy and Python, every vector width against the
 * plain one. tests/e2e/test_orders.py asks torch itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/plan/orders.h"

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

struct literal {
    enum hr_order_generator generator;
    uint32_t n, seed, want[10];
};

static void expect_literals(const struct literal *known, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t have[10];
        struct hr_order order = {
            .n = known[i].n, .seed = known[i].seed, .replicas = 1, .generator = known[i].generator};
        hr_order_make(&order, have);
        assert_memory_equal(have, known[i].want, known[i].n * sizeof have[0]);
    }
}

static void test_literals_of_torch(void **state)
{
    (void)state;
    static const struct literal known[] = {
        {HR_ORDER_TORCH, 10, 0, {4, 1, 7, 5, 3, 9, 0, 8, 6, 2}},
        {HR_ORDER_TORCH, 10, 42, {2, 6, 1, 8, 4, 5, 0, 9, 3, 7}},
        {HR_ORDER_TORCH, 7, UINT32_MAX, {2, 1, 3, 6, 4, 5, 0}},
        {HR_ORDER_TORCH, 2, 0, {0, 1}},
        {HR_ORDER_TORCH, 1, 5, {0}},
    };
    expect_literals(known, sizeof known / sizeof *known);
}

/* Literals of Python 3.11 and numpy 1.24. */
static void test_literals_of_the_others(void **state)
{
    (void)state;
    static const struct literal known[] = {
        {HR_ORDER_PYTHON, 10, 0u, {7, 8, 1, 5, 3, 4, 2, 0, 9, 6}},
        {HR_ORDER_PYTHON, 10, 42u, {7, 3, 2, 8, 5, 6, 9, 4, 0, 1}},
        {HR_ORDER_PYTHON, 10, 4294967295u, {0, 7, 1, 5, 2, 6, 4, 8, 3, 9}},
        {HR_ORDER_NUMPY_LEGACY, 10, 0u, {2, 8, 4, 9, 1, 6, 7, 3, 0, 5}},
        {HR_ORDER_NUMPY_LEGACY, 10, 42u, {8, 1, 5, 0, 7, 2, 9, 4, 3, 6}},
        {HR_ORDER_NUMPY_LEGACY, 10, 4294967295u, {6, 9, 5, 1, 8, 0, 7, 4, 2, 3}},
        {HR_ORDER_NUMPY, 10, 0u, {4, 6, 2, 7, 3, 5, 9, 0, 8, 1}},
        {HR_ORDER_NUMPY, 10, 42u, {5, 6, 0, 7, 3, 2, 4, 9, 1, 8}},
        {HR_ORDER_NUMPY, 10, 4294967295u, {0, 1, 4, 8, 3, 7, 5, 6, 2, 9}},
    };
    expect_literals(known, sizeof known / sizeof *known);
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
static void test_ranks(void **state)
{
    (void)state;
    struct hr_order order = {.n = 10, .seed = 0, .replicas = 4};
    uint32_t *whole = make(&order);
    unsigned counts[10] = {0};
    for (order.rank = 0; order.rank < 4; order.rank++) {
        assert_int_equal(hr_order_length(&order), 3);
        for (uint32_t i = 0; i < 3; i++) {
            uint32_t index = hr_order_at(&order, whole, i);
            assert_int_equal(index, whole[(order.rank + 4 * i) % 10]);
            counts[index]++;
        }
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

/* accelerate 1.15's BatchSamplerShard over SeedableRandomSampler(range(20)), seed 42 in epoch 1: the end goes
 * on at the beginning. Batches that are split give the same. */
static void test_batches_by_turns(void **state)
{
    (void)state;
    static const struct {
        uint32_t batch, replicas, rank, count, want[12];
    } known[] = {
        {3, 2, 0, 12, {8, 16, 13, 0, 17, 4, 18, 6, 15, 5, 2, 8}},
        {3, 2, 1, 12, {19, 9, 10, 14, 11, 12, 7, 3, 1, 16, 13, 19}},
        {2, 3, 2, 8, {9, 10, 11, 12, 3, 1, 13, 19}},
        {2, 5, 4, 4, {4, 14, 5, 2}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct hr_order order = {.n = 20,
                                 .seed = 43,
                                 .replicas = known[i].replicas,
                                 .rank = known[i].rank,
                                 .batch = known[i].batch};
        uint32_t *whole = make(&order);
        assert_int_equal(hr_order_length(&order), known[i].count);
        for (uint32_t at = 0; at < known[i].count; at++) {
            assert_int_equal(hr_order_at(&order, whole, at), known[i].want[at]);
        }
        free(whole);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_twister),
        cmocka_unit_test(test_literals_of_torch),
        cmocka_unit_test(test_literals_of_the_others),
        cmocka_unit_test(test_prefix_is_the_head),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_batches_by_turns),
        cmocka_unit_test(test_widths_agree),
    };
    return cmocka_run_group_tests_name("order_generators", tests, NULL, NULL);
}
