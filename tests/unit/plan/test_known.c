/* An epoch whose order is known by what was announced: fetched to its end, within the bounds, and never a
 * byte by it. */
#include "tests/unit/plan/known.h"

#define USED 7u /* two lots are too few to start a sweep */

static bool is_all_there(struct lab *lab)
{
    uint64_t count = 0;
    struct hr_plan_stats stats = lab_stats(lab);
    for (unsigned i = 0; i < OBJECTS; i++) {
        count += HR_STATE_KIND(lab_word(lab, key_of(i))) == HR_STATE_RESIDENT;
    }
    return stats.known_orders > 0 && count == OBJECTS;
}

static void test_rest_of_the_epoch(void **state)
{
    struct lab *lab = *state;
    open_objects(lab, 1000, 0, HR_ORDER_MODE_AUTO);
    make_order(5, OBJECTS);
    begin_announced(lab);
    lab_until(lab, is_all_there);
    lab_settle(lab);
    struct hr_plan_stats stats = lab_stats(lab);
    assert_int_equal(s3_gets(lab->s3), OBJECTS); /* each once, and nothing of the neighbours */
    assert_int_equal(stats.known_orders, 1);
    assert_int_equal(stats.known_seed, 5);
    assert_int_equal(stats.order_searches, 1);
    assert_int_equal(stats.announced, 2 * BATCH);
    assert_int_equal(stats.known_ahead, OBJECTS - 2 * BATCH);
    assert_int_equal(stats.fetched[HR_REASON_LOOKAHEAD], OBJECTS);
    for (uint32_t i = 0; i < OBJECTS; i++) {
        lab_check_entry(lab, key_of(i));
    }
    for (uint32_t number = 2; (number + 1) * BATCH <= OBJECTS; number++) {
        announce_batch(lab, number);
    }
    make_order(6, OBJECTS); /* the next epoch */
    announce_batch(lab, 0);
    awaited = 2;
    lab_until(lab, is_known);
    assert_int_equal(lab_stats(lab).known_seed, 6);
    for (uint32_t number = 1; (number + 1) * BATCH <= OBJECTS; number++) {
        announce_batch(lab, number);
    }
    announce_batch(lab, 0); /* a sampler whose seed stays: known at once */
    announce_batch(lab, 1);
    assert_int_equal(lab_stats(lab).known_orders, 3);
    assert_int_equal(lab_stats(lab).order_searches, 2);
    assert_int_equal(lab_stats(lab).known_dropped, 0);
    assert_int_equal(s3_gets(lab->s3), OBJECTS);
}

/* A worker's queue that is understood before the first one's: of a rank among others that tells nothing, and
 * the first batch does when it comes, also while the others are searched for. */
static void test_first_batch_comes_late(void **state)
{
    struct lab *lab = *state;
    struct hr_order ranked = {.seed = 5, .n = OBJECTS, .replicas = 2, .rank = 1};
    uint32_t whole[OBJECTS];
    open_objects(lab, 1000, 0, HR_ORDER_MODE_AUTO);
    hr_order_make(&ranked, whole);
    for (uint32_t i = 0; i < OBJECTS / 2; i++) {
        order[i] = hr_order_at(&ranked, whole, i);
    }
    announce_batch(lab, 1);
    for (uint32_t i = 0; i < 4; i++) {
        open_index(lab, order[BATCH + i]);
    }
    assert_int_equal(lab_stats(lab).lookahead_learned, 1);
    assert_int_equal(lab_stats(lab).order_searches, 1);
    announce_batch(lab, 0);
    open_index(lab, order[0]);
    awaited = 1;
    lab_until(lab, is_known);
    assert_int_equal(lab_stats(lab).known_seed, 5);
    assert_int_equal(lab_stats(lab).order_misses, 0);
    lab_settle(lab);
}

/* The order is known by one worker's batches while the other's queue is not understood: nothing of that one
 * was read, so it comes before the rest of the epoch. */
static void test_batches_of_a_silent_queue_come_first(void **state)
{
    struct lab *lab = *state;
    open_objects(lab, 1000, 0, HR_ORDER_MODE_AUTO);
    make_order(5, OBJECTS);
    for (uint32_t number = 0; number < 4; number++) {
        announce_batch(lab, number);
    }
    for (uint32_t i = 0; i < 4; i++) {
        open_index(lab, order[BATCH + i]);
    }
    lab_until(lab, is_all_there);
    assert_int_equal(lab_stats(lab).announced, 2 * BATCH);
    assert_int_equal(lab_stats(lab).known_ahead, OBJECTS - 2 * BATCH);
    uint64_t rest = UINT64_MAX;
    for (uint32_t i = 4 * BATCH; i < OBJECTS; i++) {
        uint64_t id = lab_file_id(lab, key_of(order[i]));
        rest = id < rest ? id : rest;
    }
    for (uint32_t i = 0; i < BATCH; i++) { /* numbers of cache files are given as requests begin */
        assert_true(lab_file_id(lab, key_of(order[i])) < rest);
        assert_true(lab_file_id(lab, key_of(order[2 * BATCH + i])) < rest);
    }
}

