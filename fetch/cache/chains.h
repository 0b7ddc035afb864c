/* A hash table of what carries its own link. It grows by linear hashing: an addition that makes more than
 * HR_CHAIN_LOAD items a chain splits one chain, so none moves all items, and heads are never copied. It does
 * not shrink.
 *
 * Owned by the loop's thread. The items are the caller's. */
#ifndef HR_CACHE_CHAINS_H
#define HR_CACHE_CHAINS_H

#include <stdint.h>

#define HR_CHAIN_LOAD 2u /* items a chain: 4 bytes of head each, two or three looks a find */

struct hr_chained {
    struct hr_chained *next;
};

/* Zeroed: to be initialized; released like any other. */
struct hr_chains {
    uint32_t (*hash)(const struct hr_chained *item); /* the same as long as it is in */
    struct hr_chained ***pages;                      /* of heads */
    uint32_t page_room;                              /* of `pages` */
    uint32_t heads;
    uint32_t mask; /* 2^n - 1, and heads are at most 2^n, more than half of it */
    uint64_t count;
};

/* 0 or -ENOMEM. The only one that fails: without memory later on chains get longer. */
int hr_chains_init(struct hr_chains *chains, uint32_t (*hash)(const struct hr_chained *item));
void hr_chains_release(struct hr_chains *chains);
void hr_chains_add(struct hr_chains *chains, struct hr_chained *item);
void hr_chains_remove(struct hr_chains *chains, struct hr_chained *item); /* it is in */
/* The chain in which items of this hash are, among others; NULL: empty. */
struct hr_chained *hr_chains_of(const struct hr_chains *chains, uint32_t hash);
/* The chains by number, below `heads`: each item is in one. Removing changes no other item's chain. */
struct hr_chained *hr_chains_at(const struct hr_chains *chains, uint32_t number);

#endif
