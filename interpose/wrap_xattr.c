/* Extended attributes: a listed object has `user.headrace.key` (its full key in the bucket) and
 * `user.headrace.etag` (as the store spells it, without quotes); a directory, and an object that is not
 * listed yet, has none. Nothing can be set or removed. */
#include "interpose/context.h"
#include "interpose/door.h"
#include "interpose/origin.h"
#include "interpose/standin.h"
#include "interpose/view.h"
#include "interpose/inner.h"

#define NAME_BYTES_MAX 255 /* XATTR_NAME_MAX of linux/limits.h */
#define VALUE_BYTES_MAX (HR_KEY_MAX + 1)

static const char names[][20] = {"user.headrace.key", "user.headrace.etag"};
enum { KEY, ETAG, NAMES };

_Static_assert(HR_INDEX_ETAG_MAX < VALUE_BYTES_MAX, "one buffer holds both");

/* ---- what an object has ---- */

/* Length of the value in out, -ENODATA. */
static long value_of(const struct hr_place *place, const struct hr_object *object, unsigned which, char *out)
{
    struct hr_session session;
    uint32_t tree = object->tree ? object->tree->tree : HR_TREES_MAX;
    if (object->kind != HR_KIND_FILE || tree >= HR_TREES_MAX || !hr_session_peek(&session)) {
        return -ENODATA;
    }
    if (which == ETAG) {
        int len = hr_index_etag(&object->tree->index, object->entry, out, VALUE_BYTES_MAX);
        return len > 0 ? len : -ENODATA;
    }
    const struct hr_tree *of = &session.control->trees[tree];
    size_t head = of->prefix_len, tail = place->len - place->rel;
    if (head + tail > HR_KEY_MAX) {
        return -ENODATA;
    }
    memcpy(out, of->prefix, head);
    memcpy(out + head, place->path + place->rel, tail);
    return (long)(head + tail);
}

/* The kernel's rule for both: a size of 0 asks for the length. */
static long hand_out(const char *bytes, size_t len, char *room, size_t size)
{
    if (size == 0) {
        return (long)len;
    }
    if (size < len) {
        return -ERANGE;
    }
    memcpy(room, bytes, len);
    return (long)len;
}

static long get_from(const struct hr_place *place, const struct hr_object *object, const char *name,
                     void *value, size_t size)
{
    char text[VALUE_BYTES_MAX];
    size_t name_len = strnlen(name, NAME_BYTES_MAX + 1);
    if (name_len == 0 || name_len > NAME_BYTES_MAX) {
        return -ERANGE;
    }
    for (unsigned which = 0; which < NAMES; which++) {
        if (strcmp(name, names[which]) == 0) {
            long len = value_of(place, object, which, text);
            return len < 0 ? len : hand_out(text, (size_t)len, value, size);
        }
    }
    return -ENODATA;
}

static long list_from(const struct hr_place *place, const struct hr_object *object, char *list, size_t size)
{
    char text[VALUE_BYTES_MAX], found[sizeof(names)];
    size_t len = 0;
    for (unsigned which = 0; which < NAMES; which++) {
        if (value_of(place, object, which, text) >= 0) {
            size_t bytes = strlen(names[which]) + 1;
            memcpy(found + len, names[which], bytes);
            len += bytes;
        }
    }
    return hand_out(found, len, list, size);
}

/* ---- whose it is ---- */

enum want { WANT_GET, WANT_LIST, WANT_CHANGE };

struct ask {
    enum want want;
    const char *name;
    void *value;
    size_t size;
};

static long answer_at(const struct hr_place *place, const struct ask *ask)
{
    struct hr_object object;
    int error = hr_view_find(place, &object);
    if (error < 0) {
        return error;
    }
    switch (ask->want) {
    case WANT_GET:
        return get_from(place, &object, ask->name, ask->value, ask->size);
    case WANT_LIST:
        return list_from(place, &object, ask->value, ask->size);
    default:
        return -EROFS;
    }
}

/* True: ours, and *ret is what the call answers. False: the real call, with *path. */
static bool by_path(const char **path, bool follow, struct hr_place *place, const struct ask *ask, long *ret)
{
    if (ask->want == WANT_CHANGE && follow && hr_door_names_file(*path)) {
        *ret = hr_edge(-EROFS);
        return true;
    }
    if (!hr_door_as(AT_FDCWD, path, follow, place) &&
        !(HR_UNLIKELY(hr_active) && hr_path_above_maybe(*path) &&
          hr_way_missed_looked(AT_FDCWD, *path, place))) {
        return false;
    }
    *ret = hr_edge(answer_at(place, ask));
    return true;
}

