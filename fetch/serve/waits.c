#include "fetch/serve/waits_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "fetch/base/clock.h"

#define HR_WAITS_MAX 4096 /* threads that wait at a time; more are not noted */
/* Three times what clients ask again after: this thread does not wait any more. */
#define HR_WAIT_QUIET_MS 3000

const char *hr_wait_reason_name(enum hr_wait_reason reason)
{
    static const char *const names[HR_WAIT_REASONS] = {
        [HR_WAIT_DEMAND] = "demand",   [HR_WAIT_LATE] = "late",           [HR_WAIT_SEGMENT] = "segment",
        [HR_WAIT_LISTING] = "listing", [HR_WAIT_NAME] = "name",           [HR_WAIT_ROOM] = "room",
        [HR_WAIT_RETRY] = "retry",     [HR_WAIT_THROTTLED] = "throttled",
    };
    return names[reason];
}

static unsigned thread_bucket(uint32_t context, uint32_t pid, uint32_t tid)
{
    return (unsigned)hr_mix64((uint64_t)pid << 32 | (tid ^ context << 22)) & (HR_WAIT_BUCKETS - 1);
}

static unsigned entry_bucket(uint32_t tree, uint32_t entry)
{
    return (unsigned)hr_mix64((uint64_t)tree << 32 | entry) & (HR_WAIT_BUCKETS - 1);
}

static unsigned target_bucket(const struct wait *wait)
{
    return wait->op == HR_OP_FETCH ? entry_bucket(wait->tree, wait->entry)
                                   : entry_bucket(UINT32_MAX, wait->ticket);
}

static enum hr_wait_reason reason_of(uint32_t op, struct hr_hindrance told)
{
    if (told.throttled || told.retried || told.no_room) {
        return told.throttled ? HR_WAIT_THROTTLED : told.retried ? HR_WAIT_RETRY : HR_WAIT_ROOM;
    }
    switch (op) {
    case HR_OP_LIST:
    case HR_OP_DIR:
        return HR_WAIT_LISTING;
    case HR_OP_LOOK:
        return HR_WAIT_NAME;
    case HR_OP_SEGMENT:
    case HR_OP_WHOLE:
        return HR_WAIT_SEGMENT;
    default:
        return told.foreseen ? HR_WAIT_LATE : HR_WAIT_DEMAND;
    }
}

static void end(struct hr_waits *waits, struct wait *wait, int64_t now_us)
{
    DL_DELETE2(waits->by_thread[thread_bucket(wait->context, wait->pid, wait->tid)], wait, thread_prev,
               thread_next);
    DL_DELETE(waits->by_target[target_bucket(wait)], wait);
    waits->count--;
    if (wait->begun) {
        uint64_t us = now_us > wait->since_us ? (uint64_t)(now_us - wait->since_us) : 0;
        struct hr_wait_ended ended = {.context = wait->context,
                                      .pid = wait->pid,
                                      .reason = reason_of(wait->op, hr_plan_told(waits->plan)),
                                      .us = us};
        struct hr_wait_sum *sum = &waits->sums[ended.reason];
        sum->count++;
        sum->us += us;
        sum->max_us = us > sum->max_us ? us : sum->max_us;
        if (waits->ended) {
            waits->ended(waits->owner, &ended);
        }
    }
    free(wait->path);
    free(wait);
}

/* An entry's state word has changed: whoever waits for it wakes. */
static void changed(void *owner, uint32_t tree, uint32_t entry)
{
    struct hr_waits *waits = owner;
    struct wait *wait, *next;
    if (waits->count == 0) {
        return;
    }
    DL_FOREACH_SAFE(waits->by_target[entry_bucket(tree, entry)], wait, next)
    {
        if (wait->op == HR_OP_FETCH && wait->tree == tree && wait->entry == entry) {
            end(waits, wait, hr_clock_us());
        }
    }
}

int hr_waits_new(struct hr_plan *plan, void (*ended)(void *owner, const struct hr_wait_ended *wait),
                 void *owner, struct hr_waits **ret)
{
    struct hr_waits *waits = calloc(1, sizeof *waits);
    if (!waits) {
        return -ENOMEM;
    }
    waits->plan = plan;
    waits->ended = ended;
    waits->owner = owner;
    hr_plan_on_change(plan, changed, waits);
    *ret = waits;
    return 0;
}

void hr_waits_free(struct hr_waits *waits)
{
    for (unsigned i = 0; waits && i < HR_WAIT_BUCKETS; i++) {
        struct wait *wait, *next;
        DL_FOREACH_SAFE(waits->by_target[i], wait, next)
        {
            free(wait->path);
            free(wait);
        }
    }
    free(waits);
}

/* ---- from slots ---- */

