/* Which file each index of a data set is: by a base, which is the rank of its first file, or by a learned
 * table. Known orders go by it, and what leaves the cache by them. Main loop. */
#ifndef HR_PLAN_DATASET_H
#define HR_PLAN_DATASET_H

#include "fetch/plan/table.h"

struct hr_dataset {
    struct hr_plan_tree *tree;
    uint32_t gen;
    uint64_t base;          /* without a table */
    struct hr_table *table; /* NULL: none; it may have become another one... */
    uint64_t table_id;      /* ...than this */
};

struct hr_dataset hr_dataset_of_table(struct hr_table *table);
bool hr_dataset_is(const struct hr_dataset *one, const struct hr_dataset *other);
/* What follows is asked only of one that is current. */
bool hr_dataset_is_current(const struct hr_dataset *data);
/* One more than the highest index seen: an epoch of it was read; 0: the base does not tell. */
uint32_t hr_dataset_size(const struct hr_dataset *data);
unsigned hr_dataset_files(const struct hr_dataset *data); /* of a sample */
/* HR_TABLE_NONE: it is not known, or there is none of that index. */
uint32_t hr_dataset_entry(const struct hr_dataset *data, uint32_t index, unsigned file);
/* Can hr_dataset_index answer? It makes what that takes. */
bool hr_dataset_invert(const struct hr_dataset *data);
/* The index that the entry is of; HR_TABLE_NONE: of none. */
uint32_t hr_dataset_index(const struct hr_dataset *data, uint32_t entry);

#endif
