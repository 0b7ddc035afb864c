/* The requests of one want, and its bytes on their way into the cache; outcome.c has what becomes of it.
 *
 * A small object is one GET. A whole large one is ranges of HR_PART_BYTES, each conditional on the ETag, of
 * which segments that are there save the requests. A segment is one such range, or is asked for in parts. An
 * object whose size is not known starts with one range of small_max, which usually is all of it. Where a
 * short read lies over the border of two cells, the range of the second one rides on the request for the
 * first. */
#include "fetch/plan/inner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "fetch/base/clock.h"
#include "fetch/plan/names.h"
#include "interpose/abi.h"

/* Both ranges of one request at most. Two would come side by side, which gains the time of half of it: about
 * what a request costs. */
#define HR_RIDE_BYTES (2u << 20)
#define HR_COPIES_MAX 8 /* segments that one want copies from at a time: each holds a descriptor */

static uint64_t part_bytes(const struct hr_plan *plan, const struct hr_want *want)
{
    if (want->size == HR_UNKNOWN_BYTES) {
        return plan->options.small_max_bytes < HR_PART_BYTES ? plan->options.small_max_bytes : HR_PART_BYTES;
    }
    if (want->kind == HR_WANT_OBJECT && want->next_offset == 0 &&
        want->size <= plan->options.small_max_bytes) {
        return want->size;
    }
    uint64_t left = want->size - want->next_offset,
             most = want->part_bytes ? want->part_bytes : HR_PART_BYTES;
    if (want->kind == HR_WANT_WHOLE) { /* behind a segment that was copied: to the end of its cell */
        most -= want->next_offset % HR_CELL_BYTES;
    }
    return left < most ? left : most;
}

/* The queued range right behind a queued one that ends with its cell, if one request is better for both. */
static struct hr_want *rider_of(const struct hr_want *want)
{
    uint64_t end = want->first + want->size;
    if (want->kind != HR_WANT_SEGMENT || part_bytes(want->plan, want) != want->size ||
        want->size >= HR_RIDE_BYTES || end % HR_CELL_BYTES != 0 || end >= want->object_bytes) {
        return NULL;
    }
    struct hr_want *next = hr_want_cell(want->tree, want->face_id, end);
    while (next && (next->first != end || next->state != HR_WANT_QUEUED || next->next_offset > 0 ||
                    next->tree != want->tree || next->size > HR_RIDE_BYTES - want->size)) {
        next = next->cell_next;
    }
    return next;
}

uint64_t hr_fetch_cost(const struct hr_plan *plan, const struct hr_want *want)
{
    const struct hr_want *rider = rider_of(want);
    if (want->kind == HR_WANT_WHOLE) { /* it may begin behind what is copied */
        uint64_t left = want->size - want->next_offset;
        return left < HR_PART_BYTES ? left : HR_PART_BYTES;
    }
    return part_bytes(plan, want) + (rider ? rider->size : 0); /* of an unknown size: what may come */
}

bool hr_fetch_all_asked(const struct hr_want *want)
{
    return want->next_offset >= want->size || (want->size == HR_UNKNOWN_BYTES && want->calls > 0);
}

void hr_fetch_memory(struct hr_plan *plan, int64_t bytes)
{
    plan->stats.memory_bytes = (uint64_t)((int64_t)plan->stats.memory_bytes + bytes);
    if (plan->stats.memory_bytes > plan->stats.memory_max_bytes) {
        plan->stats.memory_max_bytes = plan->stats.memory_bytes;
    }
}

void hr_fetch_again(struct hr_want *want)
{
    want->put = NULL;
    want->next_offset = 0;
    want->error = 0;
    want->learned = false;
    want->copied = false;
    hr_want_requeue(want);
    hr_plan_pump(want->plan);
}

int hr_fetch_begin_put(struct hr_want *want)
{
    bool segment = want->kind == HR_WANT_SEGMENT || want->kind == HR_WANT_FIRST;
    hr_tree_drain_all(want->plan); /* what was opened lately may go for it, what was not may not */
    struct hr_put_options options = {
        .source = want->tree->source,
        .object_dev_salt = want->tree->shared->salt,
        .object_dev = want->tree->shared->dev,
        .key = want->key,
        .key_len = want->key_len,
        .etag = want->etag,
        .size = want->size,
        .mtime_ns = want->mtime_ns,
        .kind = segment ? HR_CACHED_SEGMENT : HR_CACHED_WHOLE,
        .face_id = segment ? want->face_id : 0,
        .offset = segment ? want->first : 0,
        .guess = want->reason == HR_REASON_SWEEP || want->reason == HR_REASON_HINT,
        .awaited = want->reason == HR_REASON_DEMAND,
        .done = hr_outcome_put_done,
        .owner = want,
    };
    int error = hr_put_begin(want->plan->cache, &options, &want->put);
    if (error == 0) {
        hr_lane_placed(want);
    }
    return error;
}

