/* Bytes of large objects: which ranges are asked for, and once for all who want them. */
#include "tests/unit/plan/segments.h"

static void test_fifty_readers_make_one_range(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){.cache_bytes = 31 * MIB}, 100 * MIB, &object);
    s3_hold(lab->s3, true, false);
    askers = 50;
    for (unsigned i = 1; i <= askers; i++) {
        uint64_t offset = 40 * MIB + 500 * i; /* all inside the first one's piece */
        lab_ask_bytes(lab, i, face, offset, 100, false, i);
    }
    assert_int_equal(lab_stats(lab).in_flight, 1);
    s3_hold(lab->s3, false, false);
    lab_until(lab, all_told);
    for (unsigned i = 1; i <= askers; i++) {
        assert_int_equal(lab->answers[i].times, 1);
        assert_int_equal(lab->answers[i].answer.error, 0);
        assert_int_equal(lab->answers[i].answer.file_id, lab->answers[1].answer.file_id);
        assert_int_equal(lab->answers[i].answer.offset, 40 * MIB);
        assert_int_equal(lab->answers[i].answer.size, 64 * KIB);
    }
    lab_check_bytes(lab, lab->answers[1].answer.file_id, object, 40 * MIB, 64 * KIB);
    lab_settle(lab);
    assert_int_equal(object->gets, 1);
    assert_int_equal(object->unmatched, 0);
    lab_read(lab, face, object, 40 * MIB + 100, 100); /* warm */
    assert_int_equal(object->gets, 1);
    assert_int_equal(lab_stats(lab).segment_hits, 1);
    assert_int_equal(lab_stats(lab).segment_misses, 50);
}

static void test_end_of_a_huge_object(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t size = 10 * GIB + 5 * MIB + 1234;
    uint64_t face = open_one(lab, &(struct lab_options){0}, size, &object);
    lab_read(lab, face, object, size - 1 * KIB, 1 * KIB);
    lab_settle(lab);
    assert_int_equal(object->gets, 1);
    assert_true(asked_bytes(lab) <= 64 * KIB + 4096);
    /* A directory of some hundred KiB in front of it: from there to the end. */
    uint64_t from = (size - 700 * KIB) / 4096 * 4096;
    lab_read(lab, face, object, from + 5, 1 * KIB);
    lab_settle(lab);
    check_range(lab, 1, from, size - from);
    assert_int_equal(object->gets, 2);
    lab_read(lab, face, object, size - 300 * KIB, 300 * KIB);
    lab_settle(lab);
    assert_int_equal(object->gets, 2);
}

/* Across the border of the last cell. */
static void test_end_in_two_cells(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t size = 1 * GIB + 5000;
    uint64_t face = open_one(lab, &(struct lab_options){0}, size, &object);
    s3_hold(lab->s3, true, false);
    lab_ask_bytes(lab, 1, face, size - 300 * KIB, 100, false, 1);
    assert_int_equal(lab_stats(lab).in_flight, 1);
    s3_hold(lab->s3, false, false);
    lab_settle(lab);
    lab_read(lab, face, object, size - 300 * KIB, 300 * KIB);
    assert_int_equal(object->gets, 1);
    assert_true(asked_bytes(lab) <= 300 * KIB + 4096);
}

static void test_random_reads_are_exact(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){0}, 4 * GIB, &object);
    for (unsigned i = 0; i < 20; i++) {
        uint64_t offset = (uint64_t)((i * 197) % 500 + 1) * HR_CELL_BYTES + 3 * MIB + i * 4096;
        lab_read(lab, face, object, offset, 256 * KIB);
        check_range(lab, i, offset, 256 * KIB);
    }
    lab_settle(lab);
    assert_int_equal(object->gets, 20);
    assert_int_equal(asked_bytes(lab), 20 * 256 * KIB);
    assert_int_equal(cache_stats(lab).segments, 20);
    assert_int_equal(lab_stats(lab).fetched[HR_REASON_WINDOW], 0);
}

static void test_small_random_reads_take_64_kib(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){0}, 4 * GIB, &object);
    lab_read(lab, face, object, 100 * MIB + 5, 10);
    check_range(lab, 0, 100 * MIB, 64 * KIB);
    /* At a cell's end: backwards; across it: as it is. */
    uint64_t border = 200 * HR_CELL_BYTES;
    lab_read(lab, face, object, border - 5000, 100);
    check_range(lab, 1, border - 64 * KIB, 64 * KIB);
    border = 300 * HR_CELL_BYTES;
    lab_read(lab, face, object, border - 100 * KIB, 256 * KIB);
    check_range(lab, 2, border - 100 * KIB, 256 * KIB);
    assert_int_equal(object->gets, 3);
    lab_settle(lab);
}

