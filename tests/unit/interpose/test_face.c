/* libc calls on a large object, against a daemon that the test plays: this program is linked with the hooks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <linux/close_range.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/xattr.h>

#include <cmocka.h>

#include "interpose/face.h"
#include "interpose/real.h"
#include "tests/unit/interpose/face_entry.h"

/* What the compiler is not to see through. */
static void *volatile nowhere = (void *)8;
static volatile int few = -1, many = 1025;

static void an_open_is_a_face_that_says_the_object(void **state)
{
    struct stat st;
    struct statx stx;
    (void)state;
    int fd = open_large();
    assert_int_equal(asked(HR_OP_FETCH), 0);
    assert_int_equal(hr_sys(SYS_fcntl, fd, F_GETFL, 0, 0, 0, 0) & O_ACCMODE, O_WRONLY);
    assert_int_equal(hr_sys(SYS_read, fd, (long)buffer, 1, 0, 0, 0), -EBADF);
    assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, SIZE);
    assert_int_equal(st.st_mode, S_IFREG | 0444);
    assert_int_equal(st.st_dev, FAKE_DEV);
    assert_int_equal(st.st_ino, fake_face_record(&fake)->object_ino);
    assert_int_equal(statx(fd, "", AT_EMPTY_PATH, STATX_ALL, &stx), 0);
    assert_int_equal(stx.stx_size, SIZE);
    assert_int_equal(stx.stx_mode, S_IFREG | 0444);
    assert_int_equal(stx.stx_ino, st.st_ino);
    /* Known as a directory's or as any other's by nobody. */
    fails(openat(fd, "x", O_RDONLY), ENOTDIR);
    fails(fchdir(fd), ENOTDIR);
    fails(syscall(SYS_getdents64, fd, buffer, sizeof(buffer)), ENOTDIR);
    int path = open(LARGE, O_PATH | O_CLOEXEC);
    assert_int_equal(fcntl(path, F_GETFL) & O_PATH, O_PATH);
    assert_int_equal(fstat(path, &st), 0);
    assert_int_equal(st.st_size, SIZE);
    fails(read(path, buffer, 1), EBADF);
    close(path);
    close(fd);
    assert_int_equal(hr_standin_marks[fd], 0);
}

static void a_long_read_is_full_and_asks_once_a_segment(void **state)
{
    (void)state;
    int fd = open_large();
    assert_int_equal(read(fd, buffer, 0), 0);
    assert_int_equal(read(fd, buffer, sizeof(buffer)), sizeof(buffer));
    assert_true(fake_is_object(buffer, sizeof(buffer), 0));
    assert_int_equal(asked(HR_OP_SEGMENT), sizeof(buffer) / FAKE_SEGMENT_BYTES);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), sizeof(buffer));
    /* The rest of a read is said to the daemon. */
    assert_int_equal(pread(fd, buffer, sizeof(buffer), 4 * SEGMENT), SIZE - 4 * SEGMENT);
    assert_true(fake_is_object(buffer, (size_t)(SIZE - 4 * SEGMENT), 4 * FAKE_SEGMENT_BYTES));
    assert_int_equal(asked(HR_OP_SEGMENT), 2);
    fake_drop_segments(&fake);
    assert_int_equal(pread(fd, buffer, 3 * SEGMENT, SIZE - 1000), 1000);
    assert_true(fake_is_object(buffer, 1000, (uint64_t)SIZE - 1000));
    assert_int_equal(atomic_load(&fake_large.last_wanted), 1000);
    assert_int_equal(asked(HR_OP_SEGMENT), 1);
    assert_int_equal(pread(fd, buffer, 10, SIZE), 0);
    assert_int_equal(pread(fd, buffer, 10, SIZE + 5), 0);
    fails(pread(fd, buffer, 10, -1), EINVAL);
    assert_int_equal(asked(HR_OP_SEGMENT), 0);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), sizeof(buffer));
    /* A buffer that is not there. */
    fails(pread(fd, nowhere, 1 << 17, 0), EFAULT);
    fails(read(fd, nowhere, 1 << 17), EFAULT);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), sizeof(buffer));
    close(fd);
}

