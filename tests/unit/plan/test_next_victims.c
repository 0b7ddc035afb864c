/* Replacement by the orders of the next epochs, in the plan and its cache: what leaves it, and what it is
 * worth. */
#include "tests/unit/plan/numbered.h"

#include "fetch/plan/order_thread.h"

#define OBJECTS 512u
#define OBJECT_BYTES (64 * KIB)
#define BATCH 8u

static uint32_t epoch_order[2][OBJECTS];
static uint64_t awaited, awaited_next;

static void open_objects(struct lab *lab)
{
    open_numbered(lab, OBJECTS, OBJECT_BYTES,
                  &(struct lab_options){.prefetch = true, .cache_bytes = OBJECTS / 4 * OBJECT_BYTES},
                  HR_ORDER_MODE_AUTO);
    awaited = awaited_next = 0;
}

static uint32_t make_epoch(uint32_t seed, uint32_t replicas, uint32_t rank, uint32_t *ret)
{
    struct hr_order order = {.n = OBJECTS, .seed = seed, .replicas = replicas, .rank = rank};
    uint32_t *whole = malloc(OBJECTS * sizeof *whole);
    assert_non_null(whole);
    hr_order_make(&order, whole);
    for (uint32_t i = 0; i < hr_order_length(&order); i++) {
        ret[i] = hr_order_at(&order, whole, i);
    }
    free(whole);
    return hr_order_length(&order);
}

static bool is_known(struct lab *lab)
{
    struct hr_plan_stats stats = lab_stats(lab);
    return stats.known_orders >= awaited && stats.next_orders >= awaited_next;
}

/* predicted: the next one's order is to be. */
static unsigned open_epoch(struct lab *lab, uint32_t seed, bool predicted)
{
    unsigned gets = s3_gets(lab->s3);
    uint32_t length = make_epoch(seed, 2, 0, epoch_order[0]);
    awaited++;
    awaited_next += predicted;
    for (uint32_t i = 0; i < length; i++) {
        open_noted(lab, epoch_order[0][i]);
        if (i == 9) {
            lab_until(lab, is_known);
        }
    }
    return s3_gets(lab->s3) - gets;
}

static void check_bytes(struct lab *lab)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < OBJECTS; i++) {
        if (HR_STATE_KIND(lab_word(lab, key_of(i))) == HR_STATE_RESIDENT) {
            lab_check_entry(lab, key_of(i));
            count++;
        }
    }
    assert_true(count <= OBJECTS / 4);
}

/* One of two nodes, with a quarter of all in its cache: half of each epoch is there. */
static void test_half_of_each_epoch(void **state)
{
    struct lab *lab = *state;
    open_objects(lab);
    assert_in_range(open_epoch(lab, 5, true), OBJECTS / 2, OBJECTS / 2 + OBJECTS / 8); /* the sweep's */
    for (uint32_t seed = 6; seed < 9; seed++) {
        assert_in_range(open_epoch(lab, seed, true), OBJECTS / 4, OBJECTS / 4 + 24); /* kept: 192 */
    }
    struct hr_plan_stats stats = lab_stats(lab);
    assert_int_equal(stats.next_orders, 4);
    assert_int_equal(stats.next_right, 3);
    assert_int_equal(stats.next_wrong, 0);
    assert_true(stats.victims_next > 0);
    check_bytes(lab);
}

/* Nobody sets the sampler's epoch: one prediction fails, and costs neither a byte nor, over a set that is
 * kept, a request. */
static void test_wrong_predictions_end(void **state)
{
    struct lab *lab = *state;
    open_objects(lab);
    (void)open_epoch(lab, 5, true);
    assert_int_equal(lab_stats(lab).next_orders, 1);
    for (unsigned i = 0; i < 3; i++) {
        assert_in_range(open_epoch(lab, 5, i == 2), OBJECTS / 4, OBJECTS * 3 / 8 + 8);
        assert_int_equal(lab_stats(lab).next_wrong, 1);
        assert_int_equal(lab_stats(lab).next_orders, i < 2 ? 1 : 2);
    }
    (void)open_epoch(lab, 5, true);
    assert_int_equal(lab_stats(lab).next_right, 1);
    check_bytes(lab);
}

