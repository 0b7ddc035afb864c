/* One job's announcements, and what their indices stand for: between lookahead.c, which keeps the batches and
 * brings what they name, and bases.c, which learns from what is opened. Main loop. */
#ifndef HR_PLAN_GUIDE_H
#define HR_PLAN_GUIDE_H

#include "fetch/plan/inner.h"
#include "fetch/plan/ranks.h"

#define HR_STREAMS_MAX 256 /* worker queues of one job: 8 ranks of 32 workers */
#define HR_BASES_MAX 8     /* datasets of one job in one tree each: train, val, ... */
#define HR_VOTES_MAX 64    /* bases under consideration */
#define HR_FIRST_FILES 4   /* of a batch: a worker may have found the very first ones in the cache */
#define HR_RECENT_OPENS 32 /* tried again when a base becomes known */

struct base {
    struct hr_plan_tree *tree;
    uint32_t gen;
    int64_t value;
    unsigned votes;
};

struct batch {
    struct batch *prev, *next;
    uint64_t stream;
    uint32_t number;
    uint32_t count;
    uint32_t parts_missing;
    uint32_t highest;
    bool issued;       /* it is known what its indices stand for... */
    struct base base;  /* ...by this */
    uint32_t asked;    /* so many of them had their turn */
    uint64_t noted_at; /* base.tree->noted */
    uint32_t indices[];
};

struct stream {
    uint64_t id;
    int base; /* in hr_guide.bases, or -1 */
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
    struct base votes[HR_VOTES_MAX];
    unsigned vote_next;
    struct base recent[HR_RECENT_OPENS]; /* value: the rank that was opened */
    unsigned recent_next;
    unsigned misses, matches;
};

/* It is of the tree's present generation. */
static inline bool hr_base_is_current(const struct base *base)
{
    return base->tree && base->tree->index.names && base->tree->index.names->gen == base->gen;
}

/* Of the present generation, made when they are needed first; NULL: there is none, or no memory. */
struct hr_ranks *hr_base_ranks(struct hr_plan_tree *tree);
/* All indices of the batch are files by it. */
bool hr_base_fits(const struct base *base, const struct batch *batch);

/* A program of the job opened an entry: votes for new bases, or doubts the known ones. False: it tells
 * nothing (another generation, no file, no ranks). */
bool hr_bases_opened(struct hr_plan *plan, struct hr_guide *guide, struct hr_plan_tree *tree, uint32_t gen,
                     uint32_t entry);
/* Somebody opened it: it may tie a stream to a base that is known. The same answer. */
bool hr_bases_used(struct hr_guide *guide, struct hr_plan_tree *tree, uint32_t entry);
/* Ties streams to the known bases that explain what was opened lately. True: one more has its base now. */
bool hr_bases_settle(struct hr_guide *guide);

#endif
