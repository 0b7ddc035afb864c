/* What would change a map by its name or descriptor: refused (refuse.h), at once. */
#include <fcntl.h>
#include <sys/stat.h>

#include "interpose/door.h"
#include "interpose/refuse.h"
#include "interpose/sys.h"
#include "interpose/inner.h"

#define REFUSE(answer) (int)hr_edge(answer)
#define FOLLOWS(flags) (!((flags)&AT_SYMLINK_NOFOLLOW))

/* ---- remove ---- */

int unlink(const char *path)
{
    struct hr_place place;
    return hr_door(AT_FDCWD, &path, &place) ? REFUSE(hr_refuse_removal(&place)) : HR_REAL(unlink)(path);
}

int unlinkat(int dirfd, const char *path, int flags)
{
    struct hr_place place;
    if (flags & ~AT_REMOVEDIR) {
        return HR_REAL(unlinkat)(dirfd, path, flags);
    }
    return hr_door(dirfd, &path, &place) ? REFUSE(hr_refuse_removal(&place))
                                         : HR_REAL(unlinkat)(dirfd, path, flags);
}

int remove(const char *path)
{
    struct hr_place place;
    return hr_door(AT_FDCWD, &path, &place) ? REFUSE(hr_refuse_removal(&place)) : HR_REAL(remove)(path);
}

int rmdir(const char *path)
{
    struct hr_place place;
    return hr_door(AT_FDCWD, &path, &place) ? REFUSE(hr_refuse_removal(&place)) : HR_REAL(rmdir)(path);
}

/* ---- create ---- */

/* Is it a way's name, which nothing but a directory may get? */
static HR_NOINLINE bool is_taken(int dirfd, const char *path)
{
    struct hr_place way;
    if (!hr_way_is(dirfd, path, &way)) {
        return false;
    }
    errno = EEXIST;
    return true;
}

/* A call that gives (dirfd, path) to something new; slash: as hr_way_make has it. */
#define MAKE_WHEN(call, made)                                                                                \
    ({                                                                                                       \
        int before_ = errno;                                                                                 \
        (call) == 0 ? 0 : (made) ? hr_way_again(before_, call) : -1;                                         \
    })
#define MAKE_AS(dirfd, path, slash, call) MAKE_WHEN(call, hr_way_made(dirfd, path, slash))
#define MAKE(dirfd, path, call) (is_taken(dirfd, path) ? -1 : MAKE_AS(dirfd, path, -ENOENT, call))
#define MAKE_DIR(dirfd, path, call) MAKE_AS(dirfd, path, 0, call)

int mkdir(const char *path, mode_t mode)
{
    struct hr_place place;
    return hr_door(AT_FDCWD, &path, &place) ? REFUSE(hr_refuse_new(&place))
                                            : MAKE_DIR(AT_FDCWD, path, HR_REAL(mkdir)(path, mode));
}

int mkdirat(int dirfd, const char *path, mode_t mode)
{
    struct hr_place place;
    return hr_door(dirfd, &path, &place) ? REFUSE(hr_refuse_new(&place))
                                         : MAKE_DIR(dirfd, path, HR_REAL(mkdirat)(dirfd, path, mode));
}

/* To an empty target the kernel says ENOENT, too; to none EFAULT. */
#define MAKE_LINK(target, dirfd, path, call)                                                                 \
    (target && target[0] && is_taken(dirfd, path)                                                            \
         ? -1                                                                                                \
         : MAKE_WHEN(call, errno == ENOENT && target[0] && hr_way_made(dirfd, path, -ENOENT)))

int symlink(const char *target, const char *path)
{
    struct hr_place place;
    return hr_door(AT_FDCWD, &path, &place)
               ? REFUSE(hr_refuse_new(&place))
               : MAKE_LINK(target, AT_FDCWD, path, HR_REAL(symlink)(target, path));
}

int symlinkat(const char *target, int dirfd, const char *path)
{
    struct hr_place place;
    return hr_door(dirfd, &path, &place)
               ? REFUSE(hr_refuse_new(&place))
               : MAKE_LINK(target, dirfd, path, HR_REAL(symlinkat)(target, dirfd, path));
}

/* Older libcs have mknod and mknodat only under another name. */
static int real_mknodat(int dirfd, const char *path, mode_t mode, dev_t device)
{
    return HR_REAL(mknodat) ? HR_REAL(mknodat)(dirfd, path, mode, device)
                            : (int)hr_edge(hr_sys(SYS_mknodat, dirfd, (long)path, mode, (long)device, 0, 0));
}