/* The file of a segment in use may go: small reads come from a mapping. */
static void small_reads_of_one_segment_need_no_file(void **state)
{
    (void)state;
    int fd = open_large();
    assert_int_equal(read(fd, buffer, 100), 100);
    assert_int_equal(read(fd, buffer + 100, 100), 100);
    assert_int_equal(asked(HR_OP_SEGMENT), 1);
    fake_drop_segments(&fake);
    for (off_t at = 200; at < SEGMENT; at += 4096) {
        size_t len = SEGMENT - at < 4096 ? (size_t)(SEGMENT - at) : 4096;
        assert_int_equal(read(fd, buffer, len), len);
        assert_true(fake_is_object(buffer, len, (uint64_t)at));
    }
    assert_int_equal(asked(HR_OP_SEGMENT), 0);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), SEGMENT);
    memset(buffer, 0, FAKE_SEGMENT_BYTES);
    assert_int_equal(pread(fd, buffer, FAKE_SEGMENT_BYTES, 0), SEGMENT); /* 64 KiB are small */
    assert_true(fake_is_object(buffer, FAKE_SEGMENT_BYTES, 0));
    assert_int_equal(asked(HR_OP_SEGMENT), 0);
    close(fd);
}

static void an_evicted_segment_is_asked_for_again(void **state)
{
    (void)state;
    int fd = open_large();
    size_t len = 2 * FAKE_SEGMENT_BYTES; /* too long for a mapping; its second half alone is not */
    assert_int_equal(pread(fd, buffer, len, 0), len);
    assert_int_equal(asked(HR_OP_SEGMENT), 2);
    assert_int_equal(pread(fd, buffer, len, 0), len);
    assert_int_equal(asked(HR_OP_SEGMENT), 0);
    fake_drop_segments(&fake);
    memset(buffer, 0, len);
    assert_int_equal(pread(fd, buffer, len, 0), len);
    assert_true(fake_is_object(buffer, len, 0));
    assert_int_equal(asked(HR_OP_SEGMENT), 1);
    close(fd);
}

static void parts_are_filled_in_order(void **state)
{
    char tail[3000];
    struct iovec parts[] = {{buffer, 5}, {buffer + 5, 0}, {buffer + 5, SEGMENT + 7}, {tail, sizeof(tail)}};
    (void)state;
    int fd = open_large();
    ssize_t all = 5 + SEGMENT + 7 + (ssize_t)sizeof(tail);
    assert_int_equal(readv(fd, parts, 4), all);
    assert_true(fake_is_object(buffer, 12 + SEGMENT, 0) &&
                fake_is_object(tail, sizeof(tail), 12 + FAKE_SEGMENT_BYTES));
    assert_int_equal(preadv(fd, parts, 4, 3), all);
    assert_true(fake_is_object(buffer, 12 + SEGMENT, 3));
    assert_int_equal(preadv64(fd, parts, 1, SIZE - 2), 2);
    assert_int_equal(preadv2(fd, parts, 1, -1, 0), 5);
    assert_true(fake_is_object(buffer, 5, (uint64_t)all));
    assert_int_equal(lseek(fd, 0, SEEK_CUR), all + 5);
    assert_int_equal(preadv64v2(fd, parts, 1, 77, RWF_HIPRI), 5);
    fails(preadv2(fd, parts, 1, 0, 1 << 20), EOPNOTSUPP);
    fails(readv(fd, parts, few), EINVAL);
    fails(readv(fd, parts, many), EINVAL);
    parts[0].iov_len = SIZE_MAX / 2;
    parts[2].iov_len = SIZE_MAX / 2;
    fails(readv(fd, parts, 3), EINVAL);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), all + 5);
    close(fd);
}

static void what_is_not_here_does_not_wait_when_told_so(void **state)
{
    struct iovec part = {buffer, 2 * FAKE_SEGMENT_BYTES};
    (void)state;
    int fd = open_large();
    fails(preadv2(fd, &part, 1, 0, RWF_NOWAIT), EAGAIN);
    fails(preadv2(fd, &part, 1, -1, RWF_NOWAIT), EAGAIN);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
    assert_int_equal(asked(HR_OP_SEGMENT), 0);
    assert_int_equal(pread(fd, buffer, 10, 0), 10);
    assert_int_equal(preadv2(fd, &part, 1, -1, RWF_NOWAIT), SEGMENT);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), SEGMENT);
    assert_int_equal(asked(HR_OP_SEGMENT), 1);
    close(fd);
}

