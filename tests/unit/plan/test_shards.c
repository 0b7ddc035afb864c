/* Large objects of one folder: what comes along when one is begun, and which is brought before it is opened.
 */
#include "tests/unit/plan/numbered.h"
#include "tests/unit/plan/segments.h"

#include "fetch/plan/names.h"

#define OBJECTS 12u
#define SIZE (9 * MIB) /* two cells */
#define CELLS 2u

static const struct lab_options small_cells = {
    .prefetch = true, .small_max_bytes = 1 * MIB, .cache_bytes = 1024 * MIB};

/* Reads on from where it is, as a program does; the end of what it got. */
static uint64_t read_on(struct lab *lab, uint32_t tid, uint64_t face, uint64_t offset)
{
    lab_ask_bytes(lab, tid, face, offset, 4096, false, 0);
    lab_awaited = 0;
    lab_until(lab, lab_is_answered);
    assert_int_equal(lab->answers[0].answer.error, 0);
    return lab->answers[0].answer.offset + lab->answers[0].answer.size;
}

static uint64_t begin(struct lab *lab, uint32_t tid, uint32_t number)
{
    uint64_t face = lab_face(lab, key_of(number));
    assert_int_equal(read_on(lab, tid, face, 0), HR_CELL_BYTES);
    return face;
}

static void read_whole(struct lab *lab, uint32_t tid, uint32_t number)
{
    uint64_t face = begin(lab, tid, number);
    assert_int_equal(read_on(lab, tid, face, HR_CELL_BYTES), SIZE);
    lab_settle(lab);
}

static unsigned gets_of(struct lab *lab, uint32_t number)
{
    return s3_find(lab->s3, key_of(number))->gets;
}

/* Four workers, each with an object: who comes to the end of his goes on into the one behind all of them. All
 * bytes are asked for once, and none that nobody reads. */
static void test_workers_that_take_turns(void **state)
{
    struct lab *lab = *state;
    uint64_t faces[4];
    open_numbered(lab, 8, SIZE, &small_cells, HR_ORDER_MODE_OFF);
    for (uint32_t i = 0; i < 4; i++) {
        faces[i] = begin(lab, 1 + i, i);
    }
    lab_settle(lab);
    assert_int_equal(gets_of(lab, 4), 0);
    for (uint32_t i = 0; i < 4; i++) { /* the last of them first */
        (void)read_on(lab, 4 - i, faces[3 - i], HR_CELL_BYTES);
        lab_settle(lab);
        assert_int_equal(gets_of(lab, 4 + i), CELLS);
    }
    assert_int_equal(lab_stats(lab).shards_ahead, 4);
    assert_int_equal(lab_stats(lab).shards_used, 0);
    for (uint32_t i = 0; i < 4; i++) { /* in any order among them */
        read_whole(lab, 1 + i, 4 + (i * 3 + 1) % 4);
    }
    struct hr_plan_stats stats = lab_stats(lab);
    assert_int_equal(stats.shards_used, 4);
    assert_int_equal(stats.shards_wrong, 0);
    assert_int_equal(stats.used[HR_REASON_WINDOW], stats.fetched[HR_REASON_WINDOW]);
    assert_int_equal(s3_gets(lab->s3), 8 * CELLS);
    assert_int_equal(asked_bytes(lab), 8 * SIZE);
}

static void test_one_reader(void **state)
{
    struct lab *lab = *state;
    open_numbered(lab, 4, SIZE, &small_cells, HR_ORDER_MODE_OFF);
    read_whole(lab, 1, 0);
    assert_int_equal(gets_of(lab, 1), 0);
    read_whole(lab, 1, 1);
    assert_int_equal(gets_of(lab, 2), CELLS); /* two side by side are enough for one reader */
    read_whole(lab, 1, 2);
    assert_int_equal(gets_of(lab, 3), CELLS);
    read_whole(lab, 1, 3); /* behind it is nothing */
    assert_int_equal(lab_stats(lab).shards_used, 2);
    assert_int_equal(asked_bytes(lab), 4 * SIZE);
}

/* A node of several takes every third. */
static void test_every_third(void **state)
{
    struct lab *lab = *state;
    open_numbered(lab, OBJECTS, SIZE, &small_cells, HR_ORDER_MODE_OFF);
    read_whole(lab, 1, 1);
    read_whole(lab, 1, 4);
    assert_int_equal(lab_stats(lab).shards_ahead, 0);
    read_whole(lab, 1, 7);
    assert_int_equal(lab_stats(lab).shards_ahead, 1);
    assert_int_equal(gets_of(lab, 10), CELLS);
    read_whole(lab, 1, 10);
    assert_int_equal(lab_stats(lab).shards_used, 1);
    assert_int_equal(asked_bytes(lab), 4 * SIZE);
}

