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
#include "fetch/plan/tables.h"

#define HR_BATCH_PARTS_MAX 16 /* of HR_KEY_MAX bytes: batches of 4096 indices */
#define HR_QUEUE_MAX 16384    /* announced objects that wait for their request */
#define HR_HEADS_MAX 64       /* workers that are served by turns */

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

void hr_lookahead_free(struct hr_plan *plan)
{
    hr_sweep_end(plan);
    hr_pace_end(plan);
    hr_known_free(plan);
    hr_heads_free(plan);
    struct hr_guide *guide, *next;
    HASH_ITER(hh, plan->guides, guide, next)
    {
        while (guide->batches) {
            hr_batch_drop(guide, guide->batches, false);
        }
        hr_tables_free(guide);
        HASH_DEL(plan->guides, guide);
        free(guide->votes);
        free(guide);
    }
}

static struct stream *stream_of(struct hr_guide *guide, uint64_t id)
{
    int place = hr_stream_place(guide, id);
    if (place >= 0) {
        return &guide->streams[place];
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
static void issue_by(struct hr_plan *plan, struct batch *batch, const struct base *base)
{
    struct hr_plan_tree *tree = base->tree;
    batch->issued = true;
    batch->asked = batch->count;
    if (!hr_base_is_current(base) || !hr_base_ranks(tree) || !hr_base_fits(base, batch->highest) ||
        !tree->settings.prefetch) {
        return;
    }
    batch->asked = 0;
    batch->base = *base;
    batch->noted_at = tree->noted;
    for (uint32_t i = 0; i < batch->count; i++) {
        uint32_t entry = hr_batch_entry(batch, i);
        tree->marks[entry] |= HR_ENTRY_ANNOUNCED;
        plan->stats.announced++;
        (void)hr_sweep_keep(tree, entry);
    }
    plan->ahead_due = true;
}

/* Its indices may be an order that somebody knows. */
static void note_order(struct hr_plan *plan, const struct hr_guide *guide, const struct batch *batch,
                       const struct hr_dataset *data)
{
    int place = hr_stream_place(guide, batch->stream);
    const struct stream *stream = place < 0 ? NULL : &guide->streams[place];
    struct hr_known_batch known = {.data = *data,
                                   .loader = hr_stream_loader(batch->stream),
                                   .iteration = stream ? stream->iteration : 0,
                                   .before = stream ? stream->before : 0,
                                   .number = batch->number,
                                   .count = batch->count,
                                   .indices = batch->indices};
    if (data->tree->settings.prefetch && hr_dataset_is_current(data)) {
        hr_known_note(plan, &known);
    }
}

static void issue_base(struct hr_plan *plan, const struct hr_guide *guide, struct batch *batch,
                       const struct base *base)
{
    issue_by(plan, batch, base);
    if (base->stride == 1 && hr_batch_usable(batch)) { /* orders are those of a whole directory's files */
        const struct hr_dataset data = hr_base_dataset(base);
        note_order(plan, guide, batch, &data);
    }
}

/* The samples' other files, as batches of their own beside it. */
static void issue_others(struct hr_plan *plan, struct hr_guide *guide, struct batch *batch)
{
    int by = hr_batch_usable(batch) && !batch->is_others && !batch->by_table
                 ? hr_base_find(guide, &batch->base)
                 : -1;
    uint32_t missing = by < 0 ? 0 : guide->bases[by].with & ~batch->others;
    if (missing != 0 && hr_batch_touched(batch) == batch->count) {
        return; /* they were opened, too */
    }
    for (unsigned b = 0; b < guide->base_count && missing != 0; b++) {
        size_t bytes = sizeof *batch + batch->count * sizeof batch->indices[0];
        struct batch *other = missing >> b & 1 ? malloc(bytes) : NULL;
        if (!other) {
            continue;
        }
        memcpy(other, batch, bytes);
        other->is_others = true;
        batch->others |= 1u << b;
        guide->indices += other->count;
        DL_APPEND(guide->batches, other);
        issue_base(plan, guide, other, &guide->bases[b]);
    }
}

static void issue(struct hr_plan *plan, struct hr_guide *guide, struct batch *batch, const struct base *base)
{
    issue_base(plan, guide, batch, base);
    issue_others(plan, guide, batch);
}

/* ---- bringing ---- */

/* Both are what one worker opens of its batches, one after the other. */
static bool is_of_one_line(const struct batch *one, const struct batch *other)
{
    return one->stream == other->stream && one->is_others == other->is_others &&
           (!one->is_others || (one->base.tree == other->base.tree && one->base.value == other->base.value));
}

/* The first batch of each worker that is not all asked for. */
static unsigned collect_heads(struct hr_guide *guide, struct batch *heads[HR_HEADS_MAX])
{
    unsigned count = 0;
    struct batch *batch;
    DL_FOREACH(guide->batches, batch)
    {
        unsigned i = 0;
        while (i < count && !is_of_one_line(heads[i], batch)) {
            i++;
        }
        if (i == count && count < HR_HEADS_MAX && hr_batch_usable(batch) && batch->asked < batch->count) {
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
        before += is_of_one_line(one, batch);
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
        uint32_t entry = hr_batch_entry(batch, batch->asked);
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
            hr_batches_drop_abandoned(guide);
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
            if (!batch->issued || (hr_batch_usable(batch) && batch->base.tree == tree)) {
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
        stats->lookahead_table += hr_tables_indices(guide);
        DL_FOREACH(guide->batches, batch)
        {
            stats->lookahead_waiting += hr_batch_usable(batch) ? batch->count - batch->asked : 0;
        }
    }
}

static void issue_stream(struct hr_plan *plan, struct hr_guide *guide, struct stream *stream)
{
    struct batch *batch;
    DL_FOREACH(guide->batches, batch)
    {
        if (batch->stream == stream->id && !batch->issued && batch->parts_missing == 0) {
            issue(plan, guide, batch, &guide->bases[stream->base]);
        }
    }
}

/* True: no base explains it, and a table does; the batch is another one now. */
static bool issue_table(struct hr_plan *plan, struct hr_guide *guide, struct batch *batch)
{
    struct hr_dataset data;
    uint32_t told;
    bool waits = !batch->issued && !batch->is_over && batch->parts_missing == 0;
    bool known = waits && hr_tables_dataset(guide, batch->stream, &data, &told);
    struct batch *ranks = known ? hr_tables_translate(guide, batch, &data) : NULL;
    if (!ranks) {
        return false;
    }
    struct base base = ranks->base;
    DL_REPLACE_ELEM(guide->batches, batch, ranks);
    guide->indices += ranks->count - batch->count;
    issue_by(plan, ranks, &base);
    note_order(plan, guide, batch, &data);
    free(batch);
    plan->ahead_due = true;
    return true;
}

static void issue_tables(struct hr_plan *plan, struct hr_guide *guide)
{
    struct batch *batch, *next;
    DL_FOREACH_SAFE(guide->batches, batch, next)
    {
        (void)issue_table(plan, guide, batch);
    }
    for (unsigned i = 0; guide->adopted && i < guide->stream_count; i++) {
        const struct stream *stream = &guide->streams[i];
        struct hr_dataset data;
        uint32_t told;
        if (hr_tables_dataset(guide, stream->id, &data, &told)) { /* what came before it had its table */
            hr_known_passed(plan, &data, stream->iteration, told);
        }
    }
    guide->adopted = false;
}

/* What streams that have their base now, or one more, have waited with. */
static void issue_settled(struct hr_plan *plan, struct hr_guide *guide)
{
    bool settled = hr_bases_settle(guide);
    for (unsigned i = 0; settled && i < guide->stream_count; i++) {
        if (guide->streams[i].base >= 0) {
            issue_stream(plan, guide, &guide->streams[i]);
        }
    }
    struct batch *batch;
    DL_FOREACH(guide->batches, batch)
    {
        if (guide->linked) {
            issue_others(plan, guide, batch);
        }
    }
    guide->linked = false;
}

void hr_lookahead_opened(struct hr_plan *plan, uint32_t context, uint32_t number, uint32_t gen,
                         uint32_t entry)
{
    struct hr_guide *guide = guide_of(plan, context, false);
    struct hr_plan_tree *tree = hr_tree_get(plan, number);
    struct hr_early_open open = {.context = context, .tree = number, .gen = gen, .entry = entry};
    if (!guide || !guide->batches) {
        (void)hr_early_keep(&plan->early, &open);
        return;
    }
    if (tree) { /* what was opened before it, and was in the cache, tells as much */
        hr_tree_drain_uses(tree);
    }
    if (!hr_bases_opened(plan, guide, hr_early_keep(&plan->early, &open))) {
        return;
    }
    issue_settled(plan, guide);
    if (plan->ahead_due) {
        hr_lookahead_advance(plan);
    }
}

/* Opens answered by the cache alone do not say whose they are: they may tie a queue to a base that is known,
 * which their rank must fit exactly, but vote for no new one. */
void hr_lookahead_used(struct hr_plan_tree *tree, uint32_t entry, uint32_t tag)
{
    struct hr_guide *guide, *next;
    bool early = tag != 0;
    HASH_ITER(hh, tree->plan->guides, guide, next)
    {
        int said = tag ? hr_tables_opened(tree->plan, guide, tree, entry, tag) : 0;
        early &= said == -ENOENT;
        if (said > 0) {
            issue_tables(tree->plan, guide);
        }
        bool open_questions = guide->misses > 0; /* are there other files of a sample? */
        for (unsigned i = 0; i < guide->stream_count && !open_questions && guide->base_count > 0; i++) {
            open_questions = guide->streams[i].base < 0;
        }
        if (open_questions && hr_bases_used(tree->plan, guide, tree, entry)) {
            issue_settled(tree->plan, guide);
        }
    }
    if (early) {
        (void)hr_early_keep(&tree->plan->early, &(struct hr_early_open){.context = HR_EARLY_NOTED,
                                                                        .tree = tree->number,
                                                                        .gen = tree->index.names->gen,
                                                                        .entry = entry,
                                                                        .tag = tag});
    }
}

void hr_plan_job_ended(struct hr_plan *plan, uint32_t context)
{
    struct hr_guide *guide = guide_of(plan, context, false);
    while (guide && guide->batches) {
        hr_batch_drop(guide, guide->batches, true);
    }
    for (unsigned i = 0; guide && i < guide->stream_count; i++) {
        hr_known_left(plan, hr_stream_loader(guide->streams[i].id));
    }
    if (guide) {
        guide->stream_count = 0;
    }
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
        hr_batches_drop_stale(plan, guide, part->stream, part->batch);
    }
    struct batch *batch = hr_batches_add(guide, part);
    if (!batch || batch->parts_missing > 0) {
        return;
    }
    hr_pace_announced(plan, batch->number);
    struct stream *stream = stream_of(guide, part->stream);
    stream->highest = batch->highest > stream->highest ? batch->highest : stream->highest;
    hr_tables_announced(plan, guide, stream, batch);
    if (stream->base >= 0 && hr_base_is_current(&guide->bases[stream->base])) {
        issue(plan, guide, batch, &guide->bases[stream->base]);
    } else {
        stream->base = -1;
        bool understood = issue_table(plan, guide, batch);
        hr_bases_announced(plan, guide, stream, understood ? NULL : batch);
        issue_settled(plan, guide);
        issue_tables(plan, guide);
    }
    if (hr_tables_ask(guide)) {
        hr_tree_drain_all(plan); /* it may be begun already */
    }
    plan->ahead_due = true;
    hr_plan_pump(plan);
}
