#include "fetch/store/retry.h"

/* Costs, bases and cap: the "standard" policy of AWS' own clients. */
#define COST_TRANSIENT 14
#define COST_THROTTLED 5
#define BASE_MS 50
#define BASE_SLOW_MS 1000
#define CAP_MS 20000
/* Ours, two doublings of the longer base: a program waits for one object at a time, so what it asks for again
 * is no crowd, and the width keeps the rest away. Half of all answers throttled, 1 of 100 objects takes 7
 * tries. */
#define CAP_AWAITED_MS 4000
#define RETRY_AFTER_EXTRA_MS 5000 /* a server's wish counts up to this much beyond our own wait */
#define LAST_TRY_MS 20            /* ours: less time than this is no time for a request */

void hr_retry_budget_init(struct hr_retry_budget *budget)
{
    budget->tokens = HR_RETRY_TOKENS;
}

bool hr_retry_take(struct hr_retry_budget *budget, bool throttled, unsigned *ret_taken)
{
    unsigned cost = throttled ? COST_THROTTLED : COST_TRANSIENT;

    if (budget->tokens < cost) {
        *ret_taken = 0;
        return false;
    }
    budget->tokens -= cost;
    *ret_taken = cost;
    return true;
}

void hr_retry_success(struct hr_retry_budget *budget, unsigned taken)
{
    budget->tokens += taken > 0 ? taken : 1;
    if (budget->tokens > HR_RETRY_TOKENS) {
        budget->tokens = HR_RETRY_TOKENS;
    }
}

int64_t hr_retry_wait_ms(const struct hr_retry_wait *wait)
{
    int64_t ceiling = wait->slow ? BASE_SLOW_MS : BASE_MS;
    int64_t cap = wait->awaited ? CAP_AWAITED_MS : CAP_MS;
    int64_t ms;

    for (unsigned i = 0; i < wait->attempt && ceiling < cap; i++) {
        ceiling *= 2;
    }
    if (ceiling > cap) {
        ceiling = cap;
    }
    ms = (int64_t)((double)ceiling * wait->random_unit);
    if (wait->retry_after_ms > ms) {
        int64_t most = ms + RETRY_AFTER_EXTRA_MS;
        ms = wait->retry_after_ms < most ? wait->retry_after_ms : most;
    }
    if (wait->left_ms < LAST_TRY_MS) {
        return -1;
    }
    return ms > wait->left_ms / 2 ? wait->left_ms / 2 : ms;
}
