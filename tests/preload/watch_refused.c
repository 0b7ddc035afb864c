/* Watches and handles of mapped names are refused; of others they work. Flags that the kernel does not know
 * are refused alike on both sides. */
#include <sys/fanotify.h>
#include <sys/inotify.h>

#include "tests/preload/probe.h"

static void refused(const char *what, int result, int want)
{
    int error = errno;
    probe_expect(result < 0 && error == want, "%s: %s, not %s", what, probe_errno(result < 0 ? error : 0),
                 probe_errno(want));
}

static void watches(const char *file, const char *dir)
{
    int fd = inotify_init1(IN_CLOEXEC);
    char *missing = probe_path("no-such-name");
    probe_say("watch beside the tree", inotify_add_watch(fd, "/", IN_CREATE) >= 0);
    probe_say("watch of a missing name", inotify_add_watch(fd, missing, IN_MODIFY) >= 0);
    if (probe_mapped()) {
        refused("watch of a file", inotify_add_watch(fd, file, IN_MODIFY), ENOSPC);
        refused("watch of a directory", inotify_add_watch(fd, dir, IN_CREATE | IN_ONLYDIR), ENOSPC);
        refused("watch of the root", inotify_add_watch(fd, probe_root, IN_CREATE), ENOSPC);
    }
    free(missing);
    close(fd);
}

/* Our answer needs no right to make a group: the path is looked at first. */
static void marks(const char *file, const char *dir)
{
    int fd = open(file, O_RDONLY);
    if (probe_mapped()) {
        refused("mark of a file", fanotify_mark(-1, FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, file), EOPNOTSUPP);
        refused("mark of a directory", fanotify_mark(-1, FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, dir), EOPNOTSUPP);
        refused("mark of a descriptor", fanotify_mark(-1, FAN_MARK_ADD, FAN_OPEN, fd, NULL), EOPNOTSUPP);
    }
    int result = fanotify_mark(-1, FAN_MARK_FLUSH, 0, AT_FDCWD, file);
    probe_expect(result < 0 && (errno == EBADF || errno == ENOSYS || errno == EPERM), "flush of no group");
    close(fd);
}

static void handles(const char *file, const char *dir)
{
    struct file_handle *handle = calloc(1, sizeof(*handle) + MAX_HANDLE_SZ);
    int mount_id, fd = open(file, O_RDONLY), dirfd = open(dir, O_RDONLY | O_DIRECTORY);
    handle->handle_bytes = MAX_HANDLE_SZ;
    if (probe_mapped()) {
        refused("handle of a file", name_to_handle_at(AT_FDCWD, file, handle, &mount_id, 0), EOPNOTSUPP);
        refused("handle of a directory", name_to_handle_at(AT_FDCWD, dir, handle, &mount_id, 0), EOPNOTSUPP);
        refused("handle of a descriptor", name_to_handle_at(fd, "", handle, &mount_id, AT_EMPTY_PATH),
                EOPNOTSUPP);
        refused("handle of a directory's descriptor",
                name_to_handle_at(dirfd, "", handle, &mount_id, AT_EMPTY_PATH), EOPNOTSUPP);
    }
    char *missing = probe_path("no-such-name");
    probe_say("handle of a missing name", name_to_handle_at(AT_FDCWD, missing, handle, &mount_id, 0) == 0);
    free(missing);
    free(handle);
    close(fd);
    close(dirfd);
}

static void flags(const char *file)
{
    struct stat st;
    struct statx sx;
    probe_say("fstatat, no such flag", fstatat(AT_FDCWD, file, &st, 0x40000000) == 0);
    probe_say("fstatat, AT_NO_AUTOMOUNT", fstatat(AT_FDCWD, file, &st, AT_NO_AUTOMOUNT) == 0);
    probe_say("statx, no such flag", statx(AT_FDCWD, file, 0x40000000, STATX_ALL, &sx) == 0);
    probe_say("statx, both kinds of sync",
              statx(AT_FDCWD, file, AT_STATX_FORCE_SYNC | AT_STATX_DONT_SYNC, STATX_ALL, &sx) == 0);
    probe_say("statx, reserved mask", statx(AT_FDCWD, file, 0, STATX__RESERVED, &sx) == 0);
    probe_say("statx, AT_STATX_DONT_SYNC", statx(AT_FDCWD, file, AT_STATX_DONT_SYNC, STATX_SIZE, &sx) == 0);
    probe_expect((sx.stx_mask & STATX_SIZE) && S_ISREG(sx.stx_mode), "statx mask");
    probe_say("faccessat, AT_EACCESS", faccessat(AT_FDCWD, file, R_OK, AT_EACCESS) == 0);
}

int main(int argc, char **argv)
{
    probe_begin(argc, argv);
    probe_walk();
    char *file = probe_path(probe_some(DT_REG, 0)), *dir = probe_path(probe_some(DT_DIR, 0));
    watches(file, dir);
    marks(file, dir);
    handles(file, dir);
    flags(file);
    return probe_wrong;
}
