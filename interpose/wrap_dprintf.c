/* Formatted text to a descriptor: libc writes it by itself. A large object's descriptor is open for writing
 * and must not be written to. */
#include <stdarg.h>

#include "interpose/face.h"
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

int vdprintf(int fd, const char *format, va_list list)
{
    return refused(fd) ? (int)hr_edge(-EBADF) : HR_REAL(vdprintf)(fd, format, list);
}

int dprintf(int fd, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int result = vdprintf(fd, format, list);
    va_end(list);
    return result;
}

int __vdprintf_chk(int fd, int checks, const char *format, va_list list)
{
    return refused(fd) ? (int)hr_edge(-EBADF) : HR_REAL(__vdprintf_chk)(fd, checks, format, list);
}

int __dprintf_chk(int fd, int checks, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int result = __vdprintf_chk(fd, checks, format, list);
    va_end(list);
    return result;
}
