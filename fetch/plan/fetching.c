/* The life of one want: its requests, the bytes into the cache, the proof, the news to whoever waits.
 *
 * A small object is one GET. A large one is ranges of HR_PART_BYTES, each conditional on the ETag. One whose
 * size is not known starts with one range of small_max, which usually is all of it. */
#include "fetch/plan/inner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fetch/base/clock.h"
#include "interpose/abi.h"

#define HR_VERIFY_TRIES 3        /* a body that does not match is asked for again so often */
#define HR_FOLLOW_AGAIN_MS 30000 /* an object that still differs after a fresh listing is an error */
#define HR_DENIED_AFTER 3 /* refusals in a row, without one success, before nothing is asked any more */
#define HR_DENIED_MS 30000

struct hr_part { /* one request of a want */
    struct hr_want *want;
    uint64_t reserved_bytes;
};

static uint64_t part_bytes(const struct hr_plan *plan, const struct hr_want *want)
{
    if (want->size == HR_UNKNOWN_BYTES) {
        return plan->options.small_max_bytes < HR_PART_BYTES ? plan->options.small_max_bytes : HR_PART_BYTES;
    }
    if (want->next_offset == 0 && want->size <= plan->options.small_max_bytes) {
        return want->size;
    }
    uint64_t left = want->size - want->next_offset;
    return left < HR_PART_BYTES ? left : HR_PART_BYTES;
}

uint64_t hr_fetch_cost(const struct hr_plan *plan, const struct hr_want *want)
{
    return part_bytes(plan, want); /* of an unknown size: what may come */
}

bool hr_fetch_all_asked(const struct hr_want *want)
{
    return want->next_offset >= want->size || (want->size == HR_UNKNOWN_BYTES && want->calls > 0);
}

static void memory_add(struct hr_plan *plan, int64_t bytes)
{
    plan->stats.memory_bytes = (uint64_t)((int64_t)plan->stats.memory_bytes + bytes);
    if (plan->stats.memory_bytes > plan->stats.memory_max_bytes) {
        plan->stats.memory_max_bytes = plan->stats.memory_bytes;
    }
}

/* Gone before anybody is answered: whoever asks again from inside an answer gets a want of its own. */
static void end_with(struct hr_want *want, const struct hr_answer *answer)
{
    struct hr_waiter *waiters = want->waiters;
    want->waiters = NULL;
    hr_want_end(want);
    hr_waiters_answer(&waiters, answer);
}

/* What an open may say: trouble inside the cache or the transport is EIO to a program. */
static int told_error(int error)
{
    switch (error) {
    case -EINVAL:
    case -EBADMSG:
    case -EMSGSIZE:
    case -EBUSY:
        return -EIO;
    default:
        return error;
    }
}

/* Tells everybody who waits that it failed, and ends the want. */
static void fail(struct hr_want *want, int error, const char *message)
{
    struct hr_plan *plan = want->plan;
    uint32_t key_len;
    const char *key = hr_want_key(want, &key_len);
    error = told_error(error);
    if (want->put) {
        hr_put_abort(want->put);
        want->put = NULL;
    }
    if (error != -ECANCELED) {
        plan->stats.failed++;
        hr_tree_say(want->tree, error, message);
    }
    if (want->reason != HR_REASON_DEMAND) {
        hr_sweep_failed(want, error);
    }
    /* Canceled: we are ending, the words stay as they are and the next daemon is asked. */
    for (uint32_t i = 0; i < plan->tree_count && want->reason == HR_REASON_DEMAND && error != -ECANCELED;
         i++) {
        struct hr_plan_tree *tree = plan->trees[i];
        if (memcmp(&tree->asking, &want->tree->asking, sizeof tree->asking) == 0) {
            hr_tree_failed(tree, key, key_len, want->etag, error);
        }
    }
    struct hr_answer answer = {.error = error};
    end_with(want, &answer);
}

/* The store has another version than the index says. True: with changed=follow a new listing is on its way,
 * and whoever waits looks the name up again in it. */
