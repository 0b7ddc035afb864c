/* What the tests of known orders share: an ask in which the first of an order were seen. */
#ifndef TESTS_PLAN_ORDERS_H
#define TESTS_PLAN_ORDERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "fetch/plan/order_search.h"

#define SEEN 10 /* indices that a job announced before we look */

static inline uint32_t random_word(void)
{
    static uint64_t state = 88172645463325252u; /* xorshift64's usual start: the same test each time */
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 16);
}

static inline uint32_t *make(const struct hr_order *order)
{
    uint32_t *whole = malloc(order->n * sizeof *whole);
    assert_non_null(whole);
    hr_order_make(order, whole);
    return whole;
}

static inline unsigned see(struct hr_order_seen *seen, const struct hr_order *order, unsigned count)
{
    uint32_t *whole = make(order);
    uint32_t length = hr_order_length(order);
    count = count < length ? count : length;
    for (uint32_t i = 0; i < count; i++) {
        seen[i] = (struct hr_order_seen){i, hr_order_at(order, whole, i)};
    }
    free(whole);
    return count;
}

static inline struct hr_order_ask ask_of(uint32_t n)
{
    return (struct hr_order_ask){.sets = {{.n = n}}, .set_count = 1};
}

/* The first `count` of the order are what was seen, of each set. */
static inline void look(struct hr_order_ask *ask, const struct hr_order *order, unsigned count)
{
    for (unsigned i = 0; i < ask->set_count; i++) {
        ask->sets[i].seen_count = see(ask->sets[i].seen, order, count);
    }
}

#endif
