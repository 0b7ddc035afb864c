/* Queued wants, one lane an endpoint, so that one which is slow or refuses keeps nothing of the others
 * waiting. Who is next: by reason, then by turns. */
#include "fetch/plan/inner.h"

#include <stdlib.h>
#include <utlist.h>

#include "fetch/store/width.h"

/* Of the requests in flight these are left to demand, so that a waiting program never queues behind what
 * nobody waits for. */
#define HR_DEMAND_SHARE 16 /* one in sixteen, at least one */

struct hr_lane *hr_lane_of(struct hr_plan *plan, const struct hr_store *store)
{
    const struct hr_width *width = hr_store_width(store);
    struct hr_lane *lane;
    DL_FOREACH(plan->lanes, lane)
    {
        if (lane->width == width) {
            return lane;
        }
    }
    lane = calloc(1, sizeof *lane);
    if (lane) {
        lane->width = width;
        DL_APPEND(plan->lanes, lane);
    }
    return lane;
}

void hr_lanes_free(struct hr_plan *plan)
{
    struct hr_lane *lane, *next;
    DL_FOREACH_SAFE(plan->lanes, lane, next)
    {
        free(lane);
    }
    plan->lanes = NULL;
}

static void enter_placed(struct hr_want *want)
{
    if (want->put && !want->placed) {
        DL_APPEND2(want->plan->placed, want, placed_prev, placed_next);
        want->placed = true;
    }
}

static void leave_placed(struct hr_want *want)
{
    if (want->placed) {
        DL_DELETE2(want->plan->placed, want, placed_prev, placed_next);
        want->placed = false;
    }
}

void hr_lane_append(struct hr_want *want)
{
    DL_APPEND(want->lane->queue[want->reason], want);
    enter_placed(want);
}

void hr_lane_prepend(struct hr_want *want)
{
    DL_PREPEND(want->lane->queue[want->reason], want);
    enter_placed(want);
}

void hr_lane_hurry(struct hr_want *want)
{
    struct hr_lane *lane = want->lane;
    struct hr_want **queue = &lane->queue[want->reason];
    if (want->state != HR_WANT_QUEUED || want->reason != HR_REASON_LOOKAHEAD || want == lane->first_last) {
        return;
    }
    DL_DELETE(*queue, want);
    DL_APPEND_ELEM(*queue, lane->first_last, want); /* in front of all where there is none */
    lane->first_last = want;
}

void hr_lane_near(struct hr_want *want, unsigned ahead)
{
    if (!want || want->state != HR_WANT_QUEUED || want->reason != HR_REASON_WINDOW || want->ahead <= ahead) {
        return;
    }
    struct hr_want **queue = &want->lane->queue[HR_REASON_WINDOW];
    want->ahead = ahead;
    if (want == *queue || want->prev->ahead <= ahead) {
        return;
    }
    DL_DELETE(*queue, want);
    struct hr_want *before = (*queue)->prev; /* the last one */
    while (before && before->ahead > ahead) {
        before = before == *queue ? NULL : before->prev;
    }
    DL_APPEND_ELEM(*queue, before, want);
}

void hr_lane_remove(struct hr_want *want)
{
    struct hr_lane *lane = want->lane;
    if (want == lane->first_last) {
        lane->first_last = want == lane->queue[want->reason] ? NULL : want->prev;
    }
    DL_DELETE(lane->queue[want->reason], want);
    leave_placed(want);
}

void hr_lane_placed(struct hr_want *want)
{
    if (want->state == HR_WANT_QUEUED) {
        enter_placed(want);
    }
}

/* Within `connections`, which all endpoints share. */
static bool has_line(const struct hr_plan *plan, enum hr_reason reason)
{
    unsigned limit = plan->options.connections;
    unsigned share = limit / HR_DEMAND_SHARE ? limit / HR_DEMAND_SHARE : 1;
    unsigned in_flight = plan->stats.in_flight;
    return reason == HR_REASON_DEMAND ? in_flight < limit : in_flight + share < limit || in_flight == 0;
}

struct hr_want *hr_lane_next(struct hr_plan *plan)
{
    for (unsigned reason = 0; reason < HR_REASON_COUNT; reason++) {
        bool waited_for = reason == HR_REASON_DEMAND;
        struct hr_lane *lane;
        if (!has_line(plan, (enum hr_reason)reason)) {
            return NULL; /* nor is there one for what is less urgent */
        }
        DL_FOREACH(plan->lanes, lane)
        {
            if (lane->queue[reason] && hr_width_room(lane->width, waited_for)) {
                DL_DELETE(plan->lanes, lane);
                DL_APPEND(plan->lanes, lane);
                return lane->queue[reason];
            }
        }
    }
    return hr_sweep_next(plan);
}

struct hr_want *hr_lane_next_placed(struct hr_plan *plan)
{
    struct hr_want *want;
    DL_FOREACH2(plan->placed, want, placed_next)
    {
        if (want->put && has_line(plan, HR_REASON_DEMAND) && hr_width_room(want->lane->width, true)) {
            return want;
        }
    }
    return NULL;
}