static HR_NOINLINE bool by_fd_looked(int fd, const struct ask *ask, long *ret)
{
    struct hr_place place;
    if (hr_standin_maybe(fd) && hr_path_of_fd(fd, &place)) {
        *ret = hr_edge(answer_at(&place, ask));
        return true;
    }
    if (!hr_door_fd(fd)) {
        return false;
    }
    if (ask->want == WANT_CHANGE) {
        *ret = hr_edge(-EROFS);
        return true;
    }
    bool listed = hr_origin_of(fd, &place);
    long answer = listed ? answer_at(&place, ask) : -ENOENT;
    if (answer == -ENOENT || answer == -ENOTDIR) {
        answer = ask->want == WANT_LIST ? 0 : -ENODATA; /* open, and not listed (any more) */
    }
    *ret = hr_edge(answer);
    return true;
}

static inline bool by_fd(int fd, const struct ask *ask, long *ret)
{
    return HR_UNLIKELY(hr_active) && by_fd_looked(fd, ask, ret);
}

/* ---- get, list ---- */

ssize_t getxattr(const char *path, const char *name, void *value, size_t size)
{
    struct hr_place place;
    const struct ask ask = {WANT_GET, name, value, size};
    long result;
    return by_path(&path, true, &place, &ask, &result) ? result : HR_REAL(getxattr)(path, name, value, size);
}

ssize_t lgetxattr(const char *path, const char *name, void *value, size_t size)
{
    struct hr_place place;
    const struct ask ask = {WANT_GET, name, value, size};
    long result;
    return by_path(&path, false, &place, &ask, &result) ? result
                                                        : HR_REAL(lgetxattr)(path, name, value, size);
}

ssize_t fgetxattr(int fd, const char *name, void *value, size_t size)
{
    const struct ask ask = {WANT_GET, name, value, size};
    long result;
    return by_fd(fd, &ask, &result) ? result : HR_REAL(fgetxattr)(fd, name, value, size);
}

ssize_t listxattr(const char *path, char *list, size_t size)
{
    struct hr_place place;
    const struct ask ask = {WANT_LIST, NULL, list, size};
    long result;
    return by_path(&path, true, &place, &ask, &result) ? result : HR_REAL(listxattr)(path, list, size);
}

ssize_t llistxattr(const char *path, char *list, size_t size)
{
    struct hr_place place;
    const struct ask ask = {WANT_LIST, NULL, list, size};
    long result;
    return by_path(&path, false, &place, &ask, &result) ? result : HR_REAL(llistxattr)(path, list, size);
}

ssize_t flistxattr(int fd, char *list, size_t size)
{
    const struct ask ask = {WANT_LIST, NULL, list, size};
    long result;
    return by_fd(fd, &ask, &result) ? result : HR_REAL(flistxattr)(fd, list, size);
}

/* ---- set, remove ---- */

static const struct ask change = {.want = WANT_CHANGE};

int setxattr(const char *path, const char *name, const void *value, size_t size, int flags)
{
    struct hr_place place;
    long result;
    return by_path(&path, true, &place, &change, &result) ? (int)result
                                                          : HR_REAL(setxattr)(path, name, value, size, flags);
}

int lsetxattr(const char *path, const char *name, const void *value, size_t size, int flags)
{
    struct hr_place place;
    long result;
    return by_path(&path, false, &place, &change, &result)
               ? (int)result
               : HR_REAL(lsetxattr)(path, name, value, size, flags);
}

int fsetxattr(int fd, const char *name, const void *value, size_t size, int flags)
{
    long result;
    return by_fd(fd, &change, &result) ? (int)result : HR_REAL(fsetxattr)(fd, name, value, size, flags);
}

int removexattr(const char *path, const char *name)
{
    struct hr_place place;
    long result;
    return by_path(&path, true, &place, &change, &result) ? (int)result : HR_REAL(removexattr)(path, name);
}

int lremovexattr(const char *path, const char *name)
{
    struct hr_place place;
    long result;
    return by_path(&path, false, &place, &change, &result) ? (int)result : HR_REAL(lremovexattr)(path, name);
}

int fremovexattr(int fd, const char *name)
{
    long result;
    return by_fd(fd, &change, &result) ? (int)result : HR_REAL(fremovexattr)(fd, name);
}
