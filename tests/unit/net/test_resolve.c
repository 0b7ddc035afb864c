/* hr_resolver by itself: who gets which address, health, sharing of lookups, the bound on hosts. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "fetch/base/clock.h"
#include "fetch/net/resolve.h"
#include "names.h"

struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t told;
    unsigned answers;
};

static void on_answer(void *owner)
{
    struct waiter *waiter = owner;
    (void)pthread_mutex_lock(&waiter->lock);
    waiter->answers++;
    (void)pthread_cond_signal(&waiter->told);
    (void)pthread_mutex_unlock(&waiter->lock);
}

#define WAITER_INIT                                                                                          \
    {                                                                                                        \
        .lock = PTHREAD_MUTEX_INITIALIZER, .told = PTHREAD_COND_INITIALIZER                                  \
    }

/* The first answer, whatever it is. */
static int pick(struct hr_resolver *resolver, struct waiter *waiter, const char *host,
                struct hr_address **ret)
{
    const char *why = NULL;
    int r;
    for (;;) {
        (void)pthread_mutex_lock(&waiter->lock);
        unsigned seen = waiter->answers;
        (void)pthread_mutex_unlock(&waiter->lock);
        r = hr_resolve_pick(resolver, host, HR_PICK_ANY, NULL, ret, &why);
        if (r != -EINPROGRESS) {
            break;
        }
        (void)pthread_mutex_lock(&waiter->lock);
        while (waiter->answers == seen) {
            (void)pthread_cond_wait(&waiter->told, &waiter->lock);
        }
        (void)pthread_mutex_unlock(&waiter->lock);
    }
    assert_true(r != -EHOSTUNREACH || (why && *why));
    return r;
}

static void least_in_flight_first_when_equal(void **state)
{
    (void)state;
    struct waiter waiter = WAITER_INIT;
    struct hr_resolver *resolver;
    struct hr_address *taken[6], *again;
    assert_int_equal(hr_resolver_new(on_answer, &waiter, &resolver), 0);
    static const char *const order[] = {"127.0.0.1", "127.0.0.2", "127.0.0.3",
                                        "127.0.0.1", "127.0.0.2", "127.0.0.3"};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(pick(resolver, &waiter, "many.test", &taken[i]), 0);
        assert_string_equal(hr_address_text(taken[i]), order[i]);
    }
    hr_address_release(resolver, taken[1], HR_ADDRESS_CONNECTED);
    assert_int_equal(pick(resolver, &waiter, "many.test", &again), 0);
    assert_string_equal(hr_address_text(again), "127.0.0.2");
    hr_address_release(resolver, again, HR_ADDRESS_UNKNOWN);
    for (int i = 0; i < 6; i++) {
        if (i != 1) {
            hr_address_release(resolver, taken[i], HR_ADDRESS_CONNECTED);
        }
    }
    for (int i = 0; i < 5; i++) { /* one at a time stays on one address, where its connection is */
        assert_int_equal(pick(resolver, &waiter, "many.test", &again), 0);
        assert_string_equal(hr_address_text(again), "127.0.0.1");
        hr_address_release(resolver, again, HR_ADDRESS_CONNECTED);
    }
    hr_resolver_free(resolver);
    hr_resolver_free(NULL);
}

/* A second request for the same thing: whatever is in flight, on another address when there is one. */
static void another_address_than_that(void **state)
{
    (void)state;
    struct waiter waiter = WAITER_INIT;
    struct hr_resolver *resolver;
    struct hr_address *first, *second, *third;
    const char *why = NULL;
    assert_int_equal(hr_resolver_new(on_answer, &waiter, &resolver), 0);
    assert_int_equal(pick(resolver, &waiter, "many.test", &second), 0);
    hr_address_release(resolver, second, HR_ADDRESS_CONNECTED);
    for (int i = 0; i < 2; i++) { /* the first has the least in flight again */
        assert_int_equal(hr_resolve_pick(resolver, "many.test", HR_PICK_ANY, NULL, &first, &why), 0);
        assert_string_equal(hr_address_text(first), "127.0.0.1");
        hr_address_release(resolver, first, HR_ADDRESS_CONNECTED);
    }
    assert_int_equal(hr_resolve_pick(resolver, "many.test", HR_PICK_ANY, first, &second, &why), 0);
    assert_string_equal(hr_address_text(second), "127.0.0.2");
    assert_int_equal(hr_resolve_pick(resolver, "many.test", HR_PICK_ANY, first, &third, &why), 0);
    assert_string_equal(hr_address_text(third), "127.0.0.3");
    hr_address_release(resolver, third, HR_ADDRESS_NOT_CONNECTED);
    hr_address_release(resolver, second, HR_ADDRESS_NOT_CONNECTED);
    /* The others do not connect: better that one than none. */
    assert_int_equal(hr_resolve_pick(resolver, "many.test", HR_PICK_ANY, first, &second, &why), 0);
    assert_string_equal(hr_address_text(second), "127.0.0.1");
    hr_address_release(resolver, second, HR_ADDRESS_CONNECTED);
    assert_int_equal(pick(resolver, &waiter, "one.test", &first), 0);
    assert_int_equal(hr_resolve_pick(resolver, "one.test", HR_PICK_ANY, first, &second, &why), 0);
    assert_ptr_equal(first, second);
    hr_address_release(resolver, first, HR_ADDRESS_CONNECTED);
    hr_address_release(resolver, second, HR_ADDRESS_CONNECTED);
    hr_resolver_free(resolver);
}

