/* hr_loop: watches, stale events, timers in order, posts from many threads, stop. */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fetch/base/clock.h"
#include "fetch/net/loop.h"

static void stop_loop(void *owner)
{
    hr_loop_stop(owner);
}

struct fired {
    struct hr_loop *loop;
    struct hr_timer timer;
    int64_t due_ms;
    unsigned *order, rank;
};

static void on_fired(void *owner)
{
    struct fired *fired = owner;
    fired->rank = ++*fired->order;
    assert_true(hr_clock_ms() >= fired->due_ms);
    assert_int_equal(fired->timer.heap_index, -1);
}

static void timers_fire_in_order(void **state)
{
    (void)state;
    enum { COUNT = 500 };
    static struct fired all[COUNT];
    struct hr_loop *loop;
    unsigned order = 0;
    assert_int_equal(hr_loop_new(&loop), 0);
    for (int i = 0; i < COUNT; i++) {
        all[i] = (struct fired){.loop = loop, .order = &order, .timer = HR_TIMER_INIT(on_fired, &all[i])};
        int64_t delay_ms = (i * 7919) % 97;
        assert_int_equal(hr_loop_arm(loop, &all[i].timer, delay_ms), 0);
    }
    for (int i = 0; i < COUNT; i += 3) { /* some move, some go */
        assert_int_equal(hr_loop_arm(loop, &all[i].timer, (i * 31) % 120), 0);
    }
    for (int i = 1; i < COUNT; i += 5) {
        hr_loop_disarm(loop, &all[i].timer);
        hr_loop_disarm(loop, &all[i].timer);
    }
    for (int i = 0; i < COUNT; i++) {
        all[i].due_ms = all[i].timer.due_ms;
    }
    struct hr_timer end = HR_TIMER_INIT(stop_loop, loop);
    assert_int_equal(hr_loop_arm(loop, &end, 150), 0);
    assert_int_equal(hr_loop_run(loop), 0);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(all[i].rank == 0, i % 5 == 1);
        for (int k = 0; k < COUNT; k++) {
            if (all[i].rank && all[k].rank && all[i].due_ms < all[k].due_ms) {
                assert_true(all[i].rank < all[k].rank);
            }
        }
    }
    hr_loop_free(loop);
    hr_loop_free(NULL);
}

struct ticker {
    struct hr_loop *loop;
    struct hr_timer timer;
    unsigned ticks;
    int fd;
    bool seen;
};

/* Armed for now from its own callback, again and again: descriptors must still get their turn. */
static void on_tick(void *owner)
{
    struct ticker *ticker = owner;
    ticker->ticks++;
    assert_int_equal(hr_loop_arm(ticker->loop, &ticker->timer, 0), 0);
}

static void on_readable(void *owner, int fd, uint32_t events)
{
    struct ticker *ticker = owner;
    assert_true(fd == ticker->fd && (events & EPOLLIN));
    ticker->seen = true;
    hr_loop_stop(ticker->loop);
}

