/* Faces: what the file is, that it stays, that a kill loses none, and which go when there are too many. */
#include "tests/unit/cache/faces.h"
#include "tests/unit/cache/view.h"

#include <signal.h>

static void check_face(struct lab *lab, uint64_t id, const char *key, uint64_t size)
{
    struct view view;
    struct copy copy;
    struct stat st;
    char path[PATH_MAX];
    const struct hr_cached *cached = hr_cache_by_id(lab->cache, id);
    assert_non_null(cached);
    assert_ptr_equal(cached, find_face(lab, key));
    assert_int_equal(cached->kind, HR_CACHED_FACE);
    assert_true(cached->size == size && cached->file_id == id);
    assert_string_equal(hr_cached_key(cached), key);
    lab_path(lab, id, path);
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISREG(st.st_mode) && (st.st_mode & 07777) == 0200);
    assert_int_equal(st.st_size, 0);
    assert_true(view_open(&view, lab->dir, lab->boot, stats_of(lab).residents_gen));
    assert_true(look_up(&view, st.st_ino, &copy));
    assert_int_equal(copy.flags, HR_RESIDENT_FACE);
    assert_true(copy.size == size && copy.file_id == id);
    assert_int_equal(copy.nonce, st.st_mtim.tv_nsec);
    assert_int_equal(copy.mtime_ns, 1700000000123456789);
    assert_int_equal(copy.object_dev, 4242);
    assert_true(copy.object_ino == hr_object_ino(77, key, strlen(key), "", 0));
    view_close(&view);
}

static void made(void **state)
{
    struct lab *lab = *state;
    const uint64_t size = 5ull << 40;
    lab->size_bytes = MIB;
    lab_open(lab);
    uint64_t filler = 0;
    assert_int_equal(lab_put_whole(lab, "filler", "e", MIB, NULL, &filler), 0);
    uint64_t id = face_put(lab, "big", size); /* a full cache gives up nothing for it */
    check_face(lab, id, "big", size);
    assert_int_equal(stats_of(lab).faces, 1);
    assert_int_equal(stats_of(lab).objects, 1);
    assert_int_equal(stats_of(lab).bytes, MIB);
    assert_int_equal(lab->evicted_count, 0);
    assert_null(lab_find(lab, "big", "e")); /* no whole object */
    assert_int_equal(lab_put_whole(lab, "small", "e", 9000, NULL, NULL),
                     0); /* and it is given up for nothing */
    assert_int_equal(lab->evicted_count, 1);
    assert_true(lab->evicted_ids[0] == filler);
    assert_int_equal(hr_cache_make_room(lab->cache, MIB), 0);
    check_face(lab, id, "big", size);
    assert_int_equal(stats_of(lab).faces, 1);
    assert_int_equal(stats_of(lab).bytes, 0);
}

static void takes_no_part(void **state)
{
    struct lab *lab = *state;
    struct lab_put put = {.lab = lab};
    struct hr_buf part;
    lab_open(lab);
    uint64_t face_id = face_put(lab, "k", LARGE);
    (void)segment_put(lab, "k", face_id, 0, 8192);
    struct hr_put_options options = lab_options(&put, "k2", "e", 100);
    options.kind = HR_CACHED_FACE;
    assert_int_equal(hr_put_begin(lab->cache, &options, &put.put), 0);
    lab_fill(&part, "k2", 0, 100);
    assert_int_equal(hr_put_part(put.put, 0, &part, NULL, NULL), -EINVAL);
    assert_int_equal(part.len, 100);
    hr_buf_release(&part);
    assert_int_equal(hr_put_copy(put.put, 0, 100, face_id, NULL, NULL), -EINVAL);
    hr_put_finish(put.put, NULL);
    lab_wait(&put);
    assert_int_equal(put.error, 0);
    options.kind = (enum hr_cached_kind)3;
    assert_int_equal(hr_put_begin(lab->cache, &options, &put.put), -EINVAL);
    options.kind = HR_CACHED_FACE;
    options.size = UINT64_MAX;
    assert_int_equal(hr_put_begin(lab->cache, &options, &put.put), -ENOSPC);
}

