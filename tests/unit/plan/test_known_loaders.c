/* Known orders of the loaders of trainers: ranks that take batches by turns (accelerate), samplers without an
 * end, whose batches are counted on from epoch to epoch (detectron2, mmengine, Ultralytics). */
#include "tests/unit/plan/known.h"

#define OTHER_LOADER (LAB_LOADER + 1) /* a process */
#define OTHER_QUEUES 9                /* descriptors of a second loader of the process */
#define SEED_OF_FEW 100000u           /* below 2^20, and too large to be tried for each rank's batches */

static void announce(struct lab *lab, uint64_t loader, uint32_t number, const uint32_t *indices,
                     uint32_t count)
{
    struct hr_announcement part = {.context = LAB_CONTEXT,
                                   .stream = loader << 32 | (7 + number % 2),
                                   .batch = number,
                                   .parts = 1,
                                   .indices = indices,
                                   .count = count};
    hr_plan_announce(lab->plan, &part);
}

/* Two batches before the workers, and opens enough to know what the indices stand for. */
static void begin_by(struct lab *lab, uint64_t loader, const uint32_t *indices, uint32_t batch)
{
    announce(lab, loader, 0, indices, batch);
    announce(lab, loader, 1, indices + batch, batch);
    for (uint32_t i = 0; i < 3; i++) {
        open_index(lab, indices[i]);
    }
    open_index(lab, indices[batch]);
}

/* One rank's share of an epoch. Returns how many. */
static uint32_t share_of(const struct hr_order *known, uint32_t *ret)
{
    uint32_t whole[OBJECTS], length = hr_order_length(known);
    hr_order_make(known, whole);
    for (uint32_t i = 0; i < length; i++) {
        ret[i] = hr_order_at(known, whole, i);
    }
    return length;
}

static unsigned count_there(struct lab *lab, const uint32_t *indices, uint32_t count)
{
    unsigned there = 0;
    for (uint32_t i = 0; i < count; i++) {
        there += HR_STATE_KIND(lab_word(lab, key_of(indices[i]))) == HR_STATE_RESIDENT;
    }
    return there;
}

/* The rest of its epoch is brought, nothing of other ranks', and all that it announces then is as known. */
static void expect_share(struct lab *lab, const struct hr_order *known)
{
    uint32_t count = share_of(known, order);
    open_objects(lab, 1000, 0, HR_ORDER_MODE_AUTO);
    begin_by(lab, LAB_LOADER, order, known->batch);
    awaited = 1;
    lab_until(lab, is_known);
    lab_settle(lab);
    assert_int_equal(lab_stats(lab).known_seed, known->seed);
    assert_int_equal(count_there(lab, order, count), count);
    assert_int_equal(s3_gets(lab->s3), count);
    for (uint32_t later = 2; later * known->batch < count; later++) {
        announce(lab, LAB_LOADER, later, order + later * known->batch, known->batch);
    }
    assert_int_equal(lab_stats(lab).known_dropped, 0);
    assert_int_equal(lab_stats(lab).order_searches, 1);
    struct hr_order next = *known; /* the next epoch is known by ten indices */
    uint32_t number = 0;
    next.seed++;
    (void)share_of(&next, order);
    for (; number * known->batch < 10; number++) {
        announce(lab, LAB_LOADER, number, order + number * known->batch, known->batch);
    }
    awaited = 2;
    lab_until(lab, is_known);
    for (; number * known->batch < count; number++) {
        announce(lab, LAB_LOADER, number, order + number * known->batch, known->batch);
    }
    assert_int_equal(lab_stats(lab).known_seed, next.seed);
    assert_int_equal(lab_stats(lab).known_dropped, 0);
    lab_settle(lab);
    assert_in_range(s3_gets(lab->s3), count + 1, OBJECTS);
}

static void test_rank_that_takes_turns(void **state)
{
    expect_share(*state, &(struct hr_order){.seed = 45, .n = OBJECTS, .replicas = 4, .rank = 1, .batch = 16});
}

/* Its first batch is also that of a loader without ranks: the second tells. */
static void test_first_of_the_ranks(void **state)
{
    expect_share(*state, &(struct hr_order){.seed = 45, .n = OBJECTS, .replicas = 4, .rank = 0, .batch = 16});
}

