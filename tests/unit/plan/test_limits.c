/* What bounds the plan: the sweep's egress, the cache's room, memory, requests in flight. */
#include "tests/unit/plan/lab.h"

static char *key_of(unsigned i)
{
    static char key[16];
    snprintf(key, sizeof key, "k%05u", i);
    return key;
}

static void add_many(struct lab *lab, unsigned count, uint64_t size)
{
    for (unsigned i = 0; i < count; i++) {
        s3_add(lab->s3, key_of(i), size);
    }
}

static unsigned resident_count(struct lab *lab)
{
    unsigned count = 0;
    for (unsigned i = 0; i < lab->s3->count; i++) {
        count += HR_STATE_KIND(lab_word(lab, lab->s3->objects[i].key)) == HR_STATE_RESIDENT;
    }
    return count;
}

static unsigned wanted_residents;

static bool all_resident(struct lab *lab)
{
    return resident_count(lab) >= wanted_residents;
}

static void test_sweep_starts_with_the_16th_object(void **state)
{
    struct lab *lab = *state;
    add_many(lab, 200, 1000);
    lab_open(lab, &(struct lab_options){.prefetch = true});
    lab_list(lab);
    for (unsigned i = 0; i < 15; i++) {
        assert_int_equal(lab_open_entry(lab, key_of(100 + i)), 0);
    }
    for (unsigned i = 0; i < 100; i++) {
        lab_note(lab, key_of(100)); /* the same one again and again is no epoch */
    }
    lab_run_ms(lab, 100);
    assert_int_equal(s3_gets(lab->s3), 15);
    assert_int_equal(lab_open_entry(lab, key_of(115)), 0);
    wanted_residents = 200;
    lab_until(lab, all_resident);
    lab_settle(lab);
    assert_int_equal(lab->s3->gets, 200);
    struct hr_plan_stats stats = lab_stats(lab);
    assert_int_equal(stats.fetched[HR_REASON_DEMAND] + stats.fetched[HR_REASON_SWEEP], 200);
    assert_true(stats.fetched[HR_REASON_SWEEP] >= 180);
    for (unsigned i = 0; i < 200; i++) {
        lab_check_entry(lab, key_of(i));
        lab_note(lab, key_of(i));
    }
    lab_run_ms(lab, 50);
    assert_int_equal(lab_stats(lab).swept_used, stats.fetched[HR_REASON_SWEEP]);
}

static void test_prefetch_off_brings_what_is_opened(void **state)
{
    struct lab *lab = *state;
    add_many(lab, 60, 1000);
    lab_open(lab, &(struct lab_options){0});
    lab_list(lab);
    for (unsigned i = 0; i < 30; i++) {
        assert_int_equal(lab_open_entry(lab, key_of(i)), 0);
    }
    lab_run_ms(lab, 100);
    assert_int_equal(lab->s3->gets, 30);
}

static bool sixteen_wait(struct lab *lab)
{
    return s3_gets(lab->s3) >= 15;
}

static unsigned awaited_calls(const struct lab *lab)
{
    unsigned count = 0;
    for (const struct hr_part *part = lab->plan->parts; part; part = part->next) {
        count += part->call->awaited;
    }
    return count;
}

