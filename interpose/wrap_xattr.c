/* Extended attributes by path: none inside a map. ls -l and shutil.copy2 ask and take ENOTSUP for an answer.
 */
#include <sys/xattr.h>

#include "interpose/door.h"
#include "interpose/view.h"
#include "interpose/inner.h"

enum want { WANT_READ, WANT_WRITE };

/* True: ours, and *ret is what the call answers. False: the real call, with *path. */
static bool answered(const char **path, enum want want, struct hr_place *place, long *ret)
{
    struct hr_object object;
    if (!hr_door(AT_FDCWD, path, place)) {
        return false;
    }
    int error = hr_view_find(place, &object);
    *ret = hr_edge(error < 0 ? error : want == WANT_READ ? -ENOTSUP : -EROFS);
    return true;
}

ssize_t getxattr(const char *path, const char *name, void *value, size_t size)
{
    struct hr_place place;
    long result;
    return answered(&path, WANT_READ, &place, &result) ? result : HR_REAL(getxattr)(path, name, value, size);
}

ssize_t lgetxattr(const char *path, const char *name, void *value, size_t size)
{
    struct hr_place place;
    long result;
    return answered(&path, WANT_READ, &place, &result) ? result : HR_REAL(lgetxattr)(path, name, value, size);
}

ssize_t listxattr(const char *path, char *list, size_t size)
{
    struct hr_place place;
    long result;
    return answered(&path, WANT_READ, &place, &result) ? result : HR_REAL(listxattr)(path, list, size);
}

ssize_t llistxattr(const char *path, char *list, size_t size)
{
    struct hr_place place;
    long result;
    return answered(&path, WANT_READ, &place, &result) ? result : HR_REAL(llistxattr)(path, list, size);
}

int setxattr(const char *path, const char *name, const void *value, size_t size, int flags)
{
    struct hr_place place;
    long result;
    return answered(&path, WANT_WRITE, &place, &result) ? (int)result
                                                        : HR_REAL(setxattr)(path, name, value, size, flags);
}

int lsetxattr(const char *path, const char *name, const void *value, size_t size, int flags)
{
    struct hr_place place;
    long result;
    return answered(&path, WANT_WRITE, &place, &result) ? (int)result
                                                        : HR_REAL(lsetxattr)(path, name, value, size, flags);
}

int removexattr(const char *path, const char *name)
{
    struct hr_place place;
    long result;
    return answered(&path, WANT_WRITE, &place, &result) ? (int)result : HR_REAL(removexattr)(path, name);
}

int lremovexattr(const char *path, const char *name)
{
    struct hr_place place;
    long result;
    return answered(&path, WANT_WRITE, &place, &result) ? (int)result : HR_REAL(lremovexattr)(path, name);
}
