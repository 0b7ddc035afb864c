/* The whole object as one plain file, for what segments cannot serve. */
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>

#include "interpose/demand.h"
#include "interpose/face.h"
#include "interpose/sys.h"
#include "interpose/view_parts.h"
#include "interpose/inner.h"

/* Status flags that the plain file is to have too. */
#define KEPT_FLAGS (O_APPEND | O_NONBLOCK | O_NOATIME | O_ASYNC)
#define INHERITED_MAX 256 /* faces that one exec hands on as plain files */
#define SAME_FILE 0       /* kcmp: KCMP_FILE of <linux/kcmp.h>, which not every system has */

static _Atomic bool whole_wanted;

bool hr_face_wants_whole(void)
{
    return atomic_load_explicit(&whole_wanted, memory_order_relaxed);
}

void hr_face_want_whole(void)
{
    atomic_store_explicit(&whole_wanted, true, memory_order_relaxed);
}

/* ---- the file ---- */

/* One round: the file, -EAGAIN when the daemon was replaced meanwhile, -ENOENT when the file was evicted
 * since the answer. */
static int open_once(const struct hr_face *face, const struct hr_session *session, int flags, char *path,
                     size_t room)
{
    struct hr_segment_ask ask = {.face_id = face->id, .offset = 0, .bytes = face->size ? face->size : 1};
    struct hr_answer answer;
    int error = hr_demand_segment(session, HR_OP_WHOLE, &ask, &answer);
    if (error) {
        return error;
    }
    if (answer.offset != 0 || answer.size != face->size) {
        return -EIO;
    }
    error = hr_session_file_path(session, answer.file_id, path, room);
    return error < 0 ? error : (int)HR_SYS4(SYS_openat, AT_FDCWD, path, O_RDONLY | flags, 0);
}

int hr_face_open_whole_named(const struct hr_face *face, int flags, char *ret_path, size_t room)
{
    struct hr_session session = face->session;
    int fd = -EIO;
    if (face->id == 0) {
        return -ESTALE;
    }
    for (unsigned i = 0; i < HR_VIEW_TRIES; i++) {
        fd = open_once(face, &session, flags, ret_path, room);
        if (fd == -EAGAIN) {
            int error = hr_session_get(&session);
            if (error) {
                return error;
            }
        } else if (fd != -ENOENT) {
            break;
        }
    }
    return fd == -EAGAIN || fd == -ENOENT ? -EIO : fd;
}

HR_NOINLINE int hr_face_open_whole(const struct hr_face *face, int flags)
{
    char path[PATH_MAX];
    return hr_face_open_whole_named(face, flags, path, sizeof(path));
}

/* ---- in place of the face ---- */

/* The plain file at the face's offset and with its status flags, close-on-exec. */
static int open_like(int fd, const struct hr_face *face)
{
    long status = HR_SYS3(SYS_fcntl, fd, F_GETFL, 0);
    long position = HR_SYS3(SYS_lseek, fd, 0, SEEK_CUR);
    if (status < 0 || position < 0) {
        return (int)(status < 0 ? status : position);
    }
    int whole = hr_face_open_whole(face, O_CLOEXEC | ((int)status & KEPT_FLAGS));
    if (whole < 0) {
        return whole;
    }
    long moved = HR_SYS3(SYS_lseek, whole, position, SEEK_SET);
    if (moved < 0) {
        HR_SYS1(SYS_close, whole);
        return (int)moved;
    }
    return whole;
}

static int put_over(int whole, int fd)
{
    long kept = HR_SYS3(SYS_fcntl, fd, F_GETFD, 0);
    if (kept < 0) {
        return (int)kept;
    }
    long put = HR_SYS3(SYS_dup3, whole, fd, kept & FD_CLOEXEC ? O_CLOEXEC : 0);
    if (put < 0) {
        return (int)put;
    }
    hr_standin_unmark(fd);
    return 0;
}

int hr_face_materialise(int fd, const struct hr_face *face)
{
    int whole = open_like(fd, face);
    if (whole < 0) {
        return whole;
    }
    int error = put_over(whole, fd);
    HR_SYS1(SYS_close, whole);
    return error;
}

/* ---- all of them ---- */

struct faces {
    unsigned count;
    int fd[INHERITED_MAX]; /* -1: it is a plain file by now */
};

static void note(void *owner, int fd)
{
    struct faces *faces = owner;
    struct hr_face face;
    if (hr_face_maybe(fd) && faces->count < INHERITED_MAX && hr_face_of(fd, &face)) {
        faces->fd[faces->count++] = fd;
    }
}

static void find_faces(struct faces *faces)
{
    faces->count = 0;
    if (hr_standin_each(note, faces)) {
        return;
    }
    for (int fd = 0; fd < HR_STANDIN_MARKS; fd++) {
        note(faces, fd);
    }
}

static bool is_inherited(int fd)
{
    long flags = HR_SYS3(SYS_fcntl, fd, F_GETFD, 0);
    return flags >= 0 && !(flags & FD_CLOEXEC);
}

/* Do both share one offset? */
static bool is_dup(int a, int b)
{
    long pid = HR_SYS0(SYS_getpid);
    return HR_SYS5(SYS_kcmp, pid, pid, SAME_FILE, a, b) == 0;
}

/* faces->fd[at] and its dups, which go on sharing their offset. */
static int materialise_dups(struct faces *faces, unsigned at)
{
    struct hr_face face;
    int first = faces->fd[at];
    if (!hr_face_of(first, &face)) {
        return 0;
    }
    int whole = open_like(first, &face);
    int error = whole < 0 ? whole : 0;
    for (unsigned i = 0; i < faces->count && !error; i++) {
        if (i != at && faces->fd[i] >= 0 && is_dup(first, faces->fd[i])) {
            error = put_over(whole, faces->fd[i]);
            faces->fd[i] = -1;
        }
    }
    if (!error) {
        error = put_over(whole, first);
        faces->fd[at] = -1;
    }
    if (whole >= 0) {
        HR_SYS1(SYS_close, whole);
    }
    return error;
}

static HR_NOINLINE int materialise_shared(int fd, const struct hr_face *face)
{
    struct faces faces;
    find_faces(&faces);
    for (unsigned i = 0; i < faces.count; i++) {
        if (faces.fd[i] == fd) {
            return materialise_dups(&faces, i);
        }
    }
    return hr_face_materialise(fd, face);
}

int hr_face_materialise_if(int fd)
{
    struct hr_face face;
    return hr_face_maybe(fd) && hr_face_of(fd, &face) ? materialise_shared(fd, &face) : 0;
}

HR_NOINLINE int hr_face_not_as_stream(int fd)
{
    int error = hr_face_maybe(fd) ? hr_face_materialise_if(fd) : 0;
    if (error) {
        hr_standin_unmark(fd);
        HR_SYS1(SYS_close, fd);
    }
    return error ? error : fd;
}

HR_NOINLINE int hr_face_materialise_inherited(void)
{
    struct faces faces;
    int error = 0;
    find_faces(&faces);
    for (unsigned i = 0; i < faces.count && !error; i++) {
        if (faces.fd[i] >= 0 && is_inherited(faces.fd[i])) {
            error = materialise_dups(&faces, i);
        }
    }
    return error;
}
