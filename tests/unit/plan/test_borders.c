/* Short reads over the border of two cells: one request, whose body is two segments, which come, wait and
 * fail each by itself. */
#include "tests/unit/plan/segments.h"

#define BORDER (40 * HR_CELL_BYTES)

/* As a client goes on: every byte of it. How often it asked. */
static unsigned read_over(struct lab *lab, uint64_t face, const struct s3_object *object, uint64_t at,
                          uint64_t bytes)
{
    unsigned asks = 0;
    for (uint64_t end = at + bytes; at < end; asks++) {
        struct hr_answer answer;
        assert_int_equal(lab_get_bytes(lab, face, at, end - at, false, &answer), 0);
        assert_true(answer.offset <= at && at < answer.offset + answer.size);
        lab_check_bytes(lab, answer.file_id, object, answer.offset, answer.size);
        at = answer.offset + answer.size;
    }
    lab_settle(lab);
    return asks;
}

static void nothing_is_left(struct lab *lab)
{
    lab_settle(lab);
    assert_int_equal(lab_stats(lab).in_flight, 0);
    assert_int_equal(lab_stats(lab).queued, 0);
    assert_int_equal(lab_stats(lab).memory_bytes, 0);
    assert_int_equal(cache_stats(lab).writes_in_flight, 0);
}

static void test_one_request_brings_both(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){0}, 1 * GIB, &object);
    s3_hold(lab->s3, true, false);
    lab_ask_bytes(lab, 1, face, BORDER - 100 * KIB, 256 * KIB, false, 1);
    assert_int_equal(lab_stats(lab).in_flight, 1);
    assert_int_equal(lab_stats(lab).queued, 0);
    assert_int_equal(lab_stats(lab).memory_bytes, 256 * KIB);
    s3_hold(lab->s3, false, false);
    assert_int_equal(read_over(lab, face, object, BORDER - 100 * KIB, 256 * KIB), 2);
    assert_int_equal(object->gets, 1);
    assert_int_equal(object->matched, 1);
    check_range(lab, 0, BORDER - 100 * KIB, 256 * KIB);
    assert_int_equal(cache_stats(lab).segments, 2);
    struct hr_answer answer;
    assert_int_equal(lab_get_bytes(lab, face, BORDER, 1, false, &answer), 0);
    assert_int_equal(answer.offset, BORDER);
    assert_int_equal(answer.size, 156 * KIB);
    assert_int_equal(lab_stats(lab).memory_max_bytes, 256 * KIB);
    nothing_is_left(lab);
}

static void test_random_reads_over_borders_are_one_request_each(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){0}, 4 * GIB, &object);
    for (unsigned i = 0; i < 24; i++) {
        uint64_t border = (uint64_t)(i * 197 % 500 + 2) * HR_CELL_BYTES, bytes = (4 + i * 41) * KIB;
        (void)read_over(lab, face, object, border - bytes / 2, bytes);
        assert_int_equal(object->gets, i + 1);
    }
    nothing_is_left(lab);
}

static void test_who_waits_for_one_is_told_of_that(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){0}, 1 * GIB, &object);
    s3_hold(lab->s3, true, false);
    lab_ask_bytes(lab, 1, face, BORDER - 8 * KIB, 256 * KIB, false, 1);
    lab_ask_bytes(lab, 2, face, BORDER + 8 * KIB, 4 * KIB, false, 2);
    lab_ask_bytes(lab, 3, face, BORDER - 4 * KIB, 4 * KIB, false, 3);
    assert_int_equal(lab_stats(lab).in_flight, 1);
    s3_hold(lab->s3, false, false);
    askers = 3;
    lab_until(lab, all_told);
    for (unsigned i = 1; i <= askers; i++) {
        assert_int_equal(lab->answers[i].times, 1);
        assert_int_equal(lab->answers[i].answer.error, 0);
        assert_int_equal(lab->answers[i].answer.offset, i == 2 ? BORDER : BORDER - 64 * KIB);
    }
    lab_check_bytes(lab, lab->answers[2].answer.file_id, object, BORDER, 248 * KIB);
    nothing_is_left(lab);
    assert_int_equal(object->gets, 1);
    assert_int_equal(lab_stats(lab).fetched[HR_REASON_DEMAND], 2);
}

