/* fopen, freopen, fdopen: libc's stdio opens and reads by itself, past every hook, so a mapped file is opened
 * here and handed over, a large object as one plain file. */
#include <limits.h>

#include "interpose/alias.h"
#include "interpose/door.h"
#include "interpose/face.h"
#include "interpose/standin.h"
#include "interpose/view.h"
#include "interpose/tiny.h"
#include "interpose/inner.h"

#define MODE_LETTERS_MAX 7 /* libc looks at no more */
#define EVICTED_TRIES 8    /* each one fetched the object anew: a cache that small cannot serve it */

static bool names_charset(const char *mode)
{
    return strstr(mode, ",ccs=") != NULL;
}

/* The open(2) flags of a mode, or -EINVAL. 'x' has no meaning without O_CREAT; 'b', 'c' and 'm' are libc's
 * affair. */
static int flags_of(const char *mode)
{
    int flags;
    switch (mode[0]) {
    case 'r':
        flags = O_RDONLY;
        break;
    case 'w':
        flags = O_WRONLY | O_CREAT | O_TRUNC;
        break;
    case 'a':
        flags = O_WRONLY | O_CREAT | O_APPEND;
        break;
    default:
        return -EINVAL;
    }
    for (int i = 1; i < MODE_LETTERS_MAX && mode[i] && mode[i] != ','; i++) {
        switch (mode[i]) {
        case '+':
            flags = (flags & ~O_ACCMODE) | O_RDWR;
            break;
        case 'x':
            flags |= flags & O_CREAT ? O_EXCL : 0;
            break;
        case 'e':
            flags |= O_CLOEXEC;
            break;
        }
    }
    return flags;
}

static bool makes(const char *mode)
{
    int flags = flags_of(mode);
    return flags >= 0 && (flags & O_CREAT);
}

/* "/proc/self/fd/N": opens the same file again, evicted meanwhile or not. */
static const char *fd_path(int fd, char *buffer, size_t room)
{
    struct hr_out out;
    hr_out_init(&out, buffer, room);
    hr_out_text(&out, "/proc/self/fd/");
    hr_out_decimal(&out, (uint64_t)fd);
    return hr_out_done(&out) < 0 ? "" : buffer;
}

/* libc reads inside a stream where no hook sees it, and a stand-in would answer EBADF: a directory that can
 * be read says EISDIR, as programs expect of fopen()ed ones. */
static int readable_dir(int fd, int flags)
{
    long dir = hr_sys(SYS_openat, AT_FDCWD, (long)"/", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0, 0);
    hr_standin_unmark(fd);
    if (dir >= 0) {
        hr_sys(SYS_dup3, dir, fd, flags & O_CLOEXEC, 0, 0, 0);
    }
    hr_sys(SYS_close, dir < 0 ? fd : dir, 0, 0, 0, 0, 0);
    return dir < 0 ? (int)dir : fd;
}

/* A large object, opened just now, as a plain file. */
static int readable_face(int fd)
{
    struct hr_face face;
    int error = hr_face_of(fd, &face) ? hr_face_materialise(fd, &face) : 0;
    if (error) {
        hr_standin_unmark(fd);
        hr_sys(SYS_close, fd, 0, 0, 0, 0, 0);
    }
    return error ? error : fd;
}

static int open_mapped(const struct hr_place *place, const char *mode)
{
    int flags = flags_of(mode);
    int fd = flags < 0 ? flags : hr_view_open(place, flags, 0666);
    if (hr_face_maybe(fd)) {
        fd = readable_face(fd);
    }
    return fd >= 0 && hr_standin_maybe(fd) ? readable_dir(fd, flags) : fd;
}

static HR_NOINLINE bool named_looked(const char *path, const char *mode, int *ret_fd)
{
    int own = hr_face_named(AT_FDCWD, path);
    int other = own < 0 ? hr_face_named_elsewhere(path) : -1;
    int flags = flags_of(mode);
    if (own >= 0 || other >= 0) {
        *ret_fd = flags < 0 ? flags : hr_face_reopen(own >= 0 ? own : other, flags | O_DIRECT);
    }
    hr_face_named_end(other);
    return own >= 0 || other >= 0;
}

