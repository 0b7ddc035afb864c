/* What is known of epochs, what to ask the search about one, and what follows it. Shared by known.c,
 * known_ahead.c, known_ask.c, known_batch.c, known_next.c, known_numbers.c and known_whose.c; main loop. */
#ifndef HR_PLAN_KNOWN_EPOCH_H
#define HR_PLAN_KNOWN_EPOCH_H

#include "fetch/plan/inner.h"
#include "fetch/plan/known.h"
#include "fetch/plan/order_thread.h"
#include "fetch/plan/predict.h"

#define HR_KNOWN_DEEP 10                         /* indices before what costs seconds is searched, too */
#define HR_KNOWN_ORDERS_BYTES_MAX (128ull << 20) /* of all known orders together; the oldest goes first */
#define HR_KNOWN_FIRST_NUMBERS 256               /* batches that tell one epoch from the next */
#define HR_KNOWN_FURTHER 4                       /* indices: they tell with how many ranks it takes turns */

enum hr_epoch_state { HR_EPOCH_NEW, HR_EPOCH_ASKED, HR_EPOCH_KNOWN, HR_EPOCH_OTHER };

struct hr_epoch_note {
    uint32_t number, at, index;
};

/* What one loader does in one epoch: batches that it announced, or one file after the other that was opened.
 */
struct hr_epoch {
    uint64_t id;            /* of its search; 0: free */
    struct hr_dataset data; /* of opens the base is 0 until the set is known */
    uint32_t loader;
    uint64_t iteration;
    uint64_t heard; /* hr_knowns.heard when it was noted last */
    bool opens;
    bool rests; /* another loader of its process has begun an epoch since */
    enum hr_epoch_state state;
    unsigned misses;      /* searches in a row that found nothing, over epochs... */
    uint32_t missed_size; /* ...while the data set was so large */
    uint32_t batch_size;  /* the largest seen: the last of an epoch is smaller */
    uint32_t highest;     /* index */
    struct hr_epoch_note notes[HR_ORDER_SEEN_MAX];
    unsigned note_count;
    struct hr_order_seen further[HR_KNOWN_FURTHER]; /* of a batch after the first, while it is searched for */
    unsigned further_count;
    bool renoted;   /* while it was searched for the first batch came */
    uint64_t knew;  /* orders that were known then */
    bool missed;    /* in this epoch, */
    bool by_news;   /* it is asked only whether one of those that became known since is its own */
    unsigned asked; /* notes that were asked about last, */
    uint32_t bases[HR_ORDER_SETS_MAX]; /* and opens: where each set began */
    uint32_t first_number;             /* of the loader's first batch in this epoch, of which `lead` */
    uint32_t lead;                     /* indices are still of the one before */
    uint32_t last_number;              /* of a batch, counted from there: the highest */
    uint32_t last_rank;                /* of opens */
    uint64_t numbers[HR_KNOWN_FIRST_NUMBERS / 64]; /* which of the first came... */
    uint64_t passed[HR_KNOWN_FIRST_NUMBERS / 64];  /* ...or were over before any did */
    struct hr_order order;
    uint32_t *permutation;
    double candidates;             /* of how many orders it was found to be the one */
    uint64_t ahead_bytes;          /* asked for by it */
    uint32_t position;             /* opens: of the next one */
    uint32_t next;                 /* position that was not asked for */
    uint64_t agreed;               /* indices that were what the known order has */
    struct {                       /* known_next.c: the next epoch */
        struct hr_predict predict; /* over epochs, too */
        bool due;                  /* it is predicted, and not there yet */
        uint64_t making_id;        /* of the search that makes it, or 0 */
        struct hr_orders orders;
    } follows;
};

#define HR_KNOWN_EPOCHS_MAX 16 /* loaders at a time: 8 ranks, train and val */

struct hr_knowns {
    struct hr_order_searcher *searcher;
    struct hr_epoch epochs[HR_KNOWN_EPOCHS_MAX];
    uint64_t last_id, heard;
    struct hr_order recent[HR_ORDER_RECENT_MAX]; /* the newest first */
    unsigned recent_count;
    uint64_t shown; /* id of the epoch that became known last */
};

