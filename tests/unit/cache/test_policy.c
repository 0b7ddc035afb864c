/* Replacement by traces: what would be hit in a cache of so many objects, beside what recency alone would
 * hit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fetch/base/digest.h"
#include "fetch/cache/policy.h"

#define OBJECT_BYTES (256u << 10)
#define NAMES 40000u /* objects there are */
#define LATE 16      /* fetched, and opened so many accesses later: workers */

/* The cache under test and the one by recency alone, on the same trace. */
struct sim {
    struct hr_policy policy;
    struct hr_policy_node nodes[NAMES];
    bool there[NAMES];
    unsigned count, room;
    uint32_t late[LATE]; /* fetched and not yet opened; 0: nothing */
    unsigned turn;
    uint64_t hits, uses, lost; /* lost: given up before their use */
    /* recency */
    struct hr_policy_list recent;
    struct hr_policy_node recent_nodes[NAMES];
    bool recent_there[NAMES];
    unsigned recent_count;
    uint64_t recent_hits;
    uint64_t random;
};

static uint64_t next_random(struct sim *sim)
{
    sim->random += 0x9e3779b97f4a7c15u;
    uint64_t z = sim->random;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint32_t id_of(uint32_t name)
{
    uint64_t z = (name + 1) * 0x9e3779b97f4a7c15u;
    return (uint32_t)((z ^ (z >> 29)) * 0xbf58476d1ce4e5b9u >> 32);
}

static struct sim *sim_new(unsigned room)
{
    struct sim *sim = calloc(1, sizeof *sim);
    assert_non_null(sim);
    hr_policy_init(&sim->policy);
    hr_policy_list_init(&sim->recent);
    sim->room = room;
    return sim;
}

static void sim_free(struct sim *sim)
{
    hr_policy_release(&sim->policy);
    free(sim);
}

static void use_recent(struct sim *sim, uint32_t name)
{
    struct hr_policy_node *node = &sim->recent_nodes[name];
    sim->recent_hits += sim->recent_there[name];
    if (sim->recent_there[name]) {
        hr_policy_list_remove(node);
    } else if (sim->recent_count++ == sim->room) {
        struct hr_policy_node *oldest = hr_policy_list_oldest(&sim->recent);
        hr_policy_list_remove(oldest);
        sim->recent_there[oldest - sim->recent_nodes] = false;
        sim->recent_count--;
    }
    sim->recent_there[name] = true;
    hr_policy_list_add(&sim->recent, node);
}

static void give_up_one(struct sim *sim)
{
    hr_policy_full(&sim->policy, (uint64_t)sim->room * OBJECT_BYTES);
    struct hr_policy_node *victim = hr_policy_victim(&sim->policy);
    assert_non_null(victim);
    uint32_t name = (uint32_t)(victim - sim->nodes);
    assert_true(sim->there[name]);
    hr_policy_forget(&sim->policy, victim);
    sim->there[name] = false;
    sim->count--;
    for (unsigned i = 0; i < LATE; i++) {
        sim->lost += sim->late[i] == name + 1;
    }
}

static void bring(struct sim *sim, uint32_t name, enum hr_policy_why why)
{
    while (sim->count >= sim->room) {
        give_up_one(sim);
    }
    hr_policy_admit(&sim->policy, &sim->nodes[name], id_of(name), OBJECT_BYTES, why);
    sim->there[name] = true;
    sim->count++;
}

/* A program opens it; what had to be fetched for the LATE-th open before this one is opened now. */
static void use(struct sim *sim, uint32_t name)
{
    uint32_t *late = &sim->late[sim->turn++ % LATE];
    if (*late && sim->there[*late - 1]) {
        hr_policy_used(&sim->policy, &sim->nodes[*late - 1]);
    }
    *late = 0;
    sim->uses++;
    use_recent(sim, name);
    if (sim->there[name]) {
        sim->hits++;
        hr_policy_used(&sim->policy, &sim->nodes[name]);
        for (unsigned i = 0; i < LATE; i++) {
            sim->late[i] = sim->late[i] == name + 1 ? 0 : sim->late[i];
        }
    } else {
        bring(sim, name, HR_POLICY_ASKED);
        *late = name + 1;
    }
}

static void zero(struct sim *sim)
{
    sim->hits = sim->uses = sim->recent_hits = sim->lost = 0;
}

/* All of [first, first + count) once; shuffled, or in order. */
static void epoch(struct sim *sim, uint32_t first, uint32_t count, bool shuffled)
{
    uint32_t *order = calloc(count, sizeof *order);
    assert_non_null(order);
    for (uint32_t i = 0; i < count; i++) {
        order[i] = first + i;
    }
    for (uint32_t i = count; shuffled && i > 1; i--) {
        uint32_t at = (uint32_t)(next_random(sim) % i), last = order[i - 1];
        order[i - 1] = order[at];
        order[at] = last;
    }
    zero(sim);
    for (uint32_t i = 0; i < count; i++) {
        use(sim, order[i]);
    }
    free(order);
}

static double rate(const struct sim *sim)
{
    return (double)sim->hits / (double)sim->uses;
}

static double recent_rate(const struct sim *sim)
{
    return (double)sim->recent_hits / (double)sim->uses;
}

/* Hit rates of the epochs from the second on. */
static void expect_epochs(unsigned room, uint32_t count, bool shuffled, uint64_t seed, double least)
{
    struct sim *sim = sim_new(room);
    sim->random = seed;
    epoch(sim, 0, count, shuffled);
    assert_int_equal(sim->hits, 0);
    for (unsigned i = 2; i <= 8; i++) {
        epoch(sim, 0, count, shuffled);
        assert_true(rate(sim) >= least);
        assert_int_equal(sim->lost, 0);
    }
    sim_free(sim);
}

static void shuffled_epochs(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        expect_epochs(256, 1024, true, seed, 0.23);
        expect_epochs(256, 2560, true, seed, 0.088);
        expect_epochs(512, 1024, true, seed, 0.46);
        expect_epochs(1024, 1024, true, seed, 1.0);
    }
    expect_epochs(9000, 36000, true, 7, 0.235); /* more than a sample holds */
}

