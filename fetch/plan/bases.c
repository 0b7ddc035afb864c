/* What the indices of announcements stand for.
 *
 * For datasets made by a sorted walk (ImageFolder and its kin) the index plus a base is the rank of the path
 * among the files of the tree, whatever directory the dataset's root is; where a sample has several files
 * side by side, a multiple of the index. The base is learned from what is opened next: each cold open votes
 * for the bases that would explain it as one of the first files of a batch that waits. Where a sample has
 * further files (a label, a mask), their opens vote for bases that go with the known one, by the samples that
 * were opened just before. A wrong guess costs a counter, never a byte: opens that nobody announced take the
 * guess back. */
#include "fetch/plan/guide.h"

#include <stdlib.h>
#include <utlist.h>

#include "fetch/plan/known.h"
#include "fetch/plan/tables.h"

#define HR_MISSES_MAX 32      /* opens that nobody announced, before the guess is doubted */
#define HR_STRIDED_STREAMS 16 /* of so many, bases of samples with several files are thought of */
#define HR_PARTNERS 16        /* opens before that the further file of a sample may belong to */

struct hr_ranks *hr_base_ranks(struct hr_plan_tree *tree)
{
    if (!tree->ranks && tree->index.names) {
        (void)hr_ranks_build(&tree->index, &tree->ranks);
    }
    return tree->ranks;
}

bool hr_base_fits(const struct base *base, uint32_t highest)
{
    return base->value >= 0 && hr_base_rank(base, highest) < hr_ranks_count(base->tree->ranks);
}

/* The oldest batch of a stream that was not acted on: what its worker is busy with. */
static const struct batch *waiting_batch(const struct hr_guide *guide, uint64_t stream)
{
    const struct batch *batch;
    DL_FOREACH(guide->batches, batch)
    {
        if (batch->stream == stream && !batch->issued && batch->parts_missing == 0) {
            return batch;
        }
    }
    return NULL;
}

/* Would this base explain the open as one of the first files of the batch? */
static bool explains(const struct base *base, const struct base *open, const struct batch *batch)
{
    if (base->tree != open->tree || base->gen != open->gen || !hr_base_fits(base, batch->highest)) {
        return false;
    }
    for (uint32_t i = 0; i < HR_FIRST_FILES && i < batch->count; i++) {
        if (hr_base_rank(base, batch->indices[i]) == (uint64_t)open->value) {
            return true;
        }
    }
    return false;
}

/* ...as one of those that were opened lately? */
static bool explains_any(const struct hr_guide *guide, const struct base *base, const struct batch *batch)
{
    for (unsigned r = 0; r < HR_RECENT_OPENS; r++) {
        if (explains(base, &guide->recent[r], batch)) {
            return true;
        }
    }
    return false;
}

bool hr_bases_settle(struct hr_guide *guide)
{
    bool settled = false;
    for (unsigned i = 0; i < guide->stream_count; i++) {
        struct stream *stream = &guide->streams[i];
        const struct batch *batch = stream->base < 0 ? waiting_batch(guide, stream->id) : NULL;
        for (unsigned b = 0; batch && stream->base < 0 && b < guide->base_count; b++) {
            if (hr_base_is_current(&guide->bases[b]) && !(stream->verdict.denied >> b & 1) &&
                explains_any(guide, &guide->bases[b], batch)) {
                stream->base = (int)b;
                stream->verdict.judged = stream->verdict.agreed = 0;
                stream->verdict.proven = false;
                settled = true;
            }
        }
    }
    return settled;
}

static void forget_bases(struct hr_plan *plan, struct hr_guide *guide)
{
    for (unsigned b = 0; b < guide->base_count; b++) {
        hr_base_end_order(plan, &guide->bases[b]);
    }
    guide->base_count = 0;
    hr_votes_clear(guide->votes);
    guide->misses = guide->matches = 0;
    for (unsigned i = 0; i < guide->stream_count; i++) {
        guide->streams[i].base = -1;
        guide->streams[i].verdict.denied = 0;
    }
}

int hr_base_find(const struct hr_guide *guide, const struct base *candidate)
{
    for (unsigned i = 0; i < guide->base_count; i++) {
        const struct base *known = &guide->bases[i];
        if (known->tree == candidate->tree && known->gen == candidate->gen &&
            known->value == candidate->value && known->stride == candidate->stride) {
            return (int)i;
        }
    }
    return -1;
}

