#include "fetch/plan/ranks.h"

#include <errno.h>
#include <stdlib.h>

#define BLOCK_WORDS 8 /* 512 bits a count: 6 % over the bits, and few words to add up */

struct hr_ranks {
    uint64_t count;
    uint64_t words;
    uint64_t *bits;
    uint32_t *before; /* files before each block */
};

int hr_ranks_build(const struct hr_index *index, struct hr_ranks **ret)
{
    uint64_t entries = index->names->entry_count;
    uint64_t words = (entries + 63) / 64, blocks = words / BLOCK_WORDS + 1;
    struct hr_ranks *ranks = calloc(1, sizeof *ranks);
    if (!ranks || !(ranks->bits = calloc(words + BLOCK_WORDS, sizeof *ranks->bits)) ||
        !(ranks->before = calloc(blocks, sizeof *ranks->before))) {
        hr_ranks_free(ranks);
        return -ENOMEM;
    }
    ranks->words = words;
    for (uint64_t i = 0; i < entries; i++) {
        if (index->entries[i].kind == HR_KIND_FILE) {
            ranks->bits[i / 64] |= 1ull << (i % 64);
        }
    }
    for (uint64_t i = 0; i < words; i++) {
        if (i % BLOCK_WORDS == 0) {
            ranks->before[i / BLOCK_WORDS] = (uint32_t)ranks->count;
        }
        ranks->count += (uint64_t)__builtin_popcountll(ranks->bits[i]);
    }
    *ret = ranks;
    return 0;
}

void hr_ranks_free(struct hr_ranks *ranks)
{
    if (ranks) {
        free(ranks->bits);
        free(ranks->before);
        free(ranks);
    }
}

uint64_t hr_ranks_count(const struct hr_ranks *ranks)
{
    return ranks->count;
}

uint64_t hr_ranks_of(const struct hr_ranks *ranks, uint32_t entry)
{
    uint64_t word = entry / 64;
    if (word >= ranks->words) {
        return ranks->count; /* behind the last, or what a damaged index says */
    }
    uint64_t rank = ranks->before[word / BLOCK_WORDS];
    for (uint64_t i = word / BLOCK_WORDS * BLOCK_WORDS; i < word; i++) {
        rank += (uint64_t)__builtin_popcountll(ranks->bits[i]);
    }
    return rank + (uint64_t)__builtin_popcountll(ranks->bits[word] & ((1ull << (entry % 64)) - 1));
}

uint32_t hr_ranks_entry(const struct hr_ranks *ranks, uint64_t rank)
{
    uint64_t low = 0, high = (ranks->words - 1) / BLOCK_WORDS;
    while (low < high) { /* the last block with no more than `rank` before it */
        uint64_t middle = (low + high + 1) / 2;
        if (ranks->before[middle] <= rank) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    uint64_t left = rank - ranks->before[low];
    uint64_t word = low * BLOCK_WORDS;
    for (uint64_t here; left >= (here = (uint64_t)__builtin_popcountll(ranks->bits[word])); word++) {
        left -= here;
    }
    uint64_t bits = ranks->bits[word];
    while (left-- > 0) {
        bits &= bits - 1;
    }
    return (uint32_t)(word * 64 + (uint64_t)__builtin_ctzll(bits));
}
