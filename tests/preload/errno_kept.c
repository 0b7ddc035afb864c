/* A call that succeeds leaves errno alone, on a map as on the kernel's file systems. */
#include "tests/preload/probe.h"

#define MARK 4242

static void kept(const char *what, bool good)
{
    int error = errno;
    probe_expect(good, "%s failed: %s", what, probe_errno(error));
    probe_expect(error == MARK, "%s changed errno to %s", what, probe_errno(error));
    printf("%s\n", what);
    errno = MARK;
}

int main(int argc, char **argv)
{
    struct stat st;
    struct statx stx;
    char buffer[PATH_MAX];
    probe_begin(argc, argv);
    probe_walk();
    char *file = probe_path(probe_some(DT_REG, 0));
    char *folder = probe_path(probe_some(DT_DIR, 0));
    errno = MARK;
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    kept("open", fd >= 0);
    kept("fstat", fstat(fd, &st) == 0);
    kept("read", read(fd, buffer, 1) >= 0);
    kept("close", close(fd) == 0);
    kept("stat", stat(file, &st) == 0);
    kept("lstat", lstat(folder, &st) == 0);
    kept("statx", statx(AT_FDCWD, file, 0, STATX_BASIC_STATS, &stx) == 0);
    kept("access", access(folder, R_OK | X_OK) == 0);
    int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    kept("open of a directory", dir >= 0);
    kept("fstatat", fstatat(dir, "", &st, AT_EMPTY_PATH) == 0);
    kept("close of a directory", close(dir) == 0);
    kept("access of a missing name",
         access("/no-such-name", F_OK) == -1 && errno == ENOENT && (errno = MARK));
    return probe_wrong;
}
