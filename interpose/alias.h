/* Symlinks outside the maps that lead into one. Those that `run` saw (HEADRACE_ALIAS) are aliases: a path at
 * or below one is resolved before the kernel is asked, by a readlink, so one that was changed since leads
 * where it leads now. With symlinks=follow a path that the kernel does not find is resolved as well. The last
 * component stays itself for calls that do not follow it. Async-signal-safe. */
#ifndef HR_ALIAS_H
#define HR_ALIAS_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>

#include "interpose/path.h"
#include "interpose/real.h"

/* Constructor, after hr_path_init. */
void hr_alias_init(void);

/* place->path (canonical, place->len bytes, no map's) lies at or below an alias: where it leads. False: into
 * no map; place is then undefined. dirfd and path are what the program gave. */
bool hr_alias_find(int dirfd, const char *path, bool follow, struct hr_place *place);

/* After the kernel said ENOENT of (dirfd, path). errno is kept. */
extern bool hr_alias_follows; /* symlinks=follow of any map */
bool hr_alias_missed_looked(int dirfd, const char *path, bool follow, struct hr_place *ret);
static inline bool hr_alias_missed(int dirfd, const char *path, bool follow, struct hr_place *ret)
{
    return __builtin_expect(hr_alias_follows, 0) && errno == ENOENT && path &&
           hr_alias_missed_looked(dirfd, path, follow, ret);
}

/* The same before a call that libc makes inside itself, or that would change something: the kernel finds
 * nothing at (dirfd, path). One system call, with symlinks=follow alone. */
bool hr_alias_ahead_looked(int dirfd, const char *path, bool follow, struct hr_place *ret);
static inline bool hr_alias_ahead(int dirfd, const char *path, bool follow, struct hr_place *ret)
{
    return __builtin_expect(hr_alias_follows, 0) && path && hr_alias_ahead_looked(dirfd, path, follow, ret);
}
/* place->path, canonical, lies at or below a symlink: where it leads, if that is on the way to a map. */
bool hr_alias_way(struct hr_place *place);
static inline bool hr_alias_leads(const char *path, struct hr_place *ret)
{
    return hr_alias_ahead(AT_FDCWD, path, true, ret);
}

#endif
