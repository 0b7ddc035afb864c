/* Readers that jump and read on for a while: what comes is what they read the last times, in few requests. */
#include "fetch/plan/runs.h"
#include "tests/unit/plan/segments.h"

/* As a client reads it: what it was answered it does not ask for again. */
static void read_in_steps(struct lab *lab, uint64_t face, uint64_t at, uint64_t bytes, uint64_t step)
{
    uint64_t there = at;
    for (uint64_t end = at + bytes; at < end; at += step) {
        uint64_t to = end - at < step ? end : at + step;
        while (there < to) {
            struct hr_answer answer;
            assert_int_equal(lab_get_bytes(lab, face, there, to - there, false, &answer), 0);
            assert_true(answer.offset <= there && there < answer.offset + answer.size);
            there = answer.offset + answer.size;
        }
    }
}

/* The n-th place of many, none near another. */
static uint64_t place(unsigned n)
{
    return (uint64_t)(n * 197 % 250 + 1) * 2 * HR_CELL_BYTES + 1 * MIB + n * 4096 + 77;
}

/* From the `from`-th record on: how many GETs and bytes came with how many records. */
static void check_records(struct lab *lab, uint64_t bytes, uint64_t step, unsigned from, unsigned records,
                          unsigned gets_max, uint64_t asked_max)
{
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){.memory_bytes = 512 * MIB}, 4 * GIB, &object);
    unsigned gets = 0;
    uint64_t asked = 0;
    for (unsigned i = 0; i < from + records; i++) {
        if (i == from) {
            lab_settle(lab);
            gets = object->gets;
            asked = asked_bytes(lab);
        }
        read_in_steps(lab, face, place(i), bytes, step);
    }
    lab_settle(lab);
    assert_in_range(object->gets - gets, records, gets_max);
    assert_in_range(asked_bytes(lab) - asked, records * bytes, asked_max);
}

static void test_records_of_some_mib(void **state)
{
    check_records(*state, 2 * MIB, 64 * KIB, 8, 20, 20 * 5 / 2, 20 * 2 * MIB * 5 / 4);
}

static void test_records_of_half_a_mib(void **state)
{
    check_records(*state, 500 * KIB, 8 * KIB, 4, 20, 20 * 5 / 2, 20 * 500 * KIB * 7 / 5);
}

/* Where the last ones ended their windows end, or little behind it. */
static void test_row_groups(void **state)
{
    check_records(*state, 20 * MIB, 1 * MIB, 4, 6, 6 * 6, 6 * 20 * MIB * 3 / 2);
}

/* In columns that leave some out: no run without holes, a window all the same. */
static void test_windows_end_where_the_last_ended(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){.memory_bytes = 512 * MIB, .cache_bytes = 2 * GIB},
                             4 * GIB, &object);
    uint64_t asked = 0;
    for (unsigned i = 0; i < 5; i++) {
        for (unsigned column = 0; column < 40; column += 2) { /* of 512 KiB, every other */
            read_in_steps(lab, face, place(i) + column * 512 * KIB, 512 * KIB, 512 * KIB);
        }
        lab_settle(lab);
        asked = i == 0 ? asked_bytes(lab) : asked;
    }
    assert_in_range(asked, 20 * MIB, 2 * 20 * MIB + HR_CELL_BYTES);
    assert_true(asked_bytes(lab) - asked <= 4 * 32 * MIB);
}

/* Nothing is known of the first: what comes ahead is as much as it has read, and a cell. */
static void test_the_first_run_costs_twice_at_most(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){.memory_bytes = 512 * MIB, .cache_bytes = 2 * GIB},
                             4 * GIB, &object);
    read_in_steps(lab, face, 1 * GIB + 1 * MIB, 40 * MIB, 128 * KIB);
    lab_settle(lab);
    assert_in_range(asked_bytes(lab), 40 * MIB, 2 * 40 * MIB + HR_CELL_BYTES);
    assert_true(lab_stats(lab).fetched[HR_REASON_WINDOW] >= 3);
}

/* Columns 3, 4, 5, 11 and 17 of 20, of row groups in a wild order: what lies between them, and behind them,
 * stays where it is. */
