/* `headrace index export|import`: a tree's names from one node to others, and names from lists and
 * inventories. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fetch/base/cleanup.h"
#include "fetch/cmd/cmd.h"
#include "fetch/cmd/inventory.h"
#include "fetch/cmd/named.h"
#include "fetch/serve/indexes.h"

#define EXPORT_TRIES 5         /* the index may be replaced between its name and its file */
#define WRITE_BYTES (1u << 20) /* large enough that a call's own cost does not show */

extern char **environ;

/* The map: what `arg` names, else the only one that there is. */
static int choose(struct target *target, const char *arg, const char *option, char message[HR_MESSAGE_BYTES])
{
    char only[PATH_MAX];
    if (!arg) {
        struct hr_job job;
        int error = hr_job_load(&job, environ, NULL, 0, false, message);
        unsigned count = error == 0 ? job.maps->count : 0;
        snprintf(only, sizeof only, "%s", count == 1 ? job.maps->map[0].path : "");
        hr_job_free(&job);
        if (error == 0 && count != 1) {
            snprintf(message, HR_MESSAGE_BYTES, "%s: name a mapped path or a URL%s",
                     count ? "there are several maps" : "HEADRACE_MAP is not set", option);
            error = -EINVAL;
        }
        if (error < 0) {
            *target = (struct target){.tree = 0};
            return error;
        }
        arg = only;
    }
    int error = target_load(target, arg, false, message);
    if (error == 0 && target->path[0]) {
        snprintf(message, HR_MESSAGE_BYTES, "%.300s is below the map's root; an index is of a whole map",
                 arg);
        error = -EINVAL;
    }
    return error;
}

/* ---- export ---- */

static int write_all(int fd, const char *bytes, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t wrote = write(fd, bytes + at, len - at < WRITE_BYTES ? len - at : WRITE_BYTES);
        if (wrote < 0 && errno != EINTR) {
            return -errno;
        }
        at += wrote > 0 ? (size_t)wrote : 0;
    }
    return 0;
}

/* For people and for the check of who imports it; no credentials. */
static json_t *first_line(const json_t *state, const struct hr_names *names)
{
    char date[32];
    time_t seconds = (time_t)(names->listed_ns / 1000000000);
    struct tm tm;
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &tm));
    return json_pack("{s:i, s:O, s:O, s:O, s:O, s:s, s:I, s:I}", "headrace_index", HR_INDEX_FORMAT,
                     "endpoint", json_object_get(state, "endpoint"), "bucket",
                     json_object_get(state, "bucket"), "prefix", json_object_get(state, "prefix"), "filter",
                     json_object_get(state, "filter"), "listed", date, "objects",
                     (json_int_t)names->file_count, "bytes", (json_int_t)names->object_bytes);
}