static void test_prefetch_off(void **state)
{
    struct lab *lab = *state;
    struct lab_options options = small_cells;
    options.prefetch = false;
    open_numbered(lab, 6, SIZE, &options, HR_ORDER_MODE_OFF);
    for (uint32_t i = 0; i < 5; i++) {
        read_whole(lab, 1, i);
    }
    assert_int_equal(lab_stats(lab).shards_ahead, 0);
    assert_int_equal(gets_of(lab, 5), 0);
}

static void test_a_shuffled_list_brings_nothing(void **state)
{
    struct lab *lab = *state;
    static const uint32_t shuffled[] = {5, 2, 9, 0, 6, 11, 3, 8, 1, 10, 4, 7};
    open_numbered(lab, OBJECTS, SIZE, &small_cells, HR_ORDER_MODE_OFF);
    for (uint32_t i = 0; i < OBJECTS; i++) {
        assert_int_equal(gets_of(lab, shuffled[i]), 0);
        read_whole(lab, 1, shuffled[i]);
    }
    assert_int_equal(lab_stats(lab).shards_ahead, 0);
}

/* Two that did not come in a row: it takes more to be believed again. */
static void test_wrong_twice(void **state)
{
    struct lab *lab = *state;
    open_numbered(lab, 24, SIZE, &small_cells, HR_ORDER_MODE_OFF);
    for (uint32_t from = 0; from < 16; from += 8) {
        for (uint32_t i = 0; i < 3; i++) {
            read_whole(lab, 1, from + i);
        }
        assert_int_equal(gets_of(lab, from + 3), CELLS);
    }
    uint64_t ahead = lab_stats(lab).shards_ahead;
    read_whole(lab, 1, 16);
    assert_int_equal(lab_stats(lab).shards_wrong, 2);
    for (uint32_t i = 17; i < 21; i++) {
        read_whole(lab, 1, i);
    }
    assert_int_equal(lab_stats(lab).shards_ahead, ahead);
    read_whole(lab, 1, 21);
    assert_int_equal(lab_stats(lab).shards_ahead, ahead + 1);
    assert_int_equal(gets_of(lab, 22), CELLS);
}

/* An epoch begins anew with the first. */
static void test_the_next_epoch(void **state)
{
    struct lab *lab = *state;
    struct lab_options options = small_cells;
    options.cache_bytes = 80 * MIB; /* two of the objects are there at the end, or three */
    open_numbered(lab, OBJECTS, SIZE, &options, HR_ORDER_MODE_OFF);
    for (uint32_t i = 0; i < 2 * OBJECTS; i++) {
        read_whole(lab, 1, i % OBJECTS);
    }
    struct hr_plan_stats stats = lab_stats(lab);
    assert_int_equal(stats.shards_wrong, 0);
    assert_true(stats.shards_ahead >= 2 * (OBJECTS - 2) - 1);
    assert_int_equal(stats.shards_used, stats.shards_ahead);
}

/* Names that nobody listed: one LIST of the folder, and the open of what it told asks nothing. */
static void test_unlisted(void **state)
{
    struct lab *lab = *state;
    struct hr_answer answer;
    for (uint32_t i = 0; i < 4; i++) {
        s3_add(lab->s3, key_of(i), SIZE);
    }
    s3_add(lab->s3, "train/small", 1000);
    s3_add(lab->s3, "train/x.json", SIZE);
    lab_open(lab, &small_cells);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(lab_get(lab, HR_OP_OPEN, key_of(i), &answer), 0);
        assert_true(answer.flags & HR_ANSWER_FACE);
        assert_int_equal(gets_of(lab, i), i < 2 ? 1 : CELLS);
        uint64_t end = read_on(lab, 1, answer.file_id, 0);
        while (end < SIZE) {
            end = read_on(lab, 1, answer.file_id, end);
        }
        lab_settle(lab);
        lab_run_ms(lab, LAB_BEAT_MS); /* the LIST is no want */
        lab_settle(lab);
    }
    struct hr_plan_stats stats = lab_stats(lab);
    assert_int_equal(lab->s3->lists, 1);
    assert_int_equal(lab->s3->delimited, 1);
    assert_int_equal(stats.shards_used, 1);
    assert_int_equal(stats.shards_ahead, 2);
    assert_int_equal(gets_of(lab, 3), CELLS);
    assert_int_equal(s3_find(lab->s3, "train/x.json")->gets, 0);
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "train/none", NULL), -ENOENT);
}

