/* Calls that would change something: a read-only file system's answers. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "tests/random/random.h"

static char text[300]; /* what lies in place() is not told, and a file beside the tree may be written */

static void run_write(void)
{
    int fd = file_fd();
    off_t offset = percent(90) ? draw(5000) : draw_offset();
    size_t count = draw(3) * 100;
    struct iovec part = {.iov_base = text, .iov_len = count};
    uint32_t kind = draw(9);
    say(" kind %u %d %lld %zu", kind, fd, (long long)offset, count);
    switch (kind) {
    case 0:
        SAY_CALL(write(fd, text, count));
        break;
    case 1:
        SAY_CALL(pwrite(fd, text, count, offset));
        break;
    case 2:
        SAY_CALL(writev(fd, &part, 1));
        break;
    case 3:
        SAY_CALL(pwritev(fd, &part, 1, offset));
        break;
    case 4:
        SAY_CALL(ftruncate(fd, offset));
        break;
    case 5:
        SAY_CALL(fallocate(fd, (int)draw(2), offset, (off_t)count));
        break;
    case 6:
        SAY_CALL(posix_fallocate(fd, offset, (off_t)count));
        break;
    case 7:
        SAY_CALL(percent(50) ? fsync(fd) : fdatasync(fd));
        break;
    default:
        SAY_CALL(sync_file_range(fd, offset, (off_t)count, (unsigned)draw(8)));
    }
    say(" at %lld", (long long)lseek(fd, 0, SEEK_CUR));
}

static void run_by_fd(void)
{
    int fd = file_fd();
    uint32_t kind = draw(6);
    struct timespec times[2] = {{.tv_nsec = percent(50) ? UTIME_OMIT : UTIME_NOW},
                                {.tv_nsec = percent(50) ? UTIME_OMIT : 5}};
    say(" kind %u %d", kind, fd);
    switch (kind) {
    case 0:
        SAY_CALL(fchmod(fd, 0600));
        break;
    case 1:
        SAY_CALL(fchown(fd, (uid_t)-1, percent(50) ? (gid_t)-1 : 0));
        break;
    case 2:
        SAY_CALL(futimens(fd, times));
        break;
    case 3:
        SAY_CALL(fsetxattr(fd, "user.x", "y", 1, 0));
        break;
    case 4:
        SAY_CALL(fremovexattr(fd, "user.x"));
        break;
    default:
        SAY_CALL(fgetxattr(fd, "user.nothing", place(), 100));
    }
}

static void run_remove(void)
{
    int dirfd;
    const char *path = draw_at(&dirfd);
    uint32_t kind = draw(4);
    int flags = percent(40) ? AT_REMOVEDIR : percent(5) ? 3 : 0;
    say(" kind %u %d %x", kind, dirfd, (unsigned)flags);
    say_path(path);
    if (kind == 3) {
        SAY_CALL(unlinkat(dirfd, path, flags));
        return;
    }
    if (dirfd != AT_FDCWD && path && path[0] != '/') {
        return; /* below a descriptor only unlinkat is the same */
    }
    SAY_CALL(kind == 0 ? unlink(path) : kind == 1 ? rmdir(path) : remove(path));
}

static void run_make(void)
{
    int dirfd;
    const char *path = draw_at(&dirfd);
    uint32_t kind = draw(3);
    say(" kind %u %d", kind, dirfd);
    say_path(path);
    /* No FIFO: one that was made beside the tree would be waited on by whoever opens it. */
    SAY_CALL(kind == 0   ? mkdirat(dirfd, path, 0700)
             : kind == 1 ? symlinkat("target", dirfd, path)
                         : mknodat(dirfd, path, S_IFREG | 0600, 0));
}

static void run_two(void)
{
    int from_fd, to_fd;
    const char *from = draw_at(&from_fd), *to = draw_at(&to_fd);
    uint32_t kind = draw(3);
    unsigned flags = percent(20) ? 1u << draw(2) : 0;
    say(" kind %u %d", kind, from_fd);
    say_path(from);
    say(" %d", to_fd);
    say_path(to);
    say(" %x", flags);
    SAY_CALL(kind == 0   ? renameat(from_fd, from, to_fd, to)
             : kind == 1 ? renameat2(from_fd, from, to_fd, to, flags)
                         : linkat(from_fd, from, to_fd, to, flags ? AT_SYMLINK_FOLLOW : 0));
}

static void run_change(void)
{
    int dirfd;
    const char *path = draw_at(&dirfd);
    uint32_t kind = draw(7);
    int flags = percent(20) ? AT_SYMLINK_NOFOLLOW : 0;
    struct timespec times[2] = {{.tv_nsec = percent(50) ? UTIME_OMIT : UTIME_NOW},
                                {.tv_nsec = percent(50) ? UTIME_OMIT : 5}};
    say(" kind %u %d %x", kind, dirfd, (unsigned)flags);
    say_path(path);
    if (!path || (kind > 2 && dirfd != AT_FDCWD)) {
        return;
    }
    switch (kind) {
    case 0:
        SAY_CALL(fchmodat(dirfd, path, 0700, 0)); /* what is beside the tree stays open to us */
        break;
    case 1:
        SAY_CALL(fchownat(dirfd, path, (uid_t)-1, 0, flags));
        break;
    case 2:
        SAY_CALL(utimensat(dirfd, path, percent(30) ? NULL : times, flags));
        break;
    case 3:
        SAY_CALL(truncate(path, draw_offset()));
        break;
    case 4:
        SAY_CALL(utime(path, NULL));
        break;
    case 5:
        SAY_CALL(setxattr(path, "user.x", "y", 1, 0));
        break;
    default:
        SAY_CALL(getxattr(path, "user.nothing", place(), 100));
    }
}

static void run_temporary(void)
{
    char name[PATH_ROOM];
    const char *path = draw_tamed(true);
    snprintf(name, sizeof(name), "%s/tmp%s", path, percent(80) ? "XXXXXX" : "XXX");
    say_path(name);
    int result = percent(50) ? CALL(mkstemp(name)) : CALL(mkdtemp(name)) ? 0 : -1;
    say_result(result);
}

const struct op refused_ops[] = {{"write", 30, run_write},
                                 {"by-fd", 15, run_by_fd},
                                 {"remove", 25, run_remove},
                                 {"make", 20, run_make},
                                 {"two", 25, run_two},
                                 {"change", 25, run_change},
                                 {"temporary", 5, run_temporary},
                                 {0}};
