/* include= and exclude=: which paths of a map are there. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fetch/list/filter.h"

static bool admits(const char *include, const char *exclude, const char *path)
{
    struct hr_filter *filter = NULL;
    char message[256] = "";
    int error = hr_filter_new(include, exclude, &filter, message);
    assert_int_equal(error, 0);
    bool found = hr_filter_admits(filter, path, strlen(path));
    hr_filter_free(filter);
    return found;
}

static void test_filter_rows(void **state)
{
    (void)state;
    static const struct {
        const char *include, *exclude, *path;
        bool there;
    } rows[] = {
        {"", "", "a/b", true},
        {NULL, NULL, "", true},
        {"*.jpg", "", "a/b.jpg", true},
        {"*.jpg", "", "b.jpg", true},
        {"*.jpg", "", "a/b.jpeg", false},
        {"*.jpg", "", "a/.jpg", true},
        {"*.jpg,*.png", "", "x.png", true},
        {"*.jpg,*.png", "*/y/**", "x/y/1.png", false},
        {"", "*.tmp", "a/b.tmp", false},
        {"", "*.tmp", "a/b.tmp.jpg", true},
        {"", "*.tmp", "dir.tmp/x", false},
        {"train", "", "train/a/1", true},
        {"train", "", "val/train/1", true},
        {"/train", "", "val/train/1", false},
        {"/train/*", "", "val/train/1", false},
        {"/train/", "", "train/1", true},
        {"train/*", "", "train/a/b", true},
        {"train/*.jpg", "", "train/a/b.jpg", false},
        {"train/**.jpg", "", "train/a/b.jpg", true},
        {"**/b.jpg", "", "b.jpg", true},
        {"**/b.jpg", "", "x/y/b.jpg", true},
        {"**/b.jpg", "", "x/yb.jpg", false},
        {"a/**/z", "", "a/z", true},
        {"a/**/z", "", "a/b/c/z", true},
        {"a/**/z", "", "a/bz", false},
        {"**/m/**/z", "", "a/m/b/m/c/z", true},
        {"**/m/**/z", "", "a/n/b/c/z", false},
        {"?.txt", "", "a/b.txt", true},
        {"?.txt", "", "a/bb.txt", false},
        {"a?b/*", "", "a/b/c", false},
        {"[a-c]*", "", "bird", true},
        {"[!a-c]*", "", "bird", false},
        {"[]x]y", "", "]y", true},
        {"[a,b]1", "", "b1", true},
        {"[a,b]1", "", ",1", true},
        {"[\\]]1", "", "]1", true},
        {"[\\\\]1", "", "\\1", true},
        {"[!\\]]1", "", "]1", false},
        {"\\*", "", "*", true},
        {"\\*", "", "a", false},
        {"a\\,b", "", "a,b", true},
        {"a\\,b", "", "a", false},
        {"\\[x", "", "[x", true},
        {"*a*b*c*d", "", "xaxbxcxd", true},
        {"*a*b*c*d", "", "xaxbxcx", false},
        {"caf\xc3\xa9", "", "caf\xc3\xa9/1", true},
        {"\xff*", "", "\xff\xfe", true},
        {"keep", "", "keep/", true},
        {"keep", "", "other/", false},
        {"", "keep", "keep/", false},
        {"", "keep", "", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (admits(rows[i].include, rows[i].exclude, rows[i].path) != rows[i].there) {
            fail_msg("include=%s exclude=%s path=%s: expected %d", rows[i].include ? rows[i].include : "-",
                     rows[i].exclude ? rows[i].exclude : "-", rows[i].path, rows[i].there);
        }
    }
}

static void test_filter_refuses_what_it_cannot_read(void **state)
{
    (void)state;
    static const char *const bad[] = {",",  "a,,b",           "a,/",  "[a",   "x[", "a\\", "[a,b", "[", "[!",
                                      "[]", "**a**b**c**d**", "[\\]", "[!\\]"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct hr_filter *filter = NULL;
        char message[256] = "";
        assert_int_equal(hr_filter_new(bad[i], NULL, &filter, message), -EINVAL);
        assert_null(filter);
        assert_non_null(strstr(message, "include="));
        assert_int_equal(hr_filter_new(NULL, bad[i], &filter, message), -EINVAL);
        assert_non_null(strstr(message, "exclude="));
    }
}

static void test_filter_of_directories(void **state)
{
    (void)state;
    struct hr_filter *filter = NULL;
    char message[256] = "";
    assert_int_equal(hr_filter_new("*.jpg", "tmp,/a/b", &filter, message), 0);
    assert_true(hr_filter_admits_below(filter, "", 0));
    assert_true(hr_filter_admits_below(filter, "x", 1)); /* may hold a .jpg */
    assert_false(hr_filter_admits_below(filter, "x/tmp/y", 7));
    assert_false(hr_filter_admits_below(filter, "a/b", 3));
    assert_true(hr_filter_admits_below(filter, "c/a/b", 5));
    hr_filter_free(filter);
}

/* Long runs of what nearly matches end soon, whatever the pattern. */
static void test_filter_is_bounded(void **state)
{
    (void)state;
    char path[1024];
    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    for (size_t i = 7; i < sizeof path - 1; i += 8) {
        path[i] = '/';
    }
    assert_false(admits("**a*a*a**a*a*a**a*a*a**a*a*a*b", NULL, path));
    assert_false(admits("a*a*a*a*a*a*a*a*a*b", NULL, path));
    assert_false(admits("**/a*/**/a*/**/a*/**/a*b", NULL, path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filter_rows),
        cmocka_unit_test(test_filter_refuses_what_it_cannot_read),
        cmocka_unit_test(test_filter_of_directories),
        cmocka_unit_test(test_filter_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
