/* Look-ahead: what loaders announced to their workers, fetched before it is opened.
 *
 * A batch is a list of dataset indices; bases.c learns which files they are. Those of each worker's batches
 * are asked for by turns, in the order in which it will open them. */
#include "fetch/plan/guide.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "fetch/plan/known.h"

#define HR_BATCH_PARTS_MAX 16
#define HR_GUIDE_INDICES_MAX 65536 /* kept of one job; the oldest batches go first */
#define HR_QUEUE_MAX 16384         /* announced objects that wait for their request */
#define HR_STREAM_BATCHES_MAX 16   /* that one worker has before it; loaders prefetch 2 */
#define HR_HEADS_MAX 64            /* workers that are served by turns */
/* Opens after which a batch is given up: all that was announced may come first. */
#define HR_ABANDON_OPENS 1024
#define HR_ABANDON_FACTOR 4

static struct hr_guide *guide_of(struct hr_plan *plan, uint32_t context, bool make)
{
    struct hr_guide *guide = NULL;
    HASH_FIND(hh, plan->guides, &context, sizeof context, guide);
    if (!guide && make && (guide = calloc(1, sizeof *guide))) {
        guide->context = context;
        HASH_ADD(hh, plan->guides, context, sizeof guide->context, guide);
        if (!guide->hh.tbl) {
            free(guide);
            guide = NULL;
        }
    }
    return guide;
}

static uint32_t entry_of(const struct batch *batch, uint32_t at)
{
    return hr_ranks_entry(batch->base.tree->ranks, (uint64_t)batch->base.value + batch->indices[at]);
}

static bool is_usable(const struct batch *batch)
{
    return batch->issued && hr_base_is_current(&batch->base) && batch->base.tree->ranks;
}

/* What it brought and nobody opened has no claim any more. */
static void drop_batch(struct hr_guide *guide, struct batch *batch, bool abandoned)
{
    for (uint32_t i = 0; abandoned && is_usable(batch) && i < batch->count; i++) {
        uint32_t entry = entry_of(batch, i);
        if (batch->base.tree->marks[entry] & HR_ENTRY_ANNOUNCED) {
            hr_sweep_abandon(batch->base.tree, entry);
        }
    }
    DL_DELETE(guide->batches, batch);
    guide->indices -= batch->count;
    free(batch);
}

void hr_lookahead_free(struct hr_plan *plan)
{
    hr_sweep_end(plan);
    hr_known_free(plan);
    hr_heads_free(plan);
    struct hr_guide *guide, *next;
    HASH_ITER(hh, plan->guides, guide, next)
    {
        while (guide->batches) {
            drop_batch(guide, guide->batches, false);
        }
        HASH_DEL(plan->guides, guide);
        free(guide);
    }
}

static struct stream *stream_of(struct hr_guide *guide, uint64_t id)
{
    for (unsigned i = 0; i < guide->stream_count; i++) {
        if (guide->streams[i].id == id) {
            return &guide->streams[i];
        }
    }
    if (guide->stream_count == HR_STREAMS_MAX) {
        /* Loaders come and go: workers of epochs long past make room, and are learned again if they live. */
        memmove(guide->streams, guide->streams + 1, (HR_STREAMS_MAX - 1) * sizeof guide->streams[0]);
        guide->stream_count--;
    }
    struct stream *stream = &guide->streams[guide->stream_count++];
    *stream = (struct stream){.id = id, .base = -1};
    return stream;
}

/* Now it is known what a batch stands for. */
static void issue(struct hr_plan *plan, struct batch *batch, const struct base *base)
{
    struct hr_plan_tree *tree = base->tree;
    batch->issued = true;
    batch->asked = batch->count;
    if (!hr_base_is_current(base) || !hr_base_ranks(tree) || !hr_base_fits(base, batch) ||
        !tree->settings.prefetch) {
        return;
    }
    batch->asked = 0;
    batch->base = *base;
    batch->noted_at = tree->noted;
    for (uint32_t i = 0; i < batch->count; i++) {
        uint32_t entry = entry_of(batch, i);
        tree->marks[entry] |= HR_ENTRY_ANNOUNCED;
        plan->stats.announced++;
        (void)hr_sweep_keep(tree, entry);
    }
    struct hr_known_batch known = {.tree = tree,
                                   .base = (uint64_t)base->value,
                                   .loader = (uint32_t)(batch->stream >> 32), /* its pid */
                                   .number = batch->number,
                                   .count = batch->count,
                                   .indices = batch->indices};
    hr_known_note(plan, &known);
    plan->ahead_due = true;
}

/* ---- bringing ---- */

/* The first batch of each worker that is not all asked for. */
static unsigned collect_heads(struct hr_guide *guide, struct batch *heads[HR_HEADS_MAX])
{
    unsigned count = 0;
    struct batch *batch;
    DL_FOREACH(guide->batches, batch)
    {
        unsigned i = 0;
        while (i < count && heads[i]->stream != batch->stream) {
            i++;
        }
        if (i == count && count < HR_HEADS_MAX && is_usable(batch) && batch->asked < batch->count) {
            heads[count++] = batch;
        }
    }
    return count;
}

