/* The plan's front door: requests in, checked; heartbeats; life and figures. */
#include "fetch/plan/inner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fetch/base/clock.h"

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
    HASH_ITER(hh, plan->wants, want, next_want)
    {
        HASH_DEL(plan->wants, want);
        hr_waiters_answer(&want->waiters, &cancelled);
        free(want);
    }
    for (uint32_t i = 0; i < plan->tree_count; i++) {
        hr_tree_free(plan->trees[i]);
    }
    hr_lookahead_free(plan);
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

static bool is_denied(struct hr_plan_tree *tree)
{
    return tree->denied_until_ms > hr_clock_ms();
}

/* open() of a name that no index knows: the cache, else one GET. */
static void open_unlisted(struct hr_plan_tree *tree, const char *path, uint32_t path_len,
                          const struct hr_asker *asker)
{
    struct hr_overlay *overlay = hr_overlay_find(tree, path, path_len);
    uint64_t size = HR_UNKNOWN_BYTES;
    int64_t mtime_ns = 0;
    const char *etag = "";
    if (overlay && overlay->until_ms > hr_clock_ms()) {
        struct hr_answer answer = {.error = overlay->error,
                                   .kind = overlay->kind,
                                   .size = overlay->size,
                                   .mtime_ns = overlay->mtime_ns,
                                   .file_id = overlay->file_id};
        char key[2 * HR_KEY_MAX];
        uint32_t prefix_len = tree->shared->prefix_len;
        memcpy(key, tree->shared->prefix, prefix_len);
        memcpy(key + prefix_len, path, path_len);
        const struct hr_cached *cached =
            overlay->kind == HR_KIND_FILE && overlay->etag[0]
                ? hr_cache_find(tree->plan->cache, &tree->source, key, prefix_len + path_len, overlay->etag)
                : NULL;
        if (cached) {
            answer.file_id = cached->file_id;
        }
        if (answer.error < 0 || answer.kind == HR_KIND_DIR || cached) {
            asker->fn(asker->owner, asker->ticket, &answer);
            return;
        }
        size = overlay->size;
        mtime_ns = overlay->mtime_ns;
        etag = overlay->etag;
    }
    struct hr_want *want = hr_want_add(tree, path, path_len, HR_REASON_DEMAND, size, mtime_ns, etag);
    if (!want) {
        hr_answer_error(asker, -ENOMEM);
        return;
    }
    tree->plan->stats.misses++;
    if (!want->asked_us) {
        want->asked_us = hr_clock_us();
    }
    hr_waiters_add(&want->waiters, asker);
    hr_plan_pump(tree->plan);
}

/* The asker of an open whose GET may say 404 for what is a directory: then the name is looked at. */
struct second_look {
    struct hr_plan_tree *tree;
    struct hr_asker asker;
    uint32_t path_len;
    char path[];
};

static void opened_or_look(void *owner, uint32_t ticket, const struct hr_answer *answer)
{
    struct second_look *second = owner;
    (void)ticket;
    if (answer->error == -ENOENT && !second->tree->plan->ending) {
        hr_look_ask(second->tree, second->path, second->path_len, &second->asker);
    } else {
        second->asker.fn(second->asker.owner, second->asker.ticket, answer);
    }
    free(second);
}

static void ask_open(struct hr_plan_tree *tree, const char *path, uint32_t path_len,
                     const struct hr_asker *asker)
{
    struct second_look *second = malloc(sizeof *second + path_len);
    if (!second) {
        hr_answer_error(asker, -ENOMEM);
        return;
    }
    second->tree = tree;
    second->asker = *asker;
    second->path_len = path_len;
    memcpy(second->path, path, path_len);
    struct hr_asker wrapped = {.fn = opened_or_look, .owner = second};
    open_unlisted(tree, path, path_len, &wrapped);
}

/* Does the want bring what this entry names? One for another listing of the bucket may not. */
static bool wants_version(const struct hr_want *want, struct hr_plan_tree *tree, uint32_t entry)
{
    char etag[136];
    return !want->etag[0] || hr_index_etag(&tree->index, entry, etag, sizeof etag) <= 0 ||
           strcmp(want->etag, etag) == 0;
}