/* In no order: nothing comes ahead, but the open of a name beside others asks nothing; that of one which came
 * later, or is doubted, does. */
static void test_unlisted_and_shuffled(void **state)
{
    struct lab *lab = *state;
    static const uint32_t shuffled[] = {1, 4, 2};
    struct hr_answer answer;
    for (uint32_t i = 0; i < 6; i++) {
        s3_add(lab->s3, key_of(i), SIZE)->hidden = i == 5;
    }
    lab_open(lab, &small_cells);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(lab_get(lab, HR_OP_OPEN, key_of(shuffled[i]), &answer), 0);
        assert_int_equal(answer.size, SIZE);
        assert_int_equal(gets_of(lab, shuffled[i]), i < 2 ? 1 : 0);
        uint64_t end = read_on(lab, 1, answer.file_id, 0);
        while (end < SIZE) {
            end = read_on(lab, 1, answer.file_id, end);
        }
        lab_settle(lab);
        lab_run_ms(lab, LAB_BEAT_MS); /* the LIST is no want */
    }
    assert_int_equal(lab->s3->lists, 1);
    assert_int_equal(lab_stats(lab).shards_ahead, 0);
    assert_int_equal(lab_get(lab, HR_OP_OPEN, key_of(3), &answer), 0);
    assert_int_equal(gets_of(lab, 3), 0);
    assert_int_equal(lab_get(lab, HR_OP_OPEN, key_of(5), &answer), 0);
    assert_int_equal(gets_of(lab, 5), 1);
    hr_name_doubt(hr_tree_get(lab->plan, lab->tree), key_of(3), (uint32_t)strlen(key_of(3)));
    assert_int_equal(lab_get(lab, HR_OP_OPEN, key_of(3), &answer), 0);
    assert_int_equal(gets_of(lab, 3), 1);
}

/* It never takes more than a quarter of the cache. */
static void test_bounded_by_the_cache(void **state)
{
    struct lab *lab = *state;
    struct lab_options options = small_cells;
    options.cache_bytes = 64 * MIB; /* two cells */
    open_numbered(lab, 8, SIZE, &options, HR_ORDER_MODE_OFF);
    for (uint32_t i = 0; i < 4; i++) {
        (void)begin(lab, 1 + i, i);
    }
    lab_settle(lab);
    for (uint32_t i = 0; i < 4; i++) {
        (void)read_on(lab, 1 + i, lab_face(lab, key_of(i)), HR_CELL_BYTES);
        lab_settle(lab);
    }
    assert_true(gets_of(lab, 4) + gets_of(lab, 5) + gets_of(lab, 6) + gets_of(lab, 7) <= 2);
}

/* ---- openings ---- */

static const struct lab_options wide = {
    .cache_bytes = 100000 * MIB, .memory_bytes = 64 * 36 * MIB, .small_max_bytes = 1 * MIB};

static unsigned ahead_of(struct lab *lab, uint32_t tid, const char *key, uint64_t bytes)
{
    struct hr_pattern pattern;
    struct hr_reader reader = {.context = UINT32_MAX, .tree = lab->tree, .pid = 1, .tid = tid};
    struct hr_segment_ask ask = {.face_id = lab_face(lab, key), .offset = 0, .bytes = bytes};
    hr_window_note(lab->plan, &reader, &ask, &pattern);
    assert_true(pattern.cells && pattern.to_end);
    return pattern.ahead_cells;
}

static void goes_on(struct lab *lab, uint32_t tid, const char *key, uint64_t offset)
{
    struct hr_pattern pattern;
    struct hr_reader reader = {.context = UINT32_MAX, .tree = lab->tree, .pid = 1, .tid = tid};
    struct hr_segment_ask ask = {.face_id = lab_face(lab, key), .offset = offset, .bytes = 4096};
    hr_window_served(lab->plan, &reader, ask.face_id, offset);
    if (offset < 800 * MIB) {
        hr_window_note(lab->plan, &reader, &ask, &pattern);
    }
}

static void add_many(struct lab *lab, const char *begin_with, const char *suffix, unsigned count)
{
    char key[48];
    for (unsigned i = 0; i < count; i++) {
        snprintf(key, sizeof key, "%s%02u%s", begin_with, i, suffix);
        s3_add(lab->s3, key, 800 * MIB);
    }
}

