/* What an administrator does with a name: refused inside a map, after what is missing has been told. Without
 * these hooks such a call would reach whatever lies beneath the map point. */
#include <sys/un.h>

#include "interpose/door.h"
#include "interpose/refuse.h"
#include "interpose/view.h"
#include "interpose/inner.h"

static int refuse(const struct hr_place *place, int answer)
{
    return (int)hr_edge(hr_refuse_with(place, answer));
}

/* A directory that the kernel cannot make its root: as for whoever may not. */
int chroot(const char *path)
{
    struct hr_place place;
    return hr_door_target(AT_FDCWD, &path, &place) ? refuse(&place, -EPERM) : HR_REAL(chroot)(path);
}

int acct(const char *path)
{
    struct hr_place place;
    return path && hr_door_target(AT_FDCWD, &path, &place) ? refuse(&place, -EROFS) : HR_REAL(acct)(path);
}

/* EINVAL: no swap area, no mount point. */
int swapon(const char *path, int flags)
{
    struct hr_place place;
    return hr_door(AT_FDCWD, &path, &place) ? refuse(&place, -EINVAL) : HR_REAL(swapon)(path, flags);
}

int swapoff(const char *path)
{
    struct hr_place place;
    return hr_door(AT_FDCWD, &path, &place) ? refuse(&place, -EINVAL) : HR_REAL(swapoff)(path);
}

/* A source is a path for some file systems only; a plain word never is one of ours. */
int mount(const char *source, const char *target, const char *type, unsigned long flags, const void *data)
{
    struct hr_place place;
    if (source && source[0] == '/' && hr_door(AT_FDCWD, &source, &place)) {
        return refuse(&place, -EINVAL);
    }
    struct hr_place at;
    return hr_door(AT_FDCWD, &target, &at) ? refuse(&at, -EINVAL)
                                           : HR_REAL(mount)(source, target, type, flags, data);
}

int umount(const char *target)
{
    struct hr_place place;
    return hr_door(AT_FDCWD, &target, &place) ? refuse(&place, -EINVAL) : HR_REAL(umount)(target);
}

int umount2(const char *target, int flags)
{
    struct hr_place place;
    return hr_door(AT_FDCWD, &target, &place) ? refuse(&place, -EINVAL) : HR_REAL(umount2)(target, flags);
}

/* ---- a socket's name ---- */

/* False: it is no name in a file system. */
static bool bind_path(const struct sockaddr_un *address, socklen_t len, char *out)
{
    size_t bytes = len - offsetof(struct sockaddr_un, sun_path);
    if (bytes == 0 || bytes > sizeof(address->sun_path) || address->sun_path[0] == '\0') {
        return false;
    }
    memcpy(out, address->sun_path, bytes);
    out[bytes] = '\0';
    return true;
}

/* True: the socket would get a name inside a map, and *ret is the answer. */
static HR_NOINLINE bool bind_refused(const struct sockaddr_un *address, socklen_t len, int *ret)
{
    char path[sizeof(address->sun_path) + 1];
    struct hr_place place;
    struct hr_object object;
    if (!bind_path(address, len, path) || !hr_path_maybe(AT_FDCWD, path) ||
        !hr_path_find(AT_FDCWD, path, &place)) {
        return false;
    }
    int error = hr_view_find(&place, &object);
    *ret = (int)hr_edge(error == 0 ? -EADDRINUSE : error == -ENOENT ? -EROFS : error);
    return true;
}

/* After the kernel's ENOENT: was it of a way, that is there now? */
static HR_NOINLINE bool bind_made(const struct sockaddr *address, socklen_t len)
{
    char path[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];
    return address->sa_family == AF_UNIX && bind_path((const struct sockaddr_un *)address, len, path) &&
           hr_way_made(AT_FDCWD, path, -ENOENT);
}

int bind(int fd, __CONST_SOCKADDR_ARG address, socklen_t len)
{
    int result;
    if (HR_UNLIKELY(hr_active) && address.__sockaddr__ && len > offsetof(struct sockaddr_un, sun_path) &&
        address.__sockaddr__->sa_family == AF_UNIX &&
        bind_refused((const struct sockaddr_un *)address.__sockaddr__, len, &result)) {
        return result;
    }
    int before = errno;
    int bound = HR_REAL(bind)(fd, address, len);
    return HR_UNLIKELY(bound < 0 && hr_active && errno == ENOENT) && bind_made(address.__sockaddr__, len)
               ? hr_way_again(before, HR_REAL(bind)(fd, address, len))
               : bound;
}