/* A second one of the same version: the first stays, because programs may hold it open. */
static void twice(void **state)
{
    struct lab *lab = *state;
    uint64_t other = 0;
    lab_open(lab);
    uint64_t id = face_put(lab, "k", LARGE);
    uint64_t segment_id = segment_put(lab, "k", id, CELL, 4096);
    assert_true(face_put(lab, "k", LARGE) == id);
    assert_int_equal(lab->evicted_count, 0);
    assert_true(id_at(lab, id, CELL) == segment_id);
    assert_int_equal(face_try(lab, "k", "another etag", LARGE, &other), 0);
    assert_true(other != id);
    assert_int_equal(stats_of(lab).faces, 2);
    lab_linger(lab, 20);
    assert_int_equal(lab_count(lab, "objects"), 3);
    /* One ETag for two contents: the older cannot be believed any more. */
    assert_int_equal(face_try(lab, "k", "e", LARGE + 1, &other), 0);
    assert_true(other != id);
    assert_int_equal(lab->evicted_kinds[HR_CACHED_FACE], 1);
    assert_int_equal(lab->evicted_kinds[HR_CACHED_SEGMENT], 1);
    assert_null(hr_cache_by_id(lab->cache, id));
    check_face(lab, other, "k", LARGE + 1);
    lab_await_gone(lab, segment_id);
}

static void count_each(void *owner, const struct hr_cached *cached)
{
    ((unsigned *)owner)[cached->kind]++;
}

static void kept_over_restarts(void **state)
{
    struct lab *lab = *state;
    uint64_t ids[20];
    lab_open(lab);
    for (int i = 0; i < 20; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i);
        ids[i] = face_put(lab, key, LARGE + (uint64_t)i);
    }
    assert_int_equal(lab_put_whole(lab, "k0", "e", 5000, NULL, NULL), 0);
    (void)segment_put(lab, "k1", ids[1], 0, 4096);
    for (int life = 0; life < 20; life++) { /* records are moved and written again */
        unsigned kinds[3] = {0};
        lab_close(lab);
        lab_open(lab);
        hr_cache_each(lab->cache, &lab_source, count_each, kinds);
        assert_int_equal(kinds[HR_CACHED_WHOLE], 1);
        assert_int_equal(kinds[HR_CACHED_FACE], 20);
        assert_int_equal(kinds[HR_CACHED_SEGMENT], 0);
        assert_int_equal(stats_of(lab).faces, 20);
        assert_int_equal(stats_of(lab).segments, 1);
        assert_int_equal(stats_of(lab).objects, 1);
    }
    for (int i = 0; i < 20; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i);
        check_face(lab, ids[i], key, LARGE + (uint64_t)i);
    }
    assert_true(face_put(lab, "k7", LARGE + 7) == ids[7]);
}

/* The record's table grows and is made anew: the flag stays. */
static void flag_survives_growth(void **state)
{
    struct lab *lab = *state;
    char command[1024];
    lab_open(lab);
    uint64_t id = face_put(lab, "k", LARGE);
    uint32_t gen = stats_of(lab).residents_gen;
    (void)snprintf(command, sizeof(command), "rm -rf '%s/spool'", lab->dir); /* a writer makes all anew */
    lab_run_command(command);
    assert_int_equal(lab_put_whole(lab, "w", "e", 10, NULL, NULL), 0);
    lab_linger(lab, 20);
    assert_true(stats_of(lab).residents_gen > gen);
    check_face(lab, id, "k", LARGE);
    assert_int_equal(lab->evicted_count, 0);
}

/* ---- kill ---- */

static void tell_and_hang(void *owner, struct hr_put *put, int error, const struct hr_cached *cached)
{
    (void)put;
    if (error || write(*(int *)owner, &cached->file_id, sizeof(cached->file_id)) < 0) {
        _exit(3);
    }
    for (;;) { /* not one instruction of the daemon runs after this */
        (void)pause();
    }
}

