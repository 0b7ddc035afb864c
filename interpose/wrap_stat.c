/* stat and its kin, by glibc's ABI since 2.33 and by the one before it: programs of today call both. */
#include <fcntl.h>
#include <sys/stat.h>

#include "interpose/door.h"
#include "interpose/face.h"
#include "interpose/identity.h"
#include "interpose/path.h"
#include "interpose/sys.h"
#include "interpose/view.h"
#include "interpose/view_warm.h"
#include "interpose/inner.h"

_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "one layout on 64-bit Linux");

/* "version" of the old entry points: 0 is the kernel's and 1 libc's on x86-64; 0 on aarch64. */
#define OLD_VERSION_MAX 1

#define NOT_OURS 1 /* beside 0 and negative errnos */

static int raw_stat(int dirfd, const char *path, struct stat *ret, int flags)
{
    return (int)hr_edge(HR_SYS4(SYS_newfstatat, dirfd, path, ret, flags));
}

static int raw_fstat(int fd, struct stat *ret)
{
    return (int)hr_edge(HR_SYS2(SYS_fstat, fd, ret));
}

/* The flags that the kernel knows; others are EINVAL as there. */
#define STAT_FLAGS (AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH | AT_STATX_SYNC_TYPE)

static inline int stat_place(const struct hr_place *place, struct stat *ret)
{
    struct hr_object object;
    int error = hr_view_find(place, &object);
    if (!error) {
        hr_view_stat(&object, ret);
    }
    return (int)hr_edge(error);
}

/* After the kernel's -1 with errno. */
static HR_NOINLINE int missed_slow(int dirfd, const char *path, struct stat *ret, int flags)
{
    struct hr_place place;
    return hr_door_missed(dirfd, path, !(flags & AT_SYMLINK_NOFOLLOW), &place) ? stat_place(&place, ret) : -1;
}

/* 0, -1 with errno, or NOT_OURS: the caller makes the real call with its own arguments. */
static HR_NOINLINE int stat_slow(int dirfd, const char *path, struct stat *ret, int flags)
{
    struct hr_place place;
    if (hr_path_find_as(dirfd, path, !(flags & AT_SYMLINK_NOFOLLOW), &place)) {
        return flags & ~STAT_FLAGS ? (int)hr_edge(-EINVAL) : stat_place(&place, ret);
    }
    const char *outside = hr_path_outside(dirfd, path, &place);
    if (outside == path) {
        return NOT_OURS;
    }
    return raw_stat(AT_FDCWD, outside, ret, flags) == 0 ? 0 : missed_slow(dirfd, path, ret, flags);
}

/* The path begins as a map's does, and the short way gave no answer but `warm`. */
static HR_NOINLINE int stat_near(int dirfd, const char *path, struct stat *ret, int flags, int warm)
{
    if (warm > HR_VIEW_LONG_WAY) {
        return (int)hr_edge(warm);
    }
    return warm == HR_VIEW_LONG_WAY || hr_path_led(path) ? stat_slow(dirfd, path, ret, flags) : NOT_OURS;
}

static inline int stat_ours(int dirfd, const char *path, void *ret, int flags)
{
    if (HR_LIKELY(!hr_active)) {
        return NOT_OURS;
    }
    if (HR_UNLIKELY(!path || path[0] != '/')) {
        return hr_path_maybe_looked(dirfd, path) ? stat_slow(dirfd, path, ret, flags) : NOT_OURS;
    }
    if (HR_UNLIKELY(hr_path_begins(path))) {
        int warm = flags & ~STAT_FLAGS ? HR_VIEW_LONG_WAY : hr_view_stat_warm(path, ret);
        return HR_LIKELY(warm == 0) ? 0 : stat_near(dirfd, path, ret, flags, warm);
    }
    return HR_UNLIKELY(hr_path_climbs(path)) ? stat_slow(dirfd, path, ret, flags) : NOT_OURS;
}

static inline bool is_cache_form(unsigned mode)
{
    unsigned what = mode & (S_IFMT | 07777);
    return what == (S_IFREG | HR_CACHE_FILE_MODE) || what == (S_IFREG | HR_FACE_FILE_MODE);
}

