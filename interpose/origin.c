#include "interpose/origin.h"

#include "interpose/context.h"
#include "interpose/identity.h"
#include "interpose/inner.h"

static bool holds(const struct hr_tree_view *view, uint32_t entry, uint64_t file_id)
{
    const struct hr_state *state = &view->states->states[entry];
    unsigned kind = HR_STATE_KIND(atomic_load_explicit(&state->word, memory_order_acquire));
    return (kind == HR_STATE_RESIDENT || kind == HR_STATE_FACE) &&
           atomic_load_explicit(&state->file_id, memory_order_acquire) == file_id;
}

/* The newest notes first: who asks has just opened it. */
static bool find_noted(const struct hr_tree_view *view, uint64_t file_id, uint32_t *ret_entry)
{
    uint32_t head = atomic_load_explicit(&view->uses->head, memory_order_relaxed);
    for (uint32_t i = 1; i <= HR_USES_RING && i <= head; i++) {
        uint64_t use =
            atomic_load_explicit(&view->uses->ring[(head - i) % HR_USES_RING], memory_order_relaxed);
        uint32_t entry = HR_USE_ENTRY(use);
        if (entry < view->index.names->entry_count && holds(view, entry, file_id)) {
            *ret_entry = entry;
            return true;
        }
    }
    return false;
}

static bool find_entry(const struct hr_tree_view *view, uint64_t file_id, uint32_t *ret_entry)
{
    if (find_noted(view, file_id, ret_entry)) {
        return true;
    }
    for (uint32_t entry = 0; entry < view->index.names->entry_count; entry++) {
        if (holds(view, entry, file_id)) {
            *ret_entry = entry;
            return true;
        }
    }
    return false;
}

static bool name(unsigned map, const struct hr_tree_view *view, uint32_t entry, struct hr_place *ret)
{
    size_t root = hr_maps.map[map].path_len;
    memcpy(ret->path, hr_maps.map[map].path, root);
    ret->path[root] = '/';
    int len = hr_index_path(&view->index, entry, ret->path + root + 1, sizeof(ret->path) - root - 1);
    if (len <= 0) {
        return false;
    }
    ret->map = map;
    ret->rel = (uint32_t)root + 1;
    ret->len = ret->rel + (uint32_t)len;
    ret->must_be_dir = false;
    return true;
}

bool hr_origin_of(int fd, struct hr_place *ret)
{
    struct hr_identity identity;
    struct hr_session session;
    const struct hr_tree_view *view;
    uint32_t entry;
    if (!hr_identity_of(fd, &identity) || !hr_session_peek(&session)) {
        return false;
    }
    for (uint32_t map = 0; map < session.maps->map_count && map < hr_maps.count; map++) {
        uint32_t tree = session.maps->tree[map];
        if (tree < HR_TREES_MAX && session.control->trees[tree].dev == identity.dev &&
            hr_session_tree(&session, tree, &view) == 0 && find_entry(view, identity.file_id, &entry) &&
            name(map, view, entry, ret)) {
            return true;
        }
    }
    return false;
}
