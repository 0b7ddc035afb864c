/* Which seeds of the twister could have given an index at a position: the first sieve, on vectors. What
 * passes is looked at exactly by order_torch.h. Pure, any thread. */
#ifndef HR_PLAN_ORDER_LANES_H
#define HR_PLAN_ORDER_LANES_H

#include <stdbool.h>
#include <stdint.h>

#include "fetch/base/vectors.h"
#include "fetch/plan/order_torch.h"

/* Every width gives the same answers. BASE is what the compiler may use anywhere; from there on those of
 * vectors.h. */
enum hr_order_width {
    HR_ORDER_SCALAR,
    HR_ORDER_BASE,
    HR_ORDER_AVX2 = HR_ORDER_BASE + HR_VECTORS_AVX2,
    HR_ORDER_AVX512 = HR_ORDER_BASE + HR_VECTORS_AVX512,
    HR_ORDER_WIDTH_COUNT = HR_ORDER_BASE + HR_VECTORS_COUNT,
};

bool hr_order_width_here(enum hr_order_width width); /* does this processor have it? */
enum hr_order_width hr_order_widest(void);
const char *hr_order_width_name(enum hr_order_width width);

#define HR_ORDER_SIEVE_MAX 64u /* positions */
#define HR_ORDER_LANES 64u     /* seeds in one go, whatever the width */
/* Outputs before this one depend on seeded words alone. */
#define HR_ORDER_OUTPUTS_MAX (HR_MT_WORDS - HR_MT_MIDDLE)

/* Outputs first to first+count-1 of a seed; each gives its index when (output - minus) divides by what is
 * left to choose from, which is odd << shift: (output - minus) * inverse, rotated by shift, is at most limit.
 * Wrapped differences pass now and then, which costs an exact look. */
struct hr_order_sieve {
    unsigned first, count;
    bool any; /* one position suffices; else all must hold */
    uint32_t minus[HR_ORDER_SIEVE_MAX], inverse[HR_ORDER_SIEVE_MAX], limit[HR_ORDER_SIEVE_MAX];
    uint32_t shift[HR_ORDER_SIEVE_MAX];
};

/* Appends: position gave index, among n. False when it says nothing simple: the index may have been moved
 * there from before (index below position), or the output is out of reach. */
bool hr_order_sieve_add(struct hr_order_sieve *sieve, uint64_t skip, uint32_t n, uint32_t position,
                        uint32_t index);

/* Seeds seeds[0..HR_ORDER_LANES): pass[i] is not 0 for those that may be right. Returns whether any is. */
bool hr_order_sieve_pass(enum hr_order_width width, const struct hr_order_sieve *sieve,
                         const uint32_t seeds[HR_ORDER_LANES], uint32_t pass[HR_ORDER_LANES]);

#endif
