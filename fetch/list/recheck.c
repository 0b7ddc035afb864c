#include "fetch/list/recheck.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "fetch/base/thread.h"
#include "fetch/list/publish.h"

#define NICE_LEAST 19 /* the least that setpriority takes */

struct hr_recheck {
    struct hr_recheck_options options;
    int event_fd;
    pthread_t thread;
    atomic_bool stop;
    int error; /* the thread's, until event_fd is readable */
};

static void *thread_main(void *owner)
{
    struct hr_recheck *recheck = owner;
    struct sched_param none = {0};
    uint64_t one = 1;

    (void)pthread_setname_np(pthread_self(), "hr-recheck");
    if (sched_setscheduler(0, SCHED_IDLE, &none) < 0) {
        (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE_LEAST);
    }
    recheck->error = hr_index_verify(recheck->options.index_dir, recheck->options.tree_id,
                                     recheck->options.gen, &recheck->stop);
    ssize_t written = write(recheck->event_fd, &one, sizeof(one));
    (void)written; /* a counter of 0 takes it */
    return NULL;
}

static void on_end(void *owner, int fd, uint32_t events)
{
    struct hr_recheck *recheck = owner;
    uint64_t count;

    (void)events;
    if (read(fd, &count, sizeof(count)) == (ssize_t)sizeof(count)) {
        recheck->options.done(recheck->options.owner, recheck->error);
    }
}

int hr_recheck_start(const struct hr_recheck_options *options, struct hr_recheck **ret)
{
    struct hr_recheck *recheck = calloc(1, sizeof(*recheck));
    if (recheck == NULL) {
        return -ENOMEM;
    }
    recheck->options = *options;
    recheck->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = recheck->event_fd < 0 ? -errno : 0;
    if (rc < 0) {
        goto free_it;
    }
    rc = hr_loop_watch(options->loop, recheck->event_fd, EPOLLIN, on_end, recheck);
    if (rc < 0) {
        goto close_it;
    }
    rc = hr_thread_start(&recheck->thread, NULL, thread_main, recheck);
    if (rc < 0) {
        goto unwatch;
    }
    *ret = recheck;
    return 0;
unwatch:
    hr_loop_unwatch(options->loop, recheck->event_fd);
close_it:
    (void)close(recheck->event_fd);
free_it:
    free(recheck);
    return rc;
}

void hr_recheck_free(struct hr_recheck *recheck)
{
    if (recheck == NULL) {
        return;
    }
    atomic_store(&recheck->stop, true);
    (void)pthread_join(recheck->thread, NULL);
    hr_loop_unwatch(recheck->options.loop, recheck->event_fd);
    (void)close(recheck->event_fd);
    free(recheck);
}
