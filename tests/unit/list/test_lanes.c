/* Who lists what, in virtual rounds: every request under way is answered, then the next are asked for.
 * Counts, not times; and random key sets, where each key must come exactly once. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fetch/list/lanes.h"
#include "tests/scale/shapes.h"

#define ASKS_MAX 1024u
#define PAGE 1000u

struct ask {
    struct hr_list_lanes_ask ask;
    char after[2048];
};

static struct ask asks[ASKS_MAX];

static uint64_t random_state;

static uint64_t next_random(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

static unsigned collect(struct hr_list_lanes *lanes)
{
    struct hr_list_lanes_ask ask;
    unsigned count = 0;
    int rc;

    while ((rc = hr_list_lanes_next(lanes, &ask)) > 0) {
        assert_true(count < ASKS_MAX);
        asks[count].ask = ask;
        if (ask.after.at != NULL) {
            assert_true(ask.after.len < sizeof(asks[count].after));
            memcpy(asks[count].after, ask.after.at, ask.after.len);
            asks[count].ask.after.at = asks[count].after;
        }
        count++;
    }
    assert_int_equal(rc, 0);
    return count;
}

/* ---- rounds ---- */

struct rounds {
    unsigned rounds;
    unsigned idle_pages; /* that brought nothing */
    struct hr_list_lanes_progress progress;
};

/* Keys that a page brought its lane. */
static uint32_t answer_shape(struct hr_list_lanes *lanes, const struct shape_set *set, const struct ask *one)
{
    static struct hr_listed listed[PAGE];
    static char text[PAGE][SHAPE_KEY_MAX];
    uint64_t at = one->ask.after.at != NULL ? shape_seek(set, one->after, one->ask.after.len) : 0;
    uint32_t count = 0;
    uint32_t take = 0;

    for (; count < (one->ask.probe ? 1 : PAGE) && at + count < set->count; count++) {
        uint32_t len = shape_key(set, at + count, text[count]);
        listed[count] = (struct hr_listed){.key = text[count], .key_len = len};
    }
    if (one->ask.probe) {
        struct hr_key key = {count > 0 ? text[0] : NULL, count > 0 ? listed[0].key_len : 0};
        assert_int_equal(hr_list_lanes_probe(lanes, one->ask.probe_number, key), 0);
    } else {
        assert_int_equal(
            hr_list_lanes_page(lanes, one->ask.lane, listed, count, at + count < set->count, &take), 0);
    }
    return take;
}

static struct rounds count_rounds(enum shape shape, uint64_t count, unsigned width)
{
    static struct shape_set set;
    struct hr_list_lanes *lanes;
    struct rounds result = {0};
    uint64_t keys = 0;

    shape_init(&set, shape, count);
    assert_int_equal(hr_list_lanes_new(0, width, &lanes), 0);
    while (!hr_list_lanes_done(lanes)) {
        unsigned open = collect(lanes);
        assert_true(open > 0);
        result.rounds++;
        for (unsigned i = 0; i < open; i++) {
            uint32_t came = answer_shape(lanes, &set, &asks[i]);
            keys += came;
            result.idle_pages += !asks[i].ask.probe && came == 0;
        }
    }
    hr_list_lanes_progress(lanes, &result.progress);
    hr_list_lanes_free(lanes);
    assert_int_equal(keys, count);
    assert_true(result.progress.listing_max <= width);
    return result;
}

static void test_shapes_ascend(void **state)
{
    char before[SHAPE_KEY_MAX];
    char key[SHAPE_KEY_MAX];

    (void)state;
    for (int shape = 0; shape < SHAPE_COUNT; shape++) {
        struct shape_set set;
        shape_init(&set, (enum shape)shape, 20011);
        uint32_t before_len = shape_key(&set, 0, before);
        for (uint64_t i = 1; i < set.count; i++) {
            uint32_t len = shape_key(&set, i, key);
            assert_true(hr_key_compare((struct hr_key){before, before_len}, (struct hr_key){key, len}) < 0);
            assert_int_equal(shape_seek(&set, before, before_len), i);
            memcpy(before, key, len);
            before_len = len;
        }
    }
}

#ifdef HR_CROSS_CMOCKA_H
#define MILLION_STEP 3 /* every third shape: an emulator takes eight times as long */
#else
#define MILLION_STEP 1
#endif

/* A million keys at 48 lanes; a perfect split needs 21 rounds. Of the skewed set 95 % lie in one of 1000
 * folders: that is found out in the middle of what looks like a short listing. */
static void test_million(void **state)
{
    (void)state;
    for (int shape = 0; shape < SHAPE_COUNT; shape += MILLION_STEP) {
        struct rounds result = count_rounds((enum shape)shape, 1000000, 48);
        print_message("%-10s rounds %u, pages %lu, probes %lu\n", shape_names[shape], result.rounds,
                      (unsigned long)result.progress.pages, (unsigned long)result.progress.probes);
        assert_true(result.rounds <= 28);
        assert_true(result.progress.pages <= 1150);
        assert_true(result.progress.probes <= 2000);
    }
}

