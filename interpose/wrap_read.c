/* read and its kin on what a map opens. A directory's descriptor is a stand-in's, opened O_PATH, of which the
 * kernel says EBADF: a directory says EISDIR. A large object's is a face: its bytes come from segments. An
 * unmarked descriptor costs one byte. */
#include <sys/uio.h>

#include "interpose/face_read.h"
#include "interpose/path.h"
#include "interpose/peek.h"
#include "interpose/standin.h"
#include "interpose/inner.h"

static inline bool marked(int fd)
{
    return HR_UNLIKELY(hr_active) && HR_UNLIKELY(hr_standin_maybe(fd));
}

static bool is_directory(int fd, ssize_t *ret)
{
    struct hr_place place;
    if (!hr_path_of_fd(fd, &place)) {
        return false;
    }
    *ret = hr_edge(-EISDIR);
    return true;
}

/* What a marked descriptor answers; false: it is not ours after all. */
static HR_NOINLINE bool taken(int fd, const struct iovec *parts, int count, int flags, ssize_t *ret)
{
    struct hr_face face;
    if (hr_face_maybe(fd) && hr_face_of(fd, &face)) {
        *ret = hr_edge(hr_face_readv(fd, &face, parts, count, flags));
        return true;
    }
    return is_directory(fd, ret);
}

static HR_NOINLINE bool taken_at(int fd, const struct iovec *parts, int count, off_t offset, int flags,
                                 ssize_t *ret)
{
    struct hr_face face;
    if (hr_face_maybe(fd) && hr_face_of(fd, &face)) {
        *ret = hr_edge(hr_face_preadv(&face, parts, count, offset, flags));
        return true;
    }
    return is_directory(fd, ret);
}

/* ---- at the descriptor's offset ---- */

static HR_NOINLINE ssize_t read_marked(ssize_t (*real)(int, void *, size_t), int fd, void *buffer,
                                       size_t size)
{
    struct iovec part = {.iov_base = buffer, .iov_len = size};
    ssize_t result;
    return taken(fd, &part, 1, 0, &result) ? result : real(fd, buffer, size);
}

/* Apart, so that the hook itself needs no stack. */
static HR_NOINLINE ssize_t read_early(int fd, void *buffer, size_t size)
{
    return HR_REAL(read)(fd, buffer, size);
}

static HR_NOINLINE ssize_t read_looked_at(ssize_t (*real)(int, void *, size_t), int fd, void *buffer,
                                          size_t size)
{
    ssize_t got = real(fd, buffer, size);
    if (got > 0 && (size_t)got == size) {
        hr_peek_read(fd, buffer, size);
    }
    return got;
}

ssize_t read(int fd, void *buffer, size_t size)
{
    ssize_t (*real)(int, void *, size_t) = hr_real.read;
    if (HR_UNLIKELY(!real)) {
        return read_early(fd, buffer, size);
    }
    if (HR_UNLIKELY(hr_peek_is_due(fd, size)) && hr_active && !hr_standin_maybe(fd)) {
        return read_looked_at(real, fd, buffer, size);
    }
    return marked(fd) ? read_marked(real, fd, buffer, size) : real(fd, buffer, size);
}

ssize_t __read(int fd, void *buffer, size_t size)
{
    return marked(fd) ? read_marked(HR_REAL(__read), fd, buffer, size) : HR_REAL(__read)(fd, buffer, size);
}

ssize_t readv(int fd, const struct iovec *parts, int count)
{
    ssize_t result;
    return marked(fd) && taken(fd, parts, count, 0, &result) ? result : HR_REAL(readv)(fd, parts, count);
}

/* ---- at an offset ---- */

static HR_NOINLINE ssize_t pread_marked(ssize_t (*real)(int, void *, size_t, off_t), int fd, void *buffer,
                                        size_t size, off_t offset)
{
    struct iovec part = {.iov_base = buffer, .iov_len = size};
    ssize_t result;
    return taken_at(fd, &part, 1, offset, 0, &result) ? result : real(fd, buffer, size, offset);
}

