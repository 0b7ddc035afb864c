/* `headrace warm`: what lies below mapped paths is brought into the cache, and waited for. */
#include "fetch/cmd/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fetch/base/buf.h"
#include "fetch/base/text.h"
#include "fetch/cmd/copying.h"
#include "fetch/cmd/progress.h"
#include "fetch/cmd/target.h"
#include "fetch/cmd/waiting.h"

#define HR_WARM_BATCH 512                 /* paths a message: below the daemon's 1 MiB at 1 KiB a path */
#define HR_WARM_POLL_MS 100               /* short enough for small sets, and nothing to a daemon */
#define HR_WARM_PATH_BYTES (4 * PATH_MAX) /* percent-encoded */

extern char **environ;

/* What is asked for in one map. */
struct share {
    json_t *paths; /* not sent yet; NULL: the map is not asked for */
    uint32_t id;   /* the daemon's number of it; 0: none yet */
    bool finished;
    uint64_t files, bytes, there_files, there_bytes;
};

struct warm {
    struct hr_job job;
    uint32_t trees[HR_MAPS_MAX];
    struct share shares[HR_MAPS_MAX];
    bool full;
    uint64_t failed;
    struct hr_progress progress;
    const char *to; /* a directory, or NULL */
    struct hr_copying copying;
};

static void nap(void)
{
    struct timespec time = {.tv_nsec = HR_WARM_POLL_MS * 1000000L};
    nanosleep(&time, NULL);
}

static int list(struct warm *warm, unsigned map, char message[HR_MESSAGE_BYTES])
{
    json_t *answer = NULL;
    int error = hr_client_ask(
        &warm->job, true,
        json_pack("{s:s, s:I, s:s}", "op", "list", "tree", (json_int_t)warm->trees[map], "path", ""), &answer,
        message);
    json_decref(answer);
    return error;
}

/* Sends what has gathered for a map. */
static int flush(struct warm *warm, unsigned map, bool more)
{
    struct share *share = &warm->shares[map];
    char message[HR_MESSAGE_BYTES];
    int error = -EAGAIN;
    for (int tries = 0; error == -EAGAIN && tries < HR_TARGET_TRIES; tries++) {
        error = list(warm, map, message);
        json_t *answer = NULL;
        if (error == 0) {
            error = hr_client_ask(&warm->job, true,
                                  json_pack("{s:s, s:I, s:I, s:O, s:b}", "op", "warm", "tree",
                                            (json_int_t)warm->trees[map], "id", (json_int_t)share->id,
                                            "paths", share->paths, "more", more),
                                  &answer, message);
        }
        if (error == 0) {
            share->id = (uint32_t)json_integer_value(json_object_get(answer, "id"));
        } else if (error == -EAGAIN) {
            nap();
        }
        json_decref(answer);
    }
    if (error < 0) {
        hr_complain("%s: %s", warm->job.maps->map[map].path, message);
    }
    return error;
}

static int add(struct warm *warm, unsigned map, const char *path)
{
    struct share *share = &warm->shares[map];
    struct hr_buf text = HR_BUF_INIT(HR_WARM_PATH_BYTES);
    int error = hr_percent_encode(path, strlen(path), true, &text);
    if (error == 0 && share->paths && json_array_size(share->paths) == HR_WARM_BATCH) {
        error = flush(warm, map, true);
        json_array_clear(share->paths);
    }
    if (!share->paths) {
        share->paths = json_array();
    }
    if (error == 0) {
        error = json_array_append_new(share->paths, json_string(text.data ? text.data : ""));
    }
    hr_buf_release(&text);
    return error;
}

/* A path in a map, and the maps below it. */
static int add_path(struct warm *warm, const char *arg)
{
    char path[PATH_MAX];
    int error = target_absolute(arg, path);
    size_t len = strlen(path);
    const struct hr_maps *maps = warm->job.maps;
    const struct hr_map *map = error == 0 && arg[0] ? hr_maps_find(maps, path, len) : NULL;
    bool any = map != NULL, empty = arg[0] == '\0';
    if (map) {
        const char *below = path + map->path_len;
        error = add(warm, (unsigned)(map - maps->map), *below == '/' ? below + 1 : below);
    }
    for (unsigned i = 0; i < maps->count && error == 0 && !empty; i++) {
        const struct hr_map *other = &maps->map[i];
        if (other->path_len > len && strncmp(other->path, path, len) == 0 && other->path[len] == '/') {
            error = add(warm, i, "");
            any = true;
        }
    }
    if (error == 0 && !any) {
        char message[HR_MESSAGE_BYTES];
        target_not_mapped(maps, arg, path, message);
        hr_complain_of(arg, message);
        warm->failed++;
    } else if (error < 0) {
        hr_complain("%s: %s", arg, strerror(-error));
    }
    return error;
}

