/* Until a loader has its first batch, what nobody told of makes way for the workers that make it. */
#include "tests/unit/plan/known.h"

#include <unistd.h>

#define LONG_MS 600000u /* never, for a test */
#define QUIET_US 40000  /* more than between the batches that a loader begins with */

/* Both workers have what they were told of, nobody waits, and the order is known. */
static void begin_epoch(struct lab *lab, unsigned first_batch_ms)
{
    open_objects(lab, 1000, 0, HR_ORDER_MODE_AUTO);
    lab->plan->options.first_batch_ms = first_batch_ms;
    make_order(5, OBJECTS);
    begin_announced(lab);
    awaited = 1;
    lab_until(lab, is_known);
    lab_settle(lab);
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
    begin_epoch(lab, LONG_MS);
    assert_int_equal(s3_gets(lab->s3), 2 * BATCH);
    assert_int_equal(lab_stats(lab).known_ahead, 0);
    (void)usleep(QUIET_US);
    announce_batch(lab, 2); /* the loader has its first batch */
    lab_until(lab, is_all_there);
    assert_int_equal(s3_gets(lab->s3), OBJECTS);
}

/* A worker that waits leaves its processor to what comes ahead. */
static void test_more_comes_while_a_worker_waits(void **state)
{
    struct lab *lab = *state;
    begin_epoch(lab, LONG_MS);
    lab_ask(lab, HR_OP_OPEN, key_of(order[OBJECTS - 1]), 1);
    assert_int_equal(lab->plan->pace.waiting, 1);
    assert_true(lab_stats(lab).known_ahead > 0);
    assert_true(lab_stats(lab).known_ahead < OBJECTS / 2); /* it may be over soon */
    lab_settle(lab);
    assert_int_equal(lab->plan->pace.waiting, 0);
}

static void test_a_slow_start_is_not_waited_for(void **state)
{
    struct lab *lab = *state;
    begin_epoch(lab, 1);
    lab_until(lab, is_all_there);
}

int main(void)
{
#define LAB_TEST(name) cmocka_unit_test_setup_teardown(name, lab_set_up, lab_tear_down)
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_what_was_told_comes_alone),
        LAB_TEST(test_more_comes_while_a_worker_waits),
        LAB_TEST(test_a_slow_start_is_not_waited_for),
    };
    return cmocka_run_group_tests_name("pace", tests, NULL, NULL);
}