/* What is there, or on its way, is not asked for again. */
static void test_only_what_is_missing(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    struct hr_answer answer;
    uint64_t face = open_one(lab, &(struct lab_options){0}, 1 * GIB, &object);
    lab_read(lab, face, object, BORDER, 256 * KIB);
    (void)read_over(lab, face, object, BORDER - 64 * KIB, 256 * KIB);
    check_range(lab, 1, BORDER - 64 * KIB, 64 * KIB);
    uint64_t border = BORDER + 10 * HR_CELL_BYTES;
    lab_read(lab, face, object, border - 64 * KIB, 64 * KIB);
    (void)read_over(lab, face, object, border - 64 * KIB, 256 * KIB);
    check_range(lab, 3, border, 192 * KIB);
    border += 10 * HR_CELL_BYTES;
    s3_hold(lab->s3, true, false);
    lab_ask_bytes(lab, 1, face, border, 256 * KIB, false, 1);
    lab_ask_bytes(lab, 2, face, border - 128 * KIB, 256 * KIB, false, 2);
    assert_int_equal(lab_stats(lab).in_flight, 2);
    assert_int_equal(lab_stats(lab).memory_bytes, 384 * KIB);
    s3_hold(lab->s3, false, false);
    (void)read_over(lab, face, object, border - 128 * KIB, 384 * KIB);
    assert_int_equal(object->gets, 6);
    assert_int_equal(asked_bytes(lab), (256 + 64 + 64 + 192 + 256 + 128) * KIB);
    border += 10 * HR_CELL_BYTES; /* one of the two is given up: that one comes again */
    (void)read_over(lab, face, object, border - 64 * KIB, 128 * KIB);
    assert_int_equal(lab_get_bytes(lab, face, border, 1, false, &answer), 0);
    hr_cache_drop(lab->cache, answer.file_id);
    (void)read_over(lab, face, object, border - 64 * KIB, 128 * KIB);
    check_range(lab, 7, border, 64 * KIB);
    assert_int_equal(object->gets, 8);
    nothing_is_left(lab);
}

/* Side by side they come in half of the time. */
static void test_long_ones_are_two(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){0}, 1 * GIB, &object);
    (void)read_over(lab, face, object, BORDER - 1 * MIB, 2 * MIB);
    assert_int_equal(object->gets, 1);
    (void)read_over(lab, face, object, 2 * BORDER - 1 * MIB, 2 * MIB + 4 * KIB);
    assert_int_equal(object->gets, 3);
    nothing_is_left(lab);
}

static void test_a_hint_over_a_border_is_one(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){0}, 1 * GIB, &object);
    struct hr_asker asker = {.fn = lab_answered, .owner = lab, .ticket = 1};
    struct hr_reader reader = {.tree = lab->tree, .pid = 1, .tid = 1, .hint = HR_HINT_WILLNEED};
    struct hr_segment_ask ask = {.face_id = face, .offset = BORDER - 300 * KIB, .bytes = 600 * KIB};
    reader.context = UINT32_MAX;
    hr_plan_segment(lab->plan, &reader, &ask, false, &asker);
    lab_settle(lab);
    assert_int_equal(object->gets, 1);
    assert_int_equal(lab_stats(lab).fetched[HR_REASON_HINT], 2);
    (void)read_over(lab, face, object, BORDER - 300 * KIB, 600 * KIB);
    assert_int_equal(object->gets, 1);
    nothing_is_left(lab);
}

static void test_faults_that_pass(void **state)
{
    static const enum s3_fault faults[] = {S3_BUSY, S3_BROKEN, S3_TRUNCATED, S3_TRUNCATED};
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){0}, 1 * GIB, &object);
    memcpy(object->fault, faults, sizeof faults);
    (void)read_over(lab, face, object, BORDER - 100 * KIB, 256 * KIB);
    assert_int_equal(object->gets, 5);
    for (unsigned i = 0; i < lab->s3->range_count; i++) {
        check_range(lab, i, BORDER - 100 * KIB, 256 * KIB);
    }
    assert_int_equal(object->unmatched, 0);
    assert_int_equal(cache_stats(lab).segments, 2);
    nothing_is_left(lab);
}

/* Both fail, whoever waits for them is told, and they can be asked for again. */
static void check_both_fail(struct lab *lab, uint64_t face, const struct s3_object *object, uint64_t border,
                            int error)
{
    unsigned gets = object->gets;
    s3_hold(lab->s3, true, false);
    lab_ask_bytes(lab, 1, face, border - 100 * KIB, 256 * KIB, false, 1);
    lab_ask_bytes(lab, 2, face, border + 5 * KIB, 100, false, 2);
    assert_int_equal(lab_stats(lab).in_flight, 1);
    s3_hold(lab->s3, false, false);
    askers = 2;
    lab_until(lab, all_told);
    for (unsigned i = 1; i <= askers; i++) {
        assert_int_equal(lab->answers[i].times, 1);
        assert_int_equal(lab->answers[i].answer.error, error);
    }
    assert_true(object->gets > gets);
    nothing_is_left(lab);
    assert_null(hr_cache_segment(lab->cache, face, border - 4 * KIB));
    assert_null(hr_cache_segment(lab->cache, face, border));
}

