#include "fetch/net/task.h"

#include <errno.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fetch/base/thread.h"

static void *thread_main(void *owner)
{
    struct hr_task *task = owner;
    uint64_t one = 1;

    (void)pthread_setname_np(pthread_self(), task->name);
    task->work(task->owner);
    ssize_t written = write(task->event_fd, &one, sizeof(one));
    (void)written; /* a counter of 0 takes it */
    return NULL;
}

static void on_end(void *owner, int fd, uint32_t events)
{
    struct hr_task *task = owner;
    uint64_t count;

    (void)events;
    if (read(fd, &count, sizeof(count)) == (ssize_t)sizeof(count)) {
        task->done(task->owner);
    }
}

int hr_task_start(struct hr_task *task)
{
    task->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (task->event_fd < 0) {
        return -errno;
    }
    int rc = hr_loop_watch(task->loop, task->event_fd, EPOLLIN, on_end, task);
    if (rc == 0) {
        rc = hr_thread_start(&task->thread, NULL, thread_main, task);
        if (rc < 0) {
            hr_loop_unwatch(task->loop, task->event_fd);
        }
    }
    if (rc < 0) {
        (void)close(task->event_fd);
    }
    return rc;
}

void hr_task_end(struct hr_task *task)
{
    (void)pthread_join(task->thread, NULL);
    hr_loop_unwatch(task->loop, task->event_fd);
    (void)close(task->event_fd);
}
