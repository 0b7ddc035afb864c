#include "fetch/base/thread.h"

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#define NICE_LEAST 19 /* the least that setpriority takes */

int hr_thread_start(pthread_t *ret, const pthread_attr_t *attributes, void *(*thread_main)(void *owner),
                    void *owner)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(ret, attributes, thread_main, owner);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -error;
}

void hr_thread_idle(void)
{
    struct sched_param none = {0};
    if (sched_setscheduler(0, SCHED_IDLE, &none) < 0) {
        (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE_LEAST);
    }
}