static bool follow(struct hr_want *want)
{
    struct hr_plan_tree *tree = want->tree;
    int64_t now_ms = hr_clock_ms();
    want->plan->stats.changed++;
    if (!tree->settings.follow || !tree->index.names ||
        (tree->followed_ms && now_ms - tree->followed_ms < HR_FOLLOW_AGAIN_MS && !tree->lister)) {
        return false;
    }
    tree->followed_ms = now_ms;
    hr_listing_want(tree, NULL);
    if (!tree->lister) {
        return false;
    }
    if (want->put) {
        hr_put_abort(want->put);
        want->put = NULL;
    }
    struct hr_answer again = {.error = -EAGAIN};
    end_with(want, &again);
    return true;
}

static void start_again(struct hr_want *want)
{
    want->put = NULL;
    want->next_offset = 0;
    want->error = 0;
    want->learned = false;
    hr_want_requeue(want);
    hr_plan_pump(want->plan);
}

/* Verification failed. Bytes that differ each time are damage on the way; equal bytes that never match the
 * ETag are a store whose ETag is no MD5, unless it is a checksum beside it that they do not match: the next
 * try tells. */
static void mismatched(struct hr_want *want, const char *body_md5)
{
    bool md5_differs = want->verify.md5 && strcasecmp(body_md5, want->verify.md5_hex) != 0;
    bool equal_bytes = md5_differs && strcmp(body_md5, want->mismatch_md5) == 0;
    snprintf(want->mismatch_md5, sizeof want->mismatch_md5, "%s", body_md5);
    want->tries++;
    if (equal_bytes && want->verify.crc_kind == HR_CRC_NONE) {
        hr_proof_md5_off(want->tree);
    } else if (equal_bytes) {
        want->md5_doubted = true;
    } else if (want->tries >= HR_VERIFY_TRIES) {
        char message[HR_MESSAGE_MAX];
        uint32_t key_len;
        const char *key = hr_want_key(want, &key_len);
        snprintf(message, sizeof message,
                 "%s/%.*s: the bytes that came do not match the store's checksum (%u times)",
                 hr_store_bucket(want->tree->store), (int)(key_len < 160 ? key_len : 160), key, want->tries);
        want->put = NULL;
        fail(want, -EIO, message);
        return;
    }
    start_again(want);
}

/* Trees without an index remember what came for their next open. */
static void remember(struct hr_plan_tree *tree, const struct hr_cached *cached)
{
    uint32_t prefix_len = tree->shared->prefix_len;
    if (tree->index.names || cached->key_len <= prefix_len ||
        memcmp(cached->key, tree->shared->prefix, prefix_len) != 0) {
        return;
    }
    struct hr_overlay *overlay = hr_overlay_put(tree, cached->key + prefix_len, cached->key_len - prefix_len);
    if (overlay) {
        overlay->error = 0;
        overlay->kind = HR_KIND_FILE;
        overlay->size = cached->size;
        overlay->mtime_ns = cached->mtime_ns;
        overlay->file_id = cached->file_id;
        snprintf(overlay->etag, sizeof overlay->etag, "%s", cached->etag);
    }
    hr_listing_by_names(tree);
}

static void arrived(struct hr_want *want, const struct hr_cached *cached)
{
    struct hr_plan *plan = want->plan;
    if (want->md5_doubted) {
        hr_proof_md5_off(want->tree); /* its CRC was right, its MD5 was not */
    }
    plan->stats.fetched[want->reason]++;
    plan->stats.fetched_bytes[want->reason] += cached->size;
    if (want->asked_us) {
        hr_hist_add(&plan->stats.wait, (uint64_t)(hr_clock_us() - want->asked_us));
    }
    for (uint32_t i = 0; i < plan->tree_count; i++) {
        struct hr_plan_tree *tree = plan->trees[i];
        hr_tree_resident(tree, cached);
        if (want->waiters && memcmp(&tree->asking, &want->tree->asking, sizeof tree->asking) == 0) {
            remember(tree, cached);
        }
    }
    struct hr_answer answer = {
        .kind = HR_KIND_FILE,
        .size = cached->size,
        .mtime_ns = cached->mtime_ns,
        .file_id = cached->file_id,
    };
    end_with(want, &answer);
}

