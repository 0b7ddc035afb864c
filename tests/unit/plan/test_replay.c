/* Recorded orders: what is written when names are opened; how far a replay runs ahead, and when it gives up.
 */
#include "tests/unit/plan/lab.h"

#include "fetch/plan/names.h"
#include "fetch/plan/recording.h"
#include "fetch/plan/replay.h"

static char *key_of(unsigned i)
{
    static char key[16];
    snprintf(key, sizeof key, "k%05u", i);
    return key;
}

static void add_many(struct lab *lab, unsigned count, uint64_t size)
{
    for (unsigned i = 0; i < count; i++) {
        s3_add(lab->s3, key_of(i), size);
    }
}

static void read_file(const char *path, char *ret, size_t room)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t got = fread(ret, 1, room - 1, file);
    ret[got] = '\0';
    fclose(file);
}

static void test_first_opens_are_written(void **state)
{
    struct lab *lab = *state;
    char file[128], part[160], text[512];
    struct hr_recording *recording = NULL;
    s3_add(lab->s3, "a b", 10);
    s3_add(lab->s3, "x/one", 10);
    s3_add(lab->s3, "x/two", 10);
    lab_open(lab, &(struct lab_options){0});
    uint32_t trees[2] = {lab->tree, lab_tree(lab, &(struct lab_options){0}, "x/")};
    snprintf(file, sizeof file, "%s/order", lab->dir);
    snprintf(part, sizeof part, "%s.part", file);
    bool kept = false;
    assert_int_equal(hr_recording_begin(lab->plan, trees, 2, "/none/at/all", &recording, &kept), -ENOENT);
    assert_int_equal(hr_recording_begin(lab->plan, trees, 2, file, &recording, &kept), 0);
    struct hr_recording *second = NULL;
    assert_int_equal(hr_recording_begin(lab->plan, trees, 2, file, &second, &kept), -EBUSY);
    assert_true(!second && !kept);
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "x/two", NULL), 0); /* before there is an index */
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "x/none", NULL), -ENOENT);
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "x/two", NULL), 0);
    lab_list(lab);
    lab_ask_in(lab, trees[1], HR_OP_LIST, "", 1);
    lab_awaited = 1;
    lab_until(lab, lab_is_answered);
    lab_note(lab, "x/two");
    lab_note(lab, "a b");
    lab->tree = trees[1];
    assert_true(hr_plan_tick(lab->plan));
    lab_note(lab, "one");
    assert_true(access(file, F_OK) < 0);
    hr_recording_end(recording);
    assert_true(access(part, F_OK) < 0);
    read_file(file, text, sizeof text);
    assert_string_equal(text, HR_ORDER_HEADER "\nx/two\na%20b\n@1\none\n");
}

static void replay_all(struct lab *lab, unsigned first, unsigned count, unsigned step, struct hr_replay **ret)
{
    assert_int_equal(hr_replay_new(lab->plan, ret), 0);
    for (unsigned i = 0; i < count; i++) {
        const char *key = key_of(first + i * step % count);
        assert_int_equal(hr_replay_add(*ret, lab->tree, key, (uint32_t)strlen(key)), 0);
    }
}

static void test_all_comes_ahead(void **state)
{
    struct lab *lab = *state;
    struct hr_replay *replay;
    add_many(lab, 101, 1000);
    lab_open(lab, &(struct lab_options){.prefetch = true});
    assert_int_equal(hr_replay_new(lab->plan, &replay), 0);
    assert_int_equal(hr_replay_add(replay, lab->tree, "k00000", 6), -EAGAIN);
    hr_replay_end(replay);
    lab_list(lab);
    replay_all(lab, 0, 101, 7, &replay);
    assert_int_equal(hr_replay_add(replay, lab->tree, "none", 4), 0);
    assert_int_equal(hr_replay_start(replay), 0);
    assert_int_equal(hr_replay_add(replay, lab->tree, "k00000", 6), -EINVAL);
    lab_settle(lab);
    assert_int_equal(lab->s3->gets, 101);
    struct hr_plan_stats stats = lab_stats(lab);
    assert_int_equal(stats.fetched[HR_REASON_REPLAY], 101);
    assert_int_equal(stats.replay_steps, 101);
    assert_int_equal(stats.replay_unknown, 1);
    for (unsigned i = 0; i < 101; i++) {
        lab_check_entry(lab, key_of(i));
    }
    hr_replay_end(replay);
}

static unsigned wanted_gets;

static bool has_gets(struct lab *lab)
{
    return s3_gets(lab->s3) >= wanted_gets;
}

static unsigned steps_ahead(const struct lab *lab)
{
    return (unsigned)lab->s3->gets;
}

