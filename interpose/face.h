/* Faces: what a program holds open of a large object. A real descriptor of an empty file of mode 0200, opened
 * O_WRONLY; offset, dup and fork are the kernel's. Which object it stands for is found from the descriptor
 * alone (fstat and the residents table), so exec, SCM_RIGHTS and forkserver need no handed-over state; one
 * byte a descriptor (standin.h, HR_MARK_FACE) only says where looking is worth it. A call that reaches the
 * kernel past our hooks gets EBADF, EACCES or EINVAL: never zeros, never an end that is not there. Negative
 * errno everywhere. Async-signal-safe. */
#ifndef HR_FACE_H
#define HR_FACE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "interpose/context.h"
#include "interpose/identity.h"
#include "interpose/standin.h"

#define HR_CALL_BYTES_MAX 0x7ffff000u /* of one read(2), sendfile(2)...: the kernel's MAX_RW_COUNT */

struct hr_face {
    struct hr_session session;
    uint64_t id;   /* file_id of the face; 0: the daemon has lost it, every read is ESTALE */
    uint64_t size; /* the object's */
    struct hr_identity who;
};

/* One byte: false is certain. */
static inline bool hr_face_maybe(int fd)
{
    return __builtin_expect((unsigned)fd >= HR_STANDIN_MARKS, 0)
               ? fd >= 0
               : atomic_load_explicit(&hr_standin_marks[fd], memory_order_relaxed) == HR_MARK_FACE;
}
/* Is there any in this process, or was there? For calls that name descriptors by other ways than a number. */
extern _Atomic bool hr_faces_seen __attribute__((visibility("hidden")));
static inline bool hr_faces_any(void)
{
    return __builtin_expect(atomic_load_explicit(&hr_faces_seen, memory_order_relaxed), 0);
}
/* Says that fd is, or may be, a face. */
void hr_face_mark(int fd);
/* Is it one? One fstat; attaches when this process has no session yet. A mark that is wrong is taken away. */
bool hr_face_of(int fd, struct hr_face *ret);

/* A new open file description of a face by its id, offset 0; flags as open(2)'s, of which those that make
 * sense are kept. Marked. -ENOENT: it has gone. */
int hr_face_open(const struct hr_session *session, uint64_t face_id, int flags);
/* Does the path name a descriptor of this process which is a face ("/proc/self/fd/3", "/dev/stdin")? Its
 * number, or -1. */
int hr_face_named_looked(int dirfd, const char *path);
static inline int hr_face_named(int dirfd, const char *path)
{
    return hr_faces_any() && path ? hr_face_named_looked(dirfd, path) : -1;
}
/* Does it name one in another way, or of another process ("/proc/77/fd/3", "/proc/self/task/77/fd/3")? A
 * descriptor of our own for it (O_PATH), for hr_face_named_end, or -1. Root could open the empty file itself.
 */
int hr_face_named_elsewhere(const char *path);
void hr_face_named_end(int other); /* no-op of -1 */
/* open(2) of such a path: a new description of the object, or as a read-only file refuses it. */
int hr_face_reopen(int fd, int flags);

/* Moves the descriptor's offset over the bytes that a read of `wanted` takes, in one step, so that nobody who
 * shares it reads them too: how many there are (0 at the end), *ret_start where. What lies beyond the
 * object's end has been given back. */
int64_t hr_face_claim(int fd, const struct hr_face *face, uint64_t wanted, uint64_t *ret_start);
void hr_face_unclaim(int fd, uint64_t bytes); /* the last of them were not read after all */

/* Makes fd alone a descriptor of the whole object in one plain file, same offset and close-on-exec, O_RDONLY,
 * for what nothing else serves. Waits for the object. 0, -ENOSPC (the daemon's line: it does not fit). */
int hr_face_materialise(int fd, const struct hr_face *face);
/* A plain read-only descriptor of the whole object (flags: O_CLOEXEC), instead of the face. */
int hr_face_open_whole(const struct hr_face *face, int flags);
/* The same; ret_path receives the file's name, which an eviction may take away at any time. */
int hr_face_open_whole_named(const struct hr_face *face, int flags, char *ret_path, size_t room);
/* Materialises fd, and its dups in this process, when it is a face, else nothing: 0. */
int hr_face_materialise_if(int fd);
/* 0, 1 and 2 are never faces: streams read and write them inside libc, where no hook sees it. */
static inline bool hr_face_is_stream(int fd)
{
    return (unsigned)fd <= 2;
}
/* After fd, such a number, was opened or copied. fd, or the error with fd closed. */
int hr_face_not_as_stream(int fd);
/* Something that reads past our hooks is in this process (the kernel's aio): opens of large objects give
 * plain files from now on. */
bool hr_face_wants_whole(void);
void hr_face_want_whole(void);
/* Before an exec of something that has no hooks: every inherited face (no close-on-exec) becomes a plain
 * file. 0 or the first error. */
int hr_face_materialise_inherited(void);

#endif