static void put_done(void *owner, struct hr_put *put, int error, const struct hr_cached *cached)
{
    struct hr_want *want = owner;
    struct hr_plan *plan = want->plan;
    if (error == 0) {
        want->put = NULL;
        arrived(want, cached);
    } else if (error == -EBADMSG) {
        char body_md5[33];
        snprintf(body_md5, sizeof body_md5, "%s", hr_put_body_md5_hex(put));
        mismatched(want, body_md5);
    } else {
        char message[HR_MESSAGE_MAX];
        snprintf(message, sizeof message, "cannot write to the cache in %.200s: %s", plan->cache_dir,
                 strerror(-error));
        want->put = NULL;
        fail(want, error, message);
    }
    hr_plan_pump(plan);
}

static int begin_put(struct hr_want *want)
{
    uint32_t key_len;
    const char *key = hr_want_key(want, &key_len);
    struct hr_put_options options = {
        .source = want->tree->source,
        .object_dev_salt = want->tree->shared->salt,
        .object_dev = want->tree->shared->dev,
        .key = key,
        .key_len = key_len,
        .etag = want->etag,
        .size = want->size,
        .mtime_ns = want->mtime_ns,
        .done = put_done,
        .owner = want,
    };
    return hr_put_begin(want->plan->cache, &options, &want->put);
}

static void body_written(void *owner, uint64_t bytes)
{
    struct hr_plan *plan = owner;
    memory_add(plan, -(int64_t)bytes);
    hr_plan_pump(plan);
}

/* One object may be refused among others that are not; a store that refuses everything is left alone. */
static void refused(struct hr_plan_tree *tree, int error)
{
    if (error == 0) {
        tree->welcome = true;
    }
    if (error != -EACCES) {
        tree->denied = 0;
    } else if (++tree->denied >= HR_DENIED_AFTER && !tree->welcome) {
        tree->denied_until_ms = hr_clock_ms() + HR_DENIED_MS;
    }
}

static void no_room(struct hr_want *want, int error)
{
    char message[HR_MESSAGE_MAX];
    snprintf(message, sizeof message, "no room for an object of %llu bytes in the cache in %.160s: %s%s",
             (unsigned long long)want->size, want->plan->cache_dir, strerror(-error),
             error == -ENOSPC ? "; raise cache_size or free space there" : "");
    fail(want, error, message);
}

/* With changed=follow a name that no index knows is simply asked for anew, whatever it was when it was looked
 * at. */
static bool follow_unlisted(struct hr_want *want)
{
    if (want->tree->index.names || !want->tree->settings.follow || want->tries > 0) {
        return false;
    }
    if (want->put) {
        hr_put_abort(want->put);
    }
    want->plan->stats.changed++;
    want->tries = 1;
    want->size = HR_UNKNOWN_BYTES;
    want->mtime_ns = 0;
    want->etag[0] = '\0';
    start_again(want);
    return true;
}

/* All calls are back and something failed. */
static void settle_failure(struct hr_want *want)
{
    int error = want->error;
    if (error == -EAGAIN) {
        /* Other objects on their way in hold the room: ask again behind them. */
        start_again(want);
        return;
    }
    if (error == -ENOSPC) {
        no_room(want, error);
        return;
    }
    if (error == -EMSGSIZE && want->size == HR_UNKNOWN_BYTES) {
        /* A range of an empty object is refused: ask for the whole of it. */
        want->size = 0;
        start_again(want);
        return;
    }
    if (error == -EMSGSIZE || error == -ESTALE) {
        if (follow_unlisted(want) || follow(want)) {
            return;
        }
        error = -ESTALE;
        uint32_t key_len;
        const char *key = hr_want_key(want, &key_len);
        snprintf(want->message, sizeof want->message,
                 "%s/%.*s changed in the store since it was listed (changed=follow takes the new version)",
                 hr_store_bucket(want->tree->store), (int)(key_len < 160 ? key_len : 160), key);
    }
    fail(want, error, want->message);
}

