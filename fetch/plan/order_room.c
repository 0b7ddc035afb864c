/* What a search may take of this machine. */
#include "fetch/plan/order_thread.h"

#include <sched.h>
#include <stdlib.h>

#include "fetch/base/limits.h"

unsigned hr_order_idle_cores(void)
{
    cpu_set_t ours;
    double load;
    if (sched_getaffinity(0, sizeof ours, &ours) < 0 || getloadavg(&load, 1) != 1) {
        return 0;
    }
    double idle = CPU_COUNT(&ours) - load;
    return idle > 0 ? (unsigned)idle : 0;
}

bool hr_order_has_quota(const char *cgroup_file, const char *root)
{
    return hr_limit_cores(cgroup_file, root) != UINT64_MAX;
}
