/* Starting the daemon's threads. */
#ifndef HR_BASE_THREAD_H
#define HR_BASE_THREAD_H

#include <pthread.h>

/* As pthread_create, with all signals blocked in the new thread: none belongs there, and a blocked SIGPIPE is
 * what a write to a dead connection needs. 0 or -errno. */
int hr_thread_start(pthread_t *ret, const pthread_attr_t *attributes, void *(*thread_main)(void *owner),
                    void *owner);

/* The calling thread runs when nothing else wants its core: SCHED_IDLE, or nice where that is refused. */
void hr_thread_idle(void);

#endif