/* The sampler changes its mind: the first other batch ends it, until the next epoch. */
static void test_first_mismatch_ends_it(void **state)
{
    struct lab *lab = *state;
    open_objects(lab, 1000, 0, HR_ORDER_MODE_AUTO);
    make_order(5, OBJECTS);
    begin_announced(lab);
    awaited = 1;
    lab_until(lab, is_known);
    order[3 * BATCH + BATCH - 1] ^= 1; /* one index of the fourth batch */
    announce_batch(lab, 2);
    assert_int_equal(lab_stats(lab).known_dropped, 0);
    announce_batch(lab, 3);
    assert_int_equal(lab_stats(lab).known_dropped, 1);
    announce_batch(lab, 4);
    announce_batch(lab, 5);
    lab_settle(lab);
    assert_int_equal(lab_stats(lab).known_dropped, 1);
    assert_int_equal(lab_stats(lab).order_searches, 1);
    make_order(7, OBJECTS);
    announce_batch(lab, 0);
    awaited = 2;
    lab_until(lab, is_known);
    assert_int_equal(lab_stats(lab).known_seed, 7);
    lab_settle(lab);
}

#define HALF_CACHE_BYTES (8 * MIB)
#define HALF_SIZE (64 * KIB)

/* An order is known, and half of the cache lies ahead: how many GETs that took. */
static unsigned know_half(struct lab *lab)
{
    open_objects(lab, HALF_SIZE, 2 * HALF_CACHE_BYTES, HR_ORDER_MODE_AUTO);
    make_order(5, OBJECTS);
    begin_announced(lab);
    awaited = 1;
    lab_until(lab, is_known);
    lab_settle(lab);
    unsigned gets = s3_gets(lab->s3);
    assert_in_range(gets, HALF_CACHE_BYTES / HALF_SIZE - 1, HALF_CACHE_BYTES / HALF_SIZE);
    return gets;
}

/* Half of the cache at most lies ahead of what is used; what is used makes room for more. */
static void test_bound_of_what_lies_ahead(void **state)
{
    struct lab *lab = *state;
    unsigned gets = know_half(lab);
    for (uint32_t number = 2; number < 4; number++) {
        for (uint32_t i = (number - 2) * USED; i < (number - 1) * USED; i++) {
            assert_int_equal(HR_STATE_KIND(lab_word(lab, key_of(order[i]))), HR_STATE_RESIDENT);
            lab_note(lab, key_of(order[i]));
        }
        lab_run_ms(lab, 3 * LAB_BEAT_MS);
        announce_batch(lab, number);
        lab_settle(lab);
        assert_in_range(s3_gets(lab->s3), gets + USED - 1, gets + USED + 1);
        gets = s3_gets(lab->s3);
    }
    assert_int_equal(lab_stats(lab).known_dropped, 0);
}

/* What found no room waits for it, and gets it when something was used. */
static void test_refused_are_asked_for_later(void **state)
{
    struct lab *lab = *state;
    const uint64_t cache_bytes = 16 * MIB, size = 64 * KIB;
    const unsigned half = (unsigned)(cache_bytes / size / 2);
    open_objects(lab, size, cache_bytes, HR_ORDER_MODE_OFF);
    make_order(5, OBJECTS);
    begin_announced(lab);
    for (uint32_t number = 2; number < 12; number++) {
        announce_batch(lab, number);
    }
    lab_settle(lab);
    unsigned gets = s3_gets(lab->s3);
    assert_in_range(gets, half - 1, half);
    assert_int_equal(lab_stats(lab).lookahead_waiting, 12 * BATCH - gets);
    for (uint32_t i = 0; i < USED; i++) {
        assert_int_equal(HR_STATE_KIND(lab_word(lab, key_of(order[i]))), HR_STATE_RESIDENT);
        lab_note(lab, key_of(order[i]));
    }
    lab_run_ms(lab, 3 * LAB_BEAT_MS);
    lab_settle(lab);
    assert_int_equal(s3_gets(lab->s3), gets + USED);
    assert_int_equal(lab_stats(lab).lookahead_waiting, 12 * BATCH - gets - USED);
}

/* The loader begins anew: what it left has no claim, and is there when it is announced again. */
static void test_left_epoch_is_given_up(void **state)
{
    struct lab *lab = *state;
    open_objects(lab, 1000, 0, HR_ORDER_MODE_OFF);
    make_order(5, OBJECTS);
    begin_announced(lab);
    announce_batch(lab, 2);
    lab_settle(lab);
    assert_int_equal(s3_gets(lab->s3), 3 * BATCH);
    announce_batch(lab, 0); /* this worker had two */
    lab_settle(lab);
    assert_int_equal(lab_stats(lab).lookahead_abandoned, 2 * BATCH);
    assert_int_equal(lab_stats(lab).lookahead_waiting, 0);
    assert_int_equal(s3_gets(lab->s3), 3 * BATCH);
}

