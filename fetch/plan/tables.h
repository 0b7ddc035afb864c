/* Data sets in an order of their own: the rows of a table, a subset drawn at random. No base explains their
 * indices, so which file each of them is is learned one by one: what a worker opens for a batch carries the
 * batch's tag, and comes in the order of its indices. From the second time on that an index is announced its
 * file is known.
 *
 * A job may have several data sets, and an epoch's loader is as a rule another one than the last epoch's: an
 * iteration goes by the table that what it opens first agrees with. A wrong one costs requests, counted, and
 * never a byte. Main loop. */
#ifndef HR_PLAN_TABLES_H
#define HR_PLAN_TABLES_H

#include "fetch/plan/dataset.h"
#include "fetch/plan/guide.h"

/* A batch came whole. One of a queue without a base is one to learn from; of others the first ones of an
 * iteration speak for or against their base. */
void hr_tables_announced(struct hr_plan *plan, struct hr_guide *guide, struct stream *stream,
                         const struct batch *batch);
/* Is there a table to go by, or to add to? Then what was opened is worth looking at soon. */
bool hr_tables_ask(const struct hr_guide *guide);
/* The entry was opened for the batch of that tag. -ENOENT: no such batch was announced, or it is over; 1:
 * batches that wait may be understood now; 0. */
int hr_tables_opened(struct hr_plan *plan, struct hr_guide *guide, struct hr_plan_tree *tree, uint32_t entry,
                     uint32_t tag);
/* What the queue's indices are of; false: no table is known for them. *ret_told: of the numbers of its
 * loader's batches below this all that will be were announced. */
bool hr_tables_dataset(const struct hr_guide *guide, uint64_t stream, struct hr_dataset *ret,
                       uint32_t *ret_told);
/* The batch, whose indices are of the data set, as ranks of files by its base, in a struct of the caller's;
 * NULL: too little is known of it. */
struct batch *hr_tables_translate(const struct hr_guide *guide, const struct batch *batch,
                                  const struct hr_dataset *data);
/* Are the files that the queue's indices were seen to be others than by this base? */
bool hr_tables_deny(const struct hr_guide *guide, const struct stream *stream, const struct base *base);
uint64_t hr_tables_indices(const struct hr_guide *guide); /* that are known */
void hr_tables_free(struct hr_guide *guide);

#endif
