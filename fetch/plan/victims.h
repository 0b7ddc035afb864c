/* Known orders and replacement: when the cache is about to give up an object that an epoch still needs, what
 * that epoch has read, or needs last, goes instead; where the next epoch's order is predicted, whatever of
 * the set is given up, it is what the epochs need last. It keeps the shares of different data sets as the
 * policy has them: an object is only exchanged for one of its own tree. What a loader has announced, or was
 * brought for it, is never offered. Main loop. */
#ifndef HR_PLAN_VICTIMS_H
#define HR_PLAN_VICTIMS_H

#include <stdbool.h>
#include <stdint.h>

struct hr_dataset;
struct hr_order;
struct hr_orders;
struct hr_plan;
struct hr_plan_tree;

/* An epoch of the data set whose order is known. The permutation is used until the end. id: the caller's,
 * never 0. by_batches: of it is read what was announced before, the rest others read. Without memory, or
 * where a sample has several files, nothing is known. */
void hr_victims_begin(struct hr_plan *plan, uint64_t id, const struct hr_dataset *data,
                      const struct hr_order *order, const uint32_t *permutation, bool by_batches);
/* Positions of it that were announced, or opened, before it was known: what of them nobody is about to open
 * any more has been read, and is the first to go. */
void hr_victims_begun(struct hr_plan *plan, uint64_t id, uint32_t first, uint32_t count);
/* The orders of the epochs after that, as predicted, of the same loader. The ranks of a job share what is
 * known. False: their permutations are needed; with those, which are the caller's no more, true. */
bool hr_victims_next(struct hr_plan *plan, uint64_t id, const struct hr_orders *orders,
                     uint32_t *permutations);
/* How many epochs after one of that order are worth it and fit the memory. */
unsigned hr_victims_foresee(const struct hr_order *order);
/* Its loader goes on: it announced these, or opened something (NULL, 0). */
void hr_victims_heard(struct hr_plan *plan, uint64_t id, const uint32_t *indices, uint32_t count);
/* Until then another loader of its process reads: what this one needs is not kept at its cost. */
void hr_victims_rest(struct hr_plan *plan, uint64_t id);
void hr_victims_end(struct hr_plan *plan, uint64_t id); /* nothing when there is none */
void hr_victims_read(struct hr_plan_tree *tree, uint32_t entry);
void hr_victims_free(struct hr_plan *plan);

#endif
