/* open and its kin: is it ours? The stack frame of a place exists only in the slow half. A path through /proc
 * or /dev to a descriptor of a large object opens that object again. */
#include <fcntl.h>
#include <stdarg.h>

#include "interpose/door.h"
#include "interpose/face.h"
#include "interpose/path.h"
#include "interpose/standin.h"
#include "interpose/sys.h"
#include "interpose/view.h"
#include "interpose/view_warm.h"
#include "interpose/inner.h"

typedef int (*open_fn)(const char *path, int flags, ...);
typedef int (*openat_fn)(int dirfd, const char *path, int flags, ...);

#define NEEDS_MODE(flags) (((flags)&O_CREAT) || ((flags)&O_TMPFILE) == O_TMPFILE)

/* The optional argument, as libc reads it. */
#define MODE_OF(flags, mode)                                                                                 \
    do {                                                                                                     \
        if (NEEDS_MODE(flags)) {                                                                             \
            va_list arguments;                                                                               \
            va_start(arguments, flags);                                                                      \
            (mode) = va_arg(arguments, mode_t);                                                              \
            va_end(arguments);                                                                               \
        }                                                                                                    \
    } while (0)

/* What the real call is: one of two shapes, or the system call while nothing is resolved. */
struct real_open {
    open_fn plain;
    openat_fn at;
};

static inline __attribute__((always_inline)) int real_one(struct real_open real, int dirfd, const char *path,
                                                          int flags, mode_t mode)
{
    if (real.plain && dirfd == AT_FDCWD) {
        return real.plain(path, flags, mode);
    }
    if (real.at) {
        return real.at(dirfd, path, flags, mode);
    }
    return (int)hr_edge(HR_SYS4(SYS_openat, dirfd, path, flags, mode));
}

static HR_NOINLINE int make(struct real_open real, int dirfd, const char *path, int flags, mode_t mode)
{
    int before = errno;
    int fd = real_one(real, dirfd, path, flags, mode);
    return fd < 0 && hr_way_made(dirfd, path, -EISDIR)
               ? hr_way_again(before, real_one(real, dirfd, path, flags, mode))
               : fd;
}

static inline __attribute__((always_inline)) int pass(struct real_open real, int dirfd, const char *path,
                                                      int flags, mode_t mode)
{
    return HR_UNLIKELY(flags & O_CREAT) ? make(real, dirfd, path, flags, mode)
                                        : real_one(real, dirfd, path, flags, mode);
}

/* As the kernel says before it looks at any name. */
static bool is_senseless(int flags)
{
    bool temporary = flags & O_TMPFILE & ~O_DIRECTORY;
    if (flags & O_PATH) {
        return false;
    }
    return temporary ? (flags & (O_TMPFILE | O_CREAT)) != O_TMPFILE || (flags & O_ACCMODE) == O_RDONLY
                     : (flags & O_CREAT) && (flags & O_DIRECTORY); /* since Linux 6.3; before, undefined */
}

static HR_NOINLINE bool open_named_face(int dirfd, const char *path, int flags, int *ret)
{
    int face = flags & O_NOFOLLOW ? -1 : hr_face_named(dirfd, path);
    int other = face < 0 && path && !(flags & O_NOFOLLOW) && hr_active ? hr_face_named_elsewhere(path) : -1;
    if (face >= 0 || other >= 0) {
        *ret = (int)hr_edge(is_senseless(flags) ? -EINVAL : hr_face_reopen(face >= 0 ? face : other, flags));
    }
    hr_face_named_end(other);
    return face >= 0 || other >= 0;
}

static inline bool writes(int flags)
{
    return ((flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC)) && !(flags & O_PATH);
}

static inline bool may_name_descriptor(const char *path, int flags)
{
    return path && hr_path_may_be_proc(path) && (path[1] == 'p' || writes(flags));
}

static inline bool follows(int flags)
{
    return !(flags & O_NOFOLLOW) && (flags & (O_CREAT | O_EXCL)) != (O_CREAT | O_EXCL);
}

static int open_place(const struct hr_place *place, int flags, mode_t mode)
{
    if (HR_UNLIKELY(is_senseless(flags))) {
        return (int)hr_edge(-EINVAL);
    }
    int mapped = hr_view_open(place, flags, mode);
    return (int)hr_edge(hr_face_is_stream(mapped) ? hr_face_not_as_stream(mapped) : mapped);
}

/* A file without a name in a way: the directory is made first. */
static HR_NOINLINE int open_temporary(struct real_open real, struct hr_place *way, int flags, mode_t mode)
{
    int made = hr_way_make_itself(way);
    return made < 0 ? (int)hr_edge(made) : real_one(real, AT_FDCWD, way->path, flags, mode);
}

static HR_NOINLINE int open_slow(struct real_open real, int dirfd, const char *path, int flags, mode_t mode)
{
    struct hr_place place;
    int result;
    if (hr_path_find_as(dirfd, path, follows(flags), &place)) {
        return open_place(&place, flags, mode);
    }
    if (hr_faces_any() && open_named_face(dirfd, path, flags, &result)) {
        return result;
    }
    bool way = hr_path_is_way_to_any(dirfd, path, &place);
    /* The kernel would make a file there. */
    if ((flags & O_CREAT) &&
        ((way && hr_way_at(&place)) || (!way && hr_alias_way(&place) && hr_way_at(&place)) ||
         hr_alias_ahead(dirfd, path, follows(flags), &place))) {
        return open_place(&place, flags, mode);
    }
    int fd = pass(real, dirfd, hr_path_outside(dirfd, path, &place), flags, mode);
    if (fd < 0 && hr_door_missed(dirfd, path, follows(flags), &place)) {
        bool makes = place.map == HR_WAY && (flags & O_TMPFILE) == O_TMPFILE && !is_senseless(flags);
        return makes ? open_temporary(real, &place, flags, mode) : open_place(&place, flags, mode);
    }
    if (way && fd >= 0) {
        hr_standin_mark_above(fd);
    }
    return fd;
}

