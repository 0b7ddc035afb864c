/* The half of view.h that hands out descriptors. */
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>

#include "interpose/demand.h"
#include "interpose/face.h"
#include "interpose/origin.h"
#include "interpose/refuse.h"
#include "interpose/standin.h"
#include "interpose/sys.h"
#include "interpose/tiny.h"
#include "interpose/view_parts.h"
#include "interpose/way.h"
#include "interpose/inner.h"

/* Flags of the caller that make sense on a cache file. O_DIRECT itself would fail on tmpfs, and the pages are
 * warm anyway; it decides what is opened. */
#define KEPT_FLAGS                                                                                           \
    (O_CLOEXEC | O_NONBLOCK | O_NOATIME | O_NOCTTY | O_PATH | O_ASYNC | O_SYNC | O_APPEND | O_DIRECT)

/* ---- cache files ---- */

/* A whole object instead of its face: for reads that no hook sees. path receives its name. */
static int open_whole(int face_fd, int flags, char *path, size_t room)
{
    struct hr_face face;
    bool found = hr_face_of(face_fd, &face);
    hr_standin_unmark(face_fd);
    HR_SYS1(SYS_close, face_fd);
    return found ? hr_face_open_whole_named(&face, flags & O_CLOEXEC, path, room) : -ENOENT;
}

static bool wants_whole(int flags)
{
    return !(flags & O_PATH) && ((flags & O_DIRECT) || hr_face_wants_whole());
}

/* flags: O_DIRECT asks for a plain file, which a whole object's is without it. */
static int open_cached(const struct hr_session *session, uint64_t file_id, bool face, int flags, char *path,
                       size_t room)
{
    if (face) {
        int fd = hr_face_open(session, file_id, flags);
        return fd >= 0 && wants_whole(flags) ? open_whole(fd, flags, path, room) : fd;
    }
    int len = hr_session_file_path(session, file_id, path, room);
    if (len < 0) {
        return len;
    }
    return (int)HR_SYS4(SYS_openat, AT_FDCWD, path, flags & ~O_DIRECT, 0);
}

/* An indexed object: opens its cache file, waiting for it as often as it takes. */
static int open_entry(const struct hr_session *session, const struct hr_tree_view *view, uint32_t entry,
                      int flags, char *path, size_t room)
{
    const struct hr_state *state = &view->states->states[entry];
    for (unsigned i = 0; i < HR_VIEW_TRIES; i++) {
        uint32_t word = atomic_load_explicit(&state->word, memory_order_acquire);
        bool face = HR_STATE_KIND(word) == HR_STATE_FACE;
        if (HR_LIKELY(face || HR_STATE_KIND(word) == HR_STATE_RESIDENT)) {
            uint64_t file_id = atomic_load_explicit(&state->file_id, memory_order_acquire);
            int fd = open_cached(session, file_id, face, flags, path, room);
            if (HR_LIKELY(fd >= 0)) {
                hr_view_note_use(session, view, entry);
                return fd;
            }
            if (fd != -ENOENT) {
                return fd;
            }
            if (atomic_load_explicit(&state->word, memory_order_acquire) != word) {
                continue;
            }
        }
        if (HR_STATE_BY_NAME(word)) {
            return -EAGAIN;
        }
        int error = hr_demand_entry(session, view, entry, word);
        if (error) {
            return error;
        }
    }
    return -EIO;
}

/* Opens what locate found to be a file. path receives the cache file's. */
static int open_object(const struct hr_session *session, const struct hr_place *place,
                       const struct hr_object *object, uint64_t file_id, int flags, char *path, size_t room)
{
    if (object->tree) {
        return open_entry(session, object->tree, object->entry, flags, path, room);
    }
    int fd = open_cached(session, file_id, object->face, flags, path, room);
    if (fd >= 0) {
        hr_origin_note(place);
    }
    return fd == -ENOENT ? -EAGAIN : fd; /* evicted since the answer: ask again */
}

/* ---- directories ---- */

static uint64_t standin_hash(const struct hr_place *place)
{
    return place->map == HR_WAY ? hr_way_hash(place) : hr_standin_hash(place->map);
}

static int standin_path(const struct hr_session *session, const struct hr_place *place, char *ret_path,
                        size_t room)
{
    struct hr_out out;
    hr_out_init(&out, ret_path, room);
    hr_out_text(&out, hr_session_dir(session));
    hr_out_text(&out, "/dirs/");
    hr_out_hex(&out, standin_hash(place), 16);
    if (place->rel < place->len) {
        hr_out_text(&out, "/");
        hr_out_text(&out, place->path + place->rel);
    }
    return hr_out_done(&out);
}

static int open_standin(const struct hr_session *session, const struct hr_place *place, int extra_flags)
{
    char path[PATH_MAX];
    struct hr_answer answer;
    uint32_t tree;
    int error = hr_view_tree(session, place, &tree);
    if (!error) {
        error = standin_path(session, place, path, sizeof(path));
    }
    int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | extra_flags;
    for (unsigned i = 0; error >= 0 && i < HR_VIEW_TRIES; i++) {
        long fd = HR_SYS4(SYS_openat, AT_FDCWD, path, flags, 0);
        if (fd >= 0) {
            hr_standin_mark((int)fd);
            return (int)fd;
        }
        if (fd != -ENOENT) {
            return (int)fd;
        }
        error = hr_demand_ask(session, HR_OP_STANDIN, tree, standin_hash(place), place->path + place->rel,
                              place->len - place->rel, &answer);
        if (!error) {
            error = answer.error;
        }
    }
    return error < 0 ? error : -EIO;
}

