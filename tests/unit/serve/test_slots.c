/* The intake: slots of clients that die, lie or tear are never lost and never believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fetch/base/clock.h"
#include "fetch/serve/slots.h"

struct fixture {
    struct hr_loop *loop;
    struct hr_shm shm;
    struct hr_plan *plan;
    struct hr_intake *intake;
    char dir[64];
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    strcpy(fixture->dir, "/tmp/hr-slots-XXXXXX");
    assert_non_null(mkdtemp(fixture->dir));
    assert_int_equal(hr_loop_new(&fixture->loop), 0);
    assert_int_equal(hr_shm_create(fixture->dir, 7, -1, &fixture->shm), 0);
    struct hr_plan_options options = {
        .loop = fixture->loop,
        .control = fixture->shm.control,
        .cache_dir = fixture->dir,
        .boot = 7,
        .connections = 4,
        .memory_bytes = 1 << 20,
        .small_max_bytes = 1 << 20,
    };
    assert_int_equal(hr_plan_new(&options, &fixture->plan), 0);
    assert_int_equal(hr_intake_start(fixture->loop, &fixture->shm, fixture->plan, NULL, &fixture->intake), 0);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    char command[128];
    hr_intake_stop(fixture->intake);
    hr_plan_stop(fixture->plan);
    hr_plan_free(fixture->plan);
    hr_loop_free(fixture->loop);
    munmap(fixture->shm.control, sizeof *fixture->shm.control);
    munmap(fixture->shm.slots, sizeof *fixture->shm.slots);
    snprintf(command, sizeof command, "rm -rf %s", fixture->dir);
    int status = system(command);
    free(fixture);
    return status;
}

static int claim(struct hr_slots *slots, unsigned *ret_number, uint64_t *ret_claim)
{
    for (unsigned i = 0; i < HR_SLOTS; i++) {
        uint64_t free_word = 0;
        uint64_t mine = HR_CLAIM_MAKE(HR_CLAIM_CLAIMED, getpid(), hr_clock_ms());
        if (atomic_compare_exchange_strong(&slots->claims[i], &free_word, mine)) {
            *ret_number = i;
            *ret_claim = mine;
            return 0;
        }
    }
    return -1;
}

static void announce(struct hr_slots *slots, unsigned number, uint64_t claimed)
{
    atomic_store(&slots->claims[number], (claimed & ~(uint64_t)3) | HR_CLAIM_FULL);
}

static void fill(struct hr_slot *slot, uint32_t op, uint32_t tree, uint32_t ticket, const char *path)
{
    memset(slot, 0, sizeof *slot);
    slot->op = op;
    slot->tree = tree;
    slot->ticket = ticket;
    slot->path_len = (uint32_t)strlen(path);
    memcpy(slot->path, path, slot->path_len);
    slot->checksum = hr_slot_checksum(slot, slot->path_len);
}

static struct hr_intake_stats stats_of(struct fixture *fixture)
{
    struct hr_intake_stats stats;
    hr_intake_stats(fixture->intake, &stats);
    return stats;
}

static void test_killed_clients_lose_no_slot(void **state)
{
    struct fixture *fixture = *state;
    struct hr_slots *slots = fixture->shm.slots;
    for (int i = 0; i < 1000; i++) {
        pid_t child = fork();
        if (child == 0) {
            unsigned number = 0;
            uint64_t mine = 0;
            _exit(claim(slots, &number, &mine) == 0
                      ? (memset(&slots->slots[number], 0xa5, 600), raise(SIGKILL))
                      : 3);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        if (i == 500) { /* half of the dead are old enough here, the rest below */
            usleep((HR_CLAIM_STALE_MS + 50) * 1000);
            (void)hr_intake_tick(fixture->intake);
        }
    }
    usleep((HR_CLAIM_STALE_MS + 50) * 1000);
    (void)hr_intake_tick(fixture->intake);
    assert_int_equal(stats_of(fixture).reclaimed, 1000);
    for (unsigned i = 0; i < HR_SLOTS; i++) {
        assert_true(atomic_load(&slots->claims[i]) == 0);
    }
}

