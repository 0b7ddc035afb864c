/* What an administrator, or a socket, does with a mapped name is refused. On a local copy nothing is tried.
 */
#include <stddef.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/swap.h>
#include <sys/un.h>

#include "tests/preload/probe.h"

static void refused(const char *what, int result, int want)
{
    int error = errno;
    probe_expect(result < 0 && error == want, "%s: %s, not %s", what, probe_errno(result < 0 ? error : 0),
                 probe_errno(want));
}

static void names(const char *file, const char *dir, const char *missing)
{
    refused("chroot", chroot(dir), EPERM);
    refused("chroot missing", chroot(missing), ENOENT);
    refused("acct", acct(file), EROFS);
    refused("acct missing", acct(missing), ENOENT);
    refused("swapon", swapon(file, 0), EINVAL);
    refused("swapoff", swapoff(file), EINVAL);
    refused("mount onto a map", mount("none", dir, "tmpfs", 0, NULL), EINVAL);
    refused("mount of a map", mount(dir, "/mnt", NULL, MS_BIND, NULL), EINVAL);
    refused("mount onto nothing", mount("none", missing, "tmpfs", 0, NULL), ENOENT);
    refused("umount", umount(dir), EINVAL);
    refused("umount2", umount2(probe_root, MNT_DETACH), EINVAL);
}

static int bind_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    if (len >= sizeof(address.sun_path)) {
        printf("the path is too long for a socket\n");
        exit(1);
    }
    memcpy(address.sun_path, path, len);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    int result =
        bind(fd, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
    int error = errno;
    close(fd);
    errno = error;
    return result;
}

int main(int argc, char **argv)
{
    char relative[] = "hr-probe.sock";
    probe_begin(argc, argv);
    probe_walk();
    char *file = probe_path(probe_some(DT_REG, 0)), *dir = probe_path(probe_some(DT_DIR, 0));
    char *missing = probe_path("no-such-name");
    if (probe_mapped()) {
        names(file, dir, missing);
        refused("bind", bind_to(missing), EROFS);
        refused("bind to a file", bind_to(file), EADDRINUSE);
        probe_expect(chdir(probe_root) == 0, "chdir");
        refused("bind inside", bind_to(relative), EROFS);
        probe_expect(chdir("..") == 0, "chdir back");
    }
    probe_say("bind beside the tree", bind_to(relative) == 0);
    unlink(relative);
    printf("entries %zu\n", probe_count);
    return probe_wrong;
}
