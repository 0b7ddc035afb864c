/* Questions about a name that hand out no descriptor: access, readlink, realpath. */
#define HR_HEAP_BY_CONTRACT /* realpath(path, NULL) gives memory to its caller */
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include "interpose/door.h"
#include "interpose/face.h"
#include "interpose/origin.h"
#include "interpose/path.h"
#include "interpose/standin.h"
#include "interpose/sys.h"
#include "interpose/view.h"
#include "interpose/inner.h"

#define NOT_OURS 1 /* beside 0 and negative errnos */

/* ---- access ---- */

static int raw_access(int dirfd, const char *path, int mode, int flags)
{
    long result = HR_SYS4(SYS_faccessat2, dirfd, path, mode, flags);
    if (result == -ENOSYS) {
        result = HR_SYS3(SYS_faccessat, dirfd, path, mode);
    }
    return (int)hr_edge(result);
}

static int judge_access(const struct hr_place *place, int mode)
{
    struct hr_object object;
    if (mode & ~(R_OK | W_OK | X_OK)) {
        return -EINVAL;
    }
    int error = hr_view_find(place, &object);
    if (error) {
        return error;
    }
    if (mode & W_OK) {
        return -EROFS;
    }
    return (mode & X_OK) && object.kind != HR_KIND_DIR ? -EACCES : 0;
}

/* A way is made by what is put there, if that can be made. */
static HR_NOINLINE int access_way(struct hr_place *way, int mode, int flags)
{
    struct stat nearest;
    hr_way_nearest(way, &nearest);
    return raw_access(AT_FDCWD, way->path, mode, flags & AT_EACCESS);
}

/* After the kernel's -1 with errno. */
static HR_NOINLINE int missed_slow(int dirfd, const char *path, int mode, int flags)
{
    struct hr_place place;
    if (!hr_door_missed(dirfd, path, !(flags & AT_SYMLINK_NOFOLLOW), &place)) {
        return -1;
    }
    return place.map == HR_WAY ? access_way(&place, mode, flags) : (int)hr_edge(judge_access(&place, mode));
}

/* The flags that the kernel knows; others are EINVAL as there. */
#define ACCESS_FLAGS (AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)

static HR_NOINLINE int access_slow(int dirfd, const char *path, int mode, int flags)
{
    struct hr_place place;
    if (hr_path_find_as(dirfd, path, !(flags & AT_SYMLINK_NOFOLLOW), &place)) {
        return (int)hr_edge(flags & ~ACCESS_FLAGS ? -EINVAL : judge_access(&place, mode));
    }
    const char *outside = hr_path_outside(dirfd, path, &place);
    if (outside == path) {
        return NOT_OURS;
    }
    return raw_access(AT_FDCWD, outside, mode, flags) == 0 ? 0 : missed_slow(dirfd, path, mode, flags);
}

static int judge_file(int mode)
{
    return mode & ~(R_OK | W_OK | X_OK) ? -EINVAL : mode & W_OK ? -EROFS : mode & X_OK ? -EACCES : 0;
}

static inline int access_ours(int dirfd, const char *path, int mode, int flags)
{
    if (HR_UNLIKELY(hr_faces_any()) && hr_face_named(dirfd, path) >= 0) {
        return (int)hr_edge(judge_file(mode));
    }
    if (HR_LIKELY(!hr_active) || !hr_path_maybe(dirfd, path)) {
        return NOT_OURS;
    }
    return access_slow(dirfd, path, mode, flags);
}

/* Root may write a cache file, its owner not: that is the disk's affair. */
static HR_NOINLINE bool writes_ours(int dirfd, const char *path, int flags, int result)
{
    return (result == 0 || errno == EACCES) &&
           (hr_door_names_file(path) || (hr_door_means_fd(path, flags) && hr_door_fd(dirfd)));
}

static inline int missed(int dirfd, const char *path, int mode, int flags, int result)
{
    if (HR_UNLIKELY(mode & W_OK) && hr_active && writes_ours(dirfd, path, flags, result)) {
        return (int)hr_edge(-EROFS);
    }
    return HR_LIKELY(result == 0 || !hr_active) || errno != ENOENT ? result
                                                                   : missed_slow(dirfd, path, mode, flags);
}

int access(const char *path, int mode)
{
    int result = access_ours(AT_FDCWD, path, mode, 0);
    if (HR_UNLIKELY(result != NOT_OURS)) {
        return result;
    }
    return missed(AT_FDCWD, path, mode, 0,
                  hr_real.access ? hr_real.access(path, mode) : raw_access(AT_FDCWD, path, mode, 0));
}

int faccessat(int dirfd, const char *path, int mode, int flags)
{
    int result = access_ours(dirfd, path, mode, flags);
    if (HR_UNLIKELY(result != NOT_OURS)) {
        return result;
    }
    return missed(dirfd, path, mode, flags,
                  hr_real.faccessat ? hr_real.faccessat(dirfd, path, mode, flags)
                                    : raw_access(dirfd, path, mode, flags));
}

/* libc's own two clear what is no mode. */
#define MODES (R_OK | W_OK | X_OK)

