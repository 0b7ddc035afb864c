/* What would change a map: refused as a read-only file system refuses it. What is missing is told first
 * (ENOENT, ENOTDIR, EEXIST), then EROFS. Every function answers at once; nothing is ever changed. */
#include <fcntl.h>

#include "interpose/context.h"
#include "interpose/door.h"
#include "interpose/view.h"
#include "interpose/inner.h"

/* ---- what a read-only file system says
 * --------------------------------------------------------------------------- */

static bool is_root(const struct hr_place *place)
{
    return place->path[place->rel] == '\0';
}

/* chmod, chown, utimes: something that has to be there. */
static int refuse_existing(const struct hr_place *place)
{
    struct hr_object object;
    int error = hr_view_find(place, &object);
    return error < 0 ? error : -EROFS;
}

static int find_parent(const struct hr_place *place)
{
    struct hr_place parent = *place;
    struct hr_object object;
    uint32_t root_len = hr_maps.map[place->map].path_len;
    while (parent.len > root_len && parent.path[parent.len - 1] != '/') {
        parent.len--;
    }
    parent.len -= parent.len > root_len;
    parent.path[parent.len] = '\0';
    parent.rel = parent.len > root_len ? parent.rel : parent.len;
    parent.must_be_dir = true;
    return hr_view_find(&parent, &object);
}

/* mkdir, symlink, mkstemp: something new. Linux names EEXIST before EROFS. */
static int refuse_new(const struct hr_place *place)
{
    struct hr_object object;
    if (is_root(place)) {
        return -EEXIST;
    }
    int error = find_parent(place);
    if (error < 0) {
        return error;
    }
    error = hr_view_find(place, &object);
    return error == 0 ? -EEXIST : error == -ENOENT || error == -ENOTDIR ? -EROFS : error;
}

/* A map's root is a mount point. */
static int refuse_removal(const struct hr_place *place)
{
    int error = refuse_existing(place);
    return error == -EROFS && is_root(place) ? -EBUSY : error;
}

/* Either side may be outside (NULL). Linux compares the mounts before it looks at the names, not before their
 * parents. */
static int refuse_rename(const struct hr_place *from, const struct hr_place *to)
{
    int error = from && !is_root(from) ? find_parent(from) : 0;
    if (error == 0 && to && !is_root(to)) {
        error = find_parent(to);
    }
    if (error < 0) {
        return error;
    }
    if (!from || !to || from->map != to->map) {
        return -EXDEV;
    }
    return is_root(from) || is_root(to) ? -EBUSY : refuse_existing(from);
}

static int refuse_link(const struct hr_place *from, const struct hr_place *to)
{
    struct hr_object object;
    int error = from ? hr_view_find(from, &object) : 0;
    if (error < 0) {
        return error;
    }
    if (!to) {
        return -EXDEV;
    }
    return refuse_new(to);
}

static int refuse_truncate(const struct hr_place *place, int64_t length)
{
    struct hr_object object;
    if (length < 0) {
        return -EINVAL;
    }
    int error = hr_view_find(place, &object);
    return error < 0 ? error : object.kind == HR_KIND_DIR ? -EISDIR : -EROFS;
}

#define REFUSE(answer) (int)hr_edge(answer)
#define FOLLOWS(flags) (!((flags)&AT_SYMLINK_NOFOLLOW))

/* ---- remove
 * ------------------------------------------------------------------------------------------------------ */

int unlink(const char *path)
{
    struct hr_place place;
    return hr_door(AT_FDCWD, &path, &place) ? REFUSE(refuse_removal(&place)) : HR_REAL(unlink)(path);
}

int unlinkat(int dirfd, const char *path, int flags)
{
    struct hr_place place;
    return hr_door(dirfd, &path, &place) ? REFUSE(refuse_removal(&place))
                                         : HR_REAL(unlinkat)(dirfd, path, flags);
}

int remove(const char *path)
{
    struct hr_place place;
    return hr_door(AT_FDCWD, &path, &place) ? REFUSE(refuse_removal(&place)) : HR_REAL(remove)(path);
}

int rmdir(const char *path)
{
    struct hr_place place;
    return hr_door(AT_FDCWD, &path, &place) ? REFUSE(refuse_removal(&place)) : HR_REAL(rmdir)(path);
}

/* ---- create
 * ------------------------------------------------------------------------------------------------------ */

