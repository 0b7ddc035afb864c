/* `headrace stat|cat`: one name of a mapped path or a URL, and its bytes, through the daemon's index and
 * cache. */
#include "fetch/cmd/cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fetch/base/buf.h"
#include "fetch/base/cleanup.h"
#include "fetch/base/text.h"
#include "fetch/cmd/bytes.h"
#include "fetch/cmd/target.h"
#include "interpose/index.h"

/* ---- stat ---- */

static int stat_one(const char *arg)
{
    char message[HR_MESSAGE_BYTES];
    struct target target;
    json_t *answer = NULL;
    int error = target_load(&target, arg, true, message);
    if (error == 0) {
        error = target_ask(&target, "look", target.path, &answer, message);
    }
    if (error < 0) {
        hr_complain_of(arg, message);
        target_release(&target);
        return error;
    }
    char date[40];
    time_t seconds = (time_t)(json_integer_value(json_object_get(answer, "mtime_ns")) / 1000000000);
    struct tm tm;
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &tm));
    printf("name:   %s\n", arg);
    printf("bucket: %s\nkey:    %s%s\n", target.map->bucket, target.map->prefix, target.path);
    printf("type:   %s\n", json_string_value(json_object_get(answer, "kind")));
    printf("size:   %lld\n", (long long)json_integer_value(json_object_get(answer, "size")));
    printf("mtime:  %s\n", date);
    const char *etag = json_string_value(json_object_get(answer, "etag"));
    if (etag && *etag) {
        printf("etag:   %s\n", etag);
    }
    json_decref(answer);
    target_release(&target);
    return 0;
}

int hr_cmd_stat(int argc, char **argv)
{
    int failed = 0;
    if (argc == 0) {
        return hr_usage("stat");
    }
    for (int i = 0; i < argc; i++) {
        failed |= stat_one(argv[i]) < 0;
    }
    return failed ? HR_EXIT_FAILED : 0;
}

/* ---- cat ---- */

static int cat_one(const char *arg)
{
    char message[HR_MESSAGE_BYTES];
    struct target target;
    int error = target_load(&target, arg, true, message);
    if (error == 0) {
        error = hr_bytes_copy(&target, target.path, STDOUT_FILENO, message);
    }
    if (error < 0) {
        hr_complain_of(arg, message);
    }
    target_release(&target);
    return error;
}

int hr_cmd_cat(int argc, char **argv)
{
    int failed = 0;
    if (argc == 0) {
        return hr_usage("cat");
    }
    for (int i = 0; i < argc; i++) {
        failed |= cat_one(argv[i]) < 0;
    }
    return failed ? HR_EXIT_FAILED : 0;
}
