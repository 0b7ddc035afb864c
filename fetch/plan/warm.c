#include "fetch/plan/warm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "fetch/base/clock.h"
#include "fetch/plan/inner.h"

#define HR_WARM_AHEAD 512       /* pieces asked for at a time: more than are in flight, few enough to stop */
#define HR_WARM_SCAN 16384      /* entries looked at in one go: the loop must not stall */
#define HR_WARM_QUIET_MS 10000  /* nobody asks for its progress: who wanted it is gone */
#define HR_WARM_AGAIN_MS 1      /* between two goes */
#define HR_CHARGE_BYTES 4096ull /* the cache charges whole blocks (cache.h) */

/* One path that was asked for. */
struct item {
    struct item *next;
    uint32_t gen;            /* that the range belongs to; 0: not looked up */
    uint32_t at, end;        /* entries */
    uint64_t files, bytes;   /* of them that were not looked at yet */
    uint64_t charged_before; /* the warming's, when the range was found */
    uint32_t path_len;
    char path[];
};

/* One object on its way, in one piece or many. */
struct file {
    struct hr_warm *warm;
    uint64_t bytes;
    unsigned pieces; /* that are on their way, and one while more may come */
    int error;
    uint32_t path_len;
    char path[];
};

/* A large object whose cells are asked for one by one. */
struct cells {
    struct file *file;
    uint64_t face_id, at;
};

struct failed {
    int error;
    char path[];
};

struct hr_warm {
    struct hr_warm *prev, *next;
    struct hr_plan *plan;
    struct hr_plan_tree *tree;
    uint32_t id;
    struct item *items, *last;
    struct cells cells; /* file NULL: none */
    unsigned pieces;    /* on their way */
    uint64_t charged_bytes;
    int64_t asked_ms;
    struct failed *failed[HR_WARM_FAILED_MAX];
    struct hr_warm_progress progress;
    bool closed, forgotten, feeding;
};

static void feed(struct hr_warm *warm);

static void on_timer(void *owner)
{
    struct hr_plan *plan = owner;
    struct hr_warm *warm, *next;
    DL_FOREACH_SAFE(plan->warms.list, warm, next)
    {
        feed(warm);
    }
    hr_plan_pump(plan);
}

static void drop_items(struct hr_warm *warm)
{
    while (warm->items) {
        struct item *next = warm->items->next;
        free(warm->items);
        warm->items = next;
    }
    warm->last = NULL;
}

static void end(struct hr_warm *warm)
{
    DL_DELETE(warm->plan->warms.list, warm);
    for (unsigned i = 0; i < HR_WARM_FAILED_MAX; i++) {
        free(warm->failed[i]);
    }
    drop_items(warm);
    free(warm);
}

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

static void note_failed(struct hr_warm *warm, const char *path, uint32_t path_len, int error)
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
    drop_items(warm);
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
        note_failed(warm, file->path, file->path_len, file->error);
    }
    free(file);
}

