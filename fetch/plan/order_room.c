#include "fetch/plan/order_thread.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 4096

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

/* First word of a file. */
static bool read_word(const char *folder, const char *name, char word[64])
{
    char path[PATH_BYTES];
    int len = snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = len > 0 && (size_t)len < sizeof path ? fopen(path, "re") : NULL;
    bool got = file && fscanf(file, "%63s", word) == 1;
    if (file) {
        fclose(file);
    }
    return got;
}

static bool limits(const char *folder)
{
    char word[64];
    return (read_word(folder, "cpu.max", word) && strcmp(word, "max") != 0) ||
           (read_word(folder, "cpu.cfs_quota_us", word) && word[0] != '-');
}

/* A group and those above it. In a container the path may be the host's, and only the top be there. */
static bool limited(const char *root, const char *hierarchy, const char *group)
{
    char path[PATH_BYTES];
    int len = snprintf(path, sizeof path, "%s%s%s%s", root, hierarchy[0] ? "/" : "", hierarchy, group);
    size_t top = strlen(root) + (hierarchy[0] ? 1 + strlen(hierarchy) : 0);
    if (len < 0 || (size_t)len >= sizeof path) {
        return true; /* in doubt there is one */
    }
    for (;;) {
        char *slash = strrchr(path, '/');
        if (limits(path)) {
            return true;
        }
        if (!slash || (size_t)(slash - path) < top) {
            return false;
        }
        *slash = '\0';
    }
}

static bool has_cpu(const char *controllers)
{
    size_t len = strlen(controllers);
    for (const char *at = controllers; (at = strstr(at, "cpu")); at += 3) {
        if ((at == controllers || at[-1] == ',') && (at + 3 == controllers + len || at[3] == ',')) {
            return true;
        }
    }
    return false;
}

bool hr_order_has_quota(const char *cgroup_file, const char *root)
{
    FILE *file = fopen(cgroup_file, "re");
    char line[PATH_BYTES];
    bool found = false;
    if (!file) {
        return false; /* no cgroups here */
    }
    while (!found && fgets(line, sizeof line, file)) { /* NUMBER:CONTROLLERS:PATH */
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) {
            continue;
        }
        line[strcspn(line, "\n")] = '\0';
        *group++ = '\0';
        controllers++;
        if (controllers[0] == '\0' || has_cpu(controllers)) {
            found = limited(root, controllers, group) || (controllers[0] && limited(root, "cpu", group));
        }
    }
    fclose(file);
    return found;
}
