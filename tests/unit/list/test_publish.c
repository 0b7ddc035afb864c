#include "tests/unit/list/tree.h"

#include <errno.h>

struct key {
    const char *key;
    uint64_t size;
};

struct tree_case {
    const char *name;
    struct key keys[12]; /* ends with a NULL */
    const char *tree;
    uint64_t hidden[HR_HIDDEN_COUNT];
    const char *example; /* of the one kind that is hidden */
};

#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define A255 A64 A64 A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const struct tree_case tree_cases[] = {
    {"nothing", {{NULL, 0}}, "", {0}, NULL},
    {"one", {{"a", 7}}, "a=7", {0}, NULL},
    {"one, deep", {{"a/b/c/d", 7}}, "a/ a/b/ a/b/c/ a/b/c/d=7", {0}, NULL},
    {"an empty object", {{"a", 0}}, "a=0", {0}, NULL},
    {"any order", {{"c", 3}, {"a", 1}, {"b", 2}}, "a=1 b=2 c=3", {0}, NULL},
    {"directory order is by name, not by key",
     {{"a-b", 1}, {"a/b", 2}, {"a.b/c", 3}, {"a0", 4}},
     "a/ a/b=2 a-b=1 a.b/ a.b/c=3 a0=4",
     {0},
     NULL},
    {"a directory comes back later",
     {{"a/1", 1}, {"b/1", 1}, {"a/2", 2}},
     "a/ a/1=1 a/2=2 b/ b/1=1",
     {0},
     NULL},
    {"a key twice keeps the later", {{"a", 1}, {"b", 2}, {"a", 3}}, "a=3 b=2", {0}, NULL},
    {"the prefix itself", {{"", 0}, {"a", 1}}, "a=1", {0}, NULL},
    {"the prefix itself, with bytes", {{"", 9}}, "", {[HR_HIDDEN_MARKER] = 1}, ""},
    {"a marker of no bytes", {{"a/", 0}}, "a/", {0}, NULL},
    {"markers in a row", {{"a/", 0}, {"a/b/", 0}, {"a/b/c", 1}}, "a/ a/b/ a/b/c=1", {0}, NULL},
    {"a marker with bytes", {{"a/b/", 5}}, "a/ a/b/", {[HR_HIDDEN_MARKER] = 1}, "a/b/"},
    {"an empty part", {{"a//b", 1}, {"x", 1}}, "x=1", {[HR_HIDDEN_EMPTY_PART] = 1}, "a//b"},
    {"a leading slash", {{"/a", 1}}, "", {[HR_HIDDEN_EMPTY_PART] = 1}, "/a"},
    {"slashes", {{"/", 0}, {"//", 0}, {"a//", 0}}, "", {[HR_HIDDEN_EMPTY_PART] = 3}, "/"},
    {"dots",
     {{".", 1}, {"..", 1}, {"a/..", 1}, {"./a", 1}, {"a/../b", 1}},
     "",
     {[HR_HIDDEN_DOT_PART] = 5},
     "."},
    {"not those dots",
     {{"...", 1}, {".a", 1}, {"..a", 1}, {"a.", 1}, {". ", 1}},
     ".<20>=1 ...=1 ..a=1 .a=1 a.=1",
     {0},
     NULL},
    {"a dotted marker", {{"./", 0}}, "", {[HR_HIDDEN_DOT_PART] = 1}, "./"},
    {"the longest name", {{A255, 1}}, A255 "=1", {0}, NULL},
    {"longer than a name",
     {{A255 "a", 1}, {A255 "a/b", 1}, {"c/" A255 "a", 2}},
     "",
     {[HR_HIDDEN_LONG_PART] = 3},
     A255 "a"},
    {"the longest key",
     {{A255 "/" A255 "/" A255 "/" A255 "/", 0}},
     A255 "/ " A255 "/" A255 "/ " A255 "/" A255 "/" A255 "/ " A255 "/" A255 "/" A255 "/" A255 "/",
     {0},
     NULL},
    {"longer than a key", {{A255 "/" A255 "/" A255 "/" A255 "/a", 1}}, "", {[HR_HIDDEN_LONG_PART] = 1}, NULL},
    {"the first fault counts", {{"a//../b", 1}}, "", {[HR_HIDDEN_EMPTY_PART] = 1}, "a//../b"},
    {"shadowed", {{"a", 1}, {"a/b", 2}}, "a/ a/b=2", {[HR_HIDDEN_SHADOWED] = 1}, "a"},
    {"shadowed, the other way round",
     {{"x/a/b", 2}, {"x/a", 1}},
     "x/ x/a/ x/a/b=2",
     {[HR_HIDDEN_SHADOWED] = 1},
     "x/a"},
    {"shadowed by a marker, and twice",
     {{"a", 1}, {"a", 4}, {"a/", 0}, {"ab", 2}},
     "a/ ab=2",
     {[HR_HIDDEN_SHADOWED] = 1},
     "a"},
    {"not shadowed by what is hidden",
     {{"a", 1}, {"a//b", 2}, {"a/.", 3}},
     "a=1",
     {[HR_HIDDEN_EMPTY_PART] = 1, [HR_HIDDEN_DOT_PART] = 1},
     NULL},
    {"unicode",
     {{"\xc3\xa9/\xe6\x97\xa5", 1}, {"e", 2}, {"\xf0\x9f\x90\x8e", 3}},
     "e=2 <c3><a9>/ <c3><a9>/<e6><97><a5>=1 <f0><9f><90><8e>=3",
     {0},
     NULL},
    {"odd bytes",
     {{"a\x01", 1}, {"a/b", 2}, {"\x7f\xff\xfe", 3}, {"\n", 4}, {"a b", 5}, {"a%2Fb", 6}, {"a+b", 7}},
     "<0a>=4 a/ a/b=2 a<01>=1 a<20>b=5 a%2Fb=6 a+b=7 <7f><ff><fe>=3",
     {0},
     NULL},
    {"backslashes and quotes", {{"a\\b", 1}, {"'", 2}, {"\"", 3}}, "\"=3 '=2 a\\b=1", {0}, NULL},
};

