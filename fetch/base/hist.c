#include "fetch/base/hist.h"

#define BUCKETS_AN_OCTAVE 4 /* a quantile is at most a quarter too large */

/* Octave of the leading bit, then the two bits below it. */
static unsigned bucket_of(uint64_t us)
{
    if (us < 2) {
        return 0;
    }
    unsigned octave = 63u - (unsigned)__builtin_clzll(us);
    unsigned quarter =
        octave >= 2 ? (unsigned)(us >> (octave - 2)) & 3u : (unsigned)(us << (2 - octave)) & 3u;
    unsigned bucket = octave * BUCKETS_AN_OCTAVE + quarter;
    return bucket < HR_HIST_BUCKETS ? bucket : HR_HIST_BUCKETS - 1;
}

static uint64_t upper_bound_us(unsigned bucket)
{
    uint64_t octave = bucket / BUCKETS_AN_OCTAVE;
    uint64_t quarter = bucket % BUCKETS_AN_OCTAVE;
    uint64_t bound = ((BUCKETS_AN_OCTAVE + quarter + 1) << octave) / BUCKETS_AN_OCTAVE;
    return bound;
}

void hr_hist_add(struct hr_hist *hist, uint64_t us)
{
    hist->count++;
    if (us > hist->max_us) {
        hist->max_us = us;
    }
    hist->buckets[bucket_of(us)]++;
}

uint64_t hr_hist_quantile_us(const struct hr_hist *hist, double q)
{
    if (hist->count == 0) {
        return 0;
    }
    double rank = q * (double)hist->count;
    uint64_t seen = 0;
    for (unsigned bucket = 0; bucket < HR_HIST_BUCKETS - 1; bucket++) {
        seen += hist->buckets[bucket];
        if (seen > 0 && (double)seen >= rank) {
            uint64_t bound = upper_bound_us(bucket);
            return bound < hist->max_us ? bound : hist->max_us;
        }
    }
    return hist->max_us; /* the last bucket is open at the top */
}
