#include "fetch/net/loop.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

#include "fetch/base/clock.h"

/* Epoll events taken at once. What they bring is handed on at the end of the turn, and what that lets begin
 * comes in with a later one: 128 answers of 110 KB on a busy core left the connections idle meanwhile. */
#define EVENTS_A_TURN 16
#define WAIT_MAX_MS 3600000 /* epoll_wait takes an int; an hour's empty turn costs nothing */
#define TABLE_FIRST 64      /* first size of the tables below, entries */

struct watch {
    hr_loop_fd_fn fn; /* NULL: not watched */
    void *owner;
    uint32_t generation; /* tells a stale event of a reused descriptor from a fresh one */
};

struct hr_loop {
    int epoll_fd;
    int wake_fd;
    struct watch *watches; /* indexed by descriptor */
    size_t watch_room;
    struct hr_timer **heap; /* binary, earliest first */
    size_t timer_count, timer_room;
    hr_loop_fn each_turn;
    void *each_turn_owner;
    struct hr_turn_end *ends; /* owed by this turn */
    atomic_bool stop;         /* set by any thread */
};

int hr_loop_new(struct hr_loop **ret)
{
    struct hr_loop *loop = calloc(1, sizeof(*loop));
    if (!loop) {
        return -ENOMEM;
    }
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = UINT64_MAX};
    if (loop->epoll_fd < 0 || loop->wake_fd < 0 ||
        epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->wake_fd, &event) < 0) {
        int r = -errno;
        if (loop->epoll_fd >= 0) {
            (void)close(loop->epoll_fd);
        }
        if (loop->wake_fd >= 0) {
            (void)close(loop->wake_fd);
        }
        free(loop);
        return r;
    }
    *ret = loop;
    return 0;
}

void hr_loop_free(struct hr_loop *loop)
{
    if (!loop) {
        return;
    }
    (void)close(loop->epoll_fd);
    (void)close(loop->wake_fd);
    free(loop->watches);
    free(loop->heap);
    free(loop);
}

/* Room for `need` entries of `size` bytes; fresh ones are zeroed. */
static int grow_table(void *table, size_t *room, size_t need, size_t size)
{
    void **at = table;
    size_t want = *room ? *room : TABLE_FIRST;
    while (want < need) {
        want *= 2;
    }
    if (want == *room) {
        return 0;
    }
    void *grown = reallocarray(*at, want, size);
    if (!grown) {
        return -ENOMEM;
    }
    memset((char *)grown + *room * size, 0, (want - *room) * size);
    *at = grown;
    *room = want;
    return 0;
}

int hr_loop_watch(struct hr_loop *loop, int fd, uint32_t events, hr_loop_fd_fn fn, void *owner)
{
    if (fd < 0) {
        return -EBADF;
    }
    int r = grow_table(&loop->watches, &loop->watch_room, (size_t)fd + 1, sizeof(*loop->watches));
    if (r < 0) {
        return r;
    }
    struct watch *watch = &loop->watches[fd];
    bool change = watch->fn != NULL;
    uint32_t generation = change ? watch->generation : watch->generation + 1;
    struct epoll_event event = {.events = events, .data.u64 = (uint64_t)generation << 32 | (uint32_t)fd};
    r = epoll_ctl(loop->epoll_fd, change ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
    if (r < 0 && change && errno == ENOENT) {
        /* Closed without unwatch and opened anew under the same number. */
        event.data.u64 = (uint64_t)++generation << 32 | (uint32_t)fd;
        r = epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event);
    }
    if (r < 0) {
        return -errno;
    }
    *watch = (struct watch){fn, owner, generation};
    return 0;
}

