/* A reader that begins where nothing is there: its first cells come in parts, side by side. */
#include "tests/unit/plan/segments.h"

#define PART (2 * MIB)

static const struct lab_options roomy = {.cache_bytes = 100000 * MIB, .memory_bytes = 320 * MIB};

/* All parts of the cell were asked for; in whatever order they came. */
static void check_parts(struct lab *lab, uint64_t cell)
{
    unsigned found = 0;
    pthread_mutex_lock(&lab->s3->lock);
    for (unsigned i = 0; i < lab->s3->range_count; i++) {
        const struct s3_range *range = &lab->s3->ranges[i];
        uint64_t part = (range->first - cell) / PART;
        found |= range->bytes == PART && range->first >= cell && part < 4 ? 1u << part : 0;
    }
    pthread_mutex_unlock(&lab->s3->lock);
    assert_int_equal(found, 0xf);
}

/* Of a listed object nobody has asked for anything: the first two cells, of which the reader waits for one.
 */
static void test_the_first_cells_come_in_parts(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t size = 85 * MIB + 9;
    uint64_t face = open_one(lab, &roomy, size, &object);
    lab_read(lab, face, object, 0, 1 * MIB);
    lab_settle(lab);
    assert_int_equal(lab_stats(lab).cells_in_parts, 2);
    check_parts(lab, 0);
    check_parts(lab, HR_CELL_BYTES);
    assert_int_equal(cache_stats(lab).segments, 11); /* the parts are of one file */
    assert_int_equal(object->gets, 2 * 4 + 9);
    assert_int_equal(asked_bytes(lab), size);
    assert_int_equal(object->unmatched, 0);
    lab_read(lab, face, object, 0, size); /* from the start again: all is there */
    lab_settle(lab);
    assert_int_equal(object->gets, 2 * 4 + 9);
    assert_int_equal(asked_bytes(lab), size);
}

/* Who has the first cell already needs the next two soon. */
static void test_behind_what_is_there(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &roomy, 80 * MIB, &object);
    lab_ask_bytes(lab, 7, face, 0, 4096, false, 1); /* by another */
    lab_settle(lab);
    assert_int_equal(object->gets, 2);
    assert_int_equal(lab_stats(lab).cells_in_parts, 0);
    lab_read(lab, face, object, 0, 1 * MIB);
    lab_settle(lab);
    assert_int_equal(lab_stats(lab).cells_in_parts, 1); /* the second is there, the third is not */
    check_parts(lab, 2ull * HR_CELL_BYTES);
    assert_int_equal(object->gets, 2 + 4 + 7);
    assert_int_equal(asked_bytes(lab), 80 * MIB);
}

/* Small reads, jumps, reads that nobody waits for, and few connections: one request a range. */
static void test_others_are_asked_whole(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &roomy, 400 * MIB, &object);
    lab_read(lab, face, object, 0, 4096);
    lab_read(lab, face, object, 300 * MIB, 256 * KIB);
    lab_read(lab, face, object, 200 * MIB, 8 * MIB);
    lab_settle(lab);
    struct hr_reader hint = {
        .context = UINT32_MAX, .tree = lab->tree, .pid = 2, .tid = 9, .hint = HR_HINT_WILLNEED};
    struct hr_segment_ask ask = {.face_id = face, .offset = 0, .bytes = 40 * MIB};
    struct hr_asker nobody = hr_asker_nobody();
    hr_plan_segment(lab->plan, &hint, &ask, false, &nobody);
    lab_settle(lab);
    assert_int_equal(lab_stats(lab).cells_in_parts, 0);
}

static void test_few_connections_carry_one_each(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){.connections = 4}, 400 * MIB, &object);
    lab_read(lab, face, object, 0, 1 * MIB);
    lab_settle(lab);
    assert_int_equal(lab_stats(lab).cells_in_parts, 0);
}

/* One part is cut off: the cell is whole and right. */
static void test_parts_that_fail(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &roomy, 40 * MIB, &object);
    object->fault[2] = S3_TRUNCATED;
    lab_read(lab, face, object, 0, 40 * MIB);
    lab_settle(lab);
    assert_int_equal(lab_stats(lab).cells_in_parts, 2);
    assert_int_equal(cache_stats(lab).segments, 5);
    assert_int_equal(object->gets, 2 * 4 + 3 + 1);
}

static void test_parts_of_two_versions(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &roomy, 40 * MIB, &object);
    object->changes_at = 5 * MIB;
    assert_int_equal(lab_get_bytes(lab, face, 0, 1 * MIB, false, NULL), -ESTALE);
    lab_settle(lab);
    assert_int_equal(cache_stats(lab).segments, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define LAB_TEST(name) cmocka_unit_test_setup_teardown(name, lab_set_up, lab_tear_down)
        LAB_TEST(test_the_first_cells_come_in_parts),
        LAB_TEST(test_behind_what_is_there),
        LAB_TEST(test_others_are_asked_whole),
        LAB_TEST(test_few_connections_carry_one_each),
        LAB_TEST(test_parts_that_fail),
        LAB_TEST(test_parts_of_two_versions),
#undef LAB_TEST
    };
    return cmocka_run_group_tests_name("plan starts", tests, NULL, NULL);
}