static struct hr_index_builder *built(const struct key *keys)
{
    struct hr_index_builder *builder;

    assert_int_equal(hr_builder_new(&builder), 0);
    for (; keys->key != NULL; keys++) {
        assert_int_equal(
            hr_builder_add(builder, keys->key, (uint32_t)strlen(keys->key), keys->size, 1000, ""), 0);
    }
    return builder;
}

static void test_trees(void **state)
{
    char *dir = scratch_new();

    (void)state;
    for (size_t i = 0; i < sizeof(tree_cases) / sizeof(*tree_cases); i++) {
        const struct tree_case *one = &tree_cases[i];
        struct hr_index_builder *builder = built(one->keys);
        struct hr_index index;
        uint64_t hidden = 0;
        assert_int_equal(hr_builder_publish(builder, dir, TREE_ID, 1, LISTED_NS, &index), 0);
        assert_int_equal(hr_index_check(&index, NULL), 0);
        char *text = tree_text(&index);
        if (strcmp(text, one->tree) != 0) {
            fail_msg("%s: '%s', expected '%s'", one->name, text, one->tree);
        }
        for (int why = 0; why < HR_HIDDEN_COUNT; why++) {
            const char *example;
            if (hr_builder_hidden(builder, (enum hr_hidden)why, &example) != one->hidden[why]) {
                fail_msg("%s: %d hidden %llu times", one->name, why,
                         (unsigned long long)hr_builder_hidden(builder, (enum hr_hidden)why, &example));
            }
            assert_int_equal(example != NULL, one->hidden[why] > 0);
            if (example != NULL && one->example != NULL) {
                assert_string_equal(example, one->example);
            }
            hidden += one->hidden[why];
        }
        assert_int_equal(index.names->hidden_count, hidden);
        assert_int_equal(index.names->listed_ns, LISTED_NS);
        assert_int_equal(hr_builder_count(builder), 0);
        free(text);
        hr_index_unmap(&index);
        hr_builder_free(builder);
    }
    scratch_remove(dir);
}

static void test_refused(void **state)
{
    struct hr_index_builder *builder;

    (void)state;
    assert_int_equal(hr_builder_new(&builder), 0);
    assert_int_equal(hr_builder_add(builder, "a\0b", 3, 1, 1, ""), -EINVAL);
    assert_int_equal(hr_builder_add(builder, "a", 1, (uint64_t)INT64_MAX + 1, 1, ""), -EINVAL);
    assert_int_equal(hr_builder_count(builder), 0);
    hr_builder_free(builder);
    hr_builder_free(NULL);
}

/* ---- lookups ---- */

