/* As much of cmocka as the unit tests of libc-only code use, for machines that a cross compiler builds for
 * and that have no cmocka: a test ends at its first wrong assertion, the program with the number of tests
 * that failed. */
#ifndef HR_CROSS_CMOCKA_H
#define HR_CROSS_CMOCKA_H

#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*test)(void **state);
    int (*setup)(void **state);
    int (*teardown)(void **state);
    void *initial;
};

#define cmocka_unit_test_setup_teardown(test, setup, teardown)                                               \
    {                                                                                                        \
#test, test, setup, teardown, NULL                                                                   \
    }
#define cmocka_unit_test(test) cmocka_unit_test_setup_teardown(test, NULL, NULL)
#define cmocka_unit_test_setup(test, setup) cmocka_unit_test_setup_teardown(test, setup, NULL)
#define cmocka_run_group_tests(tests, setup, teardown)                                                       \
    cross_run(#tests, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)
#define cmocka_run_group_tests_name(name, tests, setup, teardown)                                            \
    cross_run(name, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)

static jmp_buf cross_failed;

__attribute__((unused, noreturn)) static void cross_fail(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: %s\n", file, line, what);
    longjmp(cross_failed, 1);
}

__attribute__((unused)) static int cross_one(const struct CMUnitTest *test, void **state)
{
    volatile int bad = 1;
    if (setjmp(cross_failed) == 0 && (!test->setup || test->setup(state) == 0)) {
        test->test(state);
        bad = 0;
    }
    if (test->teardown) {
        (void)test->teardown(state);
    }
    printf("%s %s\n", bad ? "not ok" : "ok", test->name);
    return bad;
}

__attribute__((unused)) static int cross_run(const char *name, const struct CMUnitTest *tests, size_t count,
                                             int (*setup)(void **), int (*teardown)(void **))
{
    void *group = NULL;
    int bad = setup ? setup(&group) != 0 : 0;
    for (size_t i = 0; i < count && !(setup && bad && i == 0); i++) {
        void *state = tests[i].initial ? tests[i].initial : group;
        bad += cross_one(&tests[i], &state);
    }
    if (teardown) {
        bad += teardown(&group) != 0;
    }
    printf("%s: %d of %zu failed\n", name, bad, count);
    fflush(stdout);
    return bad;
}

#define cross_expect(condition, what)                                                                        \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            cross_fail(__FILE__, __LINE__, (what));                                                          \
        }                                                                                                    \
    } while (0)
#define fail_msg(...)                                                                                        \
    do {                                                                                                     \
        fprintf(stderr, __VA_ARGS__);                                                                        \
        cross_fail(__FILE__, __LINE__, " failed");                                                           \
    } while (0)
#define fail() cross_fail(__FILE__, __LINE__, "fail()")
#define print_message(...) printf(__VA_ARGS__)
#define assert_true(a) cross_expect((a), #a)
#define assert_false(a) cross_expect(!(a), "not " #a)
#define assert_null(a) cross_expect(!(a), #a " is NULL")
#define assert_non_null(a) cross_expect((a), #a " is not NULL")
#define assert_int_equal(a, b)                                                                               \
    cross_expect((uintmax_t)(intmax_t)(a) == (uintmax_t)(intmax_t)(b), #a " == " #b)
#define assert_int_not_equal(a, b)                                                                           \
    cross_expect((uintmax_t)(intmax_t)(a) != (uintmax_t)(intmax_t)(b), #a " != " #b)
#define assert_ptr_equal(a, b) cross_expect((const void *)(a) == (const void *)(b), #a " == " #b)
#define assert_ptr_not_equal(a, b) cross_expect((const void *)(a) != (const void *)(b), #a " != " #b)
#define assert_string_equal(a, b) cross_expect(strcmp((a), (b)) == 0, #a " equals " #b)
#define assert_memory_equal(a, b, bytes) cross_expect(memcmp((a), (b), (bytes)) == 0, #a " equals " #b)
#define assert_in_range(a, low, high)                                                                        \
    cross_expect((uintmax_t)(a) >= (uintmax_t)(low) && (uintmax_t)(a) <= (uintmax_t)(high), #a " in range")

#endif
