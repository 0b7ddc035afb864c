/* Segments through the front door: found by offset, replaced, evicted one by one, adopted with their face. */
#include "tests/unit/cache/faces.h"

static void ranges(void **state)
{
    struct lab *lab = *state;
    struct lab_put put;
    lab_open(lab);
    uint64_t face = face_put(lab, "k", LARGE);
    uint64_t whole = 0;
    assert_int_equal(lab_put_whole(lab, "w", "e", 10, NULL, &whole), 0);
    static const struct {
        uint64_t offset, size;
    } bad[] = {
        {1, 4096},                 /* not at a page */
        {512, 4096},               /* */
        {0, 0},                    /* empty */
        {0, 100},                  /* ends inside a page that is not the last */
        {0, CELL + 4096},          /* two cells */
        {CELL - 4096, 8192},       /* */
        {4096, CELL},              /* */
        {5 * CELL, 12346},         /* past the end */
        {5 * CELL, 16384},         /* */
        {6 * CELL, 4096},          /* */
        {UINT64_MAX - 4095, 4096}, /* */
        {0, UINT64_MAX},           /* */
        {1ull << 63, 4096},        /* */
        {5 * CELL + 4096, 12345},  /* */
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(segment_begin(lab, &put, "k", face, bad[i].offset, bad[i].size), -EINVAL);
    }
    assert_int_equal(segment_begin(lab, &put, "other", face, 0, 4096), -EINVAL); /* another object's face */
    assert_int_equal(segment_begin(lab, &put, "k", face + 99, 0, 4096), -ESTALE);
    assert_int_equal(segment_begin(lab, &put, "w", whole, 0, 4096), -ESTALE); /* no face */
    assert_int_equal(stats_of(lab).writes_in_flight, 0);
    assert_int_equal(stats_of(lab).bytes, 4096);
    uint64_t last = segment_put(lab, "k", face, 5 * CELL + 4096, 12345 - 4096); /* the object's end */
    assert_true(id_at(lab, face, LARGE - 1) == last);
    assert_int_equal(id_at(lab, face, LARGE), 0);
    assert_int_equal(id_at(lab, face, 5 * CELL + 4095), 0);
}

static void found_by_offset(void **state)
{
    struct lab *lab = *state;
    unsigned count = 0;
    uint64_t bytes = 0;
    lab_open(lab);
    uint64_t face = face_put(lab, "k", LARGE);
    uint64_t other = face_put(lab, "other", LARGE);
    hr_cache_cell(lab->cache, face, CELL, &count, &bytes);
    assert_true(!count && !bytes);
    uint64_t a = segment_put(lab, "k", face, CELL, 8192);
    uint64_t b = segment_put(lab, "k", face, CELL + 16384, 4096);
    uint64_t c = segment_put(lab, "k", face, CELL + 4096, 12288 + 4096); /* over parts of both */
    uint64_t d = segment_put(lab, "k", face, 2 * CELL, CELL);
    uint64_t e = segment_put(lab, "other", other, CELL, 4096);
    hr_cache_cell(lab->cache, face, 2 * CELL - 1, &count, &bytes);
    assert_int_equal(count, 2); /* b lies inside c */
    assert_int_equal(bytes, 8192 + 16384);
    assert_null(hr_cache_by_id(lab->cache, b));
    assert_int_equal(hr_cache_row(lab->cache, face, CELL + 20480, CELL + 24576),
                     2); /* touches c, which meets a */
    assert_int_equal(hr_cache_row(lab->cache, face, CELL + 24576, CELL + 28672), 0); /* touches none */
    assert_int_equal(hr_cache_row(lab->cache, face, CELL, CELL + 4096), 2);
    assert_int_equal(hr_cache_row(lab->cache, face, 2 * CELL, 2 * CELL + 4096),
                     1); /* d; c is another cell's */
    assert_int_equal(hr_cache_row(lab->cache, face, 4 * CELL, 4 * CELL + 4096), 0);
    assert_int_equal(id_at(lab, face, CELL - 1), 0);
    assert_true(id_at(lab, face, CELL) == a && id_at(lab, face, CELL + 4095) == a);
    assert_true(id_at(lab, face, CELL + 4096) == c && id_at(lab, face, CELL + 8191) == c); /* the longer */
    assert_true(id_at(lab, face, CELL + 20479) == c);
    assert_int_equal(id_at(lab, face, CELL + 20480), 0);
    assert_true(id_at(lab, face, 2 * CELL) == d && id_at(lab, face, 3 * CELL - 1) == d);
    assert_int_equal(id_at(lab, face, 3 * CELL), 0);
    assert_true(id_at(lab, other, CELL) == e);
    assert_int_equal(id_at(lab, other, 2 * CELL), 0);
    assert_int_equal(id_at(lab, a, CELL), 0); /* no face's id */
    const uint64_t ids[] = {a, c, d, e};
    for (size_t i = 0; i < 4; i++) {
        assert_true(segment_right(lab, hr_cache_by_id(lab->cache, ids[i])));
    }
    assert_int_equal(stats_of(lab).segments, 4);
    assert_int_equal(stats_of(lab).bytes, 8192 + 16384 + CELL + 4096);
}