int euidaccess(const char *path, int mode)
{
    int result = access_ours(AT_FDCWD, path, mode & MODES, AT_EACCESS);
    if (HR_UNLIKELY(result != NOT_OURS)) {
        return result;
    }
    return missed(AT_FDCWD, path, mode, 0,
                  hr_real.euidaccess ? hr_real.euidaccess(path, mode)
                                     : raw_access(AT_FDCWD, path, mode, AT_EACCESS));
}

int eaccess(const char *path, int mode)
{
    int result = access_ours(AT_FDCWD, path, mode & MODES, AT_EACCESS);
    if (HR_UNLIKELY(result != NOT_OURS)) {
        return result;
    }
    return missed(AT_FDCWD, path, mode, 0,
                  hr_real.eaccess ? hr_real.eaccess(path, mode)
                                  : raw_access(AT_FDCWD, path, mode, AT_EACCESS));
}

/* ---- readlink: a map holds no symlinks ---- */

/* Folders of the cache directory (abi.h). */
#define STANDINS "/dirs/"
#define OBJECTS "/objects/"

/* Is that, which a way through /proc or /dev was said to lead to, a stand-in directory or a cache file? *ret
 * is the mapped path. */
static bool leads_to(int dirfd, const char *path, const char *text, struct hr_place *ret)
{
    return hr_standin_place(text, ret) || (strstr(text, OBJECTS) && hr_origin_at(dirfd, path, ret));
}

/* What a way through /proc says of a stand-in directory ("/proc/self/cwd") or of an object's descriptor
 * ("/proc/self/fd/3") is the mapped path. */
static HR_NOINLINE ssize_t readlink_proc(int dirfd, const char *path, char *buffer, size_t size)
{
    struct hr_place place;
    char text[HR_PLACE_MAX];
    long len = HR_SYS4(SYS_readlinkat, dirfd, path, text, sizeof(text) - 1);
    if (len < 0 || (ssize_t)size <= 0) {
        return (ssize_t)hr_edge(len < 0 ? len : -EINVAL);
    }
    text[len] = '\0';
    bool mapped = leads_to(dirfd, path, text, &place);
    const char *answer = mapped ? place.path : text;
    size_t bytes = mapped ? place.len : (size_t)len;
    bytes = bytes < size ? bytes : size;
    memcpy(buffer, answer, bytes);
    return (ssize_t)bytes;
}

/* text is not terminated. */
static bool has_word(const char *text, size_t len, const char *word, size_t word_len)
{
    bool found = false;
    for (size_t at = 0; !found && at + word_len <= len; at++) {
        found = memcmp(text + at, word, word_len) == 0;
    }
    return found;
}

static HR_NOINLINE bool may_be_ours(const char *text, size_t len, size_t room)
{
    return len == room || has_word(text, len, STANDINS, sizeof(STANDINS) - 1) ||
           has_word(text, len, OBJECTS, sizeof(OBJECTS) - 1);
}

static inline bool is_proc(const char *path)
{
    return path && path[0] == '/' &&
           ((path[1] == 'p' && strncmp(path, "/proc/", sizeof("/proc/") - 1) == 0) ||
            (path[1] == 'd' && strncmp(path, "/dev/fd/", sizeof("/dev/fd/") - 1) == 0));
}

/* A number in an open or working directory of /proc, too; any other relative name is an ordinary symlink's.
 */
