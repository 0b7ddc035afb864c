#include "fetch/base/limits.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HR_PERIOD_US 100000            /* of a quota of processor time: the kernel's default */
#define HR_LINE_BYTES (PATH_MAX + 128) /* a line of /proc/self/cgroup */

/* What one folder of a hierarchy allows; UINT64_MAX: no limit, or no such file. */
typedef uint64_t (*hr_limit_reader)(const char *folder);

struct resource {
    const char *controller;
    hr_limit_reader first, second; /* version of cgroups */
};

/* The first `count` numbers of a file; false: it has fewer, or there is none. */
static bool numbers_in(const char *folder, const char *name, unsigned count, uint64_t *ret)
{
    char path[PATH_MAX], text[64] = "";
    int len = snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = len > 0 && len < PATH_MAX ? fopen(path, "re") : NULL;
    if (!file) {
        return false;
    }
    size_t got = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[got] = '\0';
    char *at = text;
    for (unsigned i = 0; i < count; i++) {
        char *end;
        at += strspn(at, " ");
        if (*at < '0' || *at > '9') {
            return false; /* "max", -1 */
        }
        ret[i] = strtoull(at, &end, 10);
        at = end;
    }
    return true;
}

static uint64_t memory_first(const char *folder)
{
    uint64_t bytes;
    /* Without a limit it has the largest multiple of a page. */
    bool limited =
        numbers_in(folder, "memory.limit_in_bytes", 1, &bytes) && bytes < (uint64_t)INT64_MAX - 65536;
    return limited ? bytes : UINT64_MAX;
}

static uint64_t memory_second(const char *folder)
{
    uint64_t bytes;
    return numbers_in(folder, "memory.max", 1, &bytes) ? bytes : UINT64_MAX;
}

static uint64_t cores_of(uint64_t quota_us, uint64_t period_us)
{
    return period_us > 0 ? quota_us / period_us + (quota_us % period_us > 0) : UINT64_MAX;
}

static uint64_t cores_first(const char *folder)
{
    uint64_t quota_us, period_us = HR_PERIOD_US;
    (void)numbers_in(folder, "cpu.cfs_period_us", 1, &period_us);
    return numbers_in(folder, "cpu.cfs_quota_us", 1, &quota_us) ? cores_of(quota_us, period_us) : UINT64_MAX;
}

static uint64_t cores_second(const char *folder)
{
    uint64_t quota_and_period_us[2];
    return numbers_in(folder, "cpu.max", 2, quota_and_period_us)
               ? cores_of(quota_and_period_us[0], quota_and_period_us[1])
               : UINT64_MAX;
}

/* The least on the way from `group` up to the hierarchy's root. A container may see the path of its host,
 * which it does not have: then only the root counts, which is its own group. */
static uint64_t least_upwards(const char *root, const char *hierarchy, const char *group,
                              hr_limit_reader reader)
{
    char folder[PATH_MAX];
    uint64_t least = UINT64_MAX;
    int top = snprintf(folder, sizeof folder, "%s%s%s", root, hierarchy[0] ? "/" : "", hierarchy);
    if (top < 0 || (size_t)top + strlen(group) >= sizeof folder) {
        return least;
    }
    strcpy(folder + top, group);
    for (;;) {
        uint64_t here = reader(folder);
        least = here < least ? here : least;
        if (strlen(folder) <= (size_t)top) {
            return least;
        }
        *strrchr(folder, '/') = '\0';
    }
}

static bool has_controller(const char *controllers, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = controllers; (at = strstr(at, name)); at += len) {
        if ((at == controllers || at[-1] == ',') && (at[len] == '\0' || at[len] == ',')) {
            return true;
        }
    }
    return false;
}

static uint64_t least_of(const char *cgroup_file, const char *root, const struct resource *resource)
{
    FILE *file = fopen(cgroup_file, "re");
    char line[HR_LINE_BYTES];
    uint64_t least = UINT64_MAX;
    while (file && fgets(line, sizeof line, file)) { /* NUMBER:CONTROLLERS:PATH */
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group || group[1] != '/') {
            continue;
        }
        *group++ = '\0';
        controllers++;
        uint64_t here = UINT64_MAX, by_name = UINT64_MAX;
        if (*controllers == '\0') {
            here = least_upwards(root, "", group, resource->second);
        } else if (has_controller(controllers,
                                  resource->controller)) { /* mounted as "cpu,cpuacct", or "cpu" */
            here = least_upwards(root, controllers, group, resource->first);
            by_name = least_upwards(root, resource->controller, group, resource->first);
        }
        here = by_name < here ? by_name : here;
        least = here < least ? here : least;
    }
    if (file) {
        fclose(file);
    }
    return least;
}

uint64_t hr_limit_memory(const char *cgroup_file, const char *root)
{
    static const struct resource memory = {"memory", memory_first, memory_second};
    return least_of(cgroup_file, root, &memory);
}

uint64_t hr_limit_cores(const char *cgroup_file, const char *root)
{
    static const struct resource cores = {"cpu", cores_first, cores_second};
    return least_of(cgroup_file, root, &cores);
}