static void pieces_replaced(void **state)
{
    struct lab *lab = *state;
    uint64_t pieces[64];
    lab_open(lab);
    uint64_t face = face_put(lab, "k", LARGE);
    for (uint64_t i = 0; i < 64; i++) {
        pieces[i] = segment_put(lab, "k", face, CELL + i * 65536, 65536);
    }
    uint64_t before = segment_put(lab, "k", face, 0, CELL);
    assert_int_equal(lab->evicted_count, 0);
    uint64_t cell = segment_put(lab, "k", face, CELL, CELL);
    assert_int_equal(lab->evicted_count, 64);
    assert_int_equal(lab->evicted_kinds[HR_CACHED_SEGMENT], 64);
    assert_int_equal(stats_of(lab).segments, 2);
    assert_int_equal(stats_of(lab).evictions, 0);
    assert_int_equal(stats_of(lab).bytes, 2 * CELL);
    for (uint64_t i = 0; i < 64; i++) {
        assert_true(id_at(lab, face, CELL + i * 65536) == cell);
        lab_await_gone(lab, pieces[i]);
    }
    /* What lies inside, or is the same: the larger stays, done gets it, the new file goes. */
    assert_true(segment_put(lab, "k", face, CELL + 4096, 4096) == cell);
    assert_true(segment_put(lab, "k", face, CELL, CELL) == cell);
    assert_true(segment_put(lab, "k", face, 0, CELL) == before);
    lab_linger(lab, 20);
    assert_int_equal(lab_count(lab, "objects"), 3);
    assert_int_equal(stats_of(lab).bytes, 2 * CELL);
    assert_int_equal(lab->evicted_count, 64);
}