/* Its trainer was killed: the next one's epoch has all the room, and nothing of the old one is left. */
static void test_job_that_ended_is_given_up(void **state)
{
    struct lab *lab = *state;
    const unsigned half = (unsigned)(HALF_CACHE_BYTES / HALF_SIZE);
    unsigned gets = know_half(lab);
    assert_int_equal(lab_stats(lab).known_now, 1);
    hr_plan_job_ended(lab->plan, LAB_CONTEXT);
    lab_settle(lab);
    assert_int_equal(lab_stats(lab).known_now, 0);
    assert_int_equal(lab_stats(lab).lookahead_waiting, 0);
    assert_int_equal(s3_gets(lab->s3), gets);
    make_order(6, OBJECTS);
    unsigned there = 0;
    for (unsigned i = 0; i < half; i++) {
        there += HR_STATE_KIND(lab_word(lab, key_of(order[i]))) == HR_STATE_RESIDENT;
    }
    begin_announced(lab);
    awaited = 2;
    lab_until(lab, is_known);
    lab_settle(lab);
    assert_int_equal(lab_stats(lab).known_seed, 6);
    assert_true(s3_gets(lab->s3) >= gets + half - there - 1);
}

static void test_off_searches_nothing(void **state)
{
    struct lab *lab = *state;
    open_objects(lab, 1000, 0, HR_ORDER_MODE_OFF);
    make_order(5, OBJECTS);
    begin_announced(lab);
    lab_settle(lab);
    assert_int_equal(lab_stats(lab).order_searches, 0);
    assert_int_equal(s3_gets(lab->s3), 2 * BATCH);
}

/* Two workers that begin: where a data set may begin counts twice, so both first opens tell. */
static void test_two_opens_tell_the_base(void **state)
{
    struct lab *lab = *state;
    open_objects(lab, 1000, 0, HR_ORDER_MODE_OFF);
    make_order(5, OBJECTS);
    announce_batch(lab, 0);
    announce_batch(lab, 1);
    open_index(lab, order[0]);
    assert_int_equal(lab_stats(lab).lookahead_learned, 0);
    open_index(lab, order[BATCH]);
    assert_int_equal(lab_stats(lab).lookahead_learned, 1);
    assert_int_equal(lab_stats(lab).announced, 2 * BATCH);
    lab_settle(lab);
    assert_int_equal(s3_gets(lab->s3), 2 * BATCH);
}

/* No order of torch's: searched for once an epoch, and nothing but what is announced is brought. */
static void test_order_of_something_else(void **state)
{
    struct lab *lab = *state;
    open_objects(lab, 1000, 0, HR_ORDER_MODE_AUTO);
    for (uint32_t i = 0; i < OBJECTS; i++) {
        order[i] = (i * 257 + 100) % OBJECTS;
    }
    begin_announced(lab);
    announce_batch(lab, 2);
    announce_batch(lab, 3);
    lab_settle(lab);
    assert_int_equal(lab_stats(lab).order_searches, 1);
    assert_int_equal(lab_stats(lab).known_orders, 0);
    assert_int_equal(s3_gets(lab->s3), 4 * BATCH);
} /* and the plan ends while the search may still run */

/* A validation set in its order: nothing to look for. Another sampler: looked for in a few epochs, then no
 * more. */
static void test_searches_for_nothing_end(void **state)
{
    struct lab *lab = *state;
    open_objects(lab, 1000, 0, HR_ORDER_MODE_AUTO);
    for (uint32_t i = 0; i < OBJECTS; i++) {
        order[i] = i;
    }
    begin_announced(lab);
    announce_batch(lab, 2);
    assert_int_equal(lab_stats(lab).order_searches, 0);
    for (uint32_t i = 0; i < OBJECTS; i++) {
        order[i] = (i * 257 + 100) % OBJECTS;
    }
    for (unsigned epoch = 1; epoch <= 5; epoch++) {
        uint64_t before = lab_stats(lab).order_misses;
        announce_batch(lab, 0);
        announce_batch(lab, 1);
        awaited = epoch < 3 ? (unsigned)before + 1 : 3;
        lab_until(lab, has_missed);
    }
    assert_int_equal(lab_stats(lab).order_searches, 3);
    lab_settle(lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rest_of_the_epoch, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_first_batch_comes_late, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_batches_of_a_silent_queue_come_first, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_first_mismatch_ends_it, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_bound_of_what_lies_ahead, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_off_searches_nothing, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_refused_are_asked_for_later, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_left_epoch_is_given_up, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_job_that_ended_is_given_up, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_two_opens_tell_the_base, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_order_of_something_else, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_searches_for_nothing_end, lab_set_up, lab_tear_down),
    };
    return cmocka_run_group_tests_name("known orders of announced epochs", tests, NULL, NULL);
}