static void test_dense_cell_is_taken_whole(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){0}, 1 * GIB, &object);
    uint64_t cell = 50 * HR_CELL_BYTES;
    for (unsigned i = 0; i < 5; i++) { /* here and there: exact; backwards, so that nothing is read on */
        lab_read(lab, face, object, cell + (7 - i) * MIB, 4 * KIB);
        check_range(lab, i, cell + (7 - i) * MIB, 64 * KIB);
    }
    for (unsigned i = 0; i < 3; i++) { /* beside one that is there, which random reads are now and then */
        lab_read(lab, face, object, cell + 5 * MIB - (i + 1) * 64 * KIB, 4 * KIB);
        check_range(lab, 5 + i, cell + 5 * MIB - (i + 1) * 64 * KIB, 64 * KIB);
    }
    lab_read(lab, face, object, cell + 5 * MIB - 4 * 64 * KIB, 4 * KIB); /* the fifth of a row */
    lab_settle(lab);
    /* What lacks before the row and behind it, single pieces in it once more. */
    uint64_t row = cell + 5 * MIB - 3 * 64 * KIB;
    check_range(lab, 8, cell, row - cell);
    check_range(lab, 9, cell + 5 * MIB + 64 * KIB, 3 * MIB - 64 * KIB);
    assert_int_equal(cache_stats(lab).segments, 2 + 4); /* the pieces in them have gone */
    for (unsigned i = 0; i < 8; i++) {
        lab_read(lab, face, object, cell + (7 - i) * MIB, 4 * KIB);
    }
    assert_int_equal(object->gets, 10);
}

/* By chance they meet, touch and overlap: what is read is asked for, and no more. */
static void test_random_reads_that_meet_stay_exact(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){.cache_bytes = 2 * GIB}, 512 * MIB, &object);
    uint64_t random = 11, wanted = 0;
    for (unsigned i = 0; i < 320; i++) { /* 5 a cell */
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint64_t at = (random >> 33) % (510 * MIB / 4096) * 4096 + 64 * KIB; /* neither start nor end */
        wanted += 256 * KIB;
        for (uint64_t end = at + 256 * KIB; at < end;) { /* as a client goes on */
            struct hr_answer answer;
            assert_int_equal(lab_get_bytes(lab, face, at, end - at, false, &answer), 0);
            at = answer.offset + answer.size;
        }
    }
    lab_settle(lab);
    assert_true(asked_bytes(lab) * 100 <= wanted * 102);
}

/* One exact range each, however many meet in a cell: up to half of it. */
static void test_random_reads_stay_exact(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){0}, 4 * GIB, &object);
    for (unsigned i = 0; i < 64; i++) { /* every third half MiB of six cells, in a wild order */
        uint64_t at = 100 * HR_CELL_BYTES + (i * 37 % 64) * 3 * 256 * KIB;
        lab_read(lab, face, object, at, 256 * KIB);
    }
    lab_settle(lab);
    assert_int_equal(object->gets, 64);
    assert_int_equal(asked_bytes(lab), 64 * 256 * KIB);
}

/* Samples of a shard, as MDS reads them: soon all of it, in far fewer requests than samples. */
static void test_samples_bring_their_shard(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){0}, 64 * MIB, &object);
    for (unsigned i = 0; i < 600; i++) {
        uint64_t at = 1 * MIB + (i * 379 % 600) * 100 * KIB;
        struct hr_answer answer;
        assert_int_equal(lab_get_bytes(lab, face, 8 * (i % 600), 8, false, &answer), 0);
        assert_int_equal(lab_get_bytes(lab, face, at, 8 * KIB, false, &answer), 0);
    }
    lab_settle(lab);
    assert_true(object->gets <= 24);
    assert_true(asked_bytes(lab) <= 64 * MIB + 2 * MIB);
}

/* From end to start in steps that are smaller than a piece. */
static void test_backward_reading_does_not_thrash(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){0}, 1 * GIB, &object);
    for (unsigned i = 1; i <= 2 * 8 * 32; i++) { /* two cells */
        struct hr_answer answer;
        uint64_t at = 400 * MIB - i * 32 * KIB;
        assert_int_equal(lab_get_bytes(lab, face, at, 32 * KIB, false, &answer), 0);
        assert_true(answer.offset <= at && at < answer.offset + answer.size);
    }
    lab_settle(lab);
    assert_true(object->gets <= 2 * 5);
    assert_true(asked_bytes(lab) <= 2 * (HR_CELL_BYTES + 4 * 64 * KIB));
}

