/* An epoch of a program without workers: its opens tell the order. */
#include "tests/unit/plan/known.h"

static void note_opens(struct lab *lab, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        lab_note(lab, key_of(order[i]));
    }
    lab_run_ms(lab, 3 * LAB_BEAT_MS);
}

static unsigned opened_count;

static bool is_rest_there(struct lab *lab)
{
    return s3_gets(lab->s3) >= OBJECTS - opened_count;
}

/* A program without workers: three opens tell the rest of 600, and the first other one ends it. What lies
 * beside the set and was opened before does not count. */
static void test_opens_tell_the_order(void **state)
{
    struct lab *lab = *state;
    open_objects(lab, 1000, 0, HR_ORDER_MODE_AUTO);
    make_order(5, OBJECTS);
    lab_note(lab, "a/other");
    opened_count = 3;
    note_opens(lab, opened_count);
    awaited = 1;
    lab_until(lab, is_known);
    lab_until(lab, is_rest_there);
    lab_settle(lab);
    struct hr_plan_stats stats = lab_stats(lab);
    assert_int_equal(stats.known_seed, 5);
    assert_int_equal(stats.known_objects, OBJECTS);
    assert_string_equal(stats.known_generator, "torch");
    assert_int_equal(stats.known_now, 1);
    assert_int_equal(stats.known_indices, 3);
    assert_true(stats.known_confidence > 0.9997 && stats.known_confidence < 1);
    assert_int_equal(stats.known_ahead, OBJECTS - 3);
    assert_int_equal(stats.order_searches, 1);
    assert_int_equal(s3_gets(lab->s3), OBJECTS - 3); /* what lies beside the set stays there */
    lab_note(lab, key_of(order[3]));
    lab_note(lab, "val/other");
    lab_run_ms(lab, 3 * LAB_BEAT_MS);
    assert_int_equal(lab_stats(lab).known_indices, 4);
    lab_note(lab, key_of(order[5]));
    lab_run_ms(lab, 3 * LAB_BEAT_MS);
    assert_int_equal(lab_stats(lab).known_dropped, 1);
    assert_int_equal(lab_stats(lab).known_now, 0);
}

/* A seed that is not a likely one: with the fourth. */
static void test_rarer_seeds_take_one_more(void **state)
{
    struct lab *lab = *state;
    open_objects(lab, 1000, 0, HR_ORDER_MODE_AUTO);
    make_order(777777, OBJECTS);
    note_opens(lab, 3);
    lab_settle(lab);
    assert_int_equal(s3_gets(lab->s3), 0);
    opened_count = 4;
    lab_note(lab, key_of(order[3]));
    awaited = 1;
    lab_until(lab, is_known);
    lab_until(lab, is_rest_there);
    assert_int_equal(lab_stats(lab).known_seed, 777777);
    assert_int_equal(s3_gets(lab->s3), OBJECTS - 4);
}

static bool is_fetching(struct lab *lab)
{
    return s3_gets(lab->s3) >= 20;
}

/* What a program waits for counts when it asks: the third open makes the order known before it has its
 * object, and asking twice is one open. */
static void test_asking_counts_as_opening(void **state)
{
    struct lab *lab = *state;
    open_objects(lab, 1000, 0, HR_ORDER_MODE_AUTO);
    make_order(42, OBJECTS);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(lab_open_entry(lab, key_of(order[i])), 0);
        lab_note(lab, key_of(order[i]));
    }
    assert_int_equal(lab_stats(lab).known_orders, 0);
    s3_hold(lab->s3, true, false);
    lab_fetch(lab, key_of(order[2]));
    lab_fetch(lab, key_of(order[2]));
    awaited = 1;
    lab_until(lab, is_known);
    s3_hold(lab->s3, false, false);
    lab_until(lab, is_fetching);
    assert_int_equal(lab_stats(lab).known_indices, 3);
    assert_int_equal(lab_stats(lab).known_dropped, 0);
    lab_settle(lab);
    assert_int_equal(s3_gets(lab->s3), OBJECTS);
}

/* Another generator's, and the epoch after it by the next seed. */
static void test_opens_of_numpy(void **state)
{
    struct lab *lab = *state;
    struct hr_order known = {.seed = 42, .n = OBJECTS, .replicas = 1, .generator = HR_ORDER_NUMPY};
    open_objects(lab, 1000, 0, HR_ORDER_MODE_AUTO);
    hr_order_make(&known, order);
    note_opens(lab, OBJECTS);
    awaited = 1;
    lab_until(lab, is_known);
    assert_string_equal(lab_stats(lab).known_generator, "numpy");
    known.seed++;
    hr_order_make(&known, order);
    note_opens(lab, 4);
    awaited = 2;
    lab_until(lab, is_known);
    assert_int_equal(lab_stats(lab).known_seed, 43);
    assert_int_equal(lab_stats(lab).known_dropped, 0);
    lab_settle(lab);
}

