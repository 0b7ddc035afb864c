/* Announced objects above small_max: their beginning is there before they are opened, and their end where
 * programs read that. */
#include "tests/unit/plan/numbered.h"

#include "fetch/plan/order_thread.h"

#define OBJECTS 24u
#define BATCH 4u
#define SIZE (20 * MIB)
#define HEAD_BYTES ((uint64_t)HR_CELL_BYTES)

static uint32_t order[OBJECTS];

static void open_objects(struct lab *lab, uint64_t size, uint64_t cache_bytes)
{
    for (uint32_t i = 0; i < OBJECTS; i++) {
        order[i] = i * 7 % OBJECTS;
    }
    open_numbered(lab, OBJECTS, size, &(struct lab_options){.prefetch = true, .cache_bytes = cache_bytes},
                  HR_ORDER_MODE_OFF);
}

static void announce(struct lab *lab, uint32_t number)
{
    lab_announce(lab, order, BATCH, number);
}

/* Enough opens to know what the indices stand for, without a read. */
static void begin_epoch(struct lab *lab)
{
    announce(lab, 0);
    announce(lab, 1);
    for (uint32_t i = 0; i < 6; i++) {
        uint32_t position = i < 3 ? i : i + 1;
        open_announced(lab, order[position]);
    }
    lab_settle(lab);
}

static bool has(struct lab *lab, uint32_t position, uint64_t offset)
{
    const char *key = key_of(order[position]);
    return HR_STATE_KIND(lab_word(lab, key)) == HR_STATE_FACE &&
           hr_cache_segment(lab->cache, lab_file_id(lab, key), offset);
}

static void open_one(struct lab *lab, uint32_t position)
{
    lab_note(lab, key_of(order[position]));
    lab_run_ms(lab, 3 * LAB_BEAT_MS);
    lab_settle(lab);
}

static int read_at(struct lab *lab, uint32_t position, uint64_t offset)
{
    int error = lab_get_bytes(lab, lab_file_id(lab, key_of(order[position])), offset, 4096, false, NULL);
    lab_settle(lab);
    return error;
}

/* One request an announced object, before it is opened, as far as the bound goes: an eighth of the cache,
 * four cells here, by turns of the two workers. The first read finds it; what is opened makes room for the
 * next. */
static void test_beginnings_are_there(void **state)
{
    struct lab *lab = *state;
    open_objects(lab, SIZE, 256 * MIB);
    begin_epoch(lab);
    struct hr_plan_stats stats = lab_stats(lab);
    assert_true(stats.lookahead_learned > 0);
    assert_int_equal(stats.heads_ahead, 4);
    assert_int_equal(stats.lookahead_waiting, 4);
    assert_int_equal(s3_gets(lab->s3), 4);
    assert_int_equal(stats.fetched_bytes[HR_REASON_LOOKAHEAD], 4 * HEAD_BYTES);
    assert_int_equal(stats.tails_ahead, 0);
    unsigned there = 0;
    for (uint32_t i = 0; i < 2 * BATCH; i++) {
        there += has(lab, i, 0);
        assert_false(has(lab, i, HR_CELL_BYTES));
    }
    assert_int_equal(there, 4);
    assert_true(has(lab, 0, 0) && has(lab, 1, 0));
    open_one(lab, 0);
    assert_int_equal(lab_stats(lab).heads_ahead, 5);
    assert_int_equal(lab_stats(lab).heads_used, 0);
    assert_int_equal(read_at(lab, 0, 0), 0);
    stats = lab_stats(lab);
    assert_int_equal(stats.heads_used, 1);
    assert_int_equal(stats.used[HR_REASON_LOOKAHEAD], 1);
    assert_int_equal(stats.segment_misses, 0);
    assert_int_equal(stats.fetched[HR_REASON_DEMAND], 0);
    assert_int_equal(read_at(lab, 0, 100), 0);
    assert_int_equal(lab_stats(lab).heads_used, 1); /* once an object */
    lab_read(lab, lab_file_id(lab, key_of(order[1])), s3_find(lab->s3, key_of(order[1])), 0, SIZE);
    assert_int_equal(lab_stats(lab).heads_used, 2);
}

