/* `headrace daemon|attach|stop|status|config`: the daemon's life seen from the command line. */
#include "fetch/cmd/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fetch/base/cleanup.h"
#include "fetch/cmd/client.h"
#include "fetch/cmd/status.h"
#include "fetch/serve/daemon.h"
#include "interpose/abi.h"

#define HR_STOP_WAIT_MS 10000 /* writers finish what they hold */

extern char **environ;

static int parse_fd(const char *text, int *ret)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (!*text || *end || value < 0 || value > 1 << 20) {
        return -EINVAL;
    }
    *ret = (int)value;
    return 0;
}

int hr_cmd_daemon(int argc, char **argv)
{
    const char *cache_dir = NULL;
    int ready_fd = -1;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--cache-dir") == 0 && i + 1 < argc) {
            cache_dir = argv[++i];
        } else if (strcmp(argv[i], "--ready-fd") != 0 || i + 1 >= argc ||
                   parse_fd(argv[++i], &ready_fd) < 0) {
            return hr_usage("daemon");
        }
    }
    if (!cache_dir || cache_dir[0] != '/') {
        return hr_usage("daemon");
    }
    if (ready_fd >= 0) {
        (void)fcntl(ready_fd, F_SETFD, FD_CLOEXEC);
    }
    char message[HR_SETTINGS_MESSAGE_BYTES];
    struct hr_settings_sources sources = {.envp = environ, .no_file = true};
    struct hr_settings *settings = NULL;
    int error = hr_settings_load(&sources, message, &settings);
    if (error < 0) {
        if (ready_fd >= 0) {
            dprintf(ready_fd, "error %s\n", message);
        }
        hr_complain("%s", message);
        return HR_EXIT_USAGE;
    }
    int status = hr_daemon_run(cache_dir, settings, ready_fd);
    hr_settings_free(settings);
    return status;
}

/* Makes nothing, starts nobody, asks nobody. */
static int find_cache(int fd)
{
    char message[HR_MESSAGE_BYTES] = "";
    struct hr_job job;
    if (hr_job_find(&job, environ, message) < 0) {
        dprintf(fd, "error %s\n", message);
        return HR_EXIT_FAILED;
    }
    dprintf(fd, "ok %s\n", job.cache_dir);
    hr_job_free(&job);
    return 0;
}

/* Started by the preloaded object: tells it on the descriptor where the cache is, or in one line why not. */
int hr_cmd_attach(int argc, char **argv)
{
    int fd = STDOUT_FILENO;
    bool find = argc == 3 && strcmp(argv[2], "--find") == 0;
    if (argc != 0 && ((argc != 2 && !find) || strcmp(argv[0], "--fd") != 0 || parse_fd(argv[1], &fd) < 0)) {
        return hr_usage("attach");
    }
    if (fd != STDOUT_FILENO) {
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    if (find) {
        return find_cache(fd);
    }
    char message[HR_MESSAGE_BYTES] = "";
    struct hr_job job;
    /* A map that is malformed was dropped, and told, by whoever started us. */
    int error = hr_job_load(&job, environ, NULL, 0, true, message);
    job.program = "";
    char warning[HR_MESSAGE_BYTES] = "";
    for (unsigned i = 0; error == 0 && i < job.maps->count; i++) {
        if (hr_job_check_point(&job, &job.maps->map[i], warning) < 0) {
            dprintf(fd, "warn %s\n", warning);
        }
    }
    warning[0] = '\0';
    if (error == 0) {
        error = hr_client_attach(&job, NULL, warning, message);
    }
    if (error < 0) {
        dprintf(fd, "error %s\n", message);
        hr_job_free(&job);
        return HR_EXIT_FAILED;
    }
    if (warning[0]) {
        dprintf(fd, "warn %s\n", warning);
    }
    dprintf(fd, "ok %s\n", job.cache_dir);
    hr_job_free(&job);
    return 0;
}

/* On failure it has complained, and there is no job to free. */
static int ask_daemon(const char *op, struct hr_job *job, json_t **ret, bool *ret_none)
{
    char message[HR_MESSAGE_BYTES] = "";
    int error = hr_job_load(job, environ, NULL, 0, true, message);
    *ret_none = false;
    if (error == 0) {
        error = hr_client_ask(job, false, json_pack("{s:s}", "op", op), ret, message);
        *ret_none = error == -ENOENT;
    }
    if (error < 0) {
        hr_complain("%s", message);
        hr_job_free(job);
    }
    return error;
}

/* Which life serves cache_dir; 0: none has. */
static uint64_t boot_of(const char *cache_dir)
{
    char path[PATH_MAX + 16];
    uint64_t boot = 0;
    snprintf(path, sizeof path, "%s/control", cache_dir);
    hr_cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || pread(fd, &boot, sizeof boot, offsetof(struct hr_control, boot)) != (ssize_t)sizeof boot) {
        return 0;
    }
    return boot;
}

