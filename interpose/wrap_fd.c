/* Descriptors copied and closed: the byte that says "maybe a stand-in directory or a face" follows them. What
 * fcntl and lockf say of a face is what they say of a read-only file. */
#include <stdarg.h>

#include "interpose/face.h"
#include "interpose/standin.h"
#include "interpose/sys.h"
#include "interpose/inner.h"

/* Before the close: afterwards the number may be somebody else's already. */
static inline void forget(int fd)
{
    if (HR_UNLIKELY(hr_active) && hr_standin_maybe(fd)) {
        hr_standin_unmark(fd);
    }
}

/* `to` loses the mark that it had even when `from` has none. */
static inline int follow(int from, int to)
{
    if (HR_UNLIKELY(hr_active) && to >= 0 && from != to && (hr_standin_maybe(from) || hr_standin_maybe(to))) {
        hr_standin_copy(from, to);
        return hr_face_is_stream(to) && hr_face_maybe(from) ? (int)hr_edge(hr_face_not_as_stream(to)) : to;
    }
    return to;
}

/* Apart, so that the hook itself needs no stack. */
static HR_NOINLINE int close_slowly(int fd)
{
    forget(fd);
    return HR_REAL(close)(fd);
}

int close(int fd)
{
    bool slow = HR_UNLIKELY(!hr_real.close) || (HR_UNLIKELY(hr_active) && HR_UNLIKELY(hr_standin_maybe(fd)));
    return slow ? close_slowly(fd) : hr_real.close(fd);
}

int __close(int fd)
{
    forget(fd);
    return HR_REAL(__close)(fd);
}

int dup(int fd)
{
    return follow(fd, HR_REAL(dup)(fd));
}

int dup2(int from, int to)
{
    return follow(from, HR_REAL(dup2)(from, to));
}

int __dup2(int from, int to)
{
    return follow(from, HR_REAL(__dup2)(from, to));
}

int dup3(int from, int to, int flags)
{
    return follow(from, HR_REAL(dup3)(from, to, flags));
}

/* What is refused leaves all of them open: odd flags, or a kernel before 5.9, which is asked by a range of
 * none. With CLOSE_RANGE_UNSHARE other threads keep theirs. */
static bool will_close(unsigned first, unsigned last, int flags)
{
    return flags == 0 && first <= last && HR_SYS3(SYS_close_range, ~0u, ~0u, 0) == 0;
}

int close_range(unsigned first, unsigned last, int flags)
{
    if (HR_UNLIKELY(hr_active) && will_close(first, last, flags)) {
        hr_standin_unmark_range(first, last);
    }
    return HR_REAL(close_range) ? HR_REAL(close_range)(first, last, flags)
                                : (int)hr_edge(HR_SYS3(SYS_close_range, first, last, flags));
}

void closefrom(int first)
{
    if (HR_UNLIKELY(hr_active)) {
        hr_standin_unmark_range(first > 0 ? (unsigned)first : 0, UINT32_MAX);
    }
    if (HR_REAL(closefrom)) {
        HR_REAL(closefrom)(first);
    } else {
        HR_SYS3(SYS_close_range, first > 0 ? first : 0, UINT32_MAX, 0);
    }
}

/* From another process: whatever it was there. */
int pidfd_getfd(int pidfd, int target, unsigned flags)
{
    int fd = HR_REAL(pidfd_getfd) ? HR_REAL(pidfd_getfd)(pidfd, target, flags)
                                  : (int)hr_edge(HR_SYS3(SYS_pidfd_getfd, pidfd, target, flags));
    long status = HR_UNLIKELY(hr_active) && fd >= 0 ? HR_SYS2(SYS_fcntl, fd, F_GETFL) : -1;
    if (status >= 0) {
        hr_standin_mark_arrived(fd, (int)status);
    }
    return fd;
}

/* ---- fcntl, lockf ---- */

/* The kernel's lock would be one of a file that every reader of the object shares, and a read lock needs a
 * descriptor that reads; nobody can hold a write lock. */
