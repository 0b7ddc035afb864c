/* The shared table, read as a client reads it (interpose/abi.h): by inode, while it changes and grows. */
#include "tests/unit/cache/lab.h"
#include "tests/unit/cache/view.h"

#include <pthread.h>

#include "fetch/cache/residents.h"

static void stat_id(const struct lab *lab, uint64_t id, struct stat *st)
{
    char path[PATH_MAX];
    lab_path(lab, id, path);
    assert_int_equal(stat(path, st), 0);
}

static void check_record(const struct lab *lab, const struct view *view, uint64_t id, const char *key)
{
    struct stat st;
    struct copy copy;
    stat_id(lab, id, &st);
    assert_true(look_up(view, st.st_ino, &copy));
    assert_true(copy.size == (uint64_t)st.st_size && copy.nonce == (uint32_t)st.st_mtim.tv_nsec);
    assert_int_equal(copy.mtime_ns, 1700000000123456789);
    assert_int_equal(copy.object_dev, 4242);
    assert_true(copy.object_ino == hr_object_ino(77, key, strlen(key), "", 0));
    assert_true(copy.file_id == id);
    assert_int_equal(copy.flags, 0);
}

/* Through the front door: there when done is called, kept when evicted, there again after a restart. */
static void life_of_a_record(void **state)
{
    struct lab *lab = *state;
    struct view view;
    struct stat st;
    struct copy copy;
    uint64_t ids[3];
    lab_open(lab);
    assert_true(view_open(&view, lab->dir, lab->boot, 1));
    for (int i = 0; i < 3; i++) {
        char key[8];
        (void)snprintf(key, sizeof(key), "k%d", i);
        assert_int_equal(lab_put_whole(lab, key, "e", 3000, NULL, &ids[i]), 0);
        check_record(lab, &view, ids[i], key);
    }
    stat_id(lab, ids[0], &st);
    hr_cache_drop(lab->cache, ids[0]);
    assert_true(look_up(&view, st.st_ino, &copy));
    assert_int_equal(copy.flags, HR_RESIDENT_EVICTED);
    assert_int_equal(copy.file_id, ids[0]);
    assert_false(look_up(&view, st.st_ino + 1000003, &copy));
    view_close(&view);
    uint64_t before = lab->boot;
    lab_close(lab);
    lab_open(lab);
    assert_false(view_open(&view, lab->dir, before, 1));
    assert_true(view_open(&view, lab->dir, lab->boot, 1));
    assert_false(look_up(&view, st.st_ino, &copy));
    check_record(lab, &view, ids[1], "k1");
    check_record(lab, &view, ids[2], "k2");
    view_close(&view);
}

/* 9,000 real puts: the table grows once (8,192 records, 3/4 full), the old map is told, everything is in the
 * new one. */
static void growth_through_puts(void **state)
{
    struct lab *lab = *state;
    enum { PUTS = 9000 };
    struct view first;
    struct view second;
    static uint64_t ids[PUTS];
    lab_open(lab);
    assert_true(view_open(&first, lab->dir, lab->boot, 1));
    for (int i = 0; i < PUTS; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i);
        assert_int_equal(lab_put_whole(lab, key, "e", 1, NULL, &ids[i]), 0);
    }
    struct hr_cache_stats stats;
    hr_cache_stats(lab->cache, &stats);
    assert_int_equal(lab->grown_count, 1);
    assert_int_equal(lab->grown_gen, 2);
    assert_int_equal(stats.residents_gen, 2);
    assert_int_equal(atomic_load(&first.map->retired), 1);
    assert_true(view_open(&second, lab->dir, lab->boot, 2));
    assert_false(view_open(&first, lab->dir, lab->boot, 1)); /* its name is gone, its map is not */
    assert_int_equal(atomic_load(&second.map->retired), 0);
    for (int i = 0; i < PUTS; i += 37) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i);
        check_record(lab, &second, ids[i], key);
    }
    view_close(&second);
}

static struct hr_resident_fields fields_of(uint64_t ino, uint64_t file_id)
{
    return (struct hr_resident_fields){
        .ino = ino,
        .size = file_id * 3,
        .mtime_ns = (int64_t)file_id * 5,
        .object_ino = file_id * 7,
        .file_id = file_id,
        .object_dev = (uint32_t)file_id * 11,
        .nonce = (uint32_t)file_id * 13,
    };
}

static bool consistent(const struct copy *copy)
{
    uint64_t id = copy->file_id;
    return copy->size == id * 3 && copy->mtime_ns == (int64_t)id * 5 && copy->object_ino == id * 7 &&
           copy->object_dev == (uint32_t)id * 11 && copy->nonce == (uint32_t)id * 13;
}

