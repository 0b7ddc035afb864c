/* What the machine, or the container, lets this process have. Any thread; reads small files. */
#ifndef HR_BASE_LIMITS_H
#define HR_BASE_LIMITS_H

#include <stdint.h>

/* Bytes of memory that our cgroup, and those above it, allow; UINT64_MAX: no limit. cgroup_file:
 * /proc/self/cgroup; root: where the hierarchies are mounted, /sys/fs/cgroup. */
uint64_t hr_limit_memory(const char *cgroup_file, const char *root);
/* Cores that they allow by a quota of processor time, a part of one counted as one; UINT64_MAX: no quota. */
uint64_t hr_limit_cores(const char *cgroup_file, const char *root);

#endif
