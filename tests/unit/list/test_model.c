/* Random key sets against a model that does everything the slow way; and orders of arrival that must not
 * matter. */
#include "tests/unit/list/tree.h"

#define KEYS_MAX 120
#define PATHS_MAX (KEYS_MAX * 8)
#define ROUNDS 400

static uint64_t random_state;

static uint64_t next_random(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

struct path {
    char text[HR_KEY_MAX + 1];
    bool dir;
    uint64_t size;
    int64_t mtime_ns; /* of a directory: its marker's */
};

struct model {
    struct path paths[PATHS_MAX];
    unsigned count;
    uint64_t hidden[HR_HIDDEN_COUNT];
};

/* ---- the model ---- */

static struct path *find(struct model *model, const char *text, bool dir)
{
    for (unsigned i = 0; i < model->count; i++) {
        if (model->paths[i].dir == dir && strcmp(model->paths[i].text, text) == 0) {
            return &model->paths[i];
        }
    }
    return NULL;
}

static struct path *find_or_add(struct model *model, const char *text, bool dir)
{
    struct path *path = find(model, text, dir);
    if (path == NULL) {
        assert_true(model->count < PATHS_MAX);
        path = &model->paths[model->count++];
        snprintf(path->text, sizeof(path->text), "%s", text);
        path->dir = dir;
        path->mtime_ns = INT64_MIN;
    }
    return path;
}

static enum hr_hidden judge(const char *key)
{
    size_t len = strlen(key);

    if (len > HR_KEY_MAX) {
        return HR_HIDDEN_LONG_PART;
    }
    for (size_t from = 0; from < len;) {
        size_t part = strcspn(key + from, "/");
        if (part == 0) {
            return HR_HIDDEN_EMPTY_PART;
        }
        if ((part == 1 && key[from] == '.') || (part == 2 && memcmp(key + from, "..", 2) == 0)) {
            return HR_HIDDEN_DOT_PART;
        }
        if (part > 255) {
            return HR_HIDDEN_LONG_PART;
        }
        from += part + 1;
    }
    return HR_HIDDEN_COUNT;
}

static void model_add(struct model *model, const char *key, uint64_t size, int64_t mtime_ns)
{
    enum hr_hidden why = judge(key);
    char text[HR_KEY_MAX + 1];
    size_t len = strlen(key);

    if (why != HR_HIDDEN_COUNT) {
        model->hidden[why]++;
        return;
    }
    for (size_t i = 0; i < len; i++) {
        if (key[i] == '/') {
            snprintf(text, sizeof(text), "%.*s", (int)i, key);
            (void)find_or_add(model, text, true);
        }
    }
    bool marker = len == 0 || key[len - 1] == '/';
    snprintf(text, sizeof(text), "%.*s", (int)(len - (size_t)(marker && len > 0)), key);
    struct path *path = find_or_add(model, text, marker);
    path->size = size;
    path->mtime_ns = mtime_ns;
    model->hidden[HR_HIDDEN_MARKER] += marker && size > 0;
}

static void model_shadow(struct model *model)
{
    for (unsigned i = 0; i < model->count;) {
        if (!model->paths[i].dir && find(model, model->paths[i].text, true) != NULL) {
            model->hidden[HR_HIDDEN_SHADOWED]++;
            model->paths[i] = model->paths[--model->count];
        } else {
            i++;
        }
    }
}

/* Newest of what is at or below a directory. */
static int64_t model_newest(const struct model *model, const char *dir)
{
    size_t len = strlen(dir);
    int64_t newest = INT64_MIN;

    for (unsigned i = 0; i < model->count; i++) {
        const struct path *path = &model->paths[i];
        bool below = len == 0 || (strncmp(path->text, dir, len) == 0 &&
                                  (path->text[len] == '/' || (path->text[len] == '\0' && path->dir)));
        newest = below && path->mtime_ns > newest ? path->mtime_ns : newest;
    }
    return newest == INT64_MIN ? LISTED_NS : newest;
}

/* The order of a walk: '/' before every other byte. */
static int compare_walk(const void *a, const void *b)
{
    const unsigned char *left = (const unsigned char *)((const struct path *)a)->text;
    const unsigned char *right = (const unsigned char *)((const struct path *)b)->text;

    while (*left != '\0' && *left == *right) {
        left++;
        right++;
    }
    int l = *left == '/' ? 1 : *left * 2;
    int r = *right == '/' ? 1 : *right * 2;
    return l - r;
}

static char *model_text(struct model *model)
{
    struct hr_buf out = HR_BUF_INIT(16 << 20);

    qsort(model->paths, model->count, sizeof(*model->paths), compare_walk);
    assert_int_equal(hr_buf_puts(&out, ""), 0);
    for (unsigned i = 0; i < model->count; i++) {
        const struct path *path = &model->paths[i];
        if (path->text[0] == '\0') {
            continue;
        }
        assert_int_equal(hr_buf_puts(&out, out.len > 0 ? " " : ""), 0);
        put_escaped(&out, path->text, strlen(path->text));
        assert_int_equal(path->dir ? hr_buf_puts(&out, "/")
                                   : hr_buf_printf(&out, "=%llu", (unsigned long long)path->size),
                         0);
    }
    return out.data;
}

/* ---- random keys ---- */

static void random_key(char key[2048])
{
    static const char *const parts[] = {"a", "b", "c",  "a-b", "a.b", "ab", "\xc3\xa9", "\x01", "a b", "%41",
                                        "+", "~", "aa", "a0",  "A",   ".a", "...",      ".",    "..",  ""};
    unsigned depth = (unsigned)next_random(5);

    key[0] = '\0';
    for (unsigned i = 0; i <= depth; i++) {
        if (i > 0) {
            strcat(key, "/");
        }
        /* The last three fit for no path; seldom taken, or nothing is left to see. */
        uint64_t pick = next_random(next_random(8) == 0 ? 20 : 17);
        strcat(key, parts[pick]);
        if (next_random(60) == 0) {
            memset(key + strlen(key), 'L', 260);
            key[strlen(key) - next_random(12)] = '\0';
        }
    }
    if (next_random(6) == 0) {
        strcat(key, "/");
    }
}

static void compare_times(const struct model *model, const struct hr_index *index)
{
    for (unsigned i = 0; i < model->count; i++) {
        const struct path *path = &model->paths[i];
        uint32_t entry;
        assert_int_equal(hr_index_lookup(index, path->text, strlen(path->text), &entry), 0);
        assert_int_equal(index->entries[entry].kind, path->dir ? HR_KIND_DIR : HR_KIND_FILE);
        assert_int_equal(index->entries[entry].mtime_ns,
                         path->dir ? model_newest(model, path->text) : path->mtime_ns);
    }
}

static void one_round(const char *dir, struct model *model)
{
    struct hr_index_builder *builder;
    struct hr_index index;
    char key[2048] = "";
    unsigned count = (unsigned)next_random(KEYS_MAX);

    *model = (struct model){.count = 0};
    (void)find_or_add(model, "", true);
    assert_int_equal(hr_builder_new(&builder), 0);
    for (unsigned i = 0; i < count; i++) {
        if (next_random(10) != 0) { /* else the last one again */
            random_key(key);
        }
        uint64_t size = next_random(3);
        int64_t mtime_ns = (int64_t)next_random(1000) - 500;
        model_add(model, key, size, mtime_ns);
        /* A copy of its very length, so that reading beyond it shows under a sanitizer. */
        char *exact = malloc(strlen(key) + (size_t)(key[0] == '\0'));
        memcpy(exact, key, strlen(key));
        assert_int_equal(hr_builder_add(builder, exact, (uint32_t)strlen(key), size, mtime_ns, ""), 0);
        free(exact);
    }
    model_shadow(model);
    assert_int_equal(hr_builder_publish(builder, dir, TREE_ID, 1, LISTED_NS, &index), 0);
    assert_int_equal(hr_index_check(&index, NULL), 0);
    for (int why = 0; why < HR_HIDDEN_COUNT; why++) {
        const char *example;
        assert_int_equal(hr_builder_hidden(builder, (enum hr_hidden)why, &example), model->hidden[why]);
    }
    char *expected = model_text(model);
    char *text = tree_text(&index);
    assert_string_equal(text, expected);
    compare_times(model, &index);
    free(text);
    free(expected);
    hr_index_unmap(&index);
    assert_int_equal(hr_index_load(dir, TREE_ID, &index), 0);
    hr_index_unmap(&index);
    hr_builder_free(builder);
}

static void test_random(void **state)
{
    char *dir = scratch_new();
    struct model *model = malloc(sizeof(*model));

    (void)state;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        random_state = round * 0x9e3779b97f4a7c15ull;
        one_round(dir, model);
    }
    free(model);
    scratch_remove(dir);
}

