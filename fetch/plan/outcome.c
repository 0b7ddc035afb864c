/* What becomes of a want: the object or segment is in the cache, or it failed, or it is asked for again; and
 * the news to whoever waits. */
#include "fetch/plan/inner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fetch/base/clock.h"
#include "fetch/plan/names.h"
#include "fetch/plan/recording.h"

#define HR_VERIFY_TRIES 3 /* a body that does not match is asked for again so often */

/* Bytes of a key that a message shows. */
static uint32_t shown_len(const struct hr_want *want)
{
    return want->key_len < 160 ? want->key_len : 160;
}

static bool is_by_face(const struct hr_want *want)
{
    return want->kind == HR_WANT_SEGMENT || want->kind == HR_WANT_WHOLE;
}

static bool is_unlisted(const struct hr_want *want)
{
    const struct hr_plan_tree *tree = want->tree;
    uint32_t prefix_len = tree->shared->prefix_len;
    return want->kind == HR_WANT_OBJECT && want->key_len > prefix_len &&
           hr_tree_unlisted(tree, want->key + prefix_len, want->key_len - prefix_len);
}

/* Gone before anybody is answered: whoever asks again from inside an answer gets a want of its own. */
static void end_with(struct hr_want *want, const struct hr_answer *answer)
{
    struct hr_plan *plan = want->plan;
    struct hr_waiter *waiters = want->waiters;
    plan->told = want->hindrance;
    want->waiters = NULL;
    hr_want_end(want);
    hr_waiters_answer(&waiters, answer);
    plan->told = (struct hr_hindrance){0};
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

/* The line goes to every tree that the reader's job may have the object in: a face does not tell which. */
static void say(const struct hr_want *want, int error, const char *message)
{
    struct hr_plan *plan = want->plan;
    hr_tree_say(want->tree, error, message);
    for (uint32_t i = 0; i < plan->tree_count && is_by_face(want); i++) {
        struct hr_plan_tree *tree = plan->trees[i];
        uint32_t prefix_len = tree->shared->prefix_len;
        if (tree != want->tree && memcmp(&tree->asking, &want->tree->asking, sizeof tree->asking) == 0 &&
            want->key_len > prefix_len && memcmp(tree->shared->prefix, want->key, prefix_len) == 0) {
            hr_tree_say(tree, error, message);
        }
    }
}

void hr_outcome_fail(struct hr_want *want, int error, const char *message)
{
    struct hr_plan *plan = want->plan;
    error = told_error(error);
    plan->told = want->hindrance;
    if (want->put) {
        hr_put_abort(want->put);
        want->put = NULL;
    }
    if (error != -ECANCELED && want->reason != HR_REASON_WINDOW) { /* a window's reader will see for itself */
        plan->stats.failed++;
        if (error != -ENOENT || !is_unlisted(want)) { /* that is an answer */
            say(want, error, message);
        }
    }
    if (want->reason != HR_REASON_DEMAND && want->reason != HR_REASON_HINT && want->kind == HR_WANT_OBJECT) {
        hr_sweep_failed(want, error);
    }
    /* Canceled: we are ending, the words stay as they are and the next daemon is asked. */
    for (uint32_t i = 0;
         i < plan->tree_count && want->reason == HR_REASON_DEMAND && !is_by_face(want) && error != -ECANCELED;
         i++) {
        struct hr_plan_tree *tree = plan->trees[i];
        if (memcmp(&tree->asking, &want->tree->asking, sizeof tree->asking) == 0) {
            hr_tree_failed(tree, want->key, want->key_len, want->etag, error);
        }
    }
    struct hr_answer answer = {.error = error};
    end_with(want, &answer);
}

/* Trees with changed=follow do not go by their index any more for this object: programs ask by path, and get
 * what the store has now. */
static void doubt(const struct hr_want *want)
{
    struct hr_plan *plan = want->plan;
    for (uint32_t i = 0; i < plan->tree_count; i++) {
        struct hr_plan_tree *tree = plan->trees[i];
        uint32_t entry;
        if (tree->settings.follow && memcmp(&tree->asking, &want->tree->asking, sizeof tree->asking) == 0 &&
            hr_tree_entry_of(tree, want->key, want->key_len, &entry)) {
            hr_tree_doubt(tree, entry);
        }
    }
}

/* The store has another version than the index says. True: with changed=follow whoever waits looks the name
 * up again; but a face stands for the old version: that is lost. */
static bool follow(struct hr_want *want)
{
    struct hr_plan_tree *tree = want->tree;
    uint32_t entry;
    want->plan->stats.changed++;
    if (!tree->settings.follow || !hr_tree_entry_of(tree, want->key, want->key_len, &entry)) {
        return false;
    }
    bool news = !hr_tree_doubted(tree, entry);
    doubt(want);
    if (!news || is_by_face(want)) {
        return false;
    }
    if (want->put) {
        hr_put_abort(want->put);
        want->put = NULL;
    }
    if (want->reason != HR_REASON_DEMAND && want->reason != HR_REASON_HINT && want->kind == HR_WANT_OBJECT) {
        hr_sweep_failed(want, -ESTALE);
    }
    struct hr_answer again = {.error = -EAGAIN};
    end_with(want, &again);
    return true;
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
    if (want->copied) { /* the damage may lie in the segments: all of it from the store */
        want->mismatch_md5[0] = '\0';
        hr_cache_drop_segments(want->plan->cache, want->face_id);
    } else if (equal_bytes && want->verify.crc_kind == HR_CRC_NONE) {
        hr_proof_md5_off(want->tree);
    } else if (equal_bytes) {
        want->md5_doubted = true;
    } else if (want->tries >= HR_VERIFY_TRIES) {
        char message[HR_MESSAGE_MAX];
        snprintf(message, sizeof message,
                 "%s/%.*s: the bytes that came do not match the store's checksum (%u times)",
                 hr_store_bucket(want->tree->store), (int)shown_len(want), want->key, want->tries);
        want->put = NULL;
        hr_outcome_fail(want, -EIO, message);
        return;
    }
    hr_fetch_again(want);
}

/* What no index tells about is remembered for the next open. */
static void remember(struct hr_plan_tree *tree, const struct hr_cached *cached)
{
    uint32_t prefix_len = tree->shared->prefix_len;
    if (cached->key_len <= prefix_len ||
        memcmp(hr_cached_key(cached), tree->shared->prefix, prefix_len) != 0 ||
        !hr_tree_unlisted(tree, hr_cached_key(cached) + prefix_len, cached->key_len - prefix_len)) {
        return;
    }
    struct hr_overlay *overlay =
        hr_overlay_put(tree, hr_cached_key(cached) + prefix_len, cached->key_len - prefix_len);
    if (overlay) {
        overlay->error = 0;
        overlay->kind = HR_KIND_FILE;
        overlay->size = cached->size;
        overlay->mtime_ns = cached->mtime_ns;
        overlay->file_id = cached->kind == HR_CACHED_WHOLE ? cached->file_id : 0;
        snprintf(overlay->etag, sizeof overlay->etag, "%s", hr_cached_etag(cached));
    }
    if (hr_tree_list_mode(tree) == HR_LIST_NONE) {
        hr_name_parents(tree, hr_cached_key(cached) + prefix_len, cached->key_len - prefix_len);
    }
    hr_listing_by_names(tree);
}

/* What was opened by name leaves no note in the index' ring. */
static void note_opened(const struct hr_want *want)
{
    uint32_t prefix_len = want->tree->shared->prefix_len;
    if (want->waiters && want->reason == HR_REASON_DEMAND && want->key_len > prefix_len) {
        hr_recording_name(want->tree, want->key + prefix_len, want->key_len - prefix_len);
    }
}

/* Everybody's news of a whole object. */
static void tell_trees(struct hr_want *want, const struct hr_cached *cached)
{
    struct hr_plan *plan = want->plan;
    const struct hr_cached *face = hr_cache_face(plan->cache, cached->source, hr_cached_key(cached),
                                                 cached->key_len, hr_cached_etag(cached));
    for (uint32_t i = 0; i < plan->tree_count; i++) {
        struct hr_plan_tree *tree = plan->trees[i];
        bool is_listed = hr_tree_resident(tree, cached);
        if (!is_listed && want->waiters &&
            memcmp(&tree->asking, &want->tree->asking, sizeof tree->asking) == 0) {
            remember(tree, cached);
        }
    }
    if (face) {
        hr_cache_drop_segments(plan->cache, face->file_id);
    }
}

static void answer_face(struct hr_want *want)
{
    struct hr_answer answer = {.kind = HR_KIND_FILE,
                               .flags = HR_ANSWER_FACE,
                               .size = want->object_bytes,
                               .mtime_ns = want->mtime_ns,
                               .file_id = want->face_id};
    end_with(want, &answer);
}

static void arrived(struct hr_want *want, const struct hr_cached *cached)
{
    struct hr_plan *plan = want->plan;
    plan->told = want->hindrance;
    if (want->md5_doubted) {
        hr_proof_md5_off(want->tree); /* its CRC was right, its MD5 was not */
    }
    plan->stats.fetched[want->reason]++;
    plan->stats.fetched_bytes[want->reason] += want->size;
    if (want->reason == HR_REASON_DEMAND) {
        plan->stats.used[HR_REASON_DEMAND]++;
    } else {
        hr_brought_add(&plan->brought, cached->file_id, want->reason);
    }
    if (want->asked_us) {
        hr_hist_add(&plan->stats.wait, (uint64_t)(hr_clock_us() - want->asked_us));
    }
    if (want->reason == HR_REASON_DEMAND &&
        (want->kind != HR_WANT_OBJECT || want->size > plan->options.small_max_bytes)) {
        want->tree->demanded_bytes += want->size;
    }
    struct hr_answer answer = {
        .kind = HR_KIND_FILE,
        .size = cached->size,
        .mtime_ns = cached->mtime_ns,
        .file_id = cached->file_id,
        .offset = hr_cached_offset(cached),
    };
    if (want->waiters) {
        hr_cache_handed(plan->cache, cached->file_id);
        hr_cache_touch(plan->cache, cached->file_id); /* clients note the opens of indexed objects alone */
    }
    if (cached->kind == HR_CACHED_WHOLE) {
        note_opened(want);
        tell_trees(want, cached);
    }
    if (want->kind == HR_WANT_FIRST) {
        answer_face(want);
    } else {
        end_with(want, &answer);
    }
}

/* The face went while its bytes were on their way. */
static void face_lost(struct hr_want *want)
{
    char message[HR_MESSAGE_MAX];
    snprintf(message, sizeof message, "%s/%.*s: what stood for it in the cache was removed; open it again",
             hr_store_bucket(want->tree->store), (int)shown_len(want), want->key);
    hr_outcome_fail(want, -ESTALE, message);
}

void hr_outcome_put_done(void *owner, struct hr_put *put, int error, const struct hr_cached *cached)
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
    } else if (want->kind == HR_WANT_FIRST) {
        answer_face(want); /* which is there all the same */
    } else if (error == -ESTALE) {
        want->put = NULL;
        face_lost(want);
    } else {
        char message[HR_MESSAGE_MAX];
        snprintf(message, sizeof message, "cannot write to the cache in %.200s: %s", plan->cache_dir,
                 strerror(-error));
        want->put = NULL;
        hr_outcome_fail(want, error, message);
    }
    hr_plan_pump(plan);
}

