/* The part of path.h that knows descriptors and the working directory. */
#include "interpose/path.h"

#include <fcntl.h>

#include "interpose/alias.h"
#include "interpose/climb.h"
#include "interpose/cwd.h"
#include "interpose/face.h"
#include "interpose/standin.h"
#include "interpose/way.h"
#include "interpose/inner.h"

/* Out of line: the hot path keeps its arguments in registers. */
static HR_NOINLINE bool leads_through_proc(const char *path)
{
    int dirfd;
    const char *rest;
    return hr_climb_proc(path, &dirfd, &rest);
}

/* The symlink in /proc itself, and not what it leads to. */
static HR_NOINLINE bool is_proc_link(const char *path)
{
    int dirfd;
    const char *rest;
    return hr_climb_proc(path, &dirfd, &rest) && *rest == '\0';
}

bool hr_path_led(const char *path)
{
    uint32_t len;
    return hr_path_linked(path, &len) || (hr_path_may_be_proc(path) && leads_through_proc(path));
}

bool hr_path_maybe_looked(int dirfd, const char *path)
{
    if (HR_UNLIKELY(!path)) {
        return false;
    }
    if (path[0] == '/') {
        struct hr_plain plain;
        return hr_path_plain(path, &plain) != HR_PATH_ELSEWHERE || hr_path_led(path);
    }
    if (path[0] == '\0') {
        return false;
    }
    return dirfd == AT_FDCWD ? hr_cwd_leads(path) : hr_standin_maybe(dirfd);
}

/* Directory that a relative path starts from, as the program sees it, into out. Length or -errno;
 * *ret_inside: the kernel has a stand-in there. */
static int base_of(int dirfd, char *out, size_t room, bool *ret_inside)
{
    struct hr_place place;
    if (dirfd == AT_FDCWD) {
        *ret_inside = hr_cwd_inside();
        return hr_cwd_get(out, room);
    }
    int len = hr_standin_readlink(dirfd, out, room);
    if (len < 0) {
        return len;
    }
    *ret_inside = hr_standin_place(out, &place);
    if (*ret_inside) {
        memcpy(out, place.path, (size_t)place.len + 1);
        return (int)place.len;
    }
    if (out[0] != '/' || !(hr_path_above(out, (size_t)len) || hr_path_above_link(out, (size_t)len))) {
        if (!hr_face_maybe(dirfd)) {
            hr_standin_unmark(dirfd);
        }
        return -ENOENT;
    }
    return len;
}

/* A path that climbs, from the base_len bytes in place->path. It is walked where `walked` says so, and what
 * the text alone takes for a map's, or leaves one by. */
static HR_NOINLINE int resolve_climbing(size_t base_len, bool walked, const char *path,
                                        struct hr_place *place)
{
    unsigned map;
    uint32_t root;
    struct hr_place step;
    memcpy(step.path, place->path, base_len);
    int len =
        hr_path_join(place->path, base_len, path, place->path, sizeof(place->path), &place->must_be_dir);
    bool mapped = walked || hr_path_under(place->path, &map, &root) || hr_path_under(path, &map, &root) ||
                  (len > 0 && hr_path_above(place->path, (size_t)len));
    if (len < 0 || !mapped || !hr_climb_fails(base_len, path, &step)) {
        return len;
    }
    memcpy(place->path, step.path, (size_t)step.len + 1);
    place->must_be_dir = true;
    return (int)step.len;
}

/* Canonical form of (dirfd, path) into place->path: its length or -errno. */
static int resolve_as(int dirfd, const char *path, bool walked, struct hr_place *place, bool *ret_inside)
{
    int base = 0;
    *ret_inside = false;
    if (strnlen(path, HR_PLACE_MAX) == HR_PLACE_MAX) {
        return -ENAMETOOLONG; /* for the kernel, whatever its canonical form */
    }
    if (hr_path_may_be_proc(path) && hr_climb_proc(path, &dirfd, &path)) {
        path += strspn(path, "/");
        path = *path ? path : "./";
    }
    if (path[0] != '/') {
        base = base_of(dirfd, place->path, sizeof(place->path), ret_inside);
        if (base <= 0) {
            return base ? base : -ENOENT;
        }
    }
    return HR_UNLIKELY(hr_path_climbs(path))
               ? resolve_climbing((size_t)base, walked || *ret_inside, path, place)
               : hr_path_join(place->path, (size_t)base, path, place->path, sizeof(place->path),
                              &place->must_be_dir);
}