/* Tens to hundreds of pages, where every half-filled last page of a lane shows. Pages, and rounds, of all
 * shapes together: a gain of one that the other pays for would show. */
static void test_short(void **state)
{
    static const uint64_t counts[] = {20000, 30000, 50000, 100000, 200000, 300000};
    double most = 0;
    double sum = 0;
    unsigned rounds = 0;
    unsigned idle_pages = 0;
    uint64_t pages = 0;

    (void)state;
    for (unsigned i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
        for (int shape = 0; shape < SHAPE_COUNT; shape++) {
            struct rounds result = count_rounds((enum shape)shape, counts[i], 48);
            double times = (double)result.progress.pages / ((double)counts[i] / PAGE);
            print_message("%-10s keys %lu, rounds %u, pages %lu (%.2f), probes %lu\n", shape_names[shape],
                          (unsigned long)counts[i], result.rounds, (unsigned long)result.progress.pages,
                          times, (unsigned long)result.progress.probes);
            most = times > most ? times : most;
            sum += times;
            rounds += result.rounds;
            idle_pages += result.idle_pages;
            pages += result.progress.pages;
        }
    }
    assert_true(most <= 1.75);
    assert_true(sum <= 1.285 * SHAPE_COUNT * sizeof(counts) / sizeof(*counts));
    assert_true(rounds <= 355);
    assert_true(idle_pages * 50 <= pages); /* that a lane is at its end is asked by one key */
}

/* Few keys take no more rounds than page by page, whatever the width. */
static void test_few(void **state)
{
    static const uint64_t counts[] = {1, 999, 1000, 1001, 2000, 2500, 5000, 10000, 30000};
    static const unsigned widths[] = {1, 2, 8, 48};

    (void)state;
    for (int shape = 0; shape < SHAPE_COUNT; shape++) {
        for (unsigned i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
            for (unsigned j = 0; j < 4; j++) {
                struct rounds result = count_rounds((enum shape)shape, counts[i], widths[j]);
                uint64_t plain = (counts[i] + PAGE - 1) / PAGE;
                assert_true(result.rounds <= plain);
                assert_true(widths[j] > 1 || result.progress.probes == 0);
                assert_true(result.progress.probes <= 64 + 18 * plain);
            }
        }
    }
}

/* A store that throttles once: half as many pages in flight at once, and all of them again later. */
static void test_throttled(void **state)
{
    static struct shape_set set;
    struct hr_list_lanes *lanes;
    unsigned widest = 0;
    uint64_t keys = 0;

    (void)state;
    shape_init(&set, SHAPE_HEX, 3000000);
    assert_int_equal(hr_list_lanes_new(0, 48, &lanes), 0);
    for (unsigned round = 1; !hr_list_lanes_done(lanes); round++) {
        unsigned open = collect(lanes);
        unsigned pages = 0;
        for (unsigned i = 0; i < open; i++) {
            pages += !asks[i].ask.probe;
        }
        assert_true(round != 12 || pages > 40);
        assert_true(round < 13 || round > 20 || pages <= 24 + 8); /* one lane more in a round of answers */
        widest = round > 20 && pages > widest ? pages : widest;
        for (unsigned i = 0; i < open; i++) {
            if (round == 12) {
                hr_list_lanes_throttled(lanes); /* all of them are the same trouble */
            }
            keys += answer_shape(lanes, &set, &asks[i]);
        }
    }
    assert_int_equal(keys, set.count);
    assert_int_equal(widest, 48);
    hr_list_lanes_free(lanes);
}

/* ---- exactness ---- */

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

    assert_int_equal(hr_list_lanes_new(2, width, &lanes), 0);
    for (unsigned turns = 0; !hr_list_lanes_done(lanes) && rc == 0; turns++) {
        struct ask *kept = NULL;
        assert_true(turns < 100000);
        open = collect(lanes);
        assert_true(open > 0);
        kept = malloc(open * sizeof(*kept));
        memcpy(kept, asks, open * sizeof(*kept));
        for (unsigned left = open; left > 0 && rc == 0; left--) {
            unsigned pick = (unsigned)next_random(left);
            kept[pick].ask.after.at = kept[pick].ask.after.at != NULL ? kept[pick].after : NULL;
            const struct hr_list_lanes_ask *ask = &kept[pick].ask;
            bool moot = ask->probe && next_random(2) == 0 && hr_list_lanes_moot(lanes, ask->probe_number);
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
        cmocka_unit_test(test_shapes_ascend), cmocka_unit_test(test_million),   cmocka_unit_test(test_short),
        cmocka_unit_test(test_few),           cmocka_unit_test(test_throttled), cmocka_unit_test(test_exact),
        cmocka_unit_test(test_tree_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