static void body_written(void *owner, uint64_t bytes)
{
    struct hr_plan *plan = owner;
    hr_fetch_memory(plan, -(int64_t)bytes);
    hr_plan_pump(plan);
}

int hr_fetch_keep(struct hr_want *want, uint64_t offset, struct hr_buf *body)
{
    return hr_put_part(want->put, offset, body, body_written, want->plan);
}

/* What the call says; else what we found in its answer. */
static void describe(struct hr_want *want, const struct hr_call *call, int error)
{
    if (call->message[0]) {
        snprintf(want->message, sizeof want->message, "%s", call->message);
    } else {
        snprintf(want->message, sizeof want->message, "%s/%.*s: %s", hr_store_bucket(want->tree->store),
                 (int)(want->key_len < 160 ? want->key_len : 160), want->key,
                 error == -EIO       ? "the store does not tell the object's size"
                 : error == -EBADMSG ? "the store tells another size than it had, and the ETag is the same"
                                     : strerror(-error));
    }
}

/* A part has come back: what is next. The want may be gone afterwards. */
static void go_on(struct hr_want *want)
{
    if (want->calls == 0 && want->error < 0) {
        hr_outcome_failed(want);
    } else if (want->error == 0 && !hr_fetch_all_asked(want)) {
        hr_want_requeue(want);
    } else if (want->calls == 0 && want->error == 0) {
        hr_want_leave_queue(want);
        want->state = HR_WANT_WRITING;
        if (!want->learned) {
            hr_proof_assume(want);
        }
        hr_put_finish(want->put, &want->verify);
    }
}

/* Its bytes go into the put. 0 or -errno; *reserved_bytes is what is still set aside for it. */
static int take_body(struct hr_want *want, struct hr_call *call, struct hr_buf *body,
                     uint64_t *reserved_bytes)
{
    struct hr_plan *plan = want->plan;
    int error = 0;
    if (want->learned) {
        error = hr_proof_same(want, call);
    } else {
        error = hr_proof_learn(want, call);
        if (error == 0 && !want->put) {
            error = hr_fetch_begin_put(want);
        }
    }
    if (error < 0) {
        return error;
    }
    hr_fetch_memory(plan, (int64_t)body->len - (int64_t)*reserved_bytes);
    uint64_t begins = call->range_bytes ? call->range_first : want->first;
    error = hr_fetch_keep(want, begins > want->first ? begins - want->first : 0, body);
    *reserved_bytes = error < 0 ? body->len : 0;
    return error;
}

/* The first range of an object that nobody listed shows that it is a large one. */
static bool is_first_of_large(struct hr_want *want, const struct hr_call *call)
{
    return call->error == 0 && want->kind == HR_WANT_OBJECT && want->size == HR_UNKNOWN_BYTES &&
           want->error == 0 && call->body.len >= HR_PAGE_BYTES && call->object_bytes > call->body.len &&
           hr_face_fits(want->plan, call->object_bytes, call->etag) && hr_proof_learn(want, call) == 0;
}

/* Its headers say so already: the open need not wait for the body. Requests that follow in its place ask for
 * the same version. */
static void part_begun(struct hr_call *call, const struct hr_call_begun *begun)
{
    struct hr_want *want = ((struct hr_part *)call->owner)->want;
    struct hr_plan *plan = want->plan;
    char *if_match = NULL;
    if (plan->ending || want->kind != HR_WANT_OBJECT || want->size != HR_UNKNOWN_BYTES || want->error < 0 ||
        !hr_face_fits(plan, begun->object_bytes, begun->etag) ||
        hr_cache_find(plan->cache, &want->tree->source, want->key, want->key_len, begun->etag) ||
        !(if_match = strdup(begun->etag))) {
        return;
    }
    free(call->if_match);
    call->if_match = if_match;
    want->size = begun->object_bytes;
    want->mtime_ns = begun->mtime_ns;
    snprintf(want->etag, sizeof want->etag, "%s", begun->etag);
    want->first_call = call;
    hr_outcome_first(want, NULL);
}

