/* Which bytes of an object were given: each exactly once, in any order. */
#ifndef HR_CACHE_EXTENTS_H
#define HR_CACHE_EXTENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hr_extent {
    uint64_t from;
    uint64_t to;
};

/* Zeroed: empty. Sorted, not touching: as many as there are gaps, whatever the number of parts. */
struct hr_extents {
    struct hr_extent *list;
    size_t count;
    size_t room;
    struct hr_extent few[4]; /* the common case allocates nothing */
};

/* 0; -EINVAL: empty, or some of it was given before; -ENOMEM. */
int hr_extents_add(struct hr_extents *extents, uint64_t from, uint64_t to);
bool hr_extents_cover(const struct hr_extents *extents, uint64_t size); /* exactly [0, size) */
void hr_extents_release(struct hr_extents *extents);

#endif