/* After the real call; a way through /proc may lead to a face or a cache file. */
static inline int missed(int dirfd, const char *path, void *ret, int flags, int result)
{
    if (HR_UNLIKELY(hr_active) && result == 0 && is_cache_form(((const struct stat *)ret)->st_mode)) {
        hr_identity_stat_path(ret);
    }
    if (HR_LIKELY(result == 0 || !hr_active) || errno != ENOENT) {
        return result;
    }
    return missed_slow(dirfd, path, ret, flags);
}

/* The working directory itself, by an empty path. */
static HR_NOINLINE int stat_here(struct stat *ret, int flags)
{
    struct hr_place place;
    return (flags & ~STAT_FLAGS) || !hr_path_of_fd(AT_FDCWD, &place) ? NOT_OURS : stat_place(&place, ret);
}

static bool means_fd(const char *path, int flags)
{
    return (flags & AT_EMPTY_PATH) && (!path || path[0] == '\0');
}

static inline int after_fstat(int fd, void *ret, int result)
{
    if (HR_UNLIKELY(hr_active) && result == 0 && hr_identity_maybe(((const struct stat *)ret)->st_mode)) {
        hr_identity_stat(fd, ret);
    }
    return result;
}

/* ---- since 2.33 ---- */

int stat(const char *path, struct stat *ret)
{
    int result = stat_ours(AT_FDCWD, path, ret, 0);
    if (HR_UNLIKELY(result != NOT_OURS)) {
        return result;
    }
    return missed(AT_FDCWD, path, ret, 0,
                  hr_real.stat ? hr_real.stat(path, ret) : raw_stat(AT_FDCWD, path, ret, 0));
}

int stat64(const char *path, struct stat64 *ret)
{
    int result = stat_ours(AT_FDCWD, path, ret, 0);
    if (HR_UNLIKELY(result != NOT_OURS)) {
        return result;
    }
    return missed(AT_FDCWD, path, ret, 0,
                  hr_real.stat64 ? hr_real.stat64(path, ret)
                                 : raw_stat(AT_FDCWD, path, (struct stat *)ret, 0));
}

int lstat(const char *path, struct stat *ret)
{
    int result = stat_ours(AT_FDCWD, path, ret, AT_SYMLINK_NOFOLLOW);
    if (HR_UNLIKELY(result != NOT_OURS)) {
        return result;
    }
    return missed(AT_FDCWD, path, ret, AT_SYMLINK_NOFOLLOW,
                  hr_real.lstat ? hr_real.lstat(path, ret)
                                : raw_stat(AT_FDCWD, path, ret, AT_SYMLINK_NOFOLLOW));
}

int lstat64(const char *path, struct stat64 *ret)
{
    int result = stat_ours(AT_FDCWD, path, ret, AT_SYMLINK_NOFOLLOW);
    if (HR_UNLIKELY(result != NOT_OURS)) {
        return result;
    }
    return missed(AT_FDCWD, path, ret, AT_SYMLINK_NOFOLLOW,
                  hr_real.lstat64 ? hr_real.lstat64(path, ret)
                                  : raw_stat(AT_FDCWD, path, (struct stat *)ret, AT_SYMLINK_NOFOLLOW));
}

int fstat(int fd, struct stat *ret)
{
    return after_fstat(fd, ret, hr_real.fstat ? hr_real.fstat(fd, ret) : raw_fstat(fd, ret));
}

int fstat64(int fd, struct stat64 *ret)
{
    return after_fstat(fd, ret,
                       hr_real.fstat64 ? hr_real.fstat64(fd, ret) : raw_fstat(fd, (struct stat *)ret));
}

/* The half of fstatat that is about us; NOT_OURS when the real call is to be made. */
static inline int fstatat_ours(int dirfd, const char *path, void *ret, int flags)
{
    if (HR_LIKELY(!hr_active)) {
        return NOT_OURS;
    }
    if (HR_UNLIKELY(means_fd(path, flags))) {
        return dirfd == AT_FDCWD ? stat_here(ret, flags) : NOT_OURS;
    }
    return stat_ours(dirfd, path, ret, flags);
}