/* What programs wait for goes first, and finds lines free. */
static void test_demand_goes_before_the_sweep(void **state)
{
    struct lab *lab = *state;
    add_many(lab, 400, 1000);
    lab_open(lab, &(struct lab_options){.prefetch = true, .connections = 16});
    lab_list(lab);
    for (unsigned i = 0; i < 16; i++) {
        assert_int_equal(lab_open_entry(lab, key_of(i)), 0);
    }
    lab_settle(lab); /* the sweep has run through */
    assert_int_equal(resident_count(lab), 400);
    assert_true(lab->s3->in_gets_max <= 15); /* one line of sixteen is kept for demand */
    assert_true(lab_stats(lab).in_flight_max <= 16);
    for (unsigned i = 0; i < 400; i++) {
        hr_cache_drop(lab->cache, lab_file_id(lab, key_of(i)));
    }
    struct hr_plan_tree *tree = hr_tree_get(lab->plan, lab->tree);
    s3_hold(lab->s3, true, false);
    unsigned before = s3_gets(lab->s3);
    lab->s3->gets -= before;
    tree->sweep_done = false;
    tree->sweep_cursor = 0;
    lab_until(lab, sixteen_wait);
    assert_int_equal(lab_stats(lab).in_flight, 15);
    assert_int_equal(awaited_calls(lab), 0);
    lab_fetch(lab, key_of(0)); /* the sweep asks for it: its call is waited for from now on */
    assert_int_equal(lab_stats(lab).in_flight, 15);
    assert_int_equal(awaited_calls(lab), 1);
    lab_fetch(lab, key_of(399));
    assert_int_equal(lab_stats(lab).in_flight, 16);
    assert_int_equal(awaited_calls(lab), 2);
    lab_fetch(lab, key_of(398));
    lab_fetch(lab, key_of(397));
    assert_int_equal(lab_stats(lab).in_flight, 16);
    assert_int_equal(lab_stats(lab).queued, 2);
    s3_hold(lab->s3, false, false);
    assert_int_equal(lab_open_entry(lab, key_of(398)), 0);
    /* Far from the sweep's place in the order. */
    assert_int_equal(HR_STATE_KIND(lab_word(lab, key_of(390))), HR_STATE_ABSENT);
    lab_settle(lab);
}

/* Egress: 1 GiB + 4 x what was asked for. Sizes are what the listing says; nothing that large is sent, as the
 * server holds back all answers. */
static void test_sweep_is_bounded_by_what_was_asked_for(void **state)
{
    struct lab *lab = *state;
    char key[16];
    add_many(lab, 16, 1 * MIB);
    s3_add(lab->s3, "l0", 3000 * MIB); /* larger than the bound alone: never unasked */
    for (unsigned i = 1; i < 40; i++) {
        snprintf(key, sizeof key, "l%u", 100 + i);
        s3_add(lab->s3, key, 200 * MIB);
    }
    lab_open(lab, &(struct lab_options){.prefetch = true,
                                        .cache_bytes = 100000 * MIB,
                                        .memory_bytes = 4000 * MIB,
                                        .small_max_bytes = 1024 * MIB});
    lab_list(lab);
    for (unsigned i = 0; i < 16; i++) {
        s3_hold(lab->s3, i == 15, false);
        if (i < 15) {
            assert_int_equal(lab_open_entry(lab, key_of(i)), 0);
        } else {
            lab_fetch(lab, key_of(i));
        }
    }
    lab_run_ms(lab, 100);
    struct hr_plan_tree *tree = hr_tree_get(lab->plan, lab->tree);
    uint64_t ahead = tree->swept_bytes - tree->swept_used_bytes;
    uint64_t bound = 1024 * MIB + 4 * tree->demanded_bytes;
    assert_int_equal(tree->demanded_bytes, 16 * MIB);
    assert_true(ahead <= bound);
    assert_true(ahead + 200 * MIB > bound); /* and as far as that */
    assert_int_equal(s3_find(lab->s3, "l0")->gets, 0);
}

