#include "fetch/store/hedge.h"

#include <string.h>

#define LARGE_BYTES (1u << 20) /* ranges of large objects wait for each other's bytes */
#define KNOWN_FROM 64          /* answers before the first guess... */
#define KNOWN_EACH 512         /* ...and each further one: "lately" */
#define SLOW_QUANTILE 0.98     /* with a budget of 2 % nothing is gained by asking earlier */
#define SLOW_HALVES 3          /* half as much again: at the quantile itself most are about to answer */
#define MEDIANS 2              /* and so many medians: where all are alike, the slow ones are not slow */
#define LEAST_MS 25            /* ours: below it is the scheduler, not the store */

static struct hr_hedge_class *class_of(struct hr_hedging *hedging, uint64_t bytes)
{
    return &hedging->classes[bytes > LARGE_BYTES];
}

void hr_hedging_asked(struct hr_hedging *hedging)
{
    if (hedging->tokens < HR_HEDGE_EVERY * HR_HEDGE_SAVED) {
        hedging->tokens++;
    }
}

void hr_hedging_answered(struct hr_hedging *hedging, uint64_t bytes, uint64_t us)
{
    struct hr_hedge_class *class = class_of(hedging, bytes);

    hr_hist_add(&class->answers, us);
    if (class->answers.count == (class->slow_us > 0 ? KNOWN_EACH : KNOWN_FROM)) {
        uint64_t slow_us = hr_hist_quantile_us(&class->answers, SLOW_QUANTILE) * SLOW_HALVES / 2;
        uint64_t medians_us = hr_hist_quantile_us(&class->answers, 0.5) * MEDIANS;
        class->slow_us = slow_us > medians_us ? slow_us : medians_us;
        memset(&class->answers, 0, sizeof(class->answers));
    }
}

int64_t hr_hedging_delay_ms(const struct hr_hedging *hedging, uint64_t bytes)
{
    uint64_t slow_us = hedging->classes[bytes > LARGE_BYTES].slow_us;
    int64_t ms = (int64_t)(slow_us / 1000) + 1;

    if (slow_us == 0) {
        return -1;
    }
    return ms > LEAST_MS ? ms : LEAST_MS;
}

bool hr_hedging_take(struct hr_hedging *hedging)
{
    if (hedging->tokens < HR_HEDGE_EVERY) {
        return false;
    }
    hedging->tokens -= HR_HEDGE_EVERY;
    return true;
}
