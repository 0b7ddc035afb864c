#include "interpose/segment.h"

#include <fcntl.h>
#include <limits.h>

#include "interpose/demand.h"
#include "interpose/segment_table.h"
#include "interpose/sys.h"
#include "interpose/inner.h"

#define EVICTED_TRIES 100             /* answers whose file is gone when it is opened, before EIO */
#define MAPPED_READ_BYTES (128 << 10) /* longer ones are read into the caller's buffer: no page faults */

/* The file, if it is still there. */
static int open_file(const struct hr_session *session, uint64_t file_id)
{
    char path[PATH_MAX];
    int len = hr_session_file_path(session, file_id, path, sizeof(path));
    if (len < 0) {
        return len;
    }
    return (int)HR_SYS4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0);
}

/* One that the table knows; -ENOENT: it knows none, or its file has gone. */
static int open_known(const struct hr_face *face, uint64_t offset, struct hr_segment *ret)
{
    while (hr_segment_recall(face->id, offset, ret)) {
        int fd = open_file(&face->session, ret->file_id);
        if (fd != -ENOENT) {
            return fd;
        }
        hr_segment_forget(face->id, ret);
    }
    return -ENOENT;
}

/* What the daemon says holds offset. -EAGAIN: ask again with another session. */
static int ask(const struct hr_session *session, const struct hr_face *face, uint64_t offset, uint64_t wanted,
               struct hr_segment *ret)
{
    uint64_t left = face->size - offset;
    struct hr_segment_ask request = {.face_id = face->id,
                                     .offset = offset,
                                     .bytes = wanted < 1      ? 1
                                              : wanted < left ? wanted
                                                              : left};
    struct hr_answer answer;
    int error = hr_demand_segment(session, HR_OP_SEGMENT, &request, &answer);
    if (error) {
        return error;
    }
    *ret = (struct hr_segment){.file_id = answer.file_id, .offset = answer.offset, .bytes = answer.size};
    bool fits = ret->offset <= offset && offset - ret->offset < ret->bytes && ret->bytes <= face->size &&
                ret->offset <= face->size - ret->bytes;
    return fits ? 0 : -EIO;
}

/* One that the daemon names. */
static int open_asked(const struct hr_face *face, uint64_t offset, uint64_t wanted, struct hr_segment *ret)
{
    struct hr_session session = face->session;
    int result = face->id == 0 ? -ESTALE : offset >= face->size ? -EINVAL : -ENOENT;
    for (unsigned i = 0; result == -ENOENT && i < EVICTED_TRIES; i++) {
        result = ask(&session, face, offset, wanted, ret);
        if (result == -EAGAIN) {
            result = hr_session_get(&session);
            result = result < 0 ? result : -ENOENT;
        } else if (result == 0) {
            result = open_file(&session, ret->file_id);
        }
    }
    if (result >= 0) {
        hr_segment_remember(face->id, ret);
    }
    return result == -ENOENT ? -EIO : result;
}

int hr_segment_open(const struct hr_face *face, uint64_t offset, uint64_t wanted, struct hr_segment *ret)
{
    int fd = open_known(face, offset, ret);
    return fd == -ENOENT ? open_asked(face, offset, wanted, ret) : fd;
}

/* From an open segment: as many bytes as it holds of them, or -errno. */
static ssize_t read_from(int fd, const struct hr_segment *segment, char *buffer, size_t bytes,
                         uint64_t offset)
{
    uint64_t skip = offset - segment->offset;
    uint64_t left = segment->bytes - skip;
    size_t whole = bytes < left ? bytes : (size_t)left;
    size_t done = 0;
    while (done < whole) {
        long got = HR_SYS4(SYS_pread64, fd, buffer + done, whole - done, skip + done);
        if (got <= 0) {
            /* The file ends before it should: somebody has cut it. */
            return done > 0 ? (ssize_t)done : got < 0 ? got : -EIO;
        }
        done += (size_t)got;
    }
    return (ssize_t)done;
}

/* The bytes up to the end of one segment. */
static ssize_t copy_part(const struct hr_face *face, char *buffer, size_t bytes, uint64_t offset, bool wait)
{
    struct hr_segment segment;
    bool small = bytes < MAPPED_READ_BYTES;
    size_t mapped = small ? hr_segment_copy_mapped(face->id, buffer, bytes, offset) : 0;
    if (mapped > 0) {
        return (ssize_t)mapped;
    }
    int fd = open_known(face, offset, &segment);
    /* A small read of what was read before: more may come. */
    bool map = small && fd >= 0;
    if (fd == -ENOENT && wait) {
        fd = open_asked(face, offset, bytes, &segment);
    }
    if (fd < 0) {
        return fd;
    }
    if (map) {
        hr_segment_map(face->id, &segment, fd, offset);
    }
    ssize_t got = read_from(fd, &segment, buffer, bytes, offset);
    HR_SYS1(SYS_close, fd);
    return got;
}

static ssize_t copy(const struct hr_face *face, char *buffer, size_t bytes, uint64_t offset, bool wait)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t got = copy_part(face, buffer + done, bytes - done, offset + done, wait);
        if (got < 0) {
            return done > 0 ? (ssize_t)done : got;
        }
        done += (size_t)got;
    }
    return (ssize_t)done;
}

ssize_t hr_segment_copy(const struct hr_face *face, void *buffer, size_t bytes, uint64_t offset)
{
    return copy(face, buffer, bytes, offset, true);
}

ssize_t hr_segment_copy_ready(const struct hr_face *face, void *buffer, size_t bytes, uint64_t offset)
{
    ssize_t got = copy(face, buffer, bytes, offset, false);
    return got == -ENOENT ? (face->id == 0 ? -ESTALE : -EAGAIN) : got;
}

void hr_segment_hint(const struct hr_face *face, uint64_t offset, uint64_t bytes)
{
    struct hr_segment segment;
    if (face->id == 0 || offset >= face->size || bytes == 0) {
        return;
    }
    uint64_t left = face->size - offset;
    uint64_t end = offset + (bytes < left ? bytes : left);
    /* What is here already needs no asking. */
    while (offset < end && hr_segment_recall(face->id, offset, &segment)) {
        offset = segment.offset + segment.bytes;
    }
    if (offset < end) {
        struct hr_segment_ask request = {.face_id = face->id, .offset = offset, .bytes = end - offset};
        hr_demand_hint(&face->session, &request, HR_HINT_WILLNEED);
    }
}

void hr_segment_advise(const struct hr_face *face, uint64_t offset, uint64_t bytes, enum hr_hint hint)
{
    if (face->id == 0 || offset >= face->size || bytes == 0) {
        return;
    }
    uint64_t left = face->size - offset;
    struct hr_segment_ask request = {
        .face_id = face->id, .offset = offset, .bytes = bytes < left ? bytes : left};
    hr_demand_hint(&face->session, &request, hint);
}