/* The face is not there yet. Without the body its readers will ask for what they need. */
static void first_done(struct hr_want *want, struct hr_call *call, uint64_t reserved)
{
    want->first_call = NULL;
    if (call->error == 0 && call->object_bytes == want->object_bytes) {
        hr_fetch_memory(want->plan, (int64_t)call->body.len - (int64_t)reserved);
        want->body = call->body;
        hr_buf_init(&call->body, call->body.ceiling);
    } else {
        hr_fetch_memory(want->plan, -(int64_t)reserved);
    }
    hr_call_free(call);
}

void hr_fetch_hand_over(struct hr_want *want, struct hr_want *range)
{
    struct hr_part *part = want->first_call->owner;
    part->want = range;
    want->first_call = NULL;
    want->calls--;
    hr_want_leave_queue(range);
    range->next_offset = range->size;
    range->calls++;
}

static void note_ended(struct hr_want *want, const struct hr_call *call)
{
    want->calls--;
    want->hindrance.retried |= call->retries > 0;
    want->hindrance.throttled |= call->throttled > 0;
}

static void take_end(struct hr_want *want, struct hr_call *call, struct hr_buf *body, int error,
                     uint64_t reserved)
{
    if (error == 0 && want->error == 0) {
        error = take_body(want, call, body, &reserved);
    }
    hr_fetch_memory(want->plan, -(int64_t)reserved);
    if (error < 0 && want->error == 0) {
        want->error = error;
        want->denied = call->denied;
        describe(want, call, error);
        hr_want_leave_queue(want);
    }
}

/* One body for two: each gets on, or fails, by itself. */
static void both_done(struct hr_want *want, struct hr_want *rider, struct hr_call *call, uint64_t reserved)
{
    note_ended(rider, call);
    struct hr_buf rest = HR_BUF_INIT(HR_RIDE_BYTES);
    int error = call->error == 0 ? hr_buf_split(&call->body, want->size, &rest) : call->error;
    take_end(want, call, &call->body, error, reserved - rider->size);
    take_end(rider, call, &rest, error, rider->size);
    hr_buf_release(&rest);
    hr_call_free(call);
    go_on(want);
    go_on(rider);
}

static void drop_part(struct hr_part *part)
{
    DL_DELETE(part->plan->parts, part);
    free(part);
}

static void part_unwanted(struct hr_call *call)
{
    struct hr_part *part = call->owner;
    struct hr_plan *plan = part->plan;
    plan->stats.in_flight--;
    hr_fetch_memory(plan, -(int64_t)part->reserved_bytes);
    drop_part(part);
    hr_call_free(call);
    hr_plan_pump(plan);
}

void hr_fetch_abandon(struct hr_want *want)
{
    struct hr_call *call = want->first_call;
    want->first_call = NULL;
    want->calls--;
    ((struct hr_part *)call->owner)->want = NULL;
    call->begun = NULL;
    call->done = part_unwanted;
    hr_call_cancel(call);
}

static void part_done(struct hr_call *call)
{
    struct hr_part *part = call->owner;
    struct hr_want *want = part->want, *rider = part->rider;
    struct hr_plan *plan = want->plan;
    uint64_t reserved = part->reserved_bytes;
    drop_part(part);
    plan->stats.in_flight--;
    note_ended(want, call);
    hr_tree_judge(want->tree, call->refused_alone ? -EIO : call->error);
    if (rider) {
        both_done(want, rider, call, reserved);
        hr_plan_pump(plan);
        return;
    }
    if (want->kind == HR_WANT_FIRST) {
        first_done(want, call, reserved);
        hr_plan_pump(plan);
        return;
    }
    if (is_first_of_large(want, call)) {
        hr_fetch_memory(plan, (int64_t)call->body.len - (int64_t)reserved);
        hr_outcome_first(want, &call->body);
        hr_call_free(call);
        hr_plan_pump(plan);
        return;
    }
    take_end(want, call, &call->body, call->error, reserved);
    hr_call_free(call);
    go_on(want);
    hr_plan_pump(plan);
}

static void copied(void *owner, uint64_t bytes)
{
    struct hr_want *want = owner;
    struct hr_plan *plan = want->plan;
    (void)bytes;
    want->calls--;
    want->copies--;
    if (plan->ending) {
        return;
    }
    go_on(want);
    hr_plan_pump(plan);
}

/* A part could not be asked for: at once when nothing is under way, else when the calls are back. */
static void give_up(struct hr_want *want, int error, const char *message)
{
    if (want->calls == 0) {
        hr_outcome_fail(want, error, message);
        return;
    }
    want->error = error;
    snprintf(want->message, sizeof want->message, "%s", message);
    hr_want_leave_queue(want);
}

/* Parts of a whole object that are segments already. 1: the next part must be asked for; 0: nothing to do
 * now; -errno. */