static void busy_timer_does_not_starve_descriptors(void **state)
{
    (void)state;
    struct ticker ticker = {.timer = HR_TIMER_INIT(on_tick, &ticker)};
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(hr_loop_new(&ticker.loop), 0);
    ticker.fd = ends[0];
    assert_int_equal(hr_loop_arm(ticker.loop, &ticker.timer, 0), 0);
    assert_int_equal(hr_loop_watch(ticker.loop, ends[0], EPOLLIN, on_readable, &ticker), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    assert_int_equal(hr_loop_run(ticker.loop), 0);
    assert_true(ticker.seen);
    hr_loop_disarm(ticker.loop, &ticker.timer);
    hr_loop_free(ticker.loop);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

struct pair {
    struct hr_loop *loop;
    int fds[2];
    unsigned calls;
};

/* Both pipes are readable in one turn; whoever is called first removes the other and re-uses its number. */
static void on_pair(void *owner, int fd, uint32_t events)
{
    struct pair *pair = owner;
    (void)events;
    pair->calls++;
    int other = fd == pair->fds[0] ? pair->fds[1] : pair->fds[0];
    hr_loop_unwatch(pair->loop, other);
    int silent[2];
    assert_int_equal(pipe(silent), 0);
    assert_int_equal(dup2(silent[0], other), other);
    assert_int_equal(hr_loop_watch(pair->loop, other, EPOLLIN, on_pair, pair), 0);
    (void)close(silent[0]); /* the writing end stays open, so nothing becomes readable */
    hr_loop_unwatch(pair->loop, fd);
}

static void stale_events_are_dropped(void **state)
{
    (void)state;
    struct pair pair = {0};
    int a[2], b[2];
    assert_int_equal(hr_loop_new(&pair.loop), 0);
    assert_true(pipe(a) == 0 && pipe(b) == 0);
    assert_true(write(a[1], "x", 1) == 1 && write(b[1], "x", 1) == 1);
    pair.fds[0] = a[0];
    pair.fds[1] = b[0];
    assert_int_equal(hr_loop_watch(pair.loop, a[0], EPOLLIN, on_pair, &pair), 0);
    assert_int_equal(hr_loop_watch(pair.loop, b[0], EPOLLIN, on_pair, &pair), 0);
    struct hr_timer end = HR_TIMER_INIT(stop_loop, pair.loop);
    assert_int_equal(hr_loop_arm(pair.loop, &end, 30), 0);
    assert_int_equal(hr_loop_run(pair.loop), 0);
    assert_int_equal(pair.calls, 1);
    hr_loop_free(pair.loop);
}

static void reused_number_without_unwatch_is_watched(void **state)
{
    (void)state;
    struct ticker ticker = {0};
    int first[2], second[2];
    assert_int_equal(hr_loop_new(&ticker.loop), 0);
    assert_int_equal(pipe(first), 0);
    assert_int_equal(hr_loop_watch(ticker.loop, first[0], EPOLLIN, on_readable, &ticker), 0);
    ticker.fd = first[0];
    (void)close(first[0]);
    assert_int_equal(pipe(second), 0);
    assert_int_equal(second[0], ticker.fd);
    assert_int_equal(hr_loop_watch(ticker.loop, second[0], EPOLLIN, on_readable, &ticker), 0);
    assert_int_equal(write(second[1], "x", 1), 1);
    assert_int_equal(hr_loop_run(ticker.loop), 0);
    assert_true(ticker.seen);
    assert_int_equal(hr_loop_watch(ticker.loop, -1, EPOLLIN, on_readable, &ticker), -EBADF);
    hr_loop_unwatch(ticker.loop, -1);
    hr_loop_unwatch(ticker.loop, 1 << 20);
    hr_loop_free(ticker.loop);
    (void)close(first[1]);
    (void)close(second[0]);
    (void)close(second[1]);
}

#define READY 256
#define READY_A_TURN_MAX 32 /* of which what they bring may wait for each other */

struct ready {
    struct hr_loop *loop;
    unsigned seen, seen_before, most;
};

static void on_ready(void *owner, int fd, uint32_t events)
{
    struct ready *ready = owner;
    uint64_t count;
    (void)events;
    assert_int_equal(read(fd, &count, sizeof count), sizeof count);
    ready->seen++;
}

static void count_ready(void *owner)
{
    struct ready *ready = owner;
    unsigned of_turn = ready->seen - ready->seen_before;
    ready->most = of_turn > ready->most ? of_turn : ready->most;
    ready->seen_before = ready->seen;
    if (ready->seen == READY) {
        hr_loop_stop(ready->loop);
    }
}

static void many_ready_descriptors_take_several_turns(void **state)
{
    (void)state;
    struct ready ready = {0};
    int fds[READY];
    assert_int_equal(hr_loop_new(&ready.loop), 0);
    hr_loop_each_turn(ready.loop, count_ready, &ready);
    for (int i = 0; i < READY; i++) {
        fds[i] = eventfd(1, EFD_CLOEXEC);
        assert_true(fds[i] >= 0);
        assert_int_equal(hr_loop_watch(ready.loop, fds[i], EPOLLIN, on_ready, &ready), 0);
    }
    assert_int_equal(hr_loop_run(ready.loop), 0);
    assert_int_equal(ready.seen, READY); /* each once: none starves */
    assert_in_range(ready.most, 1, READY_A_TURN_MAX);
    for (int i = 0; i < READY; i++) {
        hr_loop_unwatch(ready.loop, fds[i]);
        (void)close(fds[i]);
    }
    hr_loop_free(ready.loop);
}

struct debt {
    struct hr_loop *loop;
    struct hr_turn_end end, other;
    struct hr_timer timer;
    unsigned paid, other_paid, turns;
};

static void pay(void *owner)
{
    struct debt *debt = owner;
    debt->paid++;
    assert_false(debt->end.owed);
    if (debt->paid == 2) {
        hr_loop_owe(debt->loop, &debt->other); /* from a turn's end: at the same one */
    }
}

static void pay_other(void *owner)
{
    struct debt *debt = owner;
    debt->other_paid++;
}

static void on_debt_timer(void *owner)
{
    struct debt *debt = owner;
    assert_int_equal(debt->paid, ++debt->turns); /* all of the turns before, nothing of this one */
    assert_int_equal(debt->other_paid, debt->turns > 1);
    for (unsigned i = 0; i < 3; i++) {
        hr_loop_owe(debt->loop, &debt->end);
    }
    if (debt->turns == 4) {
        hr_loop_forget(debt->loop, &debt->end);
        hr_loop_forget(debt->loop, &debt->end);
        hr_loop_stop(debt->loop);
    } else {
        assert_int_equal(hr_loop_arm(debt->loop, &debt->timer, 0), 0);
    }
}

static void what_a_turn_owes_is_done_once_at_its_end(void **state)
{
    (void)state;
    struct debt debt = {.end = {.fn = pay, .owner = &debt},
                        .other = {.fn = pay_other, .owner = &debt},
                        .timer = HR_TIMER_INIT(on_debt_timer, &debt)};
    assert_int_equal(hr_loop_new(&debt.loop), 0);
    hr_loop_owe(debt.loop, &debt.end); /* before there is a turn */
    assert_int_equal(hr_loop_arm(debt.loop, &debt.timer, 0), 0);
    assert_int_equal(hr_loop_run(debt.loop), 0);
    assert_int_equal(debt.paid, 4);
    assert_int_equal(debt.other_paid, 1);
    hr_loop_free(debt.loop);
}

static void stop_before_run_is_not_lost(void **state)
{
    (void)state;
    struct hr_loop *loop;
    assert_int_equal(hr_loop_new(&loop), 0);
    hr_loop_stop(loop);
    assert_int_equal(hr_loop_run(loop), 0);
    struct hr_timer end = HR_TIMER_INIT(stop_loop, loop);
    assert_int_equal(hr_loop_arm(loop, &end, 20), 0);
    int64_t before_ms = hr_clock_ms();
    assert_int_equal(hr_loop_run(loop), 0); /* and does not stop the next run */
    assert_true(hr_clock_ms() - before_ms >= 19);
    hr_loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers_fire_in_order),
        cmocka_unit_test(busy_timer_does_not_starve_descriptors),
        cmocka_unit_test(stale_events_are_dropped),
        cmocka_unit_test(reused_number_without_unwatch_is_watched),
        cmocka_unit_test(many_ready_descriptors_take_several_turns),
        cmocka_unit_test(what_a_turn_owes_is_done_once_at_its_end),
        cmocka_unit_test(stop_before_run_is_not_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
