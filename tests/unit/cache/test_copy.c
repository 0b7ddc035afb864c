/* Parts that are copied out of segments: the bytes, the proof, and segments that leave or rot meanwhile. */
#include "tests/unit/cache/faces.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include "fetch/cache/put.h"

static void md5_of(const char *key, uint64_t size, char hex[33])
{
    struct hr_buf bytes;
    uint8_t digest[HR_MD5_BYTES];
    struct hr_digest_ctx *md5 = NULL;
    lab_fill(&bytes, key, 0, size);
    assert_int_equal(hr_digest_new(HR_DIGEST_MD5, &md5), 0);
    assert_int_equal(hr_digest_update(md5, bytes.data, size), 0);
    assert_int_equal(hr_digest_final(md5, digest), 0);
    hr_digest_free(md5);
    hr_hex_encode(digest, sizeof(digest), hex);
    hr_buf_release(&bytes);
}

static int copy(struct lab_put *put, uint64_t offset, uint64_t bytes, uint64_t face)
{
    return hr_put_copy(put->put, offset, bytes, face, lab_on_written, put);
}

static void whole_from_pieces(void **state)
{
    struct lab *lab = *state;
    struct hr_verify verify = {.md5 = true};
    struct lab_put put;
    lab_open(lab);
    md5_of("k", LARGE, verify.md5_hex);
    uint64_t face = face_put(lab, "k", LARGE);
    (void)segment_put(lab, "k", face, 0, CELL);
    (void)segment_put(lab, "k", face, CELL, 4096);
    (void)segment_put(lab, "k", face, 3 * CELL, CELL);
    (void)segment_put(lab, "k", face, 5 * CELL, 12345);
    for (int bad = 1; bad >= 0; bad--) {
        assert_int_equal(lab_begin(lab, &put, "k", "e", LARGE), 0);
        assert_int_equal(copy(&put, 5 * CELL, 12345, face), 0);
        assert_int_equal(copy(&put, 0, CELL, face), 0);
        assert_int_equal(copy(&put, CELL, 8192, face), -ENOENT); /* not all of it */
        assert_int_equal(copy(&put, CELL, 1000, face), 0);       /* parts of a segment */
        assert_int_equal(copy(&put, CELL + 1000, 3096, face), 0);
        assert_int_equal(copy(&put, CELL + 1000, 3096, face), -EINVAL); /* given before */
        assert_int_equal(copy(&put, 5 * CELL, 12346, face), -EINVAL);   /* outside */
        assert_int_equal(copy(&put, 0, 0, face), -EINVAL);
        assert_int_equal(copy(&put, 2 * CELL, 10, face), -ENOENT);
        assert_int_equal(copy(&put, 4 * CELL - 100, 200, face), -ENOENT);
        assert_int_equal(lab_part(&put, "k", CELL + 4096, 2 * CELL - 4096), 0);
        assert_int_equal(copy(&put, 3 * CELL + 77, CELL - 77, face), 0);
        assert_int_equal(lab_part(&put, "k", 3 * CELL, 77), 0);
        assert_int_equal(lab_part(&put, bad ? "another" : "k", 4 * CELL, CELL), 0);
        hr_put_finish(put.put, &verify);
        lab_wait(&put);
        assert_int_equal(put.error, bad ? -EBADMSG : 0);
        assert_int_equal(put.written_bytes, LARGE);
        assert_int_equal(put.written_count, 8);
    }
    assert_string_equal(put.md5_hex, verify.md5_hex);
    assert_true(lab_file_right(lab, put.file_id, "k", LARGE));
    assert_int_equal(stats_of(lab).bytes, 2 * CELL + 4096 + 16384 + (LARGE + 4095) / 4096 * 4096);
}

/* One segment is the whole object: nothing of it passes through memory. A cell is made of its pieces. */
static void one_part(void **state)
{
    struct lab *lab = *state;
    struct hr_verify verify = {.md5 = true};
    struct lab_put put;
    lab_open(lab);
    md5_of("k", 100000, verify.md5_hex);
    uint64_t face = face_put(lab, "k", 100000);
    (void)segment_put(lab, "k", face, 0, 65536);
    (void)segment_put(lab, "k", face, 65536, 100000 - 65536);
    assert_int_equal(segment_begin(lab, &put, "k", face, 4096, 100000 - 4096), 0);
    assert_int_equal(copy(&put, 0, 65536 - 4096, face), 0);
    assert_int_equal(copy(&put, 65536 - 4096, 100000 - 65536, face), 0);
    hr_put_finish(put.put, NULL);
    lab_wait(&put);
    assert_int_equal(put.error, 0);
    assert_true(segment_right(lab, hr_cache_by_id(lab->cache, put.file_id)));
    assert_int_equal(stats_of(lab).segments, 2); /* the second piece was replaced */
    uint64_t all = segment_put(lab, "k", face, 0, 100000);
    assert_int_equal(stats_of(lab).segments, 1);
    assert_int_equal(lab_begin(lab, &put, "k", "e", 100000), 0);
    assert_int_equal(copy(&put, 0, 100000, face), 0);
    hr_put_finish(put.put, &verify);
    lab_wait(&put);
    assert_int_equal(put.error, 0);
    assert_true(lab_file_right(lab, put.file_id, "k", 100000));
    assert_true(id_at(lab, face, 0) == all);
}

