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
#include "fetch/base/clock.h"
#include "fetch/base/thread.h"

/* Of what was taken together the others get a half when they have nothing to do, but not of so few. */
#define SHARED_LEAST 8u
/* As long as a patient one waits for others, at most: a twentieth of the time to the first byte in one
 * region. */
#define PATIENCE_MS 2

struct work_list {
    struct hr_work *head;
    struct hr_work *tail;
    unsigned count;
};

struct hr_writers {
    struct hr_loop *loop;
    void (*batch_end)(void *owner);
    void *owner;
    int event_fd;            /* readable: `finished` is not empty */
    uint64_t outstanding;    /* loop's: pushed, done not yet called */
    struct work_list pushed; /* loop's: queued when the turn ends, so that more is taken together */
    struct hr_turn_end queue_later;
    struct hr_timer patience;
    unsigned thread_count;

    pthread_mutex_t lock; /* everything below */
    pthread_cond_t more;
    struct work_list urgent; /* before the queue */
    struct work_list queue;
    struct work_list finished;
    bool told;     /* of what is finished: the event is set */
    unsigned idle; /* threads that wait for work */
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

/* False: it is not in there. */
static bool take_out(struct work_list *list, struct hr_work *work)
{
    struct hr_work *before = NULL, *at = list->head;
    while (at && at != work) {
        before = at;
        at = at->next;
    }
    if (!at) {
        return false;
    }
    *(before ? &before->next : &list->head) = work->next;
    list->tail = list->tail == work ? before : list->tail;
    list->count--;
    return true;
}

/* All of `more` behind `list`. */
static void concat(struct work_list *list, struct work_list *more)
{
    if (!more->head) {
        return;
    }
    if (list->tail) {
        list->tail->next = more->head;
    } else {
        list->head = more->head;
    }
    list->tail = more->tail;
    list->count += more->count;
    *more = (struct work_list){0};
}

/* Under the lock, as what it asks for. */
static bool has_work(const struct hr_writers *writers)
{
    return writers->urgent.head || writers->queue.head;
}

static void wake_one(struct hr_writers *writers)
{
    if (has_work(writers) && writers->idle > 0) {
        (void)pthread_cond_signal(&writers->more);
    }
}

/* The first, and what may be taken together with it. */
static struct work_list take_some(struct hr_writers *writers)
{
    struct work_list some = {0}, *from = writers->urgent.head ? &writers->urgent : &writers->queue;
    do {
        append(&some, take_first(from));
    } while (some.count < HR_WORKS_TOGETHER_MAX && some.head->kind->together && from->head &&
             from->head->kind->together == some.head->kind->together);
    return some;
}

/* What comes after `together` is done one by one: by two threads it is done sooner. */
static void share(struct hr_writers *writers, struct work_list *some)
{
    struct work_list half = {0};
    (void)pthread_mutex_lock(&writers->lock);
    if (some->count >= SHARED_LEAST && writers->idle > 0 && !writers->queue.head) {
        for (unsigned count = some->count / 2; count > 0; count--) {
            append(&half, take_first(some));
        }
        concat(&writers->queue, some);
        *some = half;
        wake_one(writers);
    }
    (void)pthread_mutex_unlock(&writers->lock);
}

/* What nobody waits for is told of together, unless that takes long. */
static void run_some(struct hr_writers *writers, struct work_list *some)
{
    if (some->count > 1) {
        some->head->kind->together(some->head);
        share(writers, some);
    }
    int64_t since_us = hr_clock_us();
    while (some->head) {
        struct hr_work *work = take_first(some);
        bool hurry = !work->patient || !some->head;
        work->kind->run(work);
        hurry = hurry || hr_clock_us() - since_us >= PATIENCE_MS * 1000;
        (void)pthread_mutex_lock(&writers->lock);
        append(&writers->finished, work);
        bool tell = hurry && !writers->told;
        writers->told = writers->told || tell;
        (void)pthread_mutex_unlock(&writers->lock);
        if (tell) {
            uint64_t one = 1;
            (void)!write(writers->event_fd, &one, sizeof(one)); /* cannot fill: one a batch, read at each */
            since_us = hr_clock_us();
        }
    }
}

static void *writer_main(void *argument)
{
    struct hr_writers *writers = argument;
    (void)pthread_setname_np(pthread_self(), "hr-write");
    (void)pthread_mutex_lock(&writers->lock);
    for (;;) {
        while (!has_work(writers) && !writers->stopping) {
            writers->idle++;
            (void)pthread_cond_wait(&writers->more, &writers->lock);
            writers->idle--;
        }
        if (!has_work(writers)) {
            break;
        }
        struct work_list some = take_some(writers);
        wake_one(writers);
        (void)pthread_mutex_unlock(&writers->lock);
        run_some(writers, &some);
        (void)pthread_mutex_lock(&writers->lock);
    }
    (void)pthread_mutex_unlock(&writers->lock);
    return NULL;
}

static void queue_pushed(void *owner)
{
    struct hr_writers *writers = owner;
    hr_loop_forget(writers->loop, &writers->queue_later);
    hr_loop_disarm(writers->loop, &writers->patience);
    (void)pthread_mutex_lock(&writers->lock);
    while (writers->pushed.head) {
        struct hr_work *work = take_first(&writers->pushed);
        append(work->urgent ? &writers->urgent : &writers->queue, work);
    }
    wake_one(writers);
    (void)pthread_mutex_unlock(&writers->lock);
}

static void run_dones(struct hr_writers *writers)
{
    uint64_t count;
    (void)!read(writers->event_fd, &count, sizeof(count));
    (void)pthread_mutex_lock(&writers->lock);
    struct work_list batch = writers->finished;
    writers->finished = (struct work_list){0};
    writers->told = false;
    (void)pthread_mutex_unlock(&writers->lock);
    if (!batch.head) {
        return;
    }
    while (batch.head) {
        struct hr_work *work = take_first(&batch);
        writers->outstanding--;
        work->kind->done(work);
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
    writers->queue_later = (struct hr_turn_end){.fn = queue_pushed, .owner = writers};
    writers->patience = (struct hr_timer)HR_TIMER_INIT(queue_pushed, writers);
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
    append(&writers->pushed, work);
    if (writers->pushed.count == HR_WORKS_TOGETHER_MAX) {
        queue_pushed(writers);
    } else if (!work->patient) {
        hr_loop_owe(writers->loop, &writers->queue_later);
    } else if (writers->patience.heap_index < 0 &&
               hr_loop_arm(writers->loop, &writers->patience, PATIENCE_MS) < 0) {
        hr_loop_owe(writers->loop, &writers->queue_later);
    }
}

void hr_writers_hurry(struct hr_writers *writers)
{
    if (writers->pushed.head) {
        hr_loop_owe(writers->loop, &writers->queue_later);
    }
}

void hr_writers_prefer(struct hr_writers *writers, struct hr_work *work)
{
    bool before = work->urgent;
    work->urgent = true;
    (void)pthread_mutex_lock(&writers->lock);
    if (!before && take_out(&writers->queue, work)) {
        append(&writers->urgent, work);
    }
    (void)pthread_mutex_unlock(&writers->lock);
}

void hr_writers_drain(struct hr_writers *writers)
{
    while (writers->outstanding) {
        queue_pushed(writers);
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
