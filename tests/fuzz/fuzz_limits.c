/* Any bytes as /proc/self/cgroup and as the files of a cgroup: a number or none, and the walk up ends. Input:
 * the cgroup file NUL memory.max NUL cpu.max; the first two also as those of version 1. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fetch/base/limits.h"
#include "tests/fuzz/scratch.h"

static void put(const char *name, const uint8_t *bytes, size_t len)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    scratch_put(path, bytes, len);
}

static void make_dir(void)
{
    static const char *const folders[] = {"", "/memory", "/cpu", "/cpu,cpuacct", "/a", "/memory/a", "/cpu/a"};
    char path[128];
    scratch_make("/tmp");
    for (size_t i = 1; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%s%s", scratch, folders[i]);
        MUST(mkdir(path, 0700) == 0);
    }
}

static size_t next(const uint8_t *data, size_t size, size_t *at)
{
    const uint8_t *end = memchr(data + *at, '\0', size - *at);
    size_t len = end ? (size_t)(end - data) - *at : size - *at;
    *at += len + (end != NULL);
    return len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const memory[] = {"memory.max", "a/memory.max", "memory/memory.limit_in_bytes",
                                         "memory/a/memory.limit_in_bytes"};
    static const char *const cpu[] = {"cpu.max",
                                      "a/cpu.max",
                                      "cpu/cpu.cfs_quota_us",
                                      "cpu/a/cpu.cfs_quota_us",
                                      "cpu,cpuacct/cpu.cfs_quota_us",
                                      "cpu/cpu.cfs_period_us"};
    char cgroup[64];
    size_t at = 0;
    static bool made;
    if (!made) {
        make_dir();
        made = true;
    }
    size_t len = next(data, size, &at);
    put("cgroup", data, len);
    const uint8_t *bytes = data + at;
    len = next(data, size, &at);
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) {
        put(memory[i], bytes, len);
    }
    bytes = data + at;
    len = next(data, size, &at);
    for (size_t i = 0; i < sizeof cpu / sizeof *cpu; i++) {
        put(cpu[i], bytes, len);
    }
    snprintf(cgroup, sizeof cgroup, "%s/cgroup", scratch);
    (void)hr_limit_memory(cgroup, scratch);
    (void)hr_limit_cores(cgroup, scratch);
    return 0;
}