/* One batch before a worker: the second is heard when the order is known already. */
static void test_second_batch_comes_late(void **state)
{
    struct lab *lab = *state;
    struct hr_order known = {.seed = 45, .n = OBJECTS, .replicas = 3, .rank = 1, .batch = 20};
    uint32_t count = share_of(&known, order);
    open_objects(lab, 1000, 0, HR_ORDER_MODE_AUTO);
    announce(lab, LAB_LOADER, 0, order, known.batch);
    for (uint32_t i = 0; i < 4; i++) {
        open_index(lab, order[i]);
    }
    awaited = 1;
    lab_until(lab, is_known);
    for (uint32_t number = 1; number * known.batch < count; number++) {
        announce(lab, LAB_LOADER, number, order + number * known.batch, known.batch);
        if (number == 1) { /* the second worker's queue is understood by its first open */
            open_index(lab, order[known.batch]);
            lab_settle(lab);
            assert_int_equal(count_there(lab, order, count), count);
        }
    }
    assert_int_equal(lab_stats(lab).known_orders, 1);
    assert_int_equal(lab_stats(lab).known_dropped, 0);
    lab_settle(lab);
}

static void test_small_batches(void **state)
{
    expect_share(*state, &(struct hr_order){.seed = 45, .n = OBJECTS, .replicas = 8, .rank = 7, .batch = 5});
}

/* What one rank's first batch tells, the others hear: also who searched before, in vain. */
static void test_ranks_tell_each_other(void **state)
{
    struct lab *lab = *state;
    struct hr_order known = {.seed = SEED_OF_FEW, .n = OBJECTS, .replicas = 4, .rank = 3, .batch = 16};
    uint32_t others[OBJECTS], count = share_of(&known, order);
    open_objects(lab, 1000, 0, HR_ORDER_MODE_AUTO);
    begin_by(lab, LAB_LOADER, order, known.batch);
    awaited = 1;
    lab_until(lab, has_missed);
    known.rank = 0;
    count += share_of(&known, others);
    begin_by(lab, OTHER_LOADER, others, known.batch);
    awaited = 2;
    lab_until(lab, is_known);
    lab_settle(lab);
    assert_int_equal(lab_stats(lab).known_seed, SEED_OF_FEW);
    assert_int_equal(lab_stats(lab).order_misses, 1);
    assert_int_equal(count_there(lab, order, count / 2), count / 2);
    assert_int_equal(s3_gets(lab->s3), count);
}

/* A sampler that draws one permutation after the other: batches have parts of both. */
static void test_ranks_of_an_infinite_sampler(void **state)
{
    struct lab *lab = *state;
    uint32_t whole[2 * OBJECTS];
    struct hr_order known = {.seed = 5, .n = OBJECTS, .replicas = 1};
    open_objects(lab, 1000, 0, HR_ORDER_MODE_AUTO);
    hr_order_make(&known, whole);
    known.skip = OBJECTS - 1;
    hr_order_make(&known, whole + OBJECTS);
    for (uint32_t i = 0; i < OBJECTS; i++) {
        order[i] = whole[1 + 2 * i < 2 * OBJECTS ? 1 + 2 * i : 0]; /* rank 1 of 2 */
    }
    begin_by(lab, LAB_LOADER, order, BATCH);
    awaited = 1;
    lab_until(lab, is_known);
    lab_settle(lab);
    for (uint32_t number = 2; number * BATCH < OBJECTS / 2; number++) {
        announce(lab, LAB_LOADER, number, order + number * BATCH, BATCH);
    }
    awaited = 2; /* 4 of the last are the next epoch's, and those after it tell which that is */
    announce(lab, LAB_LOADER, 19, order + 19 * BATCH, BATCH);
    lab_until(lab, is_known);
    lab_settle(lab);
    for (uint32_t number = 20; (number + 1) * BATCH <= OBJECTS; number++) {
        announce(lab, LAB_LOADER, number, order + number * BATCH, BATCH);
    }
    assert_int_equal(lab_stats(lab).known_orders, 2);
    assert_int_equal(lab_stats(lab).known_dropped, 0);
    assert_int_equal(lab_stats(lab).order_searches, 2);
    lab_settle(lab);
    assert_int_equal(count_there(lab, order, OBJECTS), OBJECTS);
}

