#include "fetch/cache/writers.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fetch/base/cleanup.h"
#include "fetch/base/thread.h"

/* Of what waits a thread leaves others their share, but not of so few. */
#define TOGETHER_LEAST 8u

struct work_list {
    struct hr_work *head;
    struct hr_work *tail;
    unsigned count;
};

struct hr_writers {
    struct hr_loop *loop;
    void (*batch_end)(void *owner);
    void *owner;
    int event_fd;         /* readable: `finished` is not empty */
    uint64_t outstanding; /* loop's: pushed, done not yet called */
    unsigned thread_count;

    pthread_mutex_t lock; /* everything below */
    pthread_cond_t more;
    struct work_list queue;
    struct work_list finished;
    bool stopping;
    pthread_t threads[];
};

static void append(struct work_list *list, struct hr_work *work)
{
    work->next = NULL;
    if (list->tail) {
        list->tail->next = work;
    } else {
        list->head = work;
    }
    list->tail = work;
    list->count++;
}

static struct hr_work *take_first(struct work_list *list)
{
    struct hr_work *work = list->head;
    list->head = work->next;
    if (!list->head) {
        list->tail = NULL;
    }
    work->next = NULL;
    list->count--;
    return work;
}

/* The first, and what may be taken together with it. */
static struct work_list take_some(struct hr_writers *writers)
{
    struct work_list some = {0};
    unsigned share = (writers->queue.count + writers->thread_count - 1) / writers->thread_count;
    unsigned most = share > TOGETHER_LEAST ? share : TOGETHER_LEAST;
    most = most < HR_WORKS_TOGETHER_MAX ? most : HR_WORKS_TOGETHER_MAX;
    do {
        append(&some, take_first(&writers->queue));
    } while (some.count < most && some.head->together && writers->queue.head &&
             writers->queue.head->together == some.head->together);
    return some;
}

static void run_some(struct hr_writers *writers, struct work_list *some)
{
    if (some->count > 1) {
        some->head->together(some->head);
    }
    while (some->head) {
        struct hr_work *work = take_first(some);
        work->run(work);
        (void)pthread_mutex_lock(&writers->lock);
        bool first = !writers->finished.head;
        append(&writers->finished, work);
        (void)pthread_mutex_unlock(&writers->lock);
        if (first) {
            uint64_t one = 1;
            (void)!write(writers->event_fd, &one, sizeof(one)); /* cannot fill: one a batch, read at each */
        }
    }
}

static void *writer_main(void *argument)
{
    struct hr_writers *writers = argument;
    (void)pthread_mutex_lock(&writers->lock);
    for (;;) {
        while (!writers->queue.head && !writers->stopping) {
            (void)pthread_cond_wait(&writers->more, &writers->lock);
        }
        if (!writers->queue.head) {
            break;
        }
        struct work_list some = take_some(writers);
        (void)pthread_mutex_unlock(&writers->lock);
        run_some(writers, &some);
        (void)pthread_mutex_lock(&writers->lock);
    }
    (void)pthread_mutex_unlock(&writers->lock);
    return NULL;
}

static void run_dones(struct hr_writers *writers)
{
    uint64_t count;
    (void)!read(writers->event_fd, &count, sizeof(count));
    (void)pthread_mutex_lock(&writers->lock);
    struct work_list batch = writers->finished;
    writers->finished = (struct work_list){0};
    (void)pthread_mutex_unlock(&writers->lock);
    if (!batch.head) {
        return;
    }
    while (batch.head) {
        struct hr_work *work = take_first(&batch);
        writers->outstanding--;
        work->done(work);
    }
    writers->batch_end(writers->owner);
}

static void on_event(void *owner, int fd, uint32_t events)
{
    (void)fd;
    (void)events;
    run_dones(owner);
}

static int start_threads(struct hr_writers *writers, unsigned threads)
{
    int r = 0;
    while (!r && writers->thread_count < threads) {
        r = hr_thread_start(&writers->threads[writers->thread_count], NULL, writer_main, writers);
        writers->thread_count += !r;
    }
    return r;
}

int hr_writers_new(unsigned threads, struct hr_loop *loop, void (*batch_end)(void *owner), void *owner,
                   struct hr_writers **ret)
{
    struct hr_writers *writers = calloc(1, sizeof(*writers) + threads * sizeof(writers->threads[0]));
    if (!writers) {
        return -ENOMEM;
    }
    writers->loop = loop;
    writers->batch_end = batch_end;
    writers->owner = owner;
    (void)pthread_mutex_init(&writers->lock, NULL);
    (void)pthread_cond_init(&writers->more, NULL);
    writers->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int r =
        writers->event_fd < 0 ? -errno : hr_loop_watch(loop, writers->event_fd, EPOLLIN, on_event, writers);
    if (r < 0) {
        hr_close_p(&writers->event_fd);
        free(writers);
        return r;
    }
    r = start_threads(writers, threads);
    if (r < 0) {
        hr_writers_free(writers);
        return r;
    }
    *ret = writers;
    return 0;
}

void hr_writers_push(struct hr_writers *writers, struct hr_work *work)
{
    writers->outstanding++;
    (void)pthread_mutex_lock(&writers->lock);
    append(&writers->queue, work);
    (void)pthread_mutex_unlock(&writers->lock);
    (void)pthread_cond_signal(&writers->more); /* who wakes finds the lock free */
}

void hr_writers_drain(struct hr_writers *writers)
{
    while (writers->outstanding) {
        struct pollfd event = {.fd = writers->event_fd, .events = POLLIN};
        (void)poll(&event, 1, -1);
        run_dones(writers);
    }
}

void hr_writers_free(struct hr_writers *writers)
{
    if (!writers) {
        return;
    }
    hr_writers_drain(writers);
    (void)pthread_mutex_lock(&writers->lock);
    writers->stopping = true;
    (void)pthread_cond_broadcast(&writers->more);
    (void)pthread_mutex_unlock(&writers->lock);
    for (unsigned i = 0; i < writers->thread_count; i++) {
        (void)pthread_join(writers->threads[i], NULL);
    }
    hr_loop_unwatch(writers->loop, writers->event_fd);
    (void)close(writers->event_fd);
    (void)pthread_mutex_destroy(&writers->lock);
    (void)pthread_cond_destroy(&writers->more);
    free(writers);
}
