/* Orders of the next epochs, without a plan: which they are, what they are worth, and what is given up by
 * them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fetch/plan/future.h"
#include "fetch/plan/highest.h"
#include "fetch/plan/next_epoch.h"
#include "fetch/plan/predict.h"
#include "interpose/abi.h"

static uint64_t random_state;

static uint32_t below(uint32_t n)
{
    random_state = hr_mix64(random_state + 0x9e3779b97f4a7c15u);
    return (uint32_t)(random_state % n);
}

/* ---- the highest of a set ---- */

static void check_highest(uint32_t size, uint32_t first)
{
    struct hr_highest set;
    bool *there = calloc(size, 1);
    uint32_t found;
    assert_non_null(there);
    assert_int_equal(hr_highest_begin(&set, size, first), 0);
    for (uint32_t i = first; i < size; i++) {
        there[i] = true;
    }
    for (unsigned step = 0; step < 2000; step++) {
        uint32_t number = below(size), highest = size;
        there[number] = step % 3 == 0;
        (there[number] ? hr_highest_add : hr_highest_remove)(&set, number);
        while (highest > 0 && !there[highest - 1]) {
            highest--;
        }
        assert_true(hr_highest_find(&set, &found) == (highest > 0));
        assert_true(highest == 0 || found == highest - 1);
        if (highest > 0 && step % 2) {
            there[highest - 1] = false;
            hr_highest_remove(&set, highest - 1);
        }
    }
    hr_highest_end(&set);
    free(there);
}

static void test_highest(void **state)
{
    static const uint32_t sizes[] = {1, 2, 63, 64, 65, 4095, 4096, 4097, 5000};
    (void)state;
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_highest(sizes[i], 0);
        check_highest(sizes[i], sizes[i] / 2);
        check_highest(sizes[i], sizes[i] - 1);
        check_highest(sizes[i], sizes[i]);
    }
}

/* ---- which order comes next ---- */

static const struct hr_order ranked = {.n = 1000, .seed = 7, .replicas = 4, .rank = 3};

static enum hr_predicted known(struct hr_predict *predict, uint32_t seed)
{
    struct hr_order order = ranked;
    order.seed = seed;
    return hr_predict_known(predict, &order);
}

static void test_epoch_is_added_to_the_seed(void **state)
{
    struct hr_predict predict = {0};
    struct hr_orders orders;
    (void)state;
    assert_false(hr_predict_next(&predict, 1, &orders));
    assert_int_equal(known(&predict, 7), HR_PREDICTED_NOTHING);
    assert_true(hr_predict_next(&predict, 3, &orders));
    assert_int_equal(orders.count, 3);
    for (unsigned i = 0; i < 3; i++) {
        struct hr_order expected = ranked;
        expected.seed = 8 + i;
        assert_memory_equal(&orders.orders[i], &expected, sizeof expected);
    }
    assert_int_equal(known(&predict, 8), HR_PREDICTED_RIGHT);
    assert_true(hr_predict_next(&predict, 1, &orders));
    assert_int_equal(orders.orders[0].seed, 9);
    assert_int_equal(hr_predict_missed(&predict), HR_PREDICTED_WRONG);
    assert_int_equal(hr_predict_missed(&predict), HR_PREDICTED_NOTHING);
}

/* Nobody sets the epoch: one prediction is wrong, and from the third that would have been right on they are
 * believed again. */
static void test_an_order_that_stays(void **state)
{
    struct hr_predict predict = {0};
    struct hr_orders orders;
    (void)state;
    (void)known(&predict, 7);
    assert_true(hr_predict_next(&predict, 2, &orders));
    assert_int_equal(known(&predict, 7), HR_PREDICTED_WRONG);
    for (unsigned doubts = 2; doubts > 0; doubts--) {
        assert_false(hr_predict_next(&predict, 2, &orders));
        assert_int_equal(known(&predict, 7), HR_PREDICTED_NOTHING);
    }
    assert_true(hr_predict_next(&predict, 2, &orders));
    assert_int_equal(orders.orders[0].seed, 7);
    assert_int_equal(orders.orders[1].seed, 7);
    assert_int_equal(known(&predict, 7), HR_PREDICTED_RIGHT);
    /* Somebody sets it by tens, then by ones: what was seen last counts. */
    assert_true(hr_predict_next(&predict, 2, &orders));
    assert_int_equal(known(&predict, 17), HR_PREDICTED_WRONG);
    assert_false(hr_predict_next(&predict, 2, &orders));
    assert_int_equal(known(&predict, 18), HR_PREDICTED_NOTHING);
    assert_int_equal(known(&predict, 19), HR_PREDICTED_NOTHING);
    assert_int_equal(known(&predict, 20), HR_PREDICTED_NOTHING);
    assert_true(hr_predict_next(&predict, 2, &orders));
    assert_int_equal(orders.orders[1].seed, 22);
}

