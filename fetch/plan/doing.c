#include "fetch/plan/doing.h"

#include <errno.h>
#include <string.h>
#include <utlist.h>

#include "fetch/plan/inner.h"
#include "fetch/store/width.h"

/* Why a queued want does not start: the limits, in the order in which they are met. */
static enum hr_doing_state queued_by(const struct hr_plan *plan, const struct hr_want *want)
{
    if (want->hindrance.no_room && !want->put) {
        return HR_DOING_ROOM;
    }
    if (plan->stats.in_flight >= plan->options.connections) {
        return HR_DOING_CONNECTION;
    }
    if (plan->stats.memory_bytes > 0 &&
        plan->stats.memory_bytes + hr_fetch_cost(plan, want) > plan->options.memory_bytes) {
        return HR_DOING_MEMORY;
    }
    return HR_DOING_WIDTH;
}

static void describe(const struct hr_want *want, struct hr_doing *ret)
{
    ret->reason = want->reason;
    ret->calls = want->calls;
    ret->range_first = want->kind == HR_WANT_SEGMENT ? want->first : 0;
    ret->range_bytes = want->kind == HR_WANT_SEGMENT ? want->size : 0;
    ret->object_bytes = want->kind == HR_WANT_SEGMENT    ? want->object_bytes
                        : want->size == HR_UNKNOWN_BYTES ? 0
                                                         : want->size;
    if (want->state == HR_WANT_WRITING) {
        ret->state = HR_DOING_WRITING;
        return;
    }
    for (unsigned n = 0;
         hr_calls_doing(want->tree->store, HR_CALL_GET, want->key, want->key_len, n, &ret->call); n++) {
        bool outside = want->kind == HR_WANT_SEGMENT && ret->call.range_bytes &&
                       (ret->call.range_first + ret->call.range_bytes <= want->first ||
                        ret->call.range_first >= want->first + want->size);
        if (!outside) {
            ret->state = HR_DOING_CALL;
            return;
        }
    }
    ret->state = want->state == HR_WANT_QUEUED ? queued_by(want->plan, want) : HR_DOING_WRITING;
}

static void fill_tree(const struct hr_plan_tree *tree, struct hr_doing *ret)
{
    *ret = (struct hr_doing){
        .bucket = hr_store_bucket(tree->store),
        .prefix = tree->shared->prefix,
        .prefix_len = tree->shared->prefix_len,
    };
}

static void listing(const struct hr_plan_tree *tree, struct hr_doing *ret)
{
    struct hr_lister_progress progress;
    if (!tree->lister) {
        return;
    }
    hr_lister_progress(tree->lister, &progress);
    ret->pages = progress.pages;
    ret->keys = progress.keys;
    ret->state = HR_DOING_LISTING;
    (void)hr_calls_doing(tree->store, HR_CALL_LIST, tree->shared->prefix, tree->shared->prefix_len, 0,
                         &ret->call);
}

bool hr_plan_doing(struct hr_plan *plan, enum hr_op op, uint32_t number, const char *path, uint32_t path_len,
                   struct hr_doing *ret)
{
    struct hr_plan_tree *tree = hr_tree_get(plan, number);
    char key[2 * HR_KEY_MAX + 1];
    if (!tree) {
        return false;
    }
    fill_tree(tree, ret);
    if (op == HR_OP_LIST) {
        listing(tree, ret);
        return true;
    }
    uint32_t key_len = hr_tree_key(tree, path, path_len, key);
    struct hr_want *want = op == HR_OP_LOOK ? NULL : hr_want_find(tree, path, path_len);
    if (want) {
        describe(want, ret);
        return true;
    }
    /* A name that is looked at: itself, then what is below it. */
    bool asked = hr_calls_doing(tree->store, HR_CALL_LIST, key, key_len, 0, &ret->call);
    if (!asked) {
        key[key_len++] = '/';
        asked = hr_calls_doing(tree->store, HR_CALL_LIST, key, key_len, 0, &ret->call);
    }
    ret->state = asked ? HR_DOING_CALL : HR_DOING_NOTHING;
    return true;
}

bool hr_plan_doing_bytes(struct hr_plan *plan, const struct hr_segment_ask *ask, bool whole,
                         struct hr_doing *ret, char *ret_key, uint32_t *ret_key_len)
{
    const struct hr_cached *face = plan->cache ? hr_cache_by_id(plan->cache, ask->face_id) : NULL;
    if (!face || face->kind != HR_CACHED_FACE) {
        return false;
    }
    *ret_key_len = face->key_len < 2 * HR_KEY_MAX ? face->key_len : 2 * HR_KEY_MAX;
    memcpy(ret_key, hr_cached_key(face), *ret_key_len);
    *ret = (struct hr_doing){.bucket = "", .prefix = ""};
    for (uint32_t i = 0; i < plan->tree_count; i++) {
        struct hr_plan_tree *tree = plan->trees[i];
        if (!hr_tree_has_source(tree, face->source)) {
            continue;
        }
        ret->bucket = hr_store_bucket(tree->store);
        struct hr_want *want = hr_want_cell(tree, ask->face_id, whole ? UINT64_MAX : ask->offset);
        while (want && !whole && (ask->offset < want->first || ask->offset >= want->first + want->size)) {
            want = want->cell_next;
        }
        if (want) {
            describe(want, ret);
            return true;
        }
    }
    ret->object_bytes = face->size;
    return true;
}

int hr_plan_entry_path(struct hr_plan *plan, uint32_t number, uint32_t gen, uint32_t entry, char *ret_path,
                       size_t room)
{
    struct hr_plan_tree *tree = hr_tree_get(plan, number);
    if (!tree || !tree->index.names || tree->index.names->gen != gen ||
        entry >= tree->index.names->entry_count) {
        return -ENOENT;
    }
    return hr_index_path(&tree->index, entry, ret_path, room);
}

void hr_plan_queued(const struct hr_plan *plan, unsigned ret[HR_REASON_COUNT])
{
    const struct hr_lane *lane;
    const struct hr_want *want;
    memset(ret, 0, HR_REASON_COUNT * sizeof *ret);
    DL_FOREACH(plan->lanes, lane)
    {
        for (unsigned reason = 0; reason < HR_REASON_COUNT; reason++) {
            DL_FOREACH(lane->queue[reason], want)
            {
                ret[reason]++;
            }
        }
    }
}

void hr_plan_limits(const struct hr_plan *plan, unsigned *ret_connections, uint64_t *ret_memory_bytes)
{
    *ret_connections = plan->options.connections;
    *ret_memory_bytes = plan->options.memory_bytes;
}
