/* The one table of wants, and how they start: under one limit of requests in flight and one memory budget. */
#include "fetch/plan/inner.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "fetch/base/clock.h"
#include "fetch/base/zeroed.h"
#include "fetch/plan/known.h"

#define HR_ID_MAX (sizeof(struct hr_source_id) + 2 * HR_KEY_MAX)
#define HR_DEMAND_SHARE 16       /* of the memory is left to what programs wait for */
#define HR_CELL_WHOLE UINT64_MAX /* in the place of a cell's number: the whole object */

static unsigned id_of_object(const struct hr_plan_tree *tree, const char *key, uint32_t key_len,
                             char id[HR_ID_MAX])
{
    memcpy(id, &tree->asking, sizeof tree->asking);
    memcpy(id + sizeof tree->asking, key, key_len);
    return (unsigned)sizeof tree->asking + key_len;
}

/* No key is taken for it: numbers have zero bytes or only ones. */
static unsigned id_of_cell(const struct hr_plan_tree *tree, uint64_t face_id, uint64_t cell,
                           char id[HR_ID_MAX])
{
    unsigned at = sizeof tree->asking;
    memcpy(id, &tree->asking, at);
    id[at++] = '\0';
    memcpy(id + at, &face_id, sizeof face_id);
    memcpy(id + at + sizeof face_id, &cell, sizeof cell);
    return at + (unsigned)(sizeof face_id + sizeof cell);
}

static struct hr_want *find(struct hr_plan *plan, const char *id, unsigned id_len)
{
    struct hr_want *want = NULL;
    HASH_FIND(hh, plan->wants, id, id_len, want);
    return want;
}

struct hr_want *hr_want_find(struct hr_plan_tree *tree, const char *path, uint32_t path_len)
{
    char key[2 * HR_KEY_MAX], id[HR_ID_MAX];
    uint32_t key_len = hr_tree_key(tree, path, path_len, key);
    return find(tree->plan, id, id_of_object(tree, key, key_len, id));
}

struct hr_want *hr_want_cell(struct hr_plan_tree *tree, uint64_t face_id, uint64_t offset)
{
    char id[HR_ID_MAX];
    uint64_t cell = offset == HR_CELL_WHOLE ? HR_CELL_WHOLE : offset / HR_CELL_BYTES;
    return find(tree->plan, id, id_of_cell(tree, face_id, cell, id));
}

static void hurry_calls(const struct hr_want *want)
{
    struct hr_part *part;
    DL_FOREACH(want->plan->parts, part)
    {
        if (part->want == want || part->rider == want) {
            hr_call_hurry(part->call);
        }
    }
}

void hr_want_promote(struct hr_want *want, enum hr_reason reason)
{
    if (want->reason <= reason) {
        return;
    }
    if (want->state == HR_WANT_QUEUED) {
        hr_lane_remove(want);
        want->reason = reason;
        hr_lane_append(want);
    }
    want->reason = reason;
    want->plan->pace.waiting += reason == HR_REASON_DEMAND;
    if (reason == HR_REASON_DEMAND && want->put) {
        hr_put_hurry(want->put);
    }
    if (reason == HR_REASON_DEMAND && want->calls > 0) {
        hurry_calls(want);
    }
}

/* With its id and key, in no list yet. */
static struct hr_want *new_want(struct hr_plan_tree *tree, const char *id, unsigned id_len, const char *key,
                                uint32_t key_len)
{
    struct hr_lane *lane = hr_lane_of(tree->plan, tree->store);
    struct hr_want *want = lane ? hr_zeroed(sizeof *want + id_len + key_len + 1) : NULL;
    if (want) {
        want->lane = lane;
        want->plan = tree->plan;
        want->tree = tree;
        want->id_len = id_len;
        memcpy(want->id, id, id_len);
        memcpy(want->id + id_len, key, key_len);
        want->key = want->id + id_len;
        want->key_len = key_len;
    }
    return want;
}

/* Cut where it is too long, which no answer's and no listing's is. */
static void copy_etag(struct hr_want *want, const char *etag)
{
    size_t len = strnlen(etag, sizeof want->etag - 1);
    memcpy(want->etag, etag, len);
    want->etag[len] = '\0';
}

static bool enter(struct hr_want *want)
{
    HASH_ADD(hh, want->plan->wants, id, want->id_len, want);
    return want->hh.tbl != NULL; /* NULL: out of memory, uthash left it out */
}

static void enqueue(struct hr_want *want, enum hr_reason reason)
{
    want->reason = reason;
    want->hindrance.foreseen = reason != HR_REASON_DEMAND;
    want->state = HR_WANT_QUEUED;
    want->ahead = UINT_MAX;
    hr_lane_append(want);
    want->plan->stats.queued++;
    want->plan->pace.waiting += reason == HR_REASON_DEMAND;
}

