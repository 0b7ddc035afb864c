/* `headrace probe`, run under the preload: does a dynamically linked program start with the object and see
 * its maps? */
#include "fetch/cmd/cmd.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "config/maps.h"
#include "fetch/cmd/client.h"

extern char **environ;

static bool object_is_loaded(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[4096 + 128]; /* PATH_MAX and what stands before the path */
    bool found = false;
    while (maps && !found && fgets(line, sizeof line, maps)) {
        found = strstr(line, "/libheadrace.so") != NULL;
    }
    if (maps) {
        fclose(maps);
    }
    return found;
}

int hr_cmd_probe(int argc, char **argv)
{
    (void)argv;
    if (argc != 0) {
        return hr_usage("probe");
    }
    if (!object_is_loaded()) {
        hr_complain("the loader does not preload libheadrace.so here");
        return HR_EXIT_FAILED;
    }
    char message[HR_MESSAGE_BYTES] = "";
    struct hr_job job;
    if (hr_job_load(&job, environ, NULL, 0, false, message) < 0) {
        hr_complain("%s", message);
        return HR_EXIT_FAILED;
    }
    struct stat st;
    int status = 0;
    for (unsigned i = 0; i < job.maps->count && status == 0; i++) {
        if (stat(job.maps->map[i].path, &st) < 0 || !S_ISDIR(st.st_mode)) {
            hr_complain("map %s is not there under the preload: %s", job.maps->map[i].path, strerror(errno));
            status = HR_EXIT_FAILED;
        }
    }
    hr_job_free(&job);
    return status;
}