int mknodat(int dirfd, const char *path, mode_t mode, dev_t device)
{
    struct hr_place place;
    if (hr_door(dirfd, &path, &place)) {
        return REFUSE(hr_refuse_new(&place));
    }
    return MAKE(dirfd, path, real_mknodat(dirfd, path, mode, device));
}

int mknod(const char *path, mode_t mode, dev_t device)
{
    struct hr_place place;
    if (hr_door(AT_FDCWD, &path, &place)) {
        return REFUSE(hr_refuse_new(&place));
    }
    return MAKE(AT_FDCWD, path, real_mknodat(AT_FDCWD, path, mode, device));
}

/* What those other names are: in programs that were linked against a libc before 2.33. */
int __xmknod(int version, const char *path, mode_t mode, dev_t *device)
{
    struct hr_place place;
    return hr_door(AT_FDCWD, &path, &place)
               ? REFUSE(hr_refuse_new(&place))
               : MAKE(AT_FDCWD, path, HR_REAL(__xmknod)(version, path, mode, device));
}

int __xmknodat(int version, int dirfd, const char *path, mode_t mode, dev_t *device)
{
    struct hr_place place;
    return hr_door(dirfd, &path, &place)
               ? REFUSE(hr_refuse_new(&place))
               : MAKE(dirfd, path, HR_REAL(__xmknodat)(version, dirfd, path, mode, device));
}

int mkfifo(const char *path, mode_t mode)
{
    struct hr_place place;
    return hr_door(AT_FDCWD, &path, &place) ? REFUSE(hr_refuse_new(&place))
                                            : MAKE(AT_FDCWD, path, HR_REAL(mkfifo)(path, mode));
}

int mkfifoat(int dirfd, const char *path, mode_t mode)
{
    struct hr_place place;
    return hr_door(dirfd, &path, &place) ? REFUSE(hr_refuse_new(&place))
                                         : MAKE(dirfd, path, HR_REAL(mkfifoat)(dirfd, path, mode));
}

/* ---- rename, link ---- */

/* What the kernel says of the side that is not ours: of the name, or of the directory it is in. Nothing can
 * be renamed to "/", which is found out last. */
static int find_foreign(int dirfd, const char *path, bool whole)
{
    struct stat stat;
    long error = whole ? HR_SYS4(SYS_newfstatat, dirfd, path, &stat, AT_SYMLINK_NOFOLLOW)
                       : HR_SYS5(SYS_renameat2, dirfd, path, AT_FDCWD, "/", 0);
    return error == -EBUSY || error == -EXDEV || error > 0 ? 0 : (int)error;
}

/* True: a side of it is ours, and *ret is the answer. */
static bool two_sided(int from_dirfd, const char **from, int to_dirfd, const char **to,
                      struct hr_place *from_place, struct hr_place *to_place,
                      int (*refuse)(const struct hr_place *, const struct hr_place *), int *ret)
{
    bool from_ours = hr_door(from_dirfd, from, from_place);
    bool to_ours = hr_door(to_dirfd, to, to_place);
    if (!from_ours && !to_ours) {
        return false;
    }
    int error = from_ours ? 0 : find_foreign(from_dirfd, *from, refuse == hr_refuse_link);
    if (!error) {
        error = refuse(from_ours ? from_place : NULL, to_ours ? to_place : NULL);
    }
    if (error == -EXDEV && !to_ours) {
        int other = find_foreign(to_dirfd, *to, false);
        bool there = !other && refuse == hr_refuse_link && find_foreign(to_dirfd, *to, true) == 0;
        error = other ? other : there ? -EEXIST : error;
    }
    *ret = REFUSE(error);
    return true;
}

#define TWO_SIDED(from_dirfd, from, to_dirfd, to, refuse, ret)                                               \
    (HR_UNLIKELY(hr_active) &&                                                                               \
     two_sided(from_dirfd, &(from), to_dirfd, &(to), &from_place, &to_place, refuse, ret))

/* A call of two names that the kernel answered with ENOENT: is `from` there, and `to` was to lie in a way? */
static HR_NOINLINE bool two_made(int from_dirfd, const char *from, int flags, int to_dirfd, const char *to,
                                 bool renames)
{
    struct stat stat;
    if (errno != ENOENT || !to || !hr_way_may_hold(to_dirfd, to) ||
        HR_SYS4(SYS_newfstatat, from_dirfd, from, &stat,
                (flags & AT_SYMLINK_FOLLOW ? 0 : AT_SYMLINK_NOFOLLOW) | (flags & AT_EMPTY_PATH)) < 0) {
        return false;
    }
    return hr_way_made(to_dirfd, to, !renames ? -ENOENT : S_ISDIR(stat.st_mode) ? 0 : -ENOTDIR);
}

