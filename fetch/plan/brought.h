/* What became of what was fetched before anybody asked for it: file -> the reason, until it is used or leaves
 * the cache. 8 bytes a place, at most half of them full. The top bits of an
 * id are left out: two that differ in them alone do not live together. Main loop. */
#ifndef HR_PLAN_BROUGHT_H
#define HR_PLAN_BROUGHT_H

#include <stdint.h>

struct hr_brought {
    uint64_t *places; /* file id << 3 | reason; 0: free */
    uint64_t room, count;
};

/* Without memory it is forgotten. reason below 8. */
void hr_brought_add(struct hr_brought *brought, uint64_t file_id, unsigned reason);
/* Takes it out. Its reason, or -1: it is not there (any more). */
int hr_brought_take(struct hr_brought *brought, uint64_t file_id);
void hr_brought_release(struct hr_brought *brought);

#endif
