/* What `doctor` says of limits: files, memory, processor, room. */
#include <inttypes.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include "fetch/base/limits.h"
#include "fetch/cmd/doctor.h"

#define HR_MIB (1024u * 1024u)
#define HR_FILES_BESIDE 64 /* as serve/daemon.c has it: beside the connections, which take up to two each */
/* It takes so much beside the setting `memory`: threads, tables, TLS. */
#define HR_DAEMON_BYTES (128ull * HR_MIB)
#define HR_SPACE_LEAST (1024ull * HR_MIB) /* a cache that holds less evicts what the next epoch needs */

static void check_files(struct hr_doctor *doctor)
{
    struct rlimit limit;
    uint64_t connections = hr_settings_count(doctor->job.settings, HR_SETTING_CONNECTIONS);
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) {
        return;
    }
    uint64_t hard = limit.rlim_max, needed = 2 * connections + HR_FILES_BESIDE;
    if (hard < needed) {
        hr_doctor_say(doctor, HR_FINDING_NOTE, "open files",
                      "the hard limit %" PRIu64 " is too low for connections=%" PRIu64
                      ", fewer are used; raise it (ulimit -Hn %" PRIu64 ")",
                      hard, connections, needed);
    } else {
        hr_doctor_say(doctor, HR_FINDING_OK, "open files", "enough for connections=%" PRIu64, connections);
    }
}

static void check_memory(struct hr_doctor *doctor)
{
    uint64_t asked = hr_settings_bytes(doctor->job.settings, HR_SETTING_MEMORY, 0);
    uint64_t limit = hr_limit_memory("/proc/self/cgroup", "/sys/fs/cgroup");
    struct rlimit space;
    if (limit == UINT64_MAX) {
        hr_doctor_say(doctor, HR_FINDING_OK, "memory", "no cgroup limits it");
    } else if (limit < asked + HR_DAEMON_BYTES) {
        hr_doctor_say(doctor, HR_FINDING_NOTE, "memory",
                      "the cgroup allows %" PRIu64 " MiB for the job and the daemon: memory=%" PRIu64
                      "M is cut to a quarter of that; a larger limit lets more be fetched at a time",
                      limit / HR_MIB, asked / HR_MIB);
    } else {
        hr_doctor_say(doctor, HR_FINDING_OK, "memory", "the cgroup allows %" PRIu64 " MiB", limit / HR_MIB);
    }
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
        hr_doctor_say(doctor, HR_FINDING_NOTE, "addresses",
                      "RLIMIT_AS is %" PRIu64
                      " MiB: listings and large objects are mapped; unlimited is better",
                      (uint64_t)space.rlim_cur / HR_MIB);
    }
}

static void check_processor(struct hr_doctor *doctor)
{
    uint64_t cores = hr_limit_cores("/proc/self/cgroup", "/sys/fs/cgroup");
    if (cores == UINT64_MAX) {
        hr_doctor_say(doctor, HR_FINDING_OK, "processor", "no cgroup limits it");
    } else {
        hr_doctor_say(doctor, HR_FINDING_OK, "processor",
                      "the cgroup allows the time of %" PRIu64
                      " cores: net_threads=auto goes by that, order_search=auto tries likely seeds only",
                      cores);
    }
}

static void check_space(struct hr_doctor *doctor)
{
    struct statvfs fs;
    if (statvfs(doctor->job.cache_dir, &fs) < 0) {
        return;
    }
    uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize, whole = (uint64_t)fs.f_blocks * fs.f_frsize;
    uint64_t size = hr_settings_bytes(doctor->job.settings, HR_SETTING_CACHE_SIZE, whole);
    hr_doctor_say(doctor, free_bytes < HR_SPACE_LEAST ? HR_FINDING_NOTE : HR_FINDING_OK, "cache",
                  "%s: may take %" PRIu64 " MiB, %" PRIu64 " MiB are free now%s", doctor->job.cache_dir,
                  size / HR_MIB, free_bytes / HR_MIB,
                  free_bytes < HR_SPACE_LEAST ? ": free space, or set cache_dir to a larger place" : "");
}

void hr_doctor_limits(struct hr_doctor *doctor)
{
    check_space(doctor);
    check_files(doctor);
    check_memory(doctor);
    check_processor(doctor);
}
