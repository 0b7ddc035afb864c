/* Faces: what stands for a large object is made once, without asking the store, for all who open it. */
#include "fetch/plan/inner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/base/clock.h"

/* A face on its way into the cache. */
struct hr_making {
    UT_hash_handle hh; /* in hr_plan.makings by id: source, key, NUL, ETag */
    struct hr_plan_tree *tree;
    struct hr_waiter *waiters;
    int64_t asked_us;
    unsigned id_len;
    char id[];
};

bool hr_face_fits(const struct hr_plan *plan, uint64_t size, const char *etag)
{
    return size != HR_UNKNOWN_BYTES && size > plan->options.small_max_bytes && etag[0];
}

#define HR_MAKING_ID_MAX (sizeof(struct hr_source_id) + 2 * HR_KEY_MAX + 1 + 136)

static unsigned make_id(const struct hr_plan_tree *tree, const char *key, uint32_t key_len, const char *etag,
                        char id[HR_MAKING_ID_MAX])
{
    unsigned at = sizeof tree->source;
    memcpy(id, &tree->source, at);
    memcpy(id + at, key, key_len);
    at += key_len;
    id[at++] = '\0';
    size_t etag_len = strnlen(etag, 135);
    memcpy(id + at, etag, etag_len);
    return at + (unsigned)etag_len;
}

static struct hr_making *find(const struct hr_plan_tree *tree, const char *key, uint32_t key_len,
                              const char *etag)
{
    char id[HR_MAKING_ID_MAX];
    unsigned id_len = make_id(tree, key, key_len, etag, id);
    struct hr_making *making = NULL;
    HASH_FIND(hh, tree->plan->makings, id, id_len, making);
    return making;
}

static void end_with(struct hr_plan *plan, struct hr_making *making, const struct hr_answer *answer)
{
    struct hr_waiter *waiters = making->waiters;
    HASH_DEL(plan->makings, making);
    free(making);
    hr_waiters_answer(&waiters, answer);
}

static struct hr_answer answer_of(const struct hr_cached *cached)
{
    return (struct hr_answer){
        .kind = HR_KIND_FILE,
        .flags = cached->kind == HR_CACHED_FACE ? HR_ANSWER_FACE : 0,
        .size = cached->size,
        .mtime_ns = cached->mtime_ns,
        .file_id = cached->file_id,
    };
}

static void tell_trees(struct hr_plan *plan, const struct hr_cached *cached)
{
    for (uint32_t i = 0; i < plan->tree_count; i++) {
        (void)hr_tree_resident(plan->trees[i], cached);
    }
}

/* The disk's trouble is everybody's, whatever the identity. */
static void failed(struct hr_making *making, int error)
{
    struct hr_plan *plan = making->tree->plan;
    const char *key = making->id + sizeof(struct hr_source_id);
    const char *etag = key + strlen(key) + 1;
    char text[136];
    snprintf(text, sizeof text, "%.*s", (int)(making->id + making->id_len - etag), etag);
    for (uint32_t i = 0; i < plan->tree_count && error != -ECANCELED; i++) {
        struct hr_plan_tree *tree = plan->trees[i];
        if (hr_tree_has_source(tree, &making->tree->source)) {
            hr_tree_failed(tree, key, (uint32_t)strlen(key), text, error);
        }
    }
    if (error != -ECANCELED) {
        char message[HR_MESSAGE_MAX];
        snprintf(message, sizeof message, "cannot write to the cache in %.200s: %s", plan->cache_dir,
                 strerror(-error));
        plan->stats.failed++;
        hr_tree_say(making->tree, error, message);
    }
    struct hr_answer answer = {.error = error};
    end_with(plan, making, &answer);
}