/* Is it a directory? 0, -ENOTDIR, or as hr_view_locate. */
static int locate_dir(const struct hr_session *session, const struct hr_place *place)
{
    struct hr_object object;
    uint64_t file_id;
    if (place->map == HR_WAY) {
        return 0;
    }
    int error = hr_view_locate(session, place, HR_OP_LOOK, &object, &file_id);
    return error ? error : object.kind == HR_KIND_DIR ? 0 : -ENOTDIR;
}

int hr_view_standin(const struct hr_place *place, int extra_flags)
{
    struct hr_session session;
    for (unsigned i = 0; i < HR_VIEW_TRIES; i++) {
        int result = hr_session_get(&session);
        if (!result) {
            result = locate_dir(&session, place);
        }
        if (!result) {
            result = open_standin(&session, place, extra_flags);
        }
        if (result != -EAGAIN) {
            return result;
        }
    }
    return -EIO;
}

/* ---- open(2) ---- */

static bool is_tmpfile(int flags)
{
    return (flags & O_TMPFILE) == O_TMPFILE;
}

static bool wants_write(int flags)
{
    return (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) || is_tmpfile(flags);
}

/* What the flags say of an object that is there. 0: open it. */
static int judge(const struct hr_object *object, int flags)
{
    bool dir = object->kind == HR_KIND_DIR;
    if ((flags & O_DIRECTORY) && !dir) {
        return -ENOTDIR;
    }
    if (flags & O_PATH) {
        return 0;
    }
    if ((flags & O_CREAT) && (flags & O_EXCL)) {
        return -EEXIST;
    }
    if (dir && is_tmpfile(flags)) {
        return (flags & O_ACCMODE) == O_RDONLY ? -EINVAL : -EROFS;
    }
    if (dir && (wants_write(flags) || (flags & O_CREAT))) {
        return -EISDIR;
    }
    return wants_write(flags) ? -EROFS : 0;
}

static int open_once(const struct hr_session *session, const struct hr_place *place, int flags, char *path,
                     size_t room)
{
    struct hr_object object;
    uint64_t file_id = 0;
    /* Whatever ends in a refusal must not fetch. */
    bool fetch = (flags & O_PATH) || (!wants_write(flags) && !(flags & (O_CREAT | O_DIRECTORY)));
    int error = hr_view_locate(session, place, fetch ? HR_OP_OPEN : HR_OP_LOOK, &object, &file_id);
    if (error == -ENOENT && (flags & O_CREAT) && !(flags & O_PATH)) {
        return hr_refuse_create(place);
    }
    if (!error) {
        error = judge(&object, flags);
    }
    if (error) {
        return error;
    }
    if (object.kind == HR_KIND_DIR) {
        return open_standin(session, place, flags & O_CLOEXEC);
    }
    if (!fetch && !object.tree) {
        /* O_CREAT of what is there already: now it is a plain open. */
        error = hr_view_locate(session, place, HR_OP_OPEN, &object, &file_id);
        if (error || object.kind != HR_KIND_FILE) {
            return error ? error : -EAGAIN;
        }
    }
    return open_object(session, place, &object, file_id, O_RDONLY | (flags & KEPT_FLAGS), path, room);
}

static int open_at(const struct hr_place *place, int flags, char *path, size_t room)
{
    struct hr_session session;
    for (unsigned i = 0; i < HR_VIEW_TRIES; i++) {
        int result = hr_session_get(&session);
        if (!result) {
            result = open_once(&session, place, flags, path, room);
        }
        if (result != -EAGAIN) {
            return result;
        }
    }
    return -EIO;
}

int hr_view_open(const struct hr_place *place, int flags, unsigned mode)
{
    char path[PATH_MAX];
    (void)mode; /* nothing is created */
    if (HR_UNLIKELY(place->map == HR_WAY)) {
        const struct hr_object way = {.kind = HR_KIND_DIR};
        int error = judge(&way, flags);
        return error ? error : hr_view_standin(place, flags & O_CLOEXEC);
    }
    return open_at(place, flags, path, sizeof(path));
}

int hr_view_cache_path(const struct hr_place *place, char *ret_path, size_t room)
{
    /* A directory must not pass: its stand-in's path is nobody's business. */
    struct hr_object object;
    int fd = hr_view_find(place, &object);
    if (fd < 0) {
        return fd;
    }
    if (object.kind == HR_KIND_DIR) {
        return -EISDIR;
    }
    fd = open_at(place, O_RDONLY | O_CLOEXEC | O_DIRECT, ret_path, room);
    if (fd < 0) {
        return fd;
    }
    HR_SYS1(SYS_close, fd);
    return (int)strlen(ret_path);
}