static void test_lookup_errors(void **state)
{
    static const struct {
        const char *path;
        int error;
    } cases[] = {
        {"", 0},
        {"d", 0},
        {"d/f", 0},
        {"nope", -ENOENT},
        {"d/nope", -ENOENT},
        {"nope/x", -ENOENT},
        {"f/x", -ENOTDIR},
        {"d/f/x/y", -ENOTDIR},
        {"d/", -ENOENT},
        {"f/", -ENOTDIR},
        {"/f", -ENOENT},
        {"d//f", -ENOENT},
        {".", -ENOENT},
        {"d/..", -ENOENT},
        {A255, -ENOENT},
        {A255 "a", -ENAMETOOLONG},
        {"d/" A255 "a", -ENAMETOOLONG},
        {"nope/" A255 "a", -ENOENT},
        {"f/" A255 "a", -ENOTDIR},
    };
    const struct key keys[] = {{"f", 1}, {"d/f", 2}, {NULL, 0}};
    char *dir = scratch_new();
    struct hr_index_builder *builder = built(keys);
    struct hr_index index;
    char path[8];

    (void)state;
    assert_int_equal(hr_builder_publish(builder, dir, TREE_ID, 1, LISTED_NS, &index), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        uint32_t entry = 4711;
        int rc = hr_index_lookup(&index, cases[i].path, strlen(cases[i].path), &entry);
        if (rc != cases[i].error) {
            fail_msg("'%s': %d", cases[i].path, rc);
        }
        assert_int_equal(entry == 4711, rc != 0);
    }
    uint32_t entry;
    assert_int_equal(hr_index_lookup(&index, "d/f", 3, &entry), 0);
    assert_int_equal(hr_index_path(&index, entry, path, 4), 3);
    assert_string_equal(path, "d/f");
    assert_int_equal(hr_index_path(&index, entry, path, 3), -ENAMETOOLONG);
    assert_int_equal(hr_index_path(&index, 0, path, 1), 0);
    assert_string_equal(path, "");
    assert_int_equal(hr_index_path(&index, 0, path, 0), -ENAMETOOLONG);
    assert_int_equal(hr_index_child_count(&index, entry), 0);
    assert_int_equal(hr_index_child(&index, entry, 0), 0);
    assert_int_equal(hr_index_child(&index, 0, 2), 0);
    assert_int_equal(hr_index_seek(&index, 0, "e", 1), 1);
    assert_int_equal(hr_index_seek(&index, 0, "", 0), 0);
    assert_int_equal(hr_index_seek(&index, 0, "g", 1), 2);
    hr_index_unmap(&index);
    hr_builder_free(builder);
    scratch_remove(dir);
}

/* Components of every length, looked up in texts that begin and end at the edge of what may be read. */
static void test_lookup_lengths(void **state)
{
    enum { LONGEST = 20 };
    char *dir = scratch_new();
    struct hr_index_builder *builder;
    struct hr_index index;
    char key[2 * LONGEST + 2];

    (void)state;
    assert_int_equal(hr_builder_new(&builder), 0);
    for (int above = 1; above <= LONGEST; above++) {
        for (int below = 1; below <= LONGEST; below++) {
            int len =
                snprintf(key, sizeof(key), "%.*s/%.*s", above, A255, below, "bcdefghijklmnopqrstuvwxyz");
            assert_int_equal(
                hr_builder_add(builder, key, (uint32_t)len, (uint64_t)(100 * above + below), 1, ""), 0);
        }
    }
    assert_int_equal(hr_builder_publish(builder, dir, TREE_ID, 1, LISTED_NS, &index), 0);
    for (int above = 1; above <= LONGEST; above++) {
        for (int below = 1; below <= LONGEST + 1; below++) {
            int len =
                snprintf(key, sizeof(key), "%.*s/%.*s", above, A255, below, "bcdefghijklmnopqrstuvwxyz");
            char *exact = malloc((size_t)len); /* the sanitizer's ruler */
            uint32_t entry = 0;
            memcpy(exact, key, (size_t)len);
            assert_int_equal(hr_index_lookup(&index, exact, (size_t)len, &entry),
                             below <= LONGEST ? 0 : -ENOENT);
            assert_int_equal(index.entries[entry].size,
                             below <= LONGEST ? (uint64_t)(100 * above + below) : index.entries[0].size);
            exact[len - 1] = '~';
            assert_int_equal(hr_index_lookup(&index, exact, (size_t)len, &entry), -ENOENT);
            free(exact);
        }
    }
    hr_index_unmap(&index);
    hr_builder_free(builder);
    scratch_remove(dir);
}

