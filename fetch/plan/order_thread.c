#include "fetch/plan/order_thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fetch/base/thread.h"

#define THREADS_MAX 16     /* of idle priority: five seconds for all with the widest vectors */
#define IDLE_CORES_MIN 8   /* order_search=auto leaves smaller machines alone */
#define STACK_BYTES 262144 /* a sieve's blocks and a prefix, 60 KB */

/* Python's and numpy's shuffles, for each of the three: half a second, or two where nobody counts them
 * against the trainer (4,000 objects: 16,384 or 65,536 seeds). */
#define STEPS_QUOTA (1ull << 26)
#define STEPS_MOST (1ull << 28)

enum job_state { JOB_FREE, JOB_RUNS, JOB_CANCELLED };

struct job {
    enum job_state state;
    atomic_bool given_up; /* its slices need not go on */
    bool makes;           /* no search: orders are to be made, and nobody does yet */
    struct hr_orders orders;
    uint64_t id;
    struct hr_order_search search;
    uint32_t *permutation;
};

struct hr_order_searcher {
    enum hr_order_mode mode;
    bool idle;
    int event_fd;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t wake;
    struct job jobs[HR_ORDER_JOBS_MAX];
    bool stop;
    pthread_t threads[1 + THREADS_MAX]; /* the first: likely candidates, usual priority */
    unsigned thread_count;
};

int hr_order_searcher_new(enum hr_order_mode mode, bool idle, struct hr_order_searcher **ret)
{
    struct hr_order_searcher *searcher = calloc(1, sizeof *searcher);
    if (!searcher) {
        return -ENOMEM;
    }
    searcher->mode = mode;
    searcher->idle = idle;
    searcher->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (searcher->event_fd < 0) {
        int error = -errno;
        free(searcher);
        return error;
    }
    pthread_mutex_init(&searcher->lock, NULL);
    pthread_cond_init(&searcher->wake, NULL);
    *ret = searcher;
    return 0;
}

void hr_order_searcher_free(struct hr_order_searcher *searcher)
{
    if (!searcher) {
        return;
    }
    pthread_mutex_lock(&searcher->lock);
    searcher->stop = true;
    for (unsigned i = 0; i < HR_ORDER_JOBS_MAX; i++) {
        atomic_store(&searcher->jobs[i].given_up, true);
    }
    pthread_cond_broadcast(&searcher->wake);
    pthread_mutex_unlock(&searcher->lock);
    for (unsigned i = 0; i < searcher->thread_count; i++) {
        pthread_join(searcher->threads[i], NULL);
    }
    for (unsigned i = 0; i < HR_ORDER_JOBS_MAX; i++) {
        free(searcher->jobs[i].permutation);
    }
    pthread_cond_destroy(&searcher->wake);
    pthread_mutex_destroy(&searcher->lock);
    close(searcher->event_fd);
    free(searcher);
}

int hr_order_searcher_fd(const struct hr_order_searcher *searcher)
{
    return searcher->event_fd;
}

/* The one slice of a job that makes an order. */
static bool claim_making(struct job *job, struct hr_order_slice *ret)
{
    bool claimed = job->makes;
    *ret = (struct hr_order_slice){.phase = HR_ORDER_PHASES};
    job->makes = false;
    return claimed;
}

/* A slice of the kind that this thread does. The lock is held. */
static struct job *claim(struct hr_order_searcher *searcher, bool all, struct hr_order_slice *ret)
{
    for (unsigned i = 0; i < HR_ORDER_JOBS_MAX; i++) {
        struct job *job = &searcher->jobs[i];
        bool late = !job->makes && job->search.phase >= HR_ORDER_LATE;
        if (job->state == JOB_RUNS && late == all &&
            (claim_making(job, ret) || hr_order_search_claim(&job->search, ret))) {
            return job;
        }
    }
    return NULL;
}

static void end(struct job *job)
{
    free(job->permutation);
    job->permutation = NULL;
    job->state = JOB_FREE;
}

static void say(struct hr_order_searcher *searcher)
{
    uint64_t one = 1;
    ssize_t written = write(searcher->event_fd, &one, sizeof one);
    (void)written; /* full: it is readable */
}

