/* Replacement with a known order: what is hit in a cache that is smaller than the epoch, and what is given
 * up. */
#include "tests/unit/plan/numbered.h"

#include "fetch/cache/policy.h"
#include "fetch/plan/future.h"
#include "fetch/plan/guide.h"
#include "fetch/plan/dataset.h"
#include "fetch/plan/order_thread.h"
#include "fetch/plan/victims.h"

/* ---- the arithmetic of it, by traces ---- */

#define NAMES 4096u
#define ROOM (NAMES / 4)
#define BLOCK_BYTES (256u << 10)

struct sim {
    struct hr_policy policy;
    struct hr_policy_node nodes[NAMES];
    bool there[NAMES], announced[NAMES];
    uint32_t order[NAMES];
    unsigned count, hits, exchanged;
    struct hr_future future;
    bool knows;
    uint64_t random;
};

static uint32_t position_of(const void *owner, uint32_t position)
{
    return ((const struct sim *)owner)->order[position];
}

static bool is_free(void *owner, uint32_t index)
{
    const struct sim *sim = owner;
    return sim->there[index] && !sim->announced[index];
}

static void shuffle(struct sim *sim)
{
    for (uint32_t i = 0; i < NAMES; i++) {
        sim->order[i] = i;
    }
    for (uint32_t i = NAMES; i > 1; i--) {
        sim->random = hr_mix64(sim->random + 0x9e3779b97f4a7c15u);
        uint32_t at = (uint32_t)(sim->random % i), last = sim->order[i - 1];
        sim->order[i - 1] = sim->order[at];
        sim->order[at] = last;
    }
}

static uint32_t choose(struct sim *sim)
{
    struct hr_policy_node *node = hr_policy_victim(&sim->policy);
    assert_non_null(node);
    uint32_t victim = (uint32_t)(node - sim->nodes), other;
    if (sim->knows && hr_future_needs(&sim->future, victim) &&
        (hr_future_find_read(&sim->future, is_free, sim, &other) ||
         hr_future_find_last(&sim->future, is_free, sim, &other))) {
        sim->exchanged += other != victim;
        return other;
    }
    return victim;
}

static void bring(struct sim *sim, uint32_t name)
{
    while (sim->count >= ROOM) {
        hr_policy_full(&sim->policy, (uint64_t)ROOM * BLOCK_BYTES);
        uint32_t victim = choose(sim);
        assert_true(sim->there[victim]);
        hr_policy_forget(&sim->policy, &sim->nodes[victim]);
        sim->there[victim] = false;
        sim->count--;
    }
    hr_policy_admit(&sim->policy, &sim->nodes[name], (uint32_t)hr_mix64(name), BLOCK_BYTES, HR_POLICY_ASKED);
    sim->there[name] = true;
    sim->count++;
}

/* Announced `ahead` opens before it is opened. A hit is what was there when it was announced. */
static void epoch(struct sim *sim, unsigned ahead)
{
    sim->hits = 0;
    if (sim->knows) {
        sim->future = (struct hr_future){.at = position_of, .order = sim, .n = NAMES, .length = NAMES};
        assert_int_equal(hr_future_begin(&sim->future), 0);
    }
    for (uint32_t i = 0; i < NAMES + ahead; i++) {
        if (i < NAMES) {
            uint32_t name = sim->order[i];
            sim->announced[name] = true;
            sim->hits += sim->there[name];
            if (sim->there[name]) {
                hr_policy_announced(&sim->policy, &sim->nodes[name]);
            } else {
                bring(sim, name);
            }
        }
        if (i >= ahead) {
            uint32_t name = sim->order[i - ahead];
            sim->announced[name] = false;
            assert_true(sim->there[name]); /* what is announced stays until it is read */
            hr_policy_used(&sim->policy, &sim->nodes[name]);
            if (sim->knows) {
                hr_future_read(&sim->future, name);
            }
        }
    }
    if (sim->knows) {
        hr_future_end(&sim->future);
    }
}

struct way {
    bool knows, recent; /* the order; recency alone beside it */
    bool one_order;     /* a sampler whose seed stays */
    unsigned ahead;
};