static int lock_face(int fd, const struct hr_face *face, int command, struct flock *lock)
{
    int64_t start = 0;
    if (lock->l_whence == SEEK_CUR) {
        start = HR_SYS3(SYS_lseek, fd, 0, SEEK_CUR);
    } else if (lock->l_whence == SEEK_END) {
        start = (int64_t)face->size;
    } else if (lock->l_whence != SEEK_SET) {
        return -EINVAL;
    }
    if (__builtin_add_overflow(start, lock->l_start, &start)) {
        return -EOVERFLOW;
    }
    if (start < 0 || (lock->l_len < 0 && start + lock->l_len < 0)) {
        return -EINVAL;
    }
    if (lock->l_len > 0 && lock->l_len - 1 > INT64_MAX - start) {
        return -EOVERFLOW;
    }
    if (command == F_GETLK || command == F_OFD_GETLK) {
        if (lock->l_type != F_RDLCK && lock->l_type != F_WRLCK &&
            (command == F_GETLK || lock->l_type != F_UNLCK)) {
            return -EINVAL;
        }
        lock->l_type = F_UNLCK;
        return 0;
    }
    switch (lock->l_type) {
    case F_RDLCK:
    case F_UNLCK:
        return 0;
    case F_WRLCK:
        return -EBADF;
    default:
        return -EINVAL;
    }
}

/* True: *ret is the answer. */
static HR_NOINLINE bool fcntl_face(int fd, int command, void *argument, int *ret)
{
    struct hr_face face;
    long flags;
    switch (command) {
    case F_GETFL:
        flags = hr_face_of(fd, &face) ? HR_SYS2(SYS_fcntl, fd, F_GETFL) : -EBADF;
        *ret = (int)((flags & ~(long)O_ACCMODE) | O_RDONLY);
        return flags >= 0 && !(flags & O_PATH);
    case F_GETLK:
    case F_SETLK:
    case F_SETLKW:
    case F_OFD_GETLK:
    case F_OFD_SETLK:
    case F_OFD_SETLKW:
        if (!hr_face_of(fd, &face)) {
            return false;
        }
        *ret = (int)hr_edge(argument ? lock_face(fd, &face, command, argument) : -EFAULT);
        return true;
    default:
        return false;
    }
}

/* The third argument may be an int or a pointer: taken and passed on at a pointer's width, as libc itself
 * does. */
static inline int fcntl_followed(int (*real)(int, int, ...), int fd, int command, void *argument)
{
    int result;
    if (HR_UNLIKELY(hr_active) && HR_UNLIKELY(hr_face_maybe(fd)) &&
        fcntl_face(fd, command, argument, &result)) {
        return result;
    }
    result = real(fd, command, argument);
    return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? follow(fd, result) : result;
}

#define FCNTL(name)                                                                                          \
    int name(int fd, int command, ...)                                                                       \
    {                                                                                                        \
        va_list list;                                                                                        \
        va_start(list, command);                                                                             \
        void *argument = va_arg(list, void *);                                                               \
        va_end(list);                                                                                        \
        return fcntl_followed(HR_REAL(name), fd, command, argument);                                         \
    }
FCNTL(fcntl)
FCNTL(fcntl64)
FCNTL(__fcntl)

static HR_NOINLINE bool lockf_face(int fd, int command, int *ret)
{
    struct hr_face face;
    if (!hr_face_of(fd, &face)) {
        return false;
    }
    bool locks = command == F_LOCK || command == F_TLOCK;
    *ret = (int)hr_edge(locks ? -EBADF : command == F_ULOCK || command == F_TEST ? 0 : -EINVAL);
    return true;
}

int lockf(int fd, int command, off_t bytes)
{
    int result;
    return HR_UNLIKELY(hr_active) && HR_UNLIKELY(hr_face_maybe(fd)) && lockf_face(fd, command, &result)
               ? result
               : HR_REAL(lockf)(fd, command, bytes);
}

int lockf64(int fd, int command, off64_t bytes)
{
    int result;
    return HR_UNLIKELY(hr_active) && HR_UNLIKELY(hr_face_maybe(fd)) && lockf_face(fd, command, &result)
               ? result
               : HR_REAL(lockf64)(fd, command, bytes);
}
