/* Inside of ladder.h: sets of bytes, and places in keys. */
#ifndef HR_LIST_LADDER_INSIDE_H
#define HR_LIST_LADDER_INSIDE_H

#include "fetch/list/ladder.h"

static inline uint8_t hr_byte_at(struct hr_key key, uint32_t at)
{
    return (uint8_t)key.at[at];
}

/* ---- sets of bytes ---- */

static inline void hr_set_add(uint64_t set[4], uint8_t byte)
{
    set[byte / 64] |= 1ull << byte % 64;
}

static inline unsigned hr_set_count(const uint64_t set[4])
{
    unsigned count = 0;
    for (unsigned i = 0; i < 4; i++) {
        count += (unsigned)__builtin_popcountll(set[i]);
    }
    return count;
}

/* Members below byte. */
static inline unsigned hr_set_rank(const uint64_t set[4], unsigned byte)
{
    unsigned rank = 0;
    for (unsigned i = 0; i < byte / 64; i++) {
        rank += (unsigned)__builtin_popcountll(set[i]);
    }
    if (byte < 256) {
        rank += (unsigned)__builtin_popcountll(set[byte / 64] & ((1ull << byte % 64) - 1));
    }
    return rank;
}

static inline bool hr_set_has(const uint64_t set[4], unsigned byte)
{
    return (set[byte / 64] >> byte % 64 & 1) != 0;
}

/* ---- levels ---- */

/* The level of the byte behind this one. */
static inline uint32_t hr_ladder_next_level(uint32_t level, uint8_t byte)
{
    if (byte == '/') {
        uint32_t part = level / HR_LADDER_PART_BYTES + 1;
        return part < HR_LADDER_PARTS ? part * HR_LADDER_PART_BYTES : HR_LADDER_LEVELS - 1;
    }
    return level % HR_LADDER_PART_BYTES < HR_LADDER_PART_BYTES - 1 ? level + 1 : level;
}

static inline uint32_t hr_ladder_level_at(const struct hr_ladder *ladder, struct hr_key key, uint32_t at)
{
    uint32_t level = 0;
    for (uint32_t i = ladder->prefix_len; i < at; i++) {
        level = hr_ladder_next_level(level, hr_byte_at(key, i));
    }
    return level;
}

#endif
