/* Calls that ask about names and descriptors. */
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "tests/random/random.h"

#define YEAR_2025 1735689600 /* a file that was made meanwhile, beside the tree, is younger */

static long long told_s(long long mtime_s)
{
    return mtime_s < YEAR_2025 ? mtime_s : 0;
}

/* The rules that hold for each file system; a directory's size,
 * links and time are its file system's affair. */
static void say_stat(const struct stat *stat)
{
    say(" %o", stat->st_mode & S_IFMT);
    if (S_ISREG(stat->st_mode)) {
        say(" %lld %lu %lld", (long long)stat->st_size, (unsigned long)stat->st_nlink,
            told_s(stat->st_mtime));
        say(" %s %s %s", stat->st_blocks * 512 >= stat->st_size ? "full" : "sparse",
            stat->st_uid == geteuid() ? "own" : "else", stat->st_mode & 0111 ? "x" : "-");
    }
    say(" %s %s", stat->st_ino ? "ino" : "no ino", stat->st_blksize > 0 ? "bs" : "no bs");
}

static void run_stat(void)
{
    struct stat stat1;
    const char *path = draw_path();
    bool links = percent(30);
    say("%s", links ? " l" : "");
    say_path(path);
    int result = CALL(links ? lstat(path, &stat1) : stat(path, &stat1));
    say_result(result);
    if (result == 0) {
        say_stat(&stat1);
    }
}

static void run_fstat(void)
{
    struct stat stat;
    int fd = any_fd();
    say(" %d", fd);
    int result = CALL(fstat(fd, &stat));
    say_result(result);
    if (result == 0) {
        say_stat(&stat);
    }
}

static int at_flags(void)
{
    static const int flags[] = {AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH, AT_NO_AUTOMOUNT};
    return draw_flags(flags, 3, 25) | (percent(3) ? 1 << 20 : 0);
}

static void run_fstatat(void)
{
    struct stat stat;
    int dirfd;
    const char *path = percent(15) ? "" : NULL;
    path = path ? (dirfd = any_fd(), path) : draw_at(&dirfd);
    int flags = at_flags();
    say(" %d %x", dirfd, (unsigned)flags);
    say_path(path);
    int result = CALL(fstatat(dirfd, path, &stat, flags));
    say_result(result);
    if (result == 0) {
        say_stat(&stat);
    }
}

static void run_statx(void)
{
    static const unsigned masks[] = {STATX_BASIC_STATS, STATX_ALL, STATX_SIZE, STATX_MTIME,
                                     STATX_TYPE,        0,         STATX_INO,  STATX__RESERVED};
    static const int syncs[] = {AT_STATX_FORCE_SYNC, AT_STATX_DONT_SYNC};
    struct statx stat;
    int dirfd;
    const char *path = percent(15) ? "" : NULL;
    path = path ? (dirfd = any_fd(), path) : draw_at(&dirfd);
    int flags = at_flags() | draw_flags(syncs, 2, 10);
    unsigned mask = masks[draw(percent(8) ? 8 : 7)];
    memset(&stat, 0, sizeof(stat));
    say(" %d %x %x", dirfd, (unsigned)flags, mask);
    say_path(path);
    int result = CALL(statx(dirfd, path, flags, mask, &stat));
    say_result(result);
    if (result == 0) {
        say(" %o %s", stat.stx_mode & S_IFMT,
            (stat.stx_mask & mask & STATX_BASIC_STATS) == (mask & STATX_BASIC_STATS) ? "all" : "less");
        if (S_ISREG(stat.stx_mode)) {
            say(" %llu", (mask & STATX_SIZE) ? (unsigned long long)stat.stx_size : 0);
            say(" %lld", (mask & STATX_MTIME) ? told_s(stat.stx_mtime.tv_sec) : 0);
        }
    }
}

static void run_access(void)
{
    int dirfd = AT_FDCWD;
    int mode = percent(90) ? (int)draw(8) : 9;
    mode &= mode & W_OK ? ~X_OK
                        : ~0; /* which of two refusals: what is read-only decides, a mount or a file system */
    uint32_t kind = draw(5);
    const char *path = kind < 3 ? draw_path() : draw_at(&dirfd);
    int flags = kind == 4 ? (int)draw(2) * AT_EACCESS | (int)draw(2) * AT_SYMLINK_NOFOLLOW |
                                (percent(10) ? AT_EMPTY_PATH : 0)
                          : 0;
    say(" kind %u %d %d %x", kind, dirfd, mode, (unsigned)flags);
    say_path(path);
    SAY_CALL(kind == 0   ? euidaccess(path, mode)
             : kind == 1 ? eaccess(path, mode)
             : kind == 2 ? access(path, mode)
                         : faccessat(dirfd, path, mode, flags));
}

