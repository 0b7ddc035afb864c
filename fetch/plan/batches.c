/* Batches as they come and go: parts put together, and what is over, was left, or stood for other files than
 * it seemed given up. */
#include "fetch/plan/guide.h"

#include <stdlib.h>
#include <utlist.h>

#define HR_GUIDE_INDICES_MAX 65536 /* kept of one job; the oldest batches go first */
#define HR_STREAM_BATCHES_MAX 16   /* that one worker has before it; loaders prefetch 2 */
/* Opens after which a batch is given up: all that was announced may come first. */
#define HR_ABANDON_OPENS 1024
#define HR_ABANDON_FACTOR 4

/* What it brought and nobody opened has no claim any more. */
static void abandon(const struct batch *batch)
{
    for (uint32_t i = 0; hr_batch_usable(batch) && i < batch->count; i++) {
        uint32_t entry = hr_batch_entry(batch, i);
        if (batch->base.tree->marks[entry] & HR_ENTRY_ANNOUNCED) {
            hr_sweep_abandon(batch->base.tree, entry);
        }
    }
}

void hr_batch_drop(struct hr_guide *guide, struct batch *batch, bool abandoned)
{
    if (abandoned) {
        abandon(batch);
    }
    DL_DELETE(guide->batches, batch);
    guide->indices -= batch->count;
    free(batch);
}

void hr_batches_retract(struct hr_guide *guide, uint64_t stream, bool anew)
{
    struct batch *batch, *next;
    DL_FOREACH_SAFE(guide->batches, batch, next)
    {
        if (batch->stream != stream || !batch->issued || batch->by_table) {
            continue;
        }
        if (!anew || batch->is_others || batch->is_over) {
            hr_batch_drop(guide, batch, true);
            continue;
        }
        abandon(batch);
        batch->issued = false;
        batch->others = 0;
    }
}

/* How much of it was opened since it was announced. */
uint32_t hr_batch_touched(const struct batch *batch)
{
    uint32_t count = 0;
    for (uint32_t i = 0; hr_batch_usable(batch) && i < batch->count; i++) {
        count += !(batch->base.tree->marks[hr_batch_entry(batch, i)] & HR_ENTRY_ANNOUNCED);
    }
    return count;
}

/* Its worker is done with it: what was taken for other files of its samples should have been opened, too. */
static void judge_others(struct hr_plan *plan, struct hr_guide *guide, const struct batch *batch)
{
    const struct batch *other;
    if (batch->others == 0 || batch->count < HR_FIRST_FILES || hr_batch_touched(batch) <= batch->count / 2) {
        return;
    }
    DL_FOREACH(guide->batches, other)
    {
        if (other->is_others && other->stream == batch->stream && other->number == batch->number &&
            hr_batch_usable(other) && hr_batch_touched(other) == 0) {
            hr_base_unlink(plan, guide, hr_base_find(guide, &batch->base), &other->base);
        }
    }
}

/* Nobody opened any of it, and many others: its worker's indices may stand for other files. */
static void judge(struct hr_guide *guide, const struct batch *batch)
{
    for (unsigned i = 0; i < guide->stream_count; i++) {
        if (guide->streams[i].id == batch->stream && !batch->is_others && hr_batch_touched(batch) == 0) {
            guide->streams[i].base = -1;
        }
    }
}

/* Of an epoch that was left, or of a loader that lies. */
void hr_batches_drop_abandoned(struct hr_guide *guide)
{
    struct batch *batch, *next;
    DL_FOREACH_SAFE(guide->batches, batch, next)
    {
        uint64_t patience = HR_ABANDON_OPENS + HR_ABANDON_FACTOR * (uint64_t)guide->indices;
        if (hr_batch_usable(batch) && batch->base.tree->noted - batch->noted_at > patience) {
            judge(guide, batch);
            hr_batch_drop(guide, batch, true);
        }
    }
}

/* Has its worker begun with it? */
static bool is_begun(const struct batch *batch)
{
    bool begun = false;
    for (uint32_t i = 0; hr_batch_usable(batch) && i < HR_FIRST_FILES && i < batch->count && !begun; i++) {
        begun = !(batch->base.tree->marks[hr_batch_entry(batch, i)] & HR_ENTRY_ANNOUNCED);
    }
    return begun;
}

/* A loader counts its batches from 0 in each epoch: what an earlier one left behind is not coming. A worker
 * that has begun with one batch has done those before. */
void hr_batches_drop_stale(struct hr_plan *plan, struct hr_guide *guide, uint64_t stream, uint32_t number)
{
    struct batch *batch, *next;
    unsigned count = 0;
    uint32_t begun = 0; /* number of the last that is */
    DL_FOREACH(guide->batches, batch)
    {
        count += batch->stream == stream && !batch->is_others;
        begun = batch->stream == stream && !batch->is_others && is_begun(batch) ? batch->number : begun;
    }
    DL_FOREACH_SAFE(guide->batches, batch, next)
    {
        bool before = batch->issued && batch->number < begun,
             many = batch->issued && count > HR_STREAM_BATCHES_MAX;
        if (batch->stream == stream && (batch->number >= number || batch->is_over || before || many)) {
            count -= !batch->is_others;
            if (before && !batch->is_others) {
                judge_others(plan, guide, batch);
            }
            hr_batch_drop(guide, batch, true);
        }
    }
    while (guide->indices > HR_GUIDE_INDICES_MAX && guide->batches) {
        hr_batch_drop(guide, guide->batches, true);
    }
}

struct batch *hr_batches_add(struct hr_guide *guide, const struct hr_announcement *part)
{
    struct batch *batch = NULL, *grown;
    if (part->part > 0) { /* parts come in order, after the first */
        DL_FOREACH(guide->batches, batch)
        {
            if (batch->stream == part->stream && batch->number == part->batch && batch->parts_missing > 0) {
                break;
            }
        }
        if (!batch || batch->parts_missing != part->parts - part->part) {
            return NULL;
        }
        DL_DELETE(guide->batches, batch);
    }
    uint32_t have = batch ? batch->count : 0;
    grown = realloc(batch, sizeof *grown + (have + part->count) * sizeof grown->indices[0]);
    if (!grown) {
        guide->indices -= have;
        free(batch);
        return NULL;
    }
    if (!batch) {
        *grown = (struct batch){.stream = part->stream, .number = part->batch, .parts_missing = part->parts};
    }
    for (uint32_t i = 0; i < part->count; i++) {
        grown->indices[have + i] = part->indices[i];
        grown->highest = part->indices[i] > grown->highest ? part->indices[i] : grown->highest;
    }
    grown->count = have + part->count;
    grown->parts_missing--;
    guide->indices += part->count;
    DL_APPEND(guide->batches, grown);
    return grown;
}
