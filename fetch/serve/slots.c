#include "fetch/serve/slots.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fetch/base/clock.h"

#define HR_BELL_SLICE_MS 500 /* the bell thread looks up so often whether it shall end */

struct hr_intake {
    struct hr_loop *loop;
    struct hr_slots *slots;
    struct hr_plan *plan;
    struct hr_cache *cache;
    pthread_t bell;
    int event_fd;
    _Atomic bool stop;
    struct hr_intake_stats stats;
    uint64_t taken_before;
    struct hr_waits *waits; /* NULL: nobody looks */
};

static void *bell_main(void *owner)
{
    struct hr_intake *intake = owner;
    struct hr_slots *slots = intake->slots;
    uint32_t heard = 0;
    while (!atomic_load(&intake->stop)) {
        atomic_store(&slots->sleeping, 1);
        uint32_t now = atomic_load(&slots->doorbell);
        if (now == heard) {
            struct timespec slice = {.tv_nsec = HR_BELL_SLICE_MS * 1000000L};
            syscall(SYS_futex, &slots->doorbell, FUTEX_WAIT, heard, &slice, NULL, 0);
            now = atomic_load(&slots->doorbell);
        }
        atomic_store(&slots->sleeping, 0);
        if (now != heard) {
            heard = now;
            uint64_t one = 1;
            ssize_t written = write(intake->event_fd, &one, sizeof one);
            (void)written; /* full: the loop is about to look anyway */
        }
    }
    return NULL;
}

static void announce(struct hr_intake *intake, const struct hr_slot *slot)
{
    uint32_t indices[HR_KEY_MAX / sizeof(uint32_t)];
    memcpy(indices, slot->path, slot->path_len);
    struct hr_announcement part = {
        .context = slot->context,
        .stream = slot->map_hash,
        .batch = slot->entry,
        .part = slot->gen,
        .parts = slot->ticket,
        .indices = indices,
        .count = slot->path_len / (uint32_t)sizeof(uint32_t),
    };
    hr_plan_announce(intake->plan, &part);
}

static void ask_bytes(struct hr_intake *intake, const struct hr_slot *slot)
{
    struct hr_asker asker = hr_waits_asker(intake->waits, intake->plan, slot->ticket);
    struct hr_segment_ask ask;
    struct hr_reader reader = {.context = slot->context,
                               .tree = UINT32_MAX,
                               .pid = slot->pid,
                               .tid = slot->tid,
                               .hint = hr_slot_hint(slot)};
    if (slot->path_len != sizeof ask) {
        struct hr_answer answer = {.error = -EINVAL};
        asker.fn(asker.owner, asker.ticket, &answer);
        return;
    }
    memcpy(&ask, slot->path, sizeof ask);
    hr_plan_segment(intake->plan, &reader, &ask, slot->op == HR_OP_WHOLE, &asker);
}

static void ask_by_ticket(struct hr_intake *intake, const struct hr_slot *slot)
{
    if (slot->op == HR_OP_SEGMENT || slot->op == HR_OP_WHOLE) {
        ask_bytes(intake, slot);
        return;
    }
    struct hr_asker asker = hr_waits_asker(intake->waits, intake->plan, slot->ticket);
    if (slot->op == HR_OP_STANDIN) {
        struct hr_answer answer = {
            .error = hr_cache_standin(intake->cache, slot->map_hash, slot->path, slot->path_len),
            .kind = HR_KIND_DIR,
        };
        asker.fn(asker.owner, asker.ticket, &answer);
        return;
    }
    hr_plan_ask(intake->plan, (enum hr_op)slot->op, slot->tree, slot->path, slot->path_len, &asker);
}

static void handle(struct hr_intake *intake, const struct hr_slot *slot)
{
    bool on_its_way = true; /* what has a ticket and was answered at once is no wait any more */
    if (slot->op == HR_OP_ANNOUNCE) {
        announce(intake, slot);
        return;
    }
    hr_waits_begin(intake->waits, slot);
    if (slot->op == HR_OP_FETCH) {
        hr_lookahead_opened(intake->plan, slot->context, slot->tree, slot->gen, slot->entry);
        on_its_way = hr_plan_fetch(intake->plan, slot->tree, slot->gen, slot->entry);
    } else {
        ask_by_ticket(intake, slot);
    }
    hr_waits_begun(intake->waits, slot, on_its_way);
}

