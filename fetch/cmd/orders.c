#include "fetch/cmd/orders.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fetch/base/buf.h"
#include "fetch/base/cleanup.h"
#include "fetch/base/text.h"
#include "fetch/cmd/cmd.h"
#include "fetch/plan/recording.h"

#define HR_ORDER_BATCH 256 /* lines a message: below the daemon's 1 MiB at 3 KiB a line */
#define HR_ORDER_TRIES 20  /* a listing that a change set off replaces names meanwhile: ask again */

static json_t *tree_numbers(const struct hr_job *job, const uint32_t *trees)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < job->maps->count; i++) {
        json_array_append_new(list, json_integer(trees[i]));
    }
    return list;
}

/* FILE as the daemon, which runs elsewhere, can name it. */
static int absolute(const char *file, struct hr_buf *ret)
{
    char cwd[PATH_MAX] = "";
    if (file[0] != '/' && !getcwd(cwd, sizeof cwd)) {
        return -errno;
    }
    int error = cwd[0] ? hr_percent_encode(cwd, strlen(cwd), true, ret) : 0;
    if (error == 0 && cwd[0]) {
        error = hr_buf_puts(ret, "/");
    }
    return error == 0 ? hr_percent_encode(file, strlen(file), true, ret) : error;
}

int hr_order_record(const struct hr_job *job, const uint32_t *trees, const char *file,
                    char message[HR_MESSAGE_BYTES])
{
    struct hr_buf path = HR_BUF_INIT(4 * PATH_MAX);
    char why[HR_MESSAGE_BYTES] = "";
    json_t *answer = NULL;
    int error = absolute(file, &path);
    if (error == 0) {
        error = hr_client_ask(job, true,
                              json_pack("{s:s, s:s, s:o}", "op", "record", "file", path.data, "trees",
                                        tree_numbers(job, trees)),
                              &answer, why);
    }
    if (error < 0) {
        snprintf(message, HR_MESSAGE_BYTES, "cannot record to %.300s: %.200s", file,
                 why[0] ? why : strerror(-error));
    } else if (json_is_true(json_object_get(answer, "kept"))) {
        hr_complain("%.300s.part, a recording that did not come to its end as its daemon was killed, is "
                    "%.300s.part.old now: --replay follows that, too",
                    file, file);
    }
    json_decref(answer);
    hr_buf_release(&path);
    return error;
}

/* ---- replay ---- */

struct replay {
    const struct hr_job *job;
    const uint32_t *trees;
    const char *file;
    json_t *lines; /* not sent yet */
    uint32_t id;
    bool listed[HR_MAPS_MAX];
};

static int list(struct replay *replay, unsigned map, char message[HR_MESSAGE_BYTES])
{
    int error = -EAGAIN;
    for (int i = 0; error == -EAGAIN && i < HR_ORDER_TRIES && !replay->listed[map]; i++) {
        json_t *answer = NULL;
        error = hr_client_ask(
            replay->job, true,
            json_pack("{s:s, s:I, s:s}", "op", "list", "tree", (json_int_t)replay->trees[map], "path", ""),
            &answer, message);
        json_decref(answer);
        if (error == -EAGAIN) {
            usleep(100000);
        }
    }
    error = replay->listed[map] ? 0 : error;
    replay->listed[map] = error == 0;
    return error;
}

static int flush(struct replay *replay, bool more, char message[HR_MESSAGE_BYTES])
{
    json_t *answer = NULL;
    int error = hr_client_ask(replay->job, true,
                              json_pack("{s:s, s:o, s:I, s:O, s:b}", "op", "replay", "trees",
                                        tree_numbers(replay->job, replay->trees), "id",
                                        (json_int_t)replay->id, "lines", replay->lines, "more", more),
                              &answer, message);
    if (error == 0) {
        replay->id = (uint32_t)json_integer_value(json_object_get(answer, "id"));
    }
    json_decref(answer);
    json_array_clear(replay->lines);
    return error;
}

/* "@N": names of the N-th map follow. */
static int take_line(struct replay *replay, const char *line, char message[HR_MESSAGE_BYTES])
{
    int error = 0;
    if (line[0] == '@') {
        unsigned long map = strtoul(line + 1, NULL, 10);
        if (map >= replay->job->maps->count) {
            snprintf(message, HR_MESSAGE_BYTES, "%.300s has names of map %lu, and this job has %u maps",
                     replay->file, map, replay->job->maps->count);
            return -EINVAL;
        }
        error = list(replay, (unsigned)map, message);
    }
    if (error == 0) {
        error = json_array_append_new(replay->lines, json_string(line)) == 0 ? 0 : -EILSEQ;
        snprintf(message, HR_MESSAGE_BYTES, "%.300s: a line is not percent-encoded", replay->file);
    }
    if (error == 0 && json_array_size(replay->lines) == HR_ORDER_BATCH) {
        error = flush(replay, true, message);
    }
    return error;
}

static int take_file(struct replay *replay, FILE *in, char message[HR_MESSAGE_BYTES])
{
    hr_cleanup_free char *line = NULL;
    size_t room = 0;
    ssize_t len = getline(&line, &room, in);
    if (len < 0 || strcmp(line, HR_ORDER_HEADER "\n") != 0) {
        snprintf(message, HR_MESSAGE_BYTES, "%.300s is no recorded order: its first line is not '%s'",
                 replay->file, HR_ORDER_HEADER);
        return -EINVAL;
    }
    int error = list(replay, 0, message);
    while (error == 0 && (len = getline(&line, &room, in)) >= 0) {
        line[strcspn(line, "\r\n")] = '\0';
        error = line[0] && line[0] != '#' ? take_line(replay, line, message) : 0;
    }
    return error < 0 ? error : flush(replay, false, message);
}

/* The order is missing; what a recording that did not come to its end leaves may be there. */
static void say_missing(const char *file, int error, char message[HR_MESSAGE_BYTES])
{
    char part[PATH_MAX + 8];
    snprintf(part, sizeof part, "%s.part", file);
    if (error == -ENOENT && access(part, R_OK) == 0) {
        snprintf(
            message, HR_MESSAGE_BYTES,
            "%.240s is not there, its recording goes on or its daemon was killed: --replay %.240s follows "
            "what was opened until then",
            file, part);
    } else {
        snprintf(message, HR_MESSAGE_BYTES, "%.400s: %s", file, strerror(-error));
    }
}

int hr_order_replay(const struct hr_job *job, const uint32_t *trees, const char *file,
                    char message[HR_MESSAGE_BYTES])
{
    FILE *in = fopen(file, "re");
    if (!in) {
        int error = -errno;
        say_missing(file, error, message);
        return error;
    }
    struct replay replay = {.job = job, .trees = trees, .file = file, .lines = json_array()};
    int error = replay.lines ? take_file(&replay, in, message) : -ENOMEM;
    json_decref(replay.lines);
    fclose(in);
    return error;
}