static int resolve(int dirfd, const char *path, struct hr_place *place, bool *ret_inside)
{
    return resolve_as(dirfd, path, false, place, ret_inside);
}

static bool take_plain(const char *path, struct hr_place *ret)
{
    struct hr_plain plain;
    if (!path || !hr_path_begins(path) || hr_path_plain(path, &plain) != HR_PATH_OURS) {
        return false;
    }
    memcpy(ret->path, path, plain.len);
    ret->path[plain.len] = '\0';
    ret->map = plain.map;
    ret->len = plain.len;
    ret->rel = plain.rel;
    ret->must_be_dir = plain.must_be_dir;
    return true;
}

bool hr_path_find_as(int dirfd, const char *path, bool follow, struct hr_place *ret)
{
    bool inside;
    uint32_t root;
    if (HR_LIKELY(take_plain(path, ret))) {
        return true;
    }
    if (!hr_path_maybe(dirfd, path) || (!follow && hr_path_may_be_proc(path) && is_proc_link(path))) {
        return false;
    }
    int len = resolve(dirfd, path, ret, &inside);
    if (len < 0) {
        return false;
    }
    ret->len = (uint32_t)len;
    if (!hr_path_under(ret->path, &ret->map, &root)) {
        return hr_alias_find(dirfd, path, follow, ret);
    }
    ret->rel = root + (ret->path[root] == '/');
    return true;
}

bool hr_path_find(int dirfd, const char *path, struct hr_place *ret)
{
    return hr_path_find_as(dirfd, path, false, ret);
}

const char *hr_path_outside(int dirfd, const char *path, struct hr_place *scratch)
{
    unsigned map;
    uint32_t root;
    bool inside;
    if (!hr_active || !hr_path_maybe(dirfd, path)) {
        return path;
    }
    bool through_proc = hr_path_may_be_proc(path) && leads_through_proc(path) && !is_proc_link(path);
    if (path[0] == '/' && !through_proc && !hr_path_under(path, &map, &root)) {
        return path;
    }
    int len = resolve(dirfd, path, scratch, &inside);
    if (len < 0 || (path[0] != '/' && !inside)) {
        return path;
    }
    if (scratch->must_be_dir && len > 1 && (size_t)len + 1 < sizeof(scratch->path)) {
        scratch->path[len] = '/';
        scratch->path[len + 1] = '\0';
    }
    return scratch->path;
}

bool hr_path_is_way(int dirfd, const char *path, struct hr_place *scratch)
{
    bool inside;
    int len = resolve(dirfd, path, scratch, &inside);
    return len > 0 && hr_path_above(scratch->path, (size_t)len);
}

bool hr_path_parent(int dirfd, const char *path, struct hr_place *ret)
{
    bool inside;
    int len = resolve_as(dirfd, path, true, ret, &inside);
    while (len > 1 && ret->path[len - 1] != '/') {
        len--;
    }
    if (len <= 1) {
        return false;
    }
    ret->path[len - 1] = '\0';
    return true;
}

bool hr_path_is_way_to_any(int dirfd, const char *path, struct hr_place *scratch)
{
    bool inside;
    int len = resolve(dirfd, path, scratch, &inside);
    return len > 0 &&
           (hr_path_above(scratch->path, (size_t)len) || hr_path_above_link(scratch->path, (size_t)len));
}

bool hr_path_of_fd(int fd, struct hr_place *ret)
{
    bool inside;
    uint32_t root;
    if (fd == AT_FDCWD ? !hr_cwd_inside() : !hr_standin_maybe(fd)) {
        return false;
    }
    int len = base_of(fd, ret->path, sizeof(ret->path), &inside);
    if (len < 0 || !inside) {
        return false;
    }
    if (!hr_path_under(ret->path, &ret->map, &root)) {
        hr_way_fill(ret, (size_t)len);
        return true;
    }
    ret->len = (uint32_t)len;
    ret->rel = root + (ret->path[root] == '/');
    ret->must_be_dir = true;
    return true;
}
