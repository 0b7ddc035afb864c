#include "fetch/serve/watch.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434 /* Linux 5.3; the same on every architecture */
#endif

static void readable(void *owner, int fd, uint32_t events)
{
    struct hr_watch *watch = owner;
    (void)fd, (void)events;
    hr_watch_end(watch);
    watch->ended(watch->owner);
}

int hr_watch_begin(struct hr_watch *watch, struct hr_loop *loop, uint32_t pid, void (*ended)(void *owner),
                   void *owner)
{
    *watch = (struct hr_watch){.loop = loop, .fd = -1, .ended = ended, .owner = owner};
    int fd = pid ? (int)syscall(SYS_pidfd_open, (pid_t)pid, 0u) : -1;
    if (fd < 0) {
        return pid ? -errno : -ESRCH;
    }
    int error = hr_loop_watch(loop, fd, EPOLLIN, readable, watch);
    if (error < 0) {
        close(fd);
        return error;
    }
    watch->fd = fd;
    return 0;
}

void hr_watch_end(struct hr_watch *watch)
{
    if (watch->fd >= 0) {
        hr_loop_unwatch(watch->loop, watch->fd);
        close(watch->fd);
        watch->fd = -1;
    }
}

bool hr_watch_is_over(const struct hr_watch *watch)
{
    struct pollfd poll_fd = {.fd = watch->fd, .events = POLLIN};
    return watch->fd < 0 || poll(&poll_fd, 1, 0) > 0;
}