/* From the first epoch on: the second hits what keeping can. Epochs over ten times as much leave the set idle
 * for long. A working set after a scan wins its room back. */
static void first_set_is_kept(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct sim *sim = sim_new(512);
        sim->random = seed;
        epoch(sim, 0, 5120, true);
        assert_true(sim->policy.keep);
        for (unsigned i = 2; i <= 4; i++) {
            epoch(sim, 0, 5120, true);
            assert_true(rate(sim) >= 0.09);
            assert_true(sim->policy.keep);
        }
        sim_free(sim);
    }
    struct sim *sim = sim_new(256);
    epoch(sim, 10000, 3000, false);
    for (unsigned i = 0; i < 3; i++) {
        epoch(sim, 0, 200, true);
    }
    zero(sim);
    epoch(sim, 0, 200, true);
    assert_true(rate(sim) >= 0.99);
    sim_free(sim);
}

static void epochs_in_order(void **state)
{
    (void)state;
    expect_epochs(256, 1024, false, 1, 0.225);
    expect_epochs(1000, 1024, false, 1, 0.90);
}

/* A working set that fits, and one that moves. */
static void working_sets(void **state)
{
    (void)state;
    struct sim *sim = sim_new(256);
    for (unsigned i = 0; i < 20000; i++) {
        if (i == 2000) {
            zero(sim);
        }
        use(sim, (uint32_t)(i / 20 + next_random(sim) % 200)); /* 200 wide, a step every 20 uses */
    }
    assert_true(rate(sim) >= 0.95 * recent_rate(sim));
    sim_free(sim);
    sim = sim_new(256);
    for (unsigned i = 0; i < 60000; i++) {
        if (i == 2000) {
            zero(sim);
        }
        uint64_t range = 1u << (next_random(sim) % 12); /* few are popular */
        use(sim, (uint32_t)(next_random(sim) % range));
    }
    assert_true(rate(sim) >= 0.95 * recent_rate(sim));
    sim_free(sim);
}

static void scan_after_epochs(void **state)
{
    (void)state;
    static const unsigned sizes[] = {200, 1024}; /* fits; does not */
    for (unsigned i = 0; i < 2; i++) {
        struct sim *sim = sim_new(256);
        for (unsigned e = 0; e < 3; e++) {
            epoch(sim, 0, sizes[i], true);
        }
        double before = rate(sim);
        epoch(sim, 10000, 3000, false);
        epoch(sim, 0, sizes[i], true);
        assert_true(rate(sim) >= 0.93 * before);
        sim_free(sim);
    }
}

/* Another data set, in every size and order: learned by its third epoch. */
static void data_set_changes(void **state)
{
    (void)state;
    static const unsigned sizes[] = {200, 400, 1024, 2560};
    for (unsigned i = 0; i < 4; i++) {
        for (unsigned shuffled = 0; shuffled < 2; shuffled++) {
            struct sim *sim = sim_new(256);
            for (unsigned e = 0; e < 4; e++) {
                epoch(sim, 0, 1024, true);
            }
            for (unsigned e = 1; e <= 4; e++) {
                epoch(sim, 10000, sizes[i], shuffled);
            }
            double best = sizes[i] < 256 ? 1.0 : 256.0 / sizes[i];
            assert_true(rate(sim) >= 0.85 * best);
            sim_free(sim);
        }
    }
}

/* What its user is done with goes first, in whatever way room is made; a use or a word brings it back. */
static void unneeded_goes_first(void **state)
{
    (void)state;
    for (unsigned keep = 0; keep < 2; keep++) {
        struct sim *sim = sim_new(256);
        for (unsigned e = 0; e < (keep ? 3 : 1); e++) {
            epoch(sim, 0, keep ? 1024 : 200, true);
        }
        assert_true(sim->policy.keep == keep);
        uint32_t names[3], count = 0;
        for (uint32_t name = 0; name < 1024 && count < 3; name++) {
            if (sim->there[name] && sim->nodes[name].list == HR_POLICY_KEPT) {
                hr_policy_unneeded(&sim->policy, &sim->nodes[name]);
                names[count++] = name;
            }
        }
        assert_int_equal(count, 3);
        hr_policy_announced(&sim->policy, &sim->nodes[names[1]]);
        assert_ptr_equal(hr_policy_victim(&sim->policy), &sim->nodes[names[0]]);
        hr_policy_used(&sim->policy, &sim->nodes[names[0]]);
        assert_ptr_equal(hr_policy_victim(&sim->policy), &sim->nodes[names[2]]);
        hr_policy_forget(&sim->policy, &sim->nodes[names[2]]);
        sim->there[names[2]] = false;
        struct hr_policy_node *next = hr_policy_victim(&sim->policy);
        assert_true(next != &sim->nodes[names[1]]);
        sim_free(sim);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shuffled_epochs),     cmocka_unit_test(first_set_is_kept),
        cmocka_unit_test(epochs_in_order),     cmocka_unit_test(working_sets),
        cmocka_unit_test(scan_after_epochs),   cmocka_unit_test(data_set_changes),
        cmocka_unit_test(unneeded_goes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