static void evicted_one_by_one(void **state)
{
    struct lab *lab = *state;
    enum { CELLS = 12, FIT = 8 };
    uint64_t ids[CELLS];
    int fds[CELLS];
    lab->size_bytes = 64 * MIB;
    lab_open(lab);
    uint64_t face = face_put(lab, "k", CELLS * CELL);
    for (uint64_t i = 0; i < CELLS; i++) {
        char path[PATH_MAX];
        ids[i] = segment_put(lab, "k", face, i * CELL, CELL);
        lab_path(lab, ids[i], path);
        fds[i] = open(path, O_RDONLY | O_CLOEXEC);
        assert_true(fds[i] >= 0);
        hr_cache_touch(lab->cache, ids[0]);
    }
    assert_int_equal(stats_of(lab).bytes, FIT * CELL);
    assert_int_equal(stats_of(lab).segments, FIT);
    assert_int_equal(stats_of(lab).faces, 1);
    assert_int_equal(stats_of(lab).evictions, CELLS - FIT);
    for (uint64_t i = 0; i < CELLS; i++) {
        bool gone = i >= 1 && i <= CELLS - FIT; /* the first was used all the time */
        char bytes[512];
        struct hr_buf want;
        assert_true(id_at(lab, face, i * CELL + 5) == (gone ? 0 : ids[i]));
        if (gone) {
            assert_true(lab->evicted_ids[i - 1] == ids[i]);
            lab_await_gone(lab, ids[i]);
        } else {
            assert_true(segment_right(lab, hr_cache_by_id(lab->cache, ids[i])));
        }
        lab_fill(&want, "k", i * CELL + CELL - 512, 512); /* whoever has it open reads on */
        assert_int_equal(pread(fds[i], bytes, 512, (off_t)CELL - 512), 512);
        assert_memory_equal(bytes, want.data, 512);
        hr_buf_release(&want);
        (void)close(fds[i]);
    }
    uint64_t again = segment_put(lab, "k", face, 2 * CELL, CELL);
    assert_true(id_at(lab, face, 2 * CELL) == again && again != ids[2]);
}

static void beside_the_whole(void **state)
{
    struct lab *lab = *state;
    uint64_t whole = 0;
    lab_open(lab);
    uint64_t face = face_put(lab, "k", 3 * CELL);
    uint64_t a = segment_put(lab, "k", face, 0, CELL);
    uint64_t b = segment_put(lab, "k", face, CELL, 4096);
    assert_int_equal(lab_put_whole(lab, "k", "e", 3 * CELL, NULL, &whole), 0);
    assert_int_equal(lab->evicted_count, 0);
    assert_true(lab_find(lab, "k", "e")->file_id == whole && find_face(lab, "k")->file_id == face);
    assert_int_equal(lab_find(lab, "k", "e")->kind, HR_CACHED_WHOLE);
    assert_true(id_at(lab, face, 0) == a && id_at(lab, face, CELL) == b);
    hr_cache_drop_segments(lab->cache, whole); /* no face: nothing */
    assert_int_equal(stats_of(lab).segments, 2);
    hr_cache_drop_segments(lab->cache, face);
    assert_int_equal(lab->evicted_kinds[HR_CACHED_SEGMENT], 2);
    assert_int_equal(stats_of(lab).segments, 0);
    assert_int_equal(stats_of(lab).faces, 1);
    lab_await_gone(lab, a);
    lab_await_gone(lab, b);
    assert_int_equal(stats_of(lab).bytes, 3 * CELL);
    (void)segment_put(lab, "k", face, 0, 4096);
    hr_cache_drop(lab->cache, face);
    assert_int_equal(stats_of(lab).faces + stats_of(lab).segments, 0);
    assert_int_equal(lab->evicted_kinds[HR_CACHED_FACE], 1);
    assert_true(lab_file_right(lab, whole, "k", 3 * CELL));
    lab_await_gone(lab, face);
    assert_int_equal(lab_count(lab, "objects"), 1);
}