int mkdir(const char *path, mode_t mode)
{
    struct hr_place place;
    return hr_door(AT_FDCWD, &path, &place) ? REFUSE(refuse_new(&place)) : HR_REAL(mkdir)(path, mode);
}

int mkdirat(int dirfd, const char *path, mode_t mode)
{
    struct hr_place place;
    return hr_door(dirfd, &path, &place) ? REFUSE(refuse_new(&place)) : HR_REAL(mkdirat)(dirfd, path, mode);
}

int symlink(const char *target, const char *path)
{
    struct hr_place place;
    return hr_door(AT_FDCWD, &path, &place) ? REFUSE(refuse_new(&place)) : HR_REAL(symlink)(target, path);
}

int symlinkat(const char *target, int dirfd, const char *path)
{
    struct hr_place place;
    return hr_door(dirfd, &path, &place) ? REFUSE(refuse_new(&place))
                                         : HR_REAL(symlinkat)(target, dirfd, path);
}

/* Older libcs have mknod and mknodat only under another name. */
int mknodat(int dirfd, const char *path, mode_t mode, dev_t device)
{
    struct hr_place place;
    if (hr_door(dirfd, &path, &place)) {
        return REFUSE(refuse_new(&place));
    }
    return HR_REAL(mknodat) ? HR_REAL(mknodat)(dirfd, path, mode, device)
                            : (int)hr_edge(hr_sys(SYS_mknodat, dirfd, (long)path, mode, (long)device, 0, 0));
}

int mknod(const char *path, mode_t mode, dev_t device)
{
    struct hr_place place;
    if (hr_door(AT_FDCWD, &path, &place)) {
        return REFUSE(refuse_new(&place));
    }
    return HR_REAL(mknod) ? HR_REAL(mknod)(path, mode, device)
                          : (int)hr_edge(hr_sys(SYS_mknodat, AT_FDCWD, (long)path, mode, (long)device, 0, 0));
}

/* What those other names are: in programs that were linked against a libc before 2.33. */
int __xmknod(int version, const char *path, mode_t mode, dev_t *device)
{
    struct hr_place place;
    return hr_door(AT_FDCWD, &path, &place) ? REFUSE(refuse_new(&place))
                                            : HR_REAL(__xmknod)(version, path, mode, device);
}

int __xmknodat(int version, int dirfd, const char *path, mode_t mode, dev_t *device)
{
    struct hr_place place;
    return hr_door(dirfd, &path, &place) ? REFUSE(refuse_new(&place))
                                         : HR_REAL(__xmknodat)(version, dirfd, path, mode, device);
}

int mkfifo(const char *path, mode_t mode)
{
    struct hr_place place;
    return hr_door(AT_FDCWD, &path, &place) ? REFUSE(refuse_new(&place)) : HR_REAL(mkfifo)(path, mode);
}

int mkfifoat(int dirfd, const char *path, mode_t mode)
{
    struct hr_place place;
    return hr_door(dirfd, &path, &place) ? REFUSE(refuse_new(&place)) : HR_REAL(mkfifoat)(dirfd, path, mode);
}

/* ---- rename, link
 * ------------------------------------------------------------------------------------------------ */

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
    *ret = REFUSE(refuse(from_ours ? from_place : NULL, to_ours ? to_place : NULL));
    return true;
}

#define TWO_SIDED(from_dirfd, from, to_dirfd, to, refuse, ret)                                               \
    (HR_UNLIKELY(hr_active) &&                                                                               \
     two_sided(from_dirfd, &(from), to_dirfd, &(to), &from_place, &to_place, refuse, ret))

int rename(const char *from, const char *to)
{
    struct hr_place from_place, to_place;
    int result;
    return TWO_SIDED(AT_FDCWD, from, AT_FDCWD, to, refuse_rename, &result) ? result
                                                                           : HR_REAL(rename)(from, to);
}

int renameat(int from_dirfd, const char *from, int to_dirfd, const char *to)
{
    struct hr_place from_place, to_place;
    int result;
    return TWO_SIDED(from_dirfd, from, to_dirfd, to, refuse_rename, &result)
               ? result
               : HR_REAL(renameat)(from_dirfd, from, to_dirfd, to);
}

int renameat2(int from_dirfd, const char *from, int to_dirfd, const char *to, unsigned flags)
{
    struct hr_place from_place, to_place;
    int result;
    return TWO_SIDED(from_dirfd, from, to_dirfd, to, refuse_rename, &result)
               ? result
               : HR_REAL(renameat2)(from_dirfd, from, to_dirfd, to, flags);
}

