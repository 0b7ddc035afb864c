#include "fetch/plan/siblings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/plan/names.h"

#define HR_SIBLINGS_MAX 1024u     /* kept of one folder: a page of a listing, or so */
#define HR_SIBLINGS_LOOKED 16384u /* names of an index that are looked at for them */

uint32_t hr_sibling_folder(const char *key, uint32_t key_len)
{
    const char *slash = memrchr(key, '/', key_len);
    return slash ? (uint32_t)(slash - key) + 1 : 0;
}

const char *hr_sibling_suffix(const char *key, uint32_t key_len, uint32_t *ret_len)
{
    uint32_t folder = hr_sibling_folder(key, key_len);
    const char *end = key + key_len;
    const char *dot = memrchr(key + folder, '.', key_len - folder);
    const char *suffix = dot ? dot + 1 : end;
    const char *dash = memchr(suffix, '-', (size_t)(end - suffix));
    *ret_len = (uint32_t)((dash ? dash : end) - suffix);
    return suffix;
}

uint64_t hr_sibling_name(const char *key, uint32_t key_len)
{
    return hr_index_hash_seeded(0, key, key_len);
}

void hr_siblings_free(struct hr_siblings *siblings)
{
    for (uint32_t i = 0; i < siblings->count; i++) {
        free(siblings->list[i].key);
    }
    free(siblings->list);
    *siblings = (struct hr_siblings){0};
}

static bool has_suffix_of(const char *key, uint32_t key_len, const char *other, uint32_t other_len)
{
    uint32_t len, like_len;
    const char *suffix = hr_sibling_suffix(key, key_len, &len);
    const char *like = hr_sibling_suffix(other, other_len, &like_len);
    return len == like_len && memcmp(suffix, like, len) == 0;
}

/* 0, -ENOMEM, or -ENOSPC: no more are kept. */
static int add(struct hr_siblings *siblings, const char *key, uint32_t key_len, uint64_t size,
               int64_t mtime_ns, const char *etag)
{
    if (siblings->count >= HR_SIBLINGS_MAX) {
        return -ENOSPC;
    }
    if (siblings->count == siblings->room) {
        uint32_t room = siblings->room ? siblings->room * 2 : 16;
        struct hr_sibling *list = realloc(siblings->list, room * sizeof *list);
        if (!list) {
            return -ENOMEM;
        }
        siblings->list = list;
        siblings->room = room;
    }
    size_t etag_len = strlen(etag);
    char *text = malloc(key_len + 1 + etag_len + 1);
    if (!text) {
        return -ENOMEM;
    }
    memcpy(text, key, key_len);
    text[key_len] = '\0';
    memcpy(text + key_len + 1, etag, etag_len + 1);
    siblings->list[siblings->count++] = (struct hr_sibling){.name = hr_sibling_name(key, key_len),
                                                            .size = size,
                                                            .mtime_ns = mtime_ns,
                                                            .key = text,
                                                            .etag = text + key_len + 1,
                                                            .key_len = key_len};
    return 0;
}

static int ended(struct hr_siblings *siblings, int error)
{
    siblings->more = siblings->more || error == -ENOSPC;
    if (error == -ENOMEM) {
        hr_siblings_free(siblings);
        return error;
    }
    return 0;
}

/* One entry of the index, when it is such an object. */
static int add_entry(struct hr_plan_tree *tree, const char *key, uint32_t key_len, uint32_t number,
                     struct hr_siblings *ret)
{
    const struct hr_entry *entry = &tree->index.entries[number];
    char full[2 * HR_KEY_MAX], etag[136];
    uint32_t len, folder = hr_sibling_folder(key, key_len);
    const char *name = hr_index_name(&tree->index, number, &len);
    if (entry->kind != HR_KIND_FILE || folder + len > HR_KEY_MAX ||
        hr_index_etag(&tree->index, number, etag, sizeof etag) < 0 ||
        !hr_face_fits(tree->plan, entry->size, etag)) {
        return 0;
    }
    memcpy(full, key, folder);
    memcpy(full + folder, name, len);
    if (!has_suffix_of(full, folder + len, key, key_len)) {
        return 0;
    }
    return add(ret, full, folder + len, entry->size, entry->mtime_ns, etag);
}

