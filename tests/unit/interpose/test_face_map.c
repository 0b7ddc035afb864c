/* Mappings and kernel copies of a large object, and its plain file, against a daemon that the test plays. The
 * hooks are linked in: mmap here is ours. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <spawn.h>
#include <aio.h>
#include <linux/fs.h>

#include <cmocka.h>

#include "interpose/context.h"
#include "interpose/face.h"
#include "interpose/standin.h"
#include "interpose/vma.h"
#include "tests/unit/interpose/fake_large.h"

#define PAGE 4096u
#define PAGES(count) ((size_t)(count)*PAGE)
#define SIZE ((size_t)FAKE_LARGE_BYTES)
#define SIZE_PAGES ((SIZE + PAGE - 1) / PAGE)

/* A child without our object reads its standard input. */
static char shell[] = "sh", option[] = "-c", script[] = "dd bs=65536 2>/dev/null > scratch";
static char *const reader[] = {shell, option, script, NULL};
static char search_path[] = "PATH=/usr/bin:/bin";
static char *const bare[] = {search_path, NULL};

static const char *home;
static char cache[220];
static struct fake fake;

static int open_face(int flags)
{
    struct hr_session session;
    assert_int_equal(hr_session_get(&session), 0);
    int fd = hr_face_open(&session, fake_large.face_id, O_RDONLY | O_CLOEXEC | flags);
    assert_true(fd >= 0);
    assert_true(hr_face_maybe(fd));
    return fd;
}

static int new_face(void **state)
{
    (void)state;
    fake_large_new(&fake);
    return 0;
}

static unsigned asked(enum hr_op op)
{
    return atomic_exchange(&fake.requests[op], 0);
}

static void fails_map(void *result, int error)
{
    int got = errno;
    assert_ptr_equal(result, MAP_FAILED);
    assert_int_equal(got, error);
}

static void fails(long result, int error)
{
    int got = errno;
    assert_int_equal(result, -1);
    assert_int_equal(got, error);
}

static sigjmp_buf trap;

static void on_trap(int number)
{
    siglongjmp(trap, number);
}

/* The signal that a read of this byte ends in; 0: none. */
static int touch(const volatile char *at)
{
    struct sigaction action = {.sa_handler = on_trap}, old_bus, old_segv;
    sigaction(SIGBUS, &action, &old_bus);
    sigaction(SIGSEGV, &action, &old_segv);
    int number = sigsetjmp(trap, 1);
    if (number == 0) {
        (void)*at;
    }
    sigaction(SIGBUS, &old_bus, NULL);
    sigaction(SIGSEGV, &old_segv, NULL);
    return number;
}

/* ---- mmap
 * ---------------------------------------------------------------------------------------------------------
 */

static void the_whole_object_is_mapped(void **state)
{
    (void)state;
    int fd = open_face(0);
    asked(HR_OP_SEGMENT);
    errno = 4321;
    char *map = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    assert_int_equal(errno, 4321);
    assert_int_equal(asked(HR_OP_SEGMENT), 6);
    assert_int_equal(asked(HR_OP_WHOLE), 0);
    close(fd);
    assert_true(fake_is_object(map, SIZE, 0));
    for (size_t i = SIZE; i < PAGES(SIZE_PAGES); i++) {
        assert_int_equal(map[i], 0); /* the rest of the last page, as of any file */
    }
    fails(mprotect(map, PAGE, PROT_READ | PROT_WRITE), EACCES);
    assert_int_equal(munmap(map, SIZE), 0);
}

static void parts_begin_and_end_anywhere(void **state)
{
    (void)state;
    int fd = open_face(0);
    static const struct {
        unsigned page;
        size_t bytes;
    } rows[] = {{0, 1}, {15, PAGES(1)}, {15, PAGES(2)}, {16, PAGES(16)}, {3, PAGES(40) + 7}, {80, 12345}};
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *map = mmap64(NULL, rows[i].bytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd,
                           (off_t)PAGES(rows[i].page));
        assert_ptr_not_equal(map, MAP_FAILED);
        assert_true(fake_is_object(map, rows[i].bytes, PAGES(rows[i].page)));
        munmap(map, rows[i].bytes);
    }
    close(fd);
}