int link(const char *from, const char *to)
{
    struct hr_place from_place, to_place;
    int result;
    return TWO_SIDED(AT_FDCWD, from, AT_FDCWD, to, refuse_link, &result) ? result : HR_REAL(link)(from, to);
}

int linkat(int from_dirfd, const char *from, int to_dirfd, const char *to, int flags)
{
    struct hr_place from_place, to_place;
    int result;
    if (hr_door_means_fd(from, flags) && hr_door_fd(from_dirfd)) {
        return REFUSE(-EXDEV);
    }
    return TWO_SIDED(from_dirfd, from, to_dirfd, to, refuse_link, &result)
               ? result
               : HR_REAL(linkat)(from_dirfd, from, to_dirfd, to, flags);
}

/* ---- change by path
 * ---------------------------------------------------------------------------------------------- */

int truncate(const char *path, off_t length)
{
    struct hr_place place;
    return hr_door_target(AT_FDCWD, &path, &place) ? REFUSE(refuse_truncate(&place, length))
                                                   : HR_REAL(truncate)(path, length);
}

int truncate64(const char *path, off64_t length)
{
    struct hr_place place;
    return hr_door_target(AT_FDCWD, &path, &place) ? REFUSE(refuse_truncate(&place, length))
                                                   : HR_REAL(truncate64)(path, length);
}

int chmod(const char *path, mode_t mode)
{
    struct hr_place place;
    return hr_door_target(AT_FDCWD, &path, &place) ? REFUSE(refuse_existing(&place))
                                                   : HR_REAL(chmod)(path, mode);
}

int lchmod(const char *path, mode_t mode)
{
    struct hr_place place;
    return hr_door(AT_FDCWD, &path, &place) ? REFUSE(refuse_existing(&place)) : HR_REAL(lchmod)(path, mode);
}

int fchmodat(int dirfd, const char *path, mode_t mode, int flags)
{
    struct hr_place place;
    if (hr_door_means_fd(path, flags) && hr_door_fd(dirfd)) {
        return REFUSE(-EROFS);
    }
    return hr_door_as(dirfd, &path, FOLLOWS(flags), &place) ? REFUSE(refuse_existing(&place))
                                                            : HR_REAL(fchmodat)(dirfd, path, mode, flags);
}

int chown(const char *path, uid_t owner, gid_t group)
{
    struct hr_place place;
    return hr_door_target(AT_FDCWD, &path, &place) ? REFUSE(refuse_existing(&place))
                                                   : HR_REAL(chown)(path, owner, group);
}

int lchown(const char *path, uid_t owner, gid_t group)
{
    struct hr_place place;
    return hr_door(AT_FDCWD, &path, &place) ? REFUSE(refuse_existing(&place))
                                            : HR_REAL(lchown)(path, owner, group);
}

int fchownat(int dirfd, const char *path, uid_t owner, gid_t group, int flags)
{
    struct hr_place place;
    if (hr_door_means_fd(path, flags) && hr_door_fd(dirfd)) {
        return REFUSE(-EROFS);
    }
    return hr_door_as(dirfd, &path, FOLLOWS(flags), &place)
               ? REFUSE(refuse_existing(&place))
               : HR_REAL(fchownat)(dirfd, path, owner, group, flags);
}

int utime(const char *path, const struct utimbuf *times)
{
    struct hr_place place;
    return hr_door_target(AT_FDCWD, &path, &place) ? REFUSE(refuse_existing(&place))
                                                   : HR_REAL(utime)(path, times);
}

int utimes(const char *path, const struct timeval times[2])
{
    struct hr_place place;
    return hr_door_target(AT_FDCWD, &path, &place) ? REFUSE(refuse_existing(&place))
                                                   : HR_REAL(utimes)(path, times);
}

int lutimes(const char *path, const struct timeval times[2])
{
    struct hr_place place;
    return hr_door(AT_FDCWD, &path, &place) ? REFUSE(refuse_existing(&place)) : HR_REAL(lutimes)(path, times);
}

