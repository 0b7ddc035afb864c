/* One entry of a warming: asked for whole, or cell by cell. */
#include "fetch/plan/warm_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define HR_CHARGE_BYTES 4096ull /* the cache charges whole blocks (cache.h) */

/* ---- files ---- */

static struct file *new_file(struct hr_warm *warm, const char *path, uint32_t path_len, uint64_t bytes)
{
    struct file *file = malloc(sizeof *file + path_len + 1);
    if (file) {
        *file = (struct file){.warm = warm, .bytes = bytes, .pieces = 1, .path_len = path_len};
        memcpy(file->path, path, path_len);
        file->path[path_len] = '\0';
    }
    return file;
}

void hr_warm_note_failed(struct hr_warm *warm, const char *path, uint32_t path_len, int error)
{
    uint64_t n = warm->progress.failed++;
    struct failed *failed = n < HR_WARM_FAILED_MAX ? malloc(sizeof *failed + path_len + 1) : NULL;
    if (failed) {
        failed->error = error;
        memcpy(failed->path, path, path_len);
        failed->path[path_len] = '\0';
        warm->failed[n] = failed;
    }
}

/* No room is the end of the whole warming, and no fault of the file. */
static void stop_full(struct hr_warm *warm)
{
    warm->progress.full = true;
}

static void piece_done(struct file *file, int error)
{
    struct hr_warm *warm = file->warm;
    file->error = error < 0 ? error : file->error;
    if (--file->pieces > 0) {
        return;
    }
    if (file->error == 0) {
        warm->progress.there_files++;
    } else if (file->error == -ENOSPC) {
        stop_full(warm);
    } else {
        hr_warm_note_failed(warm, file->path, file->path_len, file->error);
    }
    free(file);
}

static void answered(struct file *file, uint64_t bytes, int error)
{
    struct hr_warm *warm = file->warm;
    warm->pieces--;
    warm->progress.there_bytes += error == 0 ? bytes : 0;
    piece_done(file, error);
    warm->landed(warm);
}

static void object_answered(void *owner, uint32_t ticket, const struct hr_answer *answer)
{
    struct file *file = owner;
    (void)ticket;
    answered(file, file->bytes, answer->error);
}

static void cell_answered(void *owner, uint32_t ticket, const struct hr_answer *answer)
{
    (void)ticket;
    answered(owner, answer->size, answer->error);
}

/* ---- room ---- */

/* What the cache may hold, the space that it leaves to others considered. */
static uint64_t room_bytes(const struct hr_plan *plan)
{
    struct hr_cache_stats cache;
    (void)hr_cache_make_room(plan->cache, 0); /* looks how much is free, when it is time to */
    hr_cache_stats(plan->cache, &cache);
    return cache.room_bytes;
}

bool hr_warm_take_room(struct hr_warm *warm, uint64_t bytes)
{
    uint64_t charge =
        bytes ? (bytes + HR_CHARGE_BYTES - 1) / HR_CHARGE_BYTES * HR_CHARGE_BYTES : HR_CHARGE_BYTES;
    uint64_t all = charge;
    struct hr_warm *other;
    DL_FOREACH(warm->plan->warms.list, other)
    {
        all += other->charged_bytes;
    }
    if (all > room_bytes(warm->plan)) {
        stop_full(warm);
        return false;
    }
    warm->charged_bytes += charge;
    return true;
}

/* ---- large objects ---- */

void hr_warm_bring_cell(struct hr_warm *warm)
{
    struct hr_plan *plan = warm->plan;
    struct cells *cells = &warm->cells;
    struct file *file = cells->file;
    const struct hr_cached *face = hr_cache_by_id(plan->cache, cells->face_id);
    uint64_t left = file->bytes - cells->at;
    uint64_t bytes = left < HR_CELL_BYTES ? left : HR_CELL_BYTES;
    int error = !face || face->kind != HR_CACHED_FACE ? -ESTALE
                : hr_warm_take_room(warm, bytes)      ? 0
                                                      : -ENOSPC;
    const struct hr_cached *there =
        error == 0 ? hr_cache_segment(plan->cache, cells->face_id, cells->at) : NULL;
    struct hr_want *want = NULL;
    if (there && hr_cached_offset(there) + there->size >= cells->at + bytes) {
        hr_cache_touch(plan->cache, there->file_id);
        warm->progress.there_bytes += bytes;
    } else if (error == 0) {
        want = hr_want_add_range(warm->tree, face, HR_WANT_SEGMENT, HR_REASON_HINT, cells->at, bytes);
        error = want ? 0 : -ENOMEM;
    }
    cells->at += bytes;
    if (error < 0 || cells->at >= file->bytes) {
        cells->file = NULL;
    }
    if (want) {
        struct hr_asker asker = {.fn = cell_answered, .owner = file};
        file->pieces++;
        warm->pieces++;
        hr_waiters_add(&want->waiters, &asker);
    }
    if (!cells->file) {
        piece_done(file, error);
    }
}