/* Inodes that never come again (btrfs, tmpfs): evicted records are kept for a while, then their places are
 * tombs, and chains still lead past them. */
static void tombstones(void **state)
{
    struct lab *lab = *state;
    enum { LIVING = 2000, ALL = 300000 };
    struct hr_residents_table *table = NULL;
    struct view view;
    struct copy copy;
    const struct hr_residents_options options = {
        .dir = lab->dir, .boot = 5, .grown = lab_grown, .owner = lab};
    assert_int_equal(hr_residents_open(&options, &table), 0);
    for (uint64_t id = 1; id <= ALL; id++) {
        struct hr_resident_fields fields = fields_of(id + 100, id);
        assert_int_equal(hr_residents_reserve(table, 1), 0);
        hr_residents_put(table, &fields);
        if (id > LIVING) {
            hr_residents_evict(table, id - LIVING + 100, id - LIVING);
            hr_residents_evict(table, id - LIVING + 100, id - LIVING); /* again: nothing */
            hr_residents_evict(table, id + 100, id - LIVING);          /* another object's inode: nothing */
        }
    }
    assert_true(view_open(&view, lab->dir, 5, hr_residents_gen(table)));
    assert_true(view.map->capacity <=
                8 * (LIVING + HR_EVICTED_KEPT)); /* bounded by what is kept, not by ALL */
    unsigned tombs = 0;
    for (uint64_t i = 0; i < view.map->capacity; i++) {
        tombs += atomic_load(&view.map->records[i].ino) == HR_INO_GONE;
    }
    assert_true(tombs > 0);
    for (uint64_t id = 1; id <= ALL; id++) {
        bool living = id > ALL - LIVING;
        bool kept = id > ALL - LIVING - HR_EVICTED_KEPT;
        assert_int_equal(look_up(&view, id + 100, &copy), living || kept);
        if (kept) {
            assert_int_equal(copy.flags, living ? 0 : HR_RESIDENT_EVICTED);
            assert_true(copy.file_id == id && consistent(&copy));
        }
    }
    /* An evicted inode comes again: replaced in its place, and its turn to be buried does not touch it. */
    struct hr_resident_fields again = fields_of(ALL - LIVING - 5 + 100, ALL + 1);
    hr_residents_put(table, &again);
    assert_true(look_up(&view, ALL - LIVING - 5 + 100, &copy));
    assert_true(copy.file_id == ALL + 1 && copy.flags == 0);
    view_close(&view);
    hr_residents_close(table);
}

struct race {
    struct view view;
    atomic_bool stop;
    atomic_ulong reads;
    atomic_ulong wrong;
};

static void *reader(void *argument)
{
    struct race *race = argument;
    uint64_t ino = 1;
    while (!atomic_load_explicit(&race->stop, memory_order_relaxed)) {
        struct copy copy;
        if (look_up(&race->view, 1 + ino++ % 64, &copy)) {
            (void)atomic_fetch_add_explicit(&race->reads, 1, memory_order_relaxed);
            if (!consistent(&copy)) {
                (void)atomic_fetch_add_explicit(&race->wrong, 1, memory_order_relaxed);
            }
        }
    }
    return NULL;
}

/* A reader never sees half of one record and half of another. */
static void reader_beside_writer(void **state)
{
    struct lab *lab = *state;
    struct race race = {.stop = false};
    pthread_t thread;
    struct hr_residents_table *table = NULL;
    const struct hr_residents_options options = {.dir = lab->dir, .boot = 6};
    assert_int_equal(hr_residents_open(&options, &table), 0);
    assert_true(view_open(&race.view, lab->dir, 6, 1));
    assert_int_equal(pthread_create(&thread, NULL, reader, &race), 0);
    int64_t end_ms = hr_clock_ms() + 1500;
    for (uint64_t id = 1; hr_clock_ms() < end_ms; id++) {
        struct hr_resident_fields fields = fields_of(1 + id * 31 % 64, id);
        hr_residents_put(table, &fields);
        hr_residents_evict(table, 1 + id * 17 % 64, id);
    }
    atomic_store(&race.stop, true);
    (void)pthread_join(thread, NULL);
    assert_true(atomic_load(&race.reads) > 1000);
    assert_int_equal(atomic_load(&race.wrong), 0);
    view_close(&race.view);
    hr_residents_close(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(life_of_a_record, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(growth_through_puts, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(tombstones, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(reader_beside_writer, lab_set_up, lab_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