static void test_faults_that_stay(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){.timeout_ms = 300}, 1 * GIB, &object);
    (void)read_over(lab, face, object, 2 * BORDER - 100 * KIB, 256 * KIB); /* then a refusal is no ban */
    object->always = S3_REFUSED;
    check_both_fail(lab, face, object, BORDER, -EACCES);
    object->always = S3_FINE;
    lab_read(lab, face, object, BORDER + 4 * MIB, 100); /* behind a refusal nothing is asked for ahead */
    object->always = S3_TRUNCATED;
    check_both_fail(lab, face, object, BORDER, -EIO);
    object->always = S3_MISSING;
    check_both_fail(lab, face, object, BORDER, -ESTALE);
    object->always = S3_FINE;
    char etag[64];
    snprintf(etag, sizeof etag, "%s", object->etag);
    snprintf(object->etag, sizeof object->etag, "%s", "0123456789abcdef0123456789abcdef-9");
    check_both_fail(lab, face, object, BORDER, -ESTALE);
    snprintf(object->etag, sizeof object->etag, "%s", etag);
    object->size -= 5; /* under the ETag that it had: no other version, but a broken answer */
    check_both_fail(lab, face, object, BORDER, -EIO);
    object->size += 5;
    (void)read_over(lab, face, object, BORDER - 100 * KIB, 256 * KIB);
    nothing_is_left(lab);
}

/* The face leaves while both are on their way. */
static void test_the_face_is_lost(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){0}, 1 * GIB, &object);
    s3_hold(lab->s3, true, false);
    lab_ask_bytes(lab, 1, face, BORDER - 100 * KIB, 256 * KIB, false, 1);
    lab_ask_bytes(lab, 2, face, BORDER, 100, false, 2);
    hr_cache_drop(lab->cache, face);
    s3_hold(lab->s3, false, false);
    askers = 2;
    lab_until(lab, all_told);
    assert_int_equal(lab->answers[1].answer.error, -ESTALE);
    assert_int_equal(lab->answers[2].answer.error, -ESTALE);
    assert_int_equal(object->gets, 1);
    nothing_is_left(lab);
}

/* More waiters than room: all are served, and nobody holds a place that he cannot fill. */
static void test_many_in_a_small_cache(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){.cache_bytes = 9 * MIB, .memory_bytes = 3 * MIB},
                             4 * GIB, &object);
    askers = 100;
    for (unsigned i = 1; i <= askers; i++) {
        lab_ask_bytes(lab, i, face, (5 + 3 * i) * HR_CELL_BYTES - 512 * KIB, 1 * MIB, false, i);
    }
    lab_until(lab, all_told);
    for (unsigned i = 1; i <= askers; i++) {
        assert_int_equal(lab->answers[i].answer.error, 0);
        assert_int_equal(lab->answers[i].answer.size, 512 * KIB);
    }
    nothing_is_left(lab);
    assert_in_range(object->gets, 100, 200);
    assert_true(lab_stats(lab).memory_max_bytes <= 3 * MIB);
    assert_true(cache_stats(lab).bytes <= 9 * MIB);
}

static void test_end_in_the_middle(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){0}, 1 * GIB, &object);
    s3_hold(lab->s3, true, false);
    lab_ask_bytes(lab, 1, face, BORDER - 100 * KIB, 256 * KIB, false, 1);
    lab_ask_bytes(lab, 2, face, BORDER, 100, false, 2);
    lab_cut_off(lab);
    lab_close_cancels(lab, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define LAB_TEST(name) cmocka_unit_test_setup_teardown(name, lab_set_up, lab_tear_down)
        LAB_TEST(test_one_request_brings_both),
        LAB_TEST(test_random_reads_over_borders_are_one_request_each),
        LAB_TEST(test_who_waits_for_one_is_told_of_that),
        LAB_TEST(test_only_what_is_missing),
        LAB_TEST(test_long_ones_are_two),
        LAB_TEST(test_a_hint_over_a_border_is_one),
        LAB_TEST(test_faults_that_pass),
        LAB_TEST(test_faults_that_stay),
        LAB_TEST(test_the_face_is_lost),
        LAB_TEST(test_many_in_a_small_cache),
        LAB_TEST(test_end_in_the_middle),
#undef LAB_TEST
    };
    return cmocka_run_group_tests_name("plan borders", tests, NULL, NULL);
}