static void test_one_node_predicts_nothing(void **state)
{
    struct lab *lab = *state;
    open_objects(lab);
    for (uint32_t seed = 5; seed < 7; seed++) {
        (void)make_epoch(seed, 1, 0, epoch_order[0]);
        for (uint32_t i = 0; i < 10; i++) {
            open_noted(lab, epoch_order[0][i]);
        }
        awaited++;
        lab_until(lab, is_known);
    }
    assert_int_equal(lab_stats(lab).known_orders, 2);
    assert_int_equal(lab_stats(lab).next_orders, 0);
}

static void announce(struct lab *lab, uint32_t rank, uint32_t number)
{
    struct hr_announcement part = {.context = LAB_CONTEXT,
                                   .stream = (LAB_LOADER + rank) << 32 | (7 + number % 2),
                                   .batch = number,
                                   .parts = 1,
                                   .indices = epoch_order[rank] + number * BATCH,
                                   .count = BATCH};
    hr_plan_announce(lab->plan, &part);
}

static void open_batch(struct lab *lab, uint32_t rank, uint32_t number)
{
    for (uint32_t i = number * BATCH; i < (number + 1) * BATCH; i++) {
        uint32_t index = epoch_order[rank][i];
        open_announced(lab, index);
        open_noted(lab, index);
    }
}

/* The first ranks of four are on this node, each by its own loader, two batches ahead; the second one ends
 * before batch `second_end`. */
static unsigned read_by(struct lab *lab, uint32_t seed, uint32_t ranks, uint32_t second_end)
{
    unsigned gets = s3_gets(lab->s3);
    uint32_t batches = make_epoch(seed, 4, 0, epoch_order[0]) / BATCH;
    uint32_t ends[2] = {batches, second_end < batches ? second_end : batches};
    (void)make_epoch(seed, 4, 1, epoch_order[1]);
    for (uint32_t number = 0; number < batches + 2; number++) {
        for (uint32_t rank = 0; rank < ranks && number < ends[rank]; rank++) {
            announce(lab, rank, number);
        }
        for (uint32_t rank = 0; number >= 2 && rank < ranks && number - 2 < ends[rank]; rank++) {
            open_batch(lab, rank, number - 2);
        }
        if (number == 2) {
            awaited += ranks;
            awaited_next += ranks;
            lab_until(lab, is_known);
        }
    }
    return s3_gets(lab->s3) - gets;
}

/* What either needs counts. */
static void test_ranks_of_one_node(void **state)
{
    struct lab *lab = *state;
    open_objects(lab);
    assert_int_equal(read_by(lab, 5, 2, UINT32_MAX), OBJECTS / 2);
    for (uint32_t seed = 6; seed < 9; seed++) {
        assert_in_range(read_by(lab, seed, 2, UINT32_MAX), OBJECTS / 4, OBJECTS / 4 + 40);
    }
    struct hr_plan_stats stats = lab_stats(lab);
    assert_int_equal(stats.next_orders, 8);
    assert_int_equal(stats.next_right, 6);
    assert_int_equal(stats.known_dropped, 0);
    check_bytes(lab);
}

/* A rank that ended in the middle: what it would have read takes no room once all files were opened without
 * a word from it, in four of the other's epochs. 57 to 60 of 128 are fetched then; 83 while it counts. */
static void test_who_ended_needs_nothing(void **state)
{
    struct lab *lab = *state;
    unsigned gets = 0;
    open_objects(lab);
    (void)read_by(lab, 5, 2, UINT32_MAX);
    (void)read_by(lab, 6, 2, 4);
    for (uint32_t i = 0; i < 16; i++) {
        unsigned here = read_by(lab, 7 + i, 1, 0);
        gets += i >= 8 ? here : 0;
    }
    assert_in_range(gets / 8, 50, 72);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_half_of_each_epoch, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_wrong_predictions_end, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_one_node_predicts_nothing, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_ranks_of_one_node, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_who_ended_needs_nothing, lab_set_up, lab_tear_down),
    };
    return cmocka_run_group_tests_name("victims by the next epochs", tests, NULL, NULL);
}
