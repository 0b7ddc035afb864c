#include "interpose/door.h"

#include <fcntl.h>

#include "interpose/identity.h"
#include "interpose/standin.h"
#include "interpose/sys.h"
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

static bool starts(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

bool hr_door_names_file_looked(const char *path)
{
    struct stat stat;
    bool proc = starts(path, "/proc/") && (strstr(path, "/fd/") || strstr(path, "/map_files/"));
    if (!proc && !starts(path, "/dev/fd/") && !starts(path, "/dev/std")) {
        return false;
    }
    int fd = (int)HR_SYS4(SYS_openat, AT_FDCWD, path, O_PATH | O_CLOEXEC, 0);
    bool ours = fd >= 0 && hr_identity_fd(fd, &stat);
    if (fd >= 0) {
        HR_SYS1(SYS_close, fd);
    }
    return ours;
}