/* Its place in hr_guide.bases. */
static int learn_base(struct hr_plan *plan, struct hr_guide *guide, const struct base *base)
{
    if (guide->base_count == HR_BASES_MAX) {
        forget_bases(plan, guide);
    }
    guide->bases[guide->base_count] = *base;
    guide->misses = guide->matches = 0;
    plan->stats.lookahead_learned++;
    hr_log(HR_LOG_INFO,
           "look-ahead: indices of job %u are ranks from %lld on, %u a sample, in bucket=%s prefix=%s",
           guide->context, (long long)base->value, base->stride, hr_store_bucket(base->tree->store),
           base->tree->shared->prefix);
    return (int)guide->base_count++;
}

/* Is the base the first file of a directory that holds the open? */
static bool is_start(const struct base *candidate, const struct base *open)
{
    const struct hr_index *index = &open->tree->index;
    const struct hr_ranks *ranks = open->tree->ranks;
    uint32_t dir = hr_index_parent(index, hr_ranks_entry(ranks, (uint64_t)open->value));
    while (hr_ranks_of(ranks, index->dirs[dir].first) != (uint64_t)candidate->value) {
        if (dir == 0 || index->dirs[dir].parent >= dir) {
            return false;
        }
        dir = index->dirs[dir].parent;
    }
    return true;
}

/* True: enough speaks for the candidate. with: the base that it goes with, or -1. */
static bool vote(struct hr_guide *guide, const struct base *candidate, const struct base *open, int with,
                 uint32_t highest, unsigned suggests)
{
    uint64_t files = hr_ranks_count(open->tree->ranks);
    uint64_t dirs = open->tree->index.names->dir_count;
    struct hr_guess guess = {.tree = candidate->tree,
                             .gen = candidate->gen,
                             .stride = candidate->stride,
                             .value = candidate->value,
                             .with = with};
    struct hr_odds odds = {.files = files, .bases = 1, .suggests = suggests};
    if (!hr_vote_for(guide->votes, &guess, &odds)) {
        return false; /* not even then: nearly always */
    }
    odds.bases = files - (uint64_t)highest * candidate->stride;
    if (odds.bases > dirs && is_start(candidate, open)) {
        odds.bases = dirs; /* data sets begin where a directory does, chance does not */
    }
    return hr_vote_for(guide->votes, &guess, &odds);
}

/* For bases that explain the open as one of the first files of what a worker (this one; NULL: any) begins
 * with. */
static bool count_votes(struct hr_plan *plan, struct hr_guide *guide, const struct base *open,
                        const struct stream *only)
{
    unsigned waiting = 0;
    for (unsigned i = 0; i < guide->stream_count; i++) {
        waiting += guide->streams[i].base < 0;
    }
    uint32_t strides = waiting <= HR_STRIDED_STREAMS ? HR_STRIDE_MAX : 1;
    for (unsigned i = 0; waiting > 0 && i < guide->stream_count; i++) {
        const struct stream *stream = &guide->streams[i];
        bool votes = stream->base < 0 && (!only || only == stream);
        const struct batch *batch = votes ? waiting_batch(guide, stream->id) : NULL;
        for (uint32_t n = 0; batch && n < HR_FIRST_FILES * strides && n / strides < batch->count; n++) {
            struct base candidate = *open;
            candidate.stride = n % strides + 1;
            candidate.value = open->value - (int64_t)candidate.stride * batch->indices[n / strides];
            if (hr_base_fits(&candidate, stream->highest) && hr_base_find(guide, &candidate) < 0 &&
                vote(guide, &candidate, open, -1, stream->highest, waiting * HR_FIRST_FILES) &&
                !hr_tables_deny(guide, stream, &candidate)) {
                (void)learn_base(plan, guide, &candidate);
                return true;
            }
        }
    }
    return false;
}

static uint32_t highest_by(const struct hr_guide *guide, unsigned base)
{
    uint32_t highest = 0;
    for (unsigned i = 0; i < guide->stream_count; i++) {
        const struct stream *stream = &guide->streams[i];
        highest = stream->base == (int)base && stream->highest > highest ? stream->highest : highest;
    }
    return highest;
}

