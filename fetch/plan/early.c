#include "fetch/plan/early.h"

#include "fetch/base/clock.h"

#define LATELY_MS 1000 /* ours; the loader has run again by then */

struct hr_early_open *hr_early_keep(struct hr_early *early, const struct hr_early_open *open)
{
    struct hr_early_open *kept = &early->opens[early->count++ % HR_EARLY_KEPT];
    *kept = *open;
    kept->ms = hr_clock_ms();
    return kept;
}

/* The n-th, the oldest first. */
static struct hr_early_open *at(struct hr_early *early, uint32_t n)
{
    return &early->opens[(early->count + n) % HR_EARLY_KEPT];
}

unsigned hr_early_asked(struct hr_early *early, uint32_t context,
                        struct hr_early_open *ret[HR_EARLY_ASKED_MAX])
{
    int64_t since_ms = hr_clock_ms() - LATELY_MS;
    uint32_t first = HR_EARLY_KEPT;
    unsigned asked = 0, count = 0;
    while (first > 0 && asked < HR_EARLY_ASKED_MAX && at(early, first - 1)->ms >= since_ms) {
        asked += at(early, --first)->context == context;
    }
    for (uint32_t n = first; n < HR_EARLY_KEPT; n++) {
        struct hr_early_open *open = at(early, n);
        if (open->context == context && !open->done) {
            ret[count++] = open;
        }
    }
    return count;
}

struct hr_early_open *hr_early_noted(struct hr_early *early, uint32_t tag)
{
    for (uint32_t n = 0; n < HR_EARLY_KEPT; n++) {
        struct hr_early_open *open = at(early, n);
        if (open->context == HR_EARLY_NOTED && open->tag == tag && !open->done) {
            return open;
        }
    }
    return NULL;
}