static void all_of_the_rest_is_asked_for_at_once(void **state)
{
    (void)state;
    int fd = open_face(0);
    atomic_store(&fake_large.fails_at, 1);
    atomic_store(&fake_large.segment_error, -EIO);
    fails_map(mmap(NULL, PAGES(30), PROT_READ, MAP_SHARED, fd, (off_t)PAGES(2)), EIO);
    atomic_store(&fake_large.fails_at, 16 * PAGE);
    asked(HR_OP_SEGMENT);
    fails_map(mmap(NULL, PAGES(30), PROT_READ, MAP_SHARED, fd, (off_t)PAGES(2)), EIO);
    assert_int_equal(atomic_load(&fake_large.last_wanted), PAGES(30));
    assert_int_equal(asked(HR_OP_SEGMENT), 2);
    close(fd);
}

static void beyond_the_end_is_sigbus(void **state)
{
    (void)state;
    int fd = open_face(0);
    char *map = mmap(NULL, PAGES(SIZE_PAGES + 3), PROT_READ, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    assert_true(fake_is_object(map, SIZE, 0));
    assert_int_equal(touch(map + SIZE), 0);
    assert_int_equal(touch(map + PAGES(SIZE_PAGES)), SIGBUS);
    assert_int_equal(touch(map + PAGES(SIZE_PAGES + 2)), SIGBUS);
    munmap(map, PAGES(SIZE_PAGES + 3));
    map = mmap(NULL, PAGES(2), PROT_READ, MAP_PRIVATE, fd, (off_t)PAGES(SIZE_PAGES + 100));
    assert_ptr_not_equal(map, MAP_FAILED);
    assert_int_equal(touch(map), SIGBUS);
    munmap(map, PAGES(2));
    close(fd);
}

static void arguments_are_judged_as_of_a_read_only_file(void **state)
{
    (void)state;
    int fd = open_face(0);
    asked(HR_OP_SEGMENT);
    fails_map(mmap(NULL, 0, PROT_READ, MAP_SHARED, fd, 0), EINVAL);
    fails_map(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 100), EINVAL);
    fails_map(mmap(NULL, PAGE, PROT_READ, 0, fd, 0), EINVAL);
    fails_map(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), EACCES);
    fails_map(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, -(off_t)PAGE), EOVERFLOW);
    fails_map(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_HUGETLB, fd, 0), EINVAL);
    assert_int_equal(asked(HR_OP_SEGMENT), 0);
    char *map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    map[FAKE_SEGMENT_BYTES] = 0; /* ours alone */
    assert_true(fake_is_object(map, FAKE_SEGMENT_BYTES, 0));
    assert_int_equal(map[FAKE_SEGMENT_BYTES], 0);
    char *other = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(fake_is_object(other, SIZE, 0));
    munmap(map, SIZE);
    munmap(other, SIZE);
    /* Anonymous memory with a descriptor beside it is none of ours. */
    map = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
    assert_int_equal(map[0], 0);
    munmap(map, PAGE);
    close(fd);
}

