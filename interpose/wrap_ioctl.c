/* ioctl on a large object: sizes are the object's, and what works on a file's blocks is not supported. */
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <sys/ioctl.h>

#include "interpose/face.h"
#include "interpose/sys.h"
#include "interpose/inner.h"

#define PREALLOCATION_TYPE 'X' /* FS_IOC_RESVSP and kin: they write */
#define PREALLOCATION_FIRST 36
#define PREALLOCATION_LAST 57

static int unread(int fd, const struct hr_face *face, int *ret)
{
    long at = HR_SYS3(SYS_lseek, fd, 0, SEEK_CUR);
    if (at < 0) {
        return (int)at;
    }
    *ret = (int)((int64_t)face->size - at); /* as narrow as the kernel's */
    return 0;
}

static bool writes(unsigned long request)
{
    return _IOC_TYPE(request) == PREALLOCATION_TYPE && _IOC_DIR(request) == _IOC_WRITE &&
           _IOC_NR(request) >= PREALLOCATION_FIRST && _IOC_NR(request) <= PREALLOCATION_LAST;
}

/* False: the kernel's answer is right for a face too (not a terminal, FIONBIO, FIOCLEX...). */
static HR_NOINLINE bool of_face(int fd, unsigned long request, void *argument, int *ret)
{
    struct hr_face face;
    long result;
    if (!hr_face_of(fd, &face)) {
        return false;
    }
    switch (request) {
    case FIONREAD:
        result = unread(fd, &face, argument);
        break;
    case FIOQSIZE:
        *(int64_t *)argument = (int64_t)face.size;
        result = 0;
        break;
    case FS_IOC_FIEMAP:
    case FIDEDUPERANGE:
        result = -EOPNOTSUPP;
        break;
    case FIBMAP:
        result = -EINVAL;
        break;
    case FICLONE:
    case FICLONERANGE:
        result = -EBADF; /* into it */
        break;
    case FS_IOC_SETFLAGS:
        result = -EROFS;
        break;
    default:
        if (!writes(request)) {
            return false;
        }
        result = -EBADF;
    }
    *ret = (int)hr_edge(result);
    return true;
}

/* Out of a face into another file. */
static HR_NOINLINE bool cloned(unsigned long request, const void *argument, int *ret)
{
    struct hr_face face;
    int64_t from =
        request == FICLONE ? (int)(long)argument : ((const struct file_clone_range *)argument)->src_fd;
    if (from < 0 || from > INT32_MAX || !hr_face_maybe((int)from) || !hr_face_of((int)from, &face)) {
        return false;
    }
    *ret = (int)hr_edge(-EOPNOTSUPP);
    return true;
}

int ioctl(int fd, unsigned long request, ...)
{
    va_list list;
    int result;
    va_start(list, request);
    void *argument = va_arg(list, void *);
    va_end(list);
    if (HR_UNLIKELY(hr_active) && ((hr_face_maybe(fd) && of_face(fd, request, argument, &result)) ||
                                   (HR_UNLIKELY(request == FICLONE || request == FICLONERANGE) &&
                                    hr_faces_any() && cloned(request, argument, &result)))) {
        return result;
    }
    return HR_REAL(ioctl)(fd, request, argument);
}
