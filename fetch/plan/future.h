/* What a known order says about replacement: each of its objects is needed once more until it is read, and
 * then not before the next epoch, whose order nobody knows. So what was read goes first, then what is needed
 * last. Pure; O(1) over time, a bit an object. */
#ifndef HR_PLAN_FUTURE_H
#define HR_PLAN_FUTURE_H

#include <stdbool.h>
#include <stdint.h>

struct hr_future {
    uint32_t (*at)(const void *order, uint32_t position); /* an index below n */
    const void *order;
    uint32_t n, length; /* indices; positions, of which one loader may have a part */
    uint64_t *needed;   /* a bit an index: it is read later in this epoch */
    uint32_t read;      /* so many were read since the beginning */
    uint32_t near;      /* what stands before was read and is not there any more */
    uint32_t far;       /* what stands here and behind is not there */
};

/* n, length, at and order are filled; all positions are needed. 0 or -ENOMEM. */
int hr_future_begin(struct hr_future *future);
void hr_future_end(struct hr_future *future);
void hr_future_read(struct hr_future *future, uint32_t index); /* any number; it may have been read before */
bool hr_future_needs(const struct hr_future *future, uint32_t index);
uint32_t
hr_future_distance(const struct hr_future *future); /* from what is read now to what is needed last */

/* Is it in the cache, and may it be given up? */
typedef bool hr_future_there(void *owner, uint32_t index);
/* Both look on from where they stopped: true, *ret_index is there; false: none, or none within one look. */
bool hr_future_find_read(struct hr_future *future, hr_future_there *there, void *owner, uint32_t *ret_index);
bool hr_future_find_last(struct hr_future *future, hr_future_there *there, void *owner, uint32_t *ret_index);

#endif