struct hr_want *hr_want_add(struct hr_plan_tree *tree, const char *path, uint32_t path_len,
                            enum hr_reason reason, uint64_t size, int64_t mtime_ns, const char *etag)
{
    char key[2 * HR_KEY_MAX], id[HR_ID_MAX];
    uint32_t key_len = hr_tree_key(tree, path, path_len, key);
    unsigned id_len = id_of_object(tree, key, key_len, id);
    struct hr_want *want = find(tree->plan, id, id_len);
    if (want) {
        hr_want_promote(want, reason);
        return want;
    }
    want = new_want(tree, id, id_len, key, key_len);
    if (!want || !enter(want)) {
        free(want);
        return NULL;
    }
    want->size = size;
    want->mtime_ns = mtime_ns;
    copy_etag(want, etag);
    enqueue(want, reason);
    return want;
}

struct hr_want *hr_want_add_range(struct hr_plan_tree *tree, const struct hr_cached *face,
                                  enum hr_want_kind kind, enum hr_reason reason, uint64_t first,
                                  uint64_t bytes)
{
    char id[HR_ID_MAX];
    uint64_t cell = kind == HR_WANT_WHOLE ? HR_CELL_WHOLE : first / HR_CELL_BYTES;
    unsigned id_len = id_of_cell(tree, face->file_id, cell, id);
    struct hr_want *head = find(tree->plan, id, id_len);
    for (struct hr_want *want = head; want; want = want->cell_next) {
        if (want->first <= first && want->first + want->size >= first + bytes) {
            hr_want_promote(want, reason);
            return want;
        }
    }
    struct hr_want *want = new_want(tree, id, id_len, hr_cached_key(face), face->key_len);
    if (!want || (!head && !enter(want))) {
        free(want);
        return NULL;
    }
    if (head) {
        want->cell_next = head->cell_next;
        head->cell_next = want;
    }
    want->kind = kind;
    want->size = bytes;
    want->first = first;
    want->object_bytes = face->size;
    want->face_id = face->file_id;
    want->mtime_ns = face->mtime_ns;
    copy_etag(want, hr_cached_etag(face));
    enqueue(want, reason);
    return want;
}

void hr_want_requeue(struct hr_want *want)
{
    if (want->state != HR_WANT_QUEUED) {
        want->state = HR_WANT_QUEUED;
        hr_lane_prepend(want);
        want->plan->stats.queued++;
    }
}

void hr_want_leave_queue(struct hr_want *want)
{
    if (want->state == HR_WANT_QUEUED) {
        hr_lane_remove(want);
        want->plan->stats.queued--;
        want->state = HR_WANT_FETCHING;
    }
}

/* Out of the table; the next of its cell takes its place there. */
static void leave(struct hr_want *want)
{
    struct hr_want *head = find(want->plan, want->id, want->id_len);
    if (head != want) {
        while (head && head->cell_next != want) {
            head = head->cell_next;
        }
        if (head) {
            head->cell_next = want->cell_next;
        }
        return;
    }
    HASH_DEL(want->plan->wants, want);
    if (want->cell_next) {
        (void)enter(want->cell_next); /* without memory they are merely not found by who asks later */
    }
}

void hr_want_end(struct hr_want *want)
{
    hr_want_leave_queue(want);
    leave(want);
    want->plan->pace.waiting -= want->reason == HR_REASON_DEMAND;
    hr_buf_release(&want->body);
    free(want);
}

void hr_plan_pump(struct hr_plan *plan)
{
    if (plan->pumping || plan->ending) {
        return;
    }
    plan->pumping = true;
    bool no_room = false;
    plan->ahead_due |= hr_pace_is_on(plan); /* little is queued at a time */
    for (;;) {
        if (plan->ahead_due) {
            plan->ahead_due = false;
            hr_lookahead_advance(plan);
            hr_known_advance(plan);
        }
        struct hr_want *want = no_room ? hr_lane_next_placed(plan) : hr_lane_next(plan);
        if (!want) {
            break;
        }
        uint64_t cost = hr_fetch_cost(plan, want), memory = plan->options.memory_bytes;
        memory -= want->reason == HR_REASON_DEMAND ? 0 : memory / HR_DEMAND_SHARE;
        if (plan->stats.memory_bytes > 0 && plan->stats.memory_bytes + cost > memory) {
            break; /* bodies on their way to the cache make room and pump again */
        }
        int error = hr_fetch_next(want);
        if (error == -EAGAIN) {
            no_room = true; /* what arrives pumps again */
            want->hindrance.no_room = true;
        }
        if (error == 0 && hr_fetch_all_asked(want)) {
            hr_want_leave_queue(want);
            plan->ahead_due |= plan->stats.queued == 0 && hr_pace_is_on(plan); /* there may be more lanes */
        } /* on failure it has left the queue, or is gone */
    }
    plan->pumping = false;
}