int hr_siblings_indexed(struct hr_plan_tree *tree, const char *key, uint32_t key_len, struct hr_siblings *ret)
{
    const struct hr_index *index = &tree->index;
    uint32_t folder = hr_sibling_folder(key, key_len), prefix_len = tree->shared->prefix_len, dir = 0;
    *ret = (struct hr_siblings){0};
    if (folder < prefix_len || key_len <= prefix_len) {
        return -ENOENT; /* the map begins inside a name */
    }
    if (folder > prefix_len) {
        int error = hr_index_lookup(index, key + prefix_len, folder - 1 - prefix_len, &dir);
        if (error < 0) {
            return error;
        }
    }
    uint32_t count = hr_index_child_count(index, dir);
    uint32_t first = hr_index_seek(index, dir, key + folder, key_len - folder);
    int error = 0;
    for (uint32_t n = first; n < count && error == 0; n++) {
        error = n - first < HR_SIBLINGS_LOOKED
                    ? add_entry(tree, key, key_len, hr_index_child(index, dir, n), ret)
                    : -ENOSPC;
    }
    return ended(ret, error);
}

int hr_siblings_list(struct hr_plan_tree *tree, const char *key, uint32_t key_len,
                     void (*done)(struct hr_call *call), void *owner)
{
    uint32_t folder = hr_sibling_folder(key, key_len), prefix_len = tree->shared->prefix_len;
    if (hr_tree_list_mode(tree) == HR_LIST_NONE || key_len <= prefix_len) {
        return -EACCES;
    }
    struct hr_call *call =
        hr_call_new(HR_CALL_LIST, tree->store, key, folder > prefix_len ? folder : prefix_len);
    if (!call) {
        return -ENOMEM;
    }
    call->delimiter = "/";
    call->done = done;
    call->owner = owner;
    /* From just before it: its name less a byte. */
    call->start_after = strndup(key, key_len - 1);
    call->start_after_len = key_len - 1;
    int error = call->start_after ? hr_call_start(call) : -ENOMEM;
    if (error < 0) {
        hr_call_free(call);
    }
    return error;
}

/* A directory of the same name hides an object. */
static bool is_hidden(const struct hr_call *call, const struct hr_listed *listed)
{
    for (uint32_t i = 0; i < call->prefix_count; i++) {
        const struct hr_listed *below = &call->prefixes[i];
        if (below->key_len == listed->key_len + 1 && memcmp(below->key, listed->key, listed->key_len) == 0) {
            return true;
        }
    }
    return false;
}

int hr_siblings_listed(struct hr_plan_tree *tree, const char *key, uint32_t key_len,
                       const struct hr_call *call, struct hr_siblings *ret)
{
    uint32_t folder = hr_sibling_folder(key, key_len), prefix_len = tree->shared->prefix_len;
    int error = call->error;
    *ret = (struct hr_siblings){.more = call->truncated};
    for (uint32_t i = 0; i < call->listed_count && error == 0; i++) {
        const struct hr_listed *listed = &call->listed[i];
        if (listed->key_len > folder && listed->key_len > prefix_len && listed->key_len <= HR_KEY_MAX &&
            hr_sibling_folder(listed->key, listed->key_len) == folder &&
            memcmp(listed->key, key, folder) == 0 && hr_face_fits(tree->plan, listed->size, listed->etag) &&
            has_suffix_of(listed->key, listed->key_len, key, key_len) && !is_hidden(call, listed) &&
            hr_filter_admits(tree->filter, listed->key + prefix_len, listed->key_len - prefix_len)) {
            error = add(ret, listed->key, listed->key_len, listed->size, listed->mtime_ns, listed->etag);
        }
    }
    return error < 0 && error != -ENOSPC && error != -ENOMEM ? error : ended(ret, error);
}
