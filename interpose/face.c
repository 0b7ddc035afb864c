#include "interpose/face.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "interpose/path.h"
#include "interpose/sys.h"
#include "interpose/tiny.h"
#include "interpose/inner.h"

/* O_APPEND would hide it from those who inherit it (hr_standin_mark_arrived), and a reader has no use for it.
 */
#define KEPT_FLAGS (O_CLOEXEC | O_NONBLOCK | O_NOATIME | O_NOCTTY | O_PATH | O_ASYNC | O_SYNC)

_Atomic bool hr_faces_seen;

void hr_face_mark(int fd)
{
    hr_standin_mark_face(fd);
    atomic_store_explicit(&hr_faces_seen, true, memory_order_relaxed);
}

bool hr_face_of(int fd, struct hr_face *ret)
{
    struct stat stat;
    enum hr_face_look look = HR_FACE_NOT;
    if (HR_SYS2(SYS_fstat, fd, &stat) == 0) {
        look = hr_identity_face(fd, &stat, &ret->who);
    }
    if (look == HR_FACE_NOT) {
        if (hr_face_maybe(fd)) {
            hr_standin_unmark(fd);
        }
        return false;
    }
    /* A face is found only with a session there; of a lost one none is asked. */
    if (!hr_session_peek(&ret->session)) {
        ret->session = (struct hr_session){0};
    }
    if (look == HR_FACE_LOST) {
        ret->who = (struct hr_identity){.size = INT64_MAX};
    }
    ret->id = ret->who.file_id;
    ret->size = ret->who.size;
    if (!hr_faces_any()) {
        hr_face_mark(fd);
    }
    return true;
}

int hr_face_open(const struct hr_session *session, uint64_t face_id, int flags)
{
    char path[PATH_MAX];
    struct hr_identity who;
    struct stat stat;
    int error = hr_session_file_path(session, face_id, path, sizeof(path));
    if (error < 0) {
        return error;
    }
    int fd = (int)HR_SYS4(SYS_openat, AT_FDCWD, path, O_WRONLY | (flags & KEPT_FLAGS), 0);
    if (fd < 0) {
        return fd;
    }
    if (HR_SYS2(SYS_fstat, fd, &stat) < 0 || hr_identity_face(fd, &stat, &who) != HR_FACE_FOUND ||
        who.file_id != face_id) {
        HR_SYS1(SYS_close, fd);
        return -ENOENT;
    }
    hr_face_mark(fd);
    return fd;
}

/* ---- the offset ---- */

static int64_t move(int fd, int64_t by)
{
    return HR_SYS3(SYS_lseek, fd, by, SEEK_CUR);
}

int64_t hr_face_claim(int fd, const struct hr_face *face, uint64_t wanted, uint64_t *ret_start)
{
    int64_t bytes = wanted < HR_CALL_BYTES_MAX ? (int64_t)wanted : HR_CALL_BYTES_MAX;
    int64_t size = (int64_t)face->size;
    int64_t end = move(fd, bytes);
    if (end == -EINVAL || end == -EOVERFLOW) {
        /* Beyond what the file system of the cache can address. */
        int64_t at = move(fd, 0);
        if (at < 0) {
            return at;
        }
        bytes = at < size && size - at < bytes ? size - at : 0;
        end = move(fd, bytes);
    }
    if (end < 0) {
        return end;
    }
    int64_t start = end - bytes;
    int64_t over = end <= size ? 0 : start >= size ? bytes : end - size;
    if (over > 0) {
        move(fd, -over);
    }
    *ret_start = (uint64_t)start;
    return bytes - over;
}

void hr_face_unclaim(int fd, uint64_t bytes)
{
    if (bytes > 0) {
        move(fd, -(int64_t)bytes);
    }
}

/* ---- descriptors by name ---- */

/* Behind the prefix, or NULL. */
static const char *behind(const char *text, const char *prefix)
{
    size_t len = strlen(prefix);
    return strncmp(text, prefix, len) == 0 ? text + len : NULL;
}

/* The folder of this process's descriptors: its entry's name, or NULL. */
static const char *in_fd_folder(const char *path)
{
    static const char *const folders[] = {"/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/"};
    for (unsigned i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        const char *name = behind(path, folders[i]);
        if (name) {
            return name;
        }
    }
    /* The number of this process costs a system call: only where a process is named. */
    if (!behind(path, "/proc/")) {
        return NULL;
    }
    char own[32];
    struct hr_out out;
    hr_out_init(&out, own, sizeof(own));
    hr_out_text(&out, "/proc/");
    hr_out_decimal(&out, (uint64_t)HR_SYS0(SYS_getpid));
    hr_out_text(&out, "/fd/");
    return behind(path, own);
}

