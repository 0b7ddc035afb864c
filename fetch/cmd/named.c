#include "fetch/cmd/named.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fetch/base/cleanup.h"
#include "fetch/cmd/progress.h"
#include "fetch/cmd/waiting.h"

#define POLL_MIN_MS 10 /* short listings are over after a few of these... */
#define POLL_MAX_MS 100
#define QUIET_MS 1000 /* no progress of what is over by then, where nobody watches */
#define MAP_TRIES 5   /* a file that was replaced between its name and its open */

int named_index_map(const char *file, struct named_index *ret)
{
    *ret = (struct named_index){.base = NULL};
    if (!file[0]) {
        return 0;
    }
    hr_cleanup_fd int fd = open(file, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        return -errno;
    }
    void *base = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        return -errno;
    }
    ret->base = base;
    ret->bytes = (size_t)st.st_size;
    int error = hr_index_adopt(&ret->index, base, ret->bytes);
    if (error < 0) {
        named_index_unmap(ret);
    }
    return error;
}

void named_index_unmap(struct named_index *index)
{
    if (index->base) {
        munmap(index->base, index->bytes);
    }
    *index = (struct named_index){.base = NULL};
}

int named_state(const struct hr_job *job, uint32_t tree, bool want, json_t **ret,
                char message[HR_MESSAGE_BYTES])
{
    return hr_client_ask(job, true,
                         json_pack("{s:s, s:I, s:b}", "op", "names", "tree", (json_int_t)tree, "want", want),
                         ret, message);
}

int named_wait(const struct hr_job *job, uint32_t tree, const char *what, uint64_t expected, json_t **ret,
               char message[HR_MESSAGE_BYTES])
{
    struct hr_progress progress;
    struct hr_waiting waiting;
    unsigned poll_ms = POLL_MIN_MS, waited_ms = 0;
    uint64_t seen = 0;
    bool told = false;
    hr_progress_begin(&progress, "names", false);
    hr_waiting_begin(&waiting);
    for (;;) {
        json_t *state = NULL;
        char more[80];
        int error = named_state(job, tree, false, &state, message);
        bool going = error == 0 && json_is_true(json_object_get(state, what));
        uint64_t keys = (uint64_t)json_integer_value(json_object_get(state, "keys"));
        long long lanes = json_integer_value(json_object_get(state, "lanes"));
        struct hr_progress_figures figures = {.items = keys, .items_total = keys < expected ? expected : 0};
        snprintf(more, sizeof more, ", %lld lane%s", lanes, lanes == 1 ? "" : "s");
        if (going && (progress.terminal || waited_ms >= QUIET_MS)) {
            hr_progress_tell(&progress, &figures, false, lanes ? more : NULL);
            told = true;
            seen = keys;
        }
        if (going && hr_waiting_lasts(&waiting, keys)) {
            hr_waiting_tell_beside(job, tree, &progress);
        }
        if (!going) {
            if (told) {
                bool failed = json_integer_value(json_object_get(state, "list_error")) ||
                              json_integer_value(json_object_get(state, "import_error"));
                figures.items =
                    failed ? seen : (uint64_t)json_integer_value(json_object_get(state, "objects"));
                hr_progress_tell(&progress, &figures, true, NULL);
            }
            *ret = state;
            return error;
        }
        json_decref(state);
        usleep(poll_ms * 1000);
        waited_ms += poll_ms;
        poll_ms = poll_ms * 2 < POLL_MAX_MS ? poll_ms * 2 : POLL_MAX_MS;
    }
}

int named_there(const struct hr_job *job, uint32_t tree, json_t **ret, char message[HR_MESSAGE_BYTES])
{
    json_t *state = NULL;
    int error = named_state(job, tree, true, &state, message);
    bool listing = error == 0 && json_is_true(json_object_get(state, "listing"));
    const char *index = error == 0 ? json_string_value(json_object_get(state, "index")) : "";
    if (listing && !index[0]) {
        json_decref(state);
        state = NULL;
        error = named_wait(job, tree, "listing", 0, &state, message);
        index = error == 0 ? json_string_value(json_object_get(state, "index")) : "";
    }
    if (error == 0 && !index[0]) { /* it failed, or nothing is listed: "list" says why */
        json_t *answer = NULL;
        error = hr_client_ask(
            job, true, json_pack("{s:s, s:I, s:s}", "op", "list", "tree", (json_int_t)tree, "path", ""),
            &answer, message);
        json_decref(answer);
        json_decref(state);
        state = NULL;
        error = error == 0 ? named_state(job, tree, false, &state, message) : error;
    }
    if (error == 0) {
        *ret = state;
    }
    return error;
}

int named_files(const struct hr_job *job, const uint32_t *trees, char message[HR_MESSAGE_BYTES])
{
    int error = 0;
    for (unsigned i = 0; i < job->maps->count && error == 0; i++) {
        json_t *state = NULL;
        if (hr_settings_map_enum(job->settings, &job->maps->map[i], HR_SETTING_LIST) !=
            HR_SETTING_LIST_FILE) {
            continue;
        }
        error = named_wait(job, trees[i], "listing", 0, &state, message);
        if (error == 0) {
            error = -(int)json_integer_value(json_object_get(state, "list_error"));
            snprintf(message, HR_MESSAGE_BYTES, "map %.100s: %.500s", job->maps->map[i].path,
                     json_string_value(json_object_get(state, "list_message")));
        }
        json_decref(state);
    }
    return error;
}

/* Lists, maps, and finds the path. */
static int find(struct named *named, const char *path, char message[HR_MESSAGE_BYTES])
{
    int error = -ENOENT;
    for (int i = 0; i < MAP_TRIES && error == -ENOENT; i++) {
        json_t *state = NULL;
        error = named_there(&named->target.job, named->target.tree, &state, message);
        if (error < 0) {
            return error;
        }
        error = named_index_map(json_string_value(json_object_get(state, "index")), &named->there);
        json_decref(state);
        snprintf(message, HR_MESSAGE_BYTES, "%s", strerror(-error));
    }
    size_t len = strlen(path);
    while (len > 0 && path[len - 1] == '/') {
        len--;
    }
    if (error == 0) {
        error = named->there.index.names ? hr_index_lookup(&named->there.index, path, len, &named->entry)
                                         : -ENOENT;
        snprintf(message, HR_MESSAGE_BYTES, "%s", strerror(-error));
    }
    return error;
}

int named_open(struct named *named, const char *arg, char message[HR_MESSAGE_BYTES])
{
    *named = (struct named){.entry = 0};
    bool is_url = strstr(arg, "://") != NULL;
    int error = target_load(&named->target, arg, is_url, message);
    if (error == 0 && is_url && named->target.path[0]) {
        /* One name of a bucket: a directory is listed by itself, the bucket around it is not. */
        json_t *answer = NULL;
        error = target_ask(&named->target, "look", named->target.path, &answer, message);
        if (error == 0 && strcmp(json_string_value(json_object_get(answer, "kind")), "dir") != 0) {
            named->single = true;
            named->size = (uint64_t)json_integer_value(json_object_get(answer, "size"));
            named->mtime_ns = json_integer_value(json_object_get(answer, "mtime_ns"));
        }
        json_decref(answer);
        if (error < 0 || named->single) {
            return error;
        }
        target_release(&named->target);
        error = target_load(&named->target, arg, false, message);
        named->target.path[0] = '\0';
    }
    return error < 0 ? error : find(named, named->target.path, message);
}

void named_release(struct named *named)
{
    named_index_unmap(&named->there);
    target_release(&named->target);
}
