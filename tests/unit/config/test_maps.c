#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/maps.h"

static struct hr_maps maps; /* too big for a stack */

static void good_maps(void **state)
{
    static const struct {
        const char *text, *path, *bucket, *prefix, *url;
    } cases[] = {
        {"/data=s3://b/p/q", "/data", "b", "p/q/", "s3://b/p/q/"},
        {"/data=s3://b/p/q/", "/data", "b", "p/q/", "s3://b/p/q/"},
        {"/data=s3://bucket.name-1_x", "/data", "bucket.name-1_x", "", "s3://bucket.name-1_x/"},
        {"/data=s3://b/", "/data", "b", "", "s3://b/"},
        {"/data=s3://b/?", "/data", "b", "", "s3://b/"},
        {"  \t/data=s3://b/x \r", "/data", "b", "x/", "s3://b/x/"},
        {"//a/./b//c/=s3://b", "/a/b/c", "b", "", "s3://b/"},
        {"/a/.hidden/..x=s3://b", "/a/.hidden/..x", "b", "", "s3://b/"},
        {"/a%3Db%3bc=s3://b", "/a=b;c", "b", "", "s3://b/"},
        {"/a?b=s3://b", "/a?b", "b", "", "s3://b/"},
        {"/with space=s3://b/p q", "/with space", "b", "p q/", "s3://b/p%20q/"},
        {"/d=s3://b/p%20q%2F", "/d", "b", "p q/", "s3://b/p%20q/"},
        {"/d=s3://b/a%3fb=c", "/d", "b", "a?b=c/", "s3://b/a%3Fb%3Dc/"},
        {"/d=s3://b//x", "/d", "b", "/x/", "s3://b//x/"},
        {"/d=s3://b/a//", "/d", "b", "a//", "s3://b/a//"},
        {"/d=s3://b/..", "/d", "b", "../", "s3://b/../"},
        {"/d=s3://b/+~._-", "/d", "b", "+~._-/", "s3://b/%2B~._-/"},
        {"/d=s3://b/%ff%0a", "/d", "b", "\xff\n/", "s3://b/%FF%0A/"},
        {"/d\xc3\xa9=s3://b", "/d\xc3\xa9", "b", "", "s3://b/"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hr_maps_error error = {0};
        int result = hr_maps_parse(cases[i].text, &maps, &error);
        if (result != 0) {
            fail_msg("%s: %s", cases[i].text, error.message);
        }
        assert_int_equal(maps.count, 1);
        const struct hr_map *map = &maps.map[0];
        assert_string_equal(map->path, cases[i].path);
        assert_int_equal(map->path_len, strlen(cases[i].path));
        assert_string_equal(map->bucket, cases[i].bucket);
        assert_int_equal(map->bucket_len, strlen(cases[i].bucket));
        assert_string_equal(map->prefix, cases[i].prefix);
        assert_int_equal(map->prefix_len, strlen(cases[i].prefix));
        assert_string_equal(map->url, cases[i].url);
        assert_int_equal(map->url_len, strlen(cases[i].url));
    }
}

static void bad_maps(void **state)
{
    static const struct {
        const char *text, *message; /* the whole message when it starts with "map", else a part of it */
    } cases[] = {
        {"data", "map 1 (`data`): there is no '='; write /PATH=s3://bucket/prefix"},
        {"=s3://b", "map 1 (`=s3://b`): there is no path; write /PATH=s3://bucket/prefix"},
        {"data=s3://b", "the path is not absolute"},
        {"/=s3://b", "'/' itself cannot be mapped"},
        {"/./=s3://b", "'/' itself cannot be mapped"},
        {"/a/../b=s3://b", "the path holds '..'"},
        {"/a/%2e%2E=s3://b", "the path holds '..'"},
        {"/a%00b=s3://b", "the path holds a zero byte"},
        {"/a%=s3://b", "the path has a '%' without two hex digits"},
        {"/a%4=s3://b", "the path has a '%' without two hex digits"},
        {"/a%zz=s3://b", "the path has a '%' without two hex digits"},
        {"/a=s3://b/%4", "the prefix has a '%' without two hex digits"},
        {"/a=s3://b%2", "the bucket has a '%' without two hex digits"},
        {"/a=", "the source is not a URL"},
        {"/a=/local/dir", "the source is not a URL"},
        {"/a=s3:/b", "the source is not a URL"},
        {"/a=://b", "unknown scheme ``"},
        {"/a=http://b", "unknown scheme `http`"},
        {"/a=gs://b",
         "map 1 (`/a=gs://b`): `gs`:// is not supported yet in this version; write s3://bucket/prefix "
         "(other S3 stores: ?endpoint=http://HOST:PORT)"},
        {"/a=az://b", "`az`:// is not supported yet"},
        {"/a=ais://b", "`ais`:// is not supported yet"},
        {"/a=file:///b", "`file`:// is not supported yet"},
        {"/a=s3://", "the bucket is missing"},
        {"/a=s3:///p", "the bucket is missing"},
        {"/a=s3://?mode=ro", "the bucket is missing"},
        {"/a=s3://..", "the bucket `..` is not a bucket's name"},
        {"/a=s3://-b", "the bucket `-b` is not"},
        {"/a=s3://u:p", "the bucket `u:p` is not"},
        {"/a=s3://b%2Fc/", "the bucket `b/c` is not"},
        {"/a=s3://b%0a", "the bucket `b\\x0a` is not"},
        {"/a=s3://b?mode", "option `mode` has no value; write name=value"},
        {"/a=s3://b?nosuch=1", "unknown option `nosuch`; options: revalidate prefetch list mode changed "},
        {"/a=s3://b?memory=1G", "`memory` is a setting of the whole daemon, not of a map"},
        {"/a=s3://b?mode=rw", "mode = `rw` is not supported yet in this version; allowed: ro"},
        {"/a=s3://b?mode=xx", "mode = `xx` is not understood; allowed: ro"},
        {"/a=s3://b?mode=!rw", "mode = `!rw` is not understood"},
        {"/a=s3://b?list=",
         "list = `` is not understood; allowed: auto, all, dirs or none, or an absolute path"},
        {"/a=s3://b?prefetch=maybe", "prefetch = `maybe` is not understood; allowed: on or off (yes or no)"},
        {"/a=s3://b?revalidate=-1", "revalidate = `-1` is not understood"},
        {"/a=s3://b?revalidate=99999999999999999999999", "is not understood"},
        {"/a=s3://b?revalidate=31536001",
         "is out of bounds; allowed: a number of seconds from 0 to 31536000, or forever "
         "or start"},
        {"/a=s3://b?endpoint=ftp://x", "endpoint = `ftp://x` is not understood"},
        {"/a=s3://b?endpoint=http://", "endpoint = `http://` is not understood"},
        {"/a=s3://b?endpoint=http://a%0d%0aX-Evil:1", "is not understood"},
        {"/a=s3://b?hide=yes&hide=no", "option hide is given twice"},
        {"/a=s3://b?endpoint=http://x%", "endpoint has a '%' without two hex digits"},
        {"/a=s3://b;/b=s3://c;/a/=s3://d",
         "map 3 (`/a/=s3://d`): another map has the same path; keep one of them"},
        {"/a=s3://b\n;;\n /b", "map 2 (`/b`): there is no '='"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hr_maps_error error = {0};
        assert_int_equal(hr_maps_parse(cases[i].text, &maps, &error), -EINVAL);
        assert_int_equal(maps.count, 0);
        if (!strstr(error.message, cases[i].message)) {
            fail_msg("%s: wanted \"%s\", got \"%s\"", cases[i].text, cases[i].message, error.message);
        }
        assert_null(strchr(error.message, '\n'));
    }
}

static void no_password_in_messages(void **state)
{
    struct hr_maps_error error = {0};
    (void)state;
    assert_int_equal(hr_maps_parse("/a=s3://b?endpoint=http://me:hunter2@h", &maps, &error), -EINVAL);
    assert_null(strstr(error.message, "hunter2"));
    assert_non_null(strstr(error.message, "passwords do not belong there"));
}

static void error_has_span(void **state)
{
    static const char text[] = "/a=s3://b; \n  /bad=x  ;/c=s3://d";
    struct hr_maps_error error = {0};
    (void)state;
    assert_int_equal(hr_maps_parse(text, &maps, &error), -EINVAL);
    assert_int_equal(error.map, 2);
    assert_int_equal(error.len, strlen("/bad=x"));
    assert_memory_equal(text + error.offset, "/bad=x", error.len);
    assert_int_equal(hr_maps_parse(text, &maps, NULL), -EINVAL);
}

static void nothing_is_zero_maps(void **state)
{
    static const char *const texts[] = {NULL, "", ";", " \n ; \t;\r\n"};
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        maps.count = 7;
        assert_int_equal(hr_maps_parse(texts[i], &maps, NULL), 0);
        assert_int_equal(maps.count, 0);
        assert_int_equal(hr_maps_parse_lenient(texts[i], &maps, NULL), 0);
        assert_null(hr_maps_find(&maps, "/a", 2));
    }
}

static void options_are_read(void **state)
{
    (void)state;
    assert_int_equal(
        hr_maps_parse("/a=s3://b/p?endpoint=http%3a//h:9000&&hide=yes&revalidate=start;/b=s3://c?endpoint=",
                      &maps, NULL),
        0);
    assert_int_equal(maps.count, 2);
    struct hr_span endpoint = hr_map_option(&maps.map[0], "endpoint");
    assert_string_equal(endpoint.ptr, "http://h:9000");
    assert_int_equal(endpoint.len, strlen(endpoint.ptr));
    assert_string_equal(hr_map_option(&maps.map[0], "hide").ptr, "yes");
    assert_string_equal(hr_map_option(&maps.map[0], "revalidate").ptr, "start");
    assert_null(hr_map_option(&maps.map[0], "list").ptr);
    assert_null(hr_map_option(&maps.map[0], "hid").ptr);
    assert_null(hr_map_option(&maps.map[0], "").ptr);
    assert_string_equal(hr_map_option(&maps.map[1], "endpoint").ptr, "");
    assert_null(hr_map_option(&maps.map[1], "hide").ptr);

    struct hr_maps *copy = malloc(sizeof(*copy));
    assert_non_null(copy);
    memcpy(copy, &maps, sizeof(*copy));
    memset(&maps, 0xff, sizeof(maps));
    assert_string_equal(hr_map_option(&copy->map[0], "endpoint").ptr, "http://h:9000");
    free(copy);
}

static void longest_path_first(void **state)
{
    static const struct {
        const char *path, *owner;
    } cases[] = {
        {"/data", "/data"},
        {"/data/x", "/data"},
        {"/data/a", "/data/a"},
        {"/data/a/y", "/data/a"},
        {"/data/ab", "/data"},
        {"/data/a/b/c/d", "/data/a/b"},
        {"/dat", NULL},
        {"/database", NULL},
        {"/", NULL},
        {"", NULL},
        {"/data/b", "/data/b"},
        {"/x/data", NULL},
    };
    static const char *const order[] = {"/data/a/b", "/data/a", "/data/b", "/data"};
    (void)state;
    assert_int_equal(
        hr_maps_parse("/data=s3://w;/data/b=s3://z;/data/a=s3://x;/data/a/b=s3://y", &maps, NULL), 0);
    for (size_t i = 0; i < maps.count; i++) {
        assert_string_equal(maps.map[maps.by_length[i]].path, order[i]);
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct hr_map *map = hr_maps_find(&maps, cases[i].path, strlen(cases[i].path));
        if (!cases[i].owner) {
            assert_null(map);
        } else {
            assert_non_null(map);
            assert_string_equal(map->path, cases[i].owner);
        }
    }
}

static void lenient_keeps_the_good(void **state)
{
    struct hr_maps_error error = {0};
    (void)state;
    assert_int_equal(
        hr_maps_parse_lenient("bad;/a=s3://b;/c=xx://d;/a=s3://e;/f=s3://g?hide=yes", &maps, &error), 3);
    assert_int_equal(maps.count, 2);
    assert_string_equal(maps.map[0].path, "/a");
    assert_string_equal(maps.map[0].bucket, "b");
    assert_int_equal(maps.map[0].option_count, 0);
    assert_string_equal(maps.map[1].path, "/f");
    assert_string_equal(hr_map_option(&maps.map[1], "hide").ptr, "yes");
    assert_int_equal(error.map, 1);
    assert_non_null(strstr(error.message, "there is no '='"));
}

static void limits(void **state)
{
    static char text[16384];
    struct hr_maps_error error = {0};
    size_t at = 0;
    (void)state;
    for (unsigned i = 0; i <= HR_MAPS_MAX; i++) {
        at += (size_t)snprintf(text + at, sizeof(text) - at, "/m%u=s3://b/%u;", i, i);
    }
    assert_int_equal(hr_maps_parse(text, &maps, &error), -E2BIG);
    assert_int_equal(error.map, HR_MAPS_MAX + 1);
    assert_int_equal(hr_maps_parse_lenient(text, &maps, &error), 1);
    assert_int_equal(maps.count, HR_MAPS_MAX);

    /* The longest path and one byte more; the longest prefix, all escaped. */
    for (unsigned over = 0; over < 2; over++) {
        memset(text, 'p', sizeof(text));
        text[0] = '/';
        strcpy(text + HR_MAP_PATH_MAX + over, "=s3://b");
        assert_int_equal(hr_maps_parse(text, &maps, &error), over ? -EINVAL : 0);
        assert_true(over || maps.map[0].path_len == HR_MAP_PATH_MAX);
    }
    assert_non_null(strstr(error.message, "the path is too long; at most 1024 bytes"));
    for (unsigned over = 0; over < 2; over++) {
        at = (size_t)sprintf(text, "/p=s3://");
        memset(text + at, 'b', HR_MAP_BUCKET_MAX);
        at += HR_MAP_BUCKET_MAX;
        text[at++] = '/';
        for (unsigned i = 0; i < HR_MAP_PREFIX_MAX - 1 + over; i++) {
            at += (size_t)sprintf(text + at, "%%01");
        }
        assert_int_equal(hr_maps_parse(text, &maps, &error), over ? -EINVAL : 0);
        assert_true(over ||
                    (maps.map[0].prefix_len == HR_MAP_PREFIX_MAX && maps.map[0].url_len <= HR_MAP_URL_MAX));
    }
    at = (size_t)sprintf(text, "/p=s3://b?endpoint=http://");
    memset(text + at, 'h', HR_MAP_OPTION_TEXT_MAX);
    text[at + HR_MAP_OPTION_TEXT_MAX] = '\0';
    assert_int_equal(hr_maps_parse(text, &maps, &error), -EINVAL);
    assert_non_null(strstr(error.message, "endpoint is too long"));
}

static void hash_is_of_path_and_source(void **state)
{
    (void)state;
    assert_int_equal(hr_maps_parse("/a=s3://b/p;/b=s3://b/p;/c=s3://b/p?hide=yes", &maps, NULL), 0);
    /* FNV-1a-64 of "/a=s3://b/p/", reckoned apart from this program. */
    assert_true(hr_map_hash(&maps.map[0]) == UINT64_C(0x7fa755cc56d2ea68));
    uint64_t second = hr_map_hash(&maps.map[1]), third = hr_map_hash(&maps.map[2]);
    assert_true(second != hr_map_hash(&maps.map[0]));
    assert_int_equal(hr_maps_parse("/b/=s3://b/%70/?list=all;//c=s3://b/p", &maps, NULL), 0);
    assert_true(hr_map_hash(&maps.map[0]) == second);
    assert_true(hr_map_hash(&maps.map[1]) == third);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_maps),
        cmocka_unit_test(bad_maps),
        cmocka_unit_test(no_password_in_messages),
        cmocka_unit_test(error_has_span),
        cmocka_unit_test(nothing_is_zero_maps),
        cmocka_unit_test(options_are_read),
        cmocka_unit_test(longest_path_first),
        cmocka_unit_test(lenient_keeps_the_good),
        cmocka_unit_test(limits),
        cmocka_unit_test(hash_is_of_path_and_source),
    };
    return cmocka_run_group_tests_name("config/maps", tests, NULL, NULL);
}
