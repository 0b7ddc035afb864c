/* What an environment and a command line resolve to. */
#include "fetch/cmd/client.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fetch/cache/cache.h"

#define HR_MAPPED_DEV_SHIFT 28 /* st_dev of what is mapped is 0x1nnnnnnn, which no disk has: plan/tree.c */

static size_t env_count(char *const *envp)
{
    size_t count = 0;
    while (envp[count]) {
        count++;
    }
    return count;
}

const char *hr_job_getenv(const struct hr_job *job, const char *name)
{
    size_t len = strlen(name);
    for (char *const *var = job->envp; *var; var++) {
        if (strncmp(*var, name, len) == 0 && (*var)[len] == '=') {
            return *var + len + 1;
        }
    }
    return NULL;
}

static const char *env_of_job(void *owner, const char *name)
{
    return hr_job_getenv(owner, name);
}

int hr_job_setenv(struct hr_job *job, const char *name, const char *value)
{
    char *text;
    if (asprintf(&text, "%s=%s", name, value) < 0) {
        return -ENOMEM;
    }
    size_t len = strlen(name), count = env_count(job->envp);
    for (size_t i = 0; i < count; i++) {
        if (strncmp(job->envp[i], name, len) == 0 && job->envp[i][len] == '=') {
            free(job->envp[i]);
            job->envp[i] = text;
            return 0;
        }
    }
    char **grown = realloc(job->envp, (count + 2) * sizeof *grown);
    if (!grown) {
        free(text);
        return -ENOMEM;
    }
    grown[count] = text;
    grown[count + 1] = NULL;
    job->envp = grown;
    return 0;
}

static int copy_env(struct hr_job *job, char *const *envp)
{
    size_t count = env_count(envp);
    job->envp = calloc(count + 1, sizeof *job->envp);
    for (size_t i = 0; i < count && job->envp; i++) {
        job->envp[i] = strdup(envp[i]);
        if (!job->envp[i]) {
            return -ENOMEM;
        }
    }
    return job->envp ? 0 : -ENOMEM;
}

static int choose_cache_dir(struct hr_job *job, bool make, char message[HR_MESSAGE_BYTES])
{
    const char *chosen = hr_settings_text(job->settings, HR_SETTING_CACHE_DIR);
    char why[256] = "";
    int error = 0;
    if (chosen[0]) {
        snprintf(job->cache_dir, sizeof job->cache_dir, "%s", chosen);
        error = make ? hr_cache_dir_check(job->cache_dir, why) : 0;
    } else {
        error = (make ? hr_cache_dir_default : hr_cache_dir_find)(env_of_job, job, job->cache_dir,
                                                                  sizeof job->cache_dir, why);
        snprintf(job->cache_note, sizeof job->cache_note, "%s", error == 0 ? why : "");
    }
    if (error < 0) {
        snprintf(message, HR_MESSAGE_BYTES, "%s", why);
    }
    return error;
}

static int load(struct hr_job *job, char *const *envp, const char *const *sets, size_t set_count,
                bool lenient, bool make, char message[HR_MESSAGE_BYTES])
{
    memset(job, 0, sizeof *job);
    int error = copy_env(job, envp);
    job->maps = error == 0 ? malloc(sizeof *job->maps) : NULL;
    if (!job->maps) {
        snprintf(message, HR_MESSAGE_BYTES, "out of memory");
        hr_job_free(job);
        return -ENOMEM;
    }
    struct hr_settings_sources sources = {.envp = job->envp, .sets = sets, .set_count = set_count};
    struct hr_maps_error maps_error;
    error = hr_settings_load(&sources, message, &job->settings);
    const char *text = hr_job_getenv(job, "HEADRACE_MAP");
    if (error == 0 && lenient) {
        (void)hr_maps_parse_lenient(text, job->maps, &maps_error);
    } else if (error == 0) {
        error = hr_maps_parse(text, job->maps, &maps_error);
        if (error < 0) {
            snprintf(message, HR_MESSAGE_BYTES, "HEADRACE_MAP: %s", maps_error.message);
        }
    }
    error = error == 0 ? choose_cache_dir(job, make, message) : error;
    if (error < 0) {
        hr_job_free(job);
    }
    return error;
}

int hr_job_load(struct hr_job *job, char *const *envp, const char *const *sets, size_t set_count,
                bool lenient, char message[HR_MESSAGE_BYTES])
{
    return load(job, envp, sets, set_count, lenient, true, message);
}

int hr_job_find(struct hr_job *job, char *const *envp, char message[HR_MESSAGE_BYTES])
{
    return load(job, envp, NULL, 0, true, false, message);
}

static bool is_empty_dir(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir) {
        return errno == EACCES;
    }
    unsigned names = 0;
    while (names < 3 && readdir(dir)) {
        names++;
    }
    closedir(dir);
    return names <= 2;
}

int hr_job_check_point(const struct hr_job *job, const struct hr_map *map, char message[HR_MESSAGE_BYTES])
{
    struct stat st;
    if (hr_settings_map_bool(job->settings, map, HR_SETTING_HIDE) || stat(map->path, &st) < 0) {
        return 0;
    }
    if (st.st_dev >> HR_MAPPED_DEV_SHIFT == 1) { /* we run inside a job that has it mapped */
        return 0;
    }
    if (!S_ISDIR(st.st_mode)) {
        snprintf(message, HR_MESSAGE_BYTES, "map %.400s: a file of that name exists and would be hidden",
                 map->path);
        return -EEXIST;
    }
    if (!is_empty_dir(map->path)) {
        snprintf(message, HR_MESSAGE_BYTES, "map %.400s: the directory is not empty and would be hidden",
                 map->path);
        return -ENOTEMPTY;
    }
    return 0;
}

void hr_job_free(struct hr_job *job)
{
    hr_settings_free(job->settings);
    free(job->maps);
    for (char **var = job->envp; var && *var; var++) {
        free(*var);
    }
    free(job->envp);
    memset(job, 0, sizeof *job);
}
