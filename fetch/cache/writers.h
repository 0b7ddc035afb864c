/* Writer threads: file work off the loop, and its way back in batches.
 *
 * A unit of work is embedded in what it works on; nothing is allocated. run is called on some writer thread,
 * then done on the loop, in the order in which runs ended. After each batch of dones batch_end is called
 * once. */
#ifndef HR_CACHE_WRITERS_H
#define HR_CACHE_WRITERS_H

#include <stdbool.h>

#include "fetch/net/loop.h"

struct hr_writers;

struct hr_work;

struct hr_work_kind {
    void (*run)(struct hr_work *work);
    void (*done)(struct hr_work *work); /* may free it, or push it again */
    /* Work that waits side by side with the same `together` may be taken by one thread at once: called there
     * with all of it, linked by next, before each one's run. NULL: taken alone. */
    void (*together)(struct hr_work *first);
};

struct hr_work {
    struct hr_work *next; /* owned by the writers between push and done */
    const struct hr_work_kind *kind;
    bool patient; /* nobody waits for it: it may wait a moment for others to be taken with */
    bool urgent;  /* a program waits for a lot of it: taken before all that are not */
};

#define HR_WORKS_TOGETHER_MAX 16u /* at most so many */

/* threads >= 1. All signals are blocked in them. 0 or -errno. */
int hr_writers_new(unsigned threads, struct hr_loop *loop, void (*batch_end)(void *owner), void *owner,
                   struct hr_writers **ret);
void hr_writers_push(struct hr_writers *writers, struct hr_work *work); /* on the loop's thread */
void hr_writers_hurry(
    struct hr_writers *writers); /* none that was pushed waits any longer; the same thread */
/* One that was pushed or will be: urgent from now on. The same thread. */
void hr_writers_prefer(struct hr_writers *writers, struct hr_work *work);
/* Runs everything that was pushed, and what the dones push, to its end; the loop's thread, outside done. */
void hr_writers_drain(struct hr_writers *writers);
void hr_writers_free(struct hr_writers *writers); /* drains; accepts NULL */

#endif