int futimesat(int dirfd, const char *path, const struct timeval times[2])
{
    struct hr_place place;
    if (hr_door_means_fd(path, 0) && hr_door_fd(dirfd)) {
        return REFUSE(-EROFS);
    }
    return hr_door_target(dirfd, &path, &place) ? REFUSE(refuse_existing(&place))
                                                : HR_REAL(futimesat)(dirfd, path, times);
}

int utimensat(int dirfd, const char *path, const struct timespec times[2], int flags)
{
    struct hr_place place;
    if (hr_door_means_fd(path, flags) && hr_door_fd(dirfd)) {
        return REFUSE(-EROFS);
    }
    return hr_door_as(dirfd, &path, FOLLOWS(flags), &place) ? REFUSE(refuse_existing(&place))
                                                            : HR_REAL(utimensat)(dirfd, path, times, flags);
}

/* ---- change by descriptor
 * ---------------------------------------------------------------------------------------- */

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
    return hr_door_fd(fd) ? REFUSE(-EROFS) : HR_REAL(futimens)(fd, times);
}

int futimes(int fd, const struct timeval times[2])
{
    return hr_door_fd(fd) ? REFUSE(-EROFS) : HR_REAL(futimes)(fd, times);
}

/* ---- temporary files
 * --------------------------------------------------------------------------------------------- */

#define RANDOM_LETTERS 6  /* "XXXXXX" */
#define AS_DIRECTORY (-1) /* instead of open flags: mkdtemp */

/* A relative template that leads out of a map: made at its absolute path, the letters copied back. */
static int temporary_outside(char *template, size_t tail, int suffix_len, int flags, char *path)
{
    int result;
    if (flags == AS_DIRECTORY) {
        result = HR_REAL(mkdtemp)(path) ? 0 : -1;
    } else {
        result = HR_REAL(mkostemps)(path, suffix_len, flags);
    }
    if (result >= 0) {
        memcpy(template + strlen(template) - tail, path + strlen(path) - tail, tail);
    }
    return result;
}

/* True: *ret is the answer. A template that libc would reject is left to libc. */
static bool temporary(char *template, int suffix_len, int flags, int *ret)
{
    struct hr_place place;
    const char *path = template;
    if (HR_LIKELY(!hr_active) || suffix_len < 0) {
        return false;
    }
    size_t len = strlen(template), tail = RANDOM_LETTERS + (size_t)suffix_len;
    if (len < tail || memcmp(template + len - tail, "XXXXXX", RANDOM_LETTERS) != 0) {
        return false;
    }
    if (hr_door(AT_FDCWD, &path, &place)) {
        int error = find_parent(&place);
        *ret = REFUSE(error < 0 ? error : -EROFS);
        return true;
    }
    if (path != place.path) {
        return false;
    }
    *ret = temporary_outside(template, tail, suffix_len, flags, place.path);
    return true;
}

int mkstemp(char *template)
{
    int result;
    return temporary(template, 0, 0, &result) ? result : HR_REAL(mkstemp)(template);
}

int mkstemp64(char *template)
{
    int result;
    return temporary(template, 0, 0, &result) ? result : HR_REAL(mkstemp64)(template);
}

int mkostemp(char *template, int flags)
{
    int result;
    return temporary(template, 0, flags, &result) ? result : HR_REAL(mkostemp)(template, flags);
}

int mkostemp64(char *template, int flags)
{
    int result;
    return temporary(template, 0, flags, &result) ? result : HR_REAL(mkostemp64)(template, flags);
}

int mkstemps(char *template, int suffix_len)
{
    int result;
    return temporary(template, suffix_len, 0, &result) ? result : HR_REAL(mkstemps)(template, suffix_len);
}

int mkstemps64(char *template, int suffix_len)
{
    int result;
    return temporary(template, suffix_len, 0, &result) ? result : HR_REAL(mkstemps64)(template, suffix_len);
}

int mkostemps(char *template, int suffix_len, int flags)
{
    int result;
    return temporary(template, suffix_len, flags, &result) ? result
                                                           : HR_REAL(mkostemps)(template, suffix_len, flags);
}

int mkostemps64(char *template, int suffix_len, int flags)
{
    int result;
    return temporary(template, suffix_len, flags, &result)
               ? result
               : HR_REAL(mkostemps64)(template, suffix_len, flags);
}

char *mkdtemp(char *template)
{
    int result;
    if (!temporary(template, 0, AS_DIRECTORY, &result)) {
        return HR_REAL(mkdtemp)(template);
    }
    return result < 0 ? NULL : template;
}