static void another_version(void **state)
{
    struct lab *lab = *state;
    struct lab_put put;
    lab_open(lab);
    uint64_t face = face_put(lab, "k", CELL);
    (void)segment_put(lab, "k", face, 0, CELL);
    assert_int_equal(lab_begin(lab, &put, "k", "newer", CELL), 0);
    assert_int_equal(copy(&put, 0, CELL, face), -EINVAL);
    assert_int_equal(copy(&put, 0, CELL, face + 12345), -ENOENT); /* no such face */
    hr_put_abort(put.put);
    lab_linger(lab, 20);
    assert_int_equal(stats_of(lab).writes_in_flight, 0);
}

/* More copies than descriptors, of segments that all leave before the writer comes to them: it is busy with
 * the put's first part, while the other writer does everything else in its order. */
static void leaving_meanwhile(void **state)
{
    struct lab *lab = *state;
    enum { PIECES = 200 };
    const uint64_t first = 5 * CELL;
    const uint64_t size = first + PIECES * 4096ull;
    struct lab_put put;
    uint64_t ids[PIECES];
    struct rlimit limit;
    lab_open(lab);
    uint64_t face = face_put(lab, "k", size);
    for (uint64_t i = 0; i < PIECES; i++) {
        ids[i] = segment_put(lab, "k", face, first + i * 4096, 4096);
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const struct rlimit few = {.rlim_cur = 64, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    assert_int_equal(lab_begin(lab, &put, "k", "e", size), 0);
    assert_int_equal(lab_part(&put, "k", 0, first), 0);
    for (uint64_t i = 0; i < PIECES; i++) {
        assert_int_equal(copy(&put, first + i * 4096, 4096, face), 0);
    }
    hr_cache_drop(lab->cache, ids[7]);
    hr_cache_drop_segments(lab->cache, face);
    hr_cache_drop(lab->cache, face);
    assert_int_equal(stats_of(lab).faces + stats_of(lab).segments, 0);
    assert_int_equal(lab_put_whole(lab, "other", "e", 10, NULL, NULL), 0);
    hr_put_finish(put.put, NULL);
    lab_wait(&put);
    assert_int_equal(put.error, 0);
    assert_true(lab_file_right(lab, put.file_id, "k", size));
    for (uint64_t i = 0; i < PIECES; i++) {
        lab_await_gone(lab, ids[i]);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(lab->evicted_kinds[HR_CACHED_SEGMENT], PIECES);
    lab_linger(lab, 20);
    assert_int_equal(stats_of(lab).bytes, size + 4096);
}

/* Room for the whole is made of the very segments that it is copied from. */
static void evicted_meanwhile(void **state)
{
    struct lab *lab = *state;
    struct lab_put put;
    struct lab_put other;
    lab->size_bytes = 4 * CELL;
    lab->writers = 1;
    lab_open(lab);
    uint64_t face = face_put(lab, "k", 2 * CELL);
    uint64_t a = segment_put(lab, "k", face, 0, CELL);
    uint64_t b = segment_put(lab, "k", face, CELL, CELL);
    assert_int_equal(lab_begin(lab, &put, "k", "e", 2 * CELL), 0);
    assert_int_equal(lab->evicted_count, 0);
    assert_int_equal(copy(&put, 0, CELL, face), 0);
    assert_int_equal(copy(&put, CELL, CELL, face), 0);
    assert_int_equal(lab_begin(lab, &other, "o", "e", 2 * CELL), 0);
    assert_int_equal(lab->evicted_count, 2);
    hr_put_finish(put.put, NULL);
    lab_wait(&put);
    assert_int_equal(put.error, 0);
    assert_true(lab_file_right(lab, put.file_id, "k", 2 * CELL));
    lab_await_gone(lab, a);
    lab_await_gone(lab, b);
    hr_put_abort(other.put);
    for (int i = 0; i < 500 && stats_of(lab).writes_in_flight; i++) {
        lab_linger(lab, 10);
    }
    assert_int_equal(stats_of(lab).bytes, 2 * CELL);
}

static void spoil(const struct lab *lab, uint64_t id, const char *command)
{
    char path[PATH_MAX];
    lab_path(lab, id, path);
    assert_int_equal(setenv("F", path, 1), 0);
    lab_run_command(command);
}

/* A file that is not what it was gives no byte, and the segment leaves. */
static void rotten(void **state)
{
    struct lab *lab = *state;
    struct lab_put put;
    static const char *const commands[] = {
        "rm $F",
        "chmod 600 $F && truncate -s 4096 $F && chmod 400 $F",
        "chmod 600 $F && echo x | dd of=$F conv=notrunc status=none && chmod 400 $F",
        "rm $F && ln -s /etc/passwd $F",
        "rm $F && mkfifo $F",
    };
    enum { WAYS = sizeof(commands) / sizeof(commands[0]) };
    lab_open(lab);
    uint64_t face = face_put(lab, "k", 8192);
    for (int i = 0; i < WAYS; i++) { /* before it is given: refused at once */
        uint64_t id = segment_put(lab, "k", face, 0, 8192);
        spoil(lab, id, commands[i]);
        assert_int_equal(lab_begin(lab, &put, "k", "e", 8192), 0);
        assert_int_equal(copy(&put, 0, 8192, face), -ENOENT);
        assert_int_equal(id_at(lab, face, 0), 0);
        hr_put_abort(put.put);
    }
    for (int i = 0; i < WAYS; i++) { /* after it was given: the writer sees it */
        struct hr_part part = {.len = 8192};
        uint64_t id = segment_put(lab, "k", face, 0, 8192);
        part.source = hr_table_by_id(lab->cache, id);
        hr_segment_pin(part.source);
        spoil(lab, id, commands[i]);
        int fd = memfd_create("copy", MFD_CLOEXEC);
        struct stat st;
        assert_int_equal(hr_part_copy(lab->cache, fd, &part), -EIO);
        assert_true(!fstat(fd, &st) && st.st_size == 0);
        assert_true(part.source_bad);
        (void)close(fd);
        hr_part_let_go(lab->cache, &part);
        assert_int_equal(id_at(lab, face, 0), 0);
    }
    assert_int_equal(lab->evicted_kinds[HR_CACHED_SEGMENT], 2 * WAYS);
    lab_linger(lab, 20);
    assert_int_equal(stats_of(lab).bytes, 0);
}

/* Where the kernel does not copy: across file systems, or (as here always) into a file opened O_APPEND. */
static void copied_by_hand(void **state)
{
    struct lab *lab = *state;
    char path[PATH_MAX];
    lab_open(lab);
    uint64_t face = face_put(lab, "k", CELL);
    uint64_t id = segment_put(lab, "k", face, 0, CELL);
    (void)snprintf(path, sizeof(path), "%s/copy", lab->home);
    for (int i = 0; i < 2; i++) {
        struct hr_part part = {.len = CELL - 4000, .source_offset = 3000};
        struct hr_buf want;
        part.source = hr_table_by_id(lab->cache, id);
        int fd = i ? memfd_create("copy", MFD_CLOEXEC)
                   : open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(hr_part_copy(lab->cache, fd, &part), 0);
        lab_fill(&want, "k", 3000, CELL - 4000);
        char *got = malloc(CELL);
        assert_int_equal(pread(fd, got, CELL, 0), CELL - 4000);
        assert_memory_equal(got, want.data, CELL - 4000);
        free(got);
        hr_buf_release(&want);
        (void)close(fd);
    }
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC); /* a full disk is told, and no fault of the source */
    struct hr_part part = {.len = CELL};
    part.source = hr_table_by_id(lab->cache, id);
    assert_int_equal(hr_part_copy(lab->cache, fd, &part), -ENOSPC);
    assert_false(part.source_bad);
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(whole_from_pieces, lab_setup, lab_teardown),
        cmocka_unit_test_setup_teardown(one_part, lab_setup, lab_teardown),
        cmocka_unit_test_setup_teardown(another_version, lab_setup, lab_teardown),
        cmocka_unit_test_setup_teardown(leaving_meanwhile, lab_setup, lab_teardown),
        cmocka_unit_test_setup_teardown(evicted_meanwhile, lab_setup, lab_teardown),
        cmocka_unit_test_setup_teardown(rotten, lab_setup, lab_teardown),
        cmocka_unit_test_setup_teardown(copied_by_hand, lab_setup, lab_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
