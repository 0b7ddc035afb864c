#include "interpose/face_send.h"

#include <fcntl.h>

#include "interpose/face_map.h"
#include "interpose/segment.h"
#include "interpose/sys.h"
#include "interpose/inner.h"

enum how { SENDFILE, SPLICE, COPY_RANGE };

struct sending {
    enum how how;
    const struct hr_face *face;
    int out;
    off64_t *out_offset;
    unsigned flags;
};

/* One real call out of the segment behind fd. */
static long send_some(const struct sending *sending, int fd, off64_t at, uint64_t bytes, bool first)
{
    switch (sending->how) {
    case SENDFILE:
        return HR_SYS4(SYS_sendfile, sending->out, fd, &at, bytes);
    case SPLICE:
        /* The kernel waits for room in the pipe before the first byte, never after it. */
        return HR_SYS6(SYS_splice, fd, &at, sending->out, sending->out_offset, bytes,
                       sending->flags | (first ? 0 : SPLICE_F_NONBLOCK));
    default:
        return HR_SYS6(SYS_copy_file_range, fd, &at, sending->out, sending->out_offset, bytes,
                       sending->flags);
    }
}

static ssize_t send_range(const struct sending *sending, uint64_t offset, uint64_t bytes)
{
    struct hr_segment segment;
    uint64_t sent = 0;
    while (sent < bytes) {
        uint64_t at = offset + sent, rest = bytes - sent;
        int fd = hr_segment_open(sending->face, at, rest, &segment);
        if (fd < 0) {
            return sent ? (ssize_t)sent : fd;
        }
        uint64_t here = segment.offset + segment.bytes - at;
        uint64_t part = rest < here ? rest : here;
        long got = send_some(sending, fd, (off64_t)(at - segment.offset), part, sent == 0);
        HR_SYS1(SYS_close, fd);
        if (got < 0) {
            return sent ? (ssize_t)sent : got;
        }
        sent += (uint64_t)got;
        if ((uint64_t)got < part) {
            break;
        }
    }
    return (ssize_t)sent;
}

/* Nothing to copy: what the kernel says of an output that is none. */
static ssize_t send_nothing(const struct sending *sending)
{
    long status = HR_SYS2(SYS_fcntl, sending->out, F_GETFL);
    if (status < 0 || (status & O_ACCMODE) == O_RDONLY || (status & O_PATH)) {
        return -EBADF;
    }
    return sending->how == SPLICE && HR_SYS2(SYS_fcntl, sending->out, F_GETPIPE_SZ) < 0 ? -EINVAL : 0;
}

static ssize_t send_face(const struct sending *sending, int in, off64_t *offset, size_t bytes)
{
    uint64_t size = sending->face->size, start;
    uint64_t wanted = bytes < HR_CALL_BYTES_MAX ? bytes : HR_CALL_BYTES_MAX;
    if (offset && *offset < 0) {
        return -EINVAL;
    }
    if (offset) {
        start = (uint64_t)*offset;
        uint64_t there = start < size ? size - start : 0;
        ssize_t sent = there && wanted ? send_range(sending, start, wanted < there ? wanted : there)
                                       : send_nothing(sending);
        if (sent > 0) {
            *offset += sent;
        }
        return sent;
    }
    int64_t claimed = wanted ? hr_face_claim(in, sending->face, wanted, &start) : 0;
    if (claimed <= 0) {
        return claimed < 0 ? claimed : send_nothing(sending);
    }
    ssize_t sent = send_range(sending, start, (uint64_t)claimed);
    uint64_t unsent = (uint64_t)claimed - (uint64_t)(sent > 0 ? sent : 0);
    if (unsent > 0) {
        hr_face_unclaim(in, unsent);
    }
    return sent;
}

ssize_t hr_face_sendfile(int out, int in, const struct hr_face *face, off64_t *offset, size_t bytes)
{
    struct sending sending = {.how = SENDFILE, .face = face, .out = out};
    return send_face(&sending, in, offset, bytes);
}

ssize_t hr_face_splice(int in, const struct hr_face *face, off64_t *offset, int out, off64_t *out_offset,
                       size_t bytes, unsigned flags)
{
    struct sending sending = {
        .how = SPLICE, .face = face, .out = out, .out_offset = out_offset, .flags = flags};
    return send_face(&sending, in, offset, bytes);
}

ssize_t hr_face_copy_range(int in, const struct hr_face *face, off64_t *offset, int out, off64_t *out_offset,
                           size_t bytes, unsigned flags)
{
    struct sending sending = {
        .how = COPY_RANGE, .face = face, .out = out, .out_offset = out_offset, .flags = flags};
    return flags ? -EINVAL : send_face(&sending, in, offset, bytes);
}

/* ---- hints ---- */

/* bytes 0: up to the end. */
static void will_need(const struct hr_face *face, uint64_t offset, uint64_t bytes)
{
    if (offset < face->size) {
        uint64_t rest = face->size - offset;
        hr_segment_hint(face, offset, bytes && bytes < rest ? bytes : rest);
    }
}

int hr_face_advise(const struct hr_face *face, int64_t offset, int64_t bytes, int advice)
{
    if (bytes < 0 || advice < POSIX_FADV_NORMAL || advice > POSIX_FADV_NOREUSE) {
        return -EINVAL;
    }
    if (offset < 0) {
        return 0;
    }
    switch (advice) {
    case POSIX_FADV_WILLNEED:
        will_need(face, (uint64_t)offset, (uint64_t)bytes);
        break;
    case POSIX_FADV_SEQUENTIAL:
        hr_segment_advise(face, 0, face->size, HR_HINT_SEQUENTIAL);
        break;
    case POSIX_FADV_RANDOM:
        hr_segment_advise(face, 0, face->size, HR_HINT_RANDOM);
        break;
    case POSIX_FADV_NORMAL:
        hr_segment_advise(face, 0, face->size, HR_HINT_NORMAL);
        break;
    case POSIX_FADV_DONTNEED:
        if (!hr_face_is_mapped(face->id)) { /* as the kernel leaves mapped pages alone */
            hr_segment_advise(face, (uint64_t)offset, bytes ? (uint64_t)bytes : face->size, HR_HINT_DONTNEED);
        }
        break;
    default:
        break;
    }
    return 0;
}

int hr_face_readahead(const struct hr_face *face, int64_t offset, size_t bytes)
{
    if (bytes > 0 && offset >= 0) {
        will_need(face, (uint64_t)offset, bytes);
    }
    return 0;
}
