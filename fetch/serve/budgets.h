/* What the daemon takes of the machine: its settings, within what the process and its cgroup are allowed. */
#ifndef HR_SERVE_BUDGETS_H
#define HR_SERVE_BUDGETS_H

#include <stdint.h>

#include "config/settings.h"

struct hr_budgets {
    unsigned connections; /* requests in flight at most; open files leave room for them */
    unsigned list_lanes;  /* pages of one listing in flight at most */
    unsigned cores;       /* that we may run on, or as many as a quota is worth */
    unsigned net_threads;
    uint64_t memory_bytes; /* for bodies; at most a quarter of the cgroup's memory */
};

/* Raises the process' own limit of open files first. Before threads. */
void hr_budgets_take(const struct hr_settings *settings, struct hr_budgets *ret);

#endif
