/* What every hook with a path asks first: is it ours? */
#ifndef HR_DOOR_H
#define HR_DOOR_H

#include "interpose/alias.h"
#include "interpose/path.h"
#include "interpose/real.h"
#include "interpose/way.h"

/* True: ours, *ret_place says where. False: not ours, and *path is what the real call is to be given (it may
 * point into *ret_place, where a relative path led out of a map). follow: as hr_path_find_as; with
 * symlinks=follow a path that the kernel does not find is ours where its symlinks lead into a map. */
bool hr_door_looked(int dirfd, const char **path, bool follow, struct hr_place *ret_place);
static inline bool hr_door_as(int dirfd, const char **path, bool follow, struct hr_place *ret_place)
{
    return __builtin_expect(hr_active, 0) &&
           (hr_path_maybe(dirfd, *path) || __builtin_expect(hr_alias_follows, 0)) &&
           hr_door_looked(dirfd, path, follow, ret_place);
}
static inline bool hr_door(int dirfd, const char **path, struct hr_place *ret_place)
{
    return hr_door_as(dirfd, path, false, ret_place);
}
/* Of calls that follow a symlink at the very end. */
static inline bool hr_door_target(int dirfd, const char **path, struct hr_place *ret_place)
{
    return hr_door_as(dirfd, path, true, ret_place);
}

/* Of calls that read, after the kernel said ENOENT of (dirfd, path), which does not lie in *ret_place: is it
 * ours after all, by its symlinks or as a way? errno is kept. */
static inline bool hr_door_missed(int dirfd, const char *path, bool follow, struct hr_place *ret_place)
{
    return hr_alias_missed(dirfd, path, follow, ret_place) || hr_way_missed(dirfd, path, ret_place);
}

/* Is the descriptor itself one of ours: a cache file, a face or a stand-in directory? One fstat. */
bool hr_door_fd_looked(int fd);
static inline bool hr_door_fd(int fd)
{
    return __builtin_expect(hr_active, 0) && hr_door_fd_looked(fd);
}

/* Is it a name in /proc or /dev of a descriptor, of any process, that is a cache file or a face? The kernel
 * would let its owner, or root, change what lies there. */
bool hr_door_names_file_looked(const char *path);
static inline bool hr_door_names_file(const char *path)
{
    return __builtin_expect(hr_active, 0) && path && hr_path_may_be_proc(path) &&
           hr_door_names_file_looked(path);
}

/* The *at calls that take a descriptor alone: a NULL path, or an empty one with AT_EMPTY_PATH. */
static inline bool hr_door_means_fd(const char *path, int flags)
{
    return !path || ((flags & AT_EMPTY_PATH) && path[0] == '\0');
}

#endif
