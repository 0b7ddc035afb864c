/* Trees: who is in the control file, and what the state words of their entries say. */
#include "fetch/plan/inner.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fetch/base/clock.h"
#include "fetch/base/digest.h"
#include "fetch/plan/dirs.h"
#include "fetch/base/text.h"
#include "fetch/plan/adopting.h"
#include "fetch/plan/names.h"
#include "fetch/plan/ranks.h"
#include "fetch/plan/recording.h"
#include "fetch/plan/replay.h"
#include "fetch/plan/victims.h"

#define HR_SAY_AGAIN_MS 10000 /* the same kind of trouble is told to people at most every 10 s */
#define HR_DENIED_AFTER 3     /* refusals in a row, without one success, before nothing is asked any more */
#define HR_DENIED_AFTER_UNLISTED 16 /* programs look for several files that need not be there */
#define HR_DENIED_MS 30000

/* Truncated SHA-256 of the texts, each with its terminator, so that ("ab","c") and ("a","bc") differ. */
static int digest_texts(const char *const *texts, unsigned count, uint8_t ret[16])
{
    struct hr_digest_ctx *ctx = NULL;
    uint8_t sum[HR_SHA256_BYTES];
    int error = hr_digest_new(HR_DIGEST_SHA256, &ctx);
    for (unsigned i = 0; i < count && error == 0; i++) {
        error = hr_digest_update(ctx, texts[i], strlen(texts[i]) + 1);
    }
    if (error == 0) {
        error = hr_digest_final(ctx, sum);
    }
    hr_digest_free(ctx);
    if (error == 0) {
        memcpy(ret, sum, 16);
    }
    return error;
}

struct hr_plan_tree *hr_tree_get(struct hr_plan *plan, uint32_t number)
{
    return number < plan->tree_count ? plan->trees[number] : NULL;
}

void hr_tree_file_used(struct hr_plan *plan, uint64_t file_id)
{
    int reason = hr_brought_take(&plan->brought, file_id);
    if (reason >= 0) {
        plan->stats.used[reason]++;
    }
}

static void fill_shared(struct hr_plan_tree *tree, const char *prefix, uint32_t prefix_len)
{
    struct hr_tree *shared = tree->shared;
    uint64_t source_word;
    memcpy(&source_word, tree->source.bytes, sizeof source_word);
    memcpy(&shared->salt, tree->source.bytes + 8, sizeof shared->salt);
    shared->id = tree->id;
    /* The high nibble gives minor numbers of 65536 and more, which no disk of the machine has. */
    shared->dev = 0x10000000u | (uint32_t)(source_word & 0x0fffffffu);
    int64_t born_ns =
        tree->plan->options.born_ns; /* a daemon that comes back in a job shows what was shown */
    shared->start_ns = (born_ns > 0 ? born_ns : hr_clock_wall_ns()) / 1000000000 * 1000000000;
    shared->prefix_len = prefix_len;
    memcpy(shared->prefix, prefix, prefix_len);
}

uint32_t hr_tree_key(const struct hr_plan_tree *tree, const char *path, uint32_t path_len,
                     char key[2 * HR_KEY_MAX])
{
    uint32_t prefix_len = tree->shared->prefix_len;
    memcpy(key, tree->shared->prefix, prefix_len);
    memcpy(key + prefix_len, path, path_len);
    return prefix_len + path_len;
}

bool hr_tree_denied(const struct hr_plan_tree *tree)
{
    return tree->denied_until_ms > hr_clock_ms();
}

static int make_tree(struct hr_plan *plan, struct hr_store *store, const char *prefix, uint32_t prefix_len,
                     const uint8_t id[16], struct hr_plan_tree **ret)
{
    if (plan->tree_count >= HR_TREES_MAX) {
        return -ENOSPC;
    }
    struct hr_plan_tree *tree = calloc(1, sizeof *tree);
    if (!tree) {
        return -ENOMEM;
    }
    const char *texts[3] = {hr_store_endpoint(store), hr_store_bucket(store), hr_store_identity(store)};
    int error = digest_texts(texts, 2, tree->source.bytes);
    if (error == 0) {
        error = digest_texts(texts, 3, tree->asking.bytes);
    }
    if (error < 0) {
        free(tree);
        return error;
    }
    tree->plan = plan;
    tree->number = plan->tree_count;
    tree->shared = &plan->options.control->trees[tree->number];
    memcpy(&tree->id, id, sizeof tree->id);
    tree->store = store;
    hr_store_ref(store);
    tree->next_gen = 1;
    fill_shared(tree, prefix, prefix_len);
    plan->trees[plan->tree_count++] = tree;
    atomic_store_explicit(&plan->options.control->tree_count, plan->tree_count, memory_order_release);
    *ret = tree;
    return 0;
}