static void test_sweep_lets_old_things_go_but_not_its_own(void **state)
{
    struct lab *lab = *state;
    struct lab_options options = {.prefetch = true, .cache_bytes = 4 * MIB};
    struct hr_cache_stats cache;
    for (unsigned i = 0; i < 64; i++) {
        char key[16];
        snprintf(key, sizeof key, "a/%03u", i);
        s3_add(lab->s3, key, 64 * KIB);
    }
    for (unsigned i = 0; i < 100; i++) {
        char key[16];
        snprintf(key, sizeof key, "b/%03u", i);
        s3_add(lab->s3, key, 64 * KIB);
    }
    options.prefix = "a/";
    lab_open(lab, &options);
    lab_list(lab);
    for (unsigned i = 0; i < 64; i++) {
        char key[16];
        snprintf(key, sizeof key, "%03u", i);
        assert_int_equal(lab_open_entry(lab, key), 0);
    }
    lab_settle(lab);
    hr_cache_stats(lab->cache, &cache);
    assert_int_equal(cache.bytes, cache.budget_bytes);
    lab_close(lab);
    /* The next job: the cache is full of the one before. */
    options.prefix = "b/";
    lab_open(lab, &options);
    lab_list(lab);
    unsigned before = s3_gets(lab->s3);
    for (unsigned i = 0; i < 16; i++) {
        char key[16];
        snprintf(key, sizeof key, "%03u", 50 + i);
        assert_int_equal(lab_open_entry(lab, key), 0);
    }
    lab_settle(lab);
    lab_run_ms(lab, 100);
    lab_settle(lab);
    assert_int_equal(s3_gets(lab->s3) - before, 32); /* half of what fits, and no more */
    for (unsigned i = 0; i < 16; i++) {
        char key[16];
        snprintf(key, sizeof key, "%03u", i);
        assert_int_equal(HR_STATE_KIND(lab_word(lab, key)), HR_STATE_RESIDENT);
    }
    assert_int_equal(lab_stats(lab).swept_wasted_bytes, 0);
}

static void test_failing_sweep_makes_no_noise(void **state)
{
    struct lab *lab = *state;
    add_many(lab, 40, 1000);
    for (unsigned i = 16; i < 40; i++) {
        s3_find(lab->s3, key_of(i))->always = S3_MISSING;
    }
    lab_open(lab, &(struct lab_options){.prefetch = true});
    lab_list(lab);
    for (unsigned i = 0; i < 16; i++) {
        assert_int_equal(lab_open_entry(lab, key_of(i)), 0);
    }
    lab_run_ms(lab, 100);
    lab_settle(lab);
    for (unsigned i = 16; i < 40; i++) {
        assert_int_equal(s3_find(lab->s3, key_of(i))->gets, 1);
        assert_int_equal(HR_STATE_KIND(lab_word(lab, key_of(i))), HR_STATE_ABSENT);
    }
    assert_int_equal(hr_tree_get(lab->plan, lab->tree)->swept_bytes, 0);
    assert_int_equal(lab_open_entry(lab, key_of(20)), -ENOENT); /* who asks is told */
    lab_settle(lab);
}

static void test_object_larger_than_the_cache(void **state)
{
    struct lab *lab = *state;
    s3_add(lab->s3, "big", 5 * MIB);
    s3_add(lab->s3, "small", 5000);
    for (int listed = 0; listed < 2; listed++) {
        lab_open(lab, &(struct lab_options){.cache_bytes = 4 * MIB});
        if (listed) {
            lab_list(lab);
            assert_int_equal(lab_open_entry(lab, "small"), 0);
            assert_int_equal(lab_open_entry(lab, "big"), -ENOSPC);
            assert_int_equal(HR_STATE_KIND(lab_word(lab, "small")),
                             HR_STATE_RESIDENT); /* not given up for it */
            assert_int_equal(lab_get(lab, HR_OP_OPEN, "big", NULL), -ENOSPC);
        } else {
            assert_int_equal(lab_get(lab, HR_OP_OPEN, "big", NULL), -ENOSPC);
        }
        assert_non_null(strstr(lab->control->trees[lab->tree].message, "cache_size"));
        lab_settle(lab);
        lab_close(lab);
    }
    assert_int_equal(s3_find(lab->s3, "big")->gets, 1); /* when listed, none */
}

static unsigned asked_opens;

static bool opens_answered(struct lab *lab)
{
    unsigned count = 0;
    for (unsigned i = 1; i <= asked_opens; i++) {
        count += lab->answers[i].times > 0;
    }
    return count == asked_opens;
}

