/* What programs say of large objects: SEQUENTIAL, RANDOM, NORMAL, DONTNEED. */
#include "tests/unit/plan/lab.h"

#define PROCESS 77u

static uint64_t face;

static void say_in(struct lab *lab, uint32_t pid, uint32_t tid, enum hr_hint hint, uint64_t offset,
                   uint64_t bytes)
{
    struct hr_asker asker = {.fn = lab_answered, .owner = lab, .ticket = 5};
    struct hr_reader reader = {
        .context = UINT32_MAX, .tree = lab->tree, .pid = pid, .tid = tid, .hint = hint};
    struct hr_segment_ask ask = {.face_id = face, .offset = offset, .bytes = bytes};
    hr_plan_segment(lab->plan, &reader, &ask, false, &asker);
}

static void say(struct lab *lab, enum hr_hint hint)
{
    say_in(lab, PROCESS, 1, hint, 0, 1);
}

static struct hr_pattern note_in(struct lab *lab, uint32_t pid, uint32_t tid, uint64_t offset, uint64_t bytes)
{
    struct hr_pattern pattern;
    struct hr_reader reader = {.context = UINT32_MAX, .tree = lab->tree, .pid = pid, .tid = tid};
    struct hr_segment_ask ask = {.face_id = face, .offset = offset, .bytes = bytes};
    hr_window_note(lab->plan, &reader, &ask, &pattern);
    return pattern;
}

static void open_large(struct lab *lab, uint64_t size, uint64_t cache_bytes)
{
    s3_add(lab->s3, "large", size);
    lab_open(lab, &(struct lab_options){.cache_bytes = cache_bytes, .memory_bytes = 1000 * MIB});
    lab_list(lab);
    face = lab_face(lab, "large");
}

static void read_at(struct lab *lab, uint64_t offset, uint64_t bytes)
{
    assert_int_equal(lab_get_bytes(lab, face, offset, bytes, false, NULL), 0);
    lab_settle(lab);
}

/* Wide with the first read, wherever that is; narrow again after NORMAL; of this process alone. */
static void test_sequential_begins_wide(void **state)
{
    struct lab *lab = *state;
    open_large(lab, 64 * MIB, 100000 * MIB);
    assert_false(note_in(lab, PROCESS, 1, 33 * MIB, 4096).cells);
    say(lab, HR_HINT_SEQUENTIAL);
    struct hr_pattern pattern = note_in(lab, PROCESS, 2, 33 * MIB, 4096);
    assert_true(pattern.cells);
    assert_int_equal(pattern.ahead_cells, 16);
    assert_int_equal(note_in(lab, PROCESS, 3, 0, 4096).ahead_cells, 16);
    assert_false(note_in(lab, PROCESS + 1, 1, 33 * MIB, 4096).cells);
    say(lab, HR_HINT_NORMAL);
    assert_false(note_in(lab, PROCESS, 4, 33 * MIB, 4096).cells);
    assert_int_equal(note_in(lab, PROCESS, 5, 0, 4096).ahead_cells, 1);
    struct hr_plan_stats stats = lab_stats(lab);
    assert_int_equal(stats.hints[HR_HINT_SEQUENTIAL], 1);
    assert_int_equal(stats.hints[HR_HINT_NORMAL], 1);
    assert_int_equal(s3_gets(lab->s3), 0); /* to say so is not to read */
}

/* From the start, side by side, a shard's pieces: what is read and no more. */
static void test_random_is_exact(void **state)
{
    struct lab *lab = *state;
    open_large(lab, 64 * MIB, 0);
    say_in(lab, 1, 1, HR_HINT_RANDOM, 0, 1); /* as which the lab reads */
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < 12; i++) {
        read_at(lab, i * 64 * KIB, 64 * KIB);
        bytes += 64 * KIB;
    }
    struct hr_plan_stats stats = lab_stats(lab);
    assert_int_equal(s3_gets(lab->s3), 12);
    assert_int_equal(stats.fetched_bytes[HR_REASON_DEMAND], bytes);
    assert_int_equal(stats.fetched[HR_REASON_WINDOW], 0);
    say_in(lab, 1, 1, HR_HINT_NORMAL, 0, 1);
    read_at(lab, 12 * 64 * KIB, 64 * KIB);
    assert_true(lab_stats(lab).fetched_bytes[HR_REASON_DEMAND] > bytes + 64 * KIB); /* the cell */
}

static bool has(struct lab *lab, uint64_t offset)
{
    return hr_cache_segment(lab->cache, face, offset) != NULL;
}

/* The cells that lie wholly in the range are the next to go, before older ones; unless others read there. */
static void test_what_is_not_needed_goes_first(void **state)
{
    struct lab *lab = *state;
    open_large(lab, 80 * MIB, 5 * HR_CELL_BYTES);
    say_in(lab, 1, 1, HR_HINT_RANDOM, 0, 1);
    for (uint64_t cell = 0; cell < 8; cell += 2) {
        read_at(lab, cell * HR_CELL_BYTES, HR_CELL_BYTES);
    }
    say_in(lab, 1, 1, HR_HINT_DONTNEED, 4 * HR_CELL_BYTES - 4096, 2 * HR_CELL_BYTES);
    assert_int_equal(lab_stats(lab).hints_unneeded, 1);
    read_at(lab, 1 * HR_CELL_BYTES, HR_CELL_BYTES);
    assert_true(has(lab, 4 * HR_CELL_BYTES)); /* there is still room */
    read_at(lab, 3 * HR_CELL_BYTES, HR_CELL_BYTES);
    assert_false(has(lab, 4 * HR_CELL_BYTES));
    assert_true(has(lab, 0) && has(lab, 2 * HR_CELL_BYTES) && has(lab, 6 * HR_CELL_BYTES));
    (void)note_in(lab, 2, 2, 0, 4096);
    say_in(lab, 1, 1, HR_HINT_DONTNEED, 0, 80 * MIB);
    assert_int_equal(lab_stats(lab).hints_unneeded, 1);
    assert_int_equal(lab_stats(lab).hints[HR_HINT_DONTNEED], 2);
}

int main(void)
{
#define LAB_TEST(name) cmocka_unit_test_setup_teardown(name, lab_set_up, lab_tear_down)
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_sequential_begins_wide),
        LAB_TEST(test_random_is_exact),
        LAB_TEST(test_what_is_not_needed_goes_first),
    };
    return cmocka_run_group_tests_name("hints", tests, NULL, NULL);
}
