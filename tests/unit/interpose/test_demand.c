/* The slots of abi.h, many threads against one consumer that plays the daemon. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "interpose/demand.h"

#define THREADS 8
#define EACH 20000u

static struct hr_slots *slots;
static _Atomic bool done;
static _Atomic uint32_t seen[THREADS][EACH];
static _Atomic unsigned torn;

static int set_up(void **state)
{
    (void)state;
    slots = calloc(1, sizeof(*slots));
    atomic_store(&done, false);
    return slots ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    free(slots);
    return 0;
}

static bool drain(void)
{
    bool any = false;
    for (uint32_t i = 0; i < HR_SLOTS; i++) {
        if (HR_CLAIM_STATE(atomic_load(&slots->claims[i])) == HR_CLAIM_FULL) {
            struct hr_slot slot = slots->slots[i];
            atomic_store(&slots->claims[i], 0);
            any = true;
            if (slot.checksum != hr_slot_checksum(&slot, slot.path_len) || slot.tree >= THREADS ||
                slot.entry >= EACH) {
                atomic_fetch_add(&torn, 1);
            } else {
                atomic_fetch_add(&seen[slot.tree][slot.entry], 1);
            }
        }
    }
    return any;
}

static void *consume(void *unused)
{
    (void)unused;
    while (!atomic_load(&done)) {
        drain();
    }
    return NULL;
}

static void *produce(void *pointer)
{
    uint32_t number = (uint32_t)(uintptr_t)pointer;
    for (uint32_t i = 0; i < EACH;) {
        uint32_t at;
        uint64_t claim;
        if (hr_demand_claim(slots, (uint32_t)getpid(), number + 1, &at, &claim) != 0) {
            sched_yield();
            continue;
        }
        struct hr_slot *slot = &slots->slots[at];
        slot->op = HR_OP_FETCH;
        slot->tree = number;
        slot->entry = i;
        slot->path_len = i % 50;
        memset(slot->path, (int)i, slot->path_len);
        slot->checksum = hr_slot_checksum(slot, slot->path_len);
        i += hr_demand_announce(slots, at, claim);
    }
    return NULL;
}

static void every_request_arrives_once(void **state)
{
    pthread_t consumer, producers[THREADS];
    (void)state;
    assert_int_equal(pthread_create(&consumer, NULL, consume, NULL), 0);
    for (uintptr_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&producers[i], NULL, produce, (void *)i), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(producers[i], NULL);
    }
    atomic_store(&done, true);
    pthread_join(consumer, NULL);
    drain();
    assert_int_equal(torn, 0);
    for (unsigned i = 0; i < THREADS; i++) {
        for (unsigned k = 0; k < EACH; k++) {
            assert_int_equal(seen[i][k], 1);
        }
    }
    assert_int_equal(slots->doorbell, THREADS * EACH);
}

static void a_vanished_owner_blocks_nobody(void **state)
{
    uint32_t lost, at;
    uint64_t lost_claim, claim;
    (void)state;
    assert_int_equal(hr_demand_claim(slots, 11, 11, &lost, &lost_claim), 0);
    assert_int_equal(HR_CLAIM_STATE(lost_claim), HR_CLAIM_CLAIMED);
    for (unsigned i = 1; i < HR_SLOTS; i++) {
        assert_int_equal(hr_demand_claim(slots, 12, 11, &at, &claim), 0);
        assert_int_not_equal(at, lost);
    }
    assert_int_equal(hr_demand_claim(slots, 12, 11, &at, &claim), -EAGAIN);
    /* The daemon takes it back by age; the owner, back from the dead, must notice. */
    uint64_t expected = lost_claim;
    assert_true(atomic_compare_exchange_strong(&slots->claims[lost], &expected, 0));
    assert_int_equal(hr_demand_claim(slots, 12, 11, &at, &claim), 0);
    assert_int_equal(at, lost);
    assert_false(hr_demand_announce(slots, lost, lost_claim));
    assert_int_equal(slots->doorbell, 0);
    assert_true(hr_demand_announce(slots, at, claim));
    assert_int_equal(HR_CLAIM_STATE(atomic_load(&slots->claims[at])), HR_CLAIM_FULL);
    assert_int_equal(slots->doorbell, 1);
}

static void a_claim_tells_owner_and_time(void **state)
{
    uint32_t at;
    uint64_t claim;
    struct timespec now;
    (void)state;
    assert_int_equal(hr_demand_claim(slots, 0x2aaaaaaa, 1, &at, &claim), 0);
    assert_int_equal(claim >> 2 & 0x3fffffff, 0x2aaaaaaa);
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint32_t now_ms = (uint32_t)(now.tv_sec * 1000 + now.tv_nsec / 1000000);
    assert_in_range(now_ms - (uint32_t)(claim >> 32), 0, HR_CLAIM_STALE_MS);
    assert_int_equal(atomic_load(&slots->claims[at]), claim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_request_arrives_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_vanished_owner_blocks_nobody, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_claim_tells_owner_and_time, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
