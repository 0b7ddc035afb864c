#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "interpose/identity.h"

#define CAPACITY 16u

static struct hr_residents *table;

static int set_up(void **state)
{
    (void)state;
    table = calloc(1, sizeof(*table) + CAPACITY * sizeof(struct hr_resident));
    table->capacity = CAPACITY;
    return table ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    free(table);
    return 0;
}

static uint64_t put(uint64_t ino, uint64_t size, uint32_t nonce, uint64_t object_ino)
{
    uint64_t at = hr_ino_slot(ino, CAPACITY);
    while (table->records[at].ino) {
        at = (at + 1) % CAPACITY;
    }
    table->records[at].ino = ino;
    table->records[at].size = size;
    table->records[at].nonce = nonce;
    table->records[at].object_ino = object_ino;
    table->records[at].object_dev = 5;
    table->records[at].mtime_ns = -7;
    return at;
}

/* An inode number whose chain starts at that place. */
static uint64_t inode_at(uint64_t slot, unsigned skip)
{
    for (uint64_t ino = 1;; ino++) {
        if (hr_ino_slot(ino, CAPACITY) == slot && skip-- == 0) {
            return ino;
        }
    }
}

static void all_three_must_match(void **state)
{
    struct hr_identity got;
    (void)state;
    put(1000, 50, 777, 42);
    assert_true(hr_identity_lookup(table, 1000, 50, 777, &got));
    assert_int_equal(got.ino, 42);
    assert_int_equal(got.dev, 5);
    assert_int_equal(got.size, 50);
    assert_int_equal(got.mtime_ns, -7);
    assert_false(hr_identity_lookup(table, 1001, 50, 777, &got));
    assert_false(hr_identity_lookup(table, 1000, 51, 777, &got));
    assert_false(hr_identity_lookup(table, 1000, 50, 778, &got));
    assert_false(hr_identity_lookup(table, 0, 0, 0, &got));
    assert_false(hr_identity_lookup(table, HR_INO_GONE, 50, 777, &got));
}

/* Its record has the object's size, its file has none: neither is taken for the other. */
static void a_face_is_no_file_of_its_size(void **state)
{
    struct hr_identity got;
    (void)state;
    uint64_t at = put(1000, 50, 777, 42);
    table->records[at].flags = HR_RESIDENT_FACE;
    table->records[at].file_id = 99;
    assert_false(hr_identity_lookup(table, 1000, 50, 777, &got));
    assert_false(hr_identity_lookup(table, 1000, 0, 777, &got));
    assert_true(hr_identity_lookup_face(table, 1000, 777, &got));
    assert_int_equal(got.size, 50);
    assert_int_equal(got.file_id, 99);
    assert_false(hr_identity_lookup_face(table, 1000, 778, &got));
    put(1000, 0, 777, 43);
    assert_true(hr_identity_lookup(table, 1000, 0, 777, &got));
    assert_int_equal(got.ino, 43);
    assert_true(hr_identity_maybe(S_IFREG | 0200) && hr_identity_maybe(S_IFREG | 0400));
    assert_false(hr_identity_maybe(S_IFREG | 0600) || hr_identity_maybe(S_IFIFO | 0200));
}

static void a_repeated_inode_keeps_both(void **state)
{
    struct hr_identity got;
    (void)state;
    put(1000, 50, 1, 41);
    put(1000, 50, 2, 42);
    assert_true(hr_identity_lookup(table, 1000, 50, 1, &got));
    assert_int_equal(got.ino, 41);
    assert_true(hr_identity_lookup(table, 1000, 50, 2, &got));
    assert_int_equal(got.ino, 42);
}

static void chains_wrap_and_pass_tombstones(void **state)
{
    struct hr_identity got;
    uint64_t first = inode_at(CAPACITY - 1, 0), second = inode_at(CAPACITY - 1, 1);
    (void)state;
    put(first, 1, 1, 41);
    assert_int_equal(put(second, 2, 2, 42), 0);
    assert_true(hr_identity_lookup(table, second, 2, 2, &got));
    table->records[CAPACITY - 1].ino = HR_INO_GONE;
    assert_true(hr_identity_lookup(table, second, 2, 2, &got));
    assert_int_equal(got.ino, 42);
    assert_false(hr_identity_lookup(table, first, 1, 1, &got));
}

static void ends_in_a_full_table(void **state)
{
    struct hr_identity got;
    (void)state;
    for (uint64_t i = 0; i < CAPACITY; i++) {
        table->records[i].ino = HR_INO_GONE;
    }
    assert_false(hr_identity_lookup(table, 1000, 50, 777, &got));
}

static void a_torn_record_is_not_believed(void **state)
{
    struct hr_identity got;
    (void)state;
    uint64_t at = put(1000, 50, 777, 42);
    table->records[at].seq = 3;
    assert_false(hr_identity_lookup(table, 1000, 50, 777, &got));
    table->records[at].seq = 4;
    assert_true(hr_identity_lookup(table, 1000, 50, 777, &got));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_three_must_match, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_face_is_no_file_of_its_size, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_repeated_inode_keeps_both, set_up, tear_down),
        cmocka_unit_test_setup_teardown(chains_wrap_and_pass_tombstones, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ends_in_a_full_table, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_torn_record_is_not_believed, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
