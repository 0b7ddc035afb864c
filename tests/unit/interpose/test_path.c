#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "interpose/path.h"
#include "interpose/tiny.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static struct hr_maps maps;

static int set_up(void **state)
{
    (void)state;
    const char *text = "/data=s3://a/;/data/x/y=s3://b/;/mnt/sets/net=s3://c/;/d=s3://d/";
    assert_int_equal(hr_maps_parse(text, &maps, NULL), 0);
    hr_path_init(&maps);
    return 0;
}

static void joins(void **state)
{
    static const struct {
        const char *base, *path, *want;
        bool dir;
    } rows[] = {
        {"/", "a", "/a", false},
        {"/", "", "/", false},
        {"/w", "a", "/w/a", false},
        {"/w", "./a", "/w/a", false},
        {"/w", "../a", "/a", false},
        {"/w", "../../../a", "/a", false},
        {"/w/v", "..", "/w", true},
        {"/w/v", ".", "/w/v", true},
        {"/w/v", "../", "/w", true},
        {"/w", "a/", "/w/a", true},
        {"/w", "a//b///", "/w/a/b", true},
        {"/w", "a/.", "/w/a", true},
        {"/w", "a/..", "/w", true},
        {"/w", "a/../b", "/w/b", false},
        {"/w", "/a/b", "/a/b", false},
        {"/w", "//a", "/a", false},
        {"/w", "///", "/", true},
        {"/w", "/..", "/", true},
        {"/w", "/../..//./a", "/a", false},
        {"/w", "...", "/w/...", false},
        {"/w", "..a/.b/c..", "/w/..a/.b/c..", false},
        {"/w", ".hidden", "/w/.hidden", false},
    };
    (void)state;
    for (size_t i = 0; i < LENGTH(rows); i++) {
        char out[64];
        bool dir = !rows[i].dir;
        int len = hr_path_join(rows[i].base, strlen(rows[i].base), rows[i].path, out, sizeof(out), &dir);
        assert_int_equal(len, (int)strlen(rows[i].want));
        assert_string_equal(out, rows[i].want);
        assert_int_equal(dir, rows[i].dir);
        /* In place, as the hooks do it. */
        strcpy(out, rows[i].base);
        assert_int_equal(hr_path_join(out, strlen(out), rows[i].path, out, sizeof(out), &dir), len);
        assert_string_equal(out, rows[i].want);
    }
}

static void join_keeps_inside_its_room(void **state)
{
    (void)state;
    for (size_t room = 1; room < 20; room++) {
        char *out = malloc(room); /* the sanitizer's ruler */
        bool dir;
        int len = hr_path_join("/ab", 3, "cd/../efg/h", out, room, &dir);
        if (room >= sizeof("/ab/efg/h")) {
            assert_int_equal(len, 9);
            assert_string_equal(out, "/ab/efg/h");
        } else {
            assert_int_equal(len, -ENAMETOOLONG);
        }
        free(out);
    }
}

static void finds_the_longest_map(void **state)
{
    static const struct {
        const char *path, *root; /* NULL: nobody's */
    } rows[] = {
        {"/data", "/data"},
        {"/data/", "/data"},
        {"/data/a", "/data"},
        {"/data/x", "/data"},
        {"/data/x/y", "/data/x/y"},
        {"/data/x/yz", "/data"},
        {"/data/x/y/z", "/data/x/y"},
        {"/dat", NULL},
        {"/database", NULL},
        {"/d", "/d"},
        {"/d/ata", "/d"},
        {"/mnt/sets", NULL},
        {"/mnt/sets/net", "/mnt/sets/net"},
        {"/", NULL},
        {"/e", NULL},
        {"/usr/lib/data", NULL},
    };
    (void)state;
    for (size_t i = 0; i < LENGTH(rows); i++) {
        unsigned map = 99;
        uint32_t len = 99;
        bool found = hr_path_under(rows[i].path, &map, &len);
        assert_int_equal(found, rows[i].root != NULL);
        if (found) {
            assert_string_equal(maps.map[map].path, rows[i].root);
            assert_int_equal(len, strlen(rows[i].root));
        }
    }
}

static void knows_the_way_to_a_map(void **state)
{
    static const struct {
        const char *path;
        bool canonical, text;
    } rows[] = {
        {"/", true, true},
        {"/mnt", true, true},
        {"/mnt/sets", true, true},
        {"/mnt/", false, true},
        {"/mnt/sets/net", false, false},
        {"/mn", false, false},
        {"/data", true, true},
        {"/data/x", true, true},
        {"/data/y", false, false},
        {"/mnt/set", false, false},
        {"/usr", false, false},
    };
    (void)state;
    for (size_t i = 0; i < LENGTH(rows); i++) {
        if (rows[i].path[strlen(rows[i].path) - 1] != '/' || !rows[i].path[1]) {
            assert_int_equal(hr_path_above(rows[i].path, strlen(rows[i].path)), rows[i].canonical);
        }
        assert_int_equal(hr_path_above_text(rows[i].path), rows[i].text);
    }
    assert_true(hr_path_above_then("/", 1, "data/a"));
    assert_true(hr_path_above_then("/", 1, "mxx"));
    assert_false(hr_path_above_then("/", 1, "usr"));
    assert_true(hr_path_above_then("/mnt", 4, "sets"));
    assert_false(hr_path_above_then("/mnt", 4, "x"));
    assert_false(hr_path_above_then("/mnt/sets/net", 13, "x"));
}

