/* A way: a directory that is there only because a map lies below it ("/sets" of "/sets/x" and "/sets/y",
 * where this machine has no /sets). Its place is of no map (HR_WAY); view.h answers for it without asking
 * anybody, and a descriptor or a working directory of it is a stand-in (standin.h), dirs/HASH of its path.
 * Async-signal-safe. */
#ifndef HR_WAY_H
#define HR_WAY_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "interpose/alias.h"
#include "interpose/path.h"
#include "interpose/real.h"

struct hr_object;

/* Of the hash of which a way's inode numbers are. */
#define HR_WAY_SALT UINT64_C(0x73796177) /* "ways" */

/* Is the canonical path in place->path a way that the kernel knows nothing of? Then the rest of *place is
 * filled. One system call. */
bool hr_way_at(struct hr_place *place);
/* After the kernel said ENOENT of (dirfd, path), which does not lie in *ret. errno is kept. */
bool hr_way_missed_looked(int dirfd, const char *path, struct hr_place *ret);
static inline bool hr_way_missed(int dirfd, const char *path, struct hr_place *ret)
{
    return __builtin_expect(hr_active, 0) && errno == ENOENT && path &&
           (hr_path_above_maybe(path) || hr_path_maybe(dirfd, path) || hr_alias_follows) &&
           hr_way_missed_looked(dirfd, path, ret);
}

/* Before a call that must not make anything else of it: is (dirfd, path), no map's, a way? */
static inline bool hr_way_is(int dirfd, const char *path, struct hr_place *ret)
{
    return __builtin_expect(hr_active, 0) && path &&
           (hr_path_above_maybe(path) || hr_path_maybe(dirfd, path) || hr_alias_follows) &&
           hr_way_missed_looked(dirfd, path, ret);
}

/* Of a call that would give (dirfd, path) to something new: would that lie in a way? Then it is made, with
 * the ways before it, since to the program they are there. 1: made; 0: it does not; or why no directory can
 * be made, or no such name in it. slash: what the kernel says of a name with a slash at its end, where the
 * way is there: 0, and -ENOENT of new names but directories'. One system call at least where (dirfd, path)
 * lies directly above a map. */
int hr_way_make(int dirfd, const char *path, int slash);
/* The same of a way's place: 1, or why no directory can be made. */
int hr_way_make_itself(struct hr_place *place);
static inline bool hr_way_may_hold(int dirfd, const char *path)
{
    return hr_path_begins(path) || hr_path_maybe(dirfd, path) || hr_alias_follows;
}
/* Before such a call: 0 or -errno. */
static inline int hr_way_ahead(int dirfd, const char *path, int slash)
{
    int made = hr_way_may_hold(dirfd, path) ? hr_way_make(dirfd, path, slash) : 0;
    return made < 0 ? made : 0;
}
/* After the kernel's ENOENT of it: true: it is to be made again. False: errno is the answer. */
bool hr_way_made_looked(int dirfd, const char *path, int slash);
static inline bool hr_way_made(int dirfd, const char *path, int slash)
{
    return __builtin_expect(hr_active, 0) && errno == ENOENT && path && hr_way_may_hold(dirfd, path) &&
           hr_way_made_looked(dirfd, path, slash);
}

/* What the call says that is made again: when it succeeds, errno is what it was before the first. */
static inline int hr_way_again(int errno_before, int result)
{
    if (result >= 0) {
        errno = errno_before;
    }
    return result;
}

/* Fills *ret for a way's canonical path, `len` bytes in ret->path. */
void hr_way_fill(struct hr_place *ret, size_t len);
/* Of the stand-in. No map's: those hash more than a path. */
uint64_t hr_way_hash(const struct hr_place *place);
bool hr_way_of_hash(uint64_t hash, struct hr_place *ret);

uint64_t hr_way_ino(const char *path, size_t len);
/* It looks like a directory made in the nearest one that is there. */
void hr_way_object(const struct hr_place *place, struct hr_object *ret);
/* Cuts a way's path to that nearest directory's. */
void hr_way_nearest(struct hr_place *place, struct stat *ret);
/* The first map below. */
unsigned hr_way_map(const struct hr_place *place);

#endif
