/* The one queue of wants: demand before sweep, under one limit of requests in flight and one memory budget.
 */
#include "fetch/plan/inner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "fetch/base/clock.h"

/* Of the requests in flight the sweep leaves these to demand, so that a waiting program never queues behind
 * it. */
#define HR_DEMAND_SHARE 16 /* one in sixteen, at least one */

static unsigned make_id(const struct hr_plan_tree *tree, const char *path, uint32_t path_len,
                        char id[sizeof(struct hr_source_id) + 2 * HR_KEY_MAX])
{
    unsigned at = sizeof tree->asking;
    memcpy(id, &tree->asking, at);
    memcpy(id + at, tree->shared->prefix, tree->shared->prefix_len);
    at += tree->shared->prefix_len;
    memcpy(id + at, path, path_len);
    return at + path_len;
}

struct hr_want *hr_want_find(struct hr_plan_tree *tree, const char *path, uint32_t path_len)
{
    char id[sizeof(struct hr_source_id) + 2 * HR_KEY_MAX];
    unsigned id_len = make_id(tree, path, path_len, id);
    struct hr_want *want = NULL;
    HASH_FIND(hh, tree->plan->wants, id, id_len, want);
    return want;
}

const char *hr_want_key(const struct hr_want *want, uint32_t *ret_len)
{
    *ret_len = want->id_len - (unsigned)sizeof(struct hr_source_id);
    return want->id + sizeof(struct hr_source_id);
}

void hr_want_promote(struct hr_want *want, enum hr_reason reason)
{
    if (want->reason <= reason) {
        return;
    }
    if (want->state == HR_WANT_QUEUED) {
        DL_DELETE(want->plan->queue[want->reason], want);
        DL_APPEND(want->plan->queue[reason], want);
    }
    want->reason = reason;
}

struct hr_want *hr_want_add(struct hr_plan_tree *tree, const char *path, uint32_t path_len,
                            enum hr_reason reason, uint64_t size, int64_t mtime_ns, const char *etag)
{
    struct hr_plan *plan = tree->plan;
    struct hr_want *want = hr_want_find(tree, path, path_len);
    if (want) {
        hr_want_promote(want, reason);
        return want;
    }
    char id[sizeof(struct hr_source_id) + 2 * HR_KEY_MAX];
    unsigned id_len = make_id(tree, path, path_len, id);
    want = calloc(1, sizeof *want + id_len + 1);
    if (!want) {
        return NULL;
    }
    want->plan = plan;
    want->tree = tree;
    want->reason = reason;
    want->size = size;
    want->mtime_ns = mtime_ns;
    snprintf(want->etag, sizeof want->etag, "%s", etag);
    want->id_len = id_len;
    memcpy(want->id, id, id_len);
    HASH_ADD(hh, plan->wants, id, id_len, want);
    if (!want->hh.tbl) { /* out of memory: uthash left it out */
        free(want);
        return NULL;
    }
    want->state = HR_WANT_QUEUED;
    DL_APPEND(plan->queue[reason], want);
    plan->stats.queued++;
    return want;
}

void hr_want_requeue(struct hr_want *want)
{
    if (want->state != HR_WANT_QUEUED) {
        want->state = HR_WANT_QUEUED;
        DL_PREPEND(want->plan->queue[want->reason], want);
        want->plan->stats.queued++;
    }
}

void hr_want_leave_queue(struct hr_want *want)
{
    if (want->state == HR_WANT_QUEUED) {
        DL_DELETE(want->plan->queue[want->reason], want);
        want->plan->stats.queued--;
        want->state = HR_WANT_FETCHING;
    }
}

void hr_want_end(struct hr_want *want)
{
    hr_want_leave_queue(want);
    HASH_DEL(want->plan->wants, want);
    free(want);
}

static bool has_line(const struct hr_plan *plan, enum hr_reason reason)
{
    unsigned limit = plan->options.connections;
    unsigned share = limit / HR_DEMAND_SHARE ? limit / HR_DEMAND_SHARE : 1;
    unsigned in_flight = plan->stats.in_flight;
    return reason == HR_REASON_DEMAND ? in_flight < limit : in_flight + share < limit || in_flight == 0;
}

static struct hr_want *next_want(struct hr_plan *plan)
{
    if (plan->queue[HR_REASON_DEMAND]) {
        return has_line(plan, HR_REASON_DEMAND) ? plan->queue[HR_REASON_DEMAND] : NULL;
    }
    if (!has_line(plan, HR_REASON_SWEEP)) {
        return NULL;
    }
    if (plan->queue[HR_REASON_LOOKAHEAD]) {
        return plan->queue[HR_REASON_LOOKAHEAD];
    }
    return plan->queue[HR_REASON_SWEEP] ? plan->queue[HR_REASON_SWEEP] : hr_sweep_next(plan);
}

/* One that has its place in the cache: when everybody else waits for room, it must get on, or the room which
 * it holds is never given back. Queues are as long as programs wait, and only large objects stay in them. */
static struct hr_want *placed_want(struct hr_plan *plan)
{
    for (unsigned reason = 0; reason < HR_REASON_COUNT; reason++) {
        struct hr_want *want;
        DL_FOREACH(plan->queue[reason], want)
        {
            if (want->put) {
                return has_line(plan, HR_REASON_DEMAND) ? want : NULL;
            }
        }
    }
    return NULL;
}

void hr_plan_pump(struct hr_plan *plan)
{
    if (plan->pumping || plan->ending) {
        return;
    }
    plan->pumping = true;
    bool no_room = false;
    for (;;) {
        struct hr_want *want = no_room ? placed_want(plan) : next_want(plan);
        if (!want) {
            break;
        }
        uint64_t cost = hr_fetch_cost(plan, want);
        if (plan->stats.memory_bytes > 0 && plan->stats.memory_bytes + cost > plan->options.memory_bytes) {
            break; /* bodies on their way to the cache make room and pump again */
        }
        int error = hr_fetch_next(want);
        if (error == -EAGAIN) {
            no_room = true; /* what arrives pumps again */
        }
        if (error == 0 && hr_fetch_all_asked(want)) {
            hr_want_leave_queue(want);
        } /* on failure it has left the queue, or is gone */
    }
    plan->pumping = false;
}
