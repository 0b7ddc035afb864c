#include "interpose/face_read.h"

#include <limits.h>

#include "interpose/segment.h"
#include "interpose/sys.h"
#include "interpose/inner.h"

/* What means nothing, or nothing but itself, to a read. */
#define KNOWN_FLAGS (RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_NOWAIT | RWF_APPEND)

/* The sum of the parts, as the kernel checks and cuts it; -EINVAL. */
static int64_t bytes_of(const struct iovec *parts, int count)
{
    uint64_t bytes = 0;
    if (count < 0 || count > IOV_MAX) {
        return -EINVAL;
    }
    for (int i = 0; i < count; i++) {
        if (parts[i].iov_len > SSIZE_MAX - bytes) {
            return -EINVAL;
        }
        bytes += parts[i].iov_len;
    }
    return bytes < HR_CALL_BYTES_MAX ? (int64_t)bytes : HR_CALL_BYTES_MAX;
}

#define PAGE_BYTES 4096 /* the first page is nobody's: vm.mmap_min_addr */

/* Bytes out of a mapping are copied here and not by the kernel, which would say EFAULT of NULL. */
static inline bool is_nowhere(const struct iovec *part)
{
    return (uintptr_t)part->iov_base < PAGE_BYTES;
}

/* `bytes` of the object into the parts: all of them, fewer when an error came after some, or -errno. */
static ssize_t scatter(const struct hr_face *face, const struct iovec *parts, uint64_t bytes, uint64_t start,
                       bool wait)
{
    uint64_t done = 0;
    if (wait && bytes > parts[0].iov_len && bytes > 0) {
        hr_segment_hint(face, start, bytes);
    }
    for (int i = 0; done < bytes; i++) {
        uint64_t part = parts[i].iov_len < bytes - done ? parts[i].iov_len : bytes - done;
        ssize_t got = part > 0 && is_nowhere(&parts[i]) ? -EFAULT
                      : wait ? hr_segment_copy(face, parts[i].iov_base, part, start + done)
                             : hr_segment_copy_ready(face, parts[i].iov_base, part, start + done);
        if (got < 0) {
            return done > 0 ? (ssize_t)done : got;
        }
        done += (uint64_t)got;
        if ((uint64_t)got < part) {
            break;
        }
    }
    return (ssize_t)done;
}

ssize_t hr_face_readv(int fd, const struct hr_face *face, const struct iovec *parts, int count, int flags)
{
    uint64_t start;
    int64_t wanted = bytes_of(parts, count);
    if (wanted > 0 && (flags & ~KNOWN_FLAGS)) {
        return -EOPNOTSUPP;
    }
    if (wanted <= 0) {
        return wanted;
    }
    int64_t bytes = hr_face_claim(fd, face, (uint64_t)wanted, &start);
    if (bytes <= 0) {
        return bytes;
    }
    ssize_t got = scatter(face, parts, (uint64_t)bytes, start, !(flags & RWF_NOWAIT));
    hr_face_unclaim(fd, (uint64_t)(bytes - (got > 0 ? got : 0)));
    return got;
}

ssize_t hr_face_preadv(const struct hr_face *face, const struct iovec *parts, int count, off_t offset,
                       int flags)
{
    int64_t wanted = offset < 0 ? -EINVAL : bytes_of(parts, count);
    if (wanted > 0 && wanted > INT64_MAX - offset) {
        return -EINVAL;
    }
    uint64_t start = (uint64_t)offset;
    if (wanted > 0 && (flags & ~KNOWN_FLAGS)) {
        return -EOPNOTSUPP;
    }
    if (wanted <= 0 || start >= face->size) {
        return wanted < 0 ? wanted : 0;
    }
    uint64_t left = face->size - start;
    uint64_t bytes = (uint64_t)wanted < left ? (uint64_t)wanted : left;
    return scatter(face, parts, bytes, start, !(flags & RWF_NOWAIT));
}

off_t hr_face_seek(int fd, const struct hr_face *face, off_t offset, int whence)
{
    off_t size = (off_t)face->size;
    if ((whence == SEEK_END || whence == SEEK_DATA || whence == SEEK_HOLE) && face->id == 0) {
        return -ESTALE;
    }
    switch (whence) {
    case SEEK_END:
        if (offset > INT64_MAX - size) {
            return -EINVAL;
        }
        offset = size + offset;
        break;
    case SEEK_DATA:
    case SEEK_HOLE:
        if (offset < 0 || offset >= size) {
            return -ENXIO;
        }
        offset = whence == SEEK_DATA ? offset : size;
        break;
    default:
        return HR_SYS3(SYS_lseek, fd, offset, whence);
    }
    return offset < 0 ? -EINVAL : HR_SYS3(SYS_lseek, fd, offset, SEEK_SET);
}