/* accelerate without its own sampler: what is drawn an epoch shows with the second. */
static void test_generator_that_goes_on(void **state)
{
    struct hr_predict predict = {.doubts = 0};
    struct hr_orders next;
    struct hr_order order = ranked;
    (void)state;
    order.batch = 8;
    for (unsigned epoch = 0; epoch < 6; epoch++, order.skip += 1998) {
        enum hr_predicted want = epoch == 1   ? HR_PREDICTED_WRONG /* the next seed is more usual */
                                 : epoch >= 4 ? HR_PREDICTED_RIGHT
                                              : HR_PREDICTED_NOTHING;
        assert_int_equal(hr_predict_known(&predict, &order), want);
        assert_int_equal(hr_predict_next(&predict, 3, &next), epoch == 0 || epoch >= 3);
    }
    for (unsigned i = 0; i < 3; i++, order.skip += 1998) {
        assert_memory_equal(&next.orders[i], &order, sizeof order);
    }
}

static void test_one_rank_is_not_predicted(void **state)
{
    struct hr_predict predict = {0};
    struct hr_orders orders;
    struct hr_order order = {.n = 1000, .seed = 7, .replicas = 1};
    (void)state;
    for (; order.seed < 12; order.seed++) {
        assert_int_equal(hr_predict_known(&predict, &order), HR_PREDICTED_NOTHING);
        assert_false(hr_predict_next(&predict, 1, &orders));
    }
}

/* ---- what it is worth: one node of several, whose cache holds a part of all ---- */

#define NAMES 4000u
#define EPOCHS 10u

struct node {
    struct hr_next_epoch next;
    struct hr_future future;
    struct hr_order order;
    uint32_t *permutation;
    bool there[NAMES], unread[NAMES];
    uint32_t count, room, gets;
};

static uint32_t position_of(const void *owner, uint32_t position)
{
    const struct node *node = owner;
    return hr_order_at(&node->order, node->permutation, position);
}

static bool is_idle(void *owner, uint32_t index)
{
    struct node *node = owner;
    return node->there[index] && !hr_future_needs(&node->future, index);
}

static bool is_there(void *owner, uint32_t index)
{
    return ((const struct node *)owner)->there[index];
}

static uint32_t *make_all(const struct hr_orders *orders)
{
    uint32_t *all = malloc(sizeof *all * NAMES * orders->count);
    assert_non_null(all);
    for (unsigned i = 0; i < orders->count; i++) {
        hr_order_make(&orders->orders[i], all + (size_t)i * NAMES);
    }
    return all;
}

static void begin(struct node *node, unsigned foreseen)
{
    struct hr_orders orders = {.count = foreseen, .orders = {node->order}};
    node->permutation = make_all(&(struct hr_orders){.count = 1, .orders = {node->order}});
    node->future = (struct hr_future){
        .at = position_of, .order = node, .n = NAMES, .length = hr_order_length(&node->order)};
    assert_int_equal(hr_future_begin(&node->future), 0);
    for (unsigned i = 0; i < foreseen; i++) {
        orders.orders[i] = node->order;
        orders.orders[i].seed += 1 + i;
    }
    assert_int_equal(hr_next_epoch_begin(&node->next, &orders, make_all(&orders)), 0);
    uint32_t joined = 0;
    while (joined != UINT32_MAX) {
        joined = hr_next_epoch_join(&node->next, node->order.rank, joined, 100);
    }
}

static void read_one(struct node *node, uint32_t index)
{
    uint32_t victim;
    if (!node->there[index]) {
        node->gets++;
        node->there[index] = true;
        node->count++;
    }
    hr_future_read(&node->future, index);
    hr_next_epoch_idle(&node->next, index);
    if (node->count > node->room) {
        assert_true(hr_next_epoch_find(&node->next, is_idle, node, &victim) ||
                    hr_future_find_last(&node->future, is_there, node, &victim));
        assert_true(node->there[victim]);
        node->there[victim] = false;
        node->count--;
    }
}

/* The share of the objects that the epochs from the fourth on fetch. */
static double fetched(uint32_t replicas, uint32_t batch, unsigned foreseen, uint32_t room)
{
    struct node *node = calloc(1, sizeof *node);
    unsigned gets = 0;
    assert_non_null(node);
    node->order =
        (struct hr_order){.n = NAMES, .seed = 11, .replicas = replicas, .rank = replicas - 1, .batch = batch};
    node->room = room;
    for (unsigned i = 0; i < EPOCHS; i++, node->order.seed++) {
        begin(node, foreseen);
        node->gets = 0;
        for (uint32_t at = 0; at < node->future.length; at++) {
            read_one(node, position_of(node, at));
        }
        gets += i < 3 ? 0 : node->gets;
        hr_future_end(&node->future);
        hr_next_epoch_end(&node->next);
        free(node->permutation);
    }
    free(node);
    return (double)gets / (EPOCHS - 3) / (NAMES / replicas);
}

