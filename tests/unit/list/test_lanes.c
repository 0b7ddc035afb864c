/* Who lists what, in virtual time: how many rounds a listing takes, where every request under way is answered
 * before the next are asked for, and how long where each takes a random time. Counts, not clocks. */
#include "tests/unit/list/asks.h"

#include <math.h>

#include "tests/scale/shapes.h"

#define PAGE 1000u

/* ---- rounds ---- */

struct rounds {
    unsigned rounds;
    unsigned idle_pages; /* that brought nothing */
    struct hr_list_lanes_progress progress;
};

/* The folders in a directory, from the number of a key on. */
static void answer_folders(struct hr_list_lanes *lanes, const struct shape_set *set, struct hr_key dir,
                           uint64_t at)
{
    static struct hr_listed listed[PAGE];
    static char text[PAGE][SHAPE_KEY_MAX];
    uint64_t first = shape_seek(set, dir.at != NULL ? dir.at : "", dir.len);
    uint32_t count = 0;
    uint32_t items = 0;

    for (at = at > first ? at : first; at < set->count && items < PAGE; items++) {
        uint32_t len = shape_key(set, at, text[count]);
        if (len < dir.len || memcmp(text[count], dir.at != NULL ? dir.at : "", dir.len) != 0) {
            break;
        }
        char *slash = memchr(text[count] + dir.len, '/', len - dir.len);
        if (slash == NULL) {
            at++;
            continue;
        }
        *slash = '/' + 1;
        len = (uint32_t)(slash - text[count]) + 1;
        at = shape_seek(set, text[count], len);
        *slash = '/';
        listed[count] = (struct hr_listed){.key = text[count], .key_len = len};
        count++;
    }
    assert_int_equal(hr_list_lanes_folders(lanes, dir, listed, count, items == PAGE), 0);
}

