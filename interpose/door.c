#include "interpose/door.h"

#include "interpose/identity.h"
#include "interpose/standin.h"
#include "interpose/inner.h"

HR_NOINLINE bool hr_door_looked(int dirfd, const char **path, bool follow, struct hr_place *ret_place)
{
    if (hr_path_find_as(dirfd, *path, follow, ret_place) || hr_alias_ahead(dirfd, *path, follow, ret_place)) {
        return true;
    }
    *path = hr_path_outside(dirfd, *path, ret_place);
    return false;
}

bool hr_door_fd_looked(int fd)
{
    struct hr_place place;
    struct stat stat;
    return (hr_standin_maybe(fd) && hr_path_of_fd(fd, &place)) || hr_identity_fd(fd, &stat);
}
