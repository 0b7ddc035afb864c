/* The shuffles of Python's random and of numpy, for seeds of 32 bits. All three go from the back, so the
 * first index of an order is known when the whole of it is. Pure, any thread. */
#ifndef HR_PLAN_ORDER_OTHERS_H
#define HR_PLAN_ORDER_OTHERS_H

#include <stdint.h>

#include "fetch/plan/order_torch.h"

/* n numbers into ret, shuffled; generator is none of torch's. */
void hr_other_permutation(enum hr_order_generator generator, uint32_t seed, uint32_t n, uint32_t *ret);

#endif
