/* A large object as one plain file: from its segments and what they lack. */
#include "tests/unit/plan/lab.h"

static struct hr_cache_stats cache_stats(struct lab *lab)
{
    struct hr_cache_stats stats;
    hr_cache_stats(lab->cache, &stats);
    return stats;
}

static void open_big(struct lab *lab, const struct lab_options *options)
{
    lab_open(lab, options);
    lab_list(lab);
}

static void test_only_missing_ranges_are_asked_for(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object = s3_add(lab->s3, "big", 44 * MIB + 7);
    struct hr_answer answer, again;
    open_big(lab, &(struct lab_options){0});
    uint64_t face = lab_face(lab, "big");
    lab_read(lab, face, object, 8 * MIB, 16 * MIB); /* two cells */
    lab_read(lab, face, object, 33 * MIB, 100);     /* and a piece, which is no help */
    lab_settle(lab);
    assert_int_equal(object->gets, 3);
    lab_ask_bytes(lab, 1, face, 0, 1, true, 3);
    assert_int_equal(lab_get_bytes(lab, face, 0, 1, true, &answer), 0);
    assert_int_equal(lab->answers[3].answer.file_id, answer.file_id);
    assert_int_equal(answer.offset, 0);
    assert_int_equal(answer.size, object->size);
    assert_int_equal(object->gets, 3 + 4);
    assert_int_equal(object->unmatched, 0);
    assert_int_equal(lab_stats(lab).copied_bytes, 16 * MIB);
    lab_check_entry(lab, "big");
    assert_int_equal(lab_file_id(lab, "big"), answer.file_id);
    lab_settle(lab);
    assert_int_equal(cache_stats(lab).segments, 0);
    assert_int_equal(cache_stats(lab).faces, 1);
    /* Whoever holds the face is served out of it. */
    assert_int_equal(lab_get_bytes(lab, face, 40 * MIB, 100, false, &again), 0);
    assert_int_equal(again.file_id, answer.file_id);
    assert_int_equal(again.offset, 0);
    assert_int_equal(again.size, object->size);
    /* Without it the face stands for the object again. */
    hr_cache_drop(lab->cache, answer.file_id);
    assert_int_equal(HR_STATE_KIND(lab_word(lab, "big")), HR_STATE_FACE);
    assert_int_equal(lab_face(lab, "big"), face);
    assert_int_equal(object->gets, 7);
    lab_settle(lab);
}

static void test_many_segments_alone_make_the_whole(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object = s3_add(lab->s3, "big", 85 * MIB);
    struct hr_answer answer;
    open_big(lab, &(struct lab_options){0});
    uint64_t face = lab_face(lab, "big");
    lab_read(lab, face, object, 0, object->size);
    lab_settle(lab);
    unsigned gets = object->gets;
    assert_int_equal(gets - lab_extra_parts(lab), 11); /* more than are copied at a time */
    assert_int_equal(lab_get_bytes(lab, face, 0, 1, true, &answer), 0);
    lab_check_entry(lab, "big");
    assert_int_equal(object->gets, gets);
    lab_settle(lab);
    /* Both are there at the next start: the whole is what counts. */
    lab_close(lab);
    open_big(lab, &(struct lab_options){0});
    lab_check_entry(lab, "big");
    assert_int_equal(lab_file_id(lab, "big"), answer.file_id);
    assert_int_equal(lab_get_bytes(lab, face, 0, 1, true, &answer), 0);
    assert_int_equal(object->gets, gets);
    lab_settle(lab);
}

static struct s3_object *add_md5(struct lab *lab)
{
    struct s3_object *object = s3_add(lab->s3, "big", 17 * MIB);
    s3_md5_hex(object->version, object->size, object->etag);
    memcpy(object->listed_etag, object->etag, sizeof object->etag);
    return object;
}

/* A segment that was damaged on its way is found out by the ETag: then all comes from the store, and the
 * bucket's ETags are not doubted. */
static void test_damaged_segment_is_found_out(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object = add_md5(lab);
    struct hr_answer answer;
    for (unsigned all = 0; all < 2; all++) {
        open_big(lab, &(struct lab_options){0});
        uint64_t face = lab_face(lab, "big");
        object->gets = 0;
        object->fault[0] = S3_DAMAGED;
        assert_int_equal(lab_get_bytes(lab, face, 8 * MIB, 8 * MIB, false, NULL), 0);
        if (all) { /* no answer is left to tell what the ETag is: those before did */
            assert_int_equal(lab_get_bytes(lab, face, 0, 17 * MIB, false, NULL), 0);
            lab_settle(lab);
            assert_int_equal(cache_stats(lab).segments, 3);
        }
        object->fault[0] = S3_FINE;
        assert_int_equal(lab_get_bytes(lab, face, 0, 1, true, &answer), 0);
        lab_check_file(lab, answer.file_id, object);
        assert_int_equal(object->gets - lab_extra_parts(lab), all ? 3 + 3 : 1 + 2 + 3);
        assert_int_equal(lab_stats(lab).md5_off, 0);
        assert_int_equal(cache_stats(lab).verify_failures, 1);
        lab_settle(lab);
        hr_cache_drop(lab->cache, answer.file_id);
        lab_close(lab);
    }
}

static void test_another_version_is_no_mixture(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object = s3_add(lab->s3, "big", 40 * MIB);
    open_big(lab, &(struct lab_options){0});
    uint64_t face = lab_face(lab, "big");
    lab_read(lab, face, object, 8 * MIB, 8 * MIB);
    object->changes_at = 24 * MIB;
    assert_int_equal(lab_get_bytes(lab, face, 0, 1, true, NULL), -ESTALE);
    assert_non_null(strstr(lab->control->trees[lab->tree].message, "changed=follow"));
    assert_int_equal(HR_STATE_KIND(lab_word(lab, "big")), HR_STATE_FACE);
    lab_settle(lab);
    assert_int_equal(cache_stats(lab).objects, 0);
    lab_read(lab, face, object, 8 * MIB, 8 * MIB); /* still there */
}

/* Segments go when the whole needs their room; it arrives all the same. */
static void test_whole_that_just_fits(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object = s3_add(lab->s3, "big", 40 * MIB);
    struct hr_answer answer;
    open_big(lab, &(struct lab_options){.cache_bytes = 42 * MIB});
    uint64_t face = lab_face(lab, "big");
    lab_read(lab, face, object, 0, 24 * MIB);
    lab_settle(lab);
    assert_int_equal(lab_get_bytes(lab, face, 0, 1, true, &answer), 0);
    lab_check_entry(lab, "big");
    lab_settle(lab);
    assert_true(cache_stats(lab).bytes <= 42 * MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define LAB_TEST(name) cmocka_unit_test_setup_teardown(name, lab_set_up, lab_tear_down)
        LAB_TEST(test_only_missing_ranges_are_asked_for),
        LAB_TEST(test_many_segments_alone_make_the_whole),
        LAB_TEST(test_damaged_segment_is_found_out),
        LAB_TEST(test_another_version_is_no_mixture),
        LAB_TEST(test_whole_that_just_fits),
#undef LAB_TEST
    };
    return cmocka_run_group_tests_name("plan whole", tests, NULL, NULL);
}
