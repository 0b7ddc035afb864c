/* A long piece of work on a thread of its own, whose end is told on the loop. The loop's thread has it, but
 * for `work`. */
#ifndef HR_NET_TASK_H
#define HR_NET_TASK_H

#include <pthread.h>

#include "fetch/net/loop.h"

/* In its owner's struct. The owner sets the first five before hr_task_start. */
struct hr_task {
    struct hr_loop *loop;
    const char *name; /* the thread's, at most 15 bytes; static */
    /* On the thread, once. Until done or hr_task_end it alone touches what it writes. */
    void (*work)(void *owner);
    /* On the loop, once, when work has returned, unless hr_task_end came first. hr_task_end is allowed
     * inside. */
    void (*done)(void *owner);
    void *owner;
    int event_fd;
    pthread_t thread;
};

/* 0 or -errno: nothing was started, done never comes. */
int hr_task_start(struct hr_task *task);
/* Waits until work has returned. After every start that succeeded, once. */
void hr_task_end(struct hr_task *task);

#endif
