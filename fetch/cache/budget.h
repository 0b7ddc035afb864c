/* Two limits of the cache: its byte budget, and the space of the file system that it leaves to others.
 *
 * An object is charged its size rounded up to 4 KiB, at least 4 KiB (so that empty objects are bounded too).
 * Free space is asked for (statvfs) after 64 MiB of new reservations or 1 s, whichever is first, and
 * estimated in between from what was reserved and given up. Owned by the loop's thread. */
#ifndef HR_CACHE_BUDGET_H
#define HR_CACHE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

struct hr_budget {
    uint64_t limit_bytes;    /* the budget */
    uint64_t floor_bytes;    /* free space left to others */
    uint64_t used_bytes;     /* charges of objects in the cache */
    uint64_t reserved_bytes; /* charges of objects on their way in */
    uint64_t landed_bytes;   /* part of reserved_bytes that the file system has given already */
    uint64_t leaving_bytes;  /* charges of files given up and not yet unlinked */
    int64_t free_bytes;   /* estimate of what is free when everything reserved has landed; may be below 0 */
    uint64_t since_bytes; /* reserved since free space was last asked for */
    int64_t asked_ms;     /* when that was; 0: never */
};

uint64_t hr_budget_charge(uint64_t size_bytes);
/* Asks the file system of `dir` when it is due. */
void hr_budget_refresh(struct hr_budget *budget, const char *dir, int64_t now_ms);
/* How many bytes must be given up before `want` more fit; 0: they fit now. */
uint64_t hr_budget_lacks(const struct hr_budget *budget, uint64_t want_bytes);
/* Would `want` fit if every object were given up? */
bool hr_budget_possible(const struct hr_budget *budget, uint64_t want_bytes);

void hr_budget_reserve(struct hr_budget *budget, uint64_t charge);
void hr_budget_land(struct hr_budget *budget,
                    uint64_t bytes); /* of a reservation: written to the file system */
/* A reservation of `charge`, of which `landed` were written, ends: kept as an object, or given back. */
void hr_budget_settle(struct hr_budget *budget, uint64_t charge, uint64_t landed, bool kept);
void hr_budget_adopt(struct hr_budget *budget, uint64_t charge);
void hr_budget_give_up(struct hr_budget *budget, uint64_t charge); /* evicted, its file still there */
/* It was given up, and its file stays: it takes its room again. */
void hr_budget_hold(struct hr_budget *budget, uint64_t charge);
void hr_budget_unlinked(struct hr_budget *budget, uint64_t charge); /* its file is gone */

#endif
