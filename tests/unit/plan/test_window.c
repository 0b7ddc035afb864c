/* Windows: how far ahead a reader is served, and what bounds it. */
#include "fetch/plan/inner.h"
#include "tests/unit/plan/lab.h"

static uint64_t face = 5; /* of no object, but where one is needed */

static struct hr_pattern note(struct lab *lab, uint32_t tid, uint64_t offset, uint64_t bytes)
{
    struct hr_pattern pattern;
    struct hr_reader reader = {.context = UINT32_MAX, .tree = lab->tree, .pid = 1, .tid = tid};
    struct hr_segment_ask ask = {.face_id = face, .offset = offset, .bytes = bytes};
    hr_window_note(lab->plan, &reader, &ask, &pattern);
    return pattern;
}

static void served(struct lab *lab, uint32_t tid, uint64_t end)
{
    struct hr_reader reader = {.context = UINT32_MAX, .tree = lab->tree, .pid = 1, .tid = tid};
    hr_window_served(lab->plan, &reader, face, end);
}

/* The window of a thread that has read `cells` cells on from the start. */
static unsigned window_after(struct lab *lab, uint32_t tid, unsigned cells)
{
    struct hr_pattern pattern = {0};
    for (unsigned i = 0; i <= cells; i++) {
        pattern = note(lab, tid, (uint64_t)i * HR_CELL_BYTES, 4096);
        assert_true(pattern.cells);
        served(lab, tid, (uint64_t)(i + 1) * HR_CELL_BYTES);
    }
    return pattern.ahead_cells;
}

static void test_window_grows(void **state)
{
    struct lab *lab = *state;
    static const unsigned sizes[] = {1, 4, 16, 36, 54, 54, 54};
    lab_open(lab, &(struct lab_options){.cache_bytes = 100000 * MIB, .memory_bytes = 1000 * MIB});
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(note(lab, 1, (uint64_t)i * HR_CELL_BYTES, 4096).ahead_cells, sizes[i]);
        served(lab, 1, (uint64_t)(i + 1) * HR_CELL_BYTES);
    }
    /* Its file was gone: the same window. A jump: none. Back to the start: from one on. */
    assert_int_equal(note(lab, 1, 6ull * HR_CELL_BYTES, 4096).ahead_cells, 54);
    struct hr_pattern jump = note(lab, 1, 900ull * MIB, 4096);
    assert_false(jump.cells);
    assert_int_equal(jump.ahead_cells, 0);
    assert_int_equal(jump.piece_bytes, 4096);
    assert_int_equal(note(lab, 1, 100, 4096).ahead_cells, 1);
}

/* Whoever begins with a read of 1 MiB begins two steps later; a read in the middle does not. */
static void test_a_long_first_read_opens_the_window(void **state)
{
    struct lab *lab = *state;
    lab_open(lab, &(struct lab_options){.cache_bytes = 100000 * MIB, .memory_bytes = 1000 * MIB});
    assert_int_equal(note(lab, 1, 0, 1 * MIB - 1).ahead_cells, 1);
    served(lab, 1, HR_CELL_BYTES);
    lab_close(lab);
    lab_open(lab, &(struct lab_options){.cache_bytes = 100000 * MIB, .memory_bytes = 1000 * MIB});
    assert_int_equal(note(lab, 2, 0, 1 * MIB).ahead_cells, 16);
    served(lab, 2, HR_CELL_BYTES);
    assert_int_equal(note(lab, 2, HR_CELL_BYTES, 1 * MIB).ahead_cells, 36);
    served(lab, 2, 2ull * HR_CELL_BYTES);
    assert_int_equal(note(lab, 2, 2ull * HR_CELL_BYTES, 1 * MIB).ahead_cells, 54);
    assert_false(note(lab, 3, 900ull * MIB, 64 * MIB).cells);
}

