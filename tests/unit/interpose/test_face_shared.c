/* Those who read a large object at the same time: by one offset, and by one table of segments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "interpose/segment.h"
#include "interpose/segment_table.h"
#include "tests/unit/interpose/face_entry.h"

#define READERS 4

/* ---- shared offsets ---- */

static int shared_fd;
static _Atomic uint8_t taken[FAKE_LARGE_BYTES / 8 + 1];
static _Atomic unsigned wrong;

/* Where these bytes of the object lie, which begin at a word. UINT64_MAX: nowhere. */
static uint64_t word_of(const char *bytes, size_t len)
{
    uint64_t last = FAKE_LARGE_BYTES / 8;
    /* Less than a word is the object's end alone: a byte of it is found in many places. */
    for (uint64_t at = len < 8 ? last : 0; at <= last; at++) {
        size_t look = len < 16 ? len : 16;
        if (fake_is_object(bytes, look, at * 8)) {
            return fake_is_object(bytes, len, at * 8) ? at : UINT64_MAX;
        }
    }
    return UINT64_MAX;
}

static void *read_shared(void *pointer)
{
    char *mine = malloc(1 << 17);
    unsigned round = (unsigned)(uintptr_t)pointer;
    for (;;) {
        size_t len = 8 + hr_mix64(++round) % 1600 / 8 * 8;
        ssize_t got = read(shared_fd, mine, len);
        if (got <= 0) {
            wrong += got < 0;
            break;
        }
        uint64_t at = word_of(mine, (size_t)got);
        if (at == UINT64_MAX) {
            wrong++;
            break;
        }
        for (size_t i = 0; i < ((size_t)got + 7) / 8; i++) {
            wrong += atomic_fetch_add(&taken[at + i], 1) != 0;
        }
    }
    free(mine);
    return NULL;
}

static void threads_that_share_an_offset_read_each_byte_once(void **state)
{
    pthread_t threads[READERS];
    (void)state;
    shared_fd = open_large();
    wrong = 0;
    memset((void *)taken, 0, sizeof(taken));
    for (uintptr_t i = 0; i < READERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, read_shared, (void *)(i * 1000)), 0);
    }
    for (unsigned i = 0; i < READERS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(wrong, 0);
    for (unsigned i = 0; i < (FAKE_LARGE_BYTES + 7) / 8; i++) {
        assert_int_equal(taken[i], 1);
    }
    assert_int_equal(lseek(shared_fd, 0, SEEK_CUR), SIZE);
    close(shared_fd);
}

static void forked_children_share_the_offset(void **state)
{
    (void)state;
    int fd = open_large();
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0) {
            bool good = read(fd, buffer, 1000) == 1000 && fake_is_object(buffer, 1000, (uint64_t)i * 2000);
            _exit(!good);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        assert_int_equal(read(fd, buffer, 1000), 1000);
        assert_true(fake_is_object(buffer, 1000, (uint64_t)i * 2000 + 1000));
    }
    close(fd);
}

/* ---- the table ---- */

static _Atomic bool stop;

static unsigned read_at_random(int fd, unsigned seed, unsigned times)
{
    char mine[3000];
    for (unsigned i = 0; i < times && !atomic_load(&stop); i++) {
        uint64_t at = hr_mix64(((uint64_t)seed << 32) + i + 1) % (FAKE_LARGE_BYTES - sizeof(mine));
        if (pread(fd, mine, sizeof(mine), (off_t)at) != sizeof(mine) ||
            !fake_is_object(mine, sizeof(mine), at)) {
            return 1;
        }
    }
    return 0;
}

static void *read_here_and_there(void *pointer)
{
    wrong += read_at_random(shared_fd, (unsigned)(uintptr_t)pointer + 1, UINT32_MAX);
    return NULL;
}

/* Evictions, forks and readers at the same time. */
static void the_table_holds_under_threads_and_forks(void **state)
{
    pthread_t threads[READERS];
    (void)state;
    shared_fd = open_large();
    wrong = 0;
    atomic_store(&stop, false);
    for (uintptr_t i = 0; i < READERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, read_here_and_there, (void *)i), 0);
    }
    for (unsigned i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            _exit((int)read_at_random(shared_fd, 100 + i, 50));
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        fake_drop_segment(&fake, i % FAKE_SEGMENTS);
    }
    atomic_store(&stop, true);
    for (unsigned i = 0; i < READERS; i++) {
        pthread_join(threads[i], NULL);
    }
    atomic_store(&stop, false);
    assert_int_equal(wrong, 0);
    close(shared_fd);
}

static void the_table_forgets_the_oldest_alone(void **state)
{
    struct hr_segment known;
    (void)state;
    struct hr_segment piece = {.file_id = 9, .offset = 4096, .bytes = 100};
    struct hr_segment whole = {.file_id = 10, .offset = 0, .bytes = 5ull * HR_CELL_BYTES};
    hr_segment_remember(77, &piece);
    assert_true(hr_segment_recall(77, 4195, &known));
    assert_int_equal(known.file_id, 9);
    assert_false(hr_segment_recall(77, 4196, &known));
    assert_false(hr_segment_recall(77, 4095, &known));
    assert_false(hr_segment_recall(78, 4100, &known));
    hr_segment_remember(77, &whole);
    assert_true(hr_segment_recall(77, 4ull * HR_CELL_BYTES + 5, &known));
    assert_int_equal(known.file_id, 10);
    assert_true(hr_segment_recall(77, 4100, &known));
    assert_int_equal(known.file_id, 9);
    hr_segment_forget(77, &piece);
    assert_true(hr_segment_recall(77, 4100, &known));
    assert_int_equal(known.file_id, 10);
    hr_segment_forget(77, &whole);
    assert_false(hr_segment_recall(77, 4100, &known));
    /* Far more than it has room for: the newest is there, and a wrong one never. */
    for (uint64_t i = 0; i < 5000; i++) {
        struct hr_segment cell = {.file_id = 1000 + i, .offset = i * HR_CELL_BYTES, .bytes = HR_CELL_BYTES};
        hr_segment_remember(79, &cell);
        assert_true(hr_segment_recall(79, cell.offset + 17, &known));
        assert_int_equal(known.file_id, 1000 + i);
    }
    unsigned kept = 0;
    for (uint64_t i = 0; i < 5000; i++) {
        bool found = hr_segment_recall(79, i * HR_CELL_BYTES, &known);
        assert_true(!found || known.file_id == 1000 + i);
        kept += found;
    }
    assert_in_range(kept, 256, 512);
}

int main(int argc, char **argv)
{
    (void)argc;
    group_begin(argv);
    fake_publish(&fake, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(threads_that_share_an_offset_read_each_byte_once, fresh),
        cmocka_unit_test_setup(forked_children_share_the_offset, fresh),
        cmocka_unit_test_setup(the_table_holds_under_threads_and_forks, fresh),
        cmocka_unit_test_setup(the_table_forgets_the_oldest_alone, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, group_end);
}
