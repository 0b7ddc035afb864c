/* Mappings of a large object, against a daemon that the test plays: mmap here is ours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <signal.h>

#include <cmocka.h>

#include "interpose/vma.h"
#include "tests/unit/interpose/face_files.h"

/* ---- mmap ---- */

static void fails_map(void *result, int error)
{
    int got = errno;
    assert_ptr_equal(result, MAP_FAILED);
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

/* ---- mremap ---- */

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

/* ---- syscall() ---- */

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
    assert_int_equal(syscall(SYS_preadv2, fd, &part, 1, 65500, 0, 0L), 50);
    assert_true(fake_is_object(text, 50, 65500));
    /* long: of an int on the stack the upper half is anything */
    char *map = (char *)syscall(SYS_mmap, NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0L);
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
    fails(syscall(425, 1, text), ENOSYS); /* whether a large object is open or not */
}

int main(int argc, char **argv)
{
    (void)argc;
    group_begin(argv);
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
        cmocka_unit_test_setup(by_number, new_face),
    };
    return cmocka_run_group_tests(tests, NULL, group_end);
}