/* Paths from stdin. */
static int each_line(struct warm *warm, int (*take)(struct warm *warm, const char *arg))
{
    char *line = NULL;
    size_t room = 0;
    ssize_t len;
    int error = 0;
    while (error == 0 && (len = getline(&line, &room, stdin)) >= 0) {
        if (len > 0 && line[len - 1] == '\n') {
            line[len - 1] = '\0';
        }
        error = line[0] ? take(warm, line) : 0;
    }
    free(line);
    return error;
}

/* ---- waiting ---- */

static uint64_t count(const json_t *answer, const char *name)
{
    return (uint64_t)json_integer_value(json_object_get(answer, name));
}

static void name_failed(struct warm *warm, unsigned map, const json_t *answer)
{
    const json_t *names = json_object_get(answer, "names");
    uint64_t failed = count(answer, "failed");
    for (size_t i = 0; i < json_array_size(names); i++) {
        const json_t *pair = json_array_get(names, i);
        const char *text = json_string_value(json_array_get(pair, 0));
        const char *why = json_string_value(json_array_get(pair, 1));
        struct hr_buf path = HR_BUF_INIT(HR_WARM_PATH_BYTES);
        (void)hr_percent_decode(text ? text : "", text ? strlen(text) : 0, false, &path);
        hr_complain("%s/%s: %s", warm->job.maps->map[map].path, path.data ? path.data : "", why ? why : "");
        hr_buf_release(&path);
    }
    if (failed > json_array_size(names)) {
        hr_complain("%llu more failed", (unsigned long long)(failed - json_array_size(names)));
    }
    warm->failed += failed;
}

/* 0; -errno: the daemon ended, or does not answer. */
static int look(struct warm *warm, unsigned map)
{
    struct share *share = &warm->shares[map];
    char message[HR_MESSAGE_BYTES];
    json_t *answer = NULL;
    int error = hr_client_ask(&warm->job, false,
                              json_pack("{s:s, s:I}", "op", "warming", "id", (json_int_t)share->id), &answer,
                              message);
    if (error < 0) {
        hr_complain("the daemon ended before all was in the cache (%s): warm again, what came is still there",
                    message);
        return error;
    }
    share->files = count(answer, "files");
    share->bytes = count(answer, "bytes");
    share->there_files = count(answer, "there_files");
    share->there_bytes = count(answer, "there_bytes");
    share->finished = json_is_true(json_object_get(answer, "finished"));
    warm->full |= json_is_true(json_object_get(answer, "full"));
    if (share->finished) {
        name_failed(warm, map, answer);
    }
    json_decref(answer);
    return 0;
}

static struct share sum_of(const struct warm *warm)
{
    struct share sum = {.finished = true};
    for (unsigned i = 0; i < warm->job.maps->count; i++) {
        const struct share *share = &warm->shares[i];
        sum.files += share->files;
        sum.bytes += share->bytes;
        sum.there_files += share->there_files;
        sum.there_bytes += share->there_bytes;
        sum.finished &= !share->paths || share->finished;
    }
    return sum;
}

static void tell(struct warm *warm, bool last)
{
    struct share sum = sum_of(warm);
    struct hr_progress_figures figures = {.items = sum.there_files,
                                          .items_total = sum.files,
                                          .bytes = sum.there_bytes,
                                          .bytes_total = sum.bytes};
    hr_progress_tell(&warm->progress, &figures, last, NULL);
}

/* What the maps that are not there yet wait for, where nothing comes. */
static void tell_waiting(struct warm *warm, struct hr_waiting *waiting)
{
    struct share sum = sum_of(warm);
    bool lasts = hr_waiting_lasts(waiting, sum.there_files + sum.there_bytes);
    for (unsigned i = 0; i < warm->job.maps->count && lasts; i++) {
        if (warm->shares[i].paths && !warm->shares[i].finished) {
            hr_waiting_tell_beside(&warm->job, warm->trees[i], &warm->progress);
        }
    }
}