/* What a loader yields first is waited for before all that its other workers prepare: by turns of four of
 * them it would be there after four batches. */
static bool is_first(const struct batch *batch)
{
    return batch->number == 0;
}

/* How many batches its worker has before it. */
static unsigned turn_of(const struct hr_guide *guide, const struct batch *batch)
{
    unsigned before = is_first(batch) ? 0 : 1;
    for (const struct batch *one = guide->batches; before > 0 && one != batch; one = one->next) {
        before += one->stream == batch->stream;
    }
    return before;
}

/* Of the heads only those that are opened soonest: a worker's second batch waits for the first ones of all.
 */
static unsigned soonest(const struct hr_guide *guide, struct batch *heads[HR_HEADS_MAX], unsigned count)
{
    unsigned first = 0, least = UINT_MAX;
    for (unsigned i = 0; i < count; i++) {
        unsigned turn = turn_of(guide, heads[i]);
        first = turn < least ? 0 : first;
        least = turn < least ? turn : least;
        if (turn == least) {
            heads[first++] = heads[i];
        }
    }
    return first;
}

/* Its worker may be understood after others, whose batches are queued by then. */
static void hurry(struct hr_plan_tree *tree, uint32_t entry)
{
    char path[HR_KEY_MAX + 1];
    int len = hr_index_path(&tree->index, entry, path, sizeof path);
    struct hr_want *want = len > 0 ? hr_want_find(tree, path, (uint32_t)len) : NULL;
    if (want) {
        hr_lane_hurry(want);
    }
}

/* False: there is no room for the next of its objects. */
static bool ask_for_next(struct batch *batch)
{
    struct hr_plan_tree *tree = batch->base.tree;
    while (batch->asked < batch->count) {
        uint32_t entry = entry_of(batch, batch->asked);
        uint32_t word = atomic_load_explicit(&tree->states->states[entry].word, memory_order_relaxed);
        bool large = tree->index.entries[entry].size > tree->plan->options.small_max_bytes;
        bool absent = HR_STATE_KIND(word) == HR_STATE_ABSENT ||
                      (large && HR_STATE_KIND(word) == HR_STATE_FACE); /* of its bytes nothing is said */
        bool wanted = tree->marks[entry] & HR_ENTRY_ANNOUNCED && absent;
        if (wanted &&
            !(large ? hr_head_ahead(tree, entry) : hr_sweep_ahead(tree, entry, HR_REASON_LOOKAHEAD))) {
            return false;
        }
        batch->asked++;
        if (wanted && is_first(batch) && !large) {
            hurry(tree, entry);
        }
        if (wanted) {
            return true;
        }
    }
    return true;
}

/* Workers run beside each other: one object of each by turns. */
static void advance(struct hr_plan *plan, struct hr_guide *guide)
{
    struct batch *heads[HR_HEADS_MAX];
    unsigned count;
    while ((count = collect_heads(guide, heads)) > 0) {
        count = soonest(guide, heads, count);
        for (bool head_over = false; !head_over;) {
            for (unsigned i = 0; i < count; i++) {
                if (plan->stats.queued >= HR_QUEUE_MAX || !ask_for_next(heads[i])) {
                    return;
                }
                head_over |= heads[i]->asked == heads[i]->count;
            }
        }
    }
}

/* Of an epoch that was left, or of a loader that lies. */
static void drop_abandoned(struct hr_guide *guide)
{
    struct batch *batch, *next;
    DL_FOREACH_SAFE(guide->batches, batch, next)
    {
        uint64_t patience = HR_ABANDON_OPENS + HR_ABANDON_FACTOR * (uint64_t)guide->indices;
        if (is_usable(batch) && batch->base.tree->noted - batch->noted_at > patience) {
            drop_batch(guide, batch, true);
        }
    }
}

void hr_lookahead_advance(struct hr_plan *plan)
{
    struct hr_guide *guide, *next;
    /* A face that is there at once pumps, and comes here again in the middle of a batch. */
    if (plan->advancing) {
        return;
    }
    plan->advancing = true;
    HASH_ITER(hh, plan->guides, guide, next)
    {
        if (guide->batches && !plan->ending) {
            drop_abandoned(guide);
            advance(plan, guide);
        }
    }
    plan->advancing = false;
}

bool hr_lookahead_guides(const struct hr_plan_tree *tree)
{
    const struct hr_guide *guide, *next;
    HASH_ITER(hh, tree->plan->guides, guide, next)
    {
        const struct batch *batch;
        DL_FOREACH(guide->batches, batch)
        {
            if (!batch->issued || (is_usable(batch) && batch->base.tree == tree)) {
                return true;
            }
        }
    }
    return false;
}

