/* The plan's front door: requests in, checked; heartbeats; life and figures. */
#include "fetch/plan/inner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fetch/base/clock.h"
#include "fetch/plan/dirs.h"
#include "fetch/plan/known.h"
#include "fetch/plan/adopting.h"
#include "fetch/plan/names.h"
#include "fetch/plan/recording.h"
#include "fetch/plan/replay.h"
#include "fetch/plan/shards.h"
#include "fetch/plan/warm.h"

int hr_plan_new(const struct hr_plan_options *options, struct hr_plan **ret)
{
    struct hr_plan *plan = calloc(1, sizeof *plan);
    if (!plan) {
        return -ENOMEM;
    }
    plan->options = *options;
    plan->cache_dir = strdup(options->cache_dir);
    if (!plan->cache_dir || asprintf(&plan->index_dir, "%s/index", options->cache_dir) < 0) {
        free(plan->cache_dir);
        free(plan);
        return -ENOMEM;
    }
    plan->options.cache_dir = plan->cache_dir;
    struct stat st;
    int error = mkdir(plan->index_dir, 0700) < 0 && errno != EEXIST ? -errno : 0;
    if (error == 0 && lstat(plan->index_dir, &st) < 0) {
        error = -errno;
    }
    if (error == 0 && !S_ISDIR(st.st_mode)) {
        error = -ENOTDIR;
    }
    if (error < 0) {
        free(plan->index_dir);
        free(plan->cache_dir);
        free(plan);
        return error;
    }
    hr_index_sweep_dirs(plan->index_dir); /* of earlier lives */
    *ret = plan;
    return 0;
}

void hr_plan_set_cache(struct hr_plan *plan, struct hr_cache *cache)
{
    plan->cache = cache;
}

void hr_plan_evicted(void *owner, const struct hr_cached *cached)
{
    struct hr_plan *plan = owner;
    int reason = hr_brought_take(&plan->brought, cached->file_id);
    if (reason >= 0) {
        plan->stats.wasted_bytes[reason] += cached->size;
    }
    for (uint32_t i = 0; i < plan->tree_count; i++) {
        hr_tree_gone(plan->trees[i], cached);
    }
}

void hr_plan_residents_grown(void *owner, uint32_t gen)
{
    struct hr_plan *plan = owner;
    atomic_store_explicit(&plan->options.control->residents_gen, gen, memory_order_release);
}

void hr_plan_stop(struct hr_plan *plan)
{
    plan->ending = true;
}

void hr_plan_free(struct hr_plan *plan)
{
    if (!plan) {
        return;
    }
    plan->ending = true;
    struct hr_want *want, *next_want;
    struct hr_answer cancelled = {.error = -ECANCELED};
    hr_faces_free(plan); /* wants may wait for faces */
    HASH_ITER(hh, plan->wants, want, next_want)
    {
        HASH_DEL(plan->wants, want);
        while (want) {
            struct hr_want *next_of_cell = want->cell_next;
            hr_waiters_answer(&want->waiters, &cancelled);
            hr_buf_release(&want->body);
            free(want);
            want = next_of_cell;
        }
    }
    hr_warm_free(plan);
    while (plan->recordings) {
        hr_recording_end(plan->recordings);
    }
    while (plan->replays) {
        hr_replay_end(plan->replays);
    }
    for (uint32_t i = 0; i < plan->tree_count; i++) {
        hr_tree_free(plan->trees[i]);
    }
    hr_lookahead_free(plan);
    hr_lanes_free(plan);
    hr_brought_release(&plan->brought);
    hr_windows_free(plan);
    hr_shards_free(plan);
    struct hr_md5_off *off, *next_off;
    HASH_ITER(hh, plan->md5_off, off, next_off)
    {
        HASH_DEL(plan->md5_off, off);
        free(off);
    }
    free(plan->index_dir);
    free(plan->cache_dir);
    free(plan);
}

/* A path from outside: single slashes between parts, none at the ends, no "." or "..", no NUL. */
static bool path_is_clean(const char *path, uint32_t len)
{
    if (len > HR_KEY_MAX || memchr(path, '\0', len)) {
        return false;
    }
    uint32_t start = 0;
    for (uint32_t i = 0; i <= len && len > 0; i++) {
        if (i < len && path[i] != '/') {
            continue;
        }
        uint32_t part = i - start;
        if (part == 0 || (part == 1 && path[start] == '.') ||
            (part == 2 && path[start] == '.' && path[start + 1] == '.')) {
            return false;
        }
        start = i + 1;
    }
    return true;
}

