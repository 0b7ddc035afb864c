#include "fetch/cmd/bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fetch/base/cleanup.h"

/* From `skip` to the file's end; *ret_bytes is what was written, also when it fails. */
static int copy_file(const char *file, uint64_t skip, int to_fd, uint64_t *ret_bytes)
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
            ssize_t wrote = write(to_fd, chunk + at, (size_t)(got - at));
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
static int copy_segments(const struct target *target, uint64_t face, uint64_t size, int to_fd,
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
        error = at < first ? -EPROTO
                           : copy_file(json_string_value(json_object_get(answer, "file")), at - first, to_fd,
                                       &copied);
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

static int copy_answered(const struct target *target, const json_t *answer, int to_fd,
                         char message[HR_MESSAGE_BYTES])
{
    json_int_t face = json_integer_value(json_object_get(answer, "face"));
    uint64_t copied;
    int error = -EISDIR;
    if (face) {
        return copy_segments(target, (uint64_t)face,
                             (uint64_t)json_integer_value(json_object_get(answer, "size")), to_fd, message);
    }
    if (strcmp(json_string_value(json_object_get(answer, "kind")), "dir") != 0) {
        error = copy_file(json_string_value(json_object_get(answer, "file")), 0, to_fd, &copied);
    }
    snprintf(message, HR_MESSAGE_BYTES, "%s", strerror(-error));
    return error;
}

int hr_bytes_copy(const struct target *target, const char *path, int fd, char message[HR_MESSAGE_BYTES])
{
    int error = -ENOENT;
    for (int i = 0; error == -ENOENT && i < HR_TARGET_TRIES; i++) {
        json_t *answer = NULL;
        error = target_ask(target, "open", path, &answer, message);
        if (error < 0) {
            json_decref(answer);
            return error; /* ENOENT, too: there is no such object */
        }
        error = copy_answered(target, answer, fd, message); /* ENOENT: evicted between answer and open */
        json_decref(answer);
    }
    return error;
}