/* The lowest hit rate of the epochs from the second on. */
static double run(struct way way)
{
    struct sim *sim = calloc(1, sizeof *sim);
    double least = 1;
    assert_non_null(sim);
    hr_policy_init(&sim->policy);
    if (way.recent) {
        hr_policy_release(&sim->policy);
    }
    shuffle(sim);
    sim->knows = way.knows;
    for (unsigned i = 0; i < 5; i++) {
        epoch(sim, way.ahead);
        double rate = (double)sim->hits / NAMES;
        least = i > 0 && rate < least ? rate : least;
        if (!way.one_order) {
            shuffle(sim);
        }
    }
    assert_true(way.knows == (sim->exchanged > 0));
    hr_policy_release(&sim->policy);
    free(sim);
    return least;
}

/* No order of epochs lets a cache hit more of one than what it holds, less what is brought ahead. */
static void test_hits_of_epochs(void **state)
{
    (void)state;
    for (unsigned ahead = 16; ahead <= 512; ahead *= 2) {
        double most = (double)(ROOM - ahead) / NAMES;
        for (int one_order = 0; one_order < 2; one_order++) {
            double kept = run((struct way){.ahead = ahead, .one_order = one_order});
            double known = run((struct way){.ahead = ahead, .one_order = one_order, .knows = true});
            assert_true(known >= 0.97 * most);
            assert_true(known >= 0.99 * kept);
        }
    }
    /* Where nothing else protects a set: recency hits 3.4 % of a shuffled epoch, the order a quarter. */
    double recent = run((struct way){.ahead = 16, .recent = true});
    double known = run((struct way){.ahead = 16, .recent = true, .knows = true});
    assert_true(recent < 0.05);
    assert_true(known >= 0.97 * (ROOM - 16) / NAMES);
    assert_true(run((struct way){.ahead = 16, .recent = true, .one_order = true}) < 0.001);
    assert_true(run((struct way){.ahead = 16, .recent = true, .one_order = true, .knows = true}) >= 0.24);
}

/* ---- one order, step by step ---- */

static uint32_t down_from(const void *owner, uint32_t position)
{
    return *(const uint32_t *)owner - 1 - position;
}

static bool is_in_set(void *owner, uint32_t index)
{
    return ((const bool *)owner)[index];
}

static void test_read_goes_first_then_the_last(void **state)
{
    uint32_t n = 100, index = 0;
    bool there[100] = {false};
    struct hr_future future = {.at = down_from, .order = &n, .n = n, .length = 90}; /* 99 down to 10 */
    (void)state;
    assert_int_equal(hr_future_begin(&future), 0);
    assert_true(hr_future_needs(&future, 10));
    assert_false(hr_future_needs(&future, 9)); /* another rank's */
    assert_false(hr_future_needs(&future, 100));
    there[98] = there[50] = there[12] = true;
    assert_false(hr_future_find_read(&future, is_in_set, there, &index));
    assert_true(hr_future_find_last(&future, is_in_set, there, &index));
    assert_int_equal(index, 12);
    hr_future_read(&future, 98); /* out of order: 99 is still to come */
    hr_future_read(&future, 98);
    hr_future_read(&future, 4000);
    assert_int_equal(future.read, 1);
    assert_true(hr_future_find_read(&future, is_in_set, there, &index));
    assert_int_equal(index, 98);
    there[98] = there[12] = false;
    assert_false(hr_future_find_read(&future, is_in_set, there, &index));
    assert_true(hr_future_find_last(&future, is_in_set, there, &index));
    assert_int_equal(index, 50);
    hr_future_read(&future, 99);
    there[99] = true;
    assert_true(hr_future_find_read(&future, is_in_set, there, &index));
    assert_int_equal(index, 99);
    there[99] = there[50] = false;
    assert_false(hr_future_find_read(&future, is_in_set, there, &index));
    assert_false(hr_future_find_last(&future, is_in_set, there, &index));
    assert_int_equal(hr_future_distance(&future), 0);
    hr_future_end(&future);
}

/* A place that nobody reads, far behind what is read, does not hold up the rest. */
static void test_left_places_are_passed(void **state)
{
    uint32_t n = 5000, index = 0;
    static bool there[5000];
    struct hr_future future = {.at = down_from, .order = &n, .n = n, .length = n};
    (void)state;
    assert_int_equal(hr_future_begin(&future), 0);
    for (uint32_t i = 1; i < n; i++) { /* all but the first position */
        hr_future_read(&future, n - 1 - i);
    }
    there[7] = true;
    bool found = false;
    for (unsigned looks = 0; looks < 10 && !found; looks++) {
        found = hr_future_find_read(&future, is_in_set, there, &index);
    }
    assert_true(found);
    assert_int_equal(index, 7);
    hr_future_end(&future);
}

/* ---- the plan and the cache ---- */

