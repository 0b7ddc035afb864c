/* Hints about a large object, by descriptor and by mapping, and what is asked of its size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include <cmocka.h>

#include "tests/unit/interpose/face_files.h"

static void hints_and_sizes(void **state)
{
    (void)state;
    int fd = open_face(0), unread = 0;
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_NOREUSE), 0);
    assert_int_equal(posix_fadvise(fd, 0, 0, 99), EINVAL);
    assert_int_equal(posix_fadvise64(fd, 0, -1, POSIX_FADV_WILLNEED), EINVAL);
    asked(HR_OP_SEGMENT);
    assert_int_equal(posix_fadvise(fd, PAGE, 0, POSIX_FADV_WILLNEED), 0);
    assert_int_equal(readahead(fd, 3 * FAKE_SEGMENT_BYTES, 100), 0);
    for (int i = 0; i < 200 && atomic_load(&fake.requests[HR_OP_SEGMENT]) < 2; i++) {
        usleep(10000);
    }
    assert_int_equal(asked(HR_OP_SEGMENT), 2);
    assert_int_equal(lseek(fd, 45, SEEK_SET), 45);
    assert_int_equal(ioctl(fd, FIONREAD, &unread), 0);
    assert_int_equal(unread, SIZE - 45);
    assert_false(isatty(fd));
    assert_int_equal(errno, ENOTTY);
    int out = scratch();
    fails(ioctl(out, FICLONE, fd), EOPNOTSUPP);
    struct file_clone_range range = {.src_fd = fd};
    fails(ioctl(out, FICLONERANGE, &range), EOPNOTSUPP);
    fails(ioctl(fd, FICLONE, out), EBADF);
    close(out);
    close(fd);
}

static unsigned told(enum hr_hint hint, unsigned awaited)
{
    for (int i = 0; i < 200 && atomic_load(&fake.hints[hint]) < awaited; i++) {
        usleep(10000);
    }
    return atomic_exchange(&fake.hints[hint], 0);
}

static void advice_of_a_descriptor(void **state)
{
    (void)state;
    int fd = open_face(0);
    for (int hint = 0; hint < HR_HINTS; hint++) {
        (void)told(hint, 0);
    }
    errno = 4321;
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL), 0);
    assert_int_equal(posix_fadvise64(fd, 0, 0, POSIX_FADV_RANDOM), 0);
    assert_int_equal(posix_fadvise(fd, SIZE, 1, POSIX_FADV_NORMAL), 0);
    assert_int_equal(posix_fadvise(fd, 0, SIZE, POSIX_FADV_DONTNEED), 0);
    assert_int_equal(errno, 4321);
    assert_int_equal(told(HR_HINT_SEQUENTIAL, 1), 1);
    assert_int_equal(told(HR_HINT_RANDOM, 1), 1);
    assert_int_equal(told(HR_HINT_NORMAL, 1), 1);
    assert_int_equal(told(HR_HINT_DONTNEED, 1), 1);
    /* Mapped pages stay. */
    char *map = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    assert_int_equal(posix_fadvise(fd, 0, SIZE, POSIX_FADV_DONTNEED), 0);
    assert_int_equal(munmap(map, SIZE), 0);
    assert_int_equal(posix_fadvise(fd, 0, SIZE, POSIX_FADV_DONTNEED), 0);
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_NORMAL), 0);
    assert_int_equal(told(HR_HINT_NORMAL, 1), 1); /* the last of them: those before were heard */
    assert_int_equal(told(HR_HINT_DONTNEED, 0), 1);
    close(fd);
}

static void advice_of_a_mapping(void **state)
{
    (void)state;
    int fd = open_face(0);
    char *map = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0), *other;
    assert_ptr_not_equal(map, MAP_FAILED);
    other = mmap(NULL, PAGES(4), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(other, MAP_FAILED);
    for (int hint = 0; hint < HR_HINTS; hint++) {
        (void)told(hint, 0);
    }
    other[0] = 'x';
    for (int advice = MADV_NORMAL; advice <= MADV_DONTNEED; advice++) {
        assert_int_equal(madvise(other, PAGES(4), advice), 0);
        assert_int_equal(other[0], advice == MADV_DONTNEED ? 0 : 'x');
        assert_int_equal(posix_madvise(other, PAGES(4), advice), 0);
    }
    fails(madvise(map + 1, PAGE, MADV_SEQUENTIAL), EINVAL);
    assert_int_equal(posix_madvise(map + 1, PAGE, POSIX_MADV_RANDOM), EINVAL);
    assert_int_equal(madvise(map, PAGES(SIZE_PAGES), MADV_DONTNEED), 0);
    assert_int_equal(madvise(map, PAGES(SIZE_PAGES), MADV_WILLNEED), 0); /* all of it is here */
    errno = 4321;
    assert_int_equal(madvise(map + PAGES(2), PAGE, MADV_RANDOM), 0);
    assert_int_equal(posix_madvise(map, PAGES(SIZE_PAGES), POSIX_MADV_SEQUENTIAL), 0);
    assert_int_equal(errno, 4321);
    assert_int_equal(told(HR_HINT_SEQUENTIAL, 1), 1);
    assert_int_equal(told(HR_HINT_RANDOM, 1), 1);
    assert_int_equal(told(HR_HINT_NORMAL, 0), 0);
    assert_int_equal(told(HR_HINT_WILLNEED, 0), 0);
    assert_int_equal(told(HR_HINT_DONTNEED, 0), 0);
    assert_true(fake_is_object(map, SIZE, 0));
    /* What has gone is not spoken of, nor what lies there now. */
    assert_int_equal(munmap(map, PAGES(SIZE_PAGES)), 0);
    char *here = mmap(map, PAGES(4), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    assert_ptr_equal(here, map);
    assert_int_equal(madvise(here, PAGES(4), MADV_RANDOM), 0);
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_NORMAL), 0);
    assert_int_equal(told(HR_HINT_NORMAL, 1), 1);
    assert_int_equal(told(HR_HINT_RANDOM, 0), 0);
    assert_int_equal(munmap(here, PAGES(4)), 0);
    assert_int_equal(munmap(other, PAGES(4)), 0);
    close(fd);
}

int main(int argc, char **argv)
{
    (void)argc;
    group_begin(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(hints_and_sizes, new_face),
        cmocka_unit_test_setup(advice_of_a_descriptor, new_face),
        cmocka_unit_test_setup(advice_of_a_mapping, new_face),
    };
    return cmocka_run_group_tests(tests, NULL, group_end);
}