/* At most half of the cache is ahead; what is opened makes room; nothing is pushed out before its use. */
static void test_it_keeps_its_bound_and_goes_on(void **state)
{
    struct lab *lab = *state;
    struct hr_replay *replay;
    add_many(lab, 60, 1 * MIB);
    lab_open(lab, &(struct lab_options){.prefetch = true, .cache_bytes = 20 * MIB});
    lab_list(lab);
    replay_all(lab, 0, 60, 1, &replay);
    assert_int_equal(hr_replay_start(replay), 0);
    lab_settle(lab);
    assert_int_equal(steps_ahead(lab), 10);
    for (unsigned i = 0; i < 50; i++) {
        assert_int_equal(HR_STATE_KIND(lab_word(lab, key_of(i))), HR_STATE_RESIDENT);
        lab_note(lab, key_of(i));
        wanted_gets = 11 + i;
        lab_until(lab, has_gets);
        lab_settle(lab);
        assert_int_equal(lab->s3->gets, 11 + i);
    }
    assert_int_equal(lab_stats(lab).replay_misses, 0);
    assert_int_equal(lab_stats(lab).swept_wasted_bytes, 0);
    hr_replay_end(replay);
}

/* The job begins in the middle: a resumed epoch. */
static void test_it_jumps_to_where_the_job_is(void **state)
{
    struct lab *lab = *state;
    struct hr_replay *replay;
    add_many(lab, 4000, 8000);
    lab_open(lab, &(struct lab_options){.prefetch = true, .cache_bytes = 16 * MIB});
    lab_list(lab);
    replay_all(lab, 0, 4000, 1, &replay);
    assert_int_equal(hr_replay_start(replay), 0);
    lab_settle(lab);
    for (unsigned i = 3000; i < 3004; i++) {
        assert_int_equal(lab_open_entry(lab, key_of(i)), 0);
        lab_note(lab, key_of(i));
        assert_true(hr_plan_tick(lab->plan));
    }
    lab_settle(lab);
    assert_int_equal(lab_stats(lab).replay_jumps, 1);
    assert_int_equal(lab_stats(lab).replay_dropped, 0);
    assert_int_equal(HR_STATE_KIND(lab_word(lab, key_of(3004))), HR_STATE_RESIDENT);
    assert_int_equal(HR_STATE_KIND(lab_word(lab, key_of(3500))), HR_STATE_RESIDENT);
    hr_replay_end(replay);
}

static void test_another_program_ends_it(void **state)
{
    struct lab *lab = *state;
    struct hr_replay *replay;
    add_many(lab, 300, 1 * MIB);
    lab_open(lab, &(struct lab_options){.prefetch = true, .cache_bytes = 64 * MIB});
    lab_list(lab);
    replay_all(lab, 0, 100, 1, &replay);
    assert_int_equal(hr_replay_start(replay), 0);
    lab_settle(lab);
    assert_int_equal(lab->s3->gets, 32);
    for (unsigned i = 100; i < 164; i++) {
        lab_note(lab, key_of(i));
    }
    assert_true(hr_plan_tick(lab->plan));
    assert_int_equal(lab_stats(lab).replay_dropped, 1);
    assert_int_equal(lab_stats(lab).replay_misses, 64);
    for (unsigned i = 0; i < 10; i++) { /* too late */
        lab_note(lab, key_of(i));
    }
    assert_true(hr_plan_tick(lab->plan));
    assert_int_equal(lab_stats(lab).replay_ahead, 32);
    hr_replay_end(replay);
    lab_settle(lab);
}

/* A new listing in the middle: numbers change, names stay. */
static void test_a_new_listing(void **state)
{
    struct lab *lab = *state;
    struct hr_replay *replay;
    add_many(lab, 40, 1 * MIB);
    lab_open(lab, &(struct lab_options){.prefetch = true, .cache_bytes = 20 * MIB});
    lab_list(lab);
    replay_all(lab, 0, 40, 1, &replay);
    assert_int_equal(hr_replay_start(replay), 0);
    lab_settle(lab);
    uint32_t before = hr_tree_get(lab->plan, lab->tree)->index.names->gen;
    s3_add(lab->s3, "a-first", 1000);
    hr_listing_want(hr_tree_get(lab->plan, lab->tree), NULL);
    lab_settle(lab);
    while (hr_tree_get(lab->plan, lab->tree)->index.names->gen == before) {
        lab_run_ms(lab, 5);
    }
    for (unsigned i = 0; i < 5; i++) {
        lab_note(lab, key_of(i));
    }
    wanted_gets = 15;
    lab_until(lab, has_gets);
    lab_settle(lab);
    assert_int_equal(HR_STATE_KIND(lab_word(lab, key_of(14))), HR_STATE_RESIDENT);
    assert_int_equal(lab_stats(lab).replay_misses, 0);
    hr_replay_end(replay);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_first_opens_are_written, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_all_comes_ahead, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_it_keeps_its_bound_and_goes_on, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_it_jumps_to_where_the_job_is, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_another_program_ends_it, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_a_new_listing, lab_set_up, lab_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