static void take(struct hr_intake *intake, unsigned number)
{
    struct hr_slots *slots = intake->slots;
    struct hr_slot copy;
    memcpy(&copy, &slots->slots[number], sizeof copy);
    atomic_store_explicit(&slots->claims[number], 0, memory_order_release);
    if (copy.op == HR_OP_NONE || copy.op >= HR_OP_COUNT || copy.path_len > HR_KEY_MAX ||
        copy.checksum != hr_slot_checksum(&copy, copy.path_len) ||
        (copy.op != HR_OP_FETCH && copy.ticket == 0)) {
        intake->stats.torn++;
        return;
    }
    intake->stats.taken++;
    handle(intake, &copy);
}

static void look(void *owner, int fd, uint32_t events)
{
    struct hr_intake *intake = owner;
    uint64_t count;
    (void)events;
    ssize_t got = read(fd, &count, sizeof count);
    (void)got;
    for (unsigned i = 0; i < HR_SLOTS; i++) {
        uint64_t claim = atomic_load_explicit(&intake->slots->claims[i], memory_order_acquire);
        if (HR_CLAIM_STATE(claim) == HR_CLAIM_FULL) {
            take(intake, i);
        }
    }
}

int hr_intake_start(struct hr_loop *loop, const struct hr_shm *shm, struct hr_plan *plan,
                    struct hr_cache *cache, struct hr_intake **ret)
{
    struct hr_intake *intake = calloc(1, sizeof *intake);
    if (!intake) {
        return -ENOMEM;
    }
    intake->loop = loop;
    intake->slots = shm->slots;
    intake->plan = plan;
    intake->cache = cache;
    intake->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = intake->event_fd < 0 ? -errno : hr_loop_watch(loop, intake->event_fd, EPOLLIN, look, intake);
    if (error == 0) {
        error = -pthread_create(&intake->bell, NULL, bell_main, intake);
    }
    if (error < 0) {
        if (intake->event_fd >= 0) {
            hr_loop_unwatch(loop, intake->event_fd);
            close(intake->event_fd);
        }
        free(intake);
        return error;
    }
    *ret = intake;
    return 0;
}

void hr_intake_watch(struct hr_intake *intake, struct hr_waits *waits)
{
    intake->waits = waits;
}

/* A client may have written any time: one far in the future counts as old as well. */
static bool is_stale(uint64_t claim)
{
    uint32_t age_ms = (uint32_t)hr_clock_ms() - (uint32_t)(claim >> 32);
    return age_ms > HR_CLAIM_STALE_MS && age_ms < UINT32_MAX - HR_CLAIM_STALE_MS;
}

bool hr_intake_tick(struct hr_intake *intake)
{
    for (unsigned i = 0; i < HR_SLOTS; i++) {
        uint64_t claim = atomic_load_explicit(&intake->slots->claims[i], memory_order_acquire);
        if (HR_CLAIM_STATE(claim) == HR_CLAIM_FULL) {
            take(intake, i); /* its owner died between filling and ringing */
        } else if (claim != 0 && is_stale(claim) &&
                   atomic_compare_exchange_strong(&intake->slots->claims[i], &claim, 0)) {
            intake->stats.reclaimed++;
        }
    }
    bool came = intake->stats.taken != intake->taken_before;
    intake->taken_before = intake->stats.taken;
    return came;
}

void hr_intake_stats(const struct hr_intake *intake, struct hr_intake_stats *ret)
{
    *ret = intake->stats;
}

void hr_intake_stop(struct hr_intake *intake)
{
    if (!intake) {
        return;
    }
    atomic_store(&intake->stop, true);
    atomic_fetch_add(&intake->slots->doorbell, 1);
    syscall(SYS_futex, &intake->slots->doorbell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    pthread_join(intake->bell, NULL);
    hr_loop_unwatch(intake->loop, intake->event_fd);
    close(intake->event_fd);
    free(intake);
}
