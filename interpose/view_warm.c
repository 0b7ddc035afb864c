#include "interpose/view_warm.h"

#include <fcntl.h>
#include <stdatomic.h>

#include "interpose/live.h"
#include "interpose/sys.h"
#include "interpose/view_parts.h"
#include "interpose/inner.h"

#define PATH_BYTES 512 /* of a cache file's path; a longer cache_dir goes the long way */
/* They change nothing of what the index says of a file. */
#define PLAIN_FLAGS (O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOATIME)

/* What the index knows of a path, or an error that it tells for sure. */
struct known {
    const struct hr_live *live;
    const struct hr_tree_view *view;
    struct hr_plain plain;
    uint32_t entry;
};

static inline int find(const char *path, struct known *ret)
{
    enum hr_path_look look = hr_path_plain(path, &ret->plain);
    if (HR_UNLIKELY(look != HR_PATH_OURS)) {
        return look == HR_PATH_ODD ? HR_VIEW_LONG_WAY : HR_VIEW_ELSEWHERE;
    }
    const struct hr_live *live = hr_live_now();
    if (!live || hr_live_retired(live) || hr_path_nested[ret->plain.map] ||
        ret->plain.map >= live->session.maps->map_count) {
        return HR_VIEW_LONG_WAY;
    }
    uint32_t tree = live->session.maps->tree[ret->plain.map];
    const struct hr_tree_view *view = tree < HR_TREES_MAX ? hr_live_view(live, tree) : NULL;
    if (!view) {
        return HR_VIEW_LONG_WAY;
    }
    ret->live = live;
    ret->view = view;
    int error =
        hr_index_lookup(&view->index, path + ret->plain.rel, ret->plain.len - ret->plain.rel, &ret->entry);
    return error == -ENAMETOOLONG ? HR_VIEW_LONG_WAY : error; /* which error depends on what is above it */
}

int hr_view_open_warm(const char *path, int flags)
{
    struct known known;
    char file[PATH_BYTES];
    int error = find(path, &known);
    if (HR_UNLIKELY(error)) {
        /* An error may be another one's with other flags. */
        return error > HR_VIEW_LONG_WAY && (flags & ~PLAIN_FLAGS) ? HR_VIEW_LONG_WAY : error;
    }
    if ((flags & ~PLAIN_FLAGS) || known.plain.must_be_dir) {
        return HR_VIEW_LONG_WAY;
    }
    const struct hr_state *state = &known.view->states->states[known.entry];
    /* No directory's ever says so. */
    if (HR_STATE_KIND(atomic_load_explicit(&state->word, memory_order_acquire)) != HR_STATE_RESIDENT) {
        return HR_VIEW_LONG_WAY;
    }
    uint64_t id = atomic_load_explicit(&state->file_id, memory_order_acquire);
    if (hr_live_file_path(known.live, id, file, sizeof(file)) < 0) {
        return HR_VIEW_LONG_WAY;
    }
    int fd = (int)HR_SYS4(SYS_openat, AT_FDCWD, file, O_RDONLY | flags, 0);
    if (fd < 0) {
        return HR_VIEW_LONG_WAY; /* evicted, or an error that will be met again */
    }
    hr_view_note_use(&known.live->session, known.view, known.entry);
    return fd;
}

int hr_view_stat_warm(const char *path, struct stat *ret)
{
    struct known known;
    struct hr_object object;
    int error = find(path, &known);
    if (error) {
        return error;
    }
    const struct hr_plain *plain = &known.plain;
    const struct hr_entry *entry = &known.view->index.entries[known.entry];
    if (plain->len == plain->rel || hr_view_by_name(known.view, known.entry)) {
        return HR_VIEW_LONG_WAY; /* a root's inode number is of another text */
    }
    if (plain->must_be_dir && entry->kind != HR_KIND_DIR) {
        return -ENOTDIR;
    }
    hr_view_fill(&object, plain->map, &known.live->session.control->trees[known.view->tree], entry->kind,
                 entry->size, entry->mtime_ns);
    object.ino = hr_object_ino_tail(known.view->ino_head, path + plain->rel, plain->len - plain->rel);
    hr_view_stat(&object, ret);
    return 0;
}