/* Jumps that happen to lie one behind the other are jumps; so is one hole after the other. */
static void test_neighbours_by_chance_are_no_run(void **state)
{
    struct lab *lab = *state;
    lab_open(lab, &(struct lab_options){.cache_bytes = 100000 * MIB, .memory_bytes = 1000 * MIB});
    uint64_t start = 500 * MIB;
    (void)note(lab, 1, start, 256 * KIB);
    served(lab, 1, start + 256 * KIB);
    assert_false(note(lab, 1, start + 1200 * KIB, 256 * KIB).cells); /* over a MiB on, most of it a hole */
    served(lab, 1, start + 1456 * KIB);
    assert_false(note(lab, 1, start + 2400 * KIB, 256 * KIB).cells);
    /* Two of a MiB each: twice it must have gone on. */
    (void)note(lab, 2, start, 1 * MIB);
    served(lab, 2, start + 1 * MIB);
    assert_false(note(lab, 2, start + 1 * MIB, 1 * MIB).cells);
    served(lab, 2, start + 4 * MIB);
    struct hr_pattern on = note(lab, 2, start + 4 * MIB, 1 * MIB);
    assert_true(on.cells);
    assert_int_equal(on.ahead_cells, 1);
    /* With small holes, as of headers that are passed over, it goes on like any other. */
    bool believed = false;
    for (uint64_t i = 0; i < 8; i++) {
        believed = note(lab, 3, start + i * 320 * KIB, 256 * KIB).cells;
        served(lab, 3, start + i * 320 * KIB + 256 * KIB);
    }
    assert_true(believed);
}

static void test_cache_bounds_the_window(void **state)
{
    struct lab *lab = *state;
    lab_open(lab, &(struct lab_options){.cache_bytes = 200 * MIB, .memory_bytes = 1000 * MIB});
    assert_int_equal(window_after(lab, 1, 8), 6); /* 50 MiB */
    /* A second reader shares it. */
    assert_int_equal(window_after(lab, 2, 8), 3);
    (void)note(lab, 3, 900ull * MIB, 4096); /* who jumps needs none of it */
    assert_int_equal(window_after(lab, 2, 8), 3);
    for (uint32_t tid = 10; tid < 20; tid++) {
        (void)window_after(lab, tid, 1);
    }
    assert_int_equal(window_after(lab, 2, 8), 0);
}

/* Who has the end of an object leaves its share to others. */
static void test_the_end_gives_the_share_back(void **state)
{
    struct lab *lab = *state;
    s3_add(lab->s3, "large", 80 * MIB);
    lab_open(lab, &(struct lab_options){.cache_bytes = 200 * MIB, .memory_bytes = 1000 * MIB});
    lab_list(lab);
    face = lab_face(lab, "large");
    assert_int_equal(window_after(lab, 1, 8), 6); /* 72 of 80 MiB are there */
    assert_int_equal(window_after(lab, 2, 8), 3);
    served(lab, 1, 80 * MIB);
    assert_int_equal(window_after(lab, 2, 8), 6);
    assert_int_equal(window_after(lab, 1, 8), 3); /* from the start again */
    face = 5;
}

static void test_memory_and_connections_bound_the_window(void **state)
{
    struct lab *lab = *state;
    lab_open(lab, &(struct lab_options){.cache_bytes = 100000 * MIB, .memory_bytes = 33 * MIB});
    assert_int_equal(window_after(lab, 1, 8), 8); /* twice what is on its way at a time */
    assert_int_equal(window_after(lab, 2, 8), 4); /* two readers: half of it each */
    for (uint32_t tid = 3; tid < 12; tid++) {
        assert_int_equal(window_after(lab, tid, 8), tid < 9 ? 8 / tid : 1); /* not none: the cache has room */
    }
    lab_close(lab);
    lab_open(lab, &(struct lab_options){
                      .cache_bytes = 100000 * MIB, .memory_bytes = 1000 * MIB, .connections = 3});
    assert_int_equal(window_after(lab, 1, 8), 3);
}

static void test_runs_from_a_jump_grow(void **state)
{
    struct lab *lab = *state;
    lab_open(lab, &(struct lab_options){0});
    uint64_t start = 500 * MIB;
    assert_int_equal(note(lab, 1, start, 4096).piece_bytes, 4096);
    served(lab, 1, start + 64 * KIB);
    assert_int_equal(note(lab, 1, start + 64 * KIB, 4096).piece_bytes, 192 * KIB);
    served(lab, 1, start + 256 * KIB);
    assert_int_equal(note(lab, 1, start + 256 * KIB, 4096).piece_bytes, 768 * KIB);
    served(lab, 1, start + 1 * MIB);
    assert_true(note(lab, 1, start + 1 * MIB, 4096).cells);
    served(lab, 1, start + 8 * MIB);
    /* Another thread, or another object, is another reader. */
    assert_false(note(lab, 2, start + 8 * MIB, 4096).cells);
    assert_true(note(lab, 1, start + 8 * MIB, 4096).cells);
    /* One long read in parts is one read. */
    assert_false(note(lab, 4, start, 20 * MIB).cells);
    served(lab, 4, start + 4 * MIB);
    assert_false(note(lab, 4, start + 4 * MIB, 16 * MIB).cells);
}