static int named_number(const char *path)
{
    static const char *const streams[] = {"/dev/stdin", "/dev/stdout", "/dev/stderr"};
    for (int fd = 0; fd < 3; fd++) {
        if (strcmp(path, streams[fd]) == 0) {
            return fd;
        }
    }
    const char *name = in_fd_folder(path);
    return name ? hr_standin_number(name) : -1;
}

/* As the kernel names a directory: the length, or -errno. */
static int folder_of(int dirfd, char *out, size_t room)
{
    if (dirfd != AT_FDCWD) {
        return hr_standin_readlink(dirfd, out, room);
    }
    return (int)HR_SYS2(SYS_getcwd, out, room) - 1;
}

int hr_face_named_looked(int dirfd, const char *path)
{
    struct hr_face face;
    char folder[64];
    int fd = -1;
    if (path[0] == '/') {
        fd = hr_path_may_be_proc(path) ? named_number(path) : -1;
    } else if ((fd = hr_standin_number(path)) >= 0) {
        /* A number in an open or the working directory: is it that of our descriptors? */
        int len = hr_standin_maybe(fd) ? folder_of(dirfd, folder, sizeof(folder) - 1) : -1;
        if (len > 0) {
            folder[len] = '/';
            folder[len + 1] = '\0';
            const char *end = in_fd_folder(folder);
            fd = end && !*end ? fd : -1;
        } else {
            fd = -1;
        }
    }
    return fd >= 0 && hr_standin_maybe(fd) && hr_face_of(fd, &face) ? fd : -1;
}

/* ".../fd/3" */
static bool ends_as_descriptor(const char *path)
{
    static const char folder[] = "/fd/";
    const size_t folder_len = sizeof(folder) - 1;
    size_t len = strlen(path);
    size_t at = len;
    while (at > 0 && path[at - 1] >= '0' && path[at - 1] <= '9') {
        at--;
    }
    return path[0] == '/' && at < len && at > folder_len &&
           memcmp(path + at - folder_len, folder, folder_len) == 0;
}

int hr_face_named_elsewhere(const char *path)
{
    struct hr_face face;
    /* Where this process has met none, its own are none. */
    if (!ends_as_descriptor(path) || (!hr_faces_any() && in_fd_folder(path))) {
        return -1;
    }
    int fd = (int)HR_SYS4(SYS_openat, AT_FDCWD, path, O_PATH | O_CLOEXEC, 0);
    if (fd >= 0 && !hr_face_of(fd, &face)) {
        HR_SYS1(SYS_close, fd);
        fd = -1;
    }
    return fd < 0 ? -1 : fd;
}

void hr_face_named_end(int other)
{
    if (other >= 0) {
        hr_standin_unmark(other);
        HR_SYS1(SYS_close, other);
    }
}

int hr_face_reopen(int fd, int flags)
{
    struct hr_face face;
    bool writes = (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) || (flags & O_TMPFILE) == O_TMPFILE;
    if (!hr_face_of(fd, &face)) {
        return -EBADF;
    }
    if (flags & O_DIRECTORY) {
        return -ENOTDIR;
    }
    if (!(flags & O_PATH) && (flags & O_CREAT) && (flags & O_EXCL)) {
        return -EEXIST;
    }
    if (!(flags & O_PATH) && writes) {
        return -EROFS;
    }
    if (face.id == 0) {
        return -ESTALE;
    }
    if (!(flags & O_PATH) && ((flags & O_DIRECT) || hr_face_wants_whole())) {
        return hr_face_open_whole(&face, flags & O_CLOEXEC);
    }
    /* By the descriptor, not by the name: its file may have gone. */
    char path[32];
    struct hr_out out;
    hr_out_init(&out, path, sizeof(path));
    hr_out_text(&out, "/proc/self/fd/");
    hr_out_decimal(&out, (uint64_t)fd);
    int again = (int)HR_SYS4(SYS_openat, AT_FDCWD, path, O_WRONLY | (flags & KEPT_FLAGS), 0);
    if (again >= 0) {
        hr_face_mark(again);
    }
    return again;
}