void hr_lookahead_stats(const struct hr_plan *plan, struct hr_plan_stats *stats)
{
    const struct hr_guide *guide, *next;
    HASH_ITER(hh, plan->guides, guide, next)
    {
        const struct batch *batch;
        DL_FOREACH(guide->batches, batch)
        {
            stats->lookahead_waiting += is_usable(batch) ? batch->count - batch->asked : 0;
        }
    }
}

static void issue_stream(struct hr_plan *plan, struct hr_guide *guide, struct stream *stream)
{
    struct batch *batch;
    DL_FOREACH(guide->batches, batch)
    {
        if (batch->stream == stream->id && !batch->issued && batch->parts_missing == 0) {
            issue(plan, batch, &guide->bases[stream->base]);
        }
    }
}

/* What streams that have their base now have waited with. */
static void issue_settled(struct hr_plan *plan, struct hr_guide *guide)
{
    bool settled = hr_bases_settle(guide);
    for (unsigned i = 0; settled && i < guide->stream_count; i++) {
        if (guide->streams[i].base >= 0) {
            issue_stream(plan, guide, &guide->streams[i]);
        }
    }
}

void hr_lookahead_opened(struct hr_plan *plan, uint32_t context, uint32_t number, uint32_t gen,
                         uint32_t entry)
{
    struct hr_guide *guide = guide_of(plan, context, false);
    struct hr_plan_tree *tree = hr_tree_get(plan, number);
    if (!guide || !guide->batches || !hr_bases_opened(plan, guide, tree, gen, entry)) {
        return;
    }
    issue_settled(plan, guide);
    if (plan->ahead_due) {
        hr_lookahead_advance(plan);
    }
}

/* Opens answered by the cache alone do not say whose they are: they may tie a queue to a base that is known,
 * which their rank must fit exactly, but vote for no new one. */
void hr_lookahead_used(struct hr_plan_tree *tree, uint32_t entry)
{
    struct hr_guide *guide, *next;
    HASH_ITER(hh, tree->plan->guides, guide, next)
    {
        bool open_questions = false;
        for (unsigned i = 0; i < guide->stream_count && !open_questions && guide->base_count > 0; i++) {
            open_questions = guide->streams[i].base < 0;
        }
        if (open_questions && hr_bases_used(guide, tree, entry)) {
            issue_settled(tree->plan, guide);
        }
    }
}

/* Has its worker begun with it? */
static bool is_begun(const struct batch *batch)
{
    bool begun = false;
    for (uint32_t i = 0; is_usable(batch) && i < HR_FIRST_FILES && i < batch->count && !begun; i++) {
        begun = !(batch->base.tree->marks[entry_of(batch, i)] & HR_ENTRY_ANNOUNCED);
    }
    return begun;
}

/* A loader counts its batches from 0 in each epoch: what an earlier one left behind is not coming. A worker
 * that has begun with one batch has done those before. */
static void drop_stale(struct hr_guide *guide, uint64_t stream, uint32_t number)
{
    struct batch *batch, *next;
    unsigned count = 0;
    uint32_t begun = 0; /* number of the last that is */
    DL_FOREACH(guide->batches, batch)
    {
        count += batch->stream == stream;
        begun = batch->stream == stream && is_begun(batch) ? batch->number : begun;
    }
    DL_FOREACH_SAFE(guide->batches, batch, next)
    {
        bool before = batch->issued && batch->number < begun;
        if (batch->stream == stream &&
            (batch->number >= number || before || (batch->issued && count > HR_STREAM_BATCHES_MAX))) {
            count--;
            drop_batch(guide, batch, true);
        }
    }
    while (guide->indices > HR_GUIDE_INDICES_MAX && guide->batches) {
        drop_batch(guide, guide->batches, true);
    }
}

static struct batch *add_part(struct hr_guide *guide, const struct hr_announcement *part)
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

void hr_plan_announce(struct hr_plan *plan, const struct hr_announcement *part)
{
    if (!plan->options.lookahead || plan->ending || part->context >= HR_CONTEXTS_MAX || part->count == 0 ||
        part->parts == 0 || part->parts > HR_BATCH_PARTS_MAX || part->part >= part->parts) {
        return;
    }
    struct hr_guide *guide = guide_of(plan, part->context, true);
    if (!guide) {
        return;
    }
    if (part->part == 0) {
        drop_stale(guide, part->stream, part->batch);
    }
    struct batch *batch = add_part(guide, part);
    if (!batch || batch->parts_missing > 0) {
        return;
    }
    struct stream *stream = stream_of(guide, part->stream);
    if (stream->base >= 0 && hr_base_is_current(&guide->bases[stream->base])) {
        issue(plan, batch, &guide->bases[stream->base]);
    } else {
        stream->base = -1;
        issue_settled(plan, guide);
    }
    plan->ahead_due = true;
    hr_plan_pump(plan);
}
