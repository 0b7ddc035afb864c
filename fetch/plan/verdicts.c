/* What workers really opened speaks for or against what their batches are believed to stand for.
 *
 * Each note of an open carries its batch's tag, so when a worker begins with its next batch it is known what
 * it opened for the last one. In each iteration a queue's first batches tell: where the files that they
 * should be by the queue's base are hardly among those opens, its indices are something else. Fewer opens
 * than indices tell nothing: data sets keep samples, and notes get lost. */
#include "fetch/plan/guide.h"

#include "fetch/plan/known.h"
#include "fetch/plan/table.h"

#define HR_TELL_LEAST 8       /* indices, before they tell; all ours... */
#define HR_TELL_MOST 64       /* ...and so many of one batch are enough */
#define HR_TELL_AGAINST 4     /* by a right base one of so many agrees: samples have four files at most */
#define HR_TELL_FOR 2         /* chance does not bring every second one */
#define HR_CONTRADICTED_MAX 2 /* queues, by which a base goes that none has agreed with */

void hr_base_end_order(struct hr_plan *plan, const struct base *base)
{
    const struct hr_dataset data = hr_base_dataset(base);
    hr_known_end(plan, &data);
}

/* Of the batch's first indices, those whose file by this base was opened for it. */
static uint32_t agreeing(const struct base *base, const struct hr_told *told, uint32_t count)
{
    uint32_t agreed = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t entry = hr_base_fits(base, told->indices[i])
                             ? hr_ranks_entry(base->tree->ranks, hr_base_rank(base, told->indices[i]))
                             : HR_TABLE_NONE;
        uint32_t at = 0;
        while (at < told->opened && told->opens[at] != entry) {
            at++;
        }
        agreed += at < told->opened;
    }
    return agreed;
}

/* Nobody's indices are of it. Its place stays taken while there are others behind it, which are known by
 * theirs. */
static void drop_base(struct hr_plan *plan, struct hr_guide *guide, unsigned dropped)
{
    for (unsigned i = 0; i < guide->stream_count; i++) {
        struct stream *stream = &guide->streams[i];
        stream->verdict.denied &= ~(1u << dropped);
        if (stream->base == (int)dropped) {
            stream->base = -1;
            hr_batches_retract(guide, stream->id, true);
        }
    }
    for (unsigned b = 0; b < guide->base_count; b++) {
        guide->bases[b].with &= ~(1u << dropped);
    }
    guide->bases[dropped] = (struct base){0};
    while (guide->base_count > 0 && !guide->bases[guide->base_count - 1].tree) {
        guide->base_count--;
    }
    hr_votes_clear(guide->votes);
    guide->votes->wrong++;
    guide->misses = guide->matches = 0;
    plan->stats.lookahead_dropped++;
}

/* The queue's indices stand for other files. A base that others have agreed with stays theirs. */
static void contradict(struct hr_plan *plan, struct hr_guide *guide, struct stream *stream)
{
    unsigned b = (unsigned)stream->base, tied = 0;
    struct base *base = &guide->bases[b];
    stream->base = -1;
    stream->verdict.denied |= 1u << b;
    hr_batches_retract(guide, stream->id, true);
    for (unsigned i = 0; i < guide->stream_count; i++) {
        tied += guide->streams[i].base == (int)b;
    }
    if (!base->proven) {
        hr_base_end_order(plan, base);
        if (++base->contradicted >= HR_CONTRADICTED_MAX || tied == 0) {
            drop_base(plan, guide, b);
        }
    }
}

bool hr_bases_told(struct hr_plan *plan, struct hr_guide *guide, const struct hr_told *told)
{
    int place = hr_stream_place(guide, told->stream);
    struct stream *stream = place < 0 ? NULL : &guide->streams[place];
    struct base *base = stream && stream->base >= 0 ? &guide->bases[stream->base] : NULL;
    uint32_t count = told->count < HR_TELL_MOST ? told->count : HR_TELL_MOST;
    bool tells = base && stream->iteration == told->iteration && !stream->verdict.proven &&
                 told->tree == base->tree && told->gen == base->gen && hr_base_is_current(base) &&
                 base->tree->ranks && told->opened >= told->count && told->opened <= told->room;
    if (!tells) {
        return false;
    }
    stream->verdict.judged += count;
    stream->verdict.agreed += agreeing(base, told, count);
    if (stream->verdict.judged < HR_TELL_LEAST) {
        return false;
    }
    if (stream->verdict.agreed * HR_TELL_FOR > stream->verdict.judged) {
        stream->verdict.proven = base->proven = true;
    }
    if (stream->verdict.agreed * HR_TELL_AGAINST >= stream->verdict.judged) {
        return false;
    }
    contradict(plan, guide, stream);
    return true;
}
