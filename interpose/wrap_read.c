/* read and its kin on a directory of a map. Its descriptor is a stand-in's, opened O_PATH, of which the
 * kernel says EBADF: a directory says EISDIR. Nothing else is looked at here; an unmarked descriptor costs
 * one byte. */
#include <sys/uio.h>

#include "interpose/path.h"
#include "interpose/standin.h"
#include "interpose/inner.h"

static HR_NOINLINE bool is_directory(int fd)
{
    struct hr_place place;
    if (!hr_path_of_fd(fd, &place)) {
        return false;
    }
    errno = EISDIR;
    return true;
}

static inline bool refused(int fd)
{
    return HR_UNLIKELY(hr_active) && HR_UNLIKELY(hr_standin_maybe(fd)) && is_directory(fd);
}

ssize_t read(int fd, void *buffer, size_t size)
{
    return refused(fd) ? -1 : HR_REAL(read)(fd, buffer, size);
}

ssize_t __read(int fd, void *buffer, size_t size)
{
    return refused(fd) ? -1 : HR_REAL(__read)(fd, buffer, size);
}

ssize_t readv(int fd, const struct iovec *parts, int count)
{
    return refused(fd) ? -1 : HR_REAL(readv)(fd, parts, count);
}

ssize_t pread(int fd, void *buffer, size_t size, off_t offset)
{
    return refused(fd) ? -1 : HR_REAL(pread)(fd, buffer, size, offset);
}

ssize_t pread64(int fd, void *buffer, size_t size, off64_t offset)
{
    return refused(fd) ? -1 : HR_REAL(pread64)(fd, buffer, size, offset);
}

ssize_t preadv(int fd, const struct iovec *parts, int count, off_t offset)
{
    return refused(fd) ? -1 : HR_REAL(preadv)(fd, parts, count, offset);
}

ssize_t preadv64(int fd, const struct iovec *parts, int count, off64_t offset)
{
    return refused(fd) ? -1 : HR_REAL(preadv64)(fd, parts, count, offset);
}

/* The fortified forms end the process when size > room, whatever the descriptor is. */

ssize_t __read_chk(int fd, void *buffer, size_t size, size_t room)
{
    return size <= room && refused(fd) ? -1 : HR_REAL(__read_chk)(fd, buffer, size, room);
}

ssize_t __pread_chk(int fd, void *buffer, size_t size, off_t offset, size_t room)
{
    return size <= room && refused(fd) ? -1 : HR_REAL(__pread_chk)(fd, buffer, size, offset, room);
}

ssize_t __pread64_chk(int fd, void *buffer, size_t size, off64_t offset, size_t room)
{
    return size <= room && refused(fd) ? -1 : HR_REAL(__pread64_chk)(fd, buffer, size, offset, room);
}