int fstatat(int dirfd, const char *path, struct stat *ret, int flags)
{
    int result = fstatat_ours(dirfd, path, ret, flags);
    if (HR_UNLIKELY(result != NOT_OURS)) {
        return result;
    }
    result = hr_real.fstatat ? hr_real.fstatat(dirfd, path, ret, flags) : raw_stat(dirfd, path, ret, flags);
    return means_fd(path, flags) ? after_fstat(dirfd, ret, result) : missed(dirfd, path, ret, flags, result);
}

int fstatat64(int dirfd, const char *path, struct stat64 *ret, int flags)
{
    int result = fstatat_ours(dirfd, path, ret, flags);
    if (HR_UNLIKELY(result != NOT_OURS)) {
        return result;
    }
    result = hr_real.fstatat64 ? hr_real.fstatat64(dirfd, path, ret, flags)
                               : raw_stat(dirfd, path, (struct stat *)ret, flags);
    return means_fd(path, flags) ? after_fstat(dirfd, ret, result) : missed(dirfd, path, ret, flags, result);
}

/* ---- before 2.33 ---- */

static inline int old_ours(int version, int dirfd, const char *path, void *ret, int flags)
{
    return version < 0 || version > OLD_VERSION_MAX ? NOT_OURS : fstatat_ours(dirfd, path, ret, flags);
}

int __xstat(int version, const char *path, struct stat *ret)
{
    int result = old_ours(version, AT_FDCWD, path, ret, 0);
    if (HR_UNLIKELY(result != NOT_OURS)) {
        return result;
    }
    return missed(AT_FDCWD, path, ret, 0,
                  hr_real.__xstat ? hr_real.__xstat(version, path, ret) : raw_stat(AT_FDCWD, path, ret, 0));
}

int __xstat64(int version, const char *path, struct stat64 *ret)
{
    int result = old_ours(version, AT_FDCWD, path, ret, 0);
    if (HR_UNLIKELY(result != NOT_OURS)) {
        return result;
    }
    return missed(AT_FDCWD, path, ret, 0,
                  hr_real.__xstat64 ? hr_real.__xstat64(version, path, ret)
                                    : raw_stat(AT_FDCWD, path, (struct stat *)ret, 0));
}

int __lxstat(int version, const char *path, struct stat *ret)
{
    int result = old_ours(version, AT_FDCWD, path, ret, AT_SYMLINK_NOFOLLOW);
    if (HR_UNLIKELY(result != NOT_OURS)) {
        return result;
    }
    return missed(AT_FDCWD, path, ret, AT_SYMLINK_NOFOLLOW,
                  hr_real.__lxstat ? hr_real.__lxstat(version, path, ret)
                                   : raw_stat(AT_FDCWD, path, ret, AT_SYMLINK_NOFOLLOW));
}

int __lxstat64(int version, const char *path, struct stat64 *ret)
{
    int result = old_ours(version, AT_FDCWD, path, ret, AT_SYMLINK_NOFOLLOW);
    if (HR_UNLIKELY(result != NOT_OURS)) {
        return result;
    }
    return missed(AT_FDCWD, path, ret, AT_SYMLINK_NOFOLLOW,
                  hr_real.__lxstat64 ? hr_real.__lxstat64(version, path, ret)
                                     : raw_stat(AT_FDCWD, path, (struct stat *)ret, AT_SYMLINK_NOFOLLOW));
}

int __fxstat(int version, int fd, struct stat *ret)
{
    return after_fstat(fd, ret, hr_real.__fxstat ? hr_real.__fxstat(version, fd, ret) : raw_fstat(fd, ret));
}

int __fxstat64(int version, int fd, struct stat64 *ret)
{
    return after_fstat(fd, ret,
                       hr_real.__fxstat64 ? hr_real.__fxstat64(version, fd, ret)
                                          : raw_fstat(fd, (struct stat *)ret));
}

int __fxstatat(int version, int dirfd, const char *path, struct stat *ret, int flags)
{
    int result = old_ours(version, dirfd, path, ret, flags);
    if (HR_UNLIKELY(result != NOT_OURS)) {
        return result;
    }
    result = hr_real.__fxstatat ? hr_real.__fxstatat(version, dirfd, path, ret, flags)
                                : raw_stat(dirfd, path, ret, flags);
    return means_fd(path, flags) ? after_fstat(dirfd, ret, result) : missed(dirfd, path, ret, flags, result);
}