static void test_late_writer_is_dropped(void **state)
{
    struct fixture *fixture = *state;
    struct hr_slots *slots = fixture->shm.slots;
    unsigned number = 0;
    uint64_t mine = 0;
    assert_int_equal(claim(slots, &number, &mine), 0);
    fill(&slots->slots[number], HR_OP_LOOK, 0, 5, "a/b");
    slots->slots[number].path[1] = 'X'; /* another client wrote into it after the checksum */
    announce(slots, number, mine);
    (void)hr_intake_tick(fixture->intake);
    assert_int_equal(stats_of(fixture).torn, 1);
    assert_int_equal(stats_of(fixture).taken, 0);
    assert_true(atomic_load(&slots->claims[number]) == 0);
}

static void test_wild_slots_are_answered_or_dropped(void **state)
{
    struct fixture *fixture = *state;
    struct hr_slots *slots = fixture->shm.slots;
    static const struct {
        uint32_t op, tree, ticket, path_len;
        const char *path;
        bool torn;
        int error; /* answer, when there is one */
    } cases[] = {
        {HR_OP_NONE, 0, 1, 0, "", true, 0},
        {HR_OP_COUNT, 0, 2, 0, "", true, 0},
        {HR_OP_LOOK, 0, 0, 0, "", true, 0},
        {HR_OP_LOOK, 12345678, 3, 0, "x", false, -22},
        {HR_OP_OPEN, UINT32_MAX, 4, 0, "x", false, -22},
        {HR_OP_FETCH, 5, 0, 0, "", false, 0},
        {HR_OP_SEGMENT, 0, 0, 0, "123456789012345678901234", true, 0},   /* no ticket */
        {HR_OP_SEGMENT, 0, 5, 0, "12345678901234567890123", false, -22}, /* no struct hr_segment_ask */
        {HR_OP_WHOLE, 0, 6, 0, "1234567890123456789012345", false, -22},
        {HR_OP_WHOLE, 0, 7, 0, "", false, -22},
    };
    uint64_t torn = 0, taken = 0;
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned number = 0;
        uint64_t mine = 0;
        assert_int_equal(claim(slots, &number, &mine), 0);
        fill(&slots->slots[number], cases[i].op, cases[i].tree, cases[i].ticket, cases[i].path);
        announce(slots, number, mine);
        (void)hr_intake_tick(fixture->intake);
        torn += cases[i].torn;
        taken += !cases[i].torn;
        if (cases[i].error) {
            const struct hr_answer *answer = &fixture->shm.control->answers[cases[i].ticket];
            assert_int_equal(atomic_load(&answer->word), cases[i].ticket);
            assert_int_equal(answer->error, cases[i].error);
        }
    }
    assert_int_equal(stats_of(fixture).torn, torn);
    assert_int_equal(stats_of(fixture).taken, taken);
}

static void test_path_longer_than_a_key_is_torn(void **state)
{
    struct fixture *fixture = *state;
    struct hr_slots *slots = fixture->shm.slots;
    unsigned number = 0;
    uint64_t mine = 0;
    assert_int_equal(claim(slots, &number, &mine), 0);
    fill(&slots->slots[number], HR_OP_LOOK, 0, 9, "x");
    slots->slots[number].path_len = UINT32_MAX;
    announce(slots, number, mine);
    (void)hr_intake_tick(fixture->intake);
    assert_int_equal(stats_of(fixture).torn, 1);
}