#define OBJECTS 300u
#define OBJECT_BYTES (64 * KIB)

static uint32_t epoch_order[OBJECTS];
static uint64_t awaited;

static bool is_known(struct lab *lab)
{
    return lab_stats(lab).known_orders >= awaited;
}

static unsigned count_there(struct lab *lab)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < OBJECTS; i++) {
        count += HR_STATE_KIND(lab_word(lab, key_of(i))) == HR_STATE_RESIDENT;
    }
    return count;
}

static void open_all(struct lab *lab, uint32_t seed)
{
    struct hr_order known = {.seed = seed, .n = OBJECTS, .replicas = 1};
    hr_order_make(&known, epoch_order);
    for (uint32_t i = 0; i < OBJECTS; i++) {
        open_noted(lab, epoch_order[i]);
        if (i == 9) {
            awaited++;
            lab_until(lab, is_known);
        }
    }
}

/* With a quarter of the data in the cache each epoch finds nearly that there, from the second on; what is
 * exchanged is counted, and every byte is what it should be. */
static void test_epochs_in_a_quarter(void **state)
{
    struct lab *lab = *state;
    open_numbered(lab, OBJECTS, OBJECT_BYTES,
                  &(struct lab_options){.prefetch = true, .cache_bytes = OBJECTS / 4 * OBJECT_BYTES},
                  HR_ORDER_MODE_AUTO);
    awaited = 0;
    open_all(lab, 5);
    for (uint32_t seed = 6; seed < 9; seed++) {
        unsigned gets = s3_gets(lab->s3);
        open_all(lab, seed);
        assert_in_range(s3_gets(lab->s3) - gets, OBJECTS * 3 / 4, OBJECTS * 78 / 100);
        assert_true(count_there(lab) <= OBJECTS / 4);
    }
    struct hr_plan_stats stats = lab_stats(lab);
    assert_int_equal(stats.known_dropped, 0);
    assert_true(stats.victims_read + stats.victims_last > 0);
    for (uint32_t i = 0; i < OBJECTS; i++) {
        if (HR_STATE_KIND(lab_word(lab, key_of(i))) == HR_STATE_RESIDENT) {
            lab_check_entry(lab, key_of(i));
        }
    }
}

#define EPOCH_BATCH 16u

static uint64_t file_at(struct lab *lab, uint32_t position)
{
    return lab_file_id(lab, key_of(epoch_order[position]));
}

/* What goes in place of the object at that position; 0: itself. */
static uint64_t goes_for(struct lab *lab, uint32_t position)
{
    const struct hr_cached *victim = hr_cache_by_id(lab->cache, file_at(lab, position));
    assert_non_null(victim);
    const struct hr_cached *other = hr_plan_needed_later(lab->plan, victim);
    return other ? other->file_id : 0;
}

/* Of two workers one is understood. What the other's batches name was not announced for anybody, and is what
 * the epoch reads next: it has not been read. */
static void test_batches_of_a_queue_not_understood_are_not_read(void **state)
{
    static const uint32_t there[] = {0, EPOCH_BATCH, 2 * EPOCH_BATCH, OBJECTS - 2};
    struct lab *lab = *state;
    struct hr_order known = {.seed = 5, .n = OBJECTS, .replicas = 1};
    open_numbered(lab, OBJECTS, OBJECT_BYTES, &(struct lab_options){.prefetch = true}, HR_ORDER_MODE_AUTO);
    hr_order_make(&known, epoch_order);
    for (unsigned i = 0; i < sizeof there / sizeof there[0]; i++) {
        open_noted(lab, epoch_order[there[i]]);
    }
    for (uint32_t number = 0; number < 4; number++) {
        lab_announce(lab, epoch_order, EPOCH_BATCH, number);
    }
    open_announced(lab, epoch_order[EPOCH_BATCH]);
    open_announced(lab, epoch_order[EPOCH_BATCH + 1]);
    assert_int_equal(lab_stats(lab).announced, 2 * EPOCH_BATCH);
    lab_note(lab, key_of(epoch_order[EPOCH_BATCH]));
    hr_plan_drain(lab->plan);
    awaited = 1;
    lab_until(lab, is_known);
    assert_int_equal(lab_stats(lab).known_seed, 5);
    assert_int_equal(goes_for(lab, EPOCH_BATCH), 0);
    assert_int_equal(goes_for(lab, 0), file_at(lab, EPOCH_BATCH));
    assert_int_equal(goes_for(lab, 2 * EPOCH_BATCH), file_at(lab, EPOCH_BATCH));
    hr_cache_drop(lab->cache, file_at(lab, EPOCH_BATCH));
    assert_int_equal(goes_for(lab, 0), file_at(lab, OBJECTS - 2));
    assert_int_equal(goes_for(lab, 2 * EPOCH_BATCH), file_at(lab, OBJECTS - 2));
    assert_int_equal(goes_for(lab, OBJECTS - 2), 0);
}