/* open() through the index, for askers that hold no mapping of it (the command). */
static void ask_open_indexed(struct hr_plan_tree *tree, const char *path, uint32_t path_len,
                             const struct hr_asker *asker)
{
    uint32_t entry;
    int error = hr_index_lookup(&tree->index, path, path_len, &entry);
    if (error < 0) {
        hr_answer_error(asker, error);
        return;
    }
    const struct hr_entry *known = &tree->index.entries[entry];
    struct hr_answer answer = {.kind = known->kind, .size = known->size, .mtime_ns = known->mtime_ns};
    if (known->kind == HR_KIND_FILE) {
        struct hr_state *state = &tree->states->states[entry];
        hr_plan_fetch(tree->plan, tree->number, tree->index.names->gen, entry);
        struct hr_want *want = hr_want_find(tree, path, path_len);
        uint32_t word = atomic_load_explicit(&state->word, memory_order_relaxed);
        if (HR_STATE_KIND(word) != HR_STATE_RESIDENT && want && wants_version(want, tree, entry)) {
            hr_waiters_add(&want->waiters, asker);
            return;
        }
        if (HR_STATE_KIND(word) != HR_STATE_RESIDENT) {
            /* Failed on the spot; or another version is on its way, for an older listing. */
            hr_answer_error(asker,
                            HR_STATE_KIND(word) == HR_STATE_FAILED ? -(int)HR_STATE_ERRNO(word) : -EAGAIN);
            return;
        }
        answer.file_id = atomic_load_explicit(&state->file_id, memory_order_relaxed);
    }
    asker->fn(asker->owner, asker->ticket, &answer);
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
    if (is_denied(tree)) {
        hr_answer_error(asker, -EACCES);
        return;
    }
    if (op == HR_OP_LIST) {
        if (tree->index.names) {
            struct hr_answer answer = {.kind = HR_KIND_DIR};
            asker->fn(asker->owner, asker->ticket, &answer);
        } else {
            hr_listing_want(tree, asker);
        }
    } else if (op == HR_OP_LOOK && path_len > 0) {
        hr_look_ask(tree, path, path_len, asker);
    } else if (op == HR_OP_OPEN && path_len > 0) {
        (tree->index.names ? ask_open_indexed : ask_open)(tree, path, path_len, asker);
    } else if (op == HR_OP_LOOK || op == HR_OP_OPEN) {
        struct hr_answer root = {.kind = HR_KIND_DIR, .mtime_ns = tree->shared->start_ns};
        asker->fn(asker->owner, asker->ticket, &root);
    } else {
        hr_answer_error(asker, -EINVAL);
    }
}

/* A client found no file though the word says resident: believed only when it is so. */
static bool file_is_there(const struct hr_plan *plan, uint64_t file_id)
{
    char path[PATH_MAX];
    hr_object_path(plan->cache_dir, file_id, path);
    return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

void hr_plan_fetch(struct hr_plan *plan, uint32_t number, uint32_t gen, uint32_t entry)
{
    struct hr_plan_tree *tree = hr_tree_get(plan, number);
    if (!tree || plan->ending || !tree->index.names || tree->index.names->gen != gen ||
        entry >= tree->index.names->entry_count || tree->index.entries[entry].kind != HR_KIND_FILE) {
        return;
    }
    struct hr_state *state = &tree->states->states[entry];
    if (HR_STATE_KIND(atomic_load_explicit(&state->word, memory_order_relaxed)) == HR_STATE_RESIDENT) {
        uint64_t file_id = atomic_load_explicit(&state->file_id, memory_order_relaxed);
        if (file_is_there(plan, file_id)) {
            return;
        }
        hr_cache_drop(plan->cache, file_id);
        hr_tree_forget(tree, entry, file_id);
    }
    char path[HR_KEY_MAX + 1];
    char etag[136];
    int len = hr_index_path(&tree->index, entry, path, sizeof path);
    if (len < 0 || hr_index_etag(&tree->index, entry, etag, sizeof etag) < 0) {
        hr_tree_fail_entry(tree, entry, -EIO);
        return;
    }
    if (is_denied(tree)) {
        hr_tree_fail_entry(tree, entry, -EACCES);
        return;
    }
    const struct hr_entry *known = &tree->index.entries[entry];
    struct hr_want *want =
        hr_want_add(tree, path, (uint32_t)len, HR_REASON_DEMAND, known->size, known->mtime_ns, etag);
    if (!want) {
        return; /* the client asks again */
    }
    if (!want->asked_us) {
        want->asked_us = hr_clock_us();
        plan->stats.misses++;
    }
    hr_sweep_used(tree, entry);
    hr_plan_pump(plan);
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
    if (tree && tree->index.names) {
        if (hr_index_lookup(&tree->index, path, path_len, &entry) == 0 &&
            hr_index_etag(&tree->index, entry, ret_etag, room) < 0) {
            ret_etag[0] = '\0';
        }
    } else if (tree) {
        struct hr_overlay *overlay = hr_overlay_find(tree, path, path_len);
        snprintf(ret_etag, room, "%s", overlay ? overlay->etag : "");
    }
}

const char *hr_plan_message(struct hr_plan *plan, uint32_t number, int error)
{
    struct hr_plan_tree *tree = hr_tree_get(plan, number);
    return tree && tree->message_error == error ? tree->shared->message : NULL;
}

bool hr_plan_tick(struct hr_plan *plan)
{
    uint64_t before = plan->stats.hits;
    for (uint32_t i = 0; i < plan->tree_count; i++) {
        hr_tree_drain_uses(plan->trees[i]);
    }
    hr_plan_pump(plan);
    return plan->stats.hits != before;
}

void hr_plan_stats(const struct hr_plan *plan, struct hr_plan_stats *ret)
{
    *ret = plan->stats;
    /* Every open leaves a note, those that had to ask too. */
    ret->hits = ret->hits > ret->misses ? ret->hits - ret->misses : 0;
    ret->trees = plan->tree_count;
    for (uint32_t i = 0; i < plan->tree_count; i++) {
        const struct hr_names *names = plan->trees[i]->index.names;
        if (names) {
            ret->index_objects += names->file_count;
            ret->index_bytes += names->file_bytes;
            ret->hidden += names->hidden_count;
        }
    }
}
