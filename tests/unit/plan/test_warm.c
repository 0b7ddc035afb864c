/* Warming: what is below a path is brought once, large objects in cells; the cache is never pushed out by it.
 */
#include "tests/unit/plan/warmed.h"

static void test_a_directory_is_brought_once(void **state)
{
    struct lab *lab = *state;
    char key[32];
    for (unsigned i = 0; i < 700; i++) { /* more than are asked for at a time */
        snprintf(key, sizeof key, "%s/%04u", i % 2 ? "in/deep" : "in", i);
        s3_add(lab->s3, key, 1000);
    }
    s3_add(lab->s3, "in/empty", 0);
    s3_add(lab->s3, "out", 1000);
    lab_open(lab, &(struct lab_options){0});
    uint32_t id = 0;
    assert_int_equal(hr_warm_add(lab->plan, lab->tree, "in", 2, &id), -EAGAIN);
    lab_list(lab);
    warm(lab, "in");
    assert_int_equal(seen.files, 701);
    assert_int_equal(seen.there_files, 701);
    assert_int_equal(seen.there_bytes, 700000);
    assert_int_equal(seen.failed, 0);
    assert_false(seen.full);
    lab_settle(lab);
    assert_int_equal(lab->s3->gets, 701);
    assert_int_equal(lab_stats(lab).fetched[HR_REASON_HINT], 701);
    lab_check_entry(lab, "in/deep/0699");
    warm(lab, "in/deep");
    assert_int_equal(seen.there_files, 350);
    warm(lab, "in/0000");
    assert_int_equal(seen.there_files, 1);
    lab_settle(lab);
    assert_int_equal(lab->s3->gets, 701);
}

static void test_a_large_object_comes_in_cells(void **state)
{
    struct lab *lab = *state;
    s3_add(lab->s3, "large", 17 * MIB + 5);
    lab_open(lab, &(struct lab_options){0});
    lab_list(lab);
    warm(lab, "");
    assert_int_equal(seen.there_files, 1);
    assert_int_equal(seen.there_bytes, 17 * MIB + 5);
    lab_settle(lab);
    assert_int_equal(lab->s3->gets, 3);
    assert_int_equal(lab_stats(lab).fetched[HR_REASON_HINT], 3);
    uint64_t face = lab_face(lab, "large");
    lab_read(lab, face, s3_find(lab->s3, "large"), 0, 17 * MIB + 5);
    assert_int_equal(lab->s3->gets, 3);
    warm(lab, "large");
    assert_int_equal(lab->s3->gets, 3);
}

static void test_it_stops_when_the_cache_is_full(void **state)
{
    struct lab *lab = *state;
    char key[32];
    for (unsigned i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "k%04u", i);
        s3_add(lab->s3, key, 1 * MIB);
    }
    lab_open(lab, &(struct lab_options){.cache_bytes = 20 * MIB});
    lab_list(lab);
    warm(lab, "");
    assert_true(seen.full);
    assert_int_equal(seen.failed, 0);
    assert_int_equal(seen.there_files, 20);
    lab_settle(lab);
    assert_int_equal(lab->s3->gets, 20);
    struct hr_cache_stats cache;
    hr_cache_stats(lab->cache, &cache);
    assert_int_equal(cache.evictions, 0);
    assert_int_equal(cache.objects, 20);
}

static void test_failures_have_names(void **state)
{
    struct lab *lab = *state;
    s3_add(lab->s3, "good", 1000);
    lab_open(lab, &(struct lab_options){.timeout_ms = 500});
    lab_list(lab);
    s3_add(lab->s3, "late", 1000); /* behind the listing */
    uint32_t id = 0;
    assert_int_equal(hr_warm_add(lab->plan, lab->tree, "late", 4, &id), 0);
    assert_int_equal(hr_warm_add(lab->plan, lab->tree, "good", 4, &id), 0);
    hr_warm_close(lab->plan, id);
    assert_int_equal(hr_warm_add(lab->plan, lab->tree, "good", 4, &id), -EINVAL); /* closed */
    warm_id = id;
    lab_until(lab, has_finished);
    assert_int_equal(seen.failed, 1);
    assert_int_equal(seen.there_files, 1);
    int error = 0;
    assert_string_equal(hr_warm_failed(lab->plan, id, 0, &error), "late");
    assert_int_equal(error, -ENOENT);
    assert_null(hr_warm_failed(lab->plan, id, 1, &error));
    hr_warm_forget(lab->plan, id);
    assert_int_equal(hr_warm_progress(lab->plan, id, &seen), -ENOENT);
    lab_settle(lab);
}

/* The daemon ends in the middle. */
static void test_an_end_in_the_middle(void **state)
{
    struct lab *lab = *state;
    char key[32];
    for (unsigned i = 0; i < 600; i++) {
        snprintf(key, sizeof key, "k%04u", i);
        s3_add(lab->s3, key, 1000);
    }
    s3_add(lab->s3, "large", 40 * MIB);
    lab_open(lab, &(struct lab_options){.connections = 2});
    lab_list(lab);
    uint32_t id = 0;
    assert_int_equal(hr_warm_add(lab->plan, lab->tree, "", 0, &id), 0);
    hr_warm_close(lab->plan, id);
    assert_int_equal(hr_warm_progress(lab->plan, id, &seen), 0);
    assert_false(seen.finished);
    lab_close(lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_directory_is_brought_once, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_a_large_object_comes_in_cells, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_it_stops_when_the_cache_is_full, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_failures_have_names, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_an_end_in_the_middle, lab_set_up, lab_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
