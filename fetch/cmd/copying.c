#include "fetch/cmd/copying.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "fetch/base/buf.h"
#include "fetch/base/cleanup.h"
#include "fetch/base/text.h"
#include "fetch/cmd/bytes.h"
#include "fetch/cmd/cmd.h"

#define HR_BATCH_FILES 256            /* asked for ahead of the copies: what keeps the store's width busy */
#define HR_BATCH_BYTES (128ull << 20) /* two of them fit any cache that is worth its name */
#define HR_NEW_NAME ".headrace-new"   /* what a file is called until it is whole; PID behind it */

/* ---- names ---- */

int hr_copying_begin(struct hr_copying *copying, const struct hr_job *job, const struct hr_map *map,
                     uint32_t tree, const char *dir)
{
    char message[HR_MESSAGE_BYTES];
    json_t *answer = NULL;
    *copying = (struct hr_copying){.dir = dir, .dir_fd = -1};
    copying->target.job = *job;
    copying->target.map = map;
    copying->target.tree = tree;
    int error = mkdir(dir, 0777) < 0 && errno != EEXIST ? -errno : 0;
    if (error < 0) {
        hr_complain("--to %s cannot be made: %s", dir, strerror(-error));
        return error;
    }
    copying->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (copying->dir_fd < 0) {
        error = -errno;
        hr_complain("--to %s cannot be opened as a directory: %s", dir, strerror(-error));
        return error;
    }
    error = target_ask(&copying->target, "list", "", &answer, message);
    if (error == 0) {
        error = named_index_map(json_string_value(json_object_get(answer, "index")), &copying->names);
        snprintf(message, sizeof message, "%s", strerror(-error));
    }
    json_decref(answer);
    if (error < 0) {
        hr_complain("%s: %s", map->path, message);
    }
    return error;
}

void hr_copying_end(struct hr_copying *copying)
{
    named_index_unmap(&copying->names);
    if (copying->dir_fd >= 0) {
        close(copying->dir_fd);
    }
    free(copying->entries);
}

static int add_entry(struct hr_copying *copying, uint32_t entry)
{
    if (copying->names.index.entries[entry].kind != HR_KIND_FILE) {
        return 0;
    }
    if (copying->count == copying->room) {
        size_t room = copying->room ? copying->room * 2 : 1024;
        uint32_t *grown = reallocarray(copying->entries, room, sizeof *grown);
        if (!grown) {
            return -ENOMEM;
        }
        copying->entries = grown;
        copying->room = room;
    }
    copying->entries[copying->count++] = entry;
    copying->figures.items_total++;
    copying->figures.bytes_total += copying->names.index.entries[entry].size;
    return 0;
}

int hr_copying_add(struct hr_copying *copying, const char *path)
{
    const struct hr_index *index = &copying->names.index;
    uint32_t entry;
    int error = hr_index_lookup(index, path, strlen(path), &entry);
    if (error < 0 || index->entries[entry].kind == HR_KIND_FILE) {
        return error < 0 ? error : add_entry(copying, entry);
    }
    uint32_t end = hr_index_end(index, entry);
    uint32_t first = hr_index_child_count(index, entry) > 0 ? hr_index_child(index, entry, 0) : end;
    for (uint32_t below = first; below < end && error == 0; below++) {
        error = add_entry(copying, below);
    }
    return error;
}

/* ---- asking ahead ---- */

/* Files of one batch from `first` on; the daemon brings them side by side. Nothing depends on it. */
static size_t ask_ahead(struct hr_copying *copying, size_t first)
{
    json_t *paths = json_array(), *answer = NULL;
    char path[PATH_MAX], message[HR_MESSAGE_BYTES];
    uint64_t bytes = 0;
    size_t at = first;
    for (; at < copying->count && at - first < HR_BATCH_FILES && (at == first || bytes < HR_BATCH_BYTES);
         at++) {
        struct hr_buf text = HR_BUF_INIT(4 * PATH_MAX);
        uint32_t entry = copying->entries[at];
        int len = hr_index_path(&copying->names.index, entry, path, sizeof path);
        if (len > 0 && hr_percent_encode(path, (size_t)len, true, &text) == 0) {
            json_array_append_new(paths, json_string(text.data));
        }
        bytes += copying->names.index.entries[entry].size;
        hr_buf_release(&text);
    }
    if (at > first && hr_client_ask(&copying->target.job, true,
                                    json_pack("{s:s, s:I, s:I, s:o, s:b}", "op", "warm", "tree",
                                              (json_int_t)copying->target.tree, "id", (json_int_t)0, "paths",
                                              paths, "more", false),
                                    &answer, message) == 0) {
        json_decref(answer);
    } else if (at == first) {
        json_decref(paths);
    }
    return at;
}

/* ---- one file ---- */

/* The directory of a path below DIR, made where it lacks. Never through a symlink. A descriptor or -errno. */
static int open_parent(const struct hr_copying *copying, const char *path, const char **ret_name)
{
    hr_cleanup_fd int fd = dup(copying->dir_fd);
    const char *part = path;
    for (const char *slash; fd >= 0 && (slash = strchr(part, '/')); part = slash + 1) {
        char name[HR_NAME_BYTES_MAX + 1];
        size_t len = (size_t)(slash - part);
        if (len == 0 || len > HR_NAME_BYTES_MAX) {
            return -ENAMETOOLONG;
        }
        memcpy(name, part, len);
        name[len] = '\0';
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
            return -EINVAL;
        }
        if (mkdirat(fd, name, 0777) < 0 && errno != EEXIST) {
            return -errno;
        }
        int below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below < 0) {
            return -errno;
        }
        close(fd);
        fd = below;
    }
    if (fd < 0) {
        return -errno;
    }
    if (!*part || strcmp(part, ".") == 0 || strcmp(part, "..") == 0) {
        return -EINVAL;
    }
    *ret_name = part;
    return hr_steal_fd(fd);
}