#define MAKE_TWO(from_dirfd, from, flags, to_dirfd, to, renames, call)                                       \
    MAKE_WHEN(call, hr_active &&two_made(from_dirfd, from, flags, to_dirfd, to, renames))

int rename(const char *from, const char *to)
{
    struct hr_place from_place, to_place;
    int result;
    return TWO_SIDED(AT_FDCWD, from, AT_FDCWD, to, hr_refuse_rename, &result)
               ? result
               : MAKE_TWO(AT_FDCWD, from, 0, AT_FDCWD, to, true, HR_REAL(rename)(from, to));
}

int renameat(int from_dirfd, const char *from, int to_dirfd, const char *to)
{
    struct hr_place from_place, to_place;
    int result;
    return TWO_SIDED(from_dirfd, from, to_dirfd, to, hr_refuse_rename, &result)
               ? result
               : MAKE_TWO(from_dirfd, from, 0, to_dirfd, to, true,
                          HR_REAL(renameat)(from_dirfd, from, to_dirfd, to));
}

int renameat2(int from_dirfd, const char *from, int to_dirfd, const char *to, unsigned flags)
{
    struct hr_place from_place, to_place;
    int result;
    return TWO_SIDED(from_dirfd, from, to_dirfd, to, hr_refuse_rename, &result) ? result
           : flags & RENAME_EXCHANGE
               ? HR_REAL(renameat2)(from_dirfd, from, to_dirfd, to, flags) /* nothing new */
               : MAKE_TWO(from_dirfd, from, 0, to_dirfd, to, true,
                          HR_REAL(renameat2)(from_dirfd, from, to_dirfd, to, flags));
}

int link(const char *from, const char *to)
{
    struct hr_place from_place, to_place;
    int result;
    return TWO_SIDED(AT_FDCWD, from, AT_FDCWD, to, hr_refuse_link, &result)
               ? result
               : MAKE_TWO(AT_FDCWD, from, 0, AT_FDCWD, to, false, HR_REAL(link)(from, to));
}

int linkat(int from_dirfd, const char *from, int to_dirfd, const char *to, int flags)
{
    struct hr_place from_place, to_place;
    int result;
    if (from && hr_door_means_fd(from, flags) && hr_door_fd(from_dirfd)) {
        return REFUSE(-EXDEV);
    }
    return TWO_SIDED(from_dirfd, from, to_dirfd, to, hr_refuse_link, &result)
               ? result
               : MAKE_TWO(from_dirfd, from, flags, to_dirfd, to, false,
                          HR_REAL(linkat)(from_dirfd, from, to_dirfd, to, flags));
}

/* ---- change by path ---- */

int truncate(const char *path, off_t length)
{
    struct hr_place place;
    if (length >= 0 && hr_door_names_file(path)) {
        return REFUSE(-EROFS);
    }
    return hr_door_target(AT_FDCWD, &path, &place) ? REFUSE(hr_refuse_truncate(&place, length))
                                                   : HR_REAL(truncate)(path, length);
}

int truncate64(const char *path, off64_t length)
{
    struct hr_place place;
    if (length >= 0 && hr_door_names_file(path)) {
        return REFUSE(-EROFS);
    }
    return hr_door_target(AT_FDCWD, &path, &place) ? REFUSE(hr_refuse_truncate(&place, length))
                                                   : HR_REAL(truncate64)(path, length);
}

int chmod(const char *path, mode_t mode)
{
    struct hr_place place;
    if (hr_door_names_file(path)) {
        return REFUSE(-EROFS);
    }
    return hr_door_target(AT_FDCWD, &path, &place) ? REFUSE(hr_refuse_existing(&place))
                                                   : HR_REAL(chmod)(path, mode);
}

int lchmod(const char *path, mode_t mode)
{
    struct hr_place place;
    return hr_door(AT_FDCWD, &path, &place) ? REFUSE(hr_refuse_existing(&place))
                                            : HR_REAL(lchmod)(path, mode);
}

