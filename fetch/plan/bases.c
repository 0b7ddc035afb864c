/* What the indices of announcements stand for.
 *
 * For datasets made by a sorted walk (ImageFolder and its kin) the index plus a base is the rank of the path
 * among the files of the tree, whatever directory the dataset's root is; the base is learned from what is
 * opened next. Each cold open votes for the bases that would explain it as one of the first files of a batch
 * that waits; three votes decide. A wrong guess costs a counter, never a byte: opens that nobody announced
 * take the guess back. */
#include "fetch/plan/guide.h"

#include <string.h>
#include <utlist.h>

#define HR_MISSES_MAX 32 /* opens that nobody announced, before the guess is doubted */
#define HR_VOTES_NEEDED 3
/* A base that begins a directory of the open: data sets do, chance does not. */
#define HR_VOTES_OF_A_START 2

struct hr_ranks *hr_base_ranks(struct hr_plan_tree *tree)
{
    if (!tree->ranks && tree->index.names) {
        (void)hr_ranks_build(&tree->index, &tree->ranks);
    }
    return tree->ranks;
}

bool hr_base_fits(const struct base *base, const struct batch *batch)
{
    return base->value >= 0 && (uint64_t)base->value + batch->highest < hr_ranks_count(base->tree->ranks);
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
    if (base->tree != open->tree || base->gen != open->gen || !hr_base_fits(base, batch)) {
        return false;
    }
    for (uint32_t i = 0; i < HR_FIRST_FILES && i < batch->count; i++) {
        if (base->value + batch->indices[i] == open->value) {
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
            if (hr_base_is_current(&guide->bases[b]) && explains_any(guide, &guide->bases[b], batch)) {
                stream->base = (int)b;
                settled = true;
            }
        }
    }
    return settled;
}

static void forget_bases(struct hr_guide *guide)
{
    guide->base_count = 0;
    memset(guide->votes, 0, sizeof guide->votes);
    guide->misses = guide->matches = 0;
    for (unsigned i = 0; i < guide->stream_count; i++) {
        guide->streams[i].base = -1;
    }
}

static void learn_base(struct hr_plan *plan, struct hr_guide *guide, const struct base *base)
{
    if (guide->base_count == HR_BASES_MAX) {
        forget_bases(guide);
    }
    guide->bases[guide->base_count++] = *base;
    guide->misses = guide->matches = 0;
    plan->stats.lookahead_learned++;
    hr_log(HR_LOG_INFO, "look-ahead: indices of job %u are ranks from %lld on in bucket=%s prefix=%s",
           guide->context, (long long)base->value, hr_store_bucket(base->tree->store),
           base->tree->shared->prefix);
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

static void vote(struct hr_plan *plan, struct hr_guide *guide, const struct base *candidate, unsigned weight)
{
    struct base *free_slot = NULL;
    for (unsigned i = 0; i < HR_VOTES_MAX; i++) {
        struct base *known = &guide->votes[i];
        if (known->votes == 0) {
            free_slot = free_slot ? free_slot : known;
        } else if (known->tree == candidate->tree && known->gen == candidate->gen &&
                   known->value == candidate->value) {
            known->votes += weight;
            if (known->votes >= HR_VOTES_NEEDED) {
                learn_base(plan, guide, known);
                memset(guide->votes, 0, sizeof guide->votes);
            }
            return;
        }
    }
    if (!free_slot) {
        free_slot = &guide->votes[guide->vote_next++ % HR_VOTES_MAX];
    }
    *free_slot = *candidate;
    free_slot->votes = weight;
}

static bool is_known(const struct hr_guide *guide, const struct base *candidate)
{
    for (unsigned i = 0; i < guide->base_count; i++) {
        if (guide->bases[i].tree == candidate->tree && guide->bases[i].gen == candidate->gen &&
            guide->bases[i].value == candidate->value) {
            return true;
        }
    }
    return false;
}

static void count_votes(struct hr_plan *plan, struct hr_guide *guide, const struct base *open)
{
    for (unsigned i = 0; i < guide->stream_count; i++) {
        const struct batch *batch =
            guide->streams[i].base < 0 ? waiting_batch(guide, guide->streams[i].id) : NULL;
        for (uint32_t n = 0; batch && n < HR_FIRST_FILES && n < batch->count; n++) {
            struct base candidate = *open;
            candidate.value = open->value - batch->indices[n];
            if (hr_base_fits(&candidate, batch) && !is_known(guide, &candidate)) {
                vote(plan, guide, &candidate, is_start(&candidate, open) ? HR_VOTES_OF_A_START : 1);
            }
        }
    }
}

static bool is_open_of(struct hr_plan_tree *tree, uint32_t gen, uint32_t entry)
{
    return tree && tree->index.names && tree->index.names->gen == gen &&
           entry < tree->index.names->entry_count && tree->index.entries[entry].kind == HR_KIND_FILE &&
           hr_base_ranks(tree);
}

static struct base note_open(struct hr_guide *guide, struct hr_plan_tree *tree, uint32_t entry)
{
    struct base open = {
        .tree = tree, .gen = tree->index.names->gen, .value = (int64_t)hr_ranks_of(tree->ranks, entry)};
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
        forget_bases(guide);
    }
}

bool hr_bases_opened(struct hr_plan *plan, struct hr_guide *guide, struct hr_plan_tree *tree, uint32_t gen,
                     uint32_t entry)
{
    if (!is_open_of(tree, gen, entry)) {
        return false;
    }
    if (guide->base_count > 0) {
        doubt(plan, guide, tree, entry);
    }
    struct base open = note_open(guide, tree, entry);
    count_votes(plan, guide, &open);
    return true;
}

bool hr_bases_used(struct hr_guide *guide, struct hr_plan_tree *tree, uint32_t entry)
{
    if (!is_open_of(tree, tree->index.names->gen, entry)) {
        return false;
    }
    (void)note_open(guide, tree, entry);
    return true;
}
