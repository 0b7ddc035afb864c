/* The write family. What a DataLoader announces to its workers is looked at on the way; on a large object of
 * a map, whose descriptor is a face and so open for writing, it is refused as on a read-only descriptor. */
#include <sys/uio.h>

#include "interpose/face.h"
#include "interpose/peek.h"
#include "interpose/sys.h"
#include "interpose/inner.h"

static HR_NOINLINE bool is_face(int fd)
{
    struct hr_face face;
    return hr_face_of(fd, &face);
}

static inline bool refused(int fd)
{
    return HR_UNLIKELY(hr_active) && HR_UNLIKELY(hr_face_maybe(fd)) && is_face(fd);
}

#define REFUSE(error) hr_edge(-(error))

/* ---- write ---- */

static inline ssize_t write_any(ssize_t (*real)(int, const void *, size_t), int fd, const void *bytes,
                                size_t len)
{
    if (HR_LIKELY(!hr_active)) {
        return real(fd, bytes, len);
    }
    if (HR_UNLIKELY(hr_face_maybe(fd)) && is_face(fd)) {
        return REFUSE(EBADF);
    }
    ssize_t result = real(fd, bytes, len);
    if (result == (ssize_t)len) {
        hr_peek_written(fd, bytes, len);
    }
    return result;
}

ssize_t write(int fd, const void *bytes, size_t len)
{
    return write_any(HR_REAL(write), fd, bytes, len);
}

ssize_t __write(int fd, const void *bytes, size_t len)
{
    return write_any(HR_REAL(__write), fd, bytes, len);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    return refused(fd) ? REFUSE(EBADF) : HR_REAL(writev)(fd, parts, count);
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t offset)
{
    return refused(fd) ? REFUSE(EBADF) : HR_REAL(pwrite)(fd, bytes, len, offset);
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off64_t offset)
{
    return refused(fd) ? REFUSE(EBADF) : HR_REAL(pwrite64)(fd, bytes, len, offset);
}

ssize_t __pwrite64(int fd, const void *bytes, size_t len, off64_t offset)
{
    return refused(fd) ? REFUSE(EBADF) : HR_REAL(__pwrite64)(fd, bytes, len, offset);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    return refused(fd) ? REFUSE(EBADF) : HR_REAL(pwritev)(fd, parts, count, offset);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset)
{
    return refused(fd) ? REFUSE(EBADF) : HR_REAL(pwritev64)(fd, parts, count, offset);
}

ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t offset, int flags)
{
    return refused(fd) ? REFUSE(EBADF) : HR_REAL(pwritev2)(fd, parts, count, offset, flags);
}

ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t offset, int flags)
{
    return refused(fd) ? REFUSE(EBADF) : HR_REAL(pwritev64v2)(fd, parts, count, offset, flags);
}

/* ---- the file's size ---- */

int ftruncate(int fd, off_t length)
{
    return refused(fd) ? (int)REFUSE(EINVAL) : HR_REAL(ftruncate)(fd, length);
}

int ftruncate64(int fd, off64_t length)
{
    return refused(fd) ? (int)REFUSE(EINVAL) : HR_REAL(ftruncate64)(fd, length);
}

/* A range that cannot be is told first. */
static inline int judge_range(off_t offset, off_t length)
{
    return offset < 0 || length <= 0 ? EINVAL : EBADF;
}

int fallocate(int fd, int mode, off_t offset, off_t length)
{
    return refused(fd) ? (int)REFUSE(judge_range(offset, length))
                       : HR_REAL(fallocate)(fd, mode, offset, length);
}

int fallocate64(int fd, int mode, off64_t offset, off64_t length)
{
    return refused(fd) ? (int)REFUSE(judge_range(offset, length))
                       : HR_REAL(fallocate64)(fd, mode, offset, length);
}

/* These return the error and leave errno alone. */

int posix_fallocate(int fd, off_t offset, off_t length)
{
    return refused(fd) ? judge_range(offset, length) : HR_REAL(posix_fallocate)(fd, offset, length);
}

int posix_fallocate64(int fd, off64_t offset, off64_t length)
{
    return refused(fd) ? judge_range(offset, length) : HR_REAL(posix_fallocate64)(fd, offset, length);
}
