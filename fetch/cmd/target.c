#include "fetch/cmd/target.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fetch/base/buf.h"
#include "fetch/base/cleanup.h"
#include "fetch/base/text.h"
#include "fetch/cmd/waiting.h"

extern char **environ;

void target_release(struct target *target)
{
    hr_job_free(&target->job);
}

/* What is wrong with a URL that makes no map, without the map that it was tried as. */
static int check_url(const char *text, char message[HR_MESSAGE_BYTES])
{
    struct hr_maps_error error;
    hr_cleanup_free struct hr_maps *maps = malloc(sizeof *maps);
    if (!maps) {
        return -ENOMEM;
    }
    if (hr_maps_parse(text, maps, &error) == 0) {
        return 0;
    }
    const char *why = strstr(error.message, "`): ");
    snprintf(message, HR_MESSAGE_BYTES, "%s", why ? why + strlen("`): ") : error.message);
    return -EINVAL;
}

/* "s3://bucket/a/b" as a map of the whole bucket (whole true) or of a/b/ alone, which lists no more than
 * asked. */
static int load_url(struct target *target, const char *url, bool whole, char message[HR_MESSAGE_BYTES])
{
    const char *rest = strstr(url, "://") + 3;
    const char *slash = strchr(rest, '/');
    hr_cleanup_free char *text = NULL;
    int bucket_len = slash ? (int)(slash - url) : (int)strlen(url);
    if ((whole ? asprintf(&text, "/url=%.*s", bucket_len, url) : asprintf(&text, "/url=%s", url)) < 0) {
        return -ENOMEM;
    }
    int error = check_url(text, message);
    if (error < 0) {
        return error;
    }
    if (setenv("HEADRACE_MAP", text, 1) < 0) {
        return -ENOMEM;
    }
    error = hr_job_load(&target->job, environ, NULL, 0, false, message);
    if (error < 0) {
        return error;
    }
    target->map = &target->job.maps->map[0];
    target->path[0] = '\0';
    if (whole && slash) {
        struct hr_buf key = HR_BUF_INIT(sizeof target->path - 1);
        error = hr_percent_decode(slash + 1, strlen(slash + 1), false, &key);
        if (error == 0) {
            snprintf(target->path, sizeof target->path, "%s", key.data ? key.data : "");
        }
        hr_buf_release(&key);
    }
    return error;
}

int target_absolute(const char *arg, char ret_path[PATH_MAX])
{
    char cwd[PATH_MAX] = "";
    if (arg[0] != '/' && !getcwd(cwd, sizeof cwd)) {
        return -errno;
    }
    int len = snprintf(ret_path, PATH_MAX, "%s%s%s", cwd, arg[0] == '/' ? "" : "/", arg);
    if (len < 0 || len >= PATH_MAX) {
        return -ENAMETOOLONG;
    }
    size_t out = 0;
    for (const char *in = ret_path; *in;) {
        in += strspn(in, "/");
        size_t part = strcspn(in, "/");
        if (part == 2 && in[0] == '.' && in[1] == '.') {
            while (out > 0 && ret_path[--out] != '/') {
            }
        } else if (part > 0 && !(part == 1 && in[0] == '.')) {
            ret_path[out++] = '/';
            memmove(ret_path + out, in, part);
            out += part;
        }
        in += part;
    }
    ret_path[out] = '\0';
    return 0;
}

void target_not_mapped(const struct hr_maps *maps, const char *arg, const char *absolute,
                       char message[HR_MESSAGE_BYTES])
{
    size_t len = strlen(absolute);
    const char *name = arg[0] == '/' ? arg : absolute[0] ? absolute : "/";
    if (!arg[0]) {
        snprintf(message, HR_MESSAGE_BYTES, "an empty name; give a mapped path");
        return;
    }
    for (unsigned i = 0; i < maps->count; i++) {
        if (maps->map[i].path_len > len && memcmp(maps->map[i].path, absolute, len) == 0 &&
            maps->map[i].path[len] == '/') {
            snprintf(message, HR_MESSAGE_BYTES, "%.300s is in no map, it lies above %.300s", name,
                     maps->map[i].path);
            return;
        }
    }
    if (maps->count == 0) {
        snprintf(message, HR_MESSAGE_BYTES,
                 "%.300s is in no map: HEADRACE_MAP is not set (PATH=s3://bucket/prefix)", name);
    } else {
        snprintf(message, HR_MESSAGE_BYTES, "%.300s is in no map (HEADRACE_MAP maps %.200s%s)", name,
                 maps->map[0].path, maps->count > 1 ? " and others" : "");
    }
}

static int load_path(struct target *target, const char *arg, char message[HR_MESSAGE_BYTES])
{
    char absolute[PATH_MAX];
    int error = target_absolute(arg, absolute);
    if (error < 0) {
        return error;
    }
    error = hr_job_load(&target->job, environ, NULL, 0, false, message);
    if (error < 0) {
        return error;
    }
    target->map = hr_maps_find(target->job.maps, absolute, strlen(absolute));
    if (!target->map) {
        target_not_mapped(target->job.maps, arg, absolute, message);
        return -ENOENT;
    }
    const char *below = absolute + target->map->path_len;
    snprintf(target->path, sizeof target->path, "%s", *below == '/' ? below + 1 : below);
    return 0;
}

int target_load(struct target *target, const char *arg, bool whole, char message[HR_MESSAGE_BYTES])
{
    memset(target, 0, sizeof *target);
    snprintf(message, HR_MESSAGE_BYTES, "%s", strerror(EINVAL));
    int error = strstr(arg, "://") ? load_url(target, arg, whole, message) : load_path(target, arg, message);
    uint32_t trees[HR_MAPS_MAX];
    if (error == 0) {
        target->job.silent = hr_waiting_tell;
        error = hr_client_attach(&target->job, trees, NULL, message);
    }
    if (error == 0) {
        target->tree = trees[target->map - target->job.maps->map];
    }
    return error;
}

int target_ask(const struct target *target, const char *op, const char *path, json_t **ret,
               char message[HR_MESSAGE_BYTES])
{
    struct hr_buf encoded = HR_BUF_INIT(4 * PATH_MAX);
    size_t len = strlen(path);
    while (len > 0 && path[len - 1] == '/') {
        len--;
    }
    int error = hr_percent_encode(path, len, true, &encoded);
    for (int i = 0; error == 0 && i < HR_TARGET_TRIES; i++) {
        error = hr_client_ask(&target->job, true,
                              json_pack("{s:s, s:I, s:s}", "op", op, "tree", (json_int_t)target->tree, "path",
                                        encoded.data ? encoded.data : ""),
                              ret, message);
        if (error != -EAGAIN) {
            break;
        }
        error = 0;
        usleep(100000);
    }
    hr_buf_release(&encoded);
    return error;
}
