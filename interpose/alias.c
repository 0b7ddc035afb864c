#include "interpose/alias.h"

#include <sys/stat.h>

#include "config/links.h"
#include "interpose/climb.h"
#include "interpose/context.h"
#include "interpose/cwd.h"
#include "interpose/standin.h"
#include "interpose/sys.h"
#include "interpose/tiny.h"
#include "interpose/inner.h"

_Static_assert(HR_LINK_PATH_MAX == HR_PLACE_MAX, "a place's path is walked in place");

bool hr_alias_follows;
static bool follows[HR_MAPS_MAX];
static char names[HR_LINKS_TEXT_MAX];

static long read_link(const char *path, char *out, size_t room)
{
    return HR_SYS4(SYS_readlinkat, AT_FDCWD, path, out, room);
}

static bool is_word(struct hr_span span, const char *word)
{
    return span.len == strlen(word) && memcmp(span.ptr, word, span.len) == 0;
}

void hr_alias_init(void)
{
    const char *text = hr_env(HR_LINKS_VARIABLE);
    const char *setting = hr_env("HEADRACE_SYMLINKS");
    size_t used = 0;
    for (unsigned i = 0; i < hr_maps.count; i++) {
        struct hr_span own = hr_map_option(&hr_maps.map[i], "symlinks");
        follows[i] =
            own.ptr ? is_word(own, "follow") : setting && setting[0] == 'f' && !strcmp(setting, "follow");
        hr_alias_follows |= follows[i];
    }
    while (text && *text) {
        int len = hr_links_next(&text, names + used, sizeof(names) - used);
        if (len > 0 && hr_path_add_link(names + used, (size_t)len)) {
            used += (size_t)len + 1;
        }
    }
}

static bool fill(struct hr_place *place, int len, bool must_be_dir)
{
    uint32_t root;
    if (len <= 0 || !hr_path_under(place->path, &place->map, &root)) {
        return false;
    }
    place->len = (uint32_t)len;
    place->rel = root + (place->path[root] == '/');
    place->must_be_dir = must_be_dir;
    return true;
}

/* Where the kernel would begin: the program's name of that directory, its length or -errno. */
static int start_of(int dirfd, const char *path, char *out)
{
    struct hr_place place;
    if (path[0] == '/') {
        memcpy(out, "/", 2);
        return 1;
    }
    if (dirfd == AT_FDCWD) {
        return hr_cwd_get(out, HR_PLACE_MAX);
    }
    int len = hr_standin_readlink(dirfd, out, HR_PLACE_MAX);
    if (len > 0 && hr_standin_place(out, &place)) {
        memcpy(out, place.path, (size_t)place.len + 1);
        len = (int)place.len;
    }
    return len > 0 && out[0] != '/' ? -ENOENT : len;
}

static bool ends_as_dir(const char *path)
{
    size_t len = strlen(path);
    return len > 0 && (path[len - 1] == '/' || (path[len - 1] == '.' && (len == 1 || path[len - 2] == '/')));
}

/* As the kernel goes, one component after the other, what the program gave. */
static bool walk_all(int dirfd, const char *path, bool follow, struct hr_place *ret)
{
    bool must_be_dir = ends_as_dir(path);
    int len = start_of(dirfd, path, ret->path);
    if (len > 0) {
        len = hr_links_walk(&hr_maps, ret->path, (size_t)len, path, follow || must_be_dir, read_link,
                            hr_climb_enters);
    }
    if (len == -ENOTDIR) { /* the name that is no directory says so by itself */
        return fill(ret, (int)strlen(ret->path), true);
    }
    return fill(ret, len, must_be_dir);
}

HR_NOINLINE bool hr_alias_find(int dirfd, const char *path, bool follow, struct hr_place *place)
{
    uint32_t link_len;
    if (!hr_path_linked(place->path, &link_len)) {
        return false;
    }
    /* "a/../link" is the link of this directory only where "a" is no symlink. */
    if (hr_path_climbs(path)) {
        return walk_all(dirfd, path, follow, place);
    }
    bool must_be_dir = place->must_be_dir;
    int len = hr_links_walk_from(&hr_maps, place->path, place->len, link_len, follow || must_be_dir,
                                 read_link, hr_climb_enters);
    return fill(place, len, must_be_dir);
}

HR_NOINLINE bool hr_alias_way(struct hr_place *place)
{
    uint32_t link_len;
    if (!hr_alias_follows && !hr_path_linked(place->path, &link_len)) {
        return false;
    }
    int len = hr_links_walk(&hr_maps, place->path, 1, place->path, true, read_link, hr_climb_enters);
    return len > 0 && hr_path_above(place->path, (size_t)len);
}

HR_NOINLINE bool hr_alias_missed_looked(int dirfd, const char *path, bool follow, struct hr_place *ret)
{
    return *path && walk_all(dirfd, path, follow, ret) && follows[ret->map];
}

HR_NOINLINE bool hr_alias_ahead_looked(int dirfd, const char *path, bool follow, struct hr_place *ret)
{
    struct stat stat;
    return *path &&
           HR_SYS4(SYS_newfstatat, dirfd, path, &stat, follow ? 0 : AT_SYMLINK_NOFOLLOW) == -ENOENT &&
           hr_alias_missed_looked(dirfd, path, follow, ret);
}
