#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "interpose/dirstream.h"

#define NAMES_MAX 64
#define TEXT_BYTES 8192

/* One directory by hand: entry 0, its children from entry 1 on. */
static struct hr_entry entries[NAMES_MAX + 1];
static struct hr_dir dirs[1];
static char text[TEXT_BYTES];
static struct hr_names names;
static struct hr_index the_index;
static struct hr_maps maps;

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void make_index(const char *const *children, uint32_t count)
{
    uint32_t at = 0;
    names.entry_count = count + 1;
    names.dir_count = 1;
    names.text_bytes = TEXT_BYTES;
    entries[0] = (struct hr_entry){.kind = HR_KIND_DIR};
    dirs[0] = (struct hr_dir){.first = 1, .count = count};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t len = (uint32_t)strlen(children[i]);
        memcpy(text + at, children[i], len);
        entries[i + 1] = (struct hr_entry){.name_low = at, .name_len = (uint8_t)len, .kind = HR_KIND_FILE};
        at += len;
    }
    the_index = (struct hr_index){.names = &names, .entries = entries, .dirs = dirs, .text = text};
}

static void make_maps(const char *const *paths, unsigned count)
{
    char value[8192] = "";
    for (unsigned i = 0; i < count; i++) {
        size_t used = strlen(value);
        snprintf(value + used, sizeof(value) - used, "%s%s=s3://bucket%u/", i ? ";" : "", paths[i], i);
    }
    assert_int_equal(hr_maps_parse(value, &maps, NULL), 0);
}

/* The walk as text: names in order, an extra one in brackets. */
static const char *walk_text(const char *path, bool indexed)
{
    static char out[8192];
    struct hr_walk walk;
    unsigned own = HR_MAPS_MAX;
    for (unsigned i = 0; i < maps.count; i++) {
        if (hr_maps_find(&maps, path, strlen(path)) == &maps.map[i]) {
            own = i;
        }
    }
    hr_walk_begin(&walk, indexed ? &the_index : NULL, 0, &maps, own, path, strlen(path));
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t n = 0; n < walk.count; n++) {
        struct hr_walk_name name;
        hr_walk_name(&walk, &maps, n, &name);
        used += (size_t)snprintf(out + used, sizeof(out) - used, name.extra ? "[%.*s] " : "%.*s ",
                                 (int)name.len, name.name);
    }
    return out;
}

static void no_other_map(void **state)
{
    (void)state;
    static const char *const children[] = {"-dash", "a", "a-b", "a.c", "b"};
    static const char *const one[] = {"/data"};
    make_maps(one, 1);
    make_index(children, 5);
    assert_string_equal(walk_text("/data", true), "-dash a a-b a.c b ");
    make_index(children, 0);
    assert_string_equal(walk_text("/data", true), "");
}

static void nested_maps(void **state)
{
    (void)state;
    static const char *const children[] = {"a", "c", "e"};
    static const char *const paths[] = {"/data",   "/data/b",  "/data/c/deep/er", "/data/c/other",
                                        "/data/z", "/data2/x", "/other"};
    make_maps(paths, 7);
    make_index(children, 3);
    assert_string_equal(walk_text("/data", true), "a [b] [c] e [z] ");
    assert_string_equal(walk_text("/data/c", false), "[deep] [other] ");
    assert_string_equal(walk_text("/data/c/deep", true), "a c e [er] ");
    assert_string_equal(walk_text("/data/c/deep/er", true), "a c e ");
    assert_string_equal(walk_text("/data/e", true), "a c e ");
    assert_string_equal(walk_text("/other", true), "a c e ");
}

static void first_and_last(void **state)
{
    (void)state;
    static const char *const children[] = {"m"};
    static const char *const paths[] = {"/d", "/d/a", "/d/b", "/d/z", "/d/m/x"};
    make_maps(paths, 5);
    make_index(children, 1);
    assert_string_equal(walk_text("/d", true), "[a] [b] [m] [z] ");
    make_index(children, 0);
    assert_string_equal(walk_text("/d", true), "[a] [b] [m] [z] ");
}

/* Random children and maps over a small alphabet, against sorting the union. */
static void against_a_plain_merge(void **state)
{
    (void)state;
    static const char *const alphabet[] = {"a",  "aa", "ab", "b",        "ba", "a-",
                                           "a.", "Z",  "_",  "\xc3\xbc", "0",  "b0"};
    enum { LETTERS = sizeof(alphabet) / sizeof(alphabet[0]) };
    srand(1);
    for (int round = 0; round < 2000; round++) {
        const char *children[LETTERS], *paths[LETTERS + 1], *all[2 * LETTERS];
        char buffers[LETTERS][32], want[1024] = "";
        bool nested[LETTERS], there[LETTERS];
        unsigned child_count = 0, map_count = 1, all_count = 0;
        paths[0] = "/d";
        for (int i = 0; i < LETTERS; i++) {
            there[i] = rand() % 2;
            nested[i] = rand() % 3 == 0;
            if (there[i]) {
                children[child_count++] = alphabet[i];
            }
            if (nested[i]) {
                snprintf(buffers[i], sizeof(buffers[i]), "/d/%s%s", alphabet[i], rand() % 2 ? "/x/y" : "");
                paths[map_count++] = buffers[i];
            }
            if (there[i] || nested[i]) {
                all[all_count++] = alphabet[i];
            }
        }
        qsort(children, child_count, sizeof(children[0]), compare);
        qsort(all, all_count, sizeof(all[0]), compare);
        for (unsigned i = 0; i < all_count; i++) {
            for (int k = 0; k < LETTERS; k++) {
                if (alphabet[k] == all[i]) {
                    size_t used = strlen(want);
                    snprintf(want + used, sizeof(want) - used, nested[k] ? "[%s] " : "%s ", all[i]);
                }
            }
        }
        make_maps(paths, map_count);
        make_index(children, child_count);
        assert_string_equal(walk_text("/d", true), want);
    }
}

static void as_many_maps_as_there_can_be(void **state)
{
    (void)state;
    char buffers[HR_MAPS_MAX][32], want[1024] = "";
    const char *paths[HR_MAPS_MAX];
    paths[0] = "/d";
    for (int i = 1; i < HR_MAPS_MAX; i++) {
        /* Given in falling order, told in rising order. */
        snprintf(buffers[i], sizeof(buffers[i]), "/d/m%02d", HR_MAPS_MAX - i);
        paths[i] = buffers[i];
        size_t used = strlen(want);
        snprintf(want + used, sizeof(want) - used, "[m%02d] ", i);
    }
    make_maps(paths, HR_MAPS_MAX);
    assert_string_equal(walk_text("/d", false), want);
}

static void streams_of_others(void **state)
{
    (void)state;
    DIR *dir = opendir("/");
    assert_non_null(dir);
    assert_false(hr_dirstream_ours(dir));
    assert_false(hr_dirstream_ours(NULL));
    closedir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_other_map),
        cmocka_unit_test(nested_maps),
        cmocka_unit_test(first_and_last),
        cmocka_unit_test(against_a_plain_merge),
        cmocka_unit_test(as_many_maps_as_there_can_be),
        cmocka_unit_test(streams_of_others),
    };
    return cmocka_run_group_tests_name("interpose/dirstream", tests, NULL, NULL);
}
