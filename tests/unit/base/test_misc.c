/* Histogram, clocks, random numbers and the log. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fetch/base/cleanup.h"
#include "fetch/base/clock.h"
#include "fetch/base/hist.h"
#include "fetch/base/log.h"

static void quantiles_are_upper_bounds(void **state)
{
    (void)state;
    static struct hr_hist hist;
    assert_int_equal(hr_hist_quantile_us(&hist, 0.5), 0);
    for (uint64_t us = 1; us <= 100000; us++) {
        hr_hist_add(&hist, us);
    }
    assert_true(hist.count == 100000 && hist.max_us == 100000);
    const double qs[] = {0.01, 0.1, 0.5, 0.9, 0.99, 0.999};
    for (size_t i = 0; i < sizeof(qs) / sizeof(qs[0]); i++) {
        double exact = qs[i] * 100000;
        double got = (double)hr_hist_quantile_us(&hist, qs[i]);
        assert_true(got >= exact && got <= exact * 1.26 + 1); /* a bucket is at most a quarter octave wide */
    }
    assert_true(hr_hist_quantile_us(&hist, 1.0) == 100000);
}

static void extremes_have_buckets(void **state)
{
    (void)state;
    static struct hr_hist hist;
    const uint64_t values[] = {0, 1, 2, 3, UINT32_MAX, UINT64_MAX};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        memset(&hist, 0, sizeof(hist));
        hr_hist_add(&hist, values[i]);
        assert_true(hr_hist_quantile_us(&hist, 0.5) == values[i]);
    }
}

static void clocks_move_and_random_differs(void **state)
{
    (void)state;
    int64_t ms = hr_clock_ms(), us = hr_clock_us();
    assert_true(us / 1000 - ms >= 0 && us / 1000 - ms < 1000);
    (void)usleep(2000);
    assert_true(hr_clock_us() - us >= 2000);
    assert_true(hr_clock_wall_ns() > 1700000000LL * 1000000000);
    double sum = 0;
    for (int i = 0; i < 10000; i++) {
        double unit = hr_random_unit();
        assert_true(unit >= 0 && unit < 1);
        sum += unit;
    }
    assert_true(sum > 4700 && sum < 5300); /* ten standard deviations */
    assert_true(hr_random_u64() != hr_random_u64());
}

static size_t read_log(const char *path, char *text, size_t room)
{
    hr_cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = read(fd, text, room - 1);
    assert_true(len >= 0);
    text[len] = '\0';
    return (size_t)len;
}

static void log_lines(void **state)
{
    (void)state;
    char path[] = "/tmp/hr-log-XXXXXX", text[8192], big[4000];
    int made = mkstemp(path);
    assert_true(made >= 0);
    (void)close(made);
    assert_int_equal(hr_log_open("/nonexistent/x", HR_LOG_INFO), -ENOENT);
    assert_int_equal(hr_log_open(path, HR_LOG_INFO), 0);

    errno = 77;
    hr_log(HR_LOG_INFO, "key=%s", "a\nerror forged\x7f\tb");
    hr_log(HR_LOG_DEBUG, "not shown");
    assert_int_equal(errno, 77);
    (void)read_log(path, text, sizeof(text));
    assert_non_null(strstr(text, " info key=a\\x0aerror forged\\x7f\\x09b\n"));
    assert_null(strstr(text, "not shown"));
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);

    assert_int_equal(truncate(path, 0), 0);
    memset(big, '\n', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    hr_log(HR_LOG_ERROR, "%s", big);
    size_t len = read_log(path, text, sizeof(text));
    assert_true(len > 1000 && len <= 1024);
    assert_ptr_equal(strchr(text, '\n'), text + len - 1);

    assert_int_equal(hr_log_open(NULL, HR_LOG_INFO), 0);
    (void)unlink(path);
}

static void cleanup_releases_unless_stolen(void **state)
{
    (void)state;
    int kept, dropped;
    {
        hr_cleanup_fd int a = open("/dev/null", O_RDONLY | O_CLOEXEC);
        hr_cleanup_fd int b = open("/dev/null", O_RDONLY | O_CLOEXEC);
        dropped = a;
        kept = hr_steal_fd(b);
        assert_int_equal(b, -1);
    }
    assert_int_equal(fcntl(dropped, F_GETFD), -1);
    assert_true(fcntl(kept, F_GETFD) >= 0);
    (void)close(kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_upper_bounds),     cmocka_unit_test(extremes_have_buckets),
        cmocka_unit_test(clocks_move_and_random_differs), cmocka_unit_test(log_lines),
        cmocka_unit_test(cleanup_releases_unless_stolen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