/* Is it the name of a descriptor that is a face ("/dev/stdin", "/proc/77/fd/3")? Asked where this process has
 * met one. *ret_fd: the object anew, or -errno. */
static inline bool open_named(const char *path, const char *mode, int *ret_fd)
{
    return HR_UNLIKELY(hr_faces_any()) && path && named_looked(path, mode, ret_fd);
}

static FILE *stream_of(int fd, const char *mode)
{
    if (fd < 0) {
        errno = -fd;
        return NULL;
    }
    /* fdopen knows no charsets. */
    char path[32];
    FILE *stream = names_charset(mode) ? HR_REAL(fopen)(fd_path(fd, path, sizeof(path)), mode)
                                       : HR_REAL(fdopen)(fd, mode);
    if (!stream || names_charset(mode)) {
        hr_sys(SYS_close, fd, 0, 0, 0, 0, 0);
    }
    return stream;
}

static HR_NOINLINE FILE *fopen_mapped(const struct hr_place *place, const char *mode)
{
    return stream_of(open_mapped(place, mode), mode);
}

/* The kernel opened nothing: a new file may belong into a way, what is there may be a way, and
 * symlinks=follow has a second look. */
static HR_NOINLINE FILE *fopen_again(FILE *(*real)(const char *, const char *), const char *path,
                                     const char *mode, int errno_before)
{
    struct hr_place place;
    FILE *stream = makes(mode) && hr_way_made(AT_FDCWD, path, -EISDIR) ? real(path, mode) : NULL;
    if (!stream && hr_door_missed(AT_FDCWD, path, true, &place)) {
        stream = fopen_mapped(&place, mode);
    }
    if (stream) {
        errno = errno_before;
    }
    return stream;
}

static HR_NOINLINE bool writes_named(const char *path, const char *mode)
{
    int flags = flags_of(mode);
    return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && hr_door_names_file(path);
}

/* A stream that would write into a cache file, by its descriptor's name. */
static inline bool is_refused(const char *path, const char *mode)
{
    return path && hr_path_may_be_proc(path) && HR_UNLIKELY(hr_active) && writes_named(path, mode);
}

/* The same of the stream that is there: libc opens its descriptor's name. */
static inline bool is_rewritten(const char *path, const char *mode, FILE *stream)
{
    int flags = HR_UNLIKELY(hr_active) && !path ? flags_of(mode) : 0;
    return flags > 0 && (flags & O_ACCMODE) != O_RDONLY && hr_door_fd(fileno(stream));
}

/* libc is not to make a file of what is a way. */
static HR_NOINLINE FILE *fopen_made(FILE *(*real)(const char *, const char *), const char *path,
                                    const char *mode)
{
    struct hr_place way;
    if (makes(mode) && hr_way_is(AT_FDCWD, path, &way)) {
        return fopen_mapped(&way, mode);
    }
    int before = errno;
    FILE *stream = real(path, mode);
    return stream || !hr_active ? stream : fopen_again(real, path, mode, before);
}

static inline FILE *fopen_real(FILE *(*real)(const char *, const char *), const char *path, const char *mode)
{
    if (is_refused(path, mode)) {
        errno = EROFS;
        return NULL;
    }
    if (HR_UNLIKELY(mode[0] != 'r')) {
        return fopen_made(real, path, mode);
    }
    FILE *stream = real(path, mode);
    return HR_LIKELY(stream) || !hr_active ? stream : fopen_again(real, path, mode, errno);
}

FILE *fopen(const char *path, const char *mode)
{
    struct hr_place place;
    if (hr_door_target(AT_FDCWD, &path, &place)) {
        return fopen_mapped(&place, mode);
    }
    int fd;
    return open_named(path, mode, &fd) ? stream_of(fd, mode) : fopen_real(HR_REAL(fopen), path, mode);
}

FILE *fopen64(const char *path, const char *mode)
{
    struct hr_place place;
    if (hr_door_target(AT_FDCWD, &path, &place)) {
        return fopen_mapped(&place, mode);
    }
    int fd;
    return open_named(path, mode, &fd) ? stream_of(fd, mode) : fopen_real(HR_REAL(fopen64), path, mode);
}