void hr_plan_ask(struct hr_plan *plan, enum hr_op op, uint32_t number, const char *path, uint32_t path_len,
                 const struct hr_asker *asker)
{
    struct hr_plan_tree *tree = hr_tree_get(plan, number);
    if (!tree || plan->ending) {
        hr_answer_error(asker, tree ? -ECANCELED : -EINVAL);
        return;
    }
    if (!path_is_clean(path, path_len) || tree->shared->prefix_len + path_len > HR_KEY_MAX) {
        hr_answer_error(asker, -ENOENT); /* no key can have it */
        return;
    }
    if (hr_tree_denied(tree)) {
        hr_answer_error(asker, -EACCES);
        return;
    }
    if (hr_adopting_ask(tree, op, path, path_len, asker) ||
        hr_filtered_ask(tree, op, path, path_len, asker)) {
        return;
    }
    if (op == HR_OP_LIST) {
        if (tree->index.names) {
            struct hr_answer answer = {.kind = HR_KIND_DIR};
            asker->fn(asker->owner, asker->ticket, &answer);
        } else {
            hr_listing_want(tree, asker);
        }
    } else if (op == HR_OP_DIR) {
        hr_dir_ask(tree, path, path_len, asker);
    } else if (op == HR_OP_LOOK && path_len > 0) {
        hr_look_ask(tree, path, path_len, asker);
    } else if (op == HR_OP_OPEN && path_len > 0) {
        hr_open_ask(tree, path, path_len, asker);
    } else if (op == HR_OP_LOOK || op == HR_OP_OPEN) {
        struct hr_answer root = {.kind = HR_KIND_DIR, .mtime_ns = tree->shared->start_ns};
        asker->fn(asker->owner, asker->ticket, &root);
    } else {
        hr_answer_error(asker, -EINVAL);
    }
}

int hr_plan_index_path(struct hr_plan *plan, uint32_t number, char *ret_path, size_t room)
{
    struct hr_plan_tree *tree = hr_tree_get(plan, number);
    if (!tree || !tree->index.names) {
        return -ENODATA;
    }
    int len = snprintf(ret_path, room, "%s/%016llx-%08x.names", plan->index_dir, (unsigned long long)tree->id,
                       tree->index.names->gen);
    return len < 0 || (size_t)len >= room ? -ENAMETOOLONG : 0;
}

void hr_plan_etag(struct hr_plan *plan, uint32_t number, const char *path, uint32_t path_len, char *ret_etag,
                  size_t room)
{
    struct hr_plan_tree *tree = hr_tree_get(plan, number);
    uint32_t entry;
    ret_etag[0] = '\0';
    if (tree && !hr_tree_unlisted(tree, path, path_len)) {
        if (hr_index_lookup(&tree->index, path, path_len, &entry) == 0 &&
            hr_index_etag(&tree->index, entry, ret_etag, room) < 0) {
            ret_etag[0] = '\0';
        }
    } else if (tree) {
        struct hr_name name;
        bool known = hr_name_known(tree, path, path_len, &name) && name.error == 0;
        snprintf(ret_etag, room, "%s", known ? name.etag : "");
    }
}

const char *hr_plan_message(struct hr_plan *plan, uint32_t number, int error)
{
    struct hr_plan_tree *tree = hr_tree_get(plan, number);
    return tree && tree->message_error == error ? tree->shared->message : NULL;
}

void hr_plan_on_change(struct hr_plan *plan, void (*changed)(void *owner, uint32_t tree, uint32_t entry),
                       void *owner)
{
    plan->changed = changed;
    plan->changed_owner = owner;
}

struct hr_hindrance hr_plan_told(const struct hr_plan *plan)
{
    return plan->told;
}

void hr_plan_room(void *plan)
{
    hr_plan_pump(plan);
}

void hr_plan_trouble(void *owner, const struct hr_store *store, const char *message, int64_t left_ms)
{
    const struct hr_plan *plan = owner;
    char text[HR_MESSAGE_MAX];
    snprintf(text, sizeof text, "%.250s; still trying, for up to %lld s", message,
             (long long)(left_ms / 1000 + 1));
    for (uint32_t i = 0; i < plan->tree_count; i++) {
        if (plan->trees[i]->store == store) {
            hr_tree_say(plan->trees[i], -EINPROGRESS, text); /* no failure's: that is told as well */
        }
    }
}

void hr_plan_drain(struct hr_plan *plan)
{
    hr_tree_drain_all(plan);
}

bool hr_plan_tick(struct hr_plan *plan)
{
    uint64_t before = plan->hits_seen;
    hr_tree_drain_all(plan);
    plan->hits_seen = plan->stats.hits;
    hr_warm_tick(plan);
    hr_replay_advance(plan);
    hr_plan_pump(plan);
    return plan->hits_seen != before;
}

void hr_plan_stats(const struct hr_plan *plan, struct hr_plan_stats *ret)
{
    *ret = plan->stats;
    /* Every open leaves a note, those that had to ask too. */
    ret->hits = ret->hits > ret->misses ? ret->hits - ret->misses : 0;
    ret->trees = plan->tree_count;
    hr_known_stats(plan, ret);
    hr_lookahead_stats(plan, ret);
    for (uint32_t i = 0; i < plan->tree_count; i++) {
        const struct hr_names *names = plan->trees[i]->index.names;
        if (names) {
            ret->index_objects += names->file_count;
            ret->index_bytes += names->file_bytes;
            ret->index_object_bytes += names->object_bytes;
            ret->hidden += names->hidden_count;
        }
    }
}
