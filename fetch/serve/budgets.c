#include "fetch/serve/budgets.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include "fetch/base/limits.h"

#define HR_NET_THREADS_MAX 4        /* net_threads=auto: one carries 20 k small requests/s or 1 GB/s of TLS */
#define HR_FILES_BESIDE 64          /* open files beside the connections': sockets, log, journal, index */
#define HR_MEMORY_LEAST (32u << 20) /* bytes; the least that the setting allows */
#define HR_OPEN_FILES (1 << 16)     /* connections, writers' files; less where the hard limit is lower */

static void raise_limits(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < HR_OPEN_FILES) {
        limit.rlim_cur = limit.rlim_max < HR_OPEN_FILES ? limit.rlim_max : HR_OPEN_FILES;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* The setting, or what the limit of open files leaves room for: one that fetches may hold a file as well. */
static unsigned connections(const struct hr_settings *settings)
{
    struct rlimit limit;
    uint64_t asked = hr_settings_count(settings, HR_SETTING_CONNECTIONS);
    uint64_t room = asked;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        room = limit.rlim_cur > HR_FILES_BESIDE ? (limit.rlim_cur - HR_FILES_BESIDE) / 2 : 1;
    }
    return (unsigned)(asked < room ? asked : room > 0 ? room : 1);
}

/* The setting, or a quarter of the cgroup's memory: the job lives in there too. */
static uint64_t memory_bytes(const struct hr_settings *settings)
{
    uint64_t asked = hr_settings_bytes(settings, HR_SETTING_MEMORY, 0);
    uint64_t room = hr_limit_memory("/proc/self/cgroup", "/sys/fs/cgroup") / 4;
    room = room < HR_MEMORY_LEAST ? HR_MEMORY_LEAST : room;
    return asked < room ? asked : room;
}

static unsigned usable_cores(void)
{
    cpu_set_t ours;
    uint64_t quota = hr_limit_cores("/proc/self/cgroup", "/sys/fs/cgroup");
    uint64_t cores = sched_getaffinity(0, sizeof ours, &ours) == 0 ? (uint64_t)CPU_COUNT(&ours)
                                                                   : (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
    return (unsigned)(quota < cores ? quota : cores);
}

static unsigned net_threads(const struct hr_settings *settings, unsigned cores)
{
    uint64_t threads = hr_settings_count(settings, HR_SETTING_NET_THREADS);
    if (threads == 0) {
        threads = cores > 4 ? cores / 4 : 1;
        threads = threads > HR_NET_THREADS_MAX ? HR_NET_THREADS_MAX : threads;
    }
    return (unsigned)threads;
}

void hr_budgets_take(const struct hr_settings *settings, struct hr_budgets *ret)
{
    raise_limits();
    unsigned lanes = (unsigned)hr_settings_count(settings, HR_SETTING_LIST_LANES);
    ret->connections = connections(settings);
    ret->list_lanes = lanes < ret->connections ? lanes : ret->connections;
    ret->cores = usable_cores();
    ret->net_threads = net_threads(settings, ret->cores);
    ret->memory_bytes = memory_bytes(settings);
}