/* The searcher's lock is held. True: there is a result. */
static bool finish(struct job *job, const struct hr_order_slice *slice, const struct hr_order *found,
                   uint32_t *permutation, uint64_t tried)
{
    if (found && !job->search.found) {
        job->permutation = permutation;
    } else {
        free(permutation);
    }
    hr_order_search_finish(&job->search, slice, found, tried);
    if (job->state == JOB_CANCELLED && job->search.running == 0) {
        end(job);
    }
    return job->state == JOB_RUNS && hr_order_search_over(&job->search);
}

static uint32_t *make(const struct hr_orders *orders)
{
    size_t n = orders->orders[0].n;
    uint32_t *permutations = malloc(n * orders->count * sizeof *permutations);
    for (unsigned i = 0; permutations && i < orders->count; i++) {
        hr_order_make(&orders->orders[i], permutations + i * n);
    }
    return permutations;
}

/* Wakes nobody while it holds the lock: who wakes takes the processor from a thread of idle priority, and
 * would wait for the lock until that one has its turn again, seconds later where all cores are busy. */
static void run(struct hr_order_searcher *searcher, struct job *job, const struct hr_order_slice *slice,
                enum hr_order_width width)
{
    struct hr_orders orders = {.count = 1};
    uint64_t tried = 0;
    bool found = true;
    if (slice->phase == HR_ORDER_PHASES) {
        orders = job->orders; /* nobody else has a slice of this job */
    } else {
        found = hr_order_slice_run(slice, &job->search.ask, width, &orders.orders[0], &tried);
    }
    uint32_t *permutation = found ? make(&orders) : NULL;
    pthread_mutex_lock(&searcher->lock);
    bool over = finish(job, slice, found ? &orders.orders[0] : NULL, permutation, tried);
    pthread_mutex_unlock(&searcher->lock);
    if (over) {
        say(searcher);
    }
    pthread_cond_broadcast(&searcher->wake); /* the next phase may be the other threads' */
}

static void work(struct hr_order_searcher *searcher, bool all)
{
    enum hr_order_width width = hr_order_widest();
    pthread_mutex_lock(&searcher->lock);
    while (!searcher->stop) {
        struct hr_order_slice slice;
        struct job *job = claim(searcher, all, &slice);
        if (!job) {
            pthread_cond_wait(&searcher->wake, &searcher->lock);
            continue;
        }
        pthread_mutex_unlock(&searcher->lock);
        run(searcher, job, &slice, width);
        pthread_mutex_lock(&searcher->lock);
    }
    pthread_mutex_unlock(&searcher->lock);
}

static void *likely_main(void *owner)
{
    (void)pthread_setname_np(pthread_self(), "hr-order");
    work(owner, false);
    return NULL;
}

static void *all_main(void *owner)
{
    (void)pthread_setname_np(pthread_self(), "hr-order-all");
    hr_thread_idle();
    work(owner, true);
    return NULL;
}

static int start(struct hr_order_searcher *searcher, void *(*thread_main)(void *owner))
{
    pthread_attr_t small;
    (void)pthread_attr_init(&small);
    (void)pthread_attr_setstacksize(&small, STACK_BYTES);
    int error = hr_thread_start(&searcher->threads[searcher->thread_count], &small, thread_main, searcher);
    (void)pthread_attr_destroy(&small);
    searcher->thread_count += error == 0;
    return error;
}

/* What the machine has room for. */
struct room {
    unsigned threads; /* of idle priority */
    bool all;         /* all seeds of torch... */
    uint64_t steps;   /* ...and so much of the others */
};

static struct room look_for_room(const struct hr_order_searcher *searcher)
{
    unsigned idle = hr_order_idle_cores(), most = idle < THREADS_MAX ? idle : THREADS_MAX;
    if (searcher->mode == HR_ORDER_MODE_FULL) {
        return (struct room){.threads = most > 0 ? most : 1, .all = true, .steps = STEPS_MOST};
    }
    bool quota = hr_order_has_quota("/proc/self/cgroup", "/sys/fs/cgroup");
    bool all = idle >= IDLE_CORES_MIN && !quota;
    return (struct room){.threads = all        ? most
                                    : idle > 0 ? 1
                                               : 0,
                         .all = all,
                         .steps = quota ? STEPS_QUOTA : STEPS_MOST};
}

