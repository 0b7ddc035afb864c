/* Kernel copies of a large object, against a daemon that the test plays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "tests/unit/interpose/face_files.h"

static void sendfile_crosses_segments(void **state)
{
    (void)state;
    int fd = open_face(0), out = scratch();
    off_t at = 100;
    assert_int_equal(sendfile(out, fd, &at, 3 * FAKE_SEGMENT_BYTES), 3 * FAKE_SEGMENT_BYTES);
    assert_int_equal(at, 100 + 3 * FAKE_SEGMENT_BYTES);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
    holds(out, 100, 3 * FAKE_SEGMENT_BYTES);
    assert_int_equal(ftruncate(out, 0) | (int)lseek(out, 0, SEEK_SET), 0);
    assert_int_equal(lseek(fd, 77, SEEK_SET), 77);
    assert_int_equal(sendfile64(out, fd, NULL, SIZE * 2), SIZE - 77);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), SIZE);
    holds(out, 77, SIZE - 77);
    assert_int_equal(sendfile(out, fd, NULL, 10), 0);
    at = -1;
    fails(sendfile(out, fd, &at, 10), EINVAL);
    fails(sendfile(fd, out, NULL, 10), EBADF);
    fails(sendfile(-1, fd, NULL, 10), EBADF);
    close(fd);
    close(out);
}

static void what_a_full_socket_did_not_take_is_not_read(void **state)
{
    (void)state;
    int fd = open_face(0), ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    ssize_t sent = 0, got;
    while ((got = sendfile(ends[0], fd, NULL, SIZE)) > 0) {
        sent += got;
    }
    if (got < 0) {
        assert_int_equal(errno, EAGAIN);
    }
    assert_int_equal(lseek(fd, 0, SEEK_CUR), sent);
    char *content = malloc(SIZE);
    size_t filled = 0;
    while (filled < SIZE) {
        got = read(ends[1], content + filled, SIZE - filled);
        if (got < 0) {
            assert_int_equal(errno, EAGAIN);
            assert_true(sendfile(ends[0], fd, NULL, SIZE) > 0);
            continue;
        }
        filled += (size_t)got;
    }
    assert_true(fake_is_object(content, SIZE, 0));
    free(content);
    close(ends[0]);
    close(ends[1]);
    close(fd);
}

static void splice_and_copy_file_range(void **state)
{
    (void)state;
    int fd = open_face(0), out = scratch(), ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    size_t moved = 0;
    off64_t at = 5;
    while (moved < SIZE - 5) {
        ssize_t got = splice(fd, &at, ends[1], NULL, SIZE, 0);
        assert_true(got > 0);
        for (ssize_t left = got; left > 0;) {
            ssize_t passed = splice(ends[0], NULL, out, NULL, (size_t)left, 0);
            assert_true(passed > 0);
            left -= passed;
        }
        moved += (size_t)got;
        assert_int_equal(at, 5 + moved);
    }
    assert_int_equal(splice(fd, &at, ends[1], NULL, SIZE, 0), 0);
    holds(out, 5, SIZE - 5);
    fails(splice(ends[0], NULL, fd, NULL, 10, SPLICE_F_NONBLOCK), EBADF);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
    assert_int_equal(ftruncate(out, 0) | (int)lseek(out, 0, SEEK_SET), 0);
    size_t copied = 0;
    ssize_t got;
    while ((got = copy_file_range(fd, NULL, out, NULL, SIZE, 0)) > 0) {
        copied += (size_t)got;
    }
    if (got < 0 && copied == 0) {
        /* The test's folder may be on another file system than the fake cache, which some kernels refuse. */
        assert_int_equal(errno, EXDEV);
    } else {
        assert_int_equal(copied, SIZE);
        holds(out, 0, SIZE);
        assert_int_equal(lseek(fd, 0, SEEK_CUR), SIZE);
    }
    fails(copy_file_range(out, NULL, fd, NULL, 10, 0), EBADF);
    fails(copy_file_range(fd, NULL, out, NULL, 10, 1), EINVAL);
    close(ends[0]);
    close(ends[1]);
    close(out);
    close(fd);
}

static void a_lost_segment_ends_a_copy_where_it_is(void **state)
{
    (void)state;
    int fd = open_face(0), out = scratch();
    atomic_store(&fake_large.fails_at, 2 * FAKE_SEGMENT_BYTES);
    atomic_store(&fake_large.segment_error, -ESTALE);
    assert_int_equal(sendfile(out, fd, NULL, SIZE), 2 * FAKE_SEGMENT_BYTES);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 2 * FAKE_SEGMENT_BYTES);
    fails(sendfile(out, fd, NULL, SIZE), ESTALE);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 2 * FAKE_SEGMENT_BYTES);
    holds(out, 0, 2 * FAKE_SEGMENT_BYTES);
    close(out);
    close(fd);
}

int main(int argc, char **argv)
{
    (void)argc;
    group_begin(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(sendfile_crosses_segments, new_face),
        cmocka_unit_test_setup(what_a_full_socket_did_not_take_is_not_read, new_face),
        cmocka_unit_test_setup(splice_and_copy_file_range, new_face),
        cmocka_unit_test_setup(a_lost_segment_ends_a_copy_where_it_is, new_face),
    };
    return cmocka_run_group_tests(tests, NULL, group_end);
}