static void seeks_as_on_a_file_without_holes(void **state)
{
    (void)state;
    int fd = open_large();
    assert_int_equal(lseek(fd, 0, SEEK_END), SIZE);
    assert_int_equal(read(fd, buffer, 10), 0);
    assert_int_equal(lseek(fd, -10, SEEK_END), SIZE - 10);
    assert_int_equal(read(fd, buffer, 100), 10);
    assert_true(fake_is_object(buffer, 10, (uint64_t)SIZE - 10));
    assert_int_equal(lseek(fd, 0, SEEK_CUR), SIZE);
    fails(lseek(fd, -SIZE - 1, SEEK_END), EINVAL);
    fails(lseek(fd, INT64_MAX, SEEK_END), EINVAL);
    fails(lseek(fd, -1, SEEK_SET), EINVAL);
    assert_int_equal(lseek64(fd, 1000, SEEK_DATA), 1000);
    assert_int_equal(lseek(fd, 1000, SEEK_HOLE), SIZE);
    fails(lseek(fd, SIZE, SEEK_DATA), ENXIO);
    fails(lseek(fd, SIZE, SEEK_HOLE), ENXIO);
    fails(lseek(fd, -1, SEEK_DATA), ENXIO);
    assert_int_equal(lseek(fd, SIZE + 500, SEEK_SET), SIZE + 500);
    assert_int_equal(read(fd, buffer, 100), 0);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), SIZE + 500);
    fails(lseek(fd, 0, 99), EINVAL);
    close(fd);
}

static void copies_of_a_descriptor_are_faces_too(void **state)
{
    (void)state;
    int fd = open_large();
    int copies[] = {dup(fd), fcntl(fd, F_DUPFD_CLOEXEC, 50), dup2(fd, 60), dup3(fd, 61, O_CLOEXEC)};
    for (unsigned i = 0; i < sizeof(copies) / sizeof(copies[0]); i++) {
        assert_int_equal(hr_standin_marks[copies[i]], HR_MARK_FACE);
        assert_int_equal(read(copies[i], buffer, 10), 10);
        assert_true(fake_is_object(buffer, 10, 10 * i));
    }
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 40);
    /* Onto it, and closed in bulk. */
    int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(dup2(other, 60), 60);
    assert_int_equal(hr_standin_marks[60], 0);
    assert_int_equal(read(60, buffer, 10), 0);
    assert_int_equal(close_range(50, 70, 0), 0);
    assert_int_equal(hr_standin_marks[50] | hr_standin_marks[61], 0);
    assert_int_equal(close_range((unsigned)fd, (unsigned)fd, CLOSE_RANGE_CLOEXEC), 0);
    assert_int_equal(hr_standin_marks[fd], HR_MARK_FACE);
    close(other);
    close(copies[0]);
    close(fd);
    /* A mark that is wrong goes at the first look. */
    other = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    hr_standin_mark_face(other);
    assert_int_equal(read(other, buffer, 10), 10);
    assert_int_equal(hr_standin_marks[other], 0);
    close(other);
}

static void nothing_is_written(void **state)
{
    struct iovec part = {buffer, 10};
    struct stat st;
    (void)state;
    int fd = open_large();
    fails(write(fd, buffer, 10), EBADF);
    fails(writev(fd, &part, 1), EBADF);
    fails(pwrite(fd, buffer, 10, 0), EBADF);
    fails(pwrite64(fd, buffer, 10, 0), EBADF);
    fails(pwritev(fd, &part, 1, 0), EBADF);
    fails(pwritev64(fd, &part, 1, 0), EBADF);
    fails(pwritev2(fd, &part, 1, 0, 0), EBADF);
    fails(pwritev64v2(fd, &part, 1, 0, 0), EBADF);
    fails(ftruncate(fd, 10), EINVAL);
    fails(ftruncate64(fd, 10), EINVAL);
    fails(fallocate(fd, 0, 0, 10), EBADF);
    fails(fallocate64(fd, 0, 0, 10), EBADF);
    errno = 99;
    assert_int_equal(posix_fallocate(fd, 0, 10), EBADF);
    assert_int_equal(posix_fallocate64(fd, 0, 10), EBADF);
    assert_int_equal(errno, 99);
    assert_int_equal(fsync(fd) | fdatasync(fd), 0);
    fails(fchmod(fd, 0600), EROFS);
    fails(fsetxattr(fd, "user.x", "y", 1, 0), EROFS);
    assert_int_equal(hr_sys(SYS_fstat, fd, (long)&st, 0, 0, 0, 0), 0);
    assert_int_equal(st.st_size, 0);
    close(fd);
}

