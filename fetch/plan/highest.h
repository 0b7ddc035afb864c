/* A set of numbers below a size, of which the highest is wanted: a bit a number, and above them a bit for
 * each word that has one, level by level. Pure; every call costs a word a level. */
#ifndef HR_PLAN_HIGHEST_H
#define HR_PLAN_HIGHEST_H

#include <stdbool.h>
#include <stdint.h>

#define HR_HIGHEST_LEVELS 6 /* 64^6 > 2^32 */

struct hr_highest {
    uint64_t *levels[HR_HIGHEST_LEVELS]; /* the numbers themselves first; one allocation */
    unsigned level_count;
};

/* All from `first` on are in it. 0 or -ENOMEM. */
int hr_highest_begin(struct hr_highest *set, uint32_t size, uint32_t first);
void hr_highest_end(struct hr_highest *set);
void hr_highest_add(struct hr_highest *set, uint32_t number);
void hr_highest_remove(struct hr_highest *set, uint32_t number);
bool hr_highest_find(const struct hr_highest *set, uint32_t *ret); /* false: it is empty */
uint64_t hr_highest_bytes(uint32_t size);

#endif
