/* One learned table: which file each index of a data set is, by number in the tree's index. Main loop. */
#ifndef HR_PLAN_TABLE_H
#define HR_PLAN_TABLE_H

#include "fetch/plan/inner.h"

#define HR_TABLE_NONE UINT32_MAX
#define HR_TABLE_FILES_MAX 4 /* of a sample, always opened in the same order */

/* A batch that was announced, and what its worker opened for it, in order. */
struct hr_told {
    struct hr_told *prev, *next;
    uint64_t stream;
    uint64_t iteration; /* of its loader */
    uint32_t number;
    uint32_t tag; /* hr_batch_tag */
    uint32_t count;
    struct hr_plan_tree *tree; /* of the first open */
    uint32_t gen;
    uint32_t opened, room; /* more than room: it tells nothing */
    uint32_t compared;     /* opens, with what tables say of them */
    uint32_t *opens;       /* behind the indices */
    uint32_t indices[];
};

struct hr_table {
    uint64_t id;               /* never given twice; 0: free */
    struct hr_plan_tree *tree; /* NULL: free */
    uint32_t gen;
    uint32_t files;    /* of a sample */
    uint32_t *entries; /* + 1, a sample after the other; 0: not known */
    uint64_t room;     /* places in entries */
    uint32_t known;
    uint32_t extent;   /* one more than the highest index that was told */
    uint32_t *indices; /* + 1, of each entry; hr_table_invert made it, or NULL */
    uint32_t indices_room;
    uint64_t agreed, differed; /* places that were seen again */
    uint64_t used_at;          /* hr_tables.clock */
    bool confirmed;            /* an iteration went by it */
};

bool hr_table_is_current(const struct hr_table *table);
/* The entry, or HR_TABLE_NONE. */
uint32_t hr_table_entry(const struct hr_table *table, uint32_t index, uint32_t file);
/* False: it has samples of several files, or there is no room. It is current. Else, from now on: */
bool hr_table_invert(struct hr_table *table);
/* The index of the entry (of several one), or HR_TABLE_NONE. */
uint32_t hr_table_index(const struct hr_table *table, uint32_t entry);
/* What the told batch adds; a place where it is another file is known no more. places_max: the table may grow
 * to so many. The batch must have table->files opens for each index. */
void hr_table_learn(struct hr_table *table, const struct hr_told *told, uint64_t places_max);
/* False: they are of two data sets. Else into knows what both knew, and from is empty. */
bool hr_table_merge(struct hr_table *into, struct hr_table *from);
void hr_table_free(struct hr_table *table);

#endif
