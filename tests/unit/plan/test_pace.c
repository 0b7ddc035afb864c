/* Until a loader has its first batch, what nobody told of makes way for the workers that make it. */
#include "tests/unit/plan/known.h"

#include <unistd.h>

#define LONG_MS 600000u /* never, for a test */
#define QUIET_US 40000  /* more than between the batches that a loader begins with */

#define WORKERS 2u  /* of the loader */
#define HURRIED 64u /* what is asked for at a time while a first batch is made */

/* Both workers have what they were told of, nobody waits, and the order is known. */
static void begin_epoch(struct lab *lab, unsigned first_batch_ms, unsigned cores)
{
    open_objects(lab, 1000, 0, HR_ORDER_MODE_AUTO);
    lab->plan->options.first_batch_ms = first_batch_ms;
    lab->plan->options.cores = cores;
    make_order(5, OBJECTS);
    begin_announced(lab);
    awaited = 1;
    lab_until(lab, is_known);
    lab_settle(lab);
}

/* The worker has opened all that it was told of. */
static void has_opened(struct lab *lab, unsigned worker)
{
    for (uint32_t i = 0; i < BATCH; i++) {
        lab_note(lab, key_of(order[worker * BATCH + i]));
    }
}

static bool has_heard(struct lab *lab)
{
    return lab_stats(lab).announced_used == awaited;
}

static bool is_all_there(struct lab *lab)
{
    unsigned count = 0;
    for (unsigned i = 0; i < OBJECTS; i++) {
        count += HR_STATE_KIND(lab_word(lab, key_of(i))) == HR_STATE_RESIDENT;
    }
    return count == OBJECTS;
}

static void test_what_was_told_comes_alone(void **state)
{
    struct lab *lab = *state;
    begin_epoch(lab, LONG_MS, WORKERS);
    assert_int_equal(s3_gets(lab->s3), 2 * BATCH);
    assert_int_equal(lab_stats(lab).known_ahead, 0);
    (void)usleep(QUIET_US);
    announce_batch(lab, 2); /* the loader has its first batch */
    lab_until(lab, is_all_there);
    assert_int_equal(s3_gets(lab->s3), OBJECTS);
}

static void test_a_processor_too_many(void **state)
{
    struct lab *lab = *state;
    begin_epoch(lab, LONG_MS, WORKERS + 1);
    lab_until(lab, is_all_there);
    assert_true(hr_pace_is_on(lab->plan));
    assert_int_equal(s3_gets(lab->s3), OBJECTS);
}

/* A worker that waits leaves its processor to what comes ahead, as much of it as there are lanes for. */
static void test_more_comes_while_a_worker_waits(void **state)
{
    struct lab *lab = *state;
    begin_epoch(lab, LONG_MS, WORKERS);
    s3_hold(lab->s3, true, false);
    lab_ask(lab, HR_OP_OPEN, key_of(order[OBJECTS - 1]), 1);
    assert_int_equal(lab->plan->pace.waiting, 1);
    assert_true(lab_stats(lab).in_flight > HURRIED + 1);
    assert_true(lab_stats(lab).queued <= HURRIED);
    assert_true(lab_stats(lab).known_ahead < OBJECTS / 2); /* it may be over soon */
    s3_hold(lab->s3, false, false);
    lab_settle(lab);
    assert_int_equal(lab->plan->pace.waiting, 0);
}

/* One that has opened all that it was told of waits for more to do. */
static void test_workers_that_have_nothing_to_do(void **state)
{
    struct lab *lab = *state;
    begin_epoch(lab, LONG_MS, 1);
    has_opened(lab, 0);
    awaited = BATCH;
    lab_until(lab, has_heard);
    assert_true(hr_pace_holds(lab->plan));
    assert_int_equal(lab_stats(lab).known_ahead, 0);
    has_opened(lab, 1);
    lab_until(lab, is_all_there);
    assert_true(hr_pace_is_on(lab->plan));
    assert_true(lab_stats(lab).known_ahead > 0);
}

static void test_a_slow_start_is_not_waited_for(void **state)
{
    struct lab *lab = *state;
    begin_epoch(lab, 1, WORKERS);
    lab_until(lab, is_all_there);
}

int main(void)
{
#define LAB_TEST(name) cmocka_unit_test_setup_teardown(name, lab_set_up, lab_tear_down)
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_what_was_told_comes_alone),       LAB_TEST(test_a_processor_too_many),
        LAB_TEST(test_more_comes_while_a_worker_waits), LAB_TEST(test_workers_that_have_nothing_to_do),
        LAB_TEST(test_a_slow_start_is_not_waited_for),
    };
    return cmocka_run_group_tests_name("pace", tests, NULL, NULL);
}