static void run_readlink(void)
{
    char text[200];
    int dirfd;
    const char *path = draw_at(&dirfd);
    say(" %d", dirfd);
    say_path(path);
    if (path && strstr(path, "/fd/")) {
        return; /* a descriptor's name is the cache's */
    }
    ssize_t got = CALL(readlinkat(dirfd, path, text, percent(95) ? sizeof(text) - 1 : 0));
    say_result(got);
    if (got > 0) {
        text[got] = '\0';
        say(" %s", text);
    }
}

static void run_realpath(void)
{
    char text[PATH_MAX] = "";
    const char *path = draw_path();
    bool proc = path && strstr(path, "/fd/");
    if (proc || (path && strlen(path) >= PATH_MAX)) {
        return; /* libc reads it by itself; a descriptor's name is the cache's */
    }
    uint32_t kind = draw(3);
    say(" kind %u", kind);
    say_path(path);
    errno = 0;
    char *result = kind == 0   ? realpath(path, text)
                   : kind == 1 ? realpath(path, NULL)
                               : canonicalize_file_name(path);
    int error = errno;
    say(" %s", result ? result : "NULL");
    if (!result) {
        say_error(error);
    }
    if (kind) {
        free(result);
    }
}

static void run_statfs(void)
{
    struct statfs plain;
    struct statvfs posix;
    bool by_fd = percent(40), old = percent(50);
    const char *path = draw_path();
    int fd = any_fd();
    if (path && strstr(path, "/fd/")) {
        path = "";
    }
    say(" %s", old ? "fs" : "vfs");
    if (by_fd) {
        say(" %d", fd);
    } else {
        say_path(path);
    }
    int result = old ? CALL(by_fd ? fstatfs(fd, &plain) : statfs(path, &plain))
                     : CALL(by_fd ? fstatvfs(fd, &posix) : statvfs(path, &posix));
    say_result(result);
    if (result == 0) {
        say(" %ld", old ? (long)plain.f_namelen : (long)posix.f_namemax);
        say(" %s", (old ? (unsigned long)plain.f_flags : posix.f_flag) & ST_RDONLY ? "ro" : "rw");
    }
}

/* _PC_LINK_MAX and the like differ by what a map is (docs/answers.md). */
static void run_pathconf(void)
{
    static const int names[] = {_PC_PATH_MAX, _PC_PIPE_BUF, _PC_CHOWN_RESTRICTED, _PC_NO_TRUNC, _PC_VDISABLE};
    bool odd = percent(50); /* of names that do not depend on the file, libc answers without a look */
    int name = odd ? _PC_NAME_MAX : names[draw(5)];
    bool by_fd = percent(40);
    const char *path = odd ? draw_path() : draw_tamed(percent(50));
    path = path ? path : "";
    int fd = any_fd();
    say(" %d", name);
    if (by_fd) {
        say(" %d", fd);
    } else {
        say_path(path);
    }
    SAY_CALL(by_fd ? fpathconf(fd, name) : pathconf(path, name));
}

static void run_chdir(void)
{
    char text[PATH_MAX];
    bool by_fd = percent(35);
    int fd = percent(80) ? folder_fd() : any_fd();
    const char *path = percent(60) ? draw_tamed(true) : draw_path();
    if (by_fd) {
        say(" %d", fd);
    } else {
        say_path(path);
    }
    SAY_CALL(by_fd ? fchdir(fd) : chdir(path));
    errno = 0;
    char *result = getcwd(text, percent(97) ? sizeof(text) : draw(20));
    say(" %s", result ? result : "NULL");
    if (!result) {
        say_error(errno);
    }
    world_moved();
}

static void run_getcwd(void)
{
    char *result = percent(50) ? getcwd(NULL, 0) : get_current_dir_name();
    say(" %s", result ? result : "NULL");
    free(result);
}

static void run_home(void)
{
    SAY_CALL(chdir(world_root()));
    world_moved();
}

const struct op stat_ops[] = {{"stat", 110, run_stat},
                              {"fstat", 60, run_fstat},
                              {"fstatat", 60, run_fstatat},
                              {"statx", 50, run_statx},
                              {"access", 50, run_access},
                              {"readlink", 20, run_readlink},
                              {"realpath", 40, run_realpath},
                              {"statfs", 15, run_statfs},
                              {"pathconf", 12, run_pathconf},
                              {"chdir", 45, run_chdir},
                              {"getcwd", 8, run_getcwd},
                              {"home", 10, run_home},
                              {0}};