static void locks_are_those_of_a_read_only_file(void **state)
{
    (void)state;
    int fd = open_large();
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 1};
    assert_int_equal(fcntl(fd, F_SETLK, &lock), 0);
    assert_int_equal(fcntl(fd, F_OFD_SETLKW, &lock), 0);
    lock.l_type = F_WRLCK;
    fails(fcntl(fd, F_SETLKW, &lock), EBADF);
    fails(fcntl(fd, F_OFD_SETLK, &lock), EBADF);
    assert_int_equal(fcntl(fd, F_GETLK, &lock), 0);
    assert_int_equal(lock.l_type, F_UNLCK);
    assert_int_equal(fcntl(fd, F_SETLK, &lock), 0);
    fails(lockf(fd, F_LOCK, 0), EBADF);
    fails(lockf64(fd, F_TLOCK, 0), EBADF);
    assert_int_equal(lockf(fd, F_ULOCK, 0), 0);
    assert_int_equal(lockf(fd, F_TEST, 0), 0);
    assert_int_equal(flock(fd, LOCK_SH | LOCK_NB), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(fcntl(fd, F_GETFL) & (O_NONBLOCK | O_ACCMODE), O_NONBLOCK | O_RDONLY);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    close(fd);
}

static void names_of_descriptors_open_the_object_again(void **state)
{
    char path[64];
    struct stat st;
    struct statx stx;
    (void)state;
    int fd = open_large();
    char own[32];
    snprintf(own, sizeof(own), "/proc/%d/fd", (int)getpid());
    const char *const folders[] = {"/proc/self/fd", "/proc/thread-self/fd", "/dev/fd", own};
    assert_int_equal(lseek(fd, 5, SEEK_SET), 5);
    for (unsigned i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        snprintf(path, sizeof(path), "%s/%d", folders[i], fd);
        int again = open(path, O_RDONLY | O_CLOEXEC);
        assert_true(again >= 0);
        assert_int_equal(read(again, buffer, 10), 10);
        assert_true(fake_is_object(buffer, 10, 0));
        close(again);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_size, SIZE);
        assert_int_equal(statx(AT_FDCWD, path, 0, STATX_ALL, &stx), 0);
        assert_int_equal(stx.stx_size, SIZE);
        assert_int_equal(access(path, R_OK), 0);
        fails(access(path, W_OK), EROFS);
        fails(open(path, O_RDWR), EROFS);
        fails(open(path, O_RDONLY | O_DIRECTORY), ENOTDIR);
    }
    int saved = dup(0);
    assert_int_equal(dup2(fd, 0), 0);
    int again = open("/dev/stdin", O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(again, buffer, 10), 10);
    assert_true(fake_is_object(buffer, 10, 0));
    assert_int_equal(dup2(saved, 0), 0);
    int folder = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(path, sizeof(path), "%d", fd);
    int by_folder = openat(folder, path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(by_folder, buffer, 10), 10);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 5);
    close(by_folder);
    close(folder);
    close(saved);
    close(again);
    close(fd);
}

static void a_message_brings_faces(void **state)
{
    int pair[2];
    char byte = 'x';
    struct iovec part = {&byte, 1};
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    (void)state;
    int fd = open_large();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    for (int round = 0; round < 2; round++) {
        message.msg_controllen = sizeof(control);
        control.header = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
        assert_int_equal(sendmsg(pair[0], &message, 0), 1);
        struct mmsghdr row = {.msg_hdr = message};
        assert_int_equal(round ? recvmmsg(pair[1], &row, 1, 0, NULL) : recvmsg(pair[1], &message, 0), 1);
        int came;
        memcpy(&came, CMSG_DATA(&control.header), sizeof(came));
        assert_int_equal(hr_standin_marks[came], HR_MARK_FACE);
        assert_int_equal(read(came, buffer, 10), 10);
        close(came);
    }
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 20);
    close(pair[0]);
    close(pair[1]);
    close(fd);
}

static void an_error_is_told_where_it_is(void **state)
{
    (void)state;
    int fd = open_large();
    atomic_store(&fake_large.fails_at, 2 * FAKE_SEGMENT_BYTES);
    atomic_store(&fake_large.segment_error, -EIO);
    assert_int_equal(lseek(fd, 1000, SEEK_SET), 1000);
    assert_int_equal(read(fd, buffer, sizeof(buffer)), 2 * SEGMENT - 1000);
    assert_true(fake_is_object(buffer, (size_t)(2 * SEGMENT - 1000), 1000));
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 2 * SEGMENT);
    fails(read(fd, buffer, 10), EIO);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 2 * SEGMENT);
    atomic_store(&fake_large.segment_error, -ESTALE);
    fails(pread(fd, buffer, 100000, 2 * SEGMENT), ESTALE);
    atomic_store(&fake_large.segment_error, 0);
    assert_int_equal(read(fd, buffer, 10), 10);
    assert_true(fake_is_object(buffer, 10, 2 * FAKE_SEGMENT_BYTES));
    close(fd);
}