static int wait_for(struct warm *warm)
{
    struct hr_waiting waiting;
    int error = 0;
    hr_waiting_begin(&waiting);
    for (;;) {
        for (unsigned i = 0; i < warm->job.maps->count && error == 0; i++) {
            if (warm->shares[i].paths && !warm->shares[i].finished) {
                error = look(warm, i);
            }
        }
        bool last = error < 0 || sum_of(warm).finished;
        tell(warm, last);
        if (last) {
            return error;
        }
        tell_waiting(warm, &waiting);
        nap();
    }
}

static int attach(struct warm *warm)
{
    char message[HR_MESSAGE_BYTES] = "";
    int error = hr_job_load(&warm->job, environ, NULL, 0, false, message);
    if (error == 0) {
        warm->job.silent = hr_waiting_tell;
        error = hr_client_attach(&warm->job, warm->trees, NULL, message);
    }
    if (error < 0) {
        hr_complain("%s", message);
    }
    return error;
}

static int run(struct warm *warm, int argc, char **argv)
{
    int error = 0;
    for (int i = 0; i < argc && error == 0; i++) {
        error = strcmp(argv[i], "-") == 0 ? each_line(warm, add_path) : add_path(warm, argv[i]);
    }
    for (unsigned i = 0; i < warm->job.maps->count && error == 0; i++) {
        error = warm->shares[i].paths ? flush(warm, i, false) : 0;
    }
    if (error == 0) {
        error = wait_for(warm);
    }
    struct share sum = sum_of(warm);
    if (error == 0 && warm->full) {
        hr_complain("the cache is full: %llu of %llu files are in it; raise cache_size, or free space on %s",
                    (unsigned long long)sum.there_files, (unsigned long long)sum.files, warm->job.cache_dir);
    }
    return error;
}

/* ---- --to ---- */

static int copy_path(struct warm *warm, const char *arg)
{
    char path[PATH_MAX];
    const struct hr_maps *maps = warm->job.maps;
    int error = target_absolute(arg, path);
    const struct hr_map *map = error == 0 ? hr_maps_find(maps, path, strlen(path)) : NULL;
    if (error < 0 || !map || (warm->copying.target.map && warm->copying.target.map != map)) {
        char message[HR_MESSAGE_BYTES];
        snprintf(message, sizeof message, "%s",
                 error < 0 ? strerror(-error) : "is in another map: --to takes paths of one");
        if (error == 0 && !map) {
            target_not_mapped(maps, arg, path, message);
        }
        hr_complain_of(arg, message);
        warm->failed++;
        return 0;
    }
    if (!warm->copying.target.map) {
        error = hr_copying_begin(&warm->copying, &warm->job, map, warm->trees[map - maps->map], warm->to);
        if (error < 0) {
            return error;
        }
    }
    const char *below = path + map->path_len;
    error = hr_copying_add(&warm->copying, *below == '/' ? below + 1 : below);
    if (error < 0) {
        hr_complain("%s: %s", arg, strerror(-error));
        warm->failed++;
    }
    return error == -ENOMEM ? error : 0;
}

static int run_to(struct warm *warm, int argc, char **argv)
{
    int error = 0;
    for (int i = 0; i < argc && error == 0; i++) {
        error = strcmp(argv[i], "-") == 0 ? each_line(warm, copy_path) : copy_path(warm, argv[i]);
    }
    if (error == 0 && warm->copying.target.map) {
        error = hr_copying_run(&warm->copying);
        warm->failed += warm->copying.failed;
    }
    if (warm->copying.target.map) {
        hr_copying_end(&warm->copying);
    }
    return error;
}

int hr_cmd_warm(int argc, char **argv)
{
    const char *to = argc > 1 && strcmp(argv[0], "--to") == 0 ? argv[1] : NULL;
    argc -= to ? 2 : 0;
    argv += to ? 2 : 0;
    if (argc == 0 || (argv[0][0] == '-' && argv[0][1]) || (to && !*to)) {
        return hr_usage("warm");
    }
    struct warm *warm = calloc(1, sizeof *warm);
    if (!warm) {
        return HR_EXIT_FAILED;
    }
    warm->to = to;
    hr_progress_begin(&warm->progress, "files", true);
    int error = attach(warm);
    if (error == 0) {
        error = to ? run_to(warm, argc, argv) : run(warm, argc, argv);
    }
    bool good = error == 0 && warm->failed == 0 && !warm->full;
    for (unsigned i = 0; i < HR_MAPS_MAX; i++) {
        json_decref(warm->shares[i].paths);
    }
    hr_job_free(&warm->job);
    free(warm);
    return good ? 0 : HR_EXIT_FAILED;
}
