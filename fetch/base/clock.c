#include "fetch/base/clock.h"

#include <stdbool.h>
#include <sys/random.h>
#include <time.h>

static int64_t clock_ns(clockid_t id)
{
    struct timespec now;
    (void)clock_gettime(id, &now); /* cannot fail for these clocks */
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t hr_clock_ms(void)
{
    return clock_ns(CLOCK_MONOTONIC) / 1000000;
}

int64_t hr_clock_us(void)
{
    return clock_ns(CLOCK_MONOTONIC) / 1000;
}

int64_t hr_clock_wall_ns(void)
{
    return clock_ns(CLOCK_REALTIME);
}

/* splitmix64: one add and three mixes a number, any seed is good. */
uint64_t hr_random_u64(void)
{
    static _Thread_local uint64_t state;
    static _Thread_local bool seeded;
    if (!seeded) {
        if (getrandom(&state, sizeof(state), GRND_NONBLOCK) != (ssize_t)sizeof(state)) {
            state = (uint64_t)clock_ns(CLOCK_MONOTONIC) ^ (uint64_t)(uintptr_t)&state;
        }
        seeded = true;
    }
    uint64_t mixed = state += 0x9e3779b97f4a7c15ULL;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
    return mixed ^ (mixed >> 31);
}

double hr_random_unit(void)
{
    return (double)(hr_random_u64() >> 11) * 0x1.0p-53; /* 53 bits: a double's mantissa */
}