/* known_numbers.c: of batches. Was it announced? Of the first HR_KNOWN_FIRST_NUMBERS. */
bool hr_epoch_was_noted(const struct hr_epoch *epoch, uint32_t number);
bool hr_epoch_is_begun(const struct hr_epoch *epoch, uint32_t number); /* ...or was it over before that? */
void hr_epoch_note_number(struct hr_epoch *epoch, uint32_t number);
void hr_epoch_add_numbers(struct hr_epoch *epoch, const struct hr_epoch *from); /* that came, or were over */
/* The first position from this one on that no announcement had; of opens this one. */
uint32_t hr_epoch_unannounced(const struct hr_epoch *epoch, uint32_t position);

/* known_ahead.c: of an epoch whose order is known, as much as its bounds allow; and no more of it. */
void hr_epoch_advance(struct hr_plan *plan, struct hr_epoch *epoch);
void hr_epoch_abandon(struct hr_epoch *epoch);
/* Bits that what was seen has more than it takes to tell the candidates apart. */
double hr_epoch_spare_bits(const struct hr_epoch *epoch);

/* known_ask.c */
void hr_known_ask(struct hr_plan *plan, struct hr_epoch *epoch);                /* about all that it noted */
void hr_known_remember(struct hr_knowns *knowns, const struct hr_order *order); /* it was found */
/* Ranks of one job go through one epoch, and only one of them may have what tells its seed: this one's search
 * found nothing. Is one of those that became known since its own? */
void hr_known_ask_by_news(struct hr_plan *plan, struct hr_epoch *epoch);
void hr_known_tell_others(struct hr_plan *plan, const struct hr_epoch *news); /* to whom it may be that */
/* False: there is nothing to search for (yet). ask is zeroed but for `recent`. */
bool hr_epoch_ask(const struct hr_epoch *epoch, struct hr_order_ask *ask);
/* Its indices ascend: not shuffled. */
bool hr_epoch_ascends(const struct hr_epoch *epoch);
/* What was noted of a set of opens fits the order, and is where the loader now is (epoch->position,
 * ->agreed). */
bool hr_epoch_agrees(struct hr_epoch *epoch, const struct hr_order *order, const uint32_t *permutation,
                     uint32_t base);

/* known_batch.c. Numbers count from the epoch's first batch. */
uint32_t hr_epoch_first(const struct hr_epoch *epoch, uint32_t number); /* position of its first index */
/* The batch as one of this epoch: what it begins with may be the end of the one before. */
struct hr_known_batch hr_epoch_batch(const struct hr_epoch *epoch, const struct hr_known_batch *batch);
void hr_epoch_take_notes(struct hr_epoch *epoch, const struct hr_known_batch *batch);
/* Are its indices what the known order has there? */
bool hr_epoch_is_as_known(const struct hr_epoch *epoch, const struct hr_known_batch *batch);
/* It is not: is the known order at its end, and the loader's next epoch goes on in this batch? Infinite
 * samplers count their batches on. *ret_lead: so many of its indices are still of this one. */
bool hr_epoch_is_over(const struct hr_epoch *epoch, const struct hr_known_batch *batch, uint32_t *ret_lead);
/* While its order is searched for. */
void hr_epoch_note_further(struct hr_epoch *epoch, const struct hr_known_batch *batch);
/* Its order fits the first batch: is it that of several ranks that take batches by turns? Then what came of
 * further batches makes it the rank's. */
void hr_epoch_take_turns(struct hr_epoch *epoch);
unsigned hr_epoch_agreeing_notes(const struct hr_epoch *epoch); /* with the known order */

/* known_whose.c */
/* The epoch that a batch is of: of one process several loaders may go through one data set. anew: its next
 * one begins in its place. NULL: none. */
struct hr_epoch *hr_epoch_of_batch(struct hr_knowns *knowns, const struct hr_known_batch *batch,
                                   bool *ret_anew);
/* Queues of one loader were taken for two's: an epoch of the same process and order, and of other batches. */
struct hr_epoch *hr_epoch_rest_of(struct hr_knowns *knowns, const struct hr_epoch *epoch);
/* It begins: the process' others rest until they go on. They may have been left. */
void hr_epoch_rest_others(struct hr_plan *plan, const struct hr_epoch *begun);

/* known_next.c */
void hr_known_next(struct hr_plan *plan, struct hr_epoch *epoch); /* its order is known: what comes then? */
void hr_known_next_missed(struct hr_plan *plan, struct hr_epoch *epoch);       /* its order is another */
bool hr_known_next_made(struct hr_plan *plan, struct hr_order_result *result); /* false: not one of these */

#endif