static void unhealthy_is_avoided_but_never_all(void **state)
{
    (void)state;
    struct waiter waiter = WAITER_INIT;
    struct hr_resolver *resolver;
    struct hr_address *address;
    const char *why = NULL;
    assert_int_equal(hr_resolver_new(on_answer, &waiter, &resolver), 0);
    static const char *const order[] = {"127.0.0.1", "127.0.0.2", "127.0.0.3"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pick(resolver, &waiter, "many.test", &address), 0);
        assert_string_equal(hr_address_text(address), order[i]);
        hr_address_release(resolver, address, HR_ADDRESS_NOT_CONNECTED);
        (void)usleep(2000); /* the times until which they are avoided differ */
    }
    assert_int_equal(hr_resolve_pick(resolver, "many.test", HR_PICK_HEALTHY, NULL, &address, &why),
                     -EHOSTUNREACH);
    assert_int_equal(pick(resolver, &waiter, "many.test", &address), 0);
    assert_string_equal(hr_address_text(address), "127.0.0.1"); /* the one whose time is up first */
    hr_address_release(resolver, address, HR_ADDRESS_CONNECTED);
    assert_int_equal(hr_resolve_pick(resolver, "many.test", HR_PICK_HEALTHY, NULL, &address, &why), 0);
    assert_string_equal(hr_address_text(address), "127.0.0.1");
    hr_address_release(resolver, address, HR_ADDRESS_CONNECTED);
    hr_resolver_free(resolver);
}

static void failures_are_kept_a_second(void **state)
{
    (void)state;
    struct waiter waiter = WAITER_INIT;
    struct hr_resolver *resolver;
    struct hr_address *address;
    assert_int_equal(hr_resolver_new(on_answer, &waiter, &resolver), 0);
    unsigned before = atomic_load(&lookups);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(pick(resolver, &waiter, "none.test", &address), -EHOSTUNREACH);
    }
    unsigned once = atomic_load(&lookups) - before;
    assert_true(once <= 2);
    (void)usleep(1100000);
    assert_int_equal(pick(resolver, &waiter, "none.test", &address), -EHOSTUNREACH);
    assert_int_equal(atomic_load(&lookups) - before, 2 * once);
    const char *why = NULL;
    assert_int_equal(hr_resolve_pick(resolver, "", HR_PICK_ANY, NULL, &address, &why), -EHOSTUNREACH);
    hr_resolver_free(resolver);
}

/* Names come from outside (redirects): their number is bounded, unused ones make room, used ones stay. */
static void hosts_are_bounded(void **state)
{
    (void)state;
    struct waiter waiter = WAITER_INIT;
    struct hr_resolver *resolver;
    struct hr_address *address, *kept;
    assert_int_equal(hr_resolver_new(on_answer, &waiter, &resolver), 0);
    assert_int_equal(pick(resolver, &waiter, "one.test", &kept), 0);
    for (int i = 0; i < 1000; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "h%d.invalid", i);
        int r = pick(resolver, &waiter, name, &address);
        assert_int_equal(r, -EHOSTUNREACH);
    }
    unsigned before = atomic_load(&lookups);
    assert_int_equal(pick(resolver, &waiter, "one.test", &address), 0);
    assert_ptr_equal(address, kept);
    assert_int_equal(atomic_load(&lookups), before);
    hr_address_release(resolver, address, HR_ADDRESS_CONNECTED);
    hr_address_release(resolver, kept, HR_ADDRESS_CONNECTED);
    hr_resolver_free(resolver);
}

static void free_does_not_wait_for_a_lookup(void **state)
{
    (void)state;
    struct waiter waiter = WAITER_INIT;
    struct hr_resolver *resolver;
    struct hr_address *address;
    const char *why;
    assert_int_equal(hr_resolver_new(on_answer, &waiter, &resolver), 0);
    assert_int_equal(hr_resolve_pick(resolver, "late.test", HR_PICK_ANY, NULL, &address, &why), -EINPROGRESS);
    (void)usleep(50000);
    int64_t before_ms = hr_clock_ms();
    hr_resolver_free(resolver);
    assert_true(hr_clock_ms() - before_ms < 500);
    (void)usleep(1800000); /* the lookup ends, finds nobody, and tells nobody */
    assert_int_equal(waiter.answers, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(least_in_flight_first_when_equal),
        cmocka_unit_test(another_address_than_that),
        cmocka_unit_test(unhealthy_is_avoided_but_never_all),
        cmocka_unit_test(failures_are_kept_a_second),
        cmocka_unit_test(hosts_are_bounded),
        cmocka_unit_test(free_does_not_wait_for_a_lookup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
