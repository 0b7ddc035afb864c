#include "fetch/plan/highest.h"

#include <errno.h>
#include <stdlib.h>

#define WORD_BITS 64u

static uint64_t words_of(uint64_t numbers)
{
    return numbers / WORD_BITS + (numbers % WORD_BITS > 0);
}

uint64_t hr_highest_bytes(uint32_t size)
{
    uint64_t words = 0;
    for (uint64_t here = words_of(size > 0 ? size : 1);; here = words_of(here)) {
        words += here;
        if (here == 1) {
            return words * sizeof(uint64_t);
        }
    }
}

/* first < end */
static void fill(uint64_t *words, uint64_t first, uint64_t end)
{
    for (uint64_t i = first / WORD_BITS; i * WORD_BITS < end; i++) {
        words[i] = UINT64_MAX;
    }
    words[first / WORD_BITS] <<= first % WORD_BITS;
    words[(end - 1) / WORD_BITS] &= UINT64_MAX >> (WORD_BITS - 1 - (end - 1) % WORD_BITS);
}

int hr_highest_begin(struct hr_highest *set, uint32_t size, uint32_t first)
{
    uint64_t *words = calloc(1, hr_highest_bytes(size));
    if (!words) {
        return -ENOMEM;
    }
    uint64_t begin = first, end = size;
    set->level_count = 0;
    for (uint64_t here = words_of(size > 0 ? size : 1);; here = words_of(here)) {
        if (first < size) {
            fill(words, begin, end);
        }
        begin = begin / WORD_BITS;
        end = words_of(end);
        set->levels[set->level_count++] = words;
        words += here;
        if (here == 1) {
            return 0;
        }
    }
}

void hr_highest_end(struct hr_highest *set)
{
    free(set->levels[0]);
    *set = (struct hr_highest){.level_count = 0};
}

void hr_highest_add(struct hr_highest *set, uint32_t number)
{
    for (unsigned i = 0; i < set->level_count; i++, number /= WORD_BITS) {
        set->levels[i][number / WORD_BITS] |= UINT64_C(1) << number % WORD_BITS;
    }
}

void hr_highest_remove(struct hr_highest *set, uint32_t number)
{
    for (unsigned i = 0; i < set->level_count; i++, number /= WORD_BITS) {
        uint64_t *word = &set->levels[i][number / WORD_BITS];
        *word &= ~(UINT64_C(1) << number % WORD_BITS);
        if (*word) {
            return;
        }
    }
}

bool hr_highest_find(const struct hr_highest *set, uint32_t *ret)
{
    uint64_t number = 0;
    for (unsigned i = set->level_count; i-- > 0;) {
        uint64_t word = set->levels[i][number];
        if (!word) {
            return false; /* only at the top */
        }
        number = number * WORD_BITS + (WORD_BITS - 1 - (unsigned)__builtin_clzll(word));
    }
    *ret = (uint32_t)number;
    return true;
}