static void answered(struct file *file, uint64_t bytes, int error)
{
    struct hr_warm *warm = file->warm;
    warm->pieces--;
    warm->progress.there_bytes += error == 0 ? bytes : 0;
    piece_done(file, error);
    feed(warm);
    hr_plan_pump(warm->plan);
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

/* False: the rest would push out what was brought. */
static bool take_room(struct hr_warm *warm, uint64_t bytes)
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

/* The next cell of the large object. */
static void bring_cell(struct hr_warm *warm)
{
    struct hr_plan *plan = warm->plan;
    struct cells *cells = &warm->cells;
    struct file *file = cells->file;
    const struct hr_cached *face = hr_cache_by_id(plan->cache, cells->face_id);
    uint64_t left = file->bytes - cells->at;
    uint64_t bytes = left < HR_CELL_BYTES ? left : HR_CELL_BYTES;
    int error = !face || face->kind != HR_CACHED_FACE ? -ESTALE : take_room(warm, bytes) ? 0 : -ENOSPC;
    const struct hr_cached *there =
        error == 0 ? hr_cache_segment(plan->cache, cells->face_id, cells->at) : NULL;
    struct hr_want *want = NULL;
    if (there && there->offset + there->size >= cells->at + bytes) {
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
        int error = take_room(warm, file->bytes) ? 0 : -ENOSPC;
        hr_cache_touch(warm->plan->cache, answer->file_id);
        warm->progress.there_bytes += error == 0 ? file->bytes : 0;
        piece_done(file, error);
    } else {
        piece_done(file, answer->error);
    }
    feed(warm);
    hr_plan_pump(warm->plan);
}

/* ---- entries ---- */

/* True: it is there, nothing is to be fetched. */
static bool is_resident(struct hr_warm *warm, uint32_t number)
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

static void bring(struct hr_warm *warm, uint32_t number)
{
    struct hr_plan_tree *tree = warm->tree;
    const struct hr_entry *entry = &tree->index.entries[number];
    char path[HR_KEY_MAX + 1], etag[136], key[2 * HR_KEY_MAX];
    int len = hr_index_path(&tree->index, number, path, sizeof path);
    if (len < 0 || hr_index_etag(&tree->index, number, etag, sizeof etag) < 0) {
        note_failed(warm, "", 0, -EIO);
        return;
    }
    struct file *file = new_file(warm, path, (uint32_t)len, entry->size);
    if (!file || hr_tree_denied(tree)) {
        note_failed(warm, path, (uint32_t)len, file ? -EACCES : -ENOMEM);
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

static void look_at(struct hr_warm *warm, struct item *item)
{
    uint32_t number = item->at++;
    const struct hr_entry *entry = &warm->tree->index.entries[number];
    bool large = entry->size > warm->plan->options.small_max_bytes;
    if (entry->kind != HR_KIND_FILE) {
        return;
    }
    item->files--;
    item->bytes -= entry->size;
    if (is_resident(warm, number)) { /* no room: the item is gone afterwards */
        if (take_room(warm, entry->size)) {
            warm->progress.there_files++;
            warm->progress.there_bytes += entry->size;
        }
    } else if (large || take_room(warm, entry->size)) { /* a large one takes room cell by cell */
        bring(warm, number);
    }
}

/* ---- paths ---- */

/* The entries of a path; again when another listing came meanwhile. */
static bool look_up(struct hr_warm *warm, struct item *item)
{
    const struct hr_index *index = &warm->tree->index;
    uint32_t entry;
    if (item->gen) { /* of the older listing; what was brought by it is found again */
        warm->progress.files -= item->files;
        warm->progress.bytes -= item->bytes;
        warm->charged_bytes = item->charged_before;
    }
    int error = hr_index_lookup(index, item->path, item->path_len, &entry);
    if (error < 0) {
        warm->progress.files++;
        note_failed(warm, item->path, item->path_len, error);
        return false;
    }
    const struct hr_dir *dir = hr_index_dir(index, entry);
    item->gen = index->names->gen;
    item->at = dir ? dir->first : entry;
    item->end = hr_index_end(index, entry);
    item->charged_before = warm->charged_bytes;
    item->files = item->bytes = 0;
    for (uint32_t i = item->at; i < item->end; i++) {
        bool file = index->entries[i].kind == HR_KIND_FILE;
        item->files += file;
        item->bytes += file ? index->entries[i].size : 0;
    }
    warm->progress.files += item->files;
    warm->progress.bytes += item->bytes;
    return true;
}

/* The first item, its range of the present listing; NULL: nothing is left. */
static struct item *current_item(struct hr_warm *warm)
{
    while (warm->items) {
        struct item *item = warm->items;
        bool known = item->gen == warm->tree->index.names->gen || look_up(warm, item);
        if (known && item->at < item->end) {
            return item;
        }
        warm->items = item->next;
        warm->last = warm->items ? warm->last : NULL;
        free(item);
    }
    return NULL;
}

static void feed(struct hr_warm *warm)
{
    struct hr_plan *plan = warm->plan;
    if (warm->feeding || plan->ending || !warm->tree->index.names) {
        return;
    }
    warm->feeding = true;
    unsigned scanned = 0;
    while (!warm->forgotten && !warm->progress.full && warm->pieces < HR_WARM_AHEAD &&
           scanned++ < HR_WARM_SCAN) {
        if (warm->cells.file) {
            bring_cell(warm);
            continue;
        }
        struct item *item = current_item(warm);
        if (!item) {
            break;
        }
        look_at(warm, item);
    }
    warm->feeding = false;
    if (warm->cells.file && (warm->forgotten || warm->progress.full)) {
        struct file *file = warm->cells.file;
        warm->cells.file = NULL;
        piece_done(file, -ENOSPC);
    }
    if (scanned > HR_WARM_SCAN) {
        (void)hr_loop_arm(plan->options.loop, &plan->warms.timer, HR_WARM_AGAIN_MS);
    }
    warm->progress.finished = !warm->items && !warm->cells.file && warm->pieces == 0;
}

/* ---- the front door ---- */

static struct hr_warm *find(struct hr_plan *plan, uint32_t id)
{
    struct hr_warm *warm;
    DL_FOREACH(plan->warms.list, warm)
    {
        if (warm->id == id && !warm->forgotten) {
            return warm;
        }
    }
    return NULL;
}

static struct hr_warm *new_warm(struct hr_plan *plan, struct hr_plan_tree *tree)
{
    struct hr_warm *warm = calloc(1, sizeof *warm);
    if (warm) {
        warm->plan = plan;
        warm->tree = tree;
        warm->id = ++plan->warms.last_id;
        if (plan->warms.timer.fn == NULL) {
            plan->warms.timer = (struct hr_timer)HR_TIMER_INIT(on_timer, plan);
        }
        DL_APPEND(plan->warms.list, warm);
    }
    return warm;
}

int hr_warm_add(struct hr_plan *plan, uint32_t number, const char *path, uint32_t path_len, uint32_t *id)
{
    struct hr_plan_tree *tree = hr_tree_get(plan, number);
    struct hr_warm *warm = *id ? find(plan, *id) : NULL;
    if (plan->ending) {
        return -ECANCELED;
    }
    if (!tree || path_len > HR_KEY_MAX || (*id && (!warm || warm->tree != tree || warm->closed))) {
        return -EINVAL;
    }
    if (!tree->index.names) {
        return -EAGAIN;
    }
    struct item *item = calloc(1, sizeof *item + path_len + 1);
    warm = item && !warm ? new_warm(plan, tree) : warm;
    if (!item || !warm) {
        free(item);
        return -ENOMEM;
    }
    item->path_len = path_len;
    memcpy(item->path, path, path_len);
    if (warm->last) {
        warm->last->next = item;
    } else {
        warm->items = item;
    }
    warm->last = item;
    warm->progress.finished = false;
    warm->asked_ms = hr_clock_ms();
    *id = warm->id;
    return 0;
}

void hr_warm_close(struct hr_plan *plan, uint32_t id)
{
    struct hr_warm *warm = find(plan, id);
    if (warm) {
        warm->closed = true;
        feed(warm);
        hr_plan_pump(plan);
    }
}

int hr_warm_progress(struct hr_plan *plan, uint32_t id, struct hr_warm_progress *ret)
{
    struct hr_warm *warm = find(plan, id);
    if (!warm) {
        return -ENOENT;
    }
    warm->asked_ms = hr_clock_ms();
    *ret = warm->progress;
    ret->finished = ret->finished && warm->closed;
    return 0;
}

const char *hr_warm_failed(struct hr_plan *plan, uint32_t id, unsigned n, int *ret_error)
{
    struct hr_warm *warm = find(plan, id);
    const struct failed *failed = warm && n < HR_WARM_FAILED_MAX ? warm->failed[n] : NULL;
    if (!failed) {
        return NULL;
    }
    *ret_error = failed->error;
    return failed->path;
}

void hr_warm_forget(struct hr_plan *plan, uint32_t id)
{
    struct hr_warm *warm = find(plan, id);
    if (warm) {
        warm->forgotten = true;
        drop_items(warm);
        feed(warm);
    }
}

void hr_warm_tick(struct hr_plan *plan)
{
    int64_t now_ms = hr_clock_ms();
    struct hr_warm *warm, *next;
    DL_FOREACH_SAFE(plan->warms.list, warm, next)
    {
        if (!warm->forgotten && now_ms - warm->asked_ms > HR_WARM_QUIET_MS) {
            hr_warm_forget(plan, warm->id);
        } else {
            feed(warm);
        }
        if (warm->forgotten && warm->pieces == 0) {
            end(warm);
        }
    }
}

void hr_warm_free(struct hr_plan *plan)
{
    if (plan->warms.timer.fn) {
        hr_loop_disarm(plan->options.loop, &plan->warms.timer);
    }
    while (plan->warms.list) {
        struct hr_warm *warm = plan->warms.list;
        free(warm->cells.file);
        end(warm);
    }
}