void hr_outcome_no_room(struct hr_want *want, int error)
{
    char message[HR_MESSAGE_MAX];
    if (error == -ESTALE) {
        face_lost(want);
        return;
    }
    snprintf(message, sizeof message, "%s/%.*s: no room for %llu bytes in the cache in %.100s: %s%s",
             hr_store_bucket(want->tree->store), (int)(want->key_len < 80 ? want->key_len : 80), want->key,
             (unsigned long long)want->size, want->plan->cache_dir, strerror(-error),
             error == -ENOSPC ? "; raise cache_size or free space there" : "");
    hr_outcome_fail(want, error, message);
}

/* With changed=follow a name that no index knows is simply asked for anew, whatever it was when it was looked
 * at. */
static bool follow_unlisted(struct hr_want *want)
{
    uint32_t prefix_len = want->tree->shared->prefix_len;
    if (is_by_face(want) || !want->tree->settings.follow || want->tries > 0 || want->key_len <= prefix_len ||
        !hr_tree_unlisted(want->tree, want->key + prefix_len, want->key_len - prefix_len)) {
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
    hr_fetch_again(want);
    return true;
}

/* Names that nobody listed are asked for anew. */
static void forget_name(const struct hr_want *want)
{
    struct hr_plan_tree *tree = want->tree;
    uint32_t prefix_len = tree->shared->prefix_len;
    if (tree->settings.follow && want->key_len > prefix_len &&
        memcmp(want->key, tree->shared->prefix, prefix_len) == 0) {
        hr_name_doubt(tree, want->key + prefix_len, want->key_len - prefix_len);
    }
}

/* Who may not list is told 403 of a key that is missing. Where other objects of the map have come by the same
 * credentials, that is what it means: programs look for files that need not be there. */
static bool missing_by_refusal(const struct hr_want *want)
{
    const struct hr_plan_tree *tree = want->tree;
    return want->error == -EACCES && want->denied && want->kind == HR_WANT_OBJECT && tree->welcome &&
           hr_tree_list_mode(tree) == HR_LIST_NONE && is_unlisted(want);
}

void hr_outcome_failed(struct hr_want *want)
{
    int error = missing_by_refusal(want) ? -ENOENT : want->error;
    if (error == -EAGAIN) {
        /* Other objects on their way in hold the room: ask again behind them. */
        hr_fetch_again(want);
        return;
    }
    if (error == -ENOSPC) {
        hr_outcome_no_room(want, error);
        return;
    }
    if (error == -EMSGSIZE && want->size == HR_UNKNOWN_BYTES) {
        /* A range of an empty object is refused: ask for the whole of it. */
        want->size = 0;
        hr_fetch_again(want);
        return;
    }
    bool lost = is_by_face(want) && error == -ENOENT; /* what is open cannot be missing */
    if (error == -EMSGSIZE || error == -ESTALE || lost) {
        if (is_by_face(want)) {
            forget_name(want);
        }
        if (follow_unlisted(want) || follow(want)) {
            return;
        }
        error = -ESTALE;
        snprintf(want->message, sizeof want->message,
                 "%s/%.*s changed in the store since it was listed (changed=follow takes the new version)",
                 hr_store_bucket(want->tree->store), (int)shown_len(want), want->key);
    }
    hr_outcome_fail(want, error, want->message);
}

/* ---- the first range of an unlisted object ---- */

static void first_failed(struct hr_want *want, int error)
{
    if (want->first_call) {
        hr_fetch_abandon(want);
    }
    hr_fetch_memory(want->plan, -(int64_t)want->body.len);
    hr_outcome_fail(want, error, "");
}

/* The face is there and its first bytes are still on their way: who reads them joins that, as any range. They
 * are not needed where the first cell is there, or on its way, for others. */
static void first_comes(struct hr_want *want, const struct hr_cached *face)
{
    struct hr_plan *plan = want->plan;
    uint64_t bytes = want->first_call->range_bytes;
    bool needed = face && !hr_cache_segment(plan->cache, face->file_id, 0) &&
                  !hr_want_cell(want->tree, face->file_id, 0);
    struct hr_want *range =
        needed ? hr_want_add_range(want->tree, face, HR_WANT_SEGMENT, want->reason, 0, bytes) : NULL;
    if (range) {
        hr_fetch_hand_over(want, range);
    } else {
        hr_fetch_abandon(want);
    }
}

/* The face is there: what came becomes its first segment, or nothing when the cache has no room now. */
static void first_faced(void *owner, uint32_t ticket, const struct hr_answer *answer)
{
    struct hr_want *want = owner;
    struct hr_plan *plan = want->plan;
    (void)ticket;
    if (answer->error < 0) {
        first_failed(want, answer->error);
        return;
    }
    const struct hr_cached *cached = hr_cache_by_id(plan->cache, answer->file_id);
    if (cached) {
        note_opened(want);
        remember(want->tree, cached);
    }
    struct hr_answer copy = *answer;
    if (want->first_call) {
        first_comes(want, answer->flags & HR_ANSWER_FACE ? cached : NULL);
    }
    uint64_t bytes = want->body.len;
    if (bytes == 0) { /* it comes, or failed */
        end_with(want, &copy);
        return;
    }
    want->face_id = answer->file_id;
    want->size = bytes;
    want->verify = (struct hr_verify){0}; /* its checksums are of the whole object */
    int error = answer->flags & HR_ANSWER_FACE ? hr_fetch_begin_put(want) : -EEXIST;
    if (error == 0 && (error = hr_fetch_keep(want, 0, &want->body)) < 0) {
        hr_put_abort(want->put);
        want->put = NULL;
    }
    if (error == 0) {
        want->state = HR_WANT_WRITING;
        hr_put_finish(want->put, &want->verify);
        return;
    }
    hr_fetch_memory(plan, -(int64_t)bytes);
    end_with(want, &copy);
}

void hr_outcome_first(struct hr_want *want, struct hr_buf *body)
{
    hr_want_leave_queue(want);
    want->kind = HR_WANT_FIRST;
    want->object_bytes = want->size;
    if (body) {
        want->body = *body;
        hr_buf_init(body, body->ceiling);
        uint64_t cut = want->body.len % HR_PAGE_BYTES;
        want->body.len -= cut;
        hr_fetch_memory(want->plan, -(int64_t)cut);
    }
    struct hr_asker asker = {.fn = first_faced, .owner = want};
    (void)hr_face_want(want->tree, want->key, want->key_len, want->etag, want->object_bytes, want->mtime_ns,
                       &asker);
}