/* ---- orders of arrival ---- */

#define NAMES 6000u

/* What stands at place i: a permutation of 0..NAMES-1, or (overlapping) one with repeats that misses none. */
enum arrival { SORTED, REVERSED, PAGES_SHUFFLED, LANES, OVERLAPPING, RANDOM, ARRIVAL_COUNT };

static unsigned arrivals(enum arrival how, unsigned *order)
{
    unsigned count = NAMES;

    for (unsigned i = 0; i < NAMES; i++) {
        order[i] = how == REVERSED         ? NAMES - 1 - i
                   : how == PAGES_SHUFFLED ? (i / 100 * 37 % 60) * 100 + i % 100
                   : how == LANES          ? i % 7 * (NAMES / 7) + i / 7
                                           : i;
    }
    if (how == LANES) { /* what seven equal lanes do not divide */
        for (unsigned i = NAMES / 7 * 7; i < NAMES; i++) {
            order[i] = i;
        }
    }
    if (how == OVERLAPPING) {
        count = 0;
        for (unsigned from = 0; from < NAMES; from += 50) {
            for (unsigned i = from; i < from + 80 && i < NAMES; i++) {
                order[count++] = i;
            }
        }
    }
    for (unsigned i = NAMES - 1; how == RANDOM && i > 0; i--) {
        unsigned other = (unsigned)next_random(i + 1);
        unsigned kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    return count;
}

static void test_arrivals(void **state)
{
    static unsigned order[NAMES * 2];
    static unsigned latest[NAMES];
    char *dir = scratch_new();
    char key[32];

    (void)state;
    random_state = 42;
    for (int how = 0; how < ARRIVAL_COUNT; how++) {
        struct hr_index_builder *builder;
        struct hr_index index;
        unsigned count = arrivals((enum arrival)how, order);
        assert_int_equal(hr_builder_new(&builder), 0);
        for (unsigned i = 0; i < count; i++) {
            int len = snprintf(key, sizeof(key), "d/%05u", order[i]);
            latest[order[i]] = i;
            assert_int_equal(hr_builder_add(builder, key, (uint32_t)len, i, 1, ""), 0);
        }
        assert_int_equal(hr_builder_publish(builder, dir, TREE_ID, 1, LISTED_NS, &index), 0);
        assert_int_equal(hr_index_check(&index, NULL), 0);
        assert_int_equal(index.names->file_count, NAMES);
        for (unsigned i = 0; i < NAMES; i++) {
            uint32_t name_len;
            const char *name = hr_index_name(&index, 2 + i, &name_len);
            snprintf(key, sizeof(key), "%05u", i);
            assert_int_equal(name_len, 5);
            assert_memory_equal(name, key, 5);
            assert_int_equal(index.entries[2 + i].size, latest[i]);
        }
        hr_index_unmap(&index);
        hr_builder_free(builder);
    }
    scratch_remove(dir);
}

/* A table that is as full as it gets: some names are beyond the probes, and found all the same. */
static void test_full_table(void **state)
{
    const unsigned count = 3 * 65536;
    char *dir = scratch_new();
    struct hr_index_builder *builder;
    struct hr_index index;
    char key[32];
    unsigned beyond = 0;

    (void)state;
    assert_int_equal(hr_builder_new(&builder), 0);
    for (unsigned i = 0; i < count; i++) {
        int len = snprintf(key, sizeof(key), "%u.jpg", i);
        assert_int_equal(hr_builder_add(builder, key, (uint32_t)len, i, 1, ""), 0);
    }
    assert_int_equal(hr_builder_publish(builder, dir, TREE_ID, 1, LISTED_NS, &index), 0);
    assert_int_equal(hr_index_check(&index, NULL), 0);
    assert_int_equal(index.names->hash_slots, 4 * 65536 + 2);
    for (unsigned i = 0; i < count; i++) {
        uint32_t entry;
        unsigned probe = 0;
        int len = snprintf(key, sizeof(key), "%u.jpg", i);
        assert_int_equal(hr_index_lookup(&index, key, (size_t)len, &entry), 0);
        assert_int_equal(index.entries[entry].size, i);
        uint64_t at = hr_index_slot(hr_index_hash(0, key, (size_t)len), index.names->hash_slots);
        while (probe < HR_INDEX_PROBES_MAX && index.hash[(at + probe) % index.names->hash_slots] != entry) {
            probe++;
        }
        beyond += probe == HR_INDEX_PROBES_MAX;
        len = snprintf(key, sizeof(key), "%u.jpeg", i);
        assert_int_equal(hr_index_lookup(&index, key, (size_t)len, &entry), -2 /* ENOENT */);
    }
    assert_true(beyond > 0);
    assert_true(beyond < count / 1000);
    hr_index_unmap(&index);
    hr_builder_free(builder);
    scratch_remove(dir);
}

/* 512 directories deep, the most a key can hold. */
static void test_deep(void **state)
{
    char *dir = scratch_new();
    struct hr_index_builder *builder;
    struct hr_index index;
    char key[HR_KEY_MAX];
    char path[HR_KEY_MAX + 1];
    uint32_t entry;

    (void)state;
    for (unsigned i = 0; i < sizeof(key); i++) {
        key[i] = i % 2 ? '/' : 'a';
    }
    assert_int_equal(hr_builder_new(&builder), 0);
    assert_int_equal(hr_builder_add(builder, key, sizeof(key) - 1, 1, 1, ""), 0);
    assert_int_equal(hr_builder_add(builder, key, 3, 1, 1, ""), 0);
    assert_int_equal(hr_builder_publish(builder, dir, TREE_ID, 1, LISTED_NS, &index), 0);
    assert_int_equal(hr_index_check(&index, NULL), 0);
    assert_int_equal(index.names->dir_count, 512);
    assert_int_equal(index.names->hidden_count, 1);
    assert_int_equal(hr_index_lookup(&index, key, sizeof(key) - 1, &entry), 0);
    assert_int_equal(hr_index_path(&index, entry, path, sizeof(path)), sizeof(key) - 1);
    assert_memory_equal(path, key, sizeof(key) - 1);
    hr_index_unmap(&index);
    hr_builder_free(builder);
    scratch_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_arrivals),
        cmocka_unit_test(test_full_table),
        cmocka_unit_test(test_deep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
