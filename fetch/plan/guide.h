/* One job's announcements, and what their indices stand for: between batches.c, which keeps them,
 * lookahead.c, which brings what they name, and bases.c, which learns from what is opened. Main loop. */
#ifndef HR_PLAN_GUIDE_H
#define HR_PLAN_GUIDE_H

#include "fetch/plan/dataset.h"
#include "fetch/plan/inner.h"
#include "fetch/plan/ranks.h"
#include "fetch/plan/votes.h"

#define HR_STREAMS_MAX 256 /* worker queues of one job: 8 ranks of 32 workers */
#define HR_BASES_MAX 16    /* datasets of one job in one tree each: train, val, ...; and files of a sample */
#define HR_STRIDE_MAX 4    /* files of a sample that lie side by side */
#define HR_FIRST_FILES 4   /* of a batch: a worker may have found the very first ones in the cache */
#define HR_RECENT_OPENS 32 /* tried again when a base becomes known */

/* The file of an index has the rank value + stride * index. */
struct base {
    struct hr_plan_tree *tree;
    uint32_t gen;
    uint32_t stride;
    int64_t value;
    uint32_t with;         /* bit b: bases[b] are other files of the same samples */
    bool proven;           /* what a worker opened for a batch was what this says... */
    uint32_t contradicted; /* ...or was not: so many queues */
};

struct hr_told; /* table.h */

struct batch {
    struct batch *prev, *next;
    uint64_t stream;
    uint32_t number;
    uint32_t count;
    uint32_t parts_missing;
    uint32_t highest;
    bool issued;       /* it is known what its indices stand for... */
    struct base base;  /* ...by this */
    uint32_t others;   /* bit b: there is a batch of the same samples' other files by hr_guide.bases[b] */
    bool is_others;    /* it is such a batch */
    bool by_table;     /* its indices are ranks, out of a table */
    bool is_over;      /* its worker was seen to begin with the next one */
    uint32_t asked;    /* so many of them had their turn */
    uint64_t noted_at; /* base.tree->noted */
    uint32_t indices[];
};

struct stream {
    uint64_t id;
    int base;         /* in hr_guide.bases, or -1 */
    uint32_t highest; /* index that it announced */
    /* iterations.c: */
    uint64_t iteration, before; /* that its batches are of now, and were of before that; 0: none */
    uint32_t last;              /* number of its last batch */
    struct { /* what its worker opened in this iteration, and what that says of the base; verdicts.c */
        uint32_t judged, agreed; /* indices; those whose file was opened */
        bool proven;             /* enough of them agreed */
        uint32_t denied;         /* bit b: bases[b] is none of it */
    } verdict;
};

/* One job's announcements. */
struct hr_guide {
    UT_hash_handle hh;
    uint32_t context;
    struct batch *batches; /* oldest first */
    unsigned indices;
    struct stream streams[HR_STREAMS_MAX];
    unsigned stream_count;
    struct base bases[HR_BASES_MAX]; /* known */
    unsigned base_count;
    struct hr_votes *votes;              /* NULL: none yet */
    struct base recent[HR_RECENT_OPENS]; /* value: the rank that was opened */
    bool untold[HR_RECENT_OPENS];        /* nobody had announced it */
    unsigned recent_next;
    unsigned misses, matches;
    bool linked;              /* a base has got another one that goes with it */
    struct hr_tables *tables; /* tables.c; NULL: none yet */
    bool adopted;             /* an iteration has got its table */
};

/* The process that announces by it. */
static inline uint32_t hr_stream_loader(uint64_t id)
{
    return (uint32_t)(id >> 32);
}
/* In hr_guide.streams, or -1. */
static inline int hr_stream_place(const struct hr_guide *guide, uint64_t id)
{
    int place = (int)guide->stream_count - 1;
    while (place >= 0 && guide->streams[place].id != id) {
        place--;
    }
    return place;
}
static inline bool hr_stream_has_base(const struct hr_guide *guide, uint64_t id)
{
    int place = hr_stream_place(guide, id);
    return place >= 0 && guide->streams[place].base >= 0;
}