/* In large steps, either way: the rest of a cell comes without what is there of it. */
static void test_the_rest_of_a_cell_is_asked_for(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){0}, 1 * GIB, &object);
    for (unsigned i = 1; i <= 3 * 8; i++) { /* three cells, backwards */
        lab_read(lab, face, object, 400 * MIB - i * MIB, 1 * MIB);
    }
    lab_settle(lab);
    assert_int_equal(object->gets, 3 * 5);
    assert_int_equal(asked_bytes(lab), 3 * HR_CELL_BYTES);
    for (unsigned i = 0; i < 8; i++) { /* forwards in two places by turns, which is no run */
        lab_read(lab, face, object, 800 * MIB + i * MIB, 1 * MIB);
        lab_read(lab, face, object, 880 * MIB + i * MIB, 1 * MIB);
    }
    lab_settle(lab);
    assert_int_equal(object->gets, 5 * 5);
    assert_int_equal(asked_bytes(lab), 5 * HR_CELL_BYTES);
    assert_int_equal(cache_stats(lab).segments, 5 * 5);
}

/* Cells that are there in pieces are there, for who reads on and for who needs all in one file. */
static void test_cells_in_pieces_are_there(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    struct hr_answer answer;
    uint64_t size = 64 * MIB;
    uint64_t face = open_one(lab, &(struct lab_options){0}, size, &object);
    for (unsigned i = 1; i <= 4 * 8; i++) {
        lab_read(lab, face, object, 48 * MIB - i * MIB, 1 * MIB);
    }
    lab_settle(lab);
    assert_int_equal(asked_bytes(lab), 4 * HR_CELL_BYTES);
    for (uint64_t at = 0; at < size; at += answer.size) { /* another reader */
        lab_ask_bytes(lab, 2, face, at, 1 * MIB, false, 1);
        askers = 1;
        lab_until(lab, all_told);
        answer = lab->answers[1].answer;
        assert_int_equal(answer.error, 0);
        assert_int_equal(answer.offset, at);
    }
    lab_settle(lab);
    assert_int_equal(asked_bytes(lab), size);
    hr_cache_drop(lab->cache, hr_cache_segment(lab->cache, face, 30 * MIB)->file_id);
    assert_int_equal(lab_get_bytes(lab, face, 0, 1, true, &answer), 0);
    lab_check_bytes(lab, answer.file_id, object, 0, size);
    lab_settle(lab);
    assert_true(asked_bytes(lab) < size + HR_CELL_BYTES);
    assert_true(lab_stats(lab).copied_bytes > size - HR_CELL_BYTES);
}

/* A run in the middle is believed by and by. */
static void test_short_runs_cost_little(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){0}, 1 * GIB, &object);
    for (unsigned record = 0; record < 3; record++) { /* of 256 KiB, in steps of 16 KiB */
        uint64_t start = (100 + 90 * record) * MIB;
        for (uint64_t at = start, end = at; at < start + 256 * KIB; at += 16 * KIB) {
            struct hr_answer answer;
            if (at >= end) { /* what a client has it does not ask for */
                assert_int_equal(lab_get_bytes(lab, face, at, 16 * KIB, false, &answer), 0);
                end = answer.offset + answer.size;
            }
        }
    }
    lab_settle(lab);
    assert_int_equal(object->gets, 6);
    assert_int_equal(asked_bytes(lab), 3 * 256 * KIB);
    assert_int_equal(lab_stats(lab).fetched[HR_REASON_WINDOW], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define LAB_TEST(name) cmocka_unit_test_setup_teardown(name, lab_set_up, lab_tear_down)
        LAB_TEST(test_fifty_readers_make_one_range),
        LAB_TEST(test_end_of_a_huge_object),
        LAB_TEST(test_end_in_two_cells),
        LAB_TEST(test_random_reads_are_exact),
        LAB_TEST(test_small_random_reads_take_64_kib),
        LAB_TEST(test_dense_cell_is_taken_whole),
        LAB_TEST(test_random_reads_stay_exact),
        LAB_TEST(test_random_reads_that_meet_stay_exact),
        LAB_TEST(test_samples_bring_their_shard),
        LAB_TEST(test_backward_reading_does_not_thrash),
        LAB_TEST(test_the_rest_of_a_cell_is_asked_for),
        LAB_TEST(test_cells_in_pieces_are_there),
        LAB_TEST(test_short_runs_cost_little),
#undef LAB_TEST
    };
    return cmocka_run_group_tests_name("plan segments", tests, NULL, NULL);
}