/* Keys that a page brought its lane. */
static uint32_t answer_shape(struct hr_list_lanes *lanes, const struct shape_set *set, const struct ask *one)
{
    static struct hr_listed listed[PAGE];
    static char text[PAGE][SHAPE_KEY_MAX];
    uint64_t at = one->ask.after.at != NULL ? shape_seek(set, one->after, one->ask.after.len) : 0;
    uint32_t count = 0;
    uint32_t take = 0;

    if (one->ask.folders) {
        answer_folders(lanes, set, one->ask.dir, at);
        return 0;
    }
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

static struct rounds count_rounds(enum shape shape, uint64_t count, unsigned width, bool hurry)
{
    static struct shape_set set;
    struct hr_list_lanes *lanes;
    struct rounds result = {0};
    uint64_t keys = 0;

    shape_init(&set, shape, count);
    assert_int_equal(hr_list_lanes_new(0, width, hurry, &lanes), 0);
    while (!hr_list_lanes_done(lanes)) {
        unsigned open = collect(lanes);
        assert_true(open > 0);
        result.rounds++;
        for (unsigned i = 0; i < open; i++) {
            bool waits = hr_list_lanes_waits(lanes, &asks[i].ask);
            uint32_t came = waits ? answer_shape(lanes, &set, &asks[i]) : 0;
            keys += came;
            result.idle_pages += !asks[i].ask.probe && !asks[i].ask.folders && came == 0;
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
        struct rounds result = count_rounds((enum shape)shape, 1000000, 48, true);
        print_message("%-10s rounds %u, pages %lu, probes %lu\n", shape_names[shape], result.rounds,
                      (unsigned long)result.progress.pages, (unsigned long)result.progress.probes);
        assert_true(result.rounds <= 28);
        assert_true(result.progress.pages <= 1150);
        assert_true(result.progress.probes <= 2400);
    }
}

/* Tens to hundreds of pages, where every half-filled last page of a lane shows. Pages, and rounds, of all
 * shapes together: a gain of one that the other pays for would show. */
static void test_short(void **state)
{
    static const uint64_t counts[] = {20000, 30000, 50000, 100000, 200000, 300000};
    double sum = 0;
    unsigned rounds = 0;
    unsigned idle_pages = 0;
    uint64_t pages = 0;

    (void)state;
    for (unsigned i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
        for (int shape = 0; shape < SHAPE_COUNT; shape++) {
            struct rounds result = count_rounds((enum shape)shape, counts[i], 48, true);
            double times = (double)result.progress.pages / ((double)counts[i] / PAGE);
            print_message("%-10s keys %lu, rounds %u, pages %lu (%.2f), probes %lu\n", shape_names[shape],
                          (unsigned long)counts[i], result.rounds, (unsigned long)result.progress.pages,
                          times, (unsigned long)result.progress.probes);
            /* A round costs more than some dozens of requests. */
            assert_true((double)result.progress.pages <= 1.45 * (double)counts[i] / PAGE + 50);
            sum += times;
            rounds += result.rounds;
            idle_pages += result.idle_pages;
            pages += result.progress.pages;
        }
    }
    assert_true(sum <= 1.53 * SHAPE_COUNT * sizeof(counts) / sizeof(*counts));
    assert_true(rounds <= 350);
    assert_true(idle_pages * 10 <= pages); /* the most behind the first page; later one key asks for an end */
}

/* Few keys take no more rounds than page by page, whatever the width; with many lanes two to four. */
static void test_few(void **state)
{
    static const uint64_t counts[] = {1, 999, 1000, 1001, 2000, 2500, 5000, 10000, 30000};
    static const unsigned rounds[] = {8, 8, 8, 16, 16, 18, 22, 29, 40}; /* of all shapes together */
    static const unsigned widths[] = {1, 2, 8, 48};

    (void)state;
    for (unsigned i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
        unsigned sum = 0;
        for (int shape = 0; shape < SHAPE_COUNT; shape++) {
            for (unsigned j = 0; j < 4; j++) {
                struct rounds result = count_rounds((enum shape)shape, counts[i], widths[j], true);
                uint64_t plain = (counts[i] + PAGE - 1) / PAGE;
                assert_true(result.rounds <= plain);
                assert_true(widths[j] > 1 || result.progress.probes + result.progress.folders == 0);
                assert_true(result.progress.pages <= plain * 2 + 40);
                assert_true(result.progress.probes <= 64 + 18 * plain);
                assert_true(result.progress.folders <= 1 + plain);
                sum += widths[j] == 48 ? result.rounds : 0;
            }
        }
        print_message("keys %lu, rounds of all shapes %u\n", (unsigned long)counts[i], sum);
        assert_true(sum <= rounds[i]);
    }
}

/* Where nobody waits a listing costs hardly more than its pages: none for a guess, and where one page has
 * all, that. */
static void test_nobody_waits(void **state)
{
    static const uint64_t counts[] = {1, 1000, 2000, 5000, 10000};
    uint64_t pages = 0;

    (void)state;
    for (int shape = 0; shape < SHAPE_COUNT; shape++) {
        for (unsigned i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
            struct rounds result = count_rounds((enum shape)shape, counts[i], 48, false);
            assert_true(counts[i] > PAGE || result.progress.pages + result.progress.folders == 1);
            pages += result.progress.pages;
        }
    }
    print_message("nobody waits: %lu pages\n", (unsigned long)pages);
    assert_true(pages <= 250);
}

/* ---- waiting ---- */

/* How long a request takes: lognormal, sigma 0.25, its median 1; by the sum of twelve. */
static double latency(void)
{
    double normal = -6;
    for (unsigned i = 0; i < 12; i++) {
        normal += (double)next_random(1 << 20) / (1 << 20);
    }
    return exp(0.25 * normal);
}

struct wait {
    struct ask ask;
    double ends;
};

/* Time until all is listed where requests take random times. */
static double time_listing(enum shape shape, uint64_t count, uint64_t seed, uint64_t *requests)
{
    static struct shape_set set;
    static struct wait waits[ASKS_MAX];
    struct hr_list_lanes *lanes;
    unsigned open = 0;
    uint64_t keys = 0;
    double now = 0;

    random_state = seed * 0x9e3779b97f4a7c15ull;
    shape_init(&set, shape, count);
    assert_int_equal(hr_list_lanes_new(0, 48, true, &lanes), 0);
    while (!hr_list_lanes_done(lanes)) {
        unsigned more = collect(lanes);
        for (unsigned i = 0; i < more; i++) {
            assert_true(open < ASKS_MAX);
            waits[open++] = (struct wait){asks[i], now + latency()};
        }
        *requests += more;
        unsigned pick = 0;
        assert_true(open > 0);
        for (unsigned i = 1; i < open; i++) {
            pick = waits[i].ends < waits[pick].ends ? i : pick;
        }
        struct wait one = waits[pick];
        waits[pick] = waits[--open];
        point_inside(&one.ask);
        if (hr_list_lanes_waits(lanes, &one.ask.ask)) {
            now = one.ends;
            keys += answer_shape(lanes, &set, &one.ask);
        }
    }
    hr_list_lanes_free(lanes);
    assert_int_equal(keys, count);
    return now;
}

/* A job waits for a short listing before all else: in round trips, the mean of all shapes. Page by page
 * they would take 4.1, 10.3 and 20.6. */
static void test_waiting(void **state)
{
    static const struct {
        uint64_t keys;
        double time, requests;
    } cases[] = {{4000, 3.0, 56}, {10000, 4.2, 92}, {20000, 5.1, 160}};
    enum { SEEDS = 6 };

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        double sum = 0;
        uint64_t requests = 0;
        for (int shape = 0; shape < SHAPE_COUNT; shape++) {
            for (uint64_t seed = 1; seed <= SEEDS; seed++) {
                sum += time_listing((enum shape)shape, cases[i].keys, seed, &requests);
            }
        }
        double mean = sum / (SHAPE_COUNT * SEEDS);
        double each = (double)requests / (SHAPE_COUNT * SEEDS);
        print_message("keys %lu: %.2f round trips, %.0f requests\n", (unsigned long)cases[i].keys, mean,
                      each);
        assert_true(mean <= cases[i].time);
        assert_true(each <= cases[i].requests);
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
    assert_int_equal(hr_list_lanes_new(0, 48, true, &lanes), 0);
    for (unsigned round = 1; !hr_list_lanes_done(lanes); round++) {
        unsigned open = collect(lanes);
        unsigned pages = 0;
        for (unsigned i = 0; i < open; i++) {
            pages += !asks[i].ask.probe && !asks[i].ask.folders;
        }
        assert_true(round != 12 || pages > 40);
        assert_true(round < 13 || round > 20 || pages <= 24 + 8); /* one lane more in a round of answers */
        widest = round > 20 && pages > widest ? pages : widest;
        for (unsigned i = 0; i < open; i++) {
            if (round == 12) {
                hr_list_lanes_throttled(lanes); /* all of them are the same trouble */
            }
            keys += hr_list_lanes_waits(lanes, &asks[i].ask) ? answer_shape(lanes, &set, &asks[i]) : 0;
        }
    }
    assert_int_equal(keys, set.count);
    assert_int_equal(widest, 48);
    hr_list_lanes_free(lanes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes_ascend), cmocka_unit_test(test_million),
        cmocka_unit_test(test_short),         cmocka_unit_test(test_few),
        cmocka_unit_test(test_waiting),       cmocka_unit_test(test_nobody_waits),
        cmocka_unit_test(test_throttled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