/* A loader that begins its sampler again and counts on: the last batch is smaller, or left out. */
static void expect_epochs(struct lab *lab, bool drop_last)
{
    struct hr_order known = {.seed = 1431655764, .skip = 2, .n = OBJECTS, .replicas = 1}; /* Ultralytics' */
    uint32_t number = 0;
    open_objects(lab, 1000, 0, HR_ORDER_MODE_AUTO);
    for (unsigned epoch = 0; epoch < 3; epoch++) {
        (void)share_of(&known, order);
        if (epoch == 0) {
            begin_by(lab, LAB_LOADER, order, BATCH);
        }
        for (uint32_t at = 0; at + (drop_last ? BATCH : 1) <= OBJECTS; at += BATCH, number++) {
            uint32_t count = OBJECTS - at < BATCH ? OBJECTS - at : BATCH;
            if (number >= 2) {
                announce(lab, LAB_LOADER, number, order + at, count);
            }
            awaited = epoch + 1;
            lab_until(lab, is_known);
        }
        known.skip += 2 * (OBJECTS - 1); /* RandomSampler at its end draws another */
    }
    assert_int_equal(lab_stats(lab).known_orders, 3);
    assert_int_equal(lab_stats(lab).known_dropped, 0);
    lab_settle(lab);
}

static void test_loader_that_counts_on(void **state)
{
    expect_epochs(*state, false);
}

static void test_loader_that_counts_on_and_drops_the_last(void **state)
{
    expect_epochs(*state, true);
}

/* ---- several loaders of one process ---- */

static void announce_other(struct lab *lab, uint32_t number, const uint32_t *indices)
{
    struct hr_announcement part = {.context = LAB_CONTEXT,
                                   .stream = (uint64_t)LAB_LOADER << 32 | (OTHER_QUEUES + number % 2),
                                   .batch = number,
                                   .parts = 1,
                                   .indices = indices + number * BATCH,
                                   .count = BATCH};
    hr_plan_announce(lab->plan, &part);
}

/* Of the second loader the first batches, whose workers begin with them. */
static void begin_other(struct lab *lab, const uint32_t *indices)
{
    announce_other(lab, 0, indices);
    announce_other(lab, 1, indices);
    open_index(lab, indices[0]);
    open_index(lab, indices[BATCH]);
}

static void begin_first(struct lab *lab)
{
    (void)share_of(&(struct hr_order){.seed = 45, .n = OBJECTS, .replicas = 1}, order);
    open_objects(lab, 1000, 0, HR_ORDER_MODE_AUTO);
    begin_by(lab, LAB_LOADER, order, BATCH);
    awaited = 1;
    lab_until(lab, is_known);
}

static void test_two_loaders_side_by_side(void **state)
{
    struct lab *lab = *state;
    uint32_t others[OBJECTS];
    (void)share_of(&(struct hr_order){.seed = 77, .n = OBJECTS, .replicas = 1}, others);
    begin_first(lab);
    begin_other(lab, others);
    awaited = 2;
    lab_until(lab, is_known);
    lab_settle(lab);
    for (uint32_t number = 2; (number + 1) * BATCH <= OBJECTS; number++) {
        announce(lab, LAB_LOADER, number, order + number * BATCH, BATCH);
        announce_other(lab, number, others);
    }
    assert_int_equal(lab_stats(lab).known_orders, 2);
    assert_int_equal(lab_stats(lab).known_dropped, 0);
    assert_int_equal(lab_stats(lab).order_searches, 2);
    assert_int_equal(lab_stats(lab).known_now, 2);
    lab_settle(lab);
    assert_int_equal(s3_gets(lab->s3), OBJECTS);
}

static void announce_by(struct lab *lab, unsigned queue, uint32_t number)
{
    struct hr_announcement part = {.context = LAB_CONTEXT,
                                   .stream = (uint64_t)LAB_LOADER << 32 | queue,
                                   .batch = number,
                                   .parts = 1,
                                   .indices = order + number * BATCH,
                                   .count = BATCH};
    hr_plan_announce(lab->plan, &part);
}

