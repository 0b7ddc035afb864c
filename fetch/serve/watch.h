/* Who ends when: the end of a job's process, seen by a descriptor of it. Main loop. */
#ifndef HR_SERVE_WATCH_H
#define HR_SERVE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "fetch/net/loop.h"

struct hr_watch {
    struct hr_loop *loop;
    int fd; /* -1: none */
    void (*ended)(void *owner);
    void *owner;
};

/* ended(owner) is called once, when the process is gone. -errno: it cannot be watched (another PID namespace,
 * a kernel before 5.3), the watch is empty. */
int hr_watch_begin(struct hr_watch *watch, struct hr_loop *loop, uint32_t pid, void (*ended)(void *owner),
                   void *owner);
void hr_watch_end(struct hr_watch *watch);
/* It is gone, though the loop may not have told yet. */
bool hr_watch_is_over(const struct hr_watch *watch);

#endif