#define NOT_OURS INT_MIN /* beside descriptors and negative errnos */

typedef FILE *(*freopen_fn)(const char *, const char *, FILE *);

/* Without /proc: by the cache file's own name, which an eviction may take away in between. */
static FILE *freopen_by_name(freopen_fn real, const struct hr_place *place, const char *mode, FILE *stream)
{
    char path[HR_PLACE_MAX];
    for (int tries = 0; tries < EVICTED_TRIES; tries++) {
        int len = hr_view_cache_path(place, path, sizeof(path));
        if (len < 0) {
            errno = -len;
            return NULL;
        }
        FILE *result = real(path, mode, stream);
        if (result || errno != ENOENT) {
            return result;
        }
    }
    errno = EIO;
    return NULL;
}

/* place: what fd was opened of, for a system without /proc; NULL: fd is of no place. */
static FILE *freopen_given(freopen_fn real, int fd, const struct hr_place *place, const char *mode,
                           FILE *stream)
{
    if (fd < 0) {
        /* A freopen that fails has closed the stream: libc does that on a name which cannot be. */
        real("", "r", stream);
        errno = -fd;
        return NULL;
    }
    char path[32];
    FILE *result = real(fd_path(fd, path, sizeof(path)), mode, stream);
    if (!result && errno == ENOENT && place) {
        result = freopen_by_name(real, place, mode, stream);
    }
    hr_sys(SYS_close, fd, 0, 0, 0, 0, 0);
    return result;
}

static HR_NOINLINE FILE *freopen_mapped(freopen_fn real, const struct hr_place *place, const char *mode,
                                        FILE *stream)
{
    return freopen_given(real, open_mapped(place, mode), place, mode, stream);
}

/* A real freopen that failed has closed the stream, so there is no second one. A NULL path changes the mode
 * of the stream that is there: libc's affair. */
static FILE *freopen_real(freopen_fn real, const char *path, const char *mode, FILE *stream)
{
    struct hr_place way;
    if (hr_way_is(AT_FDCWD, path, &way)) {
        return freopen_mapped(real, &way, mode, stream);
    }
    if (HR_UNLIKELY(hr_active) && path && makes(mode)) {
        (void)hr_way_ahead(AT_FDCWD, path, -EISDIR);
    }
    return real(path, mode, stream);
}

FILE *freopen(const char *path, const char *mode, FILE *stream)
{
    struct hr_place place;
    if (hr_door_target(AT_FDCWD, &path, &place)) {
        return freopen_mapped(HR_REAL(freopen), &place, mode, stream);
    }
    int fd;
    if (!open_named(path, mode, &fd)) {
        fd = is_refused(path, mode) || is_rewritten(path, mode, stream) ? -EROFS : NOT_OURS;
    }
    return fd == NOT_OURS ? freopen_real(HR_REAL(freopen), path, mode, stream)
                          : freopen_given(HR_REAL(freopen), fd, NULL, mode, stream);
}

FILE *freopen64(const char *path, const char *mode, FILE *stream)
{
    struct hr_place place;
    if (hr_door_target(AT_FDCWD, &path, &place)) {
        return freopen_mapped(HR_REAL(freopen64), &place, mode, stream);
    }
    int fd;
    if (!open_named(path, mode, &fd)) {
        fd = is_refused(path, mode) || is_rewritten(path, mode, stream) ? -EROFS : NOT_OURS;
    }
    return fd == NOT_OURS ? freopen_real(HR_REAL(freopen64), path, mode, stream)
                          : freopen_given(HR_REAL(freopen64), fd, NULL, mode, stream);
}

/* False with errno: the whole object cannot be had. */
static inline bool plain(int fd)
{
    return HR_LIKELY(!hr_active) || !hr_face_maybe(fd) || hr_edge(hr_face_materialise_if(fd)) == 0;
}

FILE *fdopen(int fd, const char *mode)
{
    return plain(fd) ? HR_REAL(fdopen)(fd, mode) : NULL;
}

FILE *_IO_fdopen(int fd, const char *mode)
{
    return plain(fd) ? HR_REAL(_IO_fdopen)(fd, mode) : NULL;
}