/* What the call says; else what we found in its answer. */
static void describe(struct hr_want *want, const struct hr_call *call, int error)
{
    uint32_t key_len;
    const char *key = hr_want_key(want, &key_len);
    if (call->message[0]) {
        snprintf(want->message, sizeof want->message, "%s", call->message);
    } else {
        snprintf(want->message, sizeof want->message, "%s/%.*s: %s", hr_store_bucket(want->tree->store),
                 (int)(key_len < 160 ? key_len : 160), key,
                 error == -EIO ? "the store does not tell the object's size" : strerror(-error));
    }
}

static void part_done(struct hr_call *call)
{
    struct hr_part *part = call->owner;
    struct hr_want *want = part->want;
    struct hr_plan *plan = want->plan;
    uint64_t reserved = part->reserved_bytes;
    free(part);
    plan->stats.in_flight--;
    want->calls--;
    refused(want->tree, call->error);
    int error = call->error;
    if (error == 0 && want->error == 0 && !want->learned) {
        error = hr_proof_learn(want, call);
        if (error == 0 && !want->put) {
            error = begin_put(want);
        }
    } else if (error == 0 && want->error == 0) {
        error = hr_proof_same(want, call);
    }
    if (error == 0 && want->error == 0) {
        memory_add(plan, (int64_t)call->body.len - (int64_t)reserved);
        error = hr_put_part(want->put, call->range_bytes ? call->range_first : 0, &call->body, body_written,
                            plan);
        reserved = error < 0 ? call->body.len : 0;
    }
    memory_add(plan, -(int64_t)reserved);
    if (error < 0 && want->error == 0) {
        want->error = error;
        describe(want, call, error);
        hr_want_leave_queue(want);
    }
    hr_call_free(call);
    if (want->calls == 0 && want->error < 0) {
        settle_failure(want);
    } else if (want->error == 0 && !hr_fetch_all_asked(want)) {
        hr_want_requeue(want);
    } else if (want->calls == 0 && want->error == 0) {
        want->state = HR_WANT_WRITING;
        hr_put_finish(want->put, &want->verify);
    }
    hr_plan_pump(plan);
}

/* A part could not be asked for: at once when nothing is under way, else when the calls are back. */
static void give_up(struct hr_want *want, int error, const char *message)
{
    if (want->calls == 0) {
        fail(want, error, message);
        return;
    }
    want->error = error;
    snprintf(want->message, sizeof want->message, "%s", message);
    hr_want_leave_queue(want);
}

int hr_fetch_next(struct hr_want *want)
{
    struct hr_plan *plan = want->plan;
    uint32_t key_len;
    const char *key = hr_want_key(want, &key_len);
    uint64_t bytes = part_bytes(plan, want);
    uint64_t cost = hr_fetch_cost(plan, want);
    bool whole = want->size != HR_UNKNOWN_BYTES && want->next_offset == 0 && bytes == want->size;
    if (!want->put && want->size != HR_UNKNOWN_BYTES && (want->etag[0] || want->answered)) {
        int error = begin_put(want); /* room first: a body without a place would only hold memory */
        if (error == -EAGAIN) {
            return error;
        }
        if (error < 0) {
            no_room(want, error);
            return error;
        }
    }
    struct hr_call *call = hr_call_new(HR_CALL_GET, want->tree->store, key, key_len);
    struct hr_part *part = malloc(sizeof *part);
    if (!call || !part) {
        hr_call_free(call);
        free(part);
        give_up(want, -ENOMEM, "out of memory");
        return -ENOMEM;
    }
    *part = (struct hr_part){.want = want, .reserved_bytes = cost};
    if (!whole) {
        call->range_first = want->next_offset;
        call->range_bytes = bytes;
        call->if_match = want->etag[0] ? strdup(want->etag) : NULL;
    }
    call->expected_bytes = want->size == HR_UNKNOWN_BYTES ? HR_UNKNOWN_BYTES : bytes;
    call->body_max_bytes = bytes;
    call->done = part_done;
    call->owner = part;
    int error = hr_call_start(call);
    if (error < 0) {
        hr_call_free(call);
        free(part);
        give_up(want, error, "cannot start a request");
        return error;
    }
    memory_add(plan, (int64_t)cost);
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