int __fxstatat64(int version, int dirfd, const char *path, struct stat64 *ret, int flags)
{
    int result = old_ours(version, dirfd, path, ret, flags);
    if (HR_UNLIKELY(result != NOT_OURS)) {
        return result;
    }
    result = hr_real.__fxstatat64 ? hr_real.__fxstatat64(version, dirfd, path, ret, flags)
                                  : raw_stat(dirfd, path, (struct stat *)ret, flags);
    return means_fd(path, flags) ? after_fstat(dirfd, ret, result) : missed(dirfd, path, ret, flags, result);
}

/* ---- statx ---- */

static int pass_statx(int dirfd, const char *path, int flags, unsigned mask, struct statx *ret)
{
    return hr_real.statx ? hr_real.statx(dirfd, path, flags, mask, ret)
                         : (int)hr_edge(HR_SYS5(SYS_statx, dirfd, path, flags, mask, ret));
}

/* Newer kernels give times only to those who ask for them, and a cache file is known by its own. */
static void complete(int dirfd, const char *path, int flags, unsigned mask, struct statx *ret)
{
    struct statx whole;
    unsigned mode = ret->stx_mode & 07777;
    if ((mask & STATX_BASIC_STATS) != STATX_BASIC_STATS && S_ISREG(ret->stx_mode) &&
        (mode == HR_CACHE_FILE_MODE || mode == HR_FACE_FILE_MODE) &&
        pass_statx(dirfd, path, flags, mask | STATX_BASIC_STATS, &whole) == 0) {
        *ret = whole;
    }
}

static bool statx_refused(int flags, unsigned mask)
{
    return (flags & ~STAT_FLAGS) || (flags & AT_STATX_SYNC_TYPE) == AT_STATX_SYNC_TYPE ||
           (mask & STATX__RESERVED);
}

static inline int statx_place(const struct hr_place *place, unsigned mask, struct statx *ret)
{
    struct hr_object object;
    int error = hr_view_find(place, &object);
    if (!error) {
        hr_view_statx(&object, mask, ret);
    }
    return (int)hr_edge(error);
}

static HR_NOINLINE int statx_slow(int dirfd, const char *path, int flags, unsigned mask, struct statx *ret)
{
    struct hr_place place;
    bool here = means_fd(path, flags);
    if (here ? hr_path_of_fd(dirfd, &place)
             : hr_path_find_as(dirfd, path, !(flags & AT_SYMLINK_NOFOLLOW), &place)) {
        return statx_refused(flags, mask) ? (int)hr_edge(-EINVAL) : statx_place(&place, mask, ret);
    }
    return pass_statx(dirfd, here ? path : hr_path_outside(dirfd, path, &place), flags, mask, ret);
}

static HR_NOINLINE int statx_missed(int dirfd, const char *path, int flags, unsigned mask, struct statx *ret)
{
    struct hr_place place;
    return hr_door_missed(dirfd, path, !(flags & AT_SYMLINK_NOFOLLOW), &place)
               ? statx_place(&place, mask, ret)
               : -1;
}

int statx(int dirfd, const char *path, int flags, unsigned mask, struct statx *ret)
{
    if (HR_LIKELY(!hr_active)) {
        return pass_statx(dirfd, path, flags, mask, ret);
    }
    if (means_fd(path, flags) && dirfd != AT_FDCWD) {
        int result = pass_statx(dirfd, path, flags, mask, ret);
        if (result == 0) {
            complete(dirfd, path, flags, mask, ret);
            hr_identity_statx(dirfd, mask, ret);
        }
        return result;
    }
    int result = means_fd(path, flags) || hr_path_maybe(dirfd, path)
                     ? statx_slow(dirfd, path, flags, mask, ret)
                     : pass_statx(dirfd, path, flags, mask, ret);
    if (result == 0 && is_cache_form(ret->stx_mode)) {
        complete(dirfd, path, flags, mask, ret);
        hr_identity_statx(-1, mask, ret);
    }
    return HR_LIKELY(result == 0) || errno != ENOENT ? result : statx_missed(dirfd, path, flags, mask, ret);
}