/* By the read, and by the name. */
static void test_openings(void **state)
{
    struct lab *lab = *state;
    static const char *const names[] = {"a/x.tar",     "b/x.tar.gz", "c/x.tfrecord-00001-of-00100",
                                        "d/x.parquet", "e/x.tar.h5", "f/tar"};
    for (unsigned i = 0; i < 6; i++) {
        s3_add(lab->s3, names[i], 800 * MIB);
    }
    lab_open(lab, &wide);
    lab_list(lab);
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(ahead_of(lab, 1 + i, names[i], 4096), i < 3 ? 6 : 1);
        goes_on(lab, 1 + i, names[i], HR_CELL_BYTES);
        goes_on(lab, 1 + i, names[i], 800 * MIB);
    }
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(ahead_of(lab, 11 + i, names[i], 1 * MIB), 16);
        goes_on(lab, 11 + i, names[i], HR_CELL_BYTES);
        goes_on(lab, 11 + i, names[i], 800 * MIB);
    }
}

/* Beginnings of many, as `head -c` reads them: the first few cost a window, the others a cell. One that is
 * read on gives it back. */
static void test_what_is_left_early_costs_little(void **state)
{
    struct lab *lab = *state;
    char key[48];
    add_many(lab, "heads/h", ".tar", 12);
    for (unsigned i = 0; i < 8; i++) { /* one a folder */
        snprintf(key, sizeof key, "in%u/x.bin", i);
        s3_add(lab->s3, key, 800 * MIB);
    }
    lab_open(lab, &wide);
    lab_list(lab);
    lab->plan->options.connections = 4096;
    for (unsigned i = 0; i < 10; i++) {
        snprintf(key, sizeof key, "heads/h%02u.tar", i);
        unsigned ahead = ahead_of(lab, 1 + i, key, 1 * MIB);
        assert_true(i < 4 ? ahead > 4 : ahead <= 1);
    }
    goes_on(lab, 10, key, HR_CELL_BYTES);
    goes_on(lab, 10, key, 800 * MIB);
    snprintf(key, sizeof key, "heads/h%02u.tar", 10);
    assert_true(ahead_of(lab, 11, key, 1 * MIB) > 4);
    for (unsigned i = 0; i < 8; i++) {
        snprintf(key, sizeof key, "in%u/x.bin", i);
        unsigned ahead = ahead_of(lab, 20 + i, key, 1 * MIB);
        assert_true(i < 3 ? ahead > 4 : ahead <= 1); /* the folder above was the first */
    }
}

/* Where others were read whole, all of the window comes with the first read. */
static void test_learned(void **state)
{
    struct lab *lab = *state;
    char key[48];
    add_many(lab, "logs/l", ".bin", 10);
    lab_open(lab, &wide);
    lab_list(lab);
    for (unsigned i = 0; i < 4; i++) {
        snprintf(key, sizeof key, "logs/l%02u.bin", i);
        assert_int_equal(ahead_of(lab, 1, key, 4096), i < 3 ? 1 : 54);
        for (uint64_t at = HR_CELL_BYTES; at <= 800 * MIB; at += HR_CELL_BYTES) {
            goes_on(lab, 1, key, at);
        }
    }
    for (unsigned i = 4; i < 10; i++) { /* these are not */
        snprintf(key, sizeof key, "logs/l%02u.bin", i);
        (void)ahead_of(lab, 1 + i, key, 4096);
        goes_on(lab, 1 + i, key, HR_CELL_BYTES);
    }
    assert_int_equal(ahead_of(lab, 20, "logs/l09.bin", 4096), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define LAB_TEST(name) cmocka_unit_test_setup_teardown(name, lab_set_up, lab_tear_down)
        LAB_TEST(test_workers_that_take_turns),
        LAB_TEST(test_one_reader),
        LAB_TEST(test_every_third),
        LAB_TEST(test_prefetch_off),
        LAB_TEST(test_a_shuffled_list_brings_nothing),
        LAB_TEST(test_wrong_twice),
        LAB_TEST(test_the_next_epoch),
        LAB_TEST(test_unlisted),
        LAB_TEST(test_unlisted_and_shuffled),
        LAB_TEST(test_bounded_by_the_cache),
        LAB_TEST(test_openings),
        LAB_TEST(test_what_is_left_early_costs_little),
        LAB_TEST(test_learned),
#undef LAB_TEST
    };
    return cmocka_run_group_tests_name("plan shards", tests, NULL, NULL);
}