static void test_what_orders_are_worth(void **state)
{
    (void)state;
    /* One node reads everything: as much as it holds, and no order adds to that. */
    assert_true(fetched(1, 0, 1, NAMES / 4) >= 0.75 && fetched(1, 0, 1, NAMES / 4) < 0.751);
    /* Of two each has the half that it needs: a set that is kept would fetch 0.75 and 0.90. */
    assert_true(fetched(2, 0, 1, NAMES / 4) < 0.52);
    assert_true(fetched(2, 0, 1, NAMES / 10) < 0.805);
    assert_true(fetched(2, 16, 1, NAMES / 4) < 0.52); /* by batches, too */
    /* Of four a quarter of what was read is read again: more epochs say of more what it is good for. */
    double one = fetched(4, 0, 1, NAMES / 4), four = fetched(4, 0, 4, NAMES / 4);
    assert_true(one < 0.65);
    assert_true(four < 0.48);
}

static void test_ranks_and_epochs_in_order(void **state)
{
    struct hr_orders orders = {
        .count = 2, .orders = {{.n = 10, .replicas = 4, .seed = 1}, {.n = 10, .replicas = 4, .seed = 2}}};
    uint32_t *both = malloc(20 * sizeof *both), index;
    struct hr_next_epoch next;
    struct node node = {.order = {.n = 10, .replicas = 4}};
    (void)state;
    assert_non_null(both);
    for (uint32_t i = 0; i < 10; i++) {
        both[i] = i;
        both[10 + i] = 9 - i;
    }
    assert_int_equal(hr_next_epoch_begin(&next, &orders, both), 0);
    orders.orders[0].rank = 2;
    assert_true(hr_next_epoch_is(&next, &orders));
    orders.orders[1].seed++;
    assert_false(hr_next_epoch_is(&next, &orders));
    assert_int_equal(hr_next_epoch_join(&next, 3, 0, 100), UINT32_MAX); /* 3, 7, 1; 6, 2, 8 */
    assert_int_equal(hr_next_epoch_join(&next, 0, 0, 100), UINT32_MAX); /* 0, 4, 8; 9, 5, 1 */
    assert_true(hr_next_epoch_reads(&next, 3, 7));
    assert_true(hr_next_epoch_reads(&next, 0, 8)); /* sooner than 3 does */
    assert_false(hr_next_epoch_reads(&next, 3, 8));
    /* Everything is there, and goes: first what has no place. */
    memset(node.there, true, 10);
    static const uint32_t expected[] = {2, 5, 6, 9, 1, 8, 7, 4, 3, 0};
    node.future.needed = &(uint64_t){0};
    node.future.n = 10;
    for (unsigned i = 0; i < 10; i++) {
        assert_true(hr_next_epoch_find(&next, is_idle, &node, &index));
        assert_int_equal(index, expected[i]);
        node.there[index] = false;
    }
    assert_false(hr_next_epoch_find(&next, is_idle, &node, &index));
    node.there[4] = true; /* it came again */
    assert_false(hr_next_epoch_find(&next, is_idle, &node, &index));
    hr_next_epoch_idle(&next, 4);
    assert_true(hr_next_epoch_find(&next, is_idle, &node, &index));
    assert_int_equal(index, 4);
    hr_next_epoch_end(&next);
}

static void test_batches_by_turns(void **state)
{
    struct hr_orders orders = {.count = 2,
                               .orders = {{.n = 10, .replicas = 2, .batch = 3, .seed = 1},
                                          {.n = 10, .replicas = 2, .batch = 3, .seed = 2}}};
    uint32_t *both = malloc(20 * sizeof *both), joined = 0;
    struct hr_next_epoch next;
    (void)state;
    assert_non_null(both);
    for (uint32_t i = 0; i < 10; i++) {
        both[i] = i;
        both[10 + i] = 9 - i;
    }
    assert_int_equal(hr_next_epoch_begin(&next, &orders, both), 0);
    while (joined != UINT32_MAX) { /* 3 4 5, 9 0 1; 6 5 4, 0 9 8 */
        joined = hr_next_epoch_join(&next, 1, joined, 2);
    }
    static const bool ours[] = {true, true, false, true, true, true, true, false, true, true};
    for (uint32_t i = 0; i < 10; i++) {
        assert_int_equal(hr_next_epoch_reads(&next, 1, i), ours[i]);
        assert_false(hr_next_epoch_reads(&next, 0, i));
    }
    hr_next_epoch_end(&next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_highest),
        cmocka_unit_test(test_epoch_is_added_to_the_seed),
        cmocka_unit_test(test_an_order_that_stays),
        cmocka_unit_test(test_generator_that_goes_on),
        cmocka_unit_test(test_one_rank_is_not_predicted),
        cmocka_unit_test(test_what_orders_are_worth),
        cmocka_unit_test(test_ranks_and_epochs_in_order),
        cmocka_unit_test(test_batches_by_turns),
    };
    return cmocka_run_group_tests_name("orders of the next epochs", tests, NULL, NULL);
}