static void test_columns_here_and_there_are_exact(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){.memory_bytes = 512 * MIB, .cache_bytes = 2 * GIB},
                             400 * MIB, &object);
    const unsigned groups = 190, column = 100 * KIB;
    for (unsigned i = 0; i < groups; i++) {
        uint64_t group = 2 * MIB + (i * 37 % groups) * 20 * column + 777;
        read_in_steps(lab, face, group + 3 * column, 3 * column, column);
        read_in_steps(lab, face, group + 11 * column, column, column);
        read_in_steps(lab, face, group + 17 * column, column, column);
    }
    lab_settle(lab);
    assert_in_range(asked_bytes(lab), groups * 5 * column, groups * 5 * column * 5 / 4);
    assert_in_range(object->gets, groups * 3, groups * 9 / 2);
}

/* A buffered reader asks for whole blocks, then for the block with the rest: one range from the second on. */
static void test_the_rest_of_a_buffered_read_comes_with_it(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){0}, 4 * GIB, &object);
    for (unsigned i = 0; i < 12; i++) {
        read_in_steps(lab, face, place(i), 304 * KIB, 300 * KIB);
    }
    lab_settle(lab);
    assert_int_equal(object->gets, 12 + 1);
    assert_true(asked_bytes(lab) <= 12 * (300 + 8) * KIB + 64 * KIB);
}

/* As members of an archive are: a header, then all that follows. */
static void read_members(struct lab *lab, uint64_t face, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        uint64_t there = place(i), end = there + (100 + i * 13 % 80) * KIB;
        for (uint64_t bytes = 8 * KIB; there < end; bytes = end - there) {
            struct hr_answer answer;
            assert_int_equal(lab_get_bytes(lab, face, there, bytes, false, &answer), 0);
            there = answer.offset + answer.size;
        }
    }
    lab_settle(lab);
}

static void test_members_come_with_their_headers(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){.memory_bytes = 512 * MIB}, 4 * GIB, &object);
    read_members(lab, face, 0, 8);
    unsigned gets = object->gets;
    uint64_t asked = asked_bytes(lab);
    read_members(lab, face, 8, 40);
    assert_in_range(object->gets - gets, 32, 32 * 5 / 4);
    assert_true(asked_bytes(lab) - asked <= 32 * 260 * KIB);
    gets = object->gets;
    for (unsigned i = 40; i < 100; i++) { /* reads that stay alone are exact again */
        asked = i == 50 ? asked_bytes(lab) : asked;
        read_in_steps(lab, face, place(i), 8 * KIB, 8 * KIB);
        lab_settle(lab);
    }
    assert_int_equal(object->gets - gets, 60);
    assert_int_equal(asked_bytes(lab) - asked, 50 * 64 * KIB);
}

/* Who goes on for good after some records is followed, window and all. */
static void test_reading_on_after_records(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){.memory_bytes = 512 * MIB, .cache_bytes = 2 * GIB},
                             4 * GIB, &object);
    for (unsigned i = 0; i < 8; i++) {
        read_in_steps(lab, face, place(i), 1 * MIB, 64 * KIB);
    }
    lab_settle(lab);
    unsigned gets = object->gets;
    read_in_steps(lab, face, 3 * GIB + 1 * MIB, 320 * MIB, 64 * KIB);
    lab_settle(lab);
    assert_in_range(object->gets - gets, 40, 40 + 12 + 54);
    assert_true(lab_stats(lab).fetched[HR_REASON_WINDOW] >= 20);
}

/* ---- the guess by itself ---- */