/* ---- the order of what is queued ---- */

static void ask_at(struct lab *lab, uint32_t tid, uint64_t of, uint64_t offset, uint64_t bytes)
{
    struct hr_reader reader = {.context = UINT32_MAX, .tree = lab->tree, .pid = 1, .tid = tid};
    struct hr_segment_ask ask = {.face_id = of, .offset = offset, .bytes = bytes};
    struct hr_asker nobody = hr_asker_nobody();
    hr_plan_segment(lab->plan, &reader, &ask, false, &nobody);
}

/* "b1 a4": the cells of a and b that are queued, first to last. */
static void check_queue(struct lab *lab, uint64_t a, const char *expected)
{
    char text[256] = "";
    size_t len = 0;
    for (const struct hr_want *want = lab->plan->lanes->queue[HR_REASON_WINDOW]; want; want = want->next) {
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%c%u", len ? " " : "",
                                want->face_id == a ? 'a' : 'b', (unsigned)(want->first / HR_CELL_BYTES));
    }
    assert_string_equal(text, expected);
}

/* Of two readers' windows what is nearest to its reader goes first, and goes on to be as readers come closer.
 */
static void test_the_nearest_cell_goes_first(void **state)
{
    struct lab *lab = *state;
    s3_add(lab->s3, "a", 400 * MIB);
    s3_add(lab->s3, "b", 400 * MIB);
    lab_open(lab, &(struct lab_options){.cache_bytes = 1000 * MIB, .memory_bytes = 40 * MIB});
    lab_list(lab);
    uint64_t a = lab_face(lab, "a"), b = lab_face(lab, "b");
    s3_hold(lab->s3, true, false);
    ask_at(lab, 1, a, 0, 1 * MIB);
    check_queue(lab, a, "a4 a5 a6 a7 a8 a9 a10"); /* the others have been asked for */
    ask_at(lab, 2, b, 0, 4096);
    check_queue(lab, a, "b1 a4 a5 a6 a7 a8 a9 a10");
    ask_at(lab, 2, b, HR_CELL_BYTES, 4096);
    check_queue(lab, a, "b2 b3 b4 a4 b5 a5 a6 a7 a8 a9 a10");
    ask_at(lab, 1, a, HR_CELL_BYTES, 1 * MIB);
    ask_at(lab, 1, a, 2ull * HR_CELL_BYTES, 1 * MIB);
    check_queue(lab, a, "b2 b3 a4 b4 a5 b5 a6 a7 a8 a9 a10");
    s3_hold(lab->s3, false, false);
    lab_settle(lab);
    assert_int_equal(lab_stats(lab).queued, 0);
    assert_int_equal(lab_stats(lab).memory_bytes, 0);
}

/* More readers than there is room for: the one that was quiet longest is forgotten, and starts anew. */
static void test_readers_beyond_the_table(void **state)
{
    struct lab *lab = *state;
    lab_open(lab, &(struct lab_options){.cache_bytes = 100000 * MIB, .memory_bytes = 1000 * MIB});
    for (uint32_t tid = 1; tid <= 20000; tid++) {
        (void)note(lab, tid, (uint64_t)tid * 9999, UINT64_MAX);
        served(lab, tid, (uint64_t)tid * 10000);
    }
    assert_int_equal(window_after(lab, 30000, 0), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define LAB_TEST(name) cmocka_unit_test_setup_teardown(name, lab_set_up, lab_tear_down)
        LAB_TEST(test_window_grows),
        LAB_TEST(test_a_long_first_read_opens_the_window),
        LAB_TEST(test_neighbours_by_chance_are_no_run),
        LAB_TEST(test_cache_bounds_the_window),
        LAB_TEST(test_the_end_gives_the_share_back),
        LAB_TEST(test_memory_and_connections_bound_the_window),
        LAB_TEST(test_runs_from_a_jump_grow),
        LAB_TEST(test_the_nearest_cell_goes_first),
        LAB_TEST(test_readers_beyond_the_table),
#undef LAB_TEST
    };
    return cmocka_run_group_tests_name("plan window", tests, NULL, NULL);
}