static void places_are_honoured(void **state)
{
    (void)state;
    int fd = open_face(0);
    char *room = mmap(NULL, PAGES(64), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(room, 7, PAGES(64));
    char *at = room + PAGES(8);
    fails_map(mmap(at, PAGES(40), PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0), EEXIST);
    assert_int_equal(at[0], 7);
    /* What cannot be had leaves the old mapping alone. */
    atomic_store(&fake_large.fails_at, 2 * FAKE_SEGMENT_BYTES);
    atomic_store(&fake_large.segment_error, -ESTALE);
    fails_map(mmap(at, PAGES(40), PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0), ESTALE);
    assert_int_equal(at[0], 7);
    atomic_store(&fake_large.segment_error, 0);
    assert_ptr_equal(mmap(at, PAGES(40), PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0), at);
    assert_true(fake_is_object(at, PAGES(40), 0));
    assert_int_equal(at[-1], 7);
    assert_int_equal(at[PAGES(40)], 7);
    munmap(room, PAGES(64));
    close(fd);
}

static void an_error_leaves_nothing(void **state)
{
    (void)state;
    int fd = open_face(0);
    char *probe = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(probe, SIZE);
    atomic_store(&fake_large.fails_at, 3 * FAKE_SEGMENT_BYTES);
    atomic_store(&fake_large.segment_error, -ESTALE);
    fails_map(mmap(probe, SIZE, PROT_READ, MAP_SHARED, fd, 0), ESTALE);
    struct hr_vma vma;
    assert_false(hr_vma_find((uintptr_t)probe, &vma));
    assert_false(hr_vma_find((uintptr_t)probe + 3 * FAKE_SEGMENT_BYTES, &vma));
    assert_int_equal(touch(probe), SIGSEGV);
    close(fd);
}

/* Something there, so that nothing grows into it: ours, or what was there already. */
static void *wall_at(char *at)
{
    void *wall = mmap(at, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    assert_true(wall == at || errno == EEXIST);
    return wall;
}

static void unwall(void *wall)
{
    if (wall != MAP_FAILED) {
        munmap(wall, PAGE);
    }
}

/* ---- mremap
 * ------------------------------------------------------------------------------------------------------- */

static void a_mapping_grows(void **state)
{
    (void)state;
    int fd = open_face(0);
    char *map = mmap(NULL, PAGES(4), PROT_READ, MAP_SHARED, fd, (off_t)PAGES(1));
    assert_ptr_not_equal(map, MAP_FAILED);
    char *grown = mremap(map, PAGES(4), PAGES(50), MREMAP_MAYMOVE);
    assert_ptr_not_equal(grown, MAP_FAILED);
    assert_true(fake_is_object(grown, PAGES(50), PAGES(1)));
    /* Something behind it: it must move, and cannot where that is not allowed. */
    void *wall = wall_at(grown + PAGES(50));
    fails_map(mremap(grown, PAGES(50), PAGES(60), 0), ENOMEM);
    char *moved = mremap(grown, PAGES(50), PAGES(60), MREMAP_MAYMOVE);
    assert_ptr_not_equal(moved, MAP_FAILED);
    assert_ptr_not_equal(moved, grown);
    assert_true(fake_is_object(moved, PAGES(60), PAGES(1)));
    struct hr_vma vma;
    assert_false(hr_vma_find((uintptr_t)grown, &vma));
    /* Smaller is the kernel's. */
    assert_ptr_equal(mremap(moved, PAGES(60), PAGES(20), 0), moved);
    assert_true(fake_is_object(moved, PAGES(20), PAGES(1)));
    munmap(moved, PAGES(20));
    unwall(wall);
    close(fd);
}

static void a_private_mapping_keeps_its_changes(void **state)
{
    (void)state;
    int fd = open_face(0);
    char *map = mmap(NULL, PAGES(20), PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    map[0] = 0;
    munmap(map + PAGES(17), PAGES(3));
    char *grown = mremap(map, PAGES(17), PAGES(20), 0);
    assert_ptr_equal(grown, map);
    assert_int_equal(map[0], 0);
    assert_true(fake_is_object(map + 1, PAGES(20) - 1, 1));
    void *wall = wall_at(map + PAGES(20));
    fails_map(mremap(map, PAGES(20), PAGES(40), 0), ENOMEM);
    assert_int_equal(map[0], 0);
    map[PAGES(19)] = 1;
    map[PAGES(18) + 7] = 2;
    char *moved = mremap(map, PAGES(20), PAGES(40), MREMAP_MAYMOVE);
    assert_ptr_not_equal(moved, MAP_FAILED);
    assert_ptr_not_equal(moved, map);
    unwall(wall);
    assert_int_equal(moved[0], 0);
    assert_int_equal(moved[PAGES(19)], 1);
    assert_int_equal(moved[PAGES(18) + 7], 2);
    assert_true(fake_is_object(moved + 1, PAGES(18) - 1, 1));
    assert_true(fake_is_object(moved + PAGES(19) + 1, PAGES(21) - 1, PAGES(19) + 1));
    struct hr_vma vma;
    assert_false(hr_vma_find((uintptr_t)map, &vma));
    /* Once more, to a given place. */
    char *room = mmap(NULL, PAGES(60), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(room, MAP_FAILED);
    char *again = mremap(moved, PAGES(40), PAGES(60), MREMAP_MAYMOVE | MREMAP_FIXED, room);
    assert_ptr_equal(again, room);
    assert_int_equal(again[PAGES(19)], 1);
    assert_true(fake_is_object(again + PAGES(19) + 1, PAGES(41) - 1, PAGES(19) + 1));
    assert_false(hr_vma_find((uintptr_t)moved, &vma));
    munmap(again, PAGES(60));
    close(fd);
}

/* Another file at the place of a mapping that was: nothing of the object may show. */
static void what_is_mapped_there_now_decides(void **state)
{
    (void)state;
    int fd = open_face(0);
    char *map = mmap(NULL, PAGES(20), PROT_READ, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    munmap(map, PAGES(20));
    char *other = mmap(map, PAGES(2), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    assert_ptr_equal(other, map);
    char *grown = mremap(other, PAGES(2), PAGES(20), MREMAP_MAYMOVE);
    assert_ptr_not_equal(grown, MAP_FAILED);
    assert_int_equal(grown[0], 0);
    assert_int_equal(grown[PAGES(10)], 0);
    munmap(grown, PAGES(20));
    close(fd);
}

static void lines_of_maps(void **state)
{
    (void)state;
    struct hr_vma vma;
    static const char line[] =
        "7f00-8f00 r--s 00012000 fe:01 77      /c/objects/cd/00000000000000cd (deleted)";
    assert_true(hr_vma_parse(line, sizeof(line) - 1, &vma));
    assert_int_equal(vma.start, 0x7f00);
    assert_int_equal(vma.end, 0x8f00);
    assert_int_equal(vma.offset, 0x12000);
    assert_int_equal(vma.object, 0xcd);
    assert_int_equal(vma.prot, PROT_READ);
    assert_true(vma.shared);
    static const char heap[] = "7f00-8f00 rw-p 00000000 00:00 0      [heap]";
    assert_true(hr_vma_parse(heap, sizeof(heap) - 1, &vma));
    assert_int_equal(vma.object, 0);
    assert_false(vma.shared);
    static const char other[] = "7f00-8f00 r-xp 00000000 fe:01 9      /objects/cd/00000000000000cX";
    assert_true(hr_vma_parse(other, sizeof(other) - 1, &vma));
    assert_int_equal(vma.object, 0);
    assert_false(hr_vma_parse("7f00", 4, &vma));
    assert_false(hr_vma_parse("", 0, &vma));
}

/* ---- copies
 * ------------------------------------------------------------------------------------------------------- */

static int scratch(void)
{
    int fd = open("scratch", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    return fd;
}

static void holds(int fd, uint64_t offset, size_t bytes)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, bytes);
    char *content = malloc(bytes);
    assert_int_equal(pread(fd, content, bytes, 0), bytes);
    assert_true(fake_is_object(content, bytes, offset));
    free(content);
}

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

/* ---- plain files
 * -------------------------------------------------------------------------------------------------- */

static void is_plain(int fd, off_t at)
{
    struct hr_face face;
    struct stat st;
    assert_false(hr_face_maybe(fd));
    hr_face_mark(fd);
    assert_false(hr_face_of(fd, &face)); /* and that takes the mark away */
    assert_false(hr_face_maybe(fd));
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, SIZE);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), at);
}

static void materialised_in_place(void **state)
{
    (void)state;
    struct hr_face face;
    int fd = open_face(O_NONBLOCK);
    assert_int_equal(lseek(fd, 1234, SEEK_SET), 1234);
    assert_true(hr_face_of(fd, &face));
    atomic_store(&fake_large.whole_error, -ENOSPC);
    assert_int_equal(hr_face_materialise(fd, &face), -ENOSPC);
    assert_true(hr_face_of(fd, &face));
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 1234);
    atomic_store(&fake_large.whole_error, 0);
    assert_int_equal(hr_face_materialise(fd, &face), 0);
    is_plain(fd, 1234);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    close(fd);
    fd = open_face(0);
    assert_int_equal(fcntl(fd, F_SETFD, 0), 0);
    assert_int_equal(hr_face_materialise_if(fd), 0);
    assert_int_equal(fcntl(fd, F_GETFD), 0);
    close(fd);
}

static void streams_read_plain_files(void **state)
{
    (void)state;
    int fd = open_face(0);
    assert_int_equal(lseek(fd, 50, SEEK_SET), 50);
    FILE *stream = fdopen(fd, "r");
    assert_non_null(stream);
    char text[16], name[32];
    assert_int_equal(fread(text, 1, 16, stream), 16);
    assert_true(fake_is_object(text, 16, 50));
    fclose(stream);
    fd = open_face(0);
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    stream = fopen(name, "r");
    assert_non_null(stream);
    assert_int_equal(fread(text, 1, 16, stream), 16);
    assert_true(fake_is_object(text, 16, 0));
    assert_null(fopen(name, "w"));
    assert_int_equal(errno, EROFS);
    stream = freopen(name, "r", stream);
    assert_non_null(stream);
    assert_int_equal(fread(text, 1, 8, stream), 8);
    stream = freopen(NULL, "r", stream);
    assert_non_null(stream);
    fclose(stream);
    atomic_store(&fake_large.whole_error, -ENOSPC);
    assert_null(fdopen(fd, "r"));
    assert_int_equal(errno, ENOSPC);
    close(fd);
}

static void aio_reads_plain_files(void **state)
{
    (void)state;
    char text[64];
    int fd = open_face(0);
    struct aiocb request = {
        .aio_fildes = fd, .aio_buf = text, .aio_nbytes = sizeof(text), .aio_offset = 70000};
    const struct aiocb *list[] = {&request};
    assert_int_equal(aio_read(&request), 0);
    while (aio_error(&request) == EINPROGRESS) {
        aio_suspend(list, 1, NULL);
    }
    assert_int_equal(aio_return(&request), sizeof(text));
    assert_true(fake_is_object(text, sizeof(text), 70000));
    is_plain(fd, 0);
    close(fd);
}

/* The inherited ones and their dups, whose offset stays one. */
static void inherited_faces_become_plain(void **state)
{
    (void)state;
    int fd = open_face(0), copy = dup(fd), other = open_face(0), kept = open_face(0);
    assert_int_equal(lseek(fd, 99, SEEK_SET), 99);
    assert_int_equal(fcntl(other, F_SETFD, 0), 0);
    assert_int_equal(lseek(other, 7, SEEK_SET), 7);
    assert_true(hr_face_is_open());
    assert_int_equal(hr_face_materialise_inherited(), 0);
    is_plain(fd, 99);
    is_plain(copy, 99);
    is_plain(other, 7);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(fcntl(copy, F_GETFD), 0);
    assert_int_equal(lseek(fd, 500, SEEK_SET), 500);
    assert_int_equal(lseek(copy, 0, SEEK_CUR), 500);
    assert_int_equal(lseek(other, 0, SEEK_CUR), 7);
    assert_true(hr_face_maybe(kept)); /* closed by the exec anyway */
    close(fd);
    close(copy);
    close(other);
    close(kept);
    assert_false(hr_face_is_open());
}

/* By posix_spawn: standard input is a face of ours. */
static int spawn_reader(int fd, char *const envp[], pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, 0);
    int error = posix_spawn(pid, "/bin/sh", &actions, NULL, reader, envp);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

static void spawned_children_read(void **state)
{
    (void)state;
    int fd = open_face(0), status;
    pid_t pid;
    assert_int_equal(lseek(fd, 3000, SEEK_SET), 3000);
    atomic_store(&fake_large.whole_error, -ENOSPC);
    assert_int_equal(spawn_reader(fd, bare, &pid), ENOSPC);
    atomic_store(&fake_large.whole_error, 0);
    assert_int_equal(spawn_reader(fd, bare, &pid), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    int out = open("scratch", O_RDONLY | O_CLOEXEC);
    holds(out, 3000, SIZE - 3000);
    close(out);
    is_plain(fd, (off_t)SIZE); /* the child's offset is ours */
    close(fd);
}

/* vfork and exec: the child changes its own descriptors and nothing of its parent's. */
static void a_vfork_child_leaves_its_parent_alone(void **state)
{
    (void)state;
    int fd = open_face(0), status;
    struct hr_face face;
    pid_t pid = vfork();
    if (pid == 0) {
        syscall(SYS_dup3, fd, 0, 0);
        atomic_store(&hr_standin_marks[0], HR_MARK_FACE); /* as the hook of dup2 does */
        execve("/bin/sh", reader, bare);
        _exit(99);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(hr_face_maybe(fd) && hr_face_of(fd, &face));
    int out = open("scratch", O_RDONLY | O_CLOEXEC);
    holds(out, 0, SIZE);
    close(out);
    close(fd);
}

/* ---- syscall()
 * ---------------------------------------------------------------------------------------------------- */

static void by_number(void **state)
{
    (void)state;
    int fd = open_face(0), out = scratch();
    char text[100];
    assert_int_equal(syscall(SYS_pread64, fd, text, sizeof(text), 70000), sizeof(text));
    assert_true(fake_is_object(text, sizeof(text), 70000));
    assert_int_equal(syscall(SYS_lseek, fd, 10, SEEK_SET), 10);
    assert_int_equal(syscall(SYS_read, fd, text, sizeof(text)), sizeof(text));
    assert_true(fake_is_object(text, sizeof(text), 10));
    struct iovec part = {text, 50};
    assert_int_equal(syscall(SYS_preadv2, fd, &part, 1, 65500, 0, 0), 50);
    assert_true(fake_is_object(text, 50, 65500));
    char *map = (char *)syscall(SYS_mmap, NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(fake_is_object(map, SIZE, 0));
    munmap(map, SIZE);
    off_t at = 0;
    assert_int_equal(syscall(SYS_sendfile, out, fd, &at, SIZE), SIZE);
    holds(out, 0, SIZE);
    fails(syscall(SYS_write, fd, text, 1), EBADF);
    fails(syscall(SYS_ftruncate, fd, 10), EINVAL);
    assert_int_equal(syscall(SYS_fcntl, fd, F_GETFL) & O_ACCMODE, O_RDONLY);
    long copy = syscall(SYS_dup, fd);
    assert_true(hr_face_maybe((int)copy));
    syscall(SYS_close, copy);
    assert_false(hr_face_maybe((int)copy));
    fails(syscall(425 /* io_uring_setup */, 1, text), ENOSYS);
    assert_false(hr_face_wants_whole());
    close(fd);
    close(out);
}

int main(int argc, char **argv)
{
    (void)argc;
    home = fake_reexec(argv, FAKE_MAP_TEXT);
    snprintf(cache, sizeof(cache), "%s/cache", home);
    fake_start(&fake, cache);
    char body[400];
    snprintf(body, sizeof(body), "say 'ok %s'", cache);
    fake_command(home, body);
    if (chdir(home)) {
        return 2;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_whole_object_is_mapped, new_face),
        cmocka_unit_test_setup(parts_begin_and_end_anywhere, new_face),
        cmocka_unit_test_setup(all_of_the_rest_is_asked_for_at_once, new_face),
        cmocka_unit_test_setup(beyond_the_end_is_sigbus, new_face),
        cmocka_unit_test_setup(arguments_are_judged_as_of_a_read_only_file, new_face),
        cmocka_unit_test_setup(places_are_honoured, new_face),
        cmocka_unit_test_setup(an_error_leaves_nothing, new_face),
        cmocka_unit_test_setup(a_mapping_grows, new_face),
        cmocka_unit_test_setup(a_private_mapping_keeps_its_changes, new_face),
        cmocka_unit_test_setup(what_is_mapped_there_now_decides, new_face),
        cmocka_unit_test(lines_of_maps),
        cmocka_unit_test_setup(sendfile_crosses_segments, new_face),
        cmocka_unit_test_setup(what_a_full_socket_did_not_take_is_not_read, new_face),
        cmocka_unit_test_setup(splice_and_copy_file_range, new_face),
        cmocka_unit_test_setup(a_lost_segment_ends_a_copy_where_it_is, new_face),
        cmocka_unit_test_setup(hints_and_sizes, new_face),
        cmocka_unit_test_setup(advice_of_a_descriptor, new_face),
        cmocka_unit_test_setup(advice_of_a_mapping, new_face),
        cmocka_unit_test_setup(materialised_in_place, new_face),
        cmocka_unit_test_setup(streams_read_plain_files, new_face),
        cmocka_unit_test_setup(aio_reads_plain_files, new_face),
        cmocka_unit_test_setup(inherited_faces_become_plain, new_face),
        cmocka_unit_test_setup(spawned_children_read, new_face),
        cmocka_unit_test_setup(a_vfork_child_leaves_its_parent_alone, new_face),
        cmocka_unit_test_setup(by_number, new_face),
    };
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    fake_die(&fake, false);
    return failures;
}