/* A tree that nobody has asked for yet: with what the settings' texts, which are not NULL, make of it. */
static int new_tree(struct hr_plan *plan, struct hr_store *store, const char *prefix, uint32_t prefix_len,
                    const struct hr_tree_settings *settings, const uint8_t id[16], struct hr_plan_tree **ret)
{
    struct hr_filter *filter = NULL;
    char why[256];
    bool listed_in_file = settings->list_file[0] != '\0';
    int error = hr_filter_new(settings->include, settings->exclude, &filter, why);
    char *file = listed_in_file ? strdup(settings->list_file) : NULL;
    error = error == 0 && listed_in_file && !file ? -ENOMEM : error;
    if (error == 0) {
        error = make_tree(plan, store, prefix, prefix_len, id, ret);
    }
    if (error < 0) {
        hr_filter_free(filter);
        free(file);
        return error;
    }
    (*ret)->filter = filter;
    (*ret)->list_file = file;
    return 0;
}

/* A job has started anew: what was refused before may be allowed now, and what was told may be news to it. */
static void forget_refusals(struct hr_plan_tree *tree)
{
    tree->welcome = false;
    tree->listed = false;
    tree->unlisted_said = false;
    tree->empty_said = false;
    tree->unlisted_until_ms = 0;
    tree->denied = 0;
    tree->denied_until_ms = 0;
    tree->list_error_until_ms = 0;
    tree->message_ms = 0;
}

int hr_plan_tree(struct hr_plan *plan, struct hr_store *store, const char *prefix, uint32_t prefix_len,
                 const struct hr_tree_settings *settings, uint32_t *ret_number)
{
    if (prefix_len >= HR_KEY_MAX || memchr(prefix, '\0', prefix_len)) {
        return -EINVAL;
    }
    char prefix_text[HR_KEY_MAX + 1];
    memcpy(prefix_text, prefix, prefix_len);
    prefix_text[prefix_len] = '\0';
    struct hr_tree_settings told = *settings;
    told.include = told.include ? told.include : "";
    told.exclude = told.exclude ? told.exclude : "";
    told.list_file = told.list_file ? told.list_file : "";
    const char *texts[7] = {hr_store_endpoint(store),
                            hr_store_bucket(store),
                            prefix_text,
                            hr_store_identity(store),
                            told.include,
                            told.exclude,
                            told.list_file};
    uint8_t id[16], filter_id[16];
    bool filtered = told.include[0] || told.exclude[0];
    int error = digest_texts(texts, told.list_file[0] ? 7 : filtered ? 6 : 4, id);
    error = error == 0 ? digest_texts(texts + 4, 2, filter_id) : error;
    if (error < 0) {
        return error;
    }
    struct hr_plan_tree *tree = NULL;
    for (uint32_t i = 0; i < plan->tree_count && !tree; i++) {
        tree = memcmp(&plan->trees[i]->id, id, sizeof plan->trees[i]->id) == 0 ? plan->trees[i] : NULL;
    }
    bool fresh = tree == NULL;
    error = fresh ? new_tree(plan, store, prefix_text, prefix_len, &told, id, &tree) : 0;
    if (error < 0) {
        return error;
    }
    if (fresh && filtered) {
        hr_hex_encode(filter_id, sizeof filter_id, tree->filter_id);
    }
    tree->settings = *settings;
    tree->settings.include = tree->settings.exclude = tree->settings.list_file = NULL;
    if (fresh) {
        (void)hr_listing_adopt(tree); /* none: it is listed when somebody asks */
        tree->shared->dirs_ns = tree->index.names ? 0 : tree->shared->start_ns;
    } else {
        forget_refusals(tree);
    }
    hr_tree_say_empty(tree, &tree->index);
    if (tree->index.names ? hr_listing_stale(tree) : settings->list == HR_LIST_ALL || told.list_file[0]) {
        hr_listing_want(tree, NULL);
    }
    *ret_number = tree->number;
    return 0;
}

