/* Ranks of files against a count made by hand, over block borders and holes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "fetch/plan/ranks.h"

static void check(uint64_t count, unsigned (*kind)(uint64_t))
{
    struct hr_names names = {.entry_count = count};
    struct hr_entry *entries = calloc(count, sizeof *entries);
    struct hr_index index = {.names = &names, .entries = entries};
    struct hr_ranks *ranks = NULL;
    uint64_t files = 0;
    for (uint64_t i = 0; i < count; i++) {
        entries[i].kind = (uint8_t)kind(i);
    }
    assert_int_equal(hr_ranks_build(&index, &ranks), 0);
    for (uint64_t i = 0; i < count; i++) {
        if (entries[i].kind == HR_KIND_FILE) {
            assert_true(hr_ranks_of(ranks, (uint32_t)i) == files);
            assert_true(hr_ranks_entry(ranks, files) == i);
            files++;
        }
    }
    assert_true(hr_ranks_count(ranks) == files);
    hr_ranks_free(ranks);
    free(entries);
}

static unsigned all_files(uint64_t i)
{
    return i == 0 ? HR_KIND_DIR : HR_KIND_FILE;
}

static unsigned every_third(uint64_t i)
{
    return i % 3 == 2 ? HR_KIND_FILE : HR_KIND_DIR;
}

static unsigned only_the_ends(uint64_t i)
{
    return i == 1 || i == 2999 ? HR_KIND_FILE : HR_KIND_DIR;
}

static unsigned blocks_of_both(uint64_t i)
{
    return i / 700 % 2 ? HR_KIND_FILE : HR_KIND_DIR;
}

static void test_ranks(void **state)
{
    (void)state;
    static const uint64_t counts[] = {1, 2, 63, 64, 65, 511, 512, 513, 3000, 10000};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        check(counts[i], all_files);
        check(counts[i], every_third);
        check(counts[i], only_the_ends);
        check(counts[i], blocks_of_both);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ranks)};
    return cmocka_run_group_tests_name("ranks", tests, NULL, NULL);
}
