/* When a second request is worth sending: an answer that is slower than nearly all lately has probably met
 * one slow server, connection or disk, and another one is quicker than waiting. Pure; one an endpoint, owned
 * by one thread. */
#ifndef HR_STORE_HEDGE_H
#define HR_STORE_HEDGE_H

#include <stdbool.h>
#include <stdint.h>

#include "fetch/base/hist.h"

#define HR_HEDGE_EVERY 50u /* requests for one hedge: 2 %, counted from the endpoint's first */
#define HR_HEDGE_SAVED 8u  /* hedges that may be saved up, so that a good hour is no storm later */

struct hr_hedge_class {
    struct hr_hist answers; /* times to the first byte */
    uint64_t slow_us;       /* hardly any was slower lately; 0: too few are known */
};

struct hr_hedging {
    unsigned tokens;                  /* one a request, HR_HEDGE_EVERY make a hedge */
    struct hr_hedge_class classes[2]; /* short answers, long ones */
    uint64_t sent, won;
};

void hr_hedging_asked(struct hr_hedging *hedging); /* a request was sent */
/* bytes: how long the answer is, as far as known; us: from the sending to the first byte. */
void hr_hedging_answered(struct hr_hedging *hedging, uint64_t bytes, uint64_t us);
/* Age at which a request without a first byte deserves a second; -1: not known. */
int64_t hr_hedging_delay_ms(const struct hr_hedging *hedging, uint64_t bytes);
/* Takes the cost of one from the budget, or false. */
bool hr_hedging_take(struct hr_hedging *hedging);

#endif