static HR_NOINLINE bool lies_in_proc(int dirfd, const char *path)
{
    struct statfs fs;
    if (path[0] == '/') {
        return is_proc(path);
    }
    long result = dirfd == AT_FDCWD ? HR_SYS2(SYS_statfs, ".", &fs) : HR_SYS2(SYS_fstatfs, dirfd, &fs);
    return result == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

static ssize_t no_symlink(const struct hr_place *place)
{
    struct hr_object object;
    int error = hr_view_find(place, &object);
    return (ssize_t)hr_edge(error ? error : -EINVAL);
}

/* After the kernel's -1 with errno. */
static HR_NOINLINE ssize_t readlink_missed(int dirfd, const char *path)
{
    struct hr_place place;
    return hr_door_missed(dirfd, path, false, &place) ? no_symlink(&place) : -1;
}

static HR_NOINLINE ssize_t readlink_slow(int dirfd, const char *path, char *buffer, size_t size)
{
    struct hr_place place;
    if ((int)size <= 0) {
        return (ssize_t)hr_edge(-EINVAL); /* before any look, and at an int, as the kernel */
    }
    if (hr_path_find(dirfd, path, &place)) {
        return no_symlink(&place);
    }
    if (is_proc(path)) {
        return readlink_proc(dirfd, path, buffer, size);
    }
    long len = HR_SYS4(SYS_readlinkat, dirfd, hr_path_outside(dirfd, path, &place), buffer, size);
    return hr_edge(len) < 0 ? readlink_missed(dirfd, path) : (ssize_t)len;
}

static inline bool look_here(int dirfd, const char *path)
{
    return HR_UNLIKELY(hr_active) && hr_path_maybe(dirfd, path);
}

/* The rest of the kernel's longer answer goes too: not all callers end the text by the length. */
static HR_NOINLINE ssize_t tell_again(int dirfd, const char *path, char *buffer, size_t size, ssize_t len)
{
    ssize_t mapped = readlink_proc(dirfd, path, buffer, size);
    if (mapped >= 0 && mapped < len) {
        memset(buffer + mapped, 0, (size_t)(len - mapped));
    }
    return mapped;
}

/* After the real call, which a program that touches no map makes alone: what is said of a stand-in directory
 * or a cache file, or was cut, is asked for once more. */
static inline ssize_t told(int dirfd, const char *path, char *buffer, size_t size, ssize_t len)
{
    if (HR_LIKELY(!hr_active)) {
        return len;
    }
    if (len < 0) {
        return errno == ENOENT ? readlink_missed(dirfd, path) : len;
    }
    return len > 0 && (path[0] != '/' || is_proc(path)) && may_be_ours(buffer, (size_t)len, size) &&
                   lies_in_proc(dirfd, path)
               ? tell_again(dirfd, path, buffer, size, len)
               : len;
}

ssize_t readlink(const char *path, char *buffer, size_t size)
{
    if (look_here(AT_FDCWD, path)) {
        return readlink_slow(AT_FDCWD, path, buffer, size);
    }
    return told(AT_FDCWD, path, buffer, size,
                hr_real.readlink ? hr_real.readlink(path, buffer, size)
                                 : (ssize_t)hr_edge(HR_SYS4(SYS_readlinkat, AT_FDCWD, path, buffer, size)));
}

ssize_t readlinkat(int dirfd, const char *path, char *buffer, size_t size)
{
    if (look_here(dirfd, path)) {
        return readlink_slow(dirfd, path, buffer, size);
    }
    return told(dirfd, path, buffer, size,
                hr_real.readlinkat ? hr_real.readlinkat(dirfd, path, buffer, size)
                                   : (ssize_t)hr_edge(HR_SYS4(SYS_readlinkat, dirfd, path, buffer, size)));
}

/* An overflow is the real one's to report. */
ssize_t __readlink_chk(const char *path, char *buffer, size_t size, size_t room)
{
    if (size <= room && (look_here(AT_FDCWD, path) || !HR_REAL(__readlink_chk))) {
        return readlink_slow(AT_FDCWD, path, buffer, size);
    }
    return told(AT_FDCWD, path, buffer, size, HR_REAL(__readlink_chk)(path, buffer, size, room));
}

ssize_t __readlinkat_chk(int dirfd, const char *path, char *buffer, size_t size, size_t room)
{
    if (size <= room && (look_here(dirfd, path) || !HR_REAL(__readlinkat_chk))) {
        return readlink_slow(dirfd, path, buffer, size);
    }
    return told(dirfd, path, buffer, size, HR_REAL(__readlinkat_chk)(dirfd, path, buffer, size, room));
}

/* ---- realpath ---- */

static char *answer_realpath(const struct hr_place *place, char *resolved)
{
    struct hr_object object;
    int error = hr_view_find(place, &object);
    if (error) {
        hr_edge(error);
        return NULL;
    }
    size_t bytes = (size_t)place->len + 1;
    char *out = resolved ? resolved : malloc(bytes);
    return out ? memcpy(out, place->path, bytes) : NULL;
}

static char *replaced(char *text, const struct hr_place *place)
{
    free(text);
    return strdup(place->path);
}

static HR_NOINLINE char *realpath_slow(const char *path, char *resolved)
{
    struct hr_place place;
    if (hr_path_find_as(AT_FDCWD, path, true, &place)) {
        return answer_realpath(&place, resolved);
    }
    char *result = HR_REAL(realpath)(hr_path_outside(AT_FDCWD, path, &place), resolved);
    if (result &&
        (is_proc(path) ? leads_to(AT_FDCWD, path, result, &place) : hr_standin_place(result, &place))) {
        return resolved ? memcpy(resolved, place.path, (size_t)place.len + 1) : replaced(result, &place);
    }
    return !result && hr_door_missed(AT_FDCWD, path, true, &place) ? answer_realpath(&place, resolved)
                                                                   : result;
}

static inline bool real_is_ours(const char *path)
{
    return look_here(AT_FDCWD, path) ||
           (HR_UNLIKELY(hr_active) && (hr_alias_follows || is_proc(path) || hr_path_above_maybe(path)));
}

char *realpath(const char *path, char *resolved)
{
    return real_is_ours(path) ? realpath_slow(path, resolved) : HR_REAL(realpath)(path, resolved);
}

char *__realpath_chk(const char *path, char *resolved, size_t room)
{
    if (room >= PATH_MAX && real_is_ours(path)) {
        return realpath_slow(path, resolved);
    }
    return HR_REAL(__realpath_chk)(path, resolved, room);
}

char *canonicalize_file_name(const char *path)
{
    return real_is_ours(path) ? realpath_slow(path, NULL) : HR_REAL(canonicalize_file_name)(path);
}