/* The daemon knows nothing of it: neither an empty file nor one to write to. */
static void a_lost_face_is_an_error(void **state)
{
    (void)state;
    int fd = open_large();
    atomic_store(&fake_face_record(&fake)->ino, HR_INO_GONE);
    fails(read(fd, buffer, 10), ESTALE);
    fails(pread(fd, buffer, 10, 0), ESTALE);
    fails(lseek(fd, 0, SEEK_END), ESTALE);
    fails(write(fd, buffer, 10), EBADF);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
    assert_int_equal(asked(HR_OP_SEGMENT), 0);
    close(fd);
}

static void a_file_that_was_cut_is_an_error(void **state)
{
    (void)state;
    int fd = open_large();
    assert_int_equal(pread(fd, buffer, 100000, 0), 100000);
    const char *path = fake_segment_path(&fake, 0);
    assert_int_equal(chmod(path, 0600) | truncate(path, 5000), 0);
    assert_int_equal(pread(fd, buffer, 100, 8192), -1);
    assert_int_equal(errno, EIO);
    close(fd);
}

/* ---- opens that want more than a face, and other lives of the daemon ---- */

static void direct_opens_get_a_plain_file(void **state)
{
    (void)state;
    int fd = open(LARGE, O_RDONLY | O_DIRECT | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(asked(HR_OP_WHOLE), 1);
    assert_int_equal(hr_sys(SYS_read, fd, (long)buffer, 5000, 0, 0, 0), 5000);
    assert_true(fake_is_object(buffer, 5000, 0));
    assert_int_equal(hr_standin_marks[fd], 0);
    close(fd);
}

static void a_new_daemon_goes_on_with_the_face(void **state)
{
    static struct fake next;
    (void)state;
    int fd = open_large();
    assert_int_equal(read(fd, buffer, 100), 100);
    fake_die(&fake, true);
    fake_start(&next, cache);
    fake_publish(&next, 1);
    fake_face_adopt(&next, &fake);
    assert_int_equal(pread(fd, buffer, 60000, 100), 60000);
    assert_int_equal(atomic_load(&next.requests[HR_OP_SEGMENT]), 0);
    assert_int_equal(pread(fd, buffer, SEGMENT, 3 * SEGMENT), SEGMENT);
    assert_true(fake_is_object(buffer, FAKE_SEGMENT_BYTES, 3 * FAKE_SEGMENT_BYTES));
    assert_int_equal(atomic_load(&next.requests[HR_OP_SEGMENT]), 1);
    assert_int_equal(read(fd, buffer, 100), 100);
    assert_true(fake_is_object(buffer, 100, 100));
    close(fd);
    fake_die(&next, true);
}

int main(int argc, char **argv)
{
    (void)argc;
    group_begin(argv);
    fake_publish(&fake, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_open_is_a_face_that_says_the_object, fresh),
        cmocka_unit_test_setup(a_long_read_is_full_and_asks_once_a_segment, fresh),
        cmocka_unit_test_setup(small_reads_of_one_segment_need_no_file, fresh),
        cmocka_unit_test_setup(an_evicted_segment_is_asked_for_again, fresh),
        cmocka_unit_test_setup(parts_are_filled_in_order, fresh),
        cmocka_unit_test_setup(what_is_not_here_does_not_wait_when_told_so, fresh),
        cmocka_unit_test_setup(seeks_as_on_a_file_without_holes, fresh),
        cmocka_unit_test_setup(copies_of_a_descriptor_are_faces_too, fresh),
        cmocka_unit_test_setup(nothing_is_written, fresh),
        cmocka_unit_test_setup(locks_are_those_of_a_read_only_file, fresh),
        cmocka_unit_test_setup(names_of_descriptors_open_the_object_again, fresh),
        cmocka_unit_test_setup(a_message_brings_faces, fresh),
        cmocka_unit_test_setup(an_error_is_told_where_it_is, fresh),
        cmocka_unit_test_setup(a_lost_face_is_an_error, fresh),
        cmocka_unit_test_setup(a_file_that_was_cut_is_an_error, fresh),
        cmocka_unit_test_setup(direct_opens_get_a_plain_file, fresh),
        cmocka_unit_test_setup(a_new_daemon_goes_on_with_the_face, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, group_end);
}