static void test_a_guess_is_bounded(void **state)
{
    struct hr_runs runs = {0};
    (void)state;
    hr_runs_begin(&runs, 1000);
    assert_int_equal(hr_runs_go_on(&runs, 64 * KIB), 0); /* nothing is known */
    assert_int_equal(hr_runs_ahead(&runs, 1000 + 3 * MIB), HR_CELL_BYTES + 3 * MIB);
    hr_runs_end(&runs, 1 * GIB, 1 * GIB, 1000 + 1 * GIB, true);
    hr_runs_begin(&runs, 5000);
    assert_int_equal(hr_runs_go_on(&runs, 64 * KIB), 2 * MIB); /* so many times what was read */
    assert_int_equal(hr_runs_go_on(&runs, 1 * GIB), 64 * KIB);
    assert_int_equal(hr_runs_go_on(&runs, 1 * GIB + 64 * KIB), 512 * MIB);
    assert_int_equal(hr_runs_go_on(&runs, 2 * GIB), 0);
    assert_int_equal(hr_runs_ahead(&runs, 5000), 1 * GIB);
    assert_int_equal(hr_runs_ahead(&runs, 5000 + 1 * GIB), HR_CELL_BYTES);
    assert_int_equal(hr_runs_ahead(&runs, 5000 + 2 * GIB), 1 * GIB + HR_CELL_BYTES);
    hr_runs_end(&runs, 100 * KIB, 2 * MIB, 5000 + 100 * KIB, false); /* a short one */
    assert_int_equal(runs.bytes, 512 * MIB);
    hr_runs_begin(&runs, 0); /* who asks once makes no run */
    hr_runs_end(&runs, 7, 7, 7, false);
    assert_int_equal(runs.bytes, 512 * MIB);
}

static void test_a_first_ask_is_sure_of_what_follows(void **state)
{
    struct hr_runs runs = {0};
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        hr_runs_begin(&runs, 0);
        assert_int_equal(hr_runs_first(&runs, 8 * KIB), 0);
        (void)hr_runs_go_on(&runs, 64 * KIB);
        hr_runs_end(&runs, 4 * MIB, 4 * MIB, 4 * MIB, false);
    }
    hr_runs_begin(&runs, 0);
    assert_int_equal(hr_runs_first(&runs, 8 * MIB), 0); /* it names more itself */
    assert_int_equal(hr_runs_first(&runs, 8 * KIB), 2 * MIB);
    for (unsigned i = 1; i < 7; i++) {
        hr_runs_end(&runs, 8 * KIB, 2 * MIB, 0, false); /* it was enough: little less the next time */
        hr_runs_begin(&runs, 0);
        assert_int_equal(hr_runs_first(&runs, 8 * KIB), 2 * MIB);
    }
    assert_in_range(runs.bytes, 3 * MIB, 4 * MIB);
    hr_runs_end(&runs, 8 * KIB, 2 * MIB, 0, false);
    hr_runs_begin(&runs, 0);
    assert_int_equal(hr_runs_first(&runs, 8 * KIB), 0); /* is it still so? */
}

static void test_a_long_one_is_no_rule(void **state)
{
    struct hr_runs runs = {0};
    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        hr_runs_begin(&runs, 0);
        (void)hr_runs_go_on(&runs, 64 * KIB);
        hr_runs_end(&runs, i == 3 ? 1 * GIB : 1 * MIB, i == 3 ? 1 * GIB : 1 * MIB, 1 * MIB, false);
        assert_in_range(runs.bytes, 1 * MIB, 2 * MIB);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define LAB_TEST(name) cmocka_unit_test_setup_teardown(name, lab_set_up, lab_tear_down)
        LAB_TEST(test_records_of_some_mib),
        LAB_TEST(test_records_of_half_a_mib),
        LAB_TEST(test_row_groups),
        LAB_TEST(test_windows_end_where_the_last_ended),
        LAB_TEST(test_the_first_run_costs_twice_at_most),
        LAB_TEST(test_columns_here_and_there_are_exact),
        LAB_TEST(test_the_rest_of_a_buffered_read_comes_with_it),
        LAB_TEST(test_members_come_with_their_headers),
        LAB_TEST(test_reading_on_after_records),
        cmocka_unit_test(test_a_guess_is_bounded),
        cmocka_unit_test(test_a_first_ask_is_sure_of_what_follows),
        cmocka_unit_test(test_a_long_one_is_no_rule),
#undef LAB_TEST
    };
    return cmocka_run_group_tests_name("plan runs", tests, NULL, NULL);
}
