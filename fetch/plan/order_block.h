/* The body of order_lanes.c's sieve for one width: included once for each, with HR_BLOCK (its name),
 * HR_BLOCK_LANES (32-bit lanes of a vector) and HR_BLOCK_TARGET (the instructions it may use). Text and not a
 * function, because the compiler takes vectors apart before it inlines. Four chains hide the latency of the
 * multiplication. */
#include <string.h>

#include "fetch/plan/order_lanes.h"

#ifndef HR_BLOCK
#define HR_BLOCK sieve_block
#define HR_BLOCK_LANES 4
#define HR_BLOCK_TARGET
#endif

#define HR_PASTE2(a, b) a##b
#define HR_PASTE(a, b) HR_PASTE2(a, b)
#define HR_V HR_PASTE(HR_BLOCK, _lanes)
#define HR_BLOCK_CHAINS 4

typedef uint32_t HR_V __attribute__((vector_size(HR_BLOCK_LANES * 4)));

__attribute__((unused)) HR_BLOCK_TARGET static bool HR_BLOCK(const struct hr_order_sieve *sieve,
                                                             const uint32_t *seeds, uint32_t *pass)
{
    HR_V low[HR_ORDER_SIEVE_MAX + 1][HR_BLOCK_CHAINS];
    uint32_t some = 0;
    for (unsigned group = 0; group < HR_ORDER_LANES; group += HR_BLOCK_LANES * HR_BLOCK_CHAINS) {
        HR_V m[HR_BLOCK_CHAINS], hit[HR_BLOCK_CHAINS];
        memcpy(m, seeds + group, sizeof m);
        for (int c = 0; c < HR_BLOCK_CHAINS; c++) {
            hit[c] = (HR_V){0} - (sieve->any ? 0u : 1u);
        }
        unsigned last = sieve->first + sieve->count, i = 0;
        for (; i <= last; i++) {
            if (i >= sieve->first) {
                memcpy(low[i - sieve->first], m, sizeof m);
            }
            for (int c = 0; c < HR_BLOCK_CHAINS; c++) {
                m[c] = HR_MT_STEP * (m[c] ^ m[c] >> 30) + (i + 1);
            }
        }
        for (; i < sieve->first + HR_MT_MIDDLE; i++) {
            m[0] = HR_MT_STEP * (m[0] ^ m[0] >> 30) + (i + 1);
            m[1] = HR_MT_STEP * (m[1] ^ m[1] >> 30) + (i + 1);
            m[2] = HR_MT_STEP * (m[2] ^ m[2] >> 30) + (i + 1);
            m[3] = HR_MT_STEP * (m[3] ^ m[3] >> 30) + (i + 1);
        }
        for (unsigned at = 0; at < sieve->count; at++, i++) {
            unsigned shift = sieve->shift[at];
            for (int c = 0; c < HR_BLOCK_CHAINS; c++) {
                HR_V both = (low[at][c] & HR_MT_UPPER) | (low[at + 1][c] & ~HR_MT_UPPER);
                HR_V word = m[c] ^ both >> 1 ^ (-(both & 1u) & HR_MT_MATRIX);
                word ^= word >> 11;
                word ^= word << 7 & 0x9d2c5680u;
                word ^= word << 15 & 0xefc60000u;
                word ^= word >> 18;
                word = (word - sieve->minus[at]) * sieve->inverse[at];
                word = word >> shift | word << (-shift & 31u);
                HR_V yes = (HR_V)(word <= (HR_V){0} + sieve->limit[at]);
                hit[c] = sieve->any ? hit[c] | yes : hit[c] & yes;
                m[c] = HR_MT_STEP * (m[c] ^ m[c] >> 30) + (i + 1);
            }
        }
        memcpy(pass + group, hit, sizeof hit);
        HR_V all = hit[0] | hit[1] | hit[2] | hit[3];
        for (int lane = 0; lane < HR_BLOCK_LANES; lane++) {
            some |= all[lane];
        }
    }
    return some != 0;
}

#undef HR_V
#undef HR_PASTE
#undef HR_PASTE2
#undef HR_BLOCK_CHAINS