void hr_warm_leave_cells(struct hr_warm *warm)
{
    struct file *file = warm->cells.file;
    warm->cells.file = NULL;
    piece_done(file, -ENOSPC);
}

/* The face of a large object, or the whole of it, is there. */
static void face_answered(void *owner, uint32_t ticket, const struct hr_answer *answer)
{
    struct file *file = owner;
    struct hr_warm *warm = file->warm;
    (void)ticket;
    warm->pieces--;
    if (answer->error == 0 && answer->flags & HR_ANSWER_FACE) {
        warm->cells = (struct cells){.file = file, .face_id = answer->file_id};
    } else if (answer->error == 0) {
        int error = hr_warm_take_room(warm, file->bytes) ? 0 : -ENOSPC;
        hr_cache_touch(warm->plan->cache, answer->file_id);
        warm->progress.there_bytes += error == 0 ? file->bytes : 0;
        piece_done(file, error);
    } else {
        piece_done(file, answer->error);
    }
    warm->landed(warm);
}

/* ---- entries ---- */

bool hr_warm_is_resident(struct hr_warm *warm, uint32_t number)
{
    struct hr_plan *plan = warm->plan;
    const struct hr_state *state = &warm->tree->states->states[number];
    uint32_t word = atomic_load_explicit(&state->word, memory_order_relaxed);
    uint64_t file_id = atomic_load_explicit(&state->file_id, memory_order_relaxed);
    if (HR_STATE_KIND(word) != HR_STATE_RESIDENT) {
        return false;
    }
    if (!hr_cache_by_id(plan->cache, file_id)) {
        hr_tree_forget(warm->tree, number, file_id);
        return false;
    }
    hr_cache_touch(plan->cache, file_id);
    return true;
}

void hr_warm_bring(struct hr_warm *warm, uint32_t number)
{
    struct hr_plan_tree *tree = warm->tree;
    const struct hr_entry *entry = &tree->index.entries[number];
    char path[HR_KEY_MAX + 1], etag[136], key[2 * HR_KEY_MAX];
    int len = hr_index_path(&tree->index, number, path, sizeof path);
    if (len < 0 || hr_index_etag(&tree->index, number, etag, sizeof etag) < 0) {
        hr_warm_note_failed(warm, "", 0, -EIO);
        return;
    }
    struct file *file = new_file(warm, path, (uint32_t)len, entry->size);
    if (!file || hr_tree_denied(tree)) {
        hr_warm_note_failed(warm, path, (uint32_t)len, file ? -EACCES : -ENOMEM);
        free(file);
        return;
    }
    warm->pieces++;
    if (hr_face_fits(tree->plan, entry->size, etag) && !hr_tree_doubted(tree, number)) {
        struct hr_asker asker = {.fn = face_answered, .owner = file};
        uint32_t key_len = hr_tree_key(tree, path, (uint32_t)len, key);
        (void)hr_face_want(tree, key, key_len, etag, entry->size, entry->mtime_ns, &asker);
        return;
    }
    bool known = !hr_tree_doubted(tree, number);
    struct hr_want *want =
        hr_want_add(tree, path, (uint32_t)len, HR_REASON_HINT, known ? entry->size : HR_UNKNOWN_BYTES,
                    known ? entry->mtime_ns : 0, known ? etag : "");
    struct hr_asker asker = {.fn = object_answered, .owner = file};
    if (want) {
        hr_waiters_add(&want->waiters, &asker);
    } else {
        hr_answer_error(&asker, -ENOMEM);
    }
}
