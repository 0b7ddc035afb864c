/* Lanes over random key sets that change meanwhile, answers in any order, and stores that list in another one
 * or make folders up: each key comes exactly once, or the store is found out. */
#include "tests/unit/list/asks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define KEYS_MAX 3000u

struct object {
    char key[96];
    uint32_t len;
    bool there, always; /* now; all the time */
    unsigned came;
};

struct bucket {
    struct object objects[KEYS_MAX];
    unsigned count, page;
    bool tree_order; /* '/' before every other byte, as a walk of directories has it */
};

static int compare_in(const struct bucket *bucket, struct hr_key a, struct hr_key b)
{
    uint32_t at = hr_key_shared(a, b);
    if (!bucket->tree_order || at >= a.len || at >= b.len) {
        return hr_key_compare(a, b);
    }
    int left = a.at[at] == '/' ? -1 : (unsigned char)a.at[at];
    int right = b.at[at] == '/' ? -1 : (unsigned char)b.at[at];
    return left - right;
}

static const struct bucket *sorting;

static struct hr_key key_of(const struct object *object)
{
    return (struct hr_key){object->key, object->len};
}

static int compare_objects(const void *a, const void *b)
{
    return compare_in(sorting, key_of(a), key_of(b));
}

static void fill(struct bucket *bucket)
{
    static const char *const parts[] = {"aaaaaaaaaaaaaaaaaaaaaaaa",
                                        "a",
                                        "b",
                                        "-",
                                        "/",
                                        "0",
                                        "1",
                                        "9",
                                        "\xc3\xa9",
                                        "\xff\xfe",
                                        "\x01",
                                        "%",
                                        "~",
                                        "z",
                                        "\x7f",
                                        "\xf0\x9f\x98\x80"};
    unsigned kinds = 2 + (unsigned)next_random(15);
    unsigned wanted = (unsigned)next_random(KEYS_MAX);
    bucket->count = 0;
    for (unsigned i = 0; i < wanted; i++) {
        struct object *object = &bucket->objects[bucket->count++];
        *object = (struct object){.there = true, .always = true};
        unsigned depth = 1 + (unsigned)next_random(8);
        object->len = (uint32_t)sprintf(object->key, "p/");
        for (unsigned j = 0; j < depth && object->len < 60; j++) {
            object->len += (uint32_t)sprintf(object->key + object->len, "%s",
                                             parts[next_random(kinds < 16 ? kinds : 16)]);
        }
    }
    sorting = bucket;
    qsort(bucket->objects, bucket->count, sizeof(*bucket->objects), compare_objects);
    unsigned kept = 0;
    for (unsigned i = 0; i < bucket->count; i++) {
        if (kept == 0 || strcmp(bucket->objects[i].key, bucket->objects[kept - 1].key) != 0) {
            bucket->objects[kept++] = bucket->objects[i];
        }
    }
    bucket->count = kept;
}

/* What a store says of folders, or makes up: only balance may depend on it. */
static int bucket_folders(struct hr_list_lanes *lanes, const struct bucket *bucket, const struct ask *one)
{
    static struct hr_listed listed[KEYS_MAX];
    static char text[KEYS_MAX][128];
    struct hr_key dir = one->ask.dir.at != NULL ? one->ask.dir : (struct hr_key){"p/", 2};
    uint32_t count = 0;

    for (unsigned i = 0; i < bucket->count && next_random(500) > 0; i++) {
        const struct object *object = &bucket->objects[i];
        const char *slash =
            object->len > dir.len ? memchr(object->key + dir.len, '/', object->len - dir.len) : NULL;
        uint32_t len = slash != NULL ? (uint32_t)(slash - object->key) + 1 : object->len + 1;
        bool made_up = slash == NULL && next_random(20) == 0;
        if (!object->there || memcmp(object->key, dir.at, dir.len) != 0 || (slash == NULL && !made_up) ||
            (count > 0 && listed[count - 1].key_len == len &&
             memcmp(text[count - 1], object->key, len - 1) == 0)) {
            continue;
        }
        memcpy(text[count], object->key, len - 1);
        text[count][len - 1] = '/';
        listed[count] = (struct hr_listed){.key = text[count], .key_len = len};
        count++;
    }
    return hr_list_lanes_folders(lanes, dir, listed, count, next_random(2) == 0);
}

