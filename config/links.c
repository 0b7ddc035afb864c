#include "config/links.h"

#include <errno.h>
#include <string.h>

#include "config/piece.h"

#define HOPS_MAX 40 /* MAXSYMLINKS of the kernel */

static size_t drop_last(const char *at, size_t len)
{
    while (len > 1 && at[len - 1] != '/') {
        len--;
    }
    return len > 1 ? len - 1 : 1;
}

/* Length of the component that text starts with. */
static size_t component(const char *text)
{
    return strcspn(text, "/");
}

static const char *behind_slashes(const char *text)
{
    return text + strspn(text, "/");
}

/* at + "/" + the component: the new length, 0: it does not fit. */
static size_t append(char *at, size_t len, const char *part, size_t part_len)
{
    size_t slash = len > 1;
    if (len + slash + part_len >= HR_LINK_PATH_MAX) {
        return 0;
    }
    at[len] = '/';
    memcpy(at + len + slash, part, part_len);
    at[len + slash + part_len] = '\0';
    return len + slash + part_len;
}

/* A directory that exists only because a map lies below it. */
static bool is_way(const struct hr_maps *maps, const char *path, size_t len)
{
    for (unsigned i = 0; i < maps->count; i++) {
        const struct hr_map *map = &maps->map[i];
        if (len < map->path_len && memcmp(path, map->path, len) == 0 && map->path[len] == '/') {
            return true;
        }
    }
    return false;
}

/* Text of the symlink at `at` in front of what is left; false: it does not fit. */
static bool put_in_front(char *left, const char **rest, const char *target, size_t target_len)
{
    size_t rest_len = strlen(*rest);
    if (target_len + rest_len >= HR_LINK_PATH_MAX) {
        return false;
    }
    memmove(left + target_len, *rest, rest_len + 1);
    memcpy(left, target, target_len);
    *rest = left;
    return true;
}

/* Asks about the component that `at` ends in. 0: it is no symlink, or the kernel knows nothing of it and a
 * map lies below; 1: *rest starts with its text; or -errno. */
static int ask(const struct hr_maps *maps, const char *at, size_t len, char *left, const char **rest,
               hr_readlink_fn read_link)
{
    char target[HR_LINK_PATH_MAX];
    long got = read_link(at, target, sizeof(target));
    if (got == -EINVAL || (got == -ENOENT && is_way(maps, at, len))) {
        return 0;
    }
    if (got <= 0) {
        return -ENOENT;
    }
    return put_in_front(left, rest, target, (size_t)got) ? 1 : -ENAMETOOLONG;
}

int hr_links_walk(const struct hr_maps *maps, char *at, size_t at_len, const char *rest, bool follow,
                  hr_readlink_fn read_link, hr_enters_fn enters)
{
    char left[HR_LINK_PATH_MAX];
    size_t rest_len = strlen(rest), len = at_len;
    unsigned hops = 0;
    if (rest_len >= sizeof(left) || at_len >= HR_LINK_PATH_MAX) {
        return -ENAMETOOLONG;
    }
    memcpy(left, rest, rest_len + 1); /* rest may lie behind at */
    rest = left;
    if (*rest == '/') {
        len = 1;
        at[0] = '/';
    }
    at[len] = '\0';
    for (rest = behind_slashes(rest); *rest; rest = behind_slashes(rest)) {
        const char *part = rest;
        size_t part_len = component(part);
        rest += part_len;
        if (part_len == 1 && part[0] == '.') {
            continue;
        }
        size_t parent_len = len;
        if (part_len == 2 && part[0] == '.' && part[1] == '.') {
            int error = enters && hr_maps_find(maps, at, len) ? enters(at) : 0;
            if (error) {
                return error;
            }
            len = drop_last(at, len);
            at[len] = '\0';
            continue;
        }
        len = append(at, len, part, part_len);
        if (len == 0) {
            return -ENAMETOOLONG;
        }
        if (hr_maps_find(maps, at, len) || (*rest == '\0' && !follow)) {
            continue; /* a map holds no symlinks */
        }
        int symlink = ask(maps, at, len, left, &rest, read_link);
        if (symlink < 0) {
            return symlink;
        }
        if (symlink > 0) {
            if (++hops > HOPS_MAX) {
                return -ELOOP;
            }
            len = *rest == '/' ? 1 : parent_len;
            at[0] = '/';
            at[len] = '\0';
        }
    }
    return hr_maps_find(maps, at, len) || is_way(maps, at, len) ? (int)len : -ENOENT;
}

/* Does the symlink's text leave the directory that it lies in? Then that directory's own symlinks count. 1,
 * 0, or -ENOENT: it is no symlink. */
static int climbs(const char *path, hr_readlink_fn read_link)
{
    char target[HR_LINK_PATH_MAX];
    long got = read_link(path, target, sizeof(target) - 1);
    if (got <= 0) {
        return -ENOENT;
    }
    target[got] = '\0';
    for (const char *at = target; target[0] != '/' && (at = strstr(at, "..")) != NULL; at += 2) {
        if ((at == target || at[-1] == '/') && (at[2] == '/' || at[2] == '\0')) {
            return 1;
        }
    }
    return 0;
}

int hr_links_walk_from(const struct hr_maps *maps, char *path, size_t path_len, size_t link_len, bool follow,
                       hr_readlink_fn read_link, hr_enters_fn enters)
{
    char kept = path[link_len];
    if (path_len == link_len && !follow) {
        return -ENOENT; /* the symlink itself */
    }
    path[link_len] = '\0';
    int from_root = climbs(path, read_link);
    path[link_len] = kept;
    if (from_root < 0) {
        return from_root;
    }
    size_t start = from_root ? 1 : drop_last(path, link_len);
    return hr_links_walk(maps, path, start, path + start + (path[start] == '/'), follow, read_link, enters);
}

int hr_links_next(const char **text, char *out, size_t room)
{
    char message[64];
    struct hr_say say;
    size_t len = 0;
    struct hr_piece piece = {*text, strcspn(*text, ";")};
    *text += piece.len + (piece.at[piece.len] == ';');
    if (piece.len == 0) {
        return **text ? -EINVAL : 0;
    }
    hr_say_init(&say, message, sizeof(message));
    if (hr_piece_decode(piece, out, room, &len, "", &say) < 0 || out[0] != '/' || len < 2 ||
        out[len - 1] == '/' || strstr(out, "//") || strstr(out, "/./") || strstr(out, "/../")) {
        return -EINVAL;
    }
    return (int)len;
}