void hr_loop_unwatch(struct hr_loop *loop, int fd)
{
    if (fd < 0 || (size_t)fd >= loop->watch_room || !loop->watches[fd].fn) {
        return;
    }
    loop->watches[fd].fn = NULL;
    /* Fails when it is closed already: as wanted. */
    (void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static void heap_put(struct hr_loop *loop, size_t at, struct hr_timer *timer)
{
    loop->heap[at] = timer;
    timer->heap_index = (int)at;
}

static void heap_up(struct hr_loop *loop, size_t at, struct hr_timer *timer)
{
    while (at > 0 && loop->heap[(at - 1) / 2]->due_ms > timer->due_ms) {
        heap_put(loop, at, loop->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    heap_put(loop, at, timer);
}

static void heap_down(struct hr_loop *loop, size_t at, struct hr_timer *timer)
{
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= loop->timer_count) {
            break;
        }
        if (child + 1 < loop->timer_count && loop->heap[child + 1]->due_ms < loop->heap[child]->due_ms) {
            child++;
        }
        if (loop->heap[child]->due_ms >= timer->due_ms) {
            break;
        }
        heap_put(loop, at, loop->heap[child]);
        at = child;
    }
    heap_put(loop, at, timer);
}

int hr_loop_arm(struct hr_loop *loop, struct hr_timer *timer, int64_t delay_ms)
{
    int64_t now_ms = hr_clock_ms();
    if (delay_ms < 0) {
        delay_ms = 0;
    }
    int64_t due_ms = delay_ms > INT64_MAX - now_ms ? INT64_MAX : now_ms + delay_ms;
    if (timer->heap_index < 0) {
        int r = grow_table(&loop->heap, &loop->timer_room, loop->timer_count + 1, sizeof(*loop->heap));
        if (r < 0) {
            return r;
        }
        timer->due_ms = due_ms;
        loop->timer_count++;
        heap_up(loop, loop->timer_count - 1, timer);
        return 0;
    }
    size_t at = (size_t)timer->heap_index;
    int64_t old_ms = timer->due_ms;
    timer->due_ms = due_ms;
    if (due_ms < old_ms) {
        heap_up(loop, at, timer);
    } else {
        heap_down(loop, at, timer);
    }
    return 0;
}

void hr_loop_disarm(struct hr_loop *loop, struct hr_timer *timer)
{
    if (timer->heap_index < 0) {
        return;
    }
    size_t at = (size_t)timer->heap_index;
    timer->heap_index = -1;
    struct hr_timer *last = loop->heap[--loop->timer_count];
    if (last == timer) {
        return;
    }
    if (at > 0 && loop->heap[(at - 1) / 2]->due_ms > last->due_ms) {
        heap_up(loop, at, last);
    } else {
        heap_down(loop, at, last);
    }
}

void hr_loop_each_turn(struct hr_loop *loop, hr_loop_fn fn, void *owner)
{
    loop->each_turn = fn;
    loop->each_turn_owner = owner;
}

void hr_loop_owe(struct hr_loop *loop, struct hr_turn_end *end)
{
    if (!end->owed) {
        end->owed = true;
        LL_PREPEND(loop->ends, end);
    }
}

void hr_loop_forget(struct hr_loop *loop, struct hr_turn_end *end)
{
    if (end->owed) {
        end->owed = false;
        LL_DELETE(loop->ends, end);
    }
}

static void run_ends(struct hr_loop *loop)
{
    while (loop->ends) {
        struct hr_turn_end *end = loop->ends;
        hr_loop_forget(loop, end);
        end->fn(end->owner);
    }
}

void hr_loop_stop(struct hr_loop *loop)
{
    uint64_t one = 1;
    atomic_store(&loop->stop, true);
    (void)!write(loop->wake_fd, &one, sizeof(one)); /* fails only when full, which wakes as well */
}

static int turn_timeout_ms(const struct hr_loop *loop)
{
    if (loop->timer_count == 0) {
        return -1;
    }
    int64_t left_ms = loop->heap[0]->due_ms - hr_clock_ms();
    return left_ms <= 0 ? 0 : left_ms > WAIT_MAX_MS ? WAIT_MAX_MS : (int)left_ms;
}

/* Timers that are due now; those armed meanwhile with no delay wait for the next turn, so descriptors get
 * theirs. */
static void run_timers(struct hr_loop *loop)
{
    int64_t now_ms = loop->timer_count > 0 ? hr_clock_ms() : 0;
    for (size_t left = loop->timer_count; left > 0 && loop->timer_count > 0; left--) {
        struct hr_timer *timer = loop->heap[0];
        if (timer->due_ms > now_ms) {
            break;
        }
        hr_loop_disarm(loop, timer);
        timer->fn(timer->owner);
    }
}

static void run_event(struct hr_loop *loop, const struct epoll_event *event)
{
    size_t fd = (uint32_t)event->data.u64;
    uint32_t generation = (uint32_t)(event->data.u64 >> 32);
    if (fd >= loop->watch_room || loop->watches[fd].generation != generation) {
        return;
    }
    if (loop->watches[fd].fn) {
        loop->watches[fd].fn(loop->watches[fd].owner, (int)fd, event->events);
    }
}

int hr_loop_run(struct hr_loop *loop)
{
    struct epoll_event events[EVENTS_A_TURN];
    run_ends(loop); /* owed before there was a turn */
    while (!atomic_exchange(&loop->stop, false)) {
        int count = epoll_wait(loop->epoll_fd, events, EVENTS_A_TURN, turn_timeout_ms(loop));
        if (count < 0 && errno != EINTR) {
            return -errno;
        }
        for (int i = 0; i < count; i++) {
            if (events[i].data.u64 == UINT64_MAX) {
                uint64_t ignored;
                (void)!read(loop->wake_fd, &ignored, sizeof(ignored));
            } else {
                run_event(loop, &events[i]);
            }
        }
        run_timers(loop);
        if (loop->each_turn) {
            loop->each_turn(loop->each_turn_owner);
        }
        run_ends(loop);
    }
    return 0;
}
