/* The lesser and the greater of two numbers of bytes or cells. */
#ifndef HR_BASE_LEAST_H
#define HR_BASE_LEAST_H

#include <stdint.h>

static inline uint64_t hr_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t hr_most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

#endif