int fchmodat(int dirfd, const char *path, mode_t mode, int flags)
{
    struct hr_place place;
    if ((hr_door_means_fd(path, flags) && hr_door_fd(dirfd)) ||
        (FOLLOWS(flags) && hr_door_names_file(path))) {
        return REFUSE(-EROFS);
    }
    return hr_door_as(dirfd, &path, FOLLOWS(flags), &place) ? REFUSE(hr_refuse_existing(&place))
                                                            : HR_REAL(fchmodat)(dirfd, path, mode, flags);
}

int chown(const char *path, uid_t owner, gid_t group)
{
    struct hr_place place;
    if (hr_door_names_file(path)) {
        return REFUSE(-EROFS);
    }
    return hr_door_target(AT_FDCWD, &path, &place) ? REFUSE(hr_refuse_existing(&place))
                                                   : HR_REAL(chown)(path, owner, group);
}

int lchown(const char *path, uid_t owner, gid_t group)
{
    struct hr_place place;
    return hr_door(AT_FDCWD, &path, &place) ? REFUSE(hr_refuse_existing(&place))
                                            : HR_REAL(lchown)(path, owner, group);
}

int fchownat(int dirfd, const char *path, uid_t owner, gid_t group, int flags)
{
    struct hr_place place;
    if ((hr_door_means_fd(path, flags) && hr_door_fd(dirfd)) ||
        (FOLLOWS(flags) && hr_door_names_file(path))) {
        return REFUSE(-EROFS);
    }
    return hr_door_as(dirfd, &path, FOLLOWS(flags), &place)
               ? REFUSE(hr_refuse_existing(&place))
               : HR_REAL(fchownat)(dirfd, path, owner, group, flags);
}

int utime(const char *path, const struct utimbuf *times)
{
    struct hr_place place;
    if (hr_door_names_file(path)) {
        return REFUSE(-EROFS);
    }
    return hr_door_target(AT_FDCWD, &path, &place) ? REFUSE(hr_refuse_existing(&place))
                                                   : HR_REAL(utime)(path, times);
}

int utimes(const char *path, const struct timeval times[2])
{
    struct hr_place place;
    if (hr_door_names_file(path)) {
        return REFUSE(-EROFS);
    }
    return hr_door_target(AT_FDCWD, &path, &place) ? REFUSE(hr_refuse_existing(&place))
                                                   : HR_REAL(utimes)(path, times);
}

int lutimes(const char *path, const struct timeval times[2])
{
    struct hr_place place;
    return hr_door(AT_FDCWD, &path, &place) ? REFUSE(hr_refuse_existing(&place))
                                            : HR_REAL(lutimes)(path, times);
}

int futimesat(int dirfd, const char *path, const struct timeval times[2])
{
    struct hr_place place;
    if ((hr_door_means_fd(path, 0) && hr_door_fd(dirfd)) || hr_door_names_file(path)) {
        return REFUSE(-EROFS);
    }
    return hr_door_target(dirfd, &path, &place) ? REFUSE(hr_refuse_existing(&place))
                                                : HR_REAL(futimesat)(dirfd, path, times);
}

static inline bool omits(const struct timespec times[2])
{
    return times && times[0].tv_nsec == UTIME_OMIT && times[1].tv_nsec == UTIME_OMIT;
}

/* Where nothing is to be set, the kernel does not look at the name. */
int utimensat(int dirfd, const char *path, const struct timespec times[2], int flags)
{
    struct hr_place place;
    if (omits(times)) {
        return HR_REAL(utimensat)(dirfd, path, times, flags);
    }
    if ((hr_door_means_fd(path, flags) && hr_door_fd(dirfd)) ||
        (FOLLOWS(flags) && hr_door_names_file(path))) {
        return REFUSE(-EROFS);
    }
    return hr_door_as(dirfd, &path, FOLLOWS(flags), &place) ? REFUSE(hr_refuse_existing(&place))
                                                            : HR_REAL(utimensat)(dirfd, path, times, flags);
}

/* ---- change by descriptor ---- */

int fchmod(int fd, mode_t mode)
{
    return hr_door_fd(fd) ? REFUSE(-EROFS) : HR_REAL(fchmod)(fd, mode);
}

int fchown(int fd, uid_t owner, gid_t group)
{
    return hr_door_fd(fd) ? REFUSE(-EROFS) : HR_REAL(fchown)(fd, owner, group);
}

int futimens(int fd, const struct timespec times[2])
{
    return !omits(times) && hr_door_fd(fd) ? REFUSE(-EROFS) : HR_REAL(futimens)(fd, times);
}

int futimes(int fd, const struct timeval times[2])
{
    return hr_door_fd(fd) ? REFUSE(-EROFS) : HR_REAL(futimes)(fd, times);
}