/* The index that the open is of by this base; or -1. */
static int64_t index_of(const struct base *base, const struct base *open, uint32_t highest)
{
    int64_t above = open->value - base->value;
    bool is_its =
        open->tree == base->tree && open->gen == base->gen && above >= 0 && above % base->stride == 0;
    return is_its && above / base->stride <= highest ? above / base->stride : -1;
}

/* The other was opened beside the index-th sample of guide->bases[b]. True: it is known to be a file of it.
 */
static bool vote_with(struct hr_plan *plan, struct hr_guide *guide, unsigned b, int64_t index,
                      const struct base *other, uint32_t highest)
{
    const struct base *base = &guide->bases[b];
    struct base candidate = *other;
    candidate.stride = base->stride;
    candidate.value = other->value - (int64_t)base->stride * index;
    int known = hr_base_find(guide, &candidate);
    if (!hr_base_fits(&candidate, highest) || known == (int)b || (known >= 0 && base->with >> known & 1) ||
        !vote(guide, &candidate, other, (int)b, highest, HR_PARTNERS)) {
        return false;
    }
    bool is_kept = known >= 0 || guide->base_count < HR_BASES_MAX; /* else all are forgotten for it */
    if (known < 0) {
        known = learn_base(plan, guide, &candidate);
    }
    if (is_kept) {
        guide->bases[b].with |= 1u << known;
        guide->bases[known].with |= 1u << b;
        guide->linked = true;
    }
    return true;
}

/* A sample's files are opened one after the other: each open that nobody announced, and those of a known base
 * just before and after it, vote for a base that goes with that one. The open is noted already. */
static void count_votes_with(struct hr_plan *plan, struct hr_guide *guide, const struct base *open,
                             bool untold)
{
    guide->votes->opens++;
    for (unsigned b = 0; b < guide->base_count; b++) {
        const struct base *base = &guide->bases[b];
        uint32_t highest = highest_by(guide, b);
        if (highest == 0 || !hr_base_is_current(base)) {
            continue;
        }
        int64_t index = index_of(base, open, highest);
        for (unsigned r = 2; r <= HR_PARTNERS + 1; r++) {
            unsigned at = (guide->recent_next - r) % HR_RECENT_OPENS;
            const struct base *recent = &guide->recent[at];
            int64_t partner = untold ? index_of(base, recent, highest) : -1;
            if ((partner >= 0 && vote_with(plan, guide, b, partner, open, highest)) ||
                (!untold && index >= 0 && guide->untold[at] && hr_base_is_current(recent) &&
                 vote_with(plan, guide, b, index, recent, highest))) {
                return;
            }
        }
    }
}

void hr_base_unlink(struct hr_plan *plan, struct hr_guide *guide, int base, const struct base *other)
{
    int place = hr_base_find(guide, other);
    if (base >= 0 && place >= 0 && guide->bases[base].with >> place & 1) {
        guide->bases[base].with &= ~(1u << place);
        guide->bases[place].with &= ~(1u << base);
        guide->votes->wrong++;
        plan->stats.lookahead_dropped++;
    }
}

static bool is_open_of(struct hr_plan_tree *tree, uint32_t gen, uint32_t entry)
{
    return tree && tree->index.names && tree->index.names->gen == gen &&
           entry < tree->index.names->entry_count && tree->index.entries[entry].kind == HR_KIND_FILE &&
           hr_base_ranks(tree);
}

static struct base base_of_open(struct hr_plan_tree *tree, uint32_t entry)
{
    return (struct base){.tree = tree,
                         .gen = tree->index.names->gen,
                         .stride = 1,
                         .value = (int64_t)hr_ranks_of(tree->ranks, entry)};
}

static struct base note_open(struct hr_guide *guide, struct hr_plan_tree *tree, uint32_t entry, bool untold)
{
    struct base open = base_of_open(tree, entry);
    guide->untold[guide->recent_next % HR_RECENT_OPENS] = untold;
    guide->recent[guide->recent_next++ % HR_RECENT_OPENS] = open;
    return open;
}