/* 256 wants over a cache with room for 20: all arrive, each by one GET, and the requests never spin. */
static void test_small_cache_with_many_wants(void **state)
{
    struct lab *lab = *state;
    add_many(lab, 256, 100 * KIB);
    lab_open(lab, &(struct lab_options){.cache_bytes = 2 * MIB});
    lab_list(lab);
    asked_opens = 256;
    for (unsigned i = 0; i < 256; i++) {
        lab_ask(lab, HR_OP_OPEN, key_of(i), i + 1);
    }
    assert_true(lab_stats(lab).in_flight <= 20);
    lab_until(lab, opens_answered);
    for (unsigned i = 0; i < 256; i++) {
        assert_int_equal(lab->answers[i + 1].answer.error, 0);
        assert_int_equal(lab->s3->objects[i].gets, 1);
    }
    lab_settle(lab);
    struct hr_cache_stats cache;
    hr_cache_stats(lab->cache, &cache);
    assert_true(cache.bytes <= cache.budget_bytes);
    assert_true(cache.evictions >= 230);
    assert_int_equal(resident_count(lab), cache.objects);
}

/* The same with names that nobody listed: sizes are learned by the GETs, some of which have to be made again.
 */
static void test_small_cache_with_unlisted_wants(void **state)
{
    struct lab *lab = *state;
    unsigned most = 0;
    add_many(lab, 60, 100 * KIB);
    lab_open(lab, &(struct lab_options){.cache_bytes = 2 * MIB, .memory_bytes = 1000 * MIB});
    for (unsigned i = 0; i < 60; i++) {
        lab->s3->objects[i].etag[0] = i % 2 ? lab->s3->objects[i].etag[0] : '\0';
    }
    asked_opens = 60;
    s3_hold(lab->s3, true, false);
    for (unsigned i = 0; i < 60; i++) {
        lab_ask(lab, HR_OP_OPEN, key_of(i), i + 1);
    }
    assert_int_equal(lab_stats(lab).in_flight, 60);
    lab_run_ms(lab, 50);
    s3_hold(lab->s3, false, false);
    lab_until(lab, opens_answered);
    for (unsigned i = 0; i < 60; i++) {
        assert_int_equal(lab->answers[i + 1].answer.error, 0);
        most = lab->s3->objects[i].gets > most ? lab->s3->objects[i].gets : most;
    }
    assert_true(most <= 2);
    lab_settle(lab);
}

/* A large object that is half asked for holds the room which others wait for: it must get on. */
static void test_room_held_by_a_half_asked_object(void **state)
{
    struct lab *lab = *state;
    s3_add(lab->s3, "m", 30 * MIB);
    s3_add(lab->s3, "z", 20 * MIB);
    lab_open(lab, &(struct lab_options){.cache_bytes = 40 * MIB, .memory_bytes = 9 * MIB, .connections = 4});
    lab_list(lab);
    uint64_t held = lab_face(lab, "m"), waits = lab_face(lab, "z");
    s3_hold(lab->s3, true, false);
    lab_ask_bytes(lab, 1, held, 0, 1, true, 1);
    lab_run_ms(lab, 30);
    struct hr_want *half = lab->plan->wants;
    assert_int_equal(half->kind, HR_WANT_WHOLE);
    assert_true(half->put && !hr_fetch_all_asked(half));
    lab_ask_bytes(lab, 1, waits, 0, 1, true, 2);
    lab_run_ms(lab, 30);
    s3_hold(lab->s3, false, false);
    asked_opens = 2;
    lab_until(lab, opens_answered);
    assert_int_equal(lab->answers[1].answer.error, 0);
    assert_int_equal(lab->answers[2].answer.error, 0);
    lab_check_entry(lab, "z");
    lab_settle(lab);
}

static void check_opens(struct lab *lab, unsigned count, uint64_t most_bytes)
{
    asked_opens = count;
    lab_until(lab, opens_answered);
    for (unsigned i = 1; i <= count; i++) {
        assert_int_equal(lab->answers[i].answer.error, 0);
    }
    lab_settle(lab);
    assert_true(lab_stats(lab).memory_max_bytes <= most_bytes);
    assert_true(lab_stats(lab).memory_max_bytes > most_bytes / 2); /* and is made use of */
}

