/* An epoll loop with timers. One thread owns a loop and calls everything here, except hr_loop_stop, which any
 * thread may call. */
#ifndef HR_NET_LOOP_H
#define HR_NET_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct hr_loop;

typedef void (*hr_loop_fd_fn)(void *owner, int fd, uint32_t events);
typedef void (*hr_loop_fn)(void *owner);

int hr_loop_new(struct hr_loop **ret);   /* 0 or -errno */
void hr_loop_free(struct hr_loop *loop); /* accepts NULL; descriptors watched stay the callers' */

/* events: EPOLLIN|EPOLLOUT...; set changes an existing watch. 0 or -errno. */
int hr_loop_watch(struct hr_loop *loop, int fd, uint32_t events, hr_loop_fd_fn fn, void *owner);
void hr_loop_unwatch(struct hr_loop *loop, int fd);

/* Timers live in their owners' structs (no allocation); one-shot, may be re-armed from their own callback. */
struct hr_timer {
    hr_loop_fn fn;
    void *owner;
    int64_t due_ms; /* CLOCK_MONOTONIC */
    int heap_index; /* owned by the loop; -1 when not armed */
};
#define HR_TIMER_INIT(callback, owner_pointer)                                                               \
    {                                                                                                        \
        .fn = (callback), .owner = (owner_pointer), .heap_index = -1                                         \
    }
/* Re-arms when armed. 0 or -ENOMEM. */
int hr_loop_arm(struct hr_loop *loop, struct hr_timer *timer, int64_t delay_ms);
void hr_loop_disarm(struct hr_loop *loop, struct hr_timer *timer);

/* fn runs at the end of every turn of the loop, after descriptors and timers: the place for work that
 * is done once for many events. One a loop; fn NULL removes it. */
void hr_loop_each_turn(struct hr_loop *loop, hr_loop_fn fn, void *owner);

/* For what may be done once for much that one turn brings: fn runs when the turn ends, before the loop waits
 * again. The struct lives in its owner's; owed again, it is owed once. */
struct hr_turn_end {
    hr_loop_fn fn;
    void *owner;
    struct hr_turn_end *next;
    bool owed;
};
void hr_loop_owe(struct hr_loop *loop, struct hr_turn_end *end);
void hr_loop_forget(struct hr_loop *loop, struct hr_turn_end *end); /* it is not run any more */

/* Runs until hr_loop_stop. 0 or -errno of epoll_wait. */
int hr_loop_run(struct hr_loop *loop);
void hr_loop_stop(struct hr_loop *loop);

#endif
