/* The line of progress: figures, rates of the last seconds, time left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "fetch/cmd/progress.h"

#define MIB (1u << 20)

static void expect_line(struct hr_progress *progress, const struct hr_progress_figures *figures,
                        int64_t now_ms, bool last, const char *wanted)
{
    char line[256];
    hr_progress_line(progress, figures, now_ms, last, line, sizeof line);
    assert_string_equal(line, wanted);
}

static void test_rate_and_time_left(void **state)
{
    struct hr_progress progress = {.what = "files", .with_bytes = true, .started_ms = 1000};
    struct hr_progress_figures at = {.items_total = 1000, .bytes_total = 100 * MIB};
    (void)state;
    expect_line(&progress, &at, 1000, false, "0 of 1000 files, 0.0 of 100.0 MiB");
    at.items = 100;
    at.bytes = 10 * MIB;
    expect_line(&progress, &at, 2000, false,
                "100 of 1000 files, 10.0 of 100.0 MiB, 100/s, 10.0 MiB/s, 0:09 left");
    at.items = 200; /* small ones come now: their number tells, not their bytes */
    expect_line(&progress, &at, 3000, false,
                "200 of 1000 files, 10.0 of 100.0 MiB, 100/s, 5.0 MiB/s, 0:18 left");
    at.items = 1000;
    at.bytes = 100 * MIB;
    expect_line(&progress, &at, 11000, true,
                "1000 of 1000 files, 100.0 of 100.0 MiB, 100/s, 10.0 MiB/s, in 0:10");
}

static void test_only_the_last_seconds_count(void **state)
{
    struct hr_progress progress = {.what = "names"};
    struct hr_progress_figures at = {.items_total = 100000};
    char line[256];
    (void)state;
    for (int64_t ms = 0; ms <= 60000; ms += 500) { /* a slow minute */
        at.items = (uint64_t)ms / 1000;
        hr_progress_line(&progress, &at, ms, false, line, sizeof line);
    }
    for (int64_t ms = 60500; ms <= 90000; ms += 500) {
        at.items = 60 + (uint64_t)(ms - 60000);
        hr_progress_line(&progress, &at, ms, false, line, sizeof line);
    }
    assert_string_equal(line, "30060 of 100000 names, 1000/s, 1:10 left");
}

static void test_without_a_total(void **state)
{
    struct hr_progress progress = {.what = "names"};
    struct hr_progress_figures at = {.items = 0};
    (void)state;
    expect_line(&progress, &at, 0, false, "0 names");
    at.items = 5000;
    expect_line(&progress, &at, 2000, false, "5000 names, 2500/s");
    at.items = 7300000;
    expect_line(&progress, &at, 7300000, true, "7300000 names, 1000/s, in 2:01:40");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rate_and_time_left),
        cmocka_unit_test(test_only_the_last_seconds_count),
        cmocka_unit_test(test_without_a_total),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