/* The same question, asked byte by byte. */
static bool odd_slowly(const char *path)
{
    for (const char *at = path; *at;) {
        size_t len = strcspn(at, "/");
        bool last = at[len] == '\0';
        bool first_of_absolute = at == path && len == 0;
        if ((len == 0 && !first_of_absolute) || (len == 1 && at[0] == '.') ||
            (len == 2 && at[0] == '.' && at[1] == '.')) {
            return true;
        }
        at += len + !last;
    }
    return false;
}

static void sees_odd_components_wherever_they_lie(void **state)
{
    static const char letters[] = "/./.a\xaf/";
    unsigned random = 12345;
    (void)state;
    /* At the very end of a page, with nothing readable behind it, at every alignment and length. */
    long page = sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, (size_t)page * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    assert_int_equal(mprotect(memory + page, (size_t)page, PROT_NONE), 0);
    memset(memory, '/', (size_t)page);
    for (unsigned round = 0; round < 200000; round++) {
        size_t len = round % 50 + 1;
        char *path = memory + page - 1 - len - (round % 3 ? 0 : round % 32);
        for (size_t i = 0; i < len; i++) {
            random = random * 1103515245u + 12345u;
            unsigned pick = random >> 16;
            path[i] = pick % 4 ? (char)('a' + pick % 20) : letters[pick / 4 % (sizeof(letters) - 1)];
        }
        path[len] = '\0';
        assert_int_equal(hr_path_is_odd(path), odd_slowly(path));
        assert_int_equal(hr_path_climbs(path), strstr(path, "..") && odd_slowly(path));
        memset(path, '/', (size_t)(memory + page - path));
    }
    munmap(memory, (size_t)page * 2);
}

/* What the text of a path alone tells, against the slow questions. */
static void check_plain(const char *path)
{
    struct hr_plain plain;
    unsigned map;
    uint32_t root;
    bool ours = hr_path_under(path, &map, &root);
    enum hr_path_look look = hr_path_plain(path, &plain);
    if (odd_slowly(path)) {
        assert_int_equal(look, HR_PATH_ODD);
        return;
    }
    assert_int_equal(look, ours ? HR_PATH_OURS : HR_PATH_ELSEWHERE);
    if (ours) {
        char out[128];
        bool dir;
        int len = hr_path_join("/", 1, path, out, sizeof(out), &dir);
        assert_int_equal(plain.map, map);
        assert_int_equal(plain.len, len);
        assert_int_equal(plain.must_be_dir, dir);
        assert_int_equal(plain.rel, root + (out[root] == '/'));
        assert_memory_equal(path, out, plain.len);
    }
}

