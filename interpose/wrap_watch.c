/* What would make the kernel look at a name later on: watches and file handles. It does not know the names of
 * a map, so each is refused, in the way in which programs turn to looking themselves. */
#include <fcntl.h>
#include <sys/inotify.h>

#include "interpose/door.h"
#include "interpose/view.h"
#include "interpose/inner.h"

/* Of linux/fanotify.h. */
#define MARK_FLUSH 0x80u /* no path is looked at */
#define MARK_DONT_FOLLOW 0x4u

static int refuse(const struct hr_place *place, int answer)
{
    struct hr_object object;
    int error = hr_view_find(place, &object);
    return (int)hr_edge(error < 0 ? error : answer);
}

/* ENOSPC, "out of watches", is the one refusal that is answered by polling: coreutils' tail, TypeScript and
 * atom's watcher do so by themselves; notify (Rust) and watchdog give it an error of its own. Others end the
 * program or leave the name unwatched without a word (EACCES with watchdog). */
int inotify_add_watch(int fd, const char *path, uint32_t mask)
{
    struct hr_place place;
    return hr_door_as(AT_FDCWD, &path, !(mask & IN_DONT_FOLLOW), &place)
               ? refuse(&place, -ENOSPC)
               : HR_REAL(inotify_add_watch)(fd, path, mask);
}

/* What the kernel says of a file system that has no handles. */
int fanotify_mark(int fd, unsigned flags, uint64_t mask, int dirfd, const char *path)
{
    struct hr_place place;
    if (flags & MARK_FLUSH) {
        return HR_REAL(fanotify_mark)(fd, flags, mask, dirfd, path);
    }
    if (!path && dirfd >= 0 && hr_door_fd(dirfd)) {
        return (int)hr_edge(-EOPNOTSUPP);
    }
    return hr_door_as(dirfd, &path, !(flags & MARK_DONT_FOLLOW), &place)
               ? refuse(&place, -EOPNOTSUPP)
               : HR_REAL(fanotify_mark)(fd, flags, mask, dirfd, path);
}

int name_to_handle_at(int dirfd, const char *path, struct file_handle *handle, int *mount_id, int flags)
{
    struct hr_place place;
    if (hr_door_means_fd(path, flags) && dirfd >= 0 && hr_door_fd(dirfd)) {
        return (int)hr_edge(-EOPNOTSUPP);
    }
    return hr_door_as(dirfd, &path, flags & AT_SYMLINK_FOLLOW, &place)
               ? refuse(&place, -EOPNOTSUPP)
               : HR_REAL(name_to_handle_at)(dirfd, path, handle, mount_id, flags);
}
