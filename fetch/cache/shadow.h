/* What was used and when, for a sample of objects, also of those that are gone: does an object come again,
 * and would recency alone have kept it? A cache in miniature: objects are sampled by hash, sizes scale with
 * them.
 *
 * Bounded memory (1.5 MiB, touched as it fills), O(1) a call over time. Nothing fails: without memory there
 * is no shadow. */
#ifndef HR_CACHE_SHADOW_H
#define HR_CACHE_SHADOW_H

#include <stdbool.h>
#include <stdint.h>

struct hr_shadow;

struct hr_shadow *hr_shadow_new(void); /* NULL: out of memory */
void hr_shadow_free(struct hr_shadow *shadow);

struct hr_shadow_seen {
    unsigned shift;     /* one in 2^shift objects is in the sample */
    bool known;         /* it was used before */
    bool recent;        /* a cache that keeps what was used last would have it */
    uint64_t mark;      /* what was given at its last use */
    uint64_t gap_pages; /* used since then, by all objects */
};

/* An object is used. False: it is not in the sample, ret is untouched. capacity_pages: of the real cache, 0
 * when it was never full. */
bool hr_shadow_use(struct hr_shadow *shadow, uint32_t id, uint32_t pages, uint64_t capacity_pages,
                   uint64_t mark, struct hr_shadow_seen *ret);

#endif