static struct wait *find_thread(struct hr_waits *waits, const struct hr_slot *slot)
{
    struct wait *wait;
    DL_FOREACH2(waits->by_thread[thread_bucket(slot->context, slot->pid, slot->tid)], wait, thread_next)
    {
        if (wait->context == slot->context && wait->pid == slot->pid && wait->tid == slot->tid) {
            return wait;
        }
    }
    return NULL;
}

static bool is_waited_for(const struct hr_slot *slot)
{
    bool hint = hr_slot_hint(slot) != HR_HINT_NONE;
    return slot->op != HR_OP_ANNOUNCE && slot->op != HR_OP_STANDIN && !hint;
}

static bool asks_again(const struct wait *wait, const struct hr_slot *slot)
{
    return wait->op == slot->op && wait->ticket == slot->ticket && wait->tree == slot->tree &&
           wait->gen == slot->gen && wait->entry == slot->entry;
}

static struct wait *new_wait(const struct hr_slot *slot)
{
    struct wait *wait = calloc(1, sizeof *wait);
    if (!wait) {
        return NULL;
    }
    wait->context = slot->context;
    wait->pid = slot->pid;
    wait->tid = slot->tid;
    wait->op = slot->op;
    wait->tree = slot->tree;
    wait->gen = slot->gen;
    wait->entry = slot->entry;
    wait->ticket = slot->ticket;
    wait->since_us = hr_clock_us();
    wait->asked_ms = hr_clock_ms();
    bool by_bytes = slot->op == HR_OP_SEGMENT || slot->op == HR_OP_WHOLE;
    if (by_bytes && slot->path_len == sizeof wait->ask) {
        memcpy(&wait->ask, slot->path, sizeof wait->ask);
    } else if (!by_bytes && slot->op != HR_OP_FETCH) {
        wait->path_len = slot->path_len;
        wait->path = malloc(slot->path_len + 1);
        if (!wait->path) {
            free(wait);
            return NULL;
        }
        memcpy(wait->path, slot->path, slot->path_len);
    }
    return wait;
}

void hr_waits_begin(struct hr_waits *waits, const struct hr_slot *slot)
{
    if (!waits || !is_waited_for(slot)) {
        return;
    }
    struct wait *wait = find_thread(waits, slot);
    if (wait && asks_again(wait, slot)) {
        wait->asked_ms = hr_clock_ms();
        return;
    }
    if (wait) { /* a thread waits for one thing at a time */
        end(waits, wait, hr_clock_us());
    }
    wait = waits->count < HR_WAITS_MAX ? new_wait(slot) : NULL;
    if (wait) {
        DL_APPEND2(waits->by_thread[thread_bucket(wait->context, wait->pid, wait->tid)], wait, thread_prev,
                   thread_next);
        DL_APPEND(waits->by_target[target_bucket(wait)], wait);
        waits->count++;
    }
}

void hr_waits_begun(struct hr_waits *waits, const struct hr_slot *slot, bool on_its_way)
{
    struct wait *wait = waits && is_waited_for(slot) ? find_thread(waits, slot) : NULL;
    if (wait && asks_again(wait, slot)) {
        wait->begun |= on_its_way;
        if (!on_its_way) {
            end(waits, wait, hr_clock_us());
        }
    }
}

static void answered(void *owner, uint32_t ticket, const struct hr_answer *answer)
{
    struct hr_waits *waits = owner;
    struct wait *wait, *next;
    DL_FOREACH_SAFE(waits->by_target[entry_bucket(UINT32_MAX, ticket)], wait, next)
    {
        if (wait->op != HR_OP_FETCH && wait->ticket == ticket) {
            end(waits, wait, hr_clock_us());
        }
    }
    struct hr_asker ring = hr_plan_ring_asker(waits->plan, ticket);
    ring.fn(ring.owner, ring.ticket, answer);
}

struct hr_asker hr_waits_asker(struct hr_waits *waits, struct hr_plan *plan, uint32_t ticket)
{
    return waits ? (struct hr_asker){.fn = answered, .owner = waits, .ticket = ticket}
                 : hr_plan_ring_asker(plan, ticket);
}

void hr_waits_tick(struct hr_waits *waits)
{
    int64_t now_ms = hr_clock_ms();
    for (unsigned i = 0; waits->count > 0 && i < HR_WAIT_BUCKETS; i++) {
        struct wait *wait, *next;
        DL_FOREACH_SAFE(waits->by_target[i], wait, next)
        {
            if (now_ms - wait->asked_ms > HR_WAIT_QUIET_MS) {
                end(waits, wait, wait->asked_ms * 1000);
            }
        }
    }
}

void hr_waits_sum(const struct hr_waits *waits, struct hr_wait_sum ret[HR_WAIT_REASONS])
{
    memcpy(ret, waits->sums, sizeof waits->sums);
}
