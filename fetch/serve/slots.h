/* Requests from clients: a thread that hears the doorbell, and the intake on the main loop that copies,
 * checks and passes on. Nothing in a slot is believed: numbers are checked by the plan, lengths and the
 * checksum here. */
#ifndef HR_SERVE_SLOTS_H
#define HR_SERVE_SLOTS_H

#include <stdint.h>

#include "fetch/cache/cache.h"
#include "fetch/net/loop.h"
#include "fetch/plan/plan.h"
#include "fetch/serve/shm.h"
#include "fetch/serve/waits.h"

struct hr_intake;

struct hr_intake_stats {
    uint64_t taken;     /* requests */
    uint64_t torn;      /* dropped: checksum, length or operation wrong */
    uint64_t reclaimed; /* slots taken back from clients that died while filling them */
};

/* 0 or -errno: no thread runs. */
int hr_intake_start(struct hr_loop *loop, const struct hr_shm *shm, struct hr_plan *plan,
                    struct hr_cache *cache, struct hr_intake **ret);
/* Who waits is noted from now on; waits outlive the intake. */
void hr_intake_watch(struct hr_intake *intake, struct hr_waits *waits);
/* Every heartbeat: takes stale claims back. Returns true when requests came since the last call. */
bool hr_intake_tick(struct hr_intake *intake);
void hr_intake_stats(const struct hr_intake *intake, struct hr_intake_stats *ret);
void hr_intake_stop(struct hr_intake *intake); /* accepts NULL */

#endif