ssize_t pread(int fd, void *buffer, size_t size, off_t offset)
{
    return marked(fd) ? pread_marked(HR_REAL(pread), fd, buffer, size, offset)
                      : HR_REAL(pread)(fd, buffer, size, offset);
}

ssize_t pread64(int fd, void *buffer, size_t size, off64_t offset)
{
    return marked(fd) ? pread_marked(HR_REAL(pread64), fd, buffer, size, offset)
                      : HR_REAL(pread64)(fd, buffer, size, offset);
}

ssize_t __pread64(int fd, void *buffer, size_t size, off64_t offset)
{
    return marked(fd) ? pread_marked(HR_REAL(__pread64), fd, buffer, size, offset)
                      : HR_REAL(__pread64)(fd, buffer, size, offset);
}

ssize_t preadv(int fd, const struct iovec *parts, int count, off_t offset)
{
    ssize_t result;
    return marked(fd) && taken_at(fd, parts, count, offset, 0, &result)
               ? result
               : HR_REAL(preadv)(fd, parts, count, offset);
}

ssize_t preadv64(int fd, const struct iovec *parts, int count, off64_t offset)
{
    ssize_t result;
    return marked(fd) && taken_at(fd, parts, count, offset, 0, &result)
               ? result
               : HR_REAL(preadv64)(fd, parts, count, offset);
}

/* Offset -1 is the descriptor's own. */
static bool taken_either(int fd, const struct iovec *parts, int count, off_t offset, int flags, ssize_t *ret)
{
    return offset == -1 ? taken(fd, parts, count, flags, ret)
                        : taken_at(fd, parts, count, offset, flags, ret);
}

ssize_t preadv2(int fd, const struct iovec *parts, int count, off_t offset, int flags)
{
    ssize_t result;
    return marked(fd) && taken_either(fd, parts, count, offset, flags, &result)
               ? result
               : HR_REAL(preadv2)(fd, parts, count, offset, flags);
}

ssize_t preadv64v2(int fd, const struct iovec *parts, int count, off64_t offset, int flags)
{
    ssize_t result;
    return marked(fd) && taken_either(fd, parts, count, offset, flags, &result)
               ? result
               : HR_REAL(preadv64v2)(fd, parts, count, offset, flags);
}

/* ---- fortified: they end the process when size > room, whatever the descriptor is ---- */

static HR_NOINLINE ssize_t read_chk_marked(int fd, void *buffer, size_t size, size_t room)
{
    struct iovec part = {.iov_base = buffer, .iov_len = size};
    ssize_t result;
    return taken(fd, &part, 1, 0, &result) ? result : HR_REAL(__read_chk)(fd, buffer, size, room);
}

ssize_t __read_chk(int fd, void *buffer, size_t size, size_t room)
{
    return marked(fd) && size <= room ? read_chk_marked(fd, buffer, size, room)
                                      : HR_REAL(__read_chk)(fd, buffer, size, room);
}

typedef ssize_t (*pread_chk_fn)(int, void *, size_t, off_t, size_t);

static HR_NOINLINE ssize_t pread_chk_marked(pread_chk_fn real, int fd, void *buffer, size_t size,
                                            off_t offset, size_t room)
{
    struct iovec part = {.iov_base = buffer, .iov_len = size};
    ssize_t result;
    return taken_at(fd, &part, 1, offset, 0, &result) ? result : real(fd, buffer, size, offset, room);
}

ssize_t __pread_chk(int fd, void *buffer, size_t size, off_t offset, size_t room)
{
    return marked(fd) && size <= room ? pread_chk_marked(HR_REAL(__pread_chk), fd, buffer, size, offset, room)
                                      : HR_REAL(__pread_chk)(fd, buffer, size, offset, room);
}

ssize_t __pread64_chk(int fd, void *buffer, size_t size, off64_t offset, size_t room)
{
    return marked(fd) && size <= room
               ? pread_chk_marked(HR_REAL(__pread64_chk), fd, buffer, size, offset, room)
               : HR_REAL(__pread64_chk)(fd, buffer, size, offset, room);
}
