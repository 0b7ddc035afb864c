#include "fetch/base/thread.h"

#include <signal.h>

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