/* Under a private name until it is whole. */
static int write_export(const char *file, const json_t *line, const struct named_index *there)
{
    char private[PATH_MAX];
    int len = snprintf(private, sizeof private, "%s.%d.part", file, (int)getpid());
    char *text = json_dumps(line, JSON_COMPACT);
    if (!text || len < 0 || (size_t)len >= sizeof private) {
        free(text);
        return text ? -ENAMETOOLONG : -ENOMEM;
    }
    hr_cleanup_fd int fd = open(private, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    int error = fd < 0 ? -errno : write_all(fd, text, strlen(text));
    error = error == 0 ? write_all(fd, "\n", 1) : error;
    error = error == 0 ? write_all(fd, there->base, there->index.names->file_bytes) : error;
    if (error == 0 && (fsync(fd) < 0 || rename(private, file) < 0)) {
        error = -errno;
    }
    if (error < 0 && fd >= 0) {
        (void)unlink(private);
    }
    free(text);
    return error;
}

static int export_to(const char *file, const struct target *target, char message[HR_MESSAGE_BYTES])
{
    struct named_index there = {.base = NULL};
    json_t *state = NULL;
    int error = -ENOENT;
    for (int i = 0; i < EXPORT_TRIES && error == -ENOENT; i++) {
        json_decref(state);
        state = NULL;
        error = named_there(&target->job, target->tree, &state, message);
        if (error < 0) {
            return error;
        }
        error = named_index_map(json_string_value(json_object_get(state, "index")), &there);
        error = error == 0 && !there.index.names ? -ENOENT : error;
    }
    json_t *line = error == 0 ? first_line(state, there.index.names) : NULL;
    if (error == 0) {
        error = line ? write_export(file, line, &there) : -ENOMEM;
    }
    if (error == 0) {
        printf("%s: %llu objects of s3://%s/%s\n", file, (unsigned long long)there.index.names->file_count,
               json_string_value(json_object_get(state, "bucket")),
               json_string_value(json_object_get(state, "prefix")));
    }
    snprintf(message, HR_MESSAGE_BYTES, "%s", strerror(-error));
    json_decref(line);
    json_decref(state);
    named_index_unmap(&there);
    return error;
}

static int do_export(int argc, char **argv)
{
    char message[HR_MESSAGE_BYTES];
    struct target target;
    if (argc < 1 || argc > 2 || argv[0][0] == '-' || !argv[0][0]) {
        return hr_usage("index");
    }
    int error = choose(&target, argc == 2 ? argv[1] : NULL, " behind FILE", message);
    error = error == 0 ? export_to(argv[0], &target, message) : error;
    if (error < 0) {
        hr_complain("index export %s: %s", argv[0], message);
    }
    target_release(&target);
    return error < 0 ? HR_EXIT_FAILED : 0;
}

/* ---- import ---- */

static int send_import(const char *file, bool other_endpoint, const struct target *target, uint64_t *ret_ends,
                       char message[HR_MESSAGE_BYTES])
{
    char bucket[HR_MAP_BUCKET_MAX + 1];
    snprintf(bucket, sizeof bucket, "%s", target->map->bucket);
    json_t *name = json_string(file);
    json_t *request = json_pack("{s:s, s:I, s:[o], s:s, s:I, s:b}", "op", "import", "tree",
                                (json_int_t)target->tree, "files", name ? name : json_string(""), "columns",
                                "", "listed_ns", (json_int_t)0, "other_endpoint", other_endpoint);
    int error = request ? 0 : -ENOMEM;
    if (error == 0 && inventory_is_manifest(file)) {
        error = inventory_load(file, bucket, request, message);
    }
    if (error < 0) {
        json_decref(request);
        return error;
    }
    json_t *answer = NULL;
    error = hr_client_ask(&target->job, true, request, &answer, message);
    *ret_ends = (uint64_t)json_integer_value(json_object_get(answer, "ends"));
    json_decref(answer);
    return error;
}

static int import_from(const char *file, bool other_endpoint, const struct target *target,
                       char message[HR_MESSAGE_BYTES])
{
    uint64_t ends = 0;
    json_t *state = NULL;
    int error = send_import(file, other_endpoint, target, &ends, message);
    error = error == 0 ? named_wait(&target->job, target->tree, "importing", 0, &state, message) : error;
    if (error == 0) {
        bool ended = (uint64_t)json_integer_value(json_object_get(state, "import_ends")) >= ends;
        error = ended ? -(int)json_integer_value(json_object_get(state, "import_error")) : -EIO;
        snprintf(message, HR_MESSAGE_BYTES, "%s",
                 ended ? json_string_value(json_object_get(state, "import_message"))
                       : "the daemon ended: import again");
    }
    if (error == 0) {
        long long left_out = json_integer_value(json_object_get(state, "left_out"));
        printf("%lld objects", (long long)json_integer_value(json_object_get(state, "objects")));
        if (left_out) {
            printf(", %lld rows left out (outside of the map, or older versions)", left_out);
        }
        printf("\n");
    }
    json_decref(state);
    return error;
}

static int do_import(int argc, char **argv)
{
    char message[HR_MESSAGE_BYTES], file[PATH_MAX];
    const char *to = NULL, *from = NULL;
    bool other_endpoint = false;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--to") == 0 && i + 1 < argc) {
            to = argv[++i];
        } else if (strcmp(argv[i], "--other-endpoint") == 0) {
            other_endpoint = true;
        } else if (argv[i][0] != '-' && !from) {
            from = argv[i];
        } else {
            return hr_usage("index");
        }
    }
    if (!from || !*from || (to && !*to)) {
        return hr_usage("index");
    }
    struct target target = {.tree = 0};
    int error = realpath(from, file) ? 0 : -errno;
    snprintf(message, sizeof message, "%s", strerror(-error));
    error = error == 0 ? choose(&target, to, " with --to", message) : error;
    error = error == 0 ? import_from(file, other_endpoint, &target, message) : error;
    if (error < 0) {
        hr_complain("index import %s: %s", from, message);
    }
    target_release(&target);
    return error < 0 ? HR_EXIT_FAILED : 0;
}

int hr_cmd_index(int argc, char **argv)
{
    if (argc > 0 && strcmp(argv[0], "export") == 0) {
        return do_export(argc - 1, argv + 1);
    }
    if (argc > 0 && strcmp(argv[0], "import") == 0) {
        return do_import(argc - 1, argv + 1);
    }
    return hr_usage("index");
}
