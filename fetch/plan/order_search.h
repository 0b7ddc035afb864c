/* Whose order is it? A search over candidates, likely ones first, in slices that may be run one after the
 * other or beside each other. Claiming and finishing belong to one thread or one lock; running is pure.
 *
 * Each phase needs as many indices as tell its candidates apart (hr_order_needed), so a few indices are
 * enough for the likely ones: who learns more of them asks again, and what was gone through before is left
 * out. */
#ifndef HR_PLAN_ORDER_SEARCH_H
#define HR_PLAN_ORDER_SEARCH_H

#include <stdatomic.h>

#include "fetch/plan/order_lanes.h"

#define HR_ORDER_SEEN_MAX 32   /* indices of one question; all 2^32 seeds are told apart by fewer */
#define HR_ORDER_SETS_MAX 8    /* directories that the data set may be */
#define HR_ORDER_RECENT_MAX 16 /* orders found before */
/* Ranks of one job that are tried; of more, the seed must be a recent one. */
#define HR_ORDER_REPLICAS_MAX 64u

/* In this order; every set of each before the next. */
enum hr_order_phase {
    HR_ORDER_RECENT,      /* orders found before, and what follows from them */
    HR_ORDER_LIKELY,      /* seeds that people write down, of all generators that are quick enough */
    HR_ORDER_DISTRIBUTED, /* seed + epoch below 2^12, all ranks */
    HR_ORDER_SMALL,       /* seeds below 2^20 */
    HR_ORDER_SMALL_USED,  /* those of a generator that a DataLoader has drawn its own seed from */
    HR_ORDER_DRAWN,       /* seeds that RandomSampler draws after manual_seed(below 2^12) */
    HR_ORDER_BATCHES,     /* seeds that people write down and their draws, seed + epoch below 2^11: batches of
                             all ranks by turns */
    HR_ORDER_RANKS,       /* seeds below 2^20, all ranks */
    HR_ORDER_LATE,        /* seeds drawn after a model took its numbers, as far as ask.steps go */
    HR_ORDER_OTHERS,      /* seeds below 2^16 of Python and numpy, as far as ask.steps go */
    HR_ORDER_ALL,         /* the 2^32 */
    HR_ORDER_PHASES
};

/* What the loader may shuffle, and what was seen of it. */
struct hr_order_set {
    uint32_t n;
    uint32_t base;                                /* the caller's */
    struct hr_order_seen seen[HR_ORDER_SEEN_MAX]; /* by position, ascending, each once */
    unsigned seen_count;
    unsigned before; /* with so many of them it was asked before, in vain */
};

struct hr_order_ask {
    struct hr_order_set sets[HR_ORDER_SETS_MAX];
    unsigned set_count;
    struct hr_order recent[HR_ORDER_RECENT_MAX]; /* the newest first */
    unsigned recent_count;
    uint32_t batch; /* that the loader takes at a time; 0: not known */
    bool deep;      /* as much of what follows as the machine has room for (order_thread.h) */
    bool all;       /* with HR_ORDER_ALL */
    bool news;      /* `recent` has what it had not when it was asked before */
    uint64_t steps; /* of each of the others' shuffles, and of all that is drawn late, for a set; 0: none */
    const atomic_bool *given_up; /* true: nobody wants it any more, slices end at once; or NULL */
};

struct hr_order_slice {
    enum hr_order_phase phase;
    unsigned set;
    uint64_t first,
        end; /* seeds; of RECENT, LIKELY and BATCHES, numbers of candidates; of DRAWN and LATE, of draws */
};

struct hr_order_search {
    struct hr_order_ask ask;
    enum hr_order_phase phase; /* of the next slice; HR_ORDER_PHASES: none is left */
    unsigned set;
    uint64_t next;
    unsigned running; /* slices claimed and not finished */
    uint64_t tried;   /* candidates */
    bool found;
    struct hr_order_slice where; /* it was found */
    struct hr_order order;
};

void hr_order_search_begin(struct hr_order_search *search, const struct hr_order_ask *ask);
/* The next slice, or false: none is left, or it is found. */
bool hr_order_search_claim(struct hr_order_search *search, struct hr_order_slice *ret);
/* True: *ret is the order (its first fitting candidate). *ret_tried: candidates looked at. */
bool hr_order_slice_run(const struct hr_order_slice *slice, const struct hr_order_ask *ask,
                        enum hr_order_width width, struct hr_order *ret, uint64_t *ret_tried);
/* found NULL: nothing in that slice. */
void hr_order_search_finish(struct hr_order_search *search, const struct hr_order_slice *slice,
                            const struct hr_order *found, uint64_t tried);
bool hr_order_search_over(const struct hr_order_search *search); /* nothing runs, nothing is left */
/* How many orders a phase tells apart, of all sets, were they as large as n. */
double hr_order_candidates(const struct hr_order_ask *ask, enum hr_order_phase phase, uint32_t n);

#endif