/* 0, or -EPROTO: found out (here, or as the lister would from a page that does not ascend). */
static int answer_bucket(struct hr_list_lanes *lanes, struct bucket *bucket, const struct ask *one)
{
    static struct hr_listed listed[KEYS_MAX];
    static struct object *which[KEYS_MAX];
    unsigned most = one->ask.probe ? 1 : bucket->page;
    struct hr_key before = one->ask.after;
    uint32_t count = 0;
    uint32_t take = 0;
    bool more = false;

    if (one->ask.folders) {
        return bucket_folders(lanes, bucket, one);
    }
    for (unsigned i = 0; i < bucket->count; i++) {
        struct object *object = &bucket->objects[i];
        if (!object->there ||
            (before.at != NULL && compare_in(bucket, key_of(object), one->ask.after) <= 0)) {
            continue;
        }
        if (count == most) {
            more = true;
            break;
        }
        which[count] = object;
        listed[count++] = (struct hr_listed){.key = object->key, .key_len = object->len};
    }
    if (one->ask.probe) {
        return hr_list_lanes_probe(lanes, one->ask.probe_number,
                                   count > 0 ? key_of(which[0]) : (struct hr_key){NULL, 0});
    }
    for (uint32_t i = 0; i < count; i++) {
        if (before.at != NULL && hr_key_compare(before, key_of(which[i])) >= 0) {
            return -EPROTO;
        }
        before = key_of(which[i]);
    }
    int rc = hr_list_lanes_page(lanes, one->ask.lane, listed, count, more, &take);
    for (uint32_t i = 0; rc == 0 && i < take; i++) {
        which[i]->came++;
    }
    return rc;
}

/* Objects come and go. */
static void stir(struct bucket *bucket)
{
    for (unsigned i = 0; i < 1 + bucket->count / 50 && bucket->count > 0; i++) {
        struct object *object = &bucket->objects[next_random(bucket->count)];
        object->there = !object->there;
        object->always = false;
    }
}

/* Answers in any order. False: the store was found out. */
static bool list_bucket(struct bucket *bucket, unsigned width, bool stirred)
{
    struct hr_list_lanes *lanes;
    unsigned open = 0;
    int rc = 0;

    assert_int_equal(hr_list_lanes_new(2, width, next_random(2) == 0, &lanes), 0);
    for (unsigned turns = 0; !hr_list_lanes_done(lanes) && rc == 0; turns++) {
        struct ask *kept = NULL;
        assert_true(turns < 100000);
        open = collect(lanes);
        assert_true(open > 0);
        kept = malloc(open * sizeof(*kept));
        memcpy(kept, asks, open * sizeof(*kept));
        for (unsigned left = open; left > 0 && rc == 0; left--) {
            unsigned pick = (unsigned)next_random(left);
            point_inside(&kept[pick]);
            const struct hr_list_lanes_ask *ask = &kept[pick].ask;
            bool moot = !hr_list_lanes_waits(lanes, ask);
            moot =
                moot || (ask->probe && next_random(2) == 0 && hr_list_lanes_moot(lanes, ask->probe_number));
            rc = moot ? 0 : answer_bucket(lanes, bucket, &kept[pick]);
            kept[pick] = kept[left - 1];
            if (stirred && next_random(4) == 0) {
                stir(bucket);
            }
        }
        free(kept);
    }
    hr_list_lanes_free(lanes);
    assert_true(rc == 0 || rc == -EPROTO);
    return rc == 0;
}

static void check_bucket(const struct bucket *bucket)
{
    for (unsigned i = 0; i < bucket->count; i++) {
        assert_true(bucket->objects[i].came <= 1);
        assert_true(bucket->objects[i].came == 1 || !bucket->objects[i].always);
    }
}

static void test_exact(void **state)
{
    struct bucket *bucket = malloc(sizeof(*bucket));
    unsigned found_out = 0;

    (void)state;
    for (uint64_t round = 1; round <= 150; round++) {
        random_state = round * 0x9e3779b97f4a7c15ull;
        bucket->tree_order = false;
        bucket->page = 1 + (unsigned)next_random(60);
        fill(bucket);
        bool stirred = round % 3 == 0;
        bool whole = list_bucket(bucket, 1 + (unsigned)next_random(48), stirred);
        assert_true(whole || stirred); /* an honest store is never blamed while nothing changes */
        found_out += !whole;
        if (whole) {
            check_bucket(bucket);
        }
    }
    assert_true(found_out < 50);
    free(bucket);
}

/* A store that lists directories first: every key all the same, or it is found out. */
static void test_tree_order(void **state)
{
    struct bucket *bucket = malloc(sizeof(*bucket));
    unsigned found_out = 0;

    (void)state;
    for (uint64_t round = 1; round <= 150; round++) {
        random_state = round * 0x9e3779b97f4a7c15ull;
        bucket->tree_order = true;
        bucket->page = 1 + (unsigned)next_random(60);
        fill(bucket);
        if (list_bucket(bucket, 2 + (unsigned)next_random(47), false)) {
            check_bucket(bucket);
        } else {
            found_out++;
        }
    }
    assert_true(found_out > 20);
    free(bucket);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_tree_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