static void killed_in_done(void **state)
{
    struct lab *lab = *state;
    hr_loop_free(lab->loop);
    for (int life = 0; life < 10; life++) {
        char key[16];
        int pipe_fds[2];
        uint64_t id = 0;
        (void)snprintf(key, sizeof(key), "k%d", life);
        assert_int_equal(pipe(pipe_fds), 0);
        (void)fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (!child) {
            struct lab_put put = {.lab = lab};
            if (hr_loop_new(&lab->loop) < 0 || lab_try_open(lab) < 0) {
                _exit(2);
            }
            struct hr_put_options options = lab_options(&put, key, "e", LARGE);
            options.kind = HR_CACHED_FACE;
            options.done = tell_and_hang;
            options.owner = &pipe_fds[1];
            if (hr_put_begin(lab->cache, &options, &put.put) < 0) {
                _exit(4);
            }
            hr_put_finish(put.put, NULL);
            (void)hr_loop_run(lab->loop);
            _exit(5);
        }
        (void)close(pipe_fds[1]);
        assert_int_equal(read(pipe_fds[0], &id, sizeof(id)), sizeof(id));
        (void)close(pipe_fds[0]);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_true(waitpid(child, NULL, 0) == child);
        assert_int_equal(hr_loop_new(&lab->loop), 0);
        lab_open(lab);
        check_face(lab, id, key, LARGE);
        assert_int_equal(stats_of(lab).faces, life + 1);
        lab_close(lab);
        hr_loop_free(lab->loop);
    }
    assert_int_equal(hr_loop_new(&lab->loop), 0);
}

/* ---- leaving ---- */

static void too_many(void **state)
{
    struct lab *lab = *state;
    uint64_t ids[8];
    struct lab_put put;
    struct view view;
    struct copy copy;
    struct stat st;
    char path[PATH_MAX];
    lab->faces_max = 4;
    lab_open(lab);
    for (int i = 0; i < 4; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i);
        ids[i] = face_put(lab, key, LARGE);
    }
    (void)segment_put(lab, "k0", ids[0], 0, 4096);                        /* has a segment */
    assert_int_equal(segment_begin(lab, &put, "k1", ids[1], 0, 4096), 0); /* is about to have one */
    hr_cache_touch(lab->cache, ids[2]);                                   /* was used last */
    lab_path(lab, ids[3], path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(lab->evicted_count, 0);
    ids[4] = face_put(lab, "k4", LARGE);
    assert_int_equal(lab->evicted_count, 1);
    assert_true(lab->evicted_ids[0] == ids[3]);
    assert_int_equal(lab->evicted_kinds[HR_CACHED_FACE], 1);
    assert_int_equal(stats_of(lab).faces, 4);
    assert_int_equal(stats_of(lab).evictions, 0);
    lab_await_gone(lab, ids[3]);
    assert_true(view_open(&view, lab->dir, lab->boot, stats_of(lab).residents_gen));
    assert_true(look_up(&view, st.st_ino, &copy)); /* a program that has it open is still served an fstat */
    assert_int_equal(copy.flags, HR_RESIDENT_FACE | HR_RESIDENT_EVICTED);
    assert_true(copy.file_id == ids[3] && copy.size == LARGE);
    view_close(&view);
    ids[5] = face_put(lab, "k5", LARGE);
    assert_true(lab->evicted_ids[1] == ids[2]);
    hr_put_abort(put.put);
    lab_linger(lab, 20);
    hr_cache_touch(lab->cache, ids[4]);
    hr_cache_touch(lab->cache, ids[5]);
    ids[6] = face_put(lab, "k6", LARGE); /* the abort let k1 go */
    assert_true(lab->evicted_ids[2] == ids[1]);
    assert_int_equal(lab->evicted_count, 3);
    assert_non_null(hr_cache_by_id(lab->cache, ids[0]));
    hr_cache_drop_segments(lab->cache, ids[0]);
    for (int i = 4; i < 7; i++) {
        hr_cache_touch(lab->cache, ids[i]);
    }
    ids[7] = face_put(lab, "k7", LARGE);
    assert_null(hr_cache_by_id(lab->cache, ids[0]));
    assert_int_equal(stats_of(lab).faces, 4);
}

