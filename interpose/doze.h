/* Sleeping so that no signal goes unnoticed. FUTEX_WAIT tells of a signal only when it woke by it: one that
 * comes when the time is over, before the thread has a processor again, is handled and not told of, which on
 * a busy machine is a tenth of all. So signals stay blocked between the turns and are let in by ppoll alone,
 * which looks for them after its time is over, too. What the kernel gives to another thread instead while
 * they are blocked is not seen. Async-signal-safe. */
#ifndef HR_DOZE_H
#define HR_DOZE_H

#include <stdbool.h>
#include <stdint.h>

struct hr_doze { /* {0} to begin with */
    bool blocked;
    uint64_t mask; /* the thread's own, as the kernel has it, while blocked */
};

/* One turn of at most `ms`. True: a signal handler ran in it, or a signal came since the last turn. */
bool hr_doze(struct hr_doze *doze, unsigned ms);
/* The thread's mask is its own again; what is pending is handled here. Nothing to do without a turn. */
void hr_doze_end(struct hr_doze *doze);

#endif
