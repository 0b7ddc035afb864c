/* What every hook with a path asks first: is it ours? */
#ifndef HR_DOOR_H
#define HR_DOOR_H

#include "interpose/path.h"
#include "interpose/real.h"

/* True: ours, *ret_place says where. False: not ours, and *path is what the real call is to be given (it may
 * point into *ret_place, where a relative path led out of a map). */
static inline bool hr_door(int dirfd, const char **path, struct hr_place *ret_place)
{
    if (__builtin_expect(!hr_active, 1) || !hr_path_maybe(dirfd, *path)) {
        return false;
    }
    if (hr_path_find(dirfd, *path, ret_place)) {
        return true;
    }
    *path = hr_path_outside(dirfd, *path, ret_place);
    return false;
}

/* The same for calls that follow a symlink at the very end. */
static inline bool hr_door_target(int dirfd, const char **path, struct hr_place *ret_place)
{
    if (__builtin_expect(!hr_active, 1) || !hr_path_maybe(dirfd, *path)) {
        return false;
    }
    if (hr_path_find_as(dirfd, *path, true, ret_place)) {
        return true;
    }
    *path = hr_path_outside(dirfd, *path, ret_place);
    return false;
}

/* Is the descriptor itself one of ours: a cache file, a face or a stand-in directory? One fstat. */
bool hr_door_fd_looked(int fd);
static inline bool hr_door_fd(int fd)
{
    return __builtin_expect(hr_active, 0) && hr_door_fd_looked(fd);
}

/* The *at calls that take a descriptor alone: a NULL path, or an empty one with AT_EMPTY_PATH. */
static inline bool hr_door_means_fd(const char *path, int flags)
{
    return !path || ((flags & AT_EMPTY_PATH) && path[0] == '\0');
}

#endif
