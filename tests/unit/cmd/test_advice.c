/* What is said of a report: each rule where it holds, and only there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "fetch/cmd/advice.h"

struct told {
    unsigned count;
    char lines[HR_ADVICE_LINES][HR_ADVICE_BYTES];
};

static struct told tell(const char *text)
{
    struct told told;
    json_t *report = json_loads(text, 0, NULL);
    assert_non_null(report);
    told.count = hr_advice(report, told.lines);
    json_decref(report);
    return told;
}

static void expect_one(const char *text, const char *part)
{
    struct told told = tell(text);
    assert_int_equal(told.count, 1);
    if (!strstr(told.lines[0], part)) {
        fail_msg("'%s' is not in '%s'", part, told.lines[0]);
    }
}

static void test_nothing_stands_out(void **state)
{
    (void)state;
    assert_int_equal(tell("{}").count, 0);
    assert_int_equal(tell("{\"waits\":{\"ms\":0,\"count\":0}}").count, 0);
    /* The first batch of a job. */
    assert_int_equal(
        tell("{\"waits\":{\"ms\":90,\"by\":{\"demand\":{\"count\":8,\"ms\":80},\"listing\":{\"ms\":5}}}}")
            .count,
        0);
}

static void test_each_rule(void **state)
{
    (void)state;
    expect_one(
        "{\"waits\":{\"ms\":1000,\"by\":{\"throttled\":{\"ms\":900}}},\"throttled\":7,\"connections\":256}",
        "`connections` (it is 256)");
    expect_one("{\"waits\":{\"ms\":1000,\"by\":{\"retry\":{\"ms\":900}}},\"retries\":3}",
               "3 requests had to be sent");
    expect_one("{\"errors\":2}", "`timeout_s`");
    expect_one("{\"cache\":{\"budget_bytes\":1073741824,\"evictions\":9},\"index\":{\"bytes\":4294967296}}",
               "(1.0 GiB) is smaller than what is listed (4.0 GiB)");
    expect_one("{\"waits\":{\"ms\":10,\"by\":{\"room\":{\"ms\":9}}}}", "`cache_size`");
    expect_one("{\"waits\":{\"ms\":10,\"by\":{\"listing\":{\"ms\":9}}}}", "`revalidate`");
    expect_one("{\"waits\":{\"ms\":10,\"by\":{\"name\":{\"ms\":9,\"count\":40}}}}", "40 names");
    expect_one("{\"waits\":{\"ms\":10,\"by\":{\"demand\":{\"ms\":9,\"count\":40}}}}", "num_workers > 0");
    expect_one("{\"waits\":{\"ms\":10,\"by\":{\"demand\":{\"ms\":9,\"count\":40}}},"
               "\"prefetch\":{\"lookahead\":{\"fetched\":100}}}",
               "though look-ahead worked");
    expect_one("{\"waits\":{\"ms\":10,\"by\":{\"late\":{\"ms\":9,\"count\":40}}}}", "prefetch_factor");
    expect_one(
        "{\"bytes\":{\"fetched\":100000000,\"wasted\":50000000},\"prefetch\":{\"sweep\":{\"wasted_bytes\":"
        "40000000}}}",
        "`prefetch=off`");
}

static void test_a_cache_that_fits_is_not_too_small(void **state)
{
    (void)state;
    assert_int_equal(tell("{\"cache\":{\"budget_bytes\":10,\"evictions\":9},\"index\":{\"bytes\":5}}").count,
                     0);
    assert_int_equal(tell("{\"cache\":{\"budget_bytes\":5,\"evictions\":0},\"index\":{\"bytes\":10}}").count,
                     0);
    /* Said once, of what is the cause. */
    expect_one(
        "{\"waits\":{\"ms\":10,\"by\":{\"room\":{\"ms\":9}}},\"cache\":{\"budget_bytes\":5,\"evictions\":2},"
        "\"index\":{\"bytes\":10}}",
        "is smaller than");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_stands_out),
        cmocka_unit_test(test_each_rule),
        cmocka_unit_test(test_a_cache_that_fits_is_not_too_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