/* Four workers, whose first announcements are heard of from the last to the first. */
static void test_one_loader_whose_queues_overtake_each_other(void **state)
{
    struct lab *lab = *state;
    open_objects(lab, 1000, 0, HR_ORDER_MODE_AUTO);
    for (uint32_t epoch = 0; epoch < 3; epoch++) {
        (void)share_of(&(struct hr_order){.seed = 45 + epoch, .n = OBJECTS, .replicas = 1}, order);
        for (uint32_t worker = 4; worker-- > 0;) {
            announce_by(lab, worker, worker);
            announce_by(lab, worker, worker + 4);
            open_index(lab, order[worker * BATCH]);
            open_index(lab, order[worker * BATCH + 1]);
        }
        awaited = epoch + 1;
        lab_until(lab, is_known);
        lab_settle(lab);
        for (uint32_t number = 8; (number + 1) * BATCH <= OBJECTS; number++) {
            announce_by(lab, number % 4, number);
        }
        assert_int_equal(lab_stats(lab).known_orders, epoch + 1);
        assert_int_equal(lab_stats(lab).order_searches, epoch + 1);
        assert_int_equal(lab_stats(lab).known_now, 1);
    }
    assert_int_equal(lab_stats(lab).known_dropped, 0);
    lab_settle(lab);
}

/* Two queues that are taken for two loaders': both bring the same order, and go on as one. */
static void test_one_loader_that_is_taken_for_two(void **state)
{
    struct lab *lab = *state;
    (void)share_of(&(struct hr_order){.seed = 45, .n = OBJECTS, .replicas = 1}, order);
    open_objects(lab, 1000, 0, HR_ORDER_MODE_AUTO);
    for (uint32_t number = 0; number < 4; number++) { /* as if by one worker, and then another */
        announce_by(lab, number / 2, number);
        open_index(lab, order[number * BATCH]);
        open_index(lab, order[number * BATCH + 1]);
    }
    awaited = 1;
    lab_until(lab, is_known);
    lab_settle(lab);
    for (uint32_t number = 4; (number + 1) * BATCH <= OBJECTS; number++) {
        announce_by(lab, number % 2, number);
    }
    assert_int_equal(lab_stats(lab).known_orders, 1);
    assert_int_equal(lab_stats(lab).known_now, 1);
    assert_int_equal(lab_stats(lab).known_dropped, 0);
    assert_int_equal(lab_stats(lab).order_searches, 2);
    lab_settle(lab);
    assert_int_equal(s3_gets(lab->s3), OBJECTS);
}

/* In the listing's order, in the middle of an epoch, twice: that one goes on. */
static void test_evaluation_inside_an_epoch(void **state)
{
    struct lab *lab = *state;
    uint32_t others[OBJECTS], number = 2;
    begin_first(lab);
    for (uint32_t i = 0; i < OBJECTS; i++) {
        others[i] = i;
    }
    for (unsigned times = 0; times < 2; times++) {
        begin_other(lab, others);
        for (uint32_t of_other = 2; (of_other + 1) * BATCH <= OBJECTS; of_other++) {
            announce_other(lab, of_other, others);
        }
        for (unsigned i = 0; i < 5; i++, number++) {
            announce(lab, LAB_LOADER, number, order + number * BATCH, BATCH);
        }
    }
    assert_int_equal(lab_stats(lab).known_orders, 1);
    assert_int_equal(lab_stats(lab).known_dropped, 0);
    assert_int_equal(lab_stats(lab).known_now, 1);
    lab_settle(lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rank_that_takes_turns, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_first_of_the_ranks, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_second_batch_comes_late, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_small_batches, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_ranks_tell_each_other, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_ranks_of_an_infinite_sampler, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_loader_that_counts_on, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_loader_that_counts_on_and_drops_the_last, lab_set_up,
                                        lab_tear_down),
        cmocka_unit_test_setup_teardown(test_one_loader_whose_queues_overtake_each_other, lab_set_up,
                                        lab_tear_down),
        cmocka_unit_test_setup_teardown(test_one_loader_that_is_taken_for_two, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_two_loaders_side_by_side, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_evaluation_inside_an_epoch, lab_set_up, lab_tear_down),
    };
    return cmocka_run_group_tests_name("known orders of trainers' loaders", tests, NULL, NULL);
}
