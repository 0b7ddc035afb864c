/* Ranks of the files of an index in the order of a sorted walk: the n-th file that os.walk with sorted names
 * meets is the n-th FILE entry. One bit an entry and a count every 512. Read-only once built; main loop. */
#ifndef HR_PLAN_RANKS_H
#define HR_PLAN_RANKS_H

#include <stdint.h>

#include "interpose/index.h"

struct hr_ranks;

int hr_ranks_build(const struct hr_index *index, struct hr_ranks **ret); /* 0 or -ENOMEM */
void hr_ranks_free(struct hr_ranks *ranks);                              /* accepts NULL */
uint64_t hr_ranks_count(const struct hr_ranks *ranks);
/* Files before `entry`, which is a FILE. */
uint64_t hr_ranks_of(const struct hr_ranks *ranks, uint32_t entry);
/* The FILE entry of a rank below the count. */
uint32_t hr_ranks_entry(const struct hr_ranks *ranks, uint64_t rank);

#endif