/* The lock is held. NULL: all are at work. */
static struct job *free_job(struct hr_order_searcher *searcher)
{
    unsigned i = 0;
    while (i < HR_ORDER_JOBS_MAX && searcher->jobs[i].state != JOB_FREE) {
        i++;
    }
    return i < HR_ORDER_JOBS_MAX ? &searcher->jobs[i] : NULL;
}

int hr_order_searcher_make(struct hr_order_searcher *searcher, uint64_t id, const struct hr_orders *orders)
{
    if (searcher->mode == HR_ORDER_MODE_OFF) {
        return -EOPNOTSUPP;
    }
    pthread_mutex_lock(&searcher->lock);
    struct job *job = free_job(searcher);
    int error = job ? 0 : -EBUSY;
    if (error == 0 && searcher->thread_count == 0) {
        error = start(searcher, likely_main);
    }
    if (error == 0) {
        job->state = JOB_RUNS;
        job->id = id;
        job->makes = true;
        atomic_store(&job->given_up, false);
        job->search = (struct hr_order_search){.phase = HR_ORDER_PHASES, .running = 1};
        job->orders = *orders;
        pthread_cond_broadcast(&searcher->wake);
    }
    pthread_mutex_unlock(&searcher->lock);
    return error;
}

int hr_order_searcher_ask(struct hr_order_searcher *searcher, uint64_t id, const struct hr_order_ask *ask)
{
    if (searcher->mode == HR_ORDER_MODE_OFF) {
        return -EOPNOTSUPP;
    }
    struct hr_order_ask whole = *ask;
    struct room room = ask->deep && searcher->idle ? look_for_room(searcher) : (struct room){0};
    pthread_mutex_lock(&searcher->lock);
    struct job *job = free_job(searcher);
    int error = job ? 0 : -EBUSY;
    if (error == 0 && searcher->thread_count == 0) {
        error = start(searcher, likely_main);
    }
    while (error == 0 && searcher->thread_count < 1 + room.threads && start(searcher, all_main) == 0) {
    }
    if (error == 0) {
        job->state = JOB_RUNS;
        job->id = id;
        bool idle = room.threads > 0 && searcher->thread_count > 1;
        whole.all = idle && room.all;
        whole.steps = idle ? room.steps : 0;
        atomic_store(&job->given_up, false);
        whole.given_up = &job->given_up;
        hr_order_search_begin(&job->search, &whole);
        if (hr_order_search_over(&job->search)) {
            say(searcher);
        }
        pthread_cond_broadcast(&searcher->wake);
    }
    pthread_mutex_unlock(&searcher->lock);
    return error;
}

void hr_order_searcher_cancel(struct hr_order_searcher *searcher, uint64_t id)
{
    pthread_mutex_lock(&searcher->lock);
    for (unsigned i = 0; i < HR_ORDER_JOBS_MAX; i++) {
        struct job *job = &searcher->jobs[i];
        if (job->state == JOB_RUNS && job->id == id) {
            job->state = JOB_CANCELLED;
            atomic_store(&job->given_up, true);
            job->search.running -= job->makes;
            job->makes = false;
            if (job->search.running == 0) {
                end(job);
            }
        }
    }
    pthread_mutex_unlock(&searcher->lock);
}

bool hr_order_searcher_take(struct hr_order_searcher *searcher, struct hr_order_result *ret)
{
    uint64_t count;
    bool taken = false;
    ssize_t got = read(searcher->event_fd, &count, sizeof count);
    (void)got; /* nothing to read: nothing new */
    pthread_mutex_lock(&searcher->lock);
    for (unsigned i = 0; i < HR_ORDER_JOBS_MAX && !taken; i++) {
        struct job *job = &searcher->jobs[i];
        if (job->state == JOB_RUNS && hr_order_search_over(&job->search)) {
            *ret =
                (struct hr_order_result){.id = job->id,
                                         .found = job->search.found,
                                         .order = job->search.order,
                                         .set = job->search.where.set,
                                         .candidates = hr_order_candidates(
                                             &job->search.ask, job->search.where.phase, job->search.order.n),
                                         .permutation = job->permutation,
                                         .tried = job->search.tried};
            job->permutation = NULL;
            end(job);
            taken = true;
        }
    }
    pthread_mutex_unlock(&searcher->lock);
    return taken;
}
