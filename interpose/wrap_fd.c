/* Descriptors copied and closed: the byte that says "maybe a stand-in directory" follows them. */
#include <stdarg.h>

#include "interpose/standin.h"
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
    }
    return to;
}

int close(int fd)
{
    forget(fd);
    return HR_REAL(close)(fd);
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

/* The third argument may be an int or a pointer: taken and passed on at a pointer's width, as libc itself
 * does. */
static inline int fcntl_followed(int (*real)(int, int, ...), int fd, int command, void *argument)
{
    int result = real(fd, command, argument);
    return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? follow(fd, result) : result;
}

int fcntl(int fd, int command, ...)
{
    va_list list;
    va_start(list, command);
    void *argument = va_arg(list, void *);
    va_end(list);
    return fcntl_followed(HR_REAL(fcntl), fd, command, argument);
}

int fcntl64(int fd, int command, ...)
{
    va_list list;
    va_start(list, command);
    void *argument = va_arg(list, void *);
    va_end(list);
    return fcntl_followed(HR_REAL(fcntl64), fd, command, argument);
}