/* It has come, and the program that asked has not opened it yet: it would have to ask again. */
static void test_what_a_program_waits_for_stays(void **state)
{
    enum { READ = 10, LATER = 150 };
    struct lab *lab = *state;
    struct hr_order known = {.seed = 5, .n = OBJECTS, .replicas = 1};
    open_numbered(lab, OBJECTS, OBJECT_BYTES, &(struct lab_options){.prefetch = true}, HR_ORDER_MODE_AUTO);
    hr_order_make(&known, epoch_order);
    for (uint32_t i = 0; i < READ; i++) {
        open_noted(lab, epoch_order[i]);
    }
    awaited = 1;
    assert_int_equal(lab_open_entry(lab, key_of(epoch_order[READ])), 0);
    lab_until(lab, is_known);
    lab_settle(lab);
    assert_int_equal(goes_for(lab, LATER), file_at(lab, 0));
    for (uint32_t i = 0; i < READ; i++) {
        hr_cache_drop(lab->cache, file_at(lab, i));
    }
    assert_int_equal(goes_for(lab, LATER), 0);
    lab_note(lab, key_of(epoch_order[READ]));
    hr_plan_drain(lab->plan);
    assert_int_equal(goes_for(lab, LATER), file_at(lab, READ));
}

/* Two loaders of one set read each object once: the first open is of the one that announced it, and it goes
 * first when both have read it, or when the other one rests. */
static void test_what_two_loaders_read(void **state)
{
    enum { READ = 0, LATER = 100, OTHERS = 101 };
    struct lab *lab = *state;
    uint32_t order[OBJECTS];
    const struct hr_order known = {.seed = 5, .n = OBJECTS, .replicas = 1};
    const struct hr_order others = {.seed = 6, .n = OBJECTS, .replicas = 1};
    open_numbered(lab, OBJECTS, OBJECT_BYTES, &(struct lab_options){.prefetch = true}, HR_ORDER_MODE_OFF);
    hr_order_make(&known, epoch_order);
    hr_order_make(&others, order);
    struct hr_plan_tree *tree = hr_tree_get(lab->plan, lab->tree);
    assert_non_null(hr_base_ranks(tree));
    const struct hr_dataset data = {.tree = tree, .gen = tree->index.names->gen};
    open_noted(lab, epoch_order[READ]);
    open_noted(lab, epoch_order[LATER]);
    open_noted(lab, epoch_order[OTHERS]);
    hr_victims_begin(lab->plan, 1, &data, &known, epoch_order, true);
    hr_victims_begin(lab->plan, 2, &data, &others, order, true);
    for (uint64_t id = 1; id <= 2; id++) {
        hr_victims_heard(lab->plan, id, &epoch_order[READ], 1);
        lab_note(lab, key_of(epoch_order[READ]));
        hr_plan_drain(lab->plan);
        (void)goes_for(lab, LATER);
        assert_int_equal(lab_stats(lab).victims_read, id - 1);
    }
    assert_int_equal(goes_for(lab, LATER), file_at(lab, READ));
    hr_cache_drop(lab->cache, file_at(lab, READ));
    hr_victims_heard(lab->plan, 1, &epoch_order[OTHERS], 1);
    lab_note(lab, key_of(epoch_order[OTHERS]));
    hr_plan_drain(lab->plan);
    assert_int_equal(lab_stats(lab).victims_read, 2);
    hr_victims_rest(lab->plan, 2);
    assert_int_equal(goes_for(lab, LATER), file_at(lab, OTHERS));
    hr_victims_free(lab->plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hits_of_epochs),
        cmocka_unit_test(test_read_goes_first_then_the_last),
        cmocka_unit_test(test_left_places_are_passed),
        cmocka_unit_test_setup_teardown(test_epochs_in_a_quarter, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_batches_of_a_queue_not_understood_are_not_read, lab_set_up,
                                        lab_tear_down),
        cmocka_unit_test_setup_teardown(test_what_a_program_waits_for_stays, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_what_two_loaders_read, lab_set_up, lab_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