static void adopted(void **state)
{
    struct lab *lab = *state;
    enum { FACES = 6, EACH = 40 };
    uint64_t faces[FACES];
    uint64_t ids[FACES][EACH];
    lab_open(lab);
    for (int f = 0; f < FACES; f++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", f);
        faces[f] = face_put(lab, key, 1000 * CELL);
        for (uint64_t i = 0; i < EACH; i++) {
            ids[f][i] = segment_put(lab, key, faces[f], i % 7 * CELL + i * 8192, 8192);
        }
    }
    uint64_t bytes = stats_of(lab).bytes;
    for (int life = 0; life < 20; life++) {
        lab_close(lab);
        lab_open(lab);
        assert_int_equal(stats_of(lab).faces, FACES);
        assert_int_equal(stats_of(lab).segments, FACES * EACH);
    }
    assert_int_equal(stats_of(lab).bytes, bytes);
    assert_int_equal(lab->evicted_count, 0);
    for (int f = 0; f < FACES; f++) {
        for (uint64_t i = 0; i < EACH; i++) {
            assert_true(id_at(lab, faces[f], i % 7 * CELL + i * 8192 + 8191) == ids[f][i]);
            assert_true(segment_right(lab, hr_cache_by_id(lab->cache, ids[f][i])));
        }
    }
    /* The face's file is lost: its segments are nobody's. */
    char path[PATH_MAX];
    lab_close(lab);
    lab_path(lab, faces[2], path);
    assert_int_equal(unlink(path), 0);
    lab_open(lab);
    assert_int_equal(stats_of(lab).faces, FACES - 1);
    assert_int_equal(stats_of(lab).segments, (FACES - 1) * EACH);
    assert_int_equal(lab_count(lab, "objects"), (FACES - 1) * (EACH + 1));
    assert_int_equal(stats_of(lab).bytes, (FACES - 1) * EACH * 8192);
    assert_int_equal(id_at(lab, faces[2], 0), 0);
    hr_cache_drop(lab->cache, ids[1][3]);
    assert_int_equal(id_at(lab, faces[1], 3 * CELL + 3 * 8192), 0);
    lab_close(lab);
    lab_open(lab);
    assert_int_equal(stats_of(lab).segments, (FACES - 1) * EACH - 1);
}

static void face_leaves_meanwhile(void **state)
{
    struct lab *lab = *state;
    struct lab_put put;
    lab_open(lab);
    uint64_t face = face_put(lab, "k", LARGE);
    assert_int_equal(segment_begin(lab, &put, "k", face, 0, 8192), 0);
    segment_give(&put, "k", 0, 8192);
    hr_cache_drop(lab->cache, face);
    hr_put_finish(put.put, NULL);
    lab_wait(&put);
    assert_int_equal(put.error, -ESTALE);
    lab_linger(lab, 20);
    assert_int_equal(lab_count(lab, "objects") + lab_count(lab, "spool"), 0);
    assert_int_equal(stats_of(lab).bytes, 0);
    assert_int_equal(stats_of(lab).segments, 0);
    assert_int_equal(segment_begin(lab, &put, "k", face, 0, 8192), -ESTALE);
}

/* Two of one range at a time: both dones get the one that stays. */
static void two_at_a_time(void **state)
{
    struct lab *lab = *state;
    struct lab_put a;
    struct lab_put b;
    lab_open(lab);
    uint64_t face = face_put(lab, "k", LARGE);
    assert_int_equal(segment_begin(lab, &a, "k", face, 0, CELL), 0);
    assert_int_equal(segment_begin(lab, &b, "k", face, 0, CELL), 0);
    segment_give(&a, "k", 0, CELL);
    segment_give(&b, "k", 0, CELL);
    hr_put_finish(a.put, NULL);
    hr_put_finish(b.put, NULL);
    lab_wait(&a);
    lab_wait(&b);
    assert_true(!a.error && !b.error && a.file_id == b.file_id);
    lab_linger(lab, 20);
    assert_int_equal(lab_count(lab, "objects"), 2);
    assert_int_equal(stats_of(lab).bytes, CELL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ranges, lab_setup, lab_teardown),
        cmocka_unit_test_setup_teardown(found_by_offset, lab_setup, lab_teardown),
        cmocka_unit_test_setup_teardown(pieces_replaced, lab_setup, lab_teardown),
        cmocka_unit_test_setup_teardown(evicted_one_by_one, lab_setup, lab_teardown),
        cmocka_unit_test_setup_teardown(beside_the_whole, lab_setup, lab_teardown),
        cmocka_unit_test_setup_teardown(adopted, lab_setup, lab_teardown),
        cmocka_unit_test_setup_teardown(face_leaves_meanwhile, lab_setup, lab_teardown),
        cmocka_unit_test_setup_teardown(two_at_a_time, lab_setup, lab_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