/* The next epoch finds them there; a loader that begins anew asks for nothing twice. */
static void test_nothing_comes_twice(void **state)
{
    struct lab *lab = *state;
    open_objects(lab, SIZE, 2048 * MIB);
    begin_epoch(lab);
    assert_int_equal(lab_stats(lab).heads_ahead, 2 * BATCH);
    for (uint32_t i = 0; i < 2 * BATCH; i++) {
        open_one(lab, i);
    }
    announce(lab, 0);
    announce(lab, 1);
    lab_settle(lab);
    struct hr_plan_stats stats = lab_stats(lab);
    assert_int_equal(stats.announced, 4 * BATCH);
    assert_int_equal(stats.heads_ahead, 2 * BATCH);
    assert_int_equal(stats.lookahead_waiting, 0);
    assert_int_equal(s3_gets(lab->s3), 2 * BATCH);
}

/* Two programs' jumps to the end: from then on that comes along, as long as what was asked for. */
static void test_ends_that_programs_read(void **state)
{
    struct lab *lab = *state;
    const uint64_t tail = 100 * KIB;
    open_objects(lab, SIZE, 2048 * MIB);
    begin_epoch(lab);
    for (uint32_t i = 0; i < 2; i++) {
        open_one(lab, i);
        assert_int_equal(read_at(lab, i, SIZE - tail), 0);
    }
    unsigned gets = s3_gets(lab->s3);
    announce(lab, 2);
    lab_settle(lab);
    struct hr_plan_stats stats = lab_stats(lab);
    assert_int_equal(stats.tails_ahead, BATCH);
    assert_int_equal(stats.heads_ahead, 3 * BATCH);
    assert_int_equal(s3_gets(lab->s3), gets + 2 * BATCH);
    uint64_t misses = stats.segment_misses;
    assert_true(has(lab, 2 * BATCH, SIZE - tail) && !has(lab, 2 * BATCH, SIZE - tail - 64 * KIB));
    assert_int_equal(read_at(lab, 2 * BATCH, SIZE - tail), 0);
    stats = lab_stats(lab);
    assert_int_equal(stats.segment_misses, misses);
    assert_int_equal(stats.heads_used, 1);
}

/* Left by its loader, or never announced: no claim, and no requests. */
static void test_left_objects_hold_no_place(void **state)
{
    struct lab *lab = *state;
    open_objects(lab, SIZE, 256 * MIB);
    begin_epoch(lab);
    assert_int_equal(lab_stats(lab).heads_ahead, 4);
    for (unsigned i = 0; i < 3; i++) { /* the loader begins anew, three times: nobody opened anything */
        announce(lab, 0);
        announce(lab, 1);
        lab_settle(lab);
    }
    assert_int_equal(lab_stats(lab).heads_ahead, 4);
    announce(lab, 2); /* this worker has no other batch by then: its turn is worth two places */
    lab_settle(lab);
    assert_in_range(s3_gets(lab->s3), 4, 8);
    assert_int_equal(lab_stats(lab).failed, 0);
}

/* The face of an object that is open already answers at once, and the next is asked for in the middle of a
 * batch: each batch comes to its end all the same. */
static void test_batches_end(void **state)
{
    struct lab *lab = *state;
    open_objects(lab, SIZE, 1024 * MIB);
    for (uint32_t i = 0; i < 2 * BATCH; i++) {
        (void)lab_face(lab, key_of(order[i]));
    }
    lab_settle(lab);
    begin_epoch(lab);
    for (uint32_t i = 0; i < 2 * BATCH; i++) {
        assert_true(has(lab, i, 0));
    }
    assert_int_equal(lab_stats(lab).lookahead_waiting, 0);
}

int main(void)
{
#define LAB_TEST(name) cmocka_unit_test_setup_teardown(name, lab_set_up, lab_tear_down)
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_beginnings_are_there),
        LAB_TEST(test_nothing_comes_twice),
        LAB_TEST(test_ends_that_programs_read),
        LAB_TEST(test_left_objects_hold_no_place),
        LAB_TEST(test_batches_end),
    };
    return cmocka_run_group_tests_name("heads", tests, NULL, NULL);
}
