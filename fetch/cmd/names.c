/* `headrace ls|stat|cat`: names and bytes of mapped paths and of URLs, through the daemon's index and cache.
 */
#include "fetch/cmd/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fetch/base/buf.h"
#include "fetch/base/cleanup.h"
#include "fetch/base/text.h"
#include "fetch/cmd/target.h"
#include "interpose/index.h"

/* ---- ls ---- */

static void print_line(const struct hr_index *index, uint32_t number, const char *path, bool details)
{
    const struct hr_entry *entry = &index->entries[number];
    bool is_dir = entry->kind == HR_KIND_DIR;
    if (details) {
        char date[32];
        time_t seconds = (time_t)(entry->mtime_ns / 1000000000);
        struct tm tm;
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &tm));
        printf("%15llu %s ", is_dir ? 0ull : (unsigned long long)entry->size, date);
    }
    printf("%s%s\n", path, is_dir ? "/" : "");
}

static void list_dir(const struct hr_index *index, uint32_t dir, char *path, size_t len, bool deep,
                     bool details)
{
    uint32_t count = hr_index_child_count(index, dir);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t child = hr_index_child(index, dir, i);
        uint32_t name_len;
        const char *name = hr_index_name(index, child, &name_len);
        if (len + name_len + 2 > PATH_MAX) {
            continue; /* a key has at most 1024 bytes: cannot happen with a checked index */
        }
        memcpy(path + len, name, name_len);
        path[len + name_len] = '\0';
        print_line(index, child, path, details);
        if (deep && index->entries[child].kind == HR_KIND_DIR) {
            path[len + name_len] = '/';
            list_dir(index, child, path, len + name_len + 1, deep, details);
        }
    }
}

static int list_index(const char *file, const char *path, bool deep, bool details)
{
    hr_cleanup_fd int fd = open(file, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        return -errno;
    }
    void *base = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        return -errno;
    }
    struct hr_index index;
    uint32_t entry = 0;
    size_t len = strlen(path);
    while (len > 0 && path[len - 1] == '/') {
        len--;
    }
    int error = hr_index_adopt(&index, base, (uint64_t)st.st_size);
    if (error == 0) {
        error = hr_index_lookup(&index, path, len, &entry);
    }
    char line[PATH_MAX] = "";
    if (error == 0 && index.entries[entry].kind == HR_KIND_DIR) {
        list_dir(&index, entry, line, 0, deep, details);
    } else if (error == 0) {
        print_line(&index, entry, path, details);
    }
    munmap(base, (size_t)st.st_size);
    return error;
}

static int ls_one(const char *arg, bool deep, bool details)
{
    char message[HR_MESSAGE_BYTES];
    struct target target;
    json_t *answer = NULL;
    bool is_url = strstr(arg, "://") != NULL;
    int error = target_load(&target, arg, is_url, message);
    if (error == 0 && is_url && target.path[0]) {
        /* One name of a bucket: a directory is listed by itself, the bucket around it is not. */
        error = target_ask(&target, "look", target.path, &answer, message);
        bool is_dir = error == 0 && strcmp(json_string_value(json_object_get(answer, "kind")), "dir") == 0;
        if (error == 0 && !is_dir) {
            printf("%s\n", target.path);
        }
        json_decref(answer);
        if (error < 0 || !is_dir) {
            goto out;
        }
        target_release(&target);
        error = target_load(&target, arg, false, message);
        target.path[0] = '\0';
    }
    if (error == 0) {
        error = target_ask(&target, "list", "", &answer, message);
    }
    if (error == 0) {
        error = list_index(json_string_value(json_object_get(answer, "index")), target.path, deep, details);
        snprintf(message, sizeof message, "%s", strerror(-error));
        json_decref(answer);
    }
out:
    if (error < 0) {
        hr_complain("%s: %s", arg, message);
    }
    target_release(&target);
    return error;
}

