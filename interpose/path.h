/* Does a path belong to a map? Canonical form on the stack; textual only (DESIGN: path match).
 * Async-signal-safe. */
#ifndef HR_PATH_H
#define HR_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/links.h"
#include "config/maps.h"

#define HR_PLACE_MAX 4096 /* PATH_MAX */

/* No map's: a directory that is there only because a map lies below it (way.h). */
#define HR_WAY HR_MAPS_MAX

struct hr_place {
    unsigned map;            /* number of the map in hr_maps, or HR_WAY */
    uint32_t len;            /* of path */
    uint32_t rel;            /* offset in path of what follows the map's root ("" for the root itself) */
    bool must_be_dir;        /* the caller's path ended in '/' or '/.' */
    char path[HR_PLACE_MAX]; /* canonical absolute path, terminated */
};

/* Once, before hr_active: the maps that decide. They must stay. */
void hr_path_init(const struct hr_maps *maps);

/* By the byte behind the leading slash: 1 where an absolute path may lead into a map even if nothing climbs
 * in it (a map's root starts so; '.', '/' and the root itself, which only the canonical form tells). */
extern uint8_t hr_path_first[256] __attribute__((visibility("hidden")));
/* From now on a stand-in directory may be reached through /proc or /dev (climb.h). */
void hr_path_through_proc(void);

/* By map: does another one's root lie below it? Then its index alone does not tell what is there. */
extern bool hr_path_nested[HR_MAPS_MAX] __attribute__((visibility("hidden")));

/* Does ".." occur in it, and is it a component? Only then may a path leave its first component. */
bool hr_path_climbs(const char *path);
bool hr_path_maybe_looked(int dirfd, const char *path);
/* Of an absolute path that is no map's by its text: may an alias, or a name in /proc or /dev, lead into one?
 */
bool hr_path_led(const char *path);
/* Is it absolute, and may it lead into a map by its plain text? */
static inline bool hr_path_begins(const char *path)
{
    return path[0] == '/' && hr_path_first[(unsigned char)path[1]];
}

/* May it be a name in /proc or /dev? By two bytes: those who ask look closer. */
static inline bool hr_path_may_be_proc(const char *path)
{
    return path[0] == '/' && (path[1] == 'p' || path[1] == 'd');
}

/* The fast half of hr_path_find: false is a certain "not ours, pass it through untouched"; true means look.
 * Needs no big stack frame, so hooks ask it first and keep struct hr_place in a function of its own
 * (HR_NOINLINE). */
static inline bool hr_path_maybe(int dirfd, const char *path)
{
    if (__builtin_expect(path && path[0] == '/' && !hr_path_first[(unsigned char)path[1]], 1)) {
        return hr_path_climbs(path);
    }
    return hr_path_maybe_looked(dirfd, path);
}

/* False: not ours, `ret` is undefined, pass the call through. dirfd as in openat (AT_FDCWD or a descriptor;
 * only a stand-in directory of ours makes a relative path ours). The fast "no" costs < 20 ns and no system
 * call. */
bool hr_path_find(int dirfd, const char *path, struct hr_place *ret);
/* follow: the call follows a symlink at the very end, so that an alias (alias.h) itself is ours, too. */
bool hr_path_find_as(int dirfd, const char *path, bool follow, struct hr_place *ret);
/* When hr_path_find said no: the path to hand to the kernel. It is `path` itself except where the kernel
 * would start from a stand-in directory and the caller means its mapped place ("../../etc/hosts" with the
 * working directory inside a map, "/data/../etc", "/proc/self/cwd/.."): then an absolute path in
 * scratch->path, right with any dirfd. */
const char *hr_path_outside(int dirfd, const char *path, struct hr_place *scratch);
/* An empty path with AT_EMPTY_PATH: is the descriptor itself a stand-in directory, of a map's or of a way
 * (AT_FDCWD: does the working directory have one)? */
bool hr_path_of_fd(int fd, struct hr_place *ret);

/* Does (dirfd, path) name a directory on the way to a map's root? Then relative paths from a descriptor of it
 * may lead into the map (hr_standin_mark_above). scratch is overwritten. */
bool hr_path_is_way(int dirfd, const char *path, struct hr_place *scratch);
/* The canonical path of the directory that (dirfd, path) lies in, in ret->path. False: there is none. What is
 * before a ".." was looked at. */
bool hr_path_parent(int dirfd, const char *path, struct hr_place *ret);
/* hr_path_is_way, of a map's root or an alias. */
bool hr_path_is_way_to_any(int dirfd, const char *path, struct hr_place *scratch);

/* ---- Pure: no descriptor, no working directory ---- */

/* Joins (base when path is relative) and canonicalises into out; length, or -ENAMETOOLONG. base is canonical
 * and may be out itself. */
int hr_path_join(const char *base, size_t base_len, const char *path, char *out, size_t room,
                 bool *ret_must_be_dir);
/* An absolute path in canonical form, but for one slash at its end, below or at a map's root, as programs
 * mostly have it: what hr_path_join makes of it is itself. */
struct hr_plain {
    unsigned map;
    uint32_t len; /* without that slash */
    uint32_t rel; /* as hr_place's */
    bool must_be_dir;
};
enum hr_path_look {
    HR_PATH_ODD,       /* only its canonical form tells */
    HR_PATH_ELSEWHERE, /* canonical, no map's */
    HR_PATH_OURS
};
enum hr_path_look hr_path_plain(const char *path, struct hr_plain *ret); /* ret: OURS only */
/* Does the text start with a map's root, at a component boundary? The longest wins. */
bool hr_path_under(const char *path, unsigned *ret_map, uint32_t *ret_len);
/* Aliases, after hr_path_init: canonical absolute paths of symlinks, HR_LINKS_MAX of them at most. The text
 * must stay. */
bool hr_path_add_link(const char *path, size_t len);
/* Does the text start with an alias, at a component boundary? The longest wins. */
bool hr_path_linked(const char *path, uint32_t *ret_len);
/* Is this canonical path a directory on the way to an alias? */
bool hr_path_above_link(const char *path, size_t len);
/* Is this canonical path a directory on the way to a map's root ("/mnt" of "/mnt/data")? */
bool hr_path_above(const char *path, size_t len);
/* The same of any absolute path, as far as its plain text tells ("/mnt/" too); ways to aliases as well. */
bool hr_path_above_looked(const char *path);
static inline bool hr_path_above_text(const char *path)
{
    return hr_path_first[(unsigned char)path[1]] && hr_path_above_looked(path);
}
/* The same of any path, NULL too. */
static inline bool hr_path_above_maybe(const char *path)
{
    return path && path[0] == '/' && hr_path_above_text(path);
}
/* base is canonical: is there a map's root or an alias below it whose next component starts as `name` does?
 */
bool hr_path_above_then(const char *base, size_t base_len, const char *name);
/* Does a path hold an empty, "." or ".." component, so that only its canonical form tells? ("/a/" does not.)
 */
bool hr_path_is_odd(const char *path);

#endif
