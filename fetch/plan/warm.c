#include "fetch/plan/warm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "fetch/base/clock.h"
#include "fetch/plan/warm_inside.h"

#define HR_WARM_AHEAD 512      /* pieces asked for at a time: more than are in flight, few enough to stop */
#define HR_WARM_SCAN 16384     /* entries looked at in one go: the loop must not stall */
#define HR_WARM_QUIET_MS 10000 /* nobody asks for its progress: who wanted it is gone */
#define HR_WARM_AGAIN_MS 1     /* between two goes */

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

static void feed(struct hr_warm *warm);

static void landed(struct hr_warm *warm)
{
    feed(warm);
    hr_plan_pump(warm->plan);
}

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
    if (hr_warm_is_resident(warm, number)) {
        if (hr_warm_take_room(warm, entry->size)) {
            warm->progress.there_files++;
            warm->progress.there_bytes += entry->size;
        }
    } else if (large || hr_warm_take_room(warm, entry->size)) { /* a large one takes room cell by cell */
        hr_warm_bring(warm, number);
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
        hr_warm_note_failed(warm, item->path, item->path_len, error);
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
            hr_warm_bring_cell(warm);
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
        hr_warm_leave_cells(warm);
    }
    if (warm->progress.full) {
        drop_items(warm);
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
        warm->landed = landed;
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
