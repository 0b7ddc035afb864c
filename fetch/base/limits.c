#include "fetch/base/limits.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HR_LINE_BYTES (PATH_MAX + 128) /* a line of /proc/self/cgroup */

/* The number in one file; UINT64_MAX: "max", or no such file. */
static uint64_t limit_in(const char *folder, const char *name)
{
    char path[PATH_MAX], text[32] = "";
    int len = snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = len > 0 && len < PATH_MAX ? fopen(path, "re") : NULL;
    if (!file) {
        return UINT64_MAX;
    }
    size_t got = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[got] = '\0';
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    /* Without a limit the first version has the largest multiple of a page. */
    return end == text || value >= INT64_MAX - 65536 ? UINT64_MAX : value;
}

/* The least on the way from `group` up to the hierarchy's root. A container may see the path of its host,
 * which it does not have: then only the root counts, which is its own group. */
static uint64_t least_upwards(const char *hierarchy, const char *group, const char *name)
{
    char folder[PATH_MAX];
    uint64_t least = UINT64_MAX;
    int len = snprintf(folder, sizeof folder, "%s%s", hierarchy, group);
    if (len < 0 || len >= PATH_MAX) {
        return least;
    }
    for (;;) {
        uint64_t here = limit_in(folder, name);
        least = here < least ? here : least;
        if (strlen(folder) <= strlen(hierarchy)) {
            return least;
        }
        *strrchr(folder, '/') = '\0';
    }
}

static bool has_memory(const char *controllers)
{
    size_t len = strlen("memory");
    for (const char *at = controllers; (at = strstr(at, "memory")); at += len) {
        if ((at == controllers || at[-1] == ',') && (at[len] == '\0' || at[len] == ',')) {
            return true;
        }
    }
    return false;
}

uint64_t hr_limit_memory(const char *cgroup_file, const char *root)
{
    FILE *file = fopen(cgroup_file, "re");
    char line[HR_LINE_BYTES], first[PATH_MAX];
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
        uint64_t here = UINT64_MAX;
        if (*controllers == '\0') {
            here = least_upwards(root, group, "memory.max");
        } else if (has_memory(controllers) && snprintf(first, sizeof first, "%s/memory", root) < PATH_MAX) {
            here = least_upwards(first, group, "memory.limit_in_bytes");
        }
        least = here < least ? here : least;
    }
    if (file) {
        fclose(file);
    }
    return least;
}