/* It is of the tree's present generation. */
static inline bool hr_base_is_current(const struct base *base)
{
    return base->tree && base->tree->index.names && base->tree->index.names->gen == base->gen;
}

/* Of the present generation, made when they are needed first; NULL: there is none, or no memory. */
struct hr_ranks *hr_base_ranks(struct hr_plan_tree *tree);
static inline uint64_t hr_base_rank(const struct base *base, uint32_t index)
{
    return (uint64_t)base->value + (uint64_t)base->stride * index;
}
static inline struct hr_dataset hr_base_dataset(const struct base *base)
{
    return (struct hr_dataset){.tree = base->tree, .gen = base->gen, .base = (uint64_t)base->value};
}
/* All indices up to this are files by it. */
bool hr_base_fits(const struct base *base, uint32_t highest);

/* A program of the job opened an entry: votes for new bases, or doubts the known ones. False: it tells
 * nothing (another generation, no file, no ranks). */
bool hr_bases_opened(struct hr_plan *plan, struct hr_guide *guide, struct hr_early_open *open);
/* A batch is there: what was opened before it votes, also by this one where it is the first of its queue that
 * waits. batch NULL: it is understood already. */
void hr_bases_announced(struct hr_plan *plan, struct hr_guide *guide, const struct stream *stream,
                        const struct batch *batch);
/* Somebody opened it: it may tie a stream to a base that is known, and speak for bases that go with it. The
 * same answer. */
bool hr_bases_used(struct hr_plan *plan, struct hr_guide *guide, struct hr_plan_tree *tree, uint32_t entry);
/* Its place in hr_guide.bases, or -1. */
int hr_base_find(const struct hr_guide *guide, const struct base *base);
/* The one was taken for other files of the other's samples, and is not. */
void hr_base_unlink(struct hr_plan *plan, struct hr_guide *guide, int base, const struct base *other);
/* verdicts.c. Orders of its indices, which stand for other files, are none any more. */
void hr_base_end_order(struct hr_plan *plan, const struct base *base);
/* A worker is done with the batch: what it opened speaks for or against the base of its queue. True: the
 * queue has none any more, and its batches that are not over wait to be understood. */
bool hr_bases_told(struct hr_plan *plan, struct hr_guide *guide, const struct hr_told *told);
/* Ties streams to the known bases that explain what was opened lately. True: one more has its base now. */
bool hr_bases_settle(struct hr_guide *guide);

/* Its place in the index; only of one that is usable. */
static inline uint32_t hr_batch_entry(const struct batch *batch, uint32_t at)
{
    return hr_ranks_entry(batch->base.tree->ranks, hr_base_rank(&batch->base, batch->indices[at]));
}
/* What it stands for is known, and the index is still that one. */
static inline bool hr_batch_usable(const struct batch *batch)
{
    return batch->issued && hr_base_is_current(&batch->base) && batch->base.tree->ranks;
}
/* How much of it was opened since it was announced. */
uint32_t hr_batch_touched(const struct batch *batch);
/* abandoned: what it brought and nobody opened has no claim any more. */
void hr_batch_drop(struct hr_guide *guide, struct batch *batch, bool abandoned);
/* What the stream's base said of its batches does not hold: what that brought and nobody opened has no claim
 * any more. anew: those that are not over wait to be understood, else they go, too. */
void hr_batches_retract(struct hr_guide *guide, uint64_t stream, bool anew);
/* Puts the part to its batch; a first part makes room for it before (hr_batches_drop_stale). NULL: no memory,
 * or the parts before it are missing. */
struct batch *hr_batches_add(struct hr_guide *guide, const struct hr_announcement *part);
void hr_batches_drop_stale(struct hr_plan *plan, struct hr_guide *guide, uint64_t stream, uint32_t number);
void hr_batches_drop_abandoned(struct hr_guide *guide);

#endif
