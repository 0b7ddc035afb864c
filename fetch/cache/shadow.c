#include "fetch/cache/shadow.h"

#include <stdlib.h>

#define ENTRIES 32768u     /* a tenth of them is a cache large enough to tell hit rates by a percent */
#define ID_BITS 15         /* ENTRIES, as bits: the upper ones choose the chain, the lower ones the sample */
#define SHIFT_MAX 16       /* one in 65,536: of 2 G objects */
#define SPARSE 4096u       /* with fewer the sample is taken denser again */
#define CAPACITIES_KEPT 32 /* what was not used while so many caches full were is forgotten */

struct entry {
    uint64_t mark;
    uint64_t used_at; /* shadow->clock_pages */
    uint32_t id;
    uint32_t pages;
    uint32_t newer, older, chain; /* numbers of entries; 0: none */
    bool recent;
};

struct hr_shadow {
    unsigned shift;
    uint32_t count;
    uint32_t free; /* linked by chain; entries behind `fresh` were never used */
    uint32_t fresh;
    uint32_t newest, oldest;
    uint32_t edge;         /* the oldest that recency would keep */
    uint64_t recent_pages; /* of those */
    uint64_t clock_pages;  /* used so far, by objects of the sample and others */
    uint32_t chains[ENTRIES];
    struct entry entries[ENTRIES + 1];
};

struct hr_shadow *hr_shadow_new(void)
{
    struct hr_shadow *shadow = calloc(1, sizeof *shadow);
    if (shadow) {
        shadow->fresh = 1;
    }
    return shadow;
}

void hr_shadow_free(struct hr_shadow *shadow)
{
    free(shadow);
}

static uint32_t *chain_of(struct hr_shadow *shadow, uint32_t id)
{
    return &shadow->chains[id >> (32 - ID_BITS)];
}

static uint32_t find(struct hr_shadow *shadow, uint32_t id)
{
    uint32_t at = *chain_of(shadow, id);
    while (at && shadow->entries[at].id != id) {
        at = shadow->entries[at].chain;
    }
    return at;
}

static void unlink_entry(struct hr_shadow *shadow, uint32_t at)
{
    struct entry *entry = &shadow->entries[at];
    if (shadow->edge == at) {
        shadow->edge = entry->newer;
    }
    if (entry->recent) {
        shadow->recent_pages -= entry->pages;
    }
    *(entry->newer ? &shadow->entries[entry->newer].older : &shadow->newest) = entry->older;
    *(entry->older ? &shadow->entries[entry->older].newer : &shadow->oldest) = entry->newer;
}

static void link_newest(struct hr_shadow *shadow, uint32_t at)
{
    struct entry *entry = &shadow->entries[at];
    entry->older = shadow->newest;
    entry->newer = 0;
    *(shadow->newest ? &shadow->entries[shadow->newest].newer : &shadow->oldest) = at;
    shadow->newest = at;
    shadow->edge = shadow->edge ? shadow->edge : at;
    entry->recent = true;
    shadow->recent_pages += entry->pages;
}

static void drop(struct hr_shadow *shadow, uint32_t at)
{
    uint32_t *link = chain_of(shadow, shadow->entries[at].id);
    while (*link != at) {
        link = &shadow->entries[*link].chain;
    }
    *link = shadow->entries[at].chain;
    unlink_entry(shadow, at);
    shadow->entries[at].chain = shadow->free;
    shadow->free = at;
    shadow->count--;
}

static bool is_sampled(const struct hr_shadow *shadow, uint32_t id)
{
    return !(id & ((1u << shadow->shift) - 1));
}

static void thin_out(struct hr_shadow *shadow)
{
    shadow->shift++;
    for (uint32_t at = shadow->oldest, newer; at; at = newer) {
        newer = shadow->entries[at].newer;
        if (!is_sampled(shadow, shadow->entries[at].id)) {
            drop(shadow, at);
        }
    }
}

/* Forgets what was not used for a long time; makes room for one more. */
static void make_room(struct hr_shadow *shadow, uint64_t capacity_pages)
{
    uint64_t kept = CAPACITIES_KEPT * capacity_pages;
    while (shadow->oldest && capacity_pages &&
           shadow->clock_pages - shadow->entries[shadow->oldest].used_at > kept) {
        drop(shadow, shadow->oldest);
    }
    while (shadow->count == ENTRIES && shadow->shift < SHIFT_MAX) {
        thin_out(shadow);
    }
    if (shadow->count == ENTRIES) {
        drop(shadow, shadow->oldest);
    }
    if (shadow->shift && shadow->count < SPARSE) {
        shadow->shift--;
    }
}

static uint32_t new_entry(struct hr_shadow *shadow, uint32_t id)
{
    uint32_t at = shadow->free ? shadow->free : shadow->fresh++;
    struct entry *entry = &shadow->entries[at];
    if (at == shadow->free) {
        shadow->free = entry->chain;
    }
    uint32_t *chain = chain_of(shadow, id);
    entry->id = id;
    entry->chain = *chain;
    *chain = at;
    shadow->count++;
    return at;
}

bool hr_shadow_use(struct hr_shadow *shadow, uint32_t id, uint32_t pages, uint64_t capacity_pages,
                   uint64_t mark, struct hr_shadow_seen *ret)
{
    shadow->clock_pages += pages;
    if (!is_sampled(shadow, id)) {
        return false;
    }
    uint32_t at = find(shadow, id);
    *ret = (struct hr_shadow_seen){.known = at != 0,
                                   .recent = at && shadow->entries[at].recent,
                                   .mark = at ? shadow->entries[at].mark : 0};
    if (at) {
        ret->gap_pages = shadow->clock_pages - shadow->entries[at].used_at;
        unlink_entry(shadow, at);
    } else {
        make_room(shadow, capacity_pages);
        at = new_entry(shadow, id); /* though the sample may just have been thinned beyond it: one more */
    }
    struct entry *entry = &shadow->entries[at];
    entry->pages = pages;
    entry->mark = mark;
    entry->used_at = shadow->clock_pages;
    link_newest(shadow, at);
    ret->shift = shadow->shift;
    while (capacity_pages && shadow->edge != shadow->newest &&
           shadow->recent_pages > capacity_pages >> shadow->shift) {
        struct entry *edge = &shadow->entries[shadow->edge];
        edge->recent = false;
        shadow->recent_pages -= edge->pages;
        shadow->edge = edge->newer;
    }
    return true;
}