static void test_answers_never_go_back(void **state)
{
    struct fixture *fixture = *state;
    struct hr_answer *slot = &fixture->shm.control->answers[3];
    struct hr_answer answer = {.error = -5};
    struct hr_asker newer = hr_plan_ring_asker(fixture->plan, 3 + HR_ANSWERS);
    struct hr_asker older = hr_plan_ring_asker(fixture->plan, 3);
    newer.fn(newer.owner, newer.ticket, &answer);
    answer.error = 0;
    older.fn(older.owner, older.ticket, &answer);
    assert_int_equal(atomic_load(&slot->word), 3 + HR_ANSWERS);
    assert_int_equal(slot->error, -5);
}

/* Clocks of two processors, or a claim made while we look: a little in the future is fresh, far is wrong. */
static void test_claims_from_the_future(void **state)
{
    struct fixture *fixture = *state;
    struct hr_slots *slots = fixture->shm.slots;
    int64_t now_ms = hr_clock_ms();
    atomic_store(&slots->claims[0], HR_CLAIM_MAKE(HR_CLAIM_CLAIMED, 1, now_ms + 1000));
    atomic_store(&slots->claims[1], HR_CLAIM_MAKE(HR_CLAIM_CLAIMED, 1, now_ms + 100000));
    atomic_store(&slots->claims[2], HR_CLAIM_MAKE(HR_CLAIM_CLAIMED, 1, now_ms));
    atomic_store(&slots->claims[3], HR_CLAIM_MAKE(3, 1, now_ms - 100000));
    atomic_store(&slots->claims[4], HR_CLAIM_MAKE(0, 1, now_ms - 100000));
    (void)hr_intake_tick(fixture->intake);
    assert_true(atomic_load(&slots->claims[0]) != 0);
    assert_true(atomic_load(&slots->claims[1]) == 0);
    assert_true(atomic_load(&slots->claims[2]) != 0);
    assert_true(atomic_load(&slots->claims[3]) == 0);
    assert_true(atomic_load(&slots->claims[4]) == 0);
    atomic_store(&slots->claims[0], 0);
    atomic_store(&slots->claims[2], 0);
}

/* A process that writes whatever comes to its mind all over the slots, while others work. */
static void test_scribbling_client(void **state)
{
    struct fixture *fixture = *state;
    struct hr_slots *slots = fixture->shm.slots;
    pid_t child = fork();
    if (child == 0) {
        for (uint64_t i = 1;; i++) {
            uint64_t noise = hr_mix64(i);
            unsigned number = (unsigned)(noise % HR_SLOTS);
            memcpy((char *)&slots->slots[number] + noise % 1000, &noise, sizeof noise);
            atomic_store(&slots->claims[(noise >> 20) % HR_SLOTS],
                         noise & (1 << 30) ? noise : HR_CLAIM_MAKE(HR_CLAIM_FULL, 1, i));
            atomic_fetch_add(&slots->doorbell, 1);
        }
    }
    int64_t until_ms = hr_clock_ms() + 300;
    while (hr_clock_ms() < until_ms) {
        (void)hr_intake_tick(fixture->intake);
    }
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(stats_of(fixture).torn > 0);
    for (unsigned i = 0; i < HR_SLOTS; i++) {
        atomic_store(&slots->claims[i], HR_CLAIM_MAKE(HR_CLAIM_CLAIMED, 1, hr_clock_ms() - 10000));
    }
    (void)hr_intake_tick(fixture->intake);
    /* An honest client is served as ever. */
    unsigned number = 0;
    uint64_t mine = 0;
    assert_int_equal(claim(slots, &number, &mine), 0);
    fill(&slots->slots[number], HR_OP_LOOK, 900, 77, "x");
    announce(slots, number, mine);
    (void)hr_intake_tick(fixture->intake);
    assert_int_equal(atomic_load(&fixture->shm.control->answers[77].word), 77);
    assert_int_equal(fixture->shm.control->answers[77].error, -22);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_killed_clients_lose_no_slot, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_late_writer_is_dropped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wild_slots_are_answered_or_dropped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_path_longer_than_a_key_is_torn, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_answers_never_go_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_claims_from_the_future, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_scribbling_client, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("slots", tests, NULL, NULL);
}