/* An epoch that is left in its middle: the next one's first opens tell its order, too. */
static void test_left_in_the_middle(void **state)
{
    struct lab *lab = *state;
    open_objects(lab, 1000, 0, HR_ORDER_MODE_AUTO);
    make_order(5, OBJECTS);
    note_opens(lab, OBJECTS / 2);
    awaited = 1;
    lab_until(lab, is_known);
    make_order(6, OBJECTS);
    note_opens(lab, OBJECTS / 4);
    awaited = 2;
    lab_until(lab, is_known);
    assert_int_equal(lab_stats(lab).known_seed, 6);
    assert_in_range(lab_stats(lab).known_dropped, 0, 1);
    lab_settle(lab);
}

/* A guess is worth so many bytes; the next open that agrees makes it certain. */
static void test_guess_is_bounded(void **state)
{
    struct lab *lab = *state;
    const uint64_t size = 256 * KIB, guess = 64 * MIB / size;
    open_objects(lab, size, 160 * MIB, HR_ORDER_MODE_AUTO); /* half of it may be announced */
    make_order(5, OBJECTS);
    note_opens(lab, 3);
    awaited = 1;
    lab_until(lab, is_known);
    lab_settle(lab);
    assert_int_equal(s3_gets(lab->s3), guess);
    assert_int_equal(lab_stats(lab).known_ahead, guess);
    lab_note(lab, key_of(order[3]));
    lab_run_ms(lab, 3 * LAB_BEAT_MS);
    lab_settle(lab);
    assert_in_range(s3_gets(lab->s3), 80 * MIB / size - 2, 80 * MIB / size + 2);
}

/* Nobody's order: one search, and no byte by it. Opens all over the place are an epoch all the same: the
 * sweep begins with the fifth, in the directory that holds them. */
static void test_wild_opens(void **state)
{
    struct lab *lab = *state;
    open_objects(lab, 1000, 0, HR_ORDER_MODE_AUTO);
    for (uint32_t i = 0; i < OBJECTS; i++) {
        order[i] = (i * 257 + 100) % OBJECTS;
    }
    note_opens(lab, 4);
    lab_settle(lab);
    assert_int_equal(s3_gets(lab->s3), 0);
    for (uint32_t i = 4; i < 14; i++) {
        lab_note(lab, key_of(order[i]));
    }
    awaited = 1;
    lab_until(lab, has_missed);
    lab_settle(lab);
    assert_int_equal(lab_stats(lab).order_searches, 1);
    assert_int_equal(lab_stats(lab).fetched[HR_REASON_LOOKAHEAD], 0);
    assert_int_equal(s3_gets(lab->s3), OBJECTS + 2);
}

static bool all_shuffled_there(struct lab *lab)
{
    return s3_gets(lab->s3) >= 64;
}

/* Of larger objects so much that a few opens may cost, and nothing for those who go through a directory. */
static void test_shuffle_begins_the_sweep(void **state)
{
    struct lab *lab = *state;
    open_objects(lab, MIB, 0, HR_ORDER_MODE_AUTO);
    for (uint32_t i = 0; i < 12; i++) {
        lab_note(lab, key_of(100 + 9 * i));
    }
    lab_run_ms(lab, 3 * LAB_BEAT_MS);
    lab_settle(lab);
    assert_int_equal(s3_gets(lab->s3), 0);
    lab_note(lab, key_of(17));
    lab_note(lab, key_of(417));
    lab_until(lab, all_shuffled_there);
    lab_settle(lab);
    assert_int_equal(s3_gets(lab->s3), 64);
    assert_int_equal(HR_STATE_KIND(lab_word(lab, key_of(0))), HR_STATE_RESIDENT);
    assert_int_equal(HR_STATE_KIND(lab_word(lab, "a/other")), HR_STATE_ABSENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_opens_tell_the_order, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_rarer_seeds_take_one_more, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_asking_counts_as_opening, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_opens_of_numpy, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_left_in_the_middle, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_guess_is_bounded, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_wild_opens, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_shuffle_begins_the_sweep, lab_set_up, lab_tear_down),
    };
    return cmocka_run_group_tests_name("known orders of opens", tests, NULL, NULL);
}