static void tells_plain_paths(void **state)
{
    static const char letters[] = "/./.ab";
    static const char *const heads[] = {"/data", "/d", "/data/x/y", "/mnt/sets/net", "/mnt/set", "/u", ""};
    unsigned random = 54321;
    long page = sysconf(_SC_PAGESIZE);
    (void)state;
    char *memory = mmap(NULL, (size_t)page * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    assert_int_equal(mprotect(memory + page, (size_t)page, PROT_NONE), 0);
    for (unsigned round = 0; round < 200000; round++) {
        const char *head = heads[round % LENGTH(heads)];
        size_t len = strlen(head) + 1 + round % 40;
        char *path = memory + page - 1 - len - (round % 3 ? 0 : round % 32);
        memcpy(path, head, strlen(head));
        for (size_t i = strlen(head); i < len; i++) {
            random = random * 1103515245u + 12345u;
            unsigned pick = random >> 16;
            path[i] = pick % 4 && i != strlen(head) ? (char)('a' + pick % 20) : letters[pick / 4 % 6];
        }
        path[len] = '\0';
        if (path[0] == '/') {
            check_plain(path);
        }
    }
    munmap(memory, (size_t)page * 2);
    assert_true(hr_path_nested[0]); /* "/data" */
    assert_false(hr_path_nested[1]);
    assert_false(hr_path_nested[2]);
    assert_false(hr_path_nested[3]); /* "/d", which no other map's path continues */
}

static void compares_short_texts(void **state)
{
    char one[40], other[40];
    (void)state;
    for (size_t len = 0; len <= 33; len++) {
        for (size_t at = 0; at <= len; at++) {
            memset(one, 'x', sizeof(one));
            memset(other, 'x', sizeof(other));
            other[at] = 'y';
            char *exact = malloc(len + 1); /* the sanitizer's ruler */
            char *exact_other = malloc(len + 1);
            memcpy(exact + 1, one, len);
            memcpy(exact_other + 1, other, len);
            assert_int_equal(hr_same_bytes(exact + 1, exact_other + 1, len), at == len);
            free(exact);
            free(exact_other);
        }
    }
}

/* Whatever leads into a map, or past one, is looked at; what cannot is not. */
static void looks_closer_where_a_map_may_be(void **state)
{
    static const struct {
        const char *path;
        bool maybe;
    } rows[] = {
        {"/data", true},
        {"/data/a", true},
        {"//data/a", true},
        {"/./data/a", true},
        {"/usr/../data/a", true},
        {"/usr/lib/..", true},
        {"/usr/a..b", false},
        {"/usr/...", false},
        {"/usr//lib", false},
        {"/usr/lib/./x", false},
        {"/usr/lib", false},
        {"/database", false},
        {"/", false},
        {"/.hidden/file", false},
        {"/usr/.../a", false},
        {"/usr/x./.y", false},
        {"/usr/lib/x86_64-linux-gnu/../../../data", true},
        {"/mnt/sets/net/x", true},
    };
    (void)state;
    for (size_t i = 0; i < LENGTH(rows); i++) {
        if (hr_path_maybe(AT_FDCWD, rows[i].path) != rows[i].maybe) {
            fail_msg("%s", rows[i].path);
        }
    }
}

static void builds_text_in_its_room(void **state)
{
    char text[8];
    struct hr_out out;
    uint64_t value;
    (void)state;
    hr_out_init(&out, text, sizeof(text));
    hr_out_text(&out, "a");
    hr_out_hex(&out, 0xbeef, 4);
    hr_out_decimal(&out, 42);
    assert_int_equal(hr_out_done(&out), 7);
    assert_string_equal(text, "abeef42");
    hr_out_text(&out, "x");
    assert_int_equal(hr_out_done(&out), -ENAMETOOLONG);
    assert_string_equal(text, "abeef42");
    assert_true(hr_hex_parse("00ff", 4, &value));
    assert_int_equal(value, 255);
    for (unsigned shift = 0; shift < 64; shift += 4) {
        char digits[HR_HEX_DIGITS + 1] = "";
        char want[HR_HEX_DIGITS + 1];
        uint64_t number = 0xfedcba9876543210ull << shift | shift;
        hr_hex16(number, digits);
        assert_true(snprintf(want, sizeof(want), "%016llx", (unsigned long long)number) == HR_HEX_DIGITS);
        assert_string_equal(digits, want);
    }
    assert_false(hr_hex_parse("00FF", 4, &value));
    assert_false(hr_hex_parse("0g", 2, &value));
}

static void knows_aliases_and_the_ways_to_them(void **state)
{
    static const char *const links[] = {"/home/u/train", "/home/u/train/deeper/one", "/link"};
    uint32_t len = 0;
    (void)state;
    assert_false(hr_path_linked("/home/u/train", &len));
    assert_false(hr_path_maybe(AT_FDCWD, "/home/u/train/x"));
    for (size_t i = 0; i < LENGTH(links); i++) {
        assert_true(hr_path_add_link(links[i], strlen(links[i])));
    }
    assert_false(hr_path_add_link("/", 1));
    const struct {
        const char *path;
        uint32_t len; /* 0: at or below none */
        bool above, above_text;
    } rows[] = {
        {"/home/u/train", 13, true, true},
        {"/home/u/train/x", 13, false, false},
        {"/home/u/train/deeper/one/x", 24, false, false},
        {"/home/u/train/deeper", 13, true, true},
        {"/home/u/trainx", 0, false, false},
        {"/home/u/trai", 0, false, false},
        {"/home/u", 0, true, true},
        {"/home/u/", 0, false, true},
        {"/home", 0, true, true},
        {"/", 0, true, true},
        {"/link/a", 5, false, false},
        {"/lin", 0, false, false},
    };
    for (size_t i = 0; i < LENGTH(rows); i++) {
        bool linked = hr_path_linked(rows[i].path, &len);
        assert_int_equal(linked ? len : 0, rows[i].len);
        assert_int_equal(hr_path_above_link(rows[i].path, strlen(rows[i].path)), rows[i].above);
        assert_int_equal(hr_path_above_looked(rows[i].path), rows[i].above_text);
        assert_int_equal(hr_path_maybe(AT_FDCWD, rows[i].path), rows[i].len > 0);
    }
    assert_true(hr_path_above_then("/home/u", 7, "train/x"));
    assert_false(hr_path_above_then("/home/u", 7, "other"));
    for (size_t i = LENGTH(links); i < HR_LINKS_MAX; i++) {
        assert_true(hr_path_add_link("/more", 5));
    }
    assert_false(hr_path_add_link("/more", 5));
    hr_path_init(&maps);
    assert_false(hr_path_linked("/link", &len));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joins),
        cmocka_unit_test(join_keeps_inside_its_room),
        cmocka_unit_test(finds_the_longest_map),
        cmocka_unit_test(knows_the_way_to_a_map),
        cmocka_unit_test(sees_odd_components_wherever_they_lie),
        cmocka_unit_test(tells_plain_paths),
        cmocka_unit_test(compares_short_texts),
        cmocka_unit_test(looks_closer_where_a_map_may_be),
        cmocka_unit_test(builds_text_in_its_room),
        cmocka_unit_test(knows_aliases_and_the_ways_to_them),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
