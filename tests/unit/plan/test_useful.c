/* What was fetched unasked is counted by its reason: used, or wasted. */
#include "tests/unit/plan/warmed.h"

static void test_a_table_of_reasons(void **state)
{
    struct hr_brought brought = {0};
    (void)state;
    assert_int_equal(hr_brought_take(&brought, 1), -1);
    for (uint64_t id = 1; id <= 5000; id++) {
        hr_brought_add(&brought, id * 7919, (unsigned)(id % 6));
    }
    hr_brought_add(&brought, 7919, 5); /* again: the newer reason */
    assert_int_equal(brought.count, 5000);
    assert_int_equal(hr_brought_take(&brought, 7919), 5);
    for (uint64_t id = 5000; id >= 2; id--) {
        assert_int_equal(hr_brought_take(&brought, id * 7919), (int)(id % 6));
        assert_int_equal(hr_brought_take(&brought, id * 7919), -1);
    }
    assert_int_equal(brought.count, 0);
    hr_brought_release(&brought);
}

static void test_used_and_wasted(void **state)
{
    struct lab *lab = *state;
    s3_add(lab->s3, "a", 1000);
    s3_add(lab->s3, "b", 2000);
    s3_add(lab->s3, "c", 3000);
    s3_add(lab->s3, "large", 17 * MIB);
    lab_open(lab, &(struct lab_options){0});
    lab_list(lab);
    warm(lab, "");
    lab_settle(lab);
    assert_int_equal(lab_open_entry(lab, "c"), 0);
    struct hr_plan_stats stats = lab_stats(lab);
    assert_int_equal(stats.fetched[HR_REASON_HINT], 6);
    assert_int_equal(stats.used[HR_REASON_HINT], 0);
    lab_note(lab, "a");
    lab_note(lab, "a");
    lab_run_ms(lab, 3 * LAB_BEAT_MS);
    assert_int_equal(lab_stats(lab).used[HR_REASON_HINT], 1);
    hr_cache_drop(lab->cache, lab_file_id(lab, "a"));
    hr_cache_drop(lab->cache, lab_file_id(lab, "b"));
    stats = lab_stats(lab);
    assert_int_equal(stats.wasted_bytes[HR_REASON_HINT], 2000);
    uint64_t face = lab_face(lab, "large");
    assert_int_equal(lab_get_bytes(lab, face, 9 * MIB, 10, false, NULL), 0);
    assert_int_equal(lab_stats(lab).used[HR_REASON_HINT], 2);
    hr_cache_drop_segments(lab->cache, face);
    assert_int_equal(lab_stats(lab).wasted_bytes[HR_REASON_HINT], 2000 + 9 * MIB);
    assert_int_equal(lab_open_entry(lab, "a"), 0);
    stats = lab_stats(lab);
    assert_int_equal(stats.used[HR_REASON_DEMAND], stats.fetched[HR_REASON_DEMAND]);
}

/* posix_fadvise and its kin: the bytes are brought, nobody is waited for, and the read finds them. */
static void test_a_hint_is_one(void **state)
{
    struct lab *lab = *state;
    s3_add(lab->s3, "large", 40 * MIB);
    lab_open(lab, &(struct lab_options){0});
    lab_list(lab);
    uint64_t face = lab_face(lab, "large");
    struct hr_asker asker = {.fn = lab_answered, .owner = lab, .ticket = 5};
    struct hr_reader reader = {.context = UINT32_MAX, .tree = lab->tree, .pid = 1, .tid = 1, .hint = true};
    struct hr_segment_ask ask = {.face_id = face, .offset = 0, .bytes = 16 * MIB};
    hr_plan_segment(lab->plan, &reader, &ask, false, &asker);
    lab_settle(lab);
    struct hr_plan_stats stats = lab_stats(lab);
    assert_int_equal(stats.fetched[HR_REASON_DEMAND], 0);
    assert_true(stats.fetched[HR_REASON_HINT] >= 2);
    assert_int_equal(stats.segment_misses, 0);
    lab_read(lab, face, s3_find(lab->s3, "large"), 0, 16 * MIB);
    stats = lab_stats(lab);
    assert_int_equal(stats.segment_misses, 0);
    assert_int_equal(stats.used[HR_REASON_HINT], 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_table_of_reasons),
        cmocka_unit_test_setup_teardown(test_a_hint_is_one, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_used_and_wasted, lab_set_up, lab_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
