/* Which batches are one loader's way through one epoch. Nobody says: announcements bear a process, a queue
 * and a number, queues' descriptors go round among loaders, and those of several loaders may come mixed. What
 * is concluded here is a likeness; who knows an order goes by indices first (known_whose.c). Main loop. */
#ifndef HR_PLAN_ITERATIONS_H
#define HR_PLAN_ITERATIONS_H

#include "fetch/plan/guide.h"

#define HR_TABLES_MAX 8        /* data sets of a job that are known at a time */
#define HR_ITERATIONS_MAX 32   /* loaders that go through an epoch at a time: 8 ranks, and those just left */
#define HR_ITERATION_FIRST 256 /* numbers of which it is remembered whether they came */

struct hr_iteration {
    uint64_t id;      /* 0: free */
    uint64_t before;  /* what a queue of it was the first to leave; 0: nothing */
    uint32_t loader;  /* process */
    uint32_t next;    /* number of its next batch */
    uint32_t workers; /* from one batch of a queue to its next one, at least; 0: none had two */
    bool over;        /* a queue of it goes on with another one */
    uint64_t numbers[HR_ITERATION_FIRST / 64];
    /* tables.c: */
    int table;                                           /* that it goes by, or -1 */
    bool own;                                            /* which was begun with it */
    uint32_t right[HR_TABLES_MAX], wrong[HR_TABLES_MAX]; /* opens that agree with each */
};

struct hr_iterations {
    struct hr_iteration all[HR_ITERATIONS_MAX];
    uint64_t last_id;
};

/* NULL: it is long past; of id 0 as well. */
struct hr_iteration *hr_iteration_find(struct hr_iterations *iterations, uint64_t id);
/* The one that the queue's batch is of; it may begin, in the oldest one's place. The queue is still of the
 * one that it was of... */
struct hr_iteration *hr_iteration_note(struct hr_iterations *iterations, const struct stream *stream,
                                       uint32_t number);
/* ...until then. */
void hr_iteration_tie(struct stream *stream, const struct hr_iteration *iteration, uint32_t number);

#endif
