/* The order in which announced objects are asked for: what an epoch begins with, then by turns of the
 * workers. */
#include "tests/unit/plan/numbered.h"

#include "fetch/plan/order_thread.h"

#define BATCHES 4u
#define BATCH 8u
#define OBJECTS (BATCHES * BATCH)

static uint32_t order[OBJECTS];

/* Two requests at most, one of them left to demand: what is asked for ahead comes one after the other. */
static void list_objects(struct lab *lab)
{
    for (uint32_t i = 0; i < OBJECTS; i++) {
        order[i] = i * 7 % OBJECTS;
    }
    open_numbered(lab, OBJECTS, 1000, &(struct lab_options){.prefetch = true, .connections = 2},
                  HR_ORDER_MODE_OFF);
}

static void announce_all(struct lab *lab)
{
    for (uint32_t i = 0; i < BATCHES; i++) {
        lab_announce(lab, order, BATCH, i);
    }
}

static void open_objects(struct lab *lab)
{
    list_objects(lab);
    announce_all(lab);
}

static void opened(struct lab *lab, uint32_t position)
{
    open_announced(lab, order[position]);
}

/* Numbers of cache files are given as requests begin. turns[i]: position in the epoch of what came as the
 * i-th. */
static void check_order(struct lab *lab, const uint32_t turns[OBJECTS])
{
    uint64_t first = UINT64_MAX;
    lab_settle(lab);
    assert_int_equal(s3_gets(lab->s3), OBJECTS);
    for (uint32_t i = 0; i < OBJECTS; i++) {
        uint64_t id = lab_file_id(lab, key_of(i));
        first = id < first ? id : first;
    }
    for (uint32_t i = 0; i < OBJECTS; i++) {
        assert_int_equal(lab_file_id(lab, key_of(order[turns[i]])) - first, i);
    }
}

/* The first batch, then the other worker's first one, then one object of each by turns. */
static void test_first_batch_comes_first(void **state)
{
    struct lab *lab = *state;
    uint32_t turns[OBJECTS];
    open_objects(lab);
    opened(lab, BATCH);
    opened(lab, 0);
    opened(lab, 1); /* enough: both workers are understood at once */
    for (uint32_t i = 0; i < BATCH; i++) {
        turns[i] = i;
        turns[BATCH + i] = BATCH + i;
        turns[2 * BATCH + 2 * i] = 2 * BATCH + i;
        turns[2 * BATCH + 2 * i + 1] = 3 * BATCH + i;
    }
    assert_int_equal(lab_stats(lab).announced, OBJECTS);
    check_order(lab, turns);
}

/* The other worker was understood first, and its batches were queued: only what was sent is before it. */
static void test_first_batch_overtakes(void **state)
{
    struct lab *lab = *state;
    uint32_t turns[OBJECTS];
    open_objects(lab);
    for (uint32_t i = 0; i < 3; i++) {
        opened(lab, BATCH + i);
    }
    assert_int_equal(lab_stats(lab).announced, 2 * BATCH);
    lab->plan->ahead_due = true;
    hr_plan_pump(lab->plan);
    assert_int_equal(lab_stats(lab).in_flight, 1);
    opened(lab, 0);
    assert_int_equal(lab_stats(lab).announced, OBJECTS);
    turns[0] = BATCH;
    for (uint32_t i = 0; i < BATCH; i++) {
        turns[1 + i] = i;
    }
    for (uint32_t i = 1; i < BATCH; i++) {
        turns[BATCH + i] = BATCH + i;
    }
    for (uint32_t i = 0; i < BATCH; i++) {
        turns[2 * BATCH + i] = 3 * BATCH + i;
        turns[3 * BATCH + i] = 2 * BATCH + i;
    }
    check_order(lab, turns);
}

/* A worker was faster than the loader that told of its batch. */
static void test_open_before_its_announcement(void **state)
{
    struct lab *lab = *state;
    list_objects(lab);
    opened(lab, 0);
    announce_all(lab);
    opened(lab, BATCH);
    opened(lab, BATCH + 1); /* with the first one enough, and both workers are understood */
    assert_int_equal(lab_stats(lab).lookahead_learned, 1);
    assert_int_equal(lab_stats(lab).announced, OBJECTS);
    lab_settle(lab);
    assert_int_equal(s3_gets(lab->s3), OBJECTS);
}

/* So was another one, whose batch is told after the first one's. */
static void test_opens_between_announcements(void **state)
{
    struct lab *lab = *state;
    list_objects(lab);
    opened(lab, 0);
    lab_announce(lab, order, BATCH, 0);
    opened(lab, BATCH);
    opened(lab, BATCH + 1);
    assert_int_equal(lab_stats(lab).announced, 0);
    lab_announce(lab, order, BATCH, 1);
    assert_int_equal(lab_stats(lab).lookahead_learned, 1);
    assert_int_equal(lab_stats(lab).announced, 2 * BATCH);
}

int main(void)
{
#define LAB_TEST(name) cmocka_unit_test_setup_teardown(name, lab_set_up, lab_tear_down)
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_first_batch_comes_first),
        LAB_TEST(test_first_batch_overtakes),
        LAB_TEST(test_open_before_its_announcement),
        LAB_TEST(test_opens_between_announcements),
    };
    return cmocka_run_group_tests_name("ahead", tests, NULL, NULL);
}
