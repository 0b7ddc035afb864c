#include "interpose/way.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "interpose/alias.h"
#include "interpose/context.h"
#include "interpose/sys.h"
#include "interpose/view.h"
#include "interpose/inner.h"

#define NS 1000000000ll
#define WAY_MODE 0777 /* what mkdir(1) gives, less the umask */

void hr_way_fill(struct hr_place *ret, size_t len)
{
    ret->map = HR_WAY;
    ret->len = ret->rel = (uint32_t)len;
    ret->must_be_dir = true;
}

bool hr_way_at(struct hr_place *place)
{
    struct stat at;
    unsigned map;
    uint32_t root;
    size_t len = strlen(place->path);
    if (!hr_path_above(place->path, len) || hr_path_under(place->path, &map, &root) ||
        HR_SYS4(SYS_newfstatat, AT_FDCWD, place->path, &at, AT_SYMLINK_NOFOLLOW) != -ENOENT) {
        return false;
    }
    hr_way_fill(place, len);
    return true;
}

HR_NOINLINE bool hr_way_missed_looked(int dirfd, const char *path, struct hr_place *ret)
{
    return hr_path_is_way(dirfd, path, ret) ? hr_way_at(ret) : *path && hr_alias_way(ret) && hr_way_at(ret);
}

/* The directory that (dirfd, path) would lie in, where it is a way. */
static bool parent_way(int dirfd, const char *path, struct hr_place *ret)
{
    return hr_path_parent(dirfd, path, ret) && (hr_way_at(ret) || (hr_alias_way(ret) && hr_way_at(ret)));
}

/* Can a name be given to something new? 0; -ENOENT of what names a directory that is there, or is not. */
static int judge_name(const char *path, int slash)
{
    size_t len = strlen(path);
    size_t end = len;
    while (end > 0 && path[end - 1] == '/') {
        end--;
    }
    size_t start = end;
    while (start > 0 && path[start - 1] != '/') {
        start--;
    }
    const char *name = path + start;
    if (start == end || (name[0] == '.' && (end - start == 1 || (end - start == 2 && name[1] == '.')))) {
        return -ENOENT;
    }
    return end < len && slash ? slash : end - start > HR_NAME_BYTES_MAX ? -ENAMETOOLONG : 0;
}

int hr_way_make_itself(struct hr_place *place)
{
    for (char *end = place->path; end;) {
        end = strchr(end + 1, '/');
        if (end) {
            *end = '\0';
        }
        int made = (int)HR_SYS3(SYS_mkdirat, AT_FDCWD, place->path, WAY_MODE);
        if (made < 0 && made != -EEXIST) {
            return made;
        }
        if (end) {
            *end = '/';
        }
    }
    return 1;
}

HR_NOINLINE int hr_way_make(int dirfd, const char *path, int slash)
{
    struct hr_place place;
    if (!*path || !parent_way(dirfd, path, &place)) {
        return 0;
    }
    int error = judge_name(path, slash);
    return error ? error : hr_way_make_itself(&place);
}

bool hr_way_made_looked(int dirfd, const char *path, int slash)
{
    int made = hr_way_make(dirfd, path, slash);
    if (made < 0) {
        errno = -made;
    }
    return made > 0;
}

/* The slash at its end keeps it apart from a map's, in which "=" follows the path. */
uint64_t hr_way_hash(const struct hr_place *place)
{
    return hr_fnv1a(hr_fnv1a(HR_FNV_BASIS, place->path, place->len), "/", 1);
}

bool hr_way_of_hash(uint64_t wanted, struct hr_place *ret)
{
    for (unsigned i = 0; i < hr_maps.count; i++) {
        const struct hr_map *map = &hr_maps.map[i];
        uint64_t hash = HR_FNV_BASIS;
        for (size_t at = 0; at < map->path_len; at++) {
            hash = hr_fnv1a(hash, &map->path[at], 1);
            if (hash == wanted && at > 0 && map->path[at] == '/') {
                memcpy(ret->path, map->path, at);
                ret->path[at] = '\0';
                hr_way_fill(ret, at);
                return true;
            }
        }
    }
    return false;
}

uint64_t hr_way_ino(const char *path, size_t len)
{
    return hr_object_ino(HR_WAY_SALT, path + 1, len - 1, "", 0);
}

void hr_way_nearest(struct hr_place *place, struct stat *ret)
{
    size_t len = place->len;
    memset(ret, 0, sizeof(*ret));
    do {
        while (len > 1 && place->path[len - 1] != '/') {
            len--;
        }
        len -= len > 1;
        place->path[len] = '\0';
    } while (HR_SYS4(SYS_newfstatat, AT_FDCWD, place->path, ret, 0) < 0 && len > 1);
    place->len = (uint32_t)len;
}

void hr_way_object(const struct hr_place *place, struct hr_object *ret)
{
    struct hr_place up = *place;
    struct stat at;
    hr_way_nearest(&up, &at);
    *ret = (struct hr_object){.kind = HR_KIND_DIR,
                              .map = HR_WAY,
                              .size = HR_DIR_SIZE_BYTES,
                              .mtime_ns = at.st_mtim.tv_sec * NS + at.st_mtim.tv_nsec,
                              .ino = hr_way_ino(place->path, place->len),
                              .dev = (uint32_t)at.st_dev};
}

unsigned hr_way_map(const struct hr_place *place)
{
    for (unsigned i = 0; i < hr_maps.count; i++) {
        const struct hr_map *map = &hr_maps.map[i];
        if (map->path_len > place->len && map->path[place->len] == '/' &&
            memcmp(map->path, place->path, place->len) == 0) {
            return i;
        }
    }
    return HR_WAY;
}