static void put_done(void *owner, struct hr_put *put, int error, const struct hr_cached *cached)
{
    struct hr_making *making = owner;
    struct hr_plan *plan = making->tree->plan;
    (void)put;
    if (error < 0) {
        failed(making, error == -EINVAL ? -EIO : error);
        return;
    }
    hr_hist_add(&plan->stats.wait, (uint64_t)(hr_clock_us() - making->asked_us));
    struct hr_answer answer = answer_of(cached);
    tell_trees(plan, cached);
    end_with(plan, making, &answer);
}

static int make(struct hr_making *making, const struct hr_put_options *what)
{
    struct hr_plan_tree *tree = making->tree;
    struct hr_put_options options = *what;
    struct hr_put *put = NULL;
    options.source = tree->source;
    options.object_dev_salt = tree->shared->salt;
    options.object_dev = tree->shared->dev;
    options.kind = HR_CACHED_FACE;
    options.done = put_done;
    options.owner = making;
    int error = hr_put_begin(tree->plan->cache, &options, &put);
    if (error == 0) {
        hr_put_finish(put, NULL);
    }
    return error;
}

static struct hr_making *new_making(struct hr_plan_tree *tree, const char *key, uint32_t key_len,
                                    const char *etag)
{
    char id[HR_MAKING_ID_MAX];
    unsigned id_len = make_id(tree, key, key_len, etag, id);
    struct hr_making *making = calloc(1, sizeof *making + id_len + 1);
    if (!making) {
        return NULL;
    }
    making->tree = tree;
    making->asked_us = hr_clock_us();
    making->id_len = id_len;
    memcpy(making->id, id, id_len);
    HASH_ADD(hh, tree->plan->makings, id, id_len, making);
    if (!making->hh.tbl) {
        free(making);
        return NULL;
    }
    return making;
}

bool hr_face_join(struct hr_plan_tree *tree, const char *key, uint32_t key_len, const char *etag,
                  const struct hr_asker *asker)
{
    struct hr_making *making = find(tree, key, key_len, etag);
    if (making && asker) {
        hr_waiters_add(&making->waiters, asker);
    }
    return making != NULL;
}

/* NULL when its file is missing or foreign: then it is dropped. */
static const struct hr_cached *checked(struct hr_plan *plan, const struct hr_cached *cached)
{
    if (cached && !hr_open_file_is_there(plan, cached)) {
        hr_cache_drop(plan->cache, cached->file_id);
        return NULL;
    }
    return cached;
}

bool hr_face_want(struct hr_plan_tree *tree, const char *key, uint32_t key_len, const char *etag,
                  uint64_t size, int64_t mtime_ns, const struct hr_asker *asker)
{
    struct hr_cache *cache = tree->plan->cache;
    const struct hr_cached *cached =
        checked(tree->plan, hr_cache_find(cache, &tree->source, key, key_len, etag));
    cached = cached ? cached : checked(tree->plan, hr_cache_face(cache, &tree->source, key, key_len, etag));
    if (cached) {
        struct hr_answer answer = answer_of(cached);
        tell_trees(tree->plan, cached);
        if (asker) {
            asker->fn(asker->owner, asker->ticket, &answer);
        }
        return false;
    }
    if (hr_face_join(tree, key, key_len, etag, asker)) {
        return false;
    }
    struct hr_making *making = new_making(tree, key, key_len, etag);
    if (!making) {
        hr_answer_error(asker, -ENOMEM);
        return false;
    }
    if (asker) {
        hr_waiters_add(&making->waiters, asker);
    }
    struct hr_put_options what = {
        .key = key, .key_len = key_len, .etag = etag, .size = size, .mtime_ns = mtime_ns};
    int error = make(making, &what);
    if (error < 0) {
        failed(making, error == -EINVAL || error == -EAGAIN ? -EIO : error);
    }
    return true;
}

void hr_faces_free(struct hr_plan *plan)
{
    struct hr_making *making, *next;
    struct hr_answer cancelled = {.error = -ECANCELED};
    HASH_ITER(hh, plan->makings, making, next)
    {
        end_with(plan, making, &cancelled);
    }
}