struct hr_store *hr_plan_tree_store(struct hr_plan *plan, uint32_t number)
{
    struct hr_plan_tree *tree = hr_tree_get(plan, number);
    return tree ? tree->store : NULL;
}

uint32_t hr_plan_tree_prefix(struct hr_plan *plan, uint32_t number, const char **ret_prefix)
{
    const struct hr_plan_tree *tree = hr_tree_get(plan, number);
    *ret_prefix = tree ? tree->shared->prefix : "";
    return tree ? tree->shared->prefix_len : 0;
}

static void set_state(struct hr_plan_tree *tree, uint32_t entry, unsigned kind, int error, uint64_t file_id)
{
    struct hr_state *state = &tree->states->states[entry];
    uint32_t word = atomic_load_explicit(&state->word, memory_order_relaxed);
    atomic_store_explicit(&state->file_id, file_id, memory_order_relaxed);
    atomic_store_explicit(&state->word, HR_STATE_NEXT(word, kind, error), memory_order_release);
    syscall(SYS_futex, &state->word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    if (tree->plan->changed) {
        tree->plan->changed(tree->plan->changed_owner, tree->number, entry);
    }
}

bool hr_tree_entry_of(struct hr_plan_tree *tree, const char *key, uint32_t key_len, uint32_t *ret_entry)
{
    uint32_t prefix_len = tree->shared->prefix_len;
    if (!tree->index.names || key_len <= prefix_len || memcmp(key, tree->shared->prefix, prefix_len) != 0) {
        return false;
    }
    uint32_t entry;
    if (hr_index_lookup(&tree->index, key + prefix_len, key_len - prefix_len, &entry) < 0 ||
        tree->index.entries[entry].kind != HR_KIND_FILE) {
        return false;
    }
    *ret_entry = entry;
    return true;
}

/* Is the cached object the version that this index names? A store that lists no ETag is taken by size and
 * time. */
static bool same_version(struct hr_plan_tree *tree, uint32_t entry, const struct hr_cached *cached)
{
    const struct hr_entry *known = &tree->index.entries[entry];
    if (known->size != cached->size) {
        return false;
    }
    char etag[136];
    if (hr_index_etag(&tree->index, entry, etag, sizeof etag) <= 0) {
        return known->mtime_ns / 1000000000 == cached->mtime_ns / 1000000000;
    }
    return strcmp(etag, hr_cached_etag(cached)) == 0;
}

bool hr_tree_doubted(const struct hr_plan_tree *tree, uint32_t entry)
{
    return HR_STATE_BY_NAME(atomic_load_explicit(&tree->states->states[entry].word, memory_order_relaxed));
}

void hr_tree_doubt(struct hr_plan_tree *tree, uint32_t entry)
{
    if (!hr_tree_doubted(tree, entry)) {
        atomic_fetch_add_explicit(&tree->states->by_name, 1, memory_order_release); /* before the word */
    }
    set_state(tree, entry, HR_STATE_FAILED, HR_STATE_BY_NAME_ERRNO, 0);
}

bool hr_tree_unlisted(const struct hr_plan_tree *tree, const char *path, uint32_t path_len)
{
    uint32_t entry;
    return !tree->index.names ||
           (hr_index_lookup(&tree->index, path, path_len, &entry) == 0 &&
            tree->index.entries[entry].kind == HR_KIND_FILE && hr_tree_doubted(tree, entry));
}

static bool is_there(const struct hr_state *state)
{
    unsigned kind = HR_STATE_KIND(atomic_load_explicit(&state->word, memory_order_relaxed));
    return kind == HR_STATE_RESIDENT || kind == HR_STATE_FACE;
}

bool hr_tree_resident(struct hr_plan_tree *tree, const struct hr_cached *cached)
{
    uint32_t entry;
    if (cached->kind == HR_CACHED_SEGMENT || !hr_tree_has_source(tree, cached->source) ||
        !hr_tree_entry_of(tree, hr_cached_key(cached), cached->key_len, &entry) ||
        hr_tree_doubted(tree, entry) || !same_version(tree, entry, cached)) {
        return false;
    }
    const struct hr_state *state = &tree->states->states[entry];
    unsigned is = HR_STATE_KIND(atomic_load_explicit(&state->word, memory_order_relaxed));
    bool older = cached->file_id < atomic_load_explicit(&state->file_id, memory_order_relaxed);
    /* Of two that cannot be told apart (no ETag is listed) the one that came last. */
    if (cached->kind == HR_CACHED_WHOLE && (is != HR_STATE_RESIDENT || !older)) {
        set_state(tree, entry, HR_STATE_RESIDENT, 0, cached->file_id);
    } else if (cached->kind == HR_CACHED_FACE && is != HR_STATE_RESIDENT && (is != HR_STATE_FACE || !older) &&
               hr_face_fits(tree->plan, cached->size, hr_cached_etag(cached))) {
        set_state(tree, entry, HR_STATE_FACE, 0, cached->file_id);
    }
    return true;
}

/* What the entry is without the file that has gone: its face still stands for it, or nothing does. */
static void fall_back(struct hr_plan_tree *tree, uint32_t entry, const struct hr_cached *gone)
{
    const struct hr_cached *face =
        gone->kind == HR_CACHED_WHOLE && hr_face_fits(tree->plan, gone->size, hr_cached_etag(gone))
            ? hr_cache_face(tree->plan->cache, gone->source, hr_cached_key(gone), gone->key_len,
                            hr_cached_etag(gone))
            : NULL;
    if (face) {
        set_state(tree, entry, HR_STATE_FACE, 0, face->file_id);
    } else {
        set_state(tree, entry, HR_STATE_ABSENT, 0, 0);
    }
}

void hr_tree_gone(struct hr_plan_tree *tree, const struct hr_cached *cached)
{
    uint32_t entry;
    if (cached->kind == HR_CACHED_SEGMENT || !hr_tree_has_source(tree, cached->source)) {
        return;
    }
    if (hr_tree_entry_of(tree, hr_cached_key(cached), cached->key_len, &entry) &&
        atomic_load_explicit(&tree->states->states[entry].file_id, memory_order_relaxed) == cached->file_id) {
        if (tree->marks[entry] & HR_ENTRY_SWEPT) {
            tree->plan->stats.swept_wasted_bytes += cached->size;
            tree->swept_bytes -= cached->size < tree->swept_bytes ? cached->size : tree->swept_bytes;
            tree->sweep_done = true; /* it pushes out what it brought */
            tree->plan->ahead_due = true;
        }
        hr_sweep_unmark(tree, entry);
        fall_back(tree, entry, cached);
    }
    uint32_t prefix_len = tree->shared->prefix_len;
    if (cached->key_len > prefix_len &&
        memcmp(hr_cached_key(cached), tree->shared->prefix, prefix_len) == 0) {
        struct hr_overlay *overlay =
            hr_overlay_find(tree, hr_cached_key(cached) + prefix_len, cached->key_len - prefix_len);
        if (overlay && overlay->file_id == cached->file_id) {
            overlay->file_id = 0;
        }
    }
}

void hr_tree_fail_entry(struct hr_plan_tree *tree, uint32_t entry, int error)
{
    if (!is_there(&tree->states->states[entry]) && !hr_tree_doubted(tree, entry)) {
        set_state(tree, entry, HR_STATE_FAILED, -error, 0);
    }
}

void hr_tree_failed(struct hr_plan_tree *tree, const char *key, uint32_t key_len, const char *etag, int error)
{
    uint32_t entry;
    char known[136];
    if (!hr_tree_entry_of(tree, key, key_len, &entry)) {
        return;
    }
    bool other =
        etag[0] && hr_index_etag(&tree->index, entry, known, sizeof known) > 0 && strcmp(etag, known) != 0;
    if (!other) {
        hr_tree_fail_entry(tree, entry, error);
    }
}

void hr_tree_forget(struct hr_plan_tree *tree, uint32_t entry, uint64_t file_id)
{
    struct hr_state *state = &tree->states->states[entry];
    if (is_there(state) && atomic_load_explicit(&state->file_id, memory_order_relaxed) == file_id) {
        set_state(tree, entry, HR_STATE_ABSENT, 0, 0);
    }
}

void hr_tree_say(struct hr_plan_tree *tree, int error, const char *message)
{
    int64_t now_ms = hr_clock_ms();
    if (!message || !*message ||
        (tree->message_error == error && tree->message_ms && now_ms - tree->message_ms < HR_SAY_AGAIN_MS)) {
        return;
    }
    tree->message_error = error;
    tree->message_ms = now_ms;
    struct hr_tree *shared = tree->shared;
    uint32_t seq = atomic_load_explicit(&shared->message_seq, memory_order_relaxed);
    atomic_store_explicit(&shared->message_seq, seq + 1, memory_order_release);
    atomic_thread_fence(memory_order_release);
    snprintf(shared->message, sizeof shared->message, "%s", message);
    for (char *at = shared->message; *at; at++) { /* keys hold any byte */
        *at = (unsigned char)*at < ' ' || *at == 0x7f ? '?' : *at;
    }
    atomic_store_explicit(&shared->message_seq, seq + 2, memory_order_release);
    hr_log(HR_LOG_ERROR, "%s", message);
}

void hr_tree_drain_uses(struct hr_plan_tree *tree)
{
    if (!tree->uses) {
        return;
    }
    uint32_t head = atomic_load_explicit(&tree->uses->head, memory_order_acquire);
    uint32_t fresh = head - tree->uses_seen;
    tree->plan->stats.hits += fresh;
    /* A client may write anything into head: at most one ring is read. */
    uint32_t from = fresh > HR_USES_RING ? head - HR_USES_RING : tree->uses_seen;
    tree->uses_seen = head;
    tree->noted += head - from;
    tree->plan->ahead_due |= head != from;
    for (uint32_t i = from; i != head; i++) {
        uint64_t use = atomic_load_explicit(&tree->uses->ring[i % HR_USES_RING], memory_order_relaxed);
        uint32_t entry = HR_USE_ENTRY(use);
        if (entry >= tree->index.names->entry_count || tree->index.entries[entry].kind != HR_KIND_FILE) {
            continue;
        }
        hr_sweep_used(tree, entry);
        hr_victims_read(tree, entry);
        hr_recording_entry(tree, entry);
        hr_replay_opened(tree, entry);
        if (tree->marks[entry] & HR_ENTRY_ANNOUNCED) {
            tree->marks[entry] &= (uint8_t)~HR_ENTRY_ANNOUNCED;
            tree->announced_used++;
            tree->plan->stats.announced_used++;
        }
        hr_lookahead_used(tree, entry, HR_USE_TAG(use));
        hr_opened_note(tree, entry);
        uint64_t file_id = atomic_load_explicit(&tree->states->states[entry].file_id, memory_order_relaxed);
        if (file_id) {
            hr_tree_file_used(tree->plan, file_id);
            hr_cache_opened(tree->plan->cache, file_id);
            hr_cache_touch(tree->plan->cache, file_id);
        }
    }
}

void hr_tree_drain_all(struct hr_plan *plan)
{
    for (uint32_t i = 0; i < plan->tree_count; i++) {
        hr_tree_drain_uses(plan->trees[i]);
    }
}

void hr_tree_free(struct hr_plan_tree *tree)
{
    struct hr_answer cancelled = {.error = -ECANCELED};
    hr_tree_recheck_end(tree);
    hr_listing_stop(tree);
    hr_adopting_free(tree);
    free(tree->list_file);
    hr_look_cancel_all(tree);
    hr_waiters_answer(&tree->list_waiters, &cancelled);
    hr_dirs_free(tree);
    hr_overlay_clear(tree);
    if (tree->index.names) {
        hr_states_unmap(tree->states, tree->uses);
        hr_index_unmap(&tree->index);
    }
    free(tree->marks);
    hr_ranks_free(tree->ranks);
    hr_opened_free(tree);
    hr_filter_free(tree->filter);
    hr_store_unref(tree->store);
    free(tree);
}

/* One object may be refused among others that are not. Where nothing may be listed, names that are missing
 * are refused as well. */
void hr_tree_judge(struct hr_plan_tree *tree, int error)
{
    unsigned after = hr_tree_list_mode(tree) == HR_LIST_NONE ? HR_DENIED_AFTER_UNLISTED : HR_DENIED_AFTER;
    if (error == 0) {
        tree->welcome = true;
    }
    if (error != -EACCES) {
        tree->denied = 0;
    } else if (++tree->denied >= after && !tree->welcome) {
        tree->denied_until_ms = hr_clock_ms() + HR_DENIED_MS;
    }
}
