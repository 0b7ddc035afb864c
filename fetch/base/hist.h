/* A latency histogram with fixed memory: 4 buckets an octave from 1 us to about an hour. Owned by one thread.
 */
#ifndef HR_BASE_HIST_H
#define HR_BASE_HIST_H

#include <stdint.h>

#define HR_HIST_BUCKETS 128 /* 32 octaves of us */

struct hr_hist {
    uint64_t count;
    uint64_t max_us;
    uint64_t buckets[HR_HIST_BUCKETS];
};

void hr_hist_add(struct hr_hist *hist, uint64_t us);
/* Upper bound of the bucket that holds quantile q (0..1); 0 when empty. */
uint64_t hr_hist_quantile_us(const struct hr_hist *hist, double q);

#endif