int hr_cmd_ls(int argc, char **argv)
{
    bool deep = false, details = false;
    int i = 0, failed = 0;
    for (; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
        deep |= strcmp(argv[i], "-R") == 0 || strcmp(argv[i], "-lR") == 0;
        details |= strcmp(argv[i], "-l") == 0 || strcmp(argv[i], "-lR") == 0;
        if (strcmp(argv[i], "-R") != 0 && strcmp(argv[i], "-l") != 0 && strcmp(argv[i], "-lR") != 0) {
            return hr_usage("ls");
        }
    }
    if (i >= argc) {
        return hr_usage("ls");
    }
    for (; i < argc; i++) {
        failed |= ls_one(argv[i], deep, details) < 0;
    }
    return failed ? HR_EXIT_FAILED : 0;
}

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
        hr_complain("%s: %s", arg, message);
        target_release(&target);
        return error;
    }
    char date[40];
    time_t seconds = (time_t)(json_integer_value(json_object_get(answer, "mtime_ns")) / 1000000000);
    struct tm tm;
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &tm));
    printf("name:   %s\n", arg);
    printf("source: %.*s %s%s\n", target.map->url_len, target.map->url, target.map->prefix, target.path);
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

/* From `skip` to the file's end; *ret_bytes is what was written, also when it fails. */
static int copy_out(const char *file, uint64_t skip, uint64_t *ret_bytes)
{
    *ret_bytes = 0;
    hr_cleanup_fd int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || lseek(fd, (off_t)skip, SEEK_SET) < 0) {
        return -errno;
    }
    char chunk[65536];
    ssize_t got;
    while ((got = read(fd, chunk, sizeof chunk)) > 0) {
        for (ssize_t at = 0; at < got;) {
            ssize_t wrote = write(STDOUT_FILENO, chunk + at, (size_t)(got - at));
            if (wrote < 0 && errno != EINTR) {
                return -errno;
            }
            at += wrote > 0 ? wrote : 0;
            *ret_bytes += wrote > 0 ? (uint64_t)wrote : 0;
        }
    }
    return got < 0 ? -errno : 0;
}

/* A large object, segment by segment: it need not fit the cache. */
static int copy_segments(const struct target *target, uint64_t face, uint64_t size,
                         char message[HR_MESSAGE_BYTES])
{
    int error = 0, tries = 0;
    for (uint64_t at = 0; at < size && error == 0;) {
        json_t *answer = NULL;
        error = hr_client_ask(&target->job, true,
                              json_pack("{s:s, s:I, s:I, s:I, s:I}", "op", "segment", "tree",
                                        (json_int_t)target->tree, "face", (json_int_t)face, "offset",
                                        (json_int_t)at, "bytes", (json_int_t)(size - at)),
                              &answer, message);
        if (error < 0) {
            break;
        }
        uint64_t first = (uint64_t)json_integer_value(json_object_get(answer, "offset"));
        uint64_t copied = 0;
        error = at < first
                    ? -EPROTO
                    : copy_out(json_string_value(json_object_get(answer, "file")), at - first, &copied);
        json_decref(answer);
        at += copied;
        tries = copied ? 0 : tries + 1;
        if (error == -ENOENT && tries < HR_TARGET_TRIES) {
            error = 0; /* evicted between the answer and the open */
        } else if (error == -ENOENT || (error == 0 && copied == 0)) {
            error = -EIO; /* never ENOENT: part of it is written already */
        }
        snprintf(message, HR_MESSAGE_BYTES, "%s", strerror(-error));
    }
    return error;
}

static int cat_answered(const struct target *target, const json_t *answer, char message[HR_MESSAGE_BYTES])
{
    json_int_t face = json_integer_value(json_object_get(answer, "face"));
    uint64_t copied;
    int error = -EISDIR;
    if (face) {
        return copy_segments(target, (uint64_t)face,
                             (uint64_t)json_integer_value(json_object_get(answer, "size")), message);
    }
    if (strcmp(json_string_value(json_object_get(answer, "kind")), "dir") != 0) {
        error = copy_out(json_string_value(json_object_get(answer, "file")), 0, &copied);
    }
    snprintf(message, HR_MESSAGE_BYTES, "%s", strerror(-error));
    return error;
}

static int cat_one(const char *arg)
{
    char message[HR_MESSAGE_BYTES];
    struct target target;
    int error = target_load(&target, arg, true, message);
    bool again = error == 0;
    for (int i = 0; again && i < HR_TARGET_TRIES; i++) {
        json_t *answer = NULL;
        error = target_ask(&target, "open", target.path, &answer, message);
        again = false;
        if (error == 0) {
            error = cat_answered(&target, answer, message);
            again = error == -ENOENT; /* evicted between the answer and the open */
        }
        json_decref(answer);
    }
    if (error < 0) {
        hr_complain("%s: %s", arg, message);
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