int hr_cmd_stop(int argc, char **argv)
{
    (void)argv;
    if (argc != 0) {
        return hr_usage("stop");
    }
    struct hr_job job;
    json_t *answer = NULL;
    bool none;
    int error = ask_daemon("stop", &job, &answer, &none);
    json_decref(answer);
    if (error < 0) {
        return none ? 0 : HR_EXIT_FAILED; /* nothing to stop is what was wanted */
    }
    uint64_t boot = boot_of(job.cache_dir);
    /* Until its lock is free, or a job that waits has started the next: no half-ended daemon is left. */
    char path[PATH_MAX + 8];
    snprintf(path, sizeof path, "%s/lock", job.cache_dir);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    int waited_ms = 0;
    while (fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK &&
           boot_of(job.cache_dir) == boot && waited_ms < HR_STOP_WAIT_MS) {
        usleep(10000);
        waited_ms += 10;
        lock = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    }
    if (fd >= 0) {
        close(fd);
    }
    bool ended = waited_ms < HR_STOP_WAIT_MS;
    if (!ended) {
        hr_complain("the daemon of %s was told to stop and has not ended within %d s; its log may say why",
                    job.cache_dir, HR_STOP_WAIT_MS / 1000);
    }
    hr_job_free(&job);
    return ended ? 0 : HR_EXIT_FAILED;
}

int hr_cmd_status(int argc, char **argv)
{
    bool as_json = argc == 1 && strcmp(argv[0], "--json") == 0;
    if (argc > 1 || (argc == 1 && !as_json)) {
        return hr_usage("status");
    }
    struct hr_job job;
    json_t *answer = NULL;
    bool none;
    if (ask_daemon("status", &job, &answer, &none) < 0) {
        return HR_EXIT_FAILED;
    }
    if (as_json) {
        json_dumpf(answer, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
        putchar('\n');
    } else {
        hr_status_print(answer);
    }
    json_decref(answer);
    hr_job_free(&job);
    return 0;
}

int hr_cmd_config(int argc, char **argv)
{
    (void)argv;
    if (argc != 0) {
        return hr_usage("config");
    }
    char message[HR_SETTINGS_MESSAGE_BYTES] = "";
    struct hr_settings_sources sources = {.envp = environ};
    struct hr_settings *settings = NULL;
    if (hr_settings_load(&sources, message, &settings) < 0) {
        hr_complain("%s", message);
        return HR_EXIT_USAGE;
    }
    for (unsigned i = 0; hr_settings_warning(settings, i); i++) {
        hr_complain("%s", hr_settings_warning(settings, i));
    }
    for (int id = 0; id < HR_SETTING_COUNT; id++) {
        printf("%-16s = %-12s # %s\n", hr_setting_name(id), hr_settings_text(settings, id),
               hr_settings_origin(settings, id));
    }
    hr_settings_free(settings);
    struct hr_job job;
    char why[HR_MESSAGE_BYTES] = "";
    if (hr_job_load(&job, environ, NULL, 0, false, why) < 0) {
        hr_complain("%s", why);
        return HR_EXIT_USAGE;
    }
    printf("# the cache is in %s\n", job.cache_dir);
    for (unsigned i = 0; i < job.maps->count; i++) {
        printf("# map %s = %s\n", job.maps->map[i].path, job.maps->map[i].url);
    }
    hr_job_free(&job);
    return 0;
}