static void test_etags_and_times(void **state)
{
    static const struct {
        const char *etag;
        enum hr_etag_kind kind;
    } cases[] = {
        {"", HR_ETAG_NONE},
        {"d41d8cd98f00b204e9800998ecf8427e", HR_ETAG_MD5},
        {"d41d8cd98f00b204e9800998ecf8427e-1", HR_ETAG_PARTS},
        {"d41d8cd98f00b204e9800998ecf8427e-4294967295", HR_ETAG_PARTS},
        {"d41d8cd98f00b204e9800998ecf8427e-4294967296", HR_ETAG_TEXT},
        {"d41d8cd98f00b204e9800998ecf8427e-99999999999999999999", HR_ETAG_TEXT},
        {"d41d8cd98f00b204e9800998ecf8427e-0", HR_ETAG_TEXT},
        {"d41d8cd98f00b204e9800998ecf8427e-01", HR_ETAG_TEXT},
        {"d41d8cd98f00b204e9800998ecf8427e-", HR_ETAG_TEXT},
        {"d41d8cd98f00b204e9800998ecf8427e-1x", HR_ETAG_TEXT},
        {"D41D8CD98F00B204E9800998ECF8427E", HR_ETAG_TEXT},
        {"d41d8cd98f00b204e9800998ecf8427", HR_ETAG_TEXT},
        {"g41d8cd98f00b204e9800998ecf8427e", HR_ETAG_TEXT},
        {"0x8DC2B4E5F6A7B8C", HR_ETAG_TEXT},
        {"x", HR_ETAG_TEXT},
        {A64 A64 "1234567", HR_ETAG_TEXT},
    };
    const size_t count = sizeof(cases) / sizeof(*cases);
    char *dir = scratch_new();
    struct hr_index_builder *builder;
    struct hr_index index;
    char text[HR_INDEX_ETAG_MAX + 1];
    uint32_t entry;

    (void)state;
    assert_int_equal(hr_builder_new(&builder), 0);
    for (size_t i = 0; i < count; i++) {
        char key[32];
        snprintf(key, sizeof(key), "d/e/%02zu", i);
        assert_int_equal(
            hr_builder_add(builder, key, (uint32_t)strlen(key), i, 500 + (int64_t)i, cases[i].etag), 0);
    }
    assert_int_equal(hr_builder_add(builder, "long", 4, 1, -5, A64 A64 "12345678"), 0);
    assert_int_equal(hr_builder_add(builder, "null", 4, 1, -6, NULL), 0);
    assert_int_equal(hr_builder_add(builder, "m/", 2, 0, 900, "x"), 0);
    assert_int_equal(hr_builder_publish(builder, dir, TREE_ID, 1, LISTED_NS, &index), 0);
    assert_int_equal(hr_index_check(&index, NULL), 0);
    for (size_t i = 0; i < count; i++) {
        char key[32];
        snprintf(key, sizeof(key), "d/e/%02zu", i);
        assert_int_equal(hr_index_lookup(&index, key, strlen(key), &entry), 0);
        assert_int_equal(hr_index_etag(&index, entry, text, sizeof(text)), strlen(cases[i].etag));
        assert_string_equal(text, cases[i].etag);
        assert_int_equal(index.entries[entry].etag_kind, cases[i].kind);
        assert_int_equal(index.entries[entry].mtime_ns, 500 + (int64_t)i);
        assert_int_equal(hr_index_etag(&index, entry, text, strlen(cases[i].etag)), -ENOSPC);
    }
    assert_int_equal(hr_index_lookup(&index, "long", 4, &entry), 0);
    assert_int_equal(hr_index_etag(&index, entry, text, sizeof(text)), 0);
    assert_int_equal(hr_index_etag(&index, 0, text, sizeof(text)), 0);
    /* The newest below, markers too. */
    assert_int_equal(hr_index_lookup(&index, "d", 1, &entry), 0);
    assert_int_equal(index.entries[entry].mtime_ns, 500 + (int64_t)count - 1);
    assert_int_equal(hr_index_lookup(&index, "m", 1, &entry), 0);
    assert_int_equal(index.entries[entry].mtime_ns, 900);
    assert_int_equal(index.entries[0].mtime_ns, 900);
    assert_int_equal(index.names->file_count, count + 2);
    assert_int_equal(index.names->dir_count, 4);
    assert_int_equal(index.names->object_bytes, count * (count - 1) / 2 + 2);
    hr_index_unmap(&index);
    assert_int_equal(hr_builder_publish(builder, dir, TREE_ID, 2, LISTED_NS, &index), 0);
    assert_int_equal(index.entries[0].mtime_ns, LISTED_NS);
    hr_index_unmap(&index);
    hr_builder_free(builder);
    scratch_remove(dir);
}