static bool is_there(int dir_fd, const char *name, const struct hr_entry *entry)
{
    struct stat st;
    return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
           (uint64_t)st.st_size == entry->size && (int64_t)st.st_mtim.tv_sec == entry->mtime_ns / 1000000000;
}

/* Written, of the right size, with the object's time. */
static int fill(struct hr_copying *copying, const char *path, const struct hr_entry *entry, int fd,
                char message[HR_MESSAGE_BYTES])
{
    struct stat st;
    struct timespec times[2] = {
        {.tv_nsec = UTIME_OMIT},
        {.tv_sec = (time_t)(entry->mtime_ns / 1000000000), .tv_nsec = (long)(entry->mtime_ns % 1000000000)}};
    int error = hr_bytes_copy(&copying->target, path, fd, message);
    if (error == 0 && (fstat(fd, &st) < 0 || (uint64_t)st.st_size != entry->size)) {
        error = -ESTALE;
        snprintf(message, HR_MESSAGE_BYTES, "it changed in the store since it was listed");
    }
    if (error == 0 && (futimens(fd, times) < 0 || close(dup(fd)) < 0)) { /* what only close tells (quotas) */
        error = -errno;
        snprintf(message, HR_MESSAGE_BYTES, "%s", strerror(errno));
    }
    return error;
}

/* 0, 1 (it is there), -errno with a message. */
static int copy_one(struct hr_copying *copying, const char *path, const struct hr_entry *entry,
                    char message[HR_MESSAGE_BYTES])
{
    const char *name = NULL;
    char fresh[64];
    hr_cleanup_fd int parent_fd = open_parent(copying, path, &name);
    if (parent_fd < 0) {
        snprintf(message, HR_MESSAGE_BYTES, "cannot be made below %.300s: %s", copying->dir,
                 strerror(-parent_fd));
        return parent_fd;
    }
    if (is_there(parent_fd, name, entry)) {
        return 1;
    }
    snprintf(fresh, sizeof fresh, HR_NEW_NAME "-%d", (int)getpid());
    (void)unlinkat(parent_fd, fresh, 0);
    hr_cleanup_fd int fd =
        openat(parent_fd, fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    int error = fd < 0 ? -errno : 0;
    snprintf(message, HR_MESSAGE_BYTES, "%s", strerror(-error));
    if (error == 0) {
        error = fill(copying, path, entry, fd, message);
    }
    if (error == 0 && renameat(parent_fd, fresh, parent_fd, name) < 0) {
        error = -errno;
        snprintf(message, HR_MESSAGE_BYTES, "%s", strerror(errno));
    }
    if (error < 0 && fd >= 0) {
        (void)unlinkat(parent_fd, fresh, 0);
    }
    return error;
}

/* Who has no space: DIR's file system, or the cache's. */
static void complain_full(const struct hr_copying *copying, const char *message)
{
    const struct hr_progress_figures *done = &copying->figures;
    struct statvfs fs;
    double free_bytes = fstatvfs(copying->dir_fd, &fs) == 0 ? (double)fs.f_bavail * (double)fs.f_frsize : 0;
    hr_complain(
        "no space: %s. %llu of %llu files are in %s, %.1f MiB more are needed and %.1f MiB are free there",
        message, (unsigned long long)done->items, (unsigned long long)done->items_total, copying->dir,
        (double)(done->bytes_total - done->bytes) / (1 << 20), free_bytes / (1 << 20));
}

static int copy_range(struct hr_copying *copying, size_t first, size_t end)
{
    char path[PATH_MAX], message[HR_MESSAGE_BYTES] = "";
    for (size_t at = first; at < end; at++) {
        const struct hr_entry *entry = &copying->names.index.entries[copying->entries[at]];
        int len = hr_index_path(&copying->names.index, copying->entries[at], path, sizeof path);
        snprintf(message, sizeof message, "%s", strerror(len < 0 ? -len : 0));
        int error = len < 0 ? len : copy_one(copying, path, entry, message);
        if (error == -ENOSPC || error == -EDQUOT) {
            complain_full(copying, message);
            return error;
        }
        if (error < 0) {
            hr_complain("%s/%s: %s", copying->target.map->path, path, message);
            copying->failed++;
            copying->figures.items_total--;
            copying->figures.bytes_total -= entry->size;
            continue;
        }
        copying->there += error == 1;
        copying->figures.items++;
        copying->figures.bytes += entry->size;
        hr_progress_tell(&copying->progress, &copying->figures, false, NULL);
    }
    return 0;
}

int hr_copying_run(struct hr_copying *copying)
{
    size_t at = 0, asked = ask_ahead(copying, 0);
    int error = 0;
    char more[64];
    hr_progress_begin(&copying->progress, "files", true);
    while (at < copying->count && error == 0) {
        size_t ahead = asked < copying->count ? ask_ahead(copying, asked) : asked;
        error = copy_range(copying, at, asked);
        at = asked;
        asked = ahead;
    }
    snprintf(more, sizeof more, "; %llu were there", (unsigned long long)copying->there);
    hr_progress_tell(&copying->progress, &copying->figures, true, more);
    return error;
}
