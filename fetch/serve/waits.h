/* Who waits for what: the last request of each thread that has not been answered yet, and how long those took
 * that have. A request is an open wait until its answer, the change of its entry's state word, the next
 * request of its thread, or until it is not repeated any more (clients ask again each second). Main loop. */
#ifndef HR_SERVE_WAITS_H
#define HR_SERVE_WAITS_H

#include <jansson.h>
#include <stdint.h>

#include "fetch/plan/plan.h"

/* What a thread waited for, or what made it long: the first that holds, from below. */
enum hr_wait_reason {
    HR_WAIT_DEMAND,    /* an object that nothing had foreseen */
    HR_WAIT_LATE,      /* one that was on its way already */
    HR_WAIT_SEGMENT,   /* bytes of a large object */
    HR_WAIT_LISTING,   /* a directory */
    HR_WAIT_NAME,      /* stat without a listing */
    HR_WAIT_ROOM,      /* the cache had no room at first */
    HR_WAIT_RETRY,     /* a request failed and was sent again */
    HR_WAIT_THROTTLED, /* the store said: slow down */
    HR_WAIT_REASONS
};
const char *hr_wait_reason_name(enum hr_wait_reason reason);

struct hr_wait_sum {
    uint64_t count, us, max_us;
};

struct hr_wait_ended {
    uint32_t context, pid;
    enum hr_wait_reason reason;
    uint64_t us;
};

struct hr_waits;

/* ended (may be NULL) is called for each wait that took place. The plan's changes are heard from now on. 0
 * or -ENOMEM. */
int hr_waits_new(struct hr_plan *plan, void (*ended)(void *owner, const struct hr_wait_ended *wait),
                 void *owner, struct hr_waits **ret);
void hr_waits_free(struct hr_waits *waits); /* after the plan; accepts NULL */

/* A request has come in a slot (checked): what it waits for is noted before the plan is asked. Without waits
 * (NULL), or when it is a hint: nothing is. */
void hr_waits_begin(struct hr_waits *waits, const struct hr_slot *slot);
/* The plan was asked. on_its_way false: the client has nothing to wait for. */
void hr_waits_begun(struct hr_waits *waits, const struct hr_slot *slot, bool on_its_way);
/* The plan's asker of a slot's ticket, seen by the waits. */
struct hr_asker hr_waits_asker(struct hr_waits *waits, struct hr_plan *plan, uint32_t ticket);

/* Every heartbeat: threads that ask no more do not wait any more. */
void hr_waits_tick(struct hr_waits *waits);

/* Of all that ended. */
void hr_waits_sum(const struct hr_waits *waits, struct hr_wait_sum ret[HR_WAIT_REASONS]);
/* What is open, for `headrace stall`: an array; keys percent-encoded. */
json_t *hr_waits_json(const struct hr_waits *waits);

#endif