/* The budget of an index, to the byte: 100,000 names of 29 bytes in 1000 directories. */
static void test_bytes_an_object(void **state)
{
    enum { KEYS = 100000, DIRS = 1000, NAME_BYTES = 29, DIR_NAME_BYTES = 9 };
    char *dir = scratch_new();
    struct hr_index_builder *builder;
    struct hr_index index;
    char key[64];

    (void)state;
    assert_int_equal(hr_builder_new(&builder), 0);
    for (unsigned i = 0; i < KEYS; i++) {
        int len = snprintf(key, sizeof(key), "train/n%08u/ILSVRC2012_val_%08u.JPEGX", i / (KEYS / DIRS), i);
        assert_int_equal(len, 45);
        assert_int_equal(
            hr_builder_add(builder, key, (uint32_t)len, i, i, "d41d8cd98f00b204e9800998ecf8427e"), 0);
    }
    assert_int_equal(hr_builder_publish(builder, dir, TREE_ID, 1, LISTED_NS, &index), 0);
    uint64_t entries = 1 + 1 + DIRS + KEYS;
    uint64_t expected = sizeof(struct hr_names) + entries * 40 + (2 + DIRS) * 16 +
                        ((entries - 1) * 4 / 3 + 2) * 4 + KEYS * NAME_BYTES + DIRS * DIR_NAME_BYTES + 5;
    assert_in_range(index.names->file_bytes, expected, expected + 4 * 63); /* four sections begin at 64 */
    assert_true(index.names->file_bytes + entries * (sizeof(struct hr_state) + 1) <= 100ull * KEYS);
    hr_index_unmap(&index);
    hr_builder_free(builder);
    scratch_remove(dir);
}

/* Keys that lie in files meanwhile make the same index as keys in memory. */
static void test_scratch(void **state)
{
    enum { KEYS = 500000 }; /* 20 MB of entries: more than is kept in memory */
    char *dir = scratch_new();
    char *scratch = scratch_new();
    struct hr_index index[2];
    char key[64];

    (void)state;
    for (unsigned way = 0; way < 2; way++) {
        struct hr_index_builder *builder;
        assert_int_equal(hr_builder_new(&builder), 0);
        if (way == 1) {
            assert_int_equal(hr_builder_scratch(builder, scratch), 0);
        }
        for (unsigned i = 0; i < KEYS; i++) {
            int len = snprintf(key, sizeof(key), "%u/%u", i * 7919u % 100, i);
            assert_int_equal(hr_builder_add(builder, key, (uint32_t)len, i, i, i % 2 ? "abc-9" : ""), 0);
        }
        assert_int_equal(files_in(scratch), 0);
        assert_int_equal(hr_builder_publish(builder, dir, TREE_ID, 1, LISTED_NS, &index[way]), 0);
        hr_builder_free(builder);
    }
    assert_int_equal(index[0].names->file_bytes, index[1].names->file_bytes);
    assert_memory_equal(index[0].names, index[1].names, index[0].names->file_bytes);
    hr_index_unmap(&index[0]);
    hr_index_unmap(&index[1]);
    scratch_remove(scratch);
    scratch_remove(dir);
}

static void test_scratch_full(void **state)
{
    char *dir = scratch_new();
    struct hr_index_builder *builder;
    int rc = 0;

    (void)state;
    assert_int_equal(hr_builder_new(&builder), 0);
    assert_int_equal(hr_builder_scratch(builder, "/nonexistent"), 0);
    for (unsigned i = 0; i < 500000 && rc == 0; i++) {
        char key[32];
        rc = hr_builder_add(builder, key, (uint32_t)snprintf(key, sizeof(key), "%u", i), i, i, "");
    }
    assert_int_equal(rc, -ENOENT);
    hr_builder_free(builder);
    scratch_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trees),          cmocka_unit_test(test_refused),
        cmocka_unit_test(test_lookup_errors),  cmocka_unit_test(test_etags_and_times),
        cmocka_unit_test(test_lookup_lengths), cmocka_unit_test(test_bytes_an_object),
        cmocka_unit_test(test_scratch),        cmocka_unit_test(test_scratch_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