/* More than the limit because all have segments; at a start they come after all of the faces. */
static void too_many_with_segments(void **state)
{
    struct lab *lab = *state;
    uint64_t ids[5];
    char key[16];
    lab_open(lab);
    for (int i = 0; i < 5; i++) {
        (void)snprintf(key, sizeof(key), "k%d", i);
        ids[i] = face_put(lab, key, LARGE);
    }
    for (int i = 0; i < 5; i++) {
        (void)snprintf(key, sizeof(key), "k%d", i);
        (void)segment_put(lab, key, ids[i], 0, 4096);
    }
    lab->faces_max = 2;
    assert_int_equal(stats_of(lab).faces, 5);
    lab_close(lab);
    lab_open(lab);
    assert_int_equal(stats_of(lab).faces, 5);
    assert_int_equal(stats_of(lab).segments, 5);
    hr_cache_drop_segments(lab->cache, ids[4]);
    hr_cache_drop_segments(lab->cache, ids[1]);
    lab_close(lab);
    lab_open(lab);
    assert_int_equal(stats_of(lab).faces, 3);
    assert_null(hr_cache_by_id(lab->cache, ids[1]));
    lab_close(lab); /* what was given up is unlinked by then */
    assert_int_equal(lab_count(lab, "objects"), 6);
    lab_open(lab);
    uint64_t newest = face_put(lab, "newest", LARGE); /* it is not its own victim */
    assert_int_equal(stats_of(lab).faces, 4);
    check_face(lab, newest, "newest", LARGE);
}

/* A file that is no face any more: written into, opened to readers, cut off from its record. */
static void spoiled(void **state)
{
    struct lab *lab = *state;
    static const char *const commands[] = {
        "chmod 600 $F && echo x > $F && chmod 200 $F",
        "chmod 600 $F",
        "chmod 400 $F",
        "touch $F",
        "rm -f $F",
        "cp -p $F $F.x && mv -f $F.x $F",
    };
    enum { WAYS = sizeof(commands) / sizeof(commands[0]) };
    uint64_t ids[WAYS + 1];
    lab_open(lab);
    for (int i = 0; i <= WAYS; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i);
        ids[i] = face_put(lab, key, LARGE);
        (void)segment_put(lab, key, ids[i], 0, 4096);
    }
    lab_close(lab);
    for (int i = 0; i < WAYS; i++) {
        char path[PATH_MAX];
        lab_path(lab, ids[i], path);
        assert_int_equal(setenv("F", path, 1), 0);
        lab_run_command(commands[i]);
    }
    lab_open(lab);
    assert_int_equal(stats_of(lab).faces, 1);
    assert_int_equal(stats_of(lab).segments, 1);
    assert_int_equal(lab_count(lab, "objects"), 2); /* the others' segments are gone too */
    assert_int_equal(stats_of(lab).bytes, 4096);
    assert_true(segment_right(lab, hr_cache_segment(lab->cache, ids[WAYS], 0)));
}

static void directory_removed(void **state)
{
    struct lab *lab = *state;
    char command[1024];
    uint64_t ids[3];
    lab_open(lab);
    for (int i = 0; i < 3; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i);
        ids[i] = face_put(lab, key, LARGE);
        for (uint64_t cell = 0; cell < 3; cell++) {
            (void)segment_put(lab, key, ids[i], cell * CELL, 4096);
        }
    }
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", lab->dir);
    lab_run_command(command);
    uint64_t id = face_put(lab, "after", LARGE);
    lab_linger(lab, 20);
    assert_int_equal(lab->evicted_kinds[HR_CACHED_FACE], 3);
    assert_int_equal(lab->evicted_kinds[HR_CACHED_SEGMENT], 9);
    assert_int_equal(stats_of(lab).faces, 1);
    assert_int_equal(stats_of(lab).segments, 0);
    assert_int_equal(stats_of(lab).bytes, 0);
    check_face(lab, id, "after", LARGE);
    lab_close(lab);
    lab_open(lab);
    check_face(lab, id, "after", LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(made, lab_setup, lab_teardown),
        cmocka_unit_test_setup_teardown(takes_no_part, lab_setup, lab_teardown),
        cmocka_unit_test_setup_teardown(twice, lab_setup, lab_teardown),
        cmocka_unit_test_setup_teardown(kept_over_restarts, lab_setup, lab_teardown),
        cmocka_unit_test_setup_teardown(flag_survives_growth, lab_setup, lab_teardown),
        cmocka_unit_test_setup_teardown(killed_in_done, lab_setup, lab_teardown),
        cmocka_unit_test_setup_teardown(too_many, lab_setup, lab_teardown),
        cmocka_unit_test_setup_teardown(too_many_with_segments, lab_setup, lab_teardown),
        cmocka_unit_test_setup_teardown(spoiled, lab_setup, lab_teardown),
        cmocka_unit_test_setup_teardown(directory_removed, lab_setup, lab_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