static int copy_parts(struct hr_want *want)
{
    while (want->next_offset < want->size) {
        if (want->copies == HR_COPIES_MAX) {
            hr_want_leave_queue(want); /* until one is done */
            return 0;
        }
        const struct hr_cached *from = hr_cache_segment(want->plan->cache, want->face_id, want->next_offset);
        uint64_t bytes = from ? hr_cached_offset(from) + from->size - want->next_offset : 0;
        if (!from) {
            return 1;
        }
        int error = hr_put_copy(want->put, want->next_offset, bytes, want->face_id, copied, want);
        if (error < 0) {
            return error == -ENOENT ? 1 : error;
        }
        hr_tree_file_used(want->plan, from->file_id);
        want->next_offset += bytes;
        want->calls++;
        want->copies++;
        want->copied = true;
        want->plan->stats.copied_bytes += bytes;
    }
    return 0;
}

static int start_call(struct hr_want *want, struct hr_want *rider, uint64_t bytes)
{
    bool whole = want->kind == HR_WANT_OBJECT && want->size != HR_UNKNOWN_BYTES && want->next_offset == 0 &&
                 bytes == want->size;
    struct hr_call *call = hr_call_new(HR_CALL_GET, want->tree->store, want->key, want->key_len);
    struct hr_part *part = malloc(sizeof *part);
    char *if_match = !whole && want->etag[0] ? strdup(want->etag) : NULL;
    int error = call && part && (if_match || whole || !want->etag[0]) ? 0 : -ENOMEM;
    if (error == 0) {
        *part = (struct hr_part){
            .call = call, .plan = want->plan, .want = want, .rider = rider, .reserved_bytes = bytes};
        call->awaited = want->reason == HR_REASON_DEMAND || (rider && rider->reason == HR_REASON_DEMAND);
        if (!whole) {
            call->range_first = want->first + want->next_offset;
            call->range_bytes = bytes;
            call->if_match = if_match;
            if_match = NULL;
        }
        call->known_etag = want->etag;
        call->expected_bytes = want->size == HR_UNKNOWN_BYTES ? HR_UNKNOWN_BYTES : bytes;
        call->body_max_bytes = bytes;
        bool may_be_large = want->size == HR_UNKNOWN_BYTES && bytes % HR_PAGE_BYTES == 0; /* a segment's */
        call->begun = may_be_large ? part_begun : NULL;
        call->done = part_done;
        call->owner = part;
        error = hr_call_start(call);
    }
    free(if_match);
    if (error < 0) {
        hr_call_free(call);
        free(part);
        return error;
    }
    DL_APPEND(want->plan->parts, part);
    return 0;
}

/* Has it its place in the cache? 0; -EAGAIN: it stays in its queue; other -errno: it has failed. */
static int place(struct hr_want *want)
{
    if (want->put || want->size == HR_UNKNOWN_BYTES || (!want->etag[0] && !want->answered)) {
        return 0;
    }
    int error = hr_fetch_begin_put(want); /* room first: a body without a place would only hold memory */
    if (error < 0 && error != -EAGAIN) {
        hr_outcome_no_room(want, error);
    }
    return error;
}

/* All of it is asked for. */
static void ride(struct hr_want *rider)
{
    hr_want_leave_queue(rider);
    rider->next_offset = rider->size;
    rider->calls++;
}

int hr_fetch_next(struct hr_want *want)
{
    struct hr_plan *plan = want->plan;
    int error = place(want);
    if (error < 0) {
        return error;
    }
    if (want->kind == HR_WANT_WHOLE) {
        int left = copy_parts(want);
        if (left < 0) {
            give_up(want, left, "cannot copy segments");
        }
        if (left <= 0) {
            return left;
        }
    }
    struct hr_want *rider = rider_of(want);
    if (rider && !rider->put && hr_fetch_begin_put(rider) < 0) {
        rider = NULL; /* its turn will come */
    }
    uint64_t bytes = part_bytes(plan, want), both = bytes + (rider ? rider->size : 0);
    error = start_call(want, rider, both);
    if (error < 0) {
        give_up(want, error, error == -ENOMEM ? "out of memory" : "cannot start a request");
        return error;
    }
    if (rider) {
        ride(rider);
    }
    hr_fetch_memory(plan, (int64_t)both);
    if (want->size != HR_UNKNOWN_BYTES) {
        want->next_offset += bytes;
    }
    want->calls++;
    plan->stats.in_flight++;
    if (plan->stats.in_flight > plan->stats.in_flight_max) {
        plan->stats.in_flight_max = plan->stats.in_flight;
    }
    return 0;
}
