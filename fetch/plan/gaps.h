/* What of a large object's cell is neither in the cache nor on its way. Pieces that lie between two gaps and
 * are too short to be worth a request of their own come along once more. */
#ifndef HR_PLAN_GAPS_H
#define HR_PLAN_GAPS_H

#include "fetch/plan/inner.h"

struct hr_range {
    uint64_t first, bytes;
};

/* The first gap of [from, end), which lies in one cell. 0 bytes: there is none. */
struct hr_range hr_gap_next(struct hr_plan_tree *tree, const struct hr_cached *face, uint64_t from,
                            uint64_t end);
/* The one of `cell` that holds `offset`, which nothing holds. */
struct hr_range hr_gap_around(struct hr_plan_tree *tree, const struct hr_cached *face, struct hr_range cell,
                              uint64_t offset);

#endif