/* Was the open announced? Too many that were not: the guesses were wrong. */
static void doubt(struct hr_plan *plan, struct hr_guide *guide, const struct hr_plan_tree *tree,
                  uint32_t entry)
{
    if (tree->marks[entry] & HR_ENTRY_ANNOUNCED) {
        guide->matches++;
    } else if (++guide->misses >= HR_MISSES_MAX && guide->misses > guide->matches + tree->announced_used) {
        plan->stats.lookahead_dropped++;
        guide->votes->wrong++;
        for (unsigned i = 0; i < guide->stream_count; i++) {
            hr_batches_retract(guide, guide->streams[i].id, false);
        }
        forget_bases(plan, guide);
    }
}

/* It was opened just before: it would vote for the same bases once more. */
static bool is_recent(const struct hr_guide *guide, const struct base *open)
{
    for (unsigned r = 2; r <= HR_PARTNERS; r++) {
        const struct base *recent = &guide->recent[(guide->recent_next - r) % HR_RECENT_OPENS];
        if (recent->tree == open->tree && recent->value == open->value) {
            return true;
        }
    }
    return false;
}

/* What a base tells of that has proved right says nothing for others: batches of neighbours, as a loader
 * without shuffling has them, are each other's by a shift. */
static bool is_accounted_for(const struct hr_guide *guide, const struct hr_plan_tree *tree, uint32_t entry)
{
    bool proven = false;
    for (unsigned b = 0; b < guide->base_count; b++) {
        proven |= guide->bases[b].proven && guide->bases[b].tree == tree;
    }
    return proven && tree->marks[entry] & HR_ENTRY_ANNOUNCED;
}

bool hr_bases_opened(struct hr_plan *plan, struct hr_guide *guide, struct hr_early_open *early)
{
    struct hr_plan_tree *tree = hr_tree_get(plan, early->tree);
    early->done = true;
    if (!is_open_of(tree, early->gen, early->entry) ||
        (!guide->votes && !(guide->votes = calloc(1, sizeof *guide->votes)))) {
        return false;
    }
    bool untold = guide->base_count > 0 && !(tree->marks[early->entry] & HR_ENTRY_ANNOUNCED);
    if (guide->base_count > 0) {
        doubt(plan, guide, tree, early->entry);
    }
    struct base open = note_open(guide, tree, early->entry, untold);
    if (is_recent(guide, &open)) {
        return true;
    }
    early->vote = ++guide->votes->opens;
    early->done = is_accounted_for(guide, tree, early->entry);
    if ((early->done || !count_votes(plan, guide, &open, NULL)) && guide->misses > 0) {
        count_votes_with(plan, guide, &open, untold);
    }
    return true;
}

/* It voted when its batch was not there. True: it makes a base known. */
static bool vote_again(struct hr_plan *plan, struct hr_guide *guide, const struct hr_early_open *early,
                       const struct stream *stream)
{
    struct hr_plan_tree *tree = hr_tree_get(plan, early->tree);
    if (!is_open_of(tree, early->gen, early->entry)) {
        return false;
    }
    struct base open = base_of_open(tree, early->entry);
    guide->votes->earlier = early->vote;
    bool learned = count_votes(plan, guide, &open, stream);
    guide->votes->earlier = 0;
    return learned;
}

void hr_bases_announced(struct hr_plan *plan, struct hr_guide *guide, const struct stream *stream,
                        const struct batch *batch)
{
    struct hr_early_open *opens[HR_EARLY_ASKED_MAX];
    unsigned count = hr_early_asked(&plan->early, guide->context, opens);
    bool learned = !batch || waiting_batch(guide, stream->id) != batch;
    for (unsigned i = 0; i < count; i++) {
        if (opens[i]->vote == 0) {
            (void)hr_bases_opened(plan, guide, opens[i]);
        } else if (!learned) {
            learned = vote_again(plan, guide, opens[i], stream);
        }
    }
}

bool hr_bases_used(struct hr_plan *plan, struct hr_guide *guide, struct hr_plan_tree *tree, uint32_t entry)
{
    if (!is_open_of(tree, tree->index.names->gen, entry)) {
        return false;
    }
    struct base open = note_open(guide, tree, entry, false);
    if (guide->misses > 0 && !is_recent(guide, &open)) {
        count_votes_with(plan, guide, &open, false);
    }
    return true;
}
