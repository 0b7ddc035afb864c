/* Symlinks into a map, resolved over a made-up file system. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "config/links.h"

static struct hr_maps maps;
static unsigned asked;

/* What readlink knows: a target, or "" for what is there and no symlink. The rest is ENOENT. */
static const struct {
    const char *path, *target;
} names[] = {
    {"/home", ""},
    {"/home/u", ""},
    {"/home/u/data", "/data"},
    {"/home/u/file", "data/train/x.jpg"},
    {"/home/u/up", "../../data/a/../b"},
    {"/home/u/out", "/data/../home/u/data/y"},
    {"/home/u/loop", "loop"},
    {"/home/u/other", "/home"},
    {"/home/u/missing", "nowhere"},
    {"/home/u/deep", "/sets/x/one"},
    {"/home/u/above", "/sets"},
    {"/links", ""},
    {"/links/u", "/home/u"},
    {"/links/up", "../../data"},
};

static long read_link(const char *path, char *out, size_t room)
{
    asked++;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i].path, path) == 0) {
            size_t len = strlen(names[i].target);
            assert_true(len < room);
            memcpy(out, names[i].target, len);
            return len ? (long)len : -EINVAL;
        }
    }
    return -ENOENT;
}

static int setup(void **state)
{
    (void)state;
    asked = 0;
    return hr_maps_parse("/data=s3://b/p;/sets/x=s3://b/q", &maps, NULL);
}

static void expect(const char *base, const char *path, bool follow, const char *want)
{
    char at[HR_LINK_PATH_MAX];
    (void)snprintf(at, sizeof(at), "%s", base);
    int len = hr_links_walk(&maps, at, strlen(at), path, follow, read_link, NULL);
    if (want) {
        assert_int_equal(len, (int)strlen(want));
        assert_string_equal(at, want);
    } else {
        assert_int_equal(len, -ENOENT);
    }
}

static void where_a_walk_leads(void **state)
{
    (void)state;
    expect("/", "/home/u/data/train", true, "/data/train");
    expect("/home/u", "data", true, "/data");
    expect("/home/u", "./data//", true, "/data");
    expect("/home/u", "file", true, "/data/train/x.jpg");
    expect("/", "/home/u/up/c", true, "/data/b/c");
    expect("/", "home/u/out", true, "/data/y");
    expect("/", "/links/u/data/z", true, "/data/z");
    expect("/links/u", "../up", true, "/data"); /* what is a canonical path is believed */
    expect("/home/u", "deep", true, "/sets/x/one");
    expect("/home/u", "/data/x", true, "/data/x");
    expect("/data/a", "b", true, "/data/a/b");
    expect("/home/u", "above", true, "/sets"); /* above a map */
    expect("/home/u", "above/x", true, "/sets/x");
    expect("/home/u", "above/y", true, NULL);
    expect("/", "/sets", true, "/sets");
}

static void what_leads_nowhere(void **state)
{
    (void)state;
    expect("/home/u", "other", true, NULL);
    expect("/home/u", "missing", true, NULL);
    expect("/home/u", "none/data", true, NULL);
    expect("/home/u", "data/..", true, NULL);
    expect("/home", "u", true, NULL);
    char at[HR_LINK_PATH_MAX] = "/home/u";
    assert_int_equal(hr_links_walk(&maps, at, strlen(at), "loop", true, read_link, NULL), -ELOOP);
    char name[300];
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    memset(at, 'a', sizeof(at));
    at[0] = '/';
    at[HR_LINK_PATH_MAX - 200] = '\0';
    assert_int_equal(hr_links_walk(&maps, at, strlen(at), name, true, read_link, NULL), -ENAMETOOLONG);
}

static int enters(const char *path)
{
    return strcmp(path, "/data/none") == 0 ? -ENOENT : strcmp(path, "/data/train/x.jpg") == 0 ? -ENOTDIR : 0;
}

static void what_is_climbed_from_is_a_directory(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        int result;
        const char *at;
    } table[] = {{"data/train/../a", 7, "/data/a"},
                 {"data/none/../a", -ENOENT, "/data/none"},
                 {"file/..", -ENOTDIR, "/data/train/x.jpg"},
                 {"data/../home/u/../u/data", 5, "/data"},
                 {"data/none", 10, "/data/none"}};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char at[HR_LINK_PATH_MAX] = "/home/u";
        int len = hr_links_walk(&maps, at, strlen(at), table[i].path, true, read_link, enters);
        assert_int_equal(len, table[i].result);
        assert_string_equal(at, table[i].at);
    }
}

static void the_last_component_may_stay_itself(void **state)
{
    (void)state;
    expect("/home/u", "data", false, NULL);
    expect("/home/u", "data/x", false, "/data/x");
    expect("/home/u", "file", false, NULL);
}

static void from_a_known_symlink(void **state)
{
    (void)state;
    const struct {
        const char *path, *link, *want;
        unsigned asked;
    } table[] = {
        {"/home/u/data/train/x", "/home/u/data", "/data/train/x", 2},
        {"/links/u/data/x", "/links/u", "/data/x", 5},
        {"/links/up/x", "/links/up", "/data/x", 3}, /* it climbs: all of its way counts */
        {"/home/u/data", "/home/u/data", "/data", 2},
        {"/home/u/other/x", "/home/u/other", NULL, 0},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char path[HR_LINK_PATH_MAX];
        (void)snprintf(path, sizeof(path), "%s", table[i].path);
        asked = 0;
        int len = hr_links_walk_from(&maps, path, strlen(path), strlen(table[i].link), true, read_link, NULL);
        assert_int_equal(len, table[i].want ? (int)strlen(table[i].want) : -ENOENT);
        if (table[i].want) {
            assert_string_equal(path, table[i].want);
            assert_int_equal(asked, table[i].asked);
        }
    }
    char itself[HR_LINK_PATH_MAX] = "/home/u/data";
    asked = 0;
    assert_int_equal(hr_links_walk_from(&maps, itself, 12, 12, false, read_link, NULL), -ENOENT);
    assert_int_equal(asked, 0);
}

static void the_variable(void **state)
{
    (void)state;
    const char *text = "/home/u/data;/odd%3bname%25;relative;/bad%zz;;/a//b;/last";
    const char *want[] = {"/home/u/data", "/odd;name%", NULL, NULL, NULL, NULL, "/last"};
    char out[64];
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        int len = hr_links_next(&text, out, sizeof(out));
        assert_int_equal(len, want[i] ? (int)strlen(want[i]) : -EINVAL);
        if (want[i]) {
            assert_string_equal(out, want[i]);
        }
    }
    assert_string_equal(text, "");
    text = "/12345678";
    assert_int_equal(hr_links_next(&text, out, 9), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(where_a_walk_leads, setup),
        cmocka_unit_test_setup(what_leads_nowhere, setup),
        cmocka_unit_test_setup(what_is_climbed_from_is_a_directory, setup),
        cmocka_unit_test_setup(the_last_component_may_stay_itself, setup),
        cmocka_unit_test_setup(from_a_known_symlink, setup),
        cmocka_unit_test_setup(the_variable, setup),
    };
    return cmocka_run_group_tests_name("links", tests, NULL, NULL);
}
