/* Clocks, and the jitter that retries need. Any thread. */
#ifndef HR_BASE_CLOCK_H
#define HR_BASE_CLOCK_H

#include <stdint.h>

int64_t hr_clock_ms(void);      /* CLOCK_MONOTONIC: what heartbeats, deadlines and timers use */
int64_t hr_clock_us(void);      /* CLOCK_MONOTONIC */
int64_t hr_clock_wall_ns(void); /* CLOCK_REALTIME, since the epoch */
uint64_t hr_random_u64(void);   /* not for secrets; seeded per thread from the kernel */
double hr_random_unit(void);    /* [0, 1) */

#endif