static void test_memory_stays_within_its_budget(void **state)
{
    struct lab *lab = *state;
    add_many(lab, 120, 512 * KIB);
    s3_add(lab->s3, "l", 20 * MIB)->listed_etag[0] = '\0';
    lab_open(lab, &(struct lab_options){.memory_bytes = 6 * MIB, .small_max_bytes = 1 * MIB});
    lab_list(lab);
    lab_ask(lab, HR_OP_OPEN, "l", 121);
    for (unsigned i = 0; i < 120; i++) {
        lab_ask(lab, HR_OP_OPEN, key_of(i), i + 1);
    }
    /* One request is let through when nothing else is there: a range is 8 MiB. */
    check_opens(lab, 121, 8 * MIB);
}

/* Of a size that is not known, as much is set aside as may come. */
static void test_memory_for_unlisted_objects(void **state)
{
    struct lab *lab = *state;
    add_many(lab, 20, 3 * MIB);
    lab_open(lab, &(struct lab_options){.memory_bytes = 9 * MIB, .small_max_bytes = 4 * MIB});
    s3_hold(lab->s3, true, false);
    for (unsigned i = 0; i < 20; i++) {
        lab_ask(lab, HR_OP_OPEN, key_of(i), i + 1);
    }
    assert_int_equal(lab_stats(lab).in_flight, 2);
    s3_hold(lab->s3, false, false);
    check_opens(lab, 20, 9 * MIB);
}

/* The cache's folder cannot be written: an error of each open, nothing left on the accounts. */
static void test_disk_that_refuses(void **state)
{
    struct lab *lab = *state;
    char command[160];
    add_many(lab, 3, 1000);
    s3_add(lab->s3, "l", 12 * MIB)->listed_etag[0] = '\0';
    s3_add(lab->s3, "m", 12 * MIB);
    lab_open(lab, &(struct lab_options){0});
    lab_list(lab);
    snprintf(command, sizeof command, "cd %s && rm -rf spool && : > spool", lab->dir);
    assert_int_equal(system(command), 0);
    assert_true(lab_open_entry(lab, key_of(0)) < 0);
    assert_non_null(strstr(lab->control->trees[lab->tree].message, "cannot write to the cache"));
    assert_true(lab_open_entry(lab, "l") < 0);
    assert_true(lab_open_entry(lab, "m") < 0); /* its face */
    lab_settle(lab);
    snprintf(command, sizeof command, "rm -f %s/spool", lab->dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(lab_open_entry(lab, key_of(1)), 0);
    assert_int_equal(lab_open_entry(lab, "l"), 0);
    lab_check_entry(lab, "l");
    lab_read(lab, lab_face(lab, "m"), s3_find(lab->s3, "m"), 0, 12 * MIB);
    lab_settle(lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define LAB_TEST(name) cmocka_unit_test_setup_teardown(name, lab_set_up, lab_tear_down)
        LAB_TEST(test_sweep_starts_with_the_16th_object),
        LAB_TEST(test_prefetch_off_brings_what_is_opened),
        LAB_TEST(test_demand_goes_before_the_sweep),
        LAB_TEST(test_sweep_is_bounded_by_what_was_asked_for),
        LAB_TEST(test_sweep_lets_old_things_go_but_not_its_own),
        LAB_TEST(test_failing_sweep_makes_no_noise),
        LAB_TEST(test_object_larger_than_the_cache),
        LAB_TEST(test_small_cache_with_many_wants),
        LAB_TEST(test_small_cache_with_unlisted_wants),
        LAB_TEST(test_room_held_by_a_half_asked_object),
        LAB_TEST(test_memory_stays_within_its_budget),
        LAB_TEST(test_memory_for_unlisted_objects),
        LAB_TEST(test_disk_that_refuses),
#undef LAB_TEST
    };
    return cmocka_run_group_tests_name("plan limits", tests, NULL, NULL);
}