/* No map's as far as its text tells, but it may name a face, or lead into a map by symlinks. */
static HR_NOINLINE int open_odd(struct real_open real, int dirfd, const char *path, int flags, mode_t mode)
{
    int result;
    if ((hr_faces_any() || may_name_descriptor(path, flags)) &&
        open_named_face(dirfd, path, flags, &result)) {
        return result;
    }
    if (writes(flags) && follows(flags) && !is_senseless(flags) && hr_door_names_file(path)) {
        return (int)hr_edge(flags & O_DIRECTORY ? -ENOTDIR : -EROFS);
    }
    return hr_alias_follows && path ? open_slow(real, dirfd, path, flags, mode)
                                    : pass(real, dirfd, path, flags, mode);
}

static inline __attribute__((always_inline)) int open_elsewhere(struct real_open real, int dirfd,
                                                                const char *path, int flags, mode_t mode)
{
    if (HR_UNLIKELY(hr_faces_any()) || HR_UNLIKELY(hr_alias_follows) ||
        (HR_UNLIKELY(hr_active) && may_name_descriptor(path, flags))) {
        return open_odd(real, dirfd, path, flags, mode);
    }
    return pass(real, dirfd, path, flags, mode);
}

/* The path begins as a map's does, and the short way gave no descriptor but `warm`. */
static HR_NOINLINE int open_near(struct real_open real, int dirfd, const char *path, int flags, mode_t mode,
                                 int warm)
{
    if (warm > HR_VIEW_LONG_WAY) {
        return (int)hr_edge(warm);
    }
    return warm == HR_VIEW_LONG_WAY || hr_path_led(path) || hr_path_above_looked(path)
               ? open_slow(real, dirfd, path, flags, mode)
               : open_elsewhere(real, dirfd, path, flags, mode);
}

/* Every open runs through this: no call more than the real one. */
static inline __attribute__((always_inline)) int open_any(struct real_open real, int dirfd, const char *path,
                                                          int flags, mode_t mode)
{
    if (HR_UNLIKELY(hr_active) && path) {
        if (HR_UNLIKELY(hr_path_begins(path))) {
            int fd = hr_view_open_warm(path, flags);
            return HR_LIKELY(fd >= 0) ? fd : open_near(real, dirfd, path, flags, mode, fd);
        }
        if (hr_path_maybe(dirfd, path)) {
            return open_slow(real, dirfd, path, flags, mode);
        }
    }
    return open_elsewhere(real, dirfd, path, flags, mode);
}

#define PLAIN(name) ((struct real_open){.plain = hr_real.name})
#define AT(name) ((struct real_open){.at = hr_real.name})

int open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    MODE_OF(flags, mode);
    return open_any(PLAIN(open), AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    mode_t mode = 0;
    MODE_OF(flags, mode);
    return open_any(PLAIN(open64), AT_FDCWD, path, flags, mode);
}

int __open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    MODE_OF(flags, mode);
    return open_any(PLAIN(__open), AT_FDCWD, path, flags, mode);
}

int __open64(const char *path, int flags, ...)
{
    mode_t mode = 0;
    MODE_OF(flags, mode);
    return open_any(PLAIN(__open64), AT_FDCWD, path, flags, mode);
}

int openat(int dirfd, const char *path, int flags, ...)
{
    mode_t mode = 0;
    MODE_OF(flags, mode);
    return open_any(AT(openat), dirfd, path, flags, mode);
}

int openat64(int dirfd, const char *path, int flags, ...)
{
    mode_t mode = 0;
    MODE_OF(flags, mode);
    return open_any(AT(openat64), dirfd, path, flags, mode);
}

/* The fortified forms abort when a mode is needed and none can be given. */

int __open_2(const char *path, int flags)
{
    if (HR_UNLIKELY(NEEDS_MODE(flags)) && HR_REAL(__open_2)) {
        return HR_REAL(__open_2)(path, flags);
    }
    return open_any(PLAIN(open), AT_FDCWD, path, flags, 0);
}

int __open64_2(const char *path, int flags)
{
    if (HR_UNLIKELY(NEEDS_MODE(flags)) && HR_REAL(__open64_2)) {
        return HR_REAL(__open64_2)(path, flags);
    }
    return open_any(PLAIN(open64), AT_FDCWD, path, flags, 0);
}

int __openat_2(int dirfd, const char *path, int flags)
{
    if (HR_UNLIKELY(NEEDS_MODE(flags)) && HR_REAL(__openat_2)) {
        return HR_REAL(__openat_2)(dirfd, path, flags);
    }
    return open_any(AT(openat), dirfd, path, flags, 0);
}

int __openat64_2(int dirfd, const char *path, int flags)
{
    if (HR_UNLIKELY(NEEDS_MODE(flags)) && HR_REAL(__openat64_2)) {
        return HR_REAL(__openat64_2)(dirfd, path, flags);
    }
    return open_any(AT(openat64), dirfd, path, flags, 0);
}

int creat(const char *path, mode_t mode)
{
    return open_any(PLAIN(open), AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int creat64(const char *path, mode_t mode)
{
    return open_any(PLAIN(open64), AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
