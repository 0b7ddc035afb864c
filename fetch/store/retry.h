/* When to ask again: full jitter over a doubling base, and one budget per endpoint.
 *
 * The budget is a bucket of 500 tokens. A retry takes 14 (5 when the store throttled us), a request that
 * succeeds gives back what its last retry took, a clean success gives 1. An empty bucket never fails a call,
 * because a training job cannot go on without the object: it only makes every wait as long as a throttled
 * one's. What ends a call is its own time. Owned by one thread. */
#ifndef HR_STORE_RETRY_H
#define HR_STORE_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#define HR_RETRY_TOKENS 500

struct hr_retry_budget {
    unsigned tokens;
};

void hr_retry_budget_init(struct hr_retry_budget *budget);
/* Takes a retry's cost. *ret_taken: for hr_retry_success. False: the bucket is empty (nothing taken). */
bool hr_retry_take(struct hr_retry_budget *budget, bool throttled, unsigned *ret_taken);
/* A call succeeded; taken: by its last retry, 0 when it needed none. */
void hr_retry_success(struct hr_retry_budget *budget, unsigned taken);

struct hr_retry_wait {
    unsigned attempt;       /* retries made before, from 0 */
    bool slow;              /* throttled, or the bucket is empty */
    int64_t retry_after_ms; /* what the answer asked for, < 0: nothing */
    int64_t left_ms;        /* until the call's time is over */
    double random_unit;     /* [0, 1) */
    bool awaited;           /* a program waits for the call: the cap is 4 s, else 20 s */
};
/* Milliseconds to wait, or -1: no time is left for another try. A wait that would eat the rest of the time is
 * halved to the rest, so that a last try fits. */
int64_t hr_retry_wait_ms(const struct hr_retry_wait *wait);

#endif
