#include "interpose/door.h"

#include "interpose/identity.h"
#include "interpose/standin.h"
#include "interpose/inner.h"

bool hr_door_fd_looked(int fd)
{
    struct hr_place place;
    struct stat stat;
    return (hr_standin_maybe(fd) && hr_path_of_fd(fd, &place)) || hr_identity_fd(fd, &stat);
}
