/* Epochs whose order is known: from the first batches that a loader announced, or the first files that a
 * program without workers opened, the search finds the sampler's seed, and with it every batch that will
 * come. What is needed next is asked for as far ahead as the bound on announced objects allows. The first
 * batch that is another ends it. Main loop. */
#ifndef HR_PLAN_KNOWN_H
#define HR_PLAN_KNOWN_H

#include "fetch/plan/dataset.h"

/* A batch of a data set that is current. loader: one process' queues; a job has one for each rank. iteration:
 * one of its loaders' way through one epoch; before: what its queue was of until then, 0: nothing. */
struct hr_known_batch {
    struct hr_dataset data;
    uint32_t loader;
    uint64_t iteration, before;
    uint32_t number; /* counts from 0 in each epoch */
    uint32_t count;
    const uint32_t *indices;
};
void hr_known_note(struct hr_plan *plan, const struct hr_known_batch *batch);
/* Of the iteration's batches with a number below `end` those that were not noted were read before. */
void hr_known_passed(struct hr_plan *plan, const struct hr_dataset *data, uint64_t iteration, uint32_t end);
/* Nobody's indices are of that data set, after all. */
void hr_known_end(struct hr_plan *plan, const struct hr_dataset *data);
/* A file that was opened, by its rank in the tree; again: another time since the last epoch began. True: for
 * all that is known a new one begins with it. */
bool hr_known_open(struct hr_plan_tree *tree, uint32_t rank, bool again);
/* The loader's process is gone: what was asked for by its orders alone is given up. */
void hr_known_left(struct hr_plan *plan, uint32_t loader);
/* There may be room for more. */
void hr_known_advance(struct hr_plan *plan);
struct hr_plan_stats;
void hr_known_stats(const struct hr_plan *plan, struct hr_plan_stats *stats); /* known_* of now */
void hr_known_free(struct hr_plan *plan);

#endif
