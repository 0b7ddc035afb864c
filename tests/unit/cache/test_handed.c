/* A file whose number was told to a program keeps its name for a moment when it leaves the cache. The ticks
 * are the test's: no clock has a say. */
#include "tests/unit/cache/faces.h"

#include "fetch/cache/inside.h"

static uint64_t open_with_face(struct lab *lab)
{
    lab->size_bytes = 64 * MIB;
    lab_open(lab);
    hr_loop_disarm(lab->loop, &lab->cache->tick);
    return face_put(lab, "k", 12 * CELL);
}

static void tick(struct lab *lab)
{
    lab->cache->ticks++;
    hr_handed_tick(lab->cache);
}

static void check_there(struct lab *lab, uint64_t id, uint64_t offset)
{
    assert_true(range_right(lab, id, "k", offset, CELL));
}

static void keeps_its_name(void **state)
{
    struct lab *lab = *state;
    uint64_t face = open_with_face(lab);
    uint64_t told = segment_put(lab, "k", face, 0, CELL);
    uint64_t other = segment_put(lab, "k", face, CELL, CELL);
    hr_cache_handed(lab->cache, told);
    hr_cache_handed(lab->cache, other + 99); /* none */
    assert_int_equal(hr_cache_make_room(lab->cache, 64 * MIB - CELL), 0);
    assert_int_equal(stats_of(lab).evictions, 2); /* that of the other one made the room */
    assert_int_equal(stats_of(lab).bytes, CELL);
    assert_int_equal(stats_of(lab).held_bytes, CELL);
    assert_int_equal(id_at(lab, face, 0), 0);
    lab_await_gone(lab, other);
    check_there(lab, told, 0);
    tick(lab);
    assert_int_equal(stats_of(lab).held_bytes, CELL);
    check_there(lab, told, 0);
    tick(lab);
    assert_int_equal(stats_of(lab).held_bytes, 0);
    lab_await_gone(lab, told);
}

static void only_for_a_moment(void **state)
{
    struct lab *lab = *state;
    uint64_t face = open_with_face(lab);
    uint64_t told = segment_put(lab, "k", face, 0, CELL);
    hr_cache_handed(lab->cache, told);
    tick(lab);
    tick(lab);
    hr_cache_drop(lab->cache, told);
    assert_int_equal(stats_of(lab).held_bytes, 0);
    lab_await_gone(lab, told);
}

/* Two were told: until two have noted that they opened it. What comes after is another moment. */
static void until_all_have_opened_it(void **state)
{
    struct lab *lab = *state;
    uint64_t face = open_with_face(lab);
    uint64_t ids[3];
    for (unsigned i = 0; i < 3; i++) {
        ids[i] = segment_put(lab, "k", face, i * CELL, CELL);
        hr_cache_handed(lab->cache, ids[i]);
        hr_cache_handed(lab->cache, ids[i]);
        hr_cache_opened(lab->cache, ids[i]);
    }
    hr_cache_opened(lab->cache, ids[1]);
    hr_cache_opened(lab->cache, ids[2]);
    hr_cache_opened(lab->cache, ids[2]); /* a warm open: nobody was told */
    hr_cache_opened(lab->cache, ids[2] + 99);
    hr_cache_handed(lab->cache, ids[2]);
    for (unsigned i = 0; i < 3; i++) {
        hr_cache_drop(lab->cache, ids[i]);
    }
    assert_int_equal(stats_of(lab).held_bytes, 2 * CELL);
    lab_await_gone(lab, ids[1]);
    check_there(lab, ids[0], 0);
    check_there(lab, ids[2], 2 * CELL);
}

/* A whole cell takes the place of a piece that somebody is about to open. */
static void replaced(void **state)
{
    struct lab *lab = *state;
    uint64_t face = open_with_face(lab);
    uint64_t piece = segment_put(lab, "k", face, 4096, 65536);
    hr_cache_handed(lab->cache, piece);
    uint64_t cell = segment_put(lab, "k", face, 0, CELL);
    assert_true(id_at(lab, face, 4096) == cell);
    assert_int_equal(stats_of(lab).bytes, CELL + 65536);
    assert_int_equal(stats_of(lab).held_bytes, 65536);
    assert_true(lab_file_there(lab, piece));
}

/* Nothing else is left: then the one that was used least recently, whichever left first. */
static void given_up_at_last(void **state)
{
    struct lab *lab = *state;
    uint64_t face = open_with_face(lab);
    uint64_t first = segment_put(lab, "k", face, 0, CELL);
    uint64_t second = segment_put(lab, "k", face, CELL, CELL);
    hr_cache_handed(lab->cache, first);
    hr_cache_handed(lab->cache, second);
    hr_cache_drop(lab->cache, second);
    hr_cache_drop(lab->cache, first);
    assert_int_equal(stats_of(lab).held_bytes, 2 * CELL);
    assert_int_equal(hr_cache_make_room(lab->cache, 64 * MIB - CELL), 0);
    assert_int_equal(stats_of(lab).held_bytes, CELL);
    lab_await_gone(lab, first);
    check_there(lab, second, CELL);
    assert_int_equal(hr_cache_make_room(lab->cache, 64 * MIB), 0);
    assert_int_equal(stats_of(lab).bytes, 0);
    lab_await_gone(lab, second);
}

/* The oldest go when it is too much, and all of them at the end. */
static void bounded(void **state)
{
    struct lab *lab = *state;
    enum { COUNT = 6, HELD = 2 };
    uint64_t ids[COUNT];
    uint64_t face = open_with_face(lab);
    for (uint64_t i = 0; i < COUNT; i++) {
        ids[i] = segment_put(lab, "k", face, i * CELL, CELL);
    }
    for (uint64_t i = 0; i < COUNT; i++) {
        hr_cache_handed(lab->cache, ids[i]);
        hr_cache_drop(lab->cache, ids[i]);
        assert_int_equal(stats_of(lab).held_bytes, (i < HELD ? i + 1 : HELD) * CELL);
    }
    for (uint64_t i = 0; i < COUNT - HELD; i++) {
        lab_await_gone(lab, ids[i]);
    }
    for (uint64_t i = COUNT - HELD; i < COUNT; i++) {
        check_there(lab, ids[i], i * CELL);
    }
    lab_close(lab);
    assert_int_equal(lab_count(lab, "objects"), 1); /* the face */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keeps_its_name, lab_setup, lab_teardown),
        cmocka_unit_test_setup_teardown(only_for_a_moment, lab_setup, lab_teardown),
        cmocka_unit_test_setup_teardown(until_all_have_opened_it, lab_setup, lab_teardown),
        cmocka_unit_test_setup_teardown(replaced, lab_setup, lab_teardown),
        cmocka_unit_test_setup_teardown(given_up_at_last, lab_setup, lab_teardown),
        cmocka_unit_test_setup_teardown(bounded, lab_setup, lab_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
