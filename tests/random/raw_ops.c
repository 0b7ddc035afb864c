/* Calls by their numbers, as programs make that go around libc. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <wordexp.h>

#include "tests/random/random.h"

#define FACCESSAT2 439 /* SYS_faccessat2, which older headers lack */

static bool is_folder(int fd)
{
    struct stat stat;
    return fstat(fd, &stat) == 0 && S_ISDIR(stat.st_mode);
}

static void run_raw_open(void)
{
    static const int kinds[] = {O_CLOEXEC, O_NOFOLLOW, O_DIRECTORY, O_NONBLOCK};
    int dirfd;
    const char *path = draw_at(&dirfd);
    int flags = draw_flags(kinds, 4, 15);
    say(" %d %o", dirfd, flags);
    say_path(path);
    int fd = (int)CALL(syscall(SYS_openat, dirfd, path, flags, 0));
    say_result(fd);
    keep(fd);
}

static void run_raw_stat(void)
{
    struct stat stat1;
    struct statx statx1;
    int dirfd;
    const char *path = draw_at(&dirfd);
    uint32_t kind = draw(4);
    int flags = percent(30) ? AT_SYMLINK_NOFOLLOW : 0;
    memset(&stat1, 0, sizeof(stat1));
    memset(&statx1, 0, sizeof(statx1));
    say(" kind %u %d %x", kind, dirfd, (unsigned)flags);
    say_path(path);
    switch (kind) {
    case 0:
        SAY_CALL(syscall(SYS_newfstatat, dirfd, path, &stat1, flags));
        break;
    case 1:
        SAY_CALL(syscall(SYS_statx, dirfd, path, flags, STATX_BASIC_STATS, &statx1));
        stat1.st_mode = statx1.stx_mode;
        stat1.st_size = (off_t)statx1.stx_size;
        break;
    case 2:
        SAY_CALL(syscall(SYS_faccessat, dirfd, path, R_OK));
        break;
    default:
        SAY_CALL(syscall(FACCESSAT2, dirfd, path, R_OK | (percent(40) ? W_OK : 0), flags));
    }
    say(" %o %lld", stat1.st_mode & S_IFMT, S_ISREG(stat1.st_mode) ? (long long)stat1.st_size : 0);
}

static void run_raw_read(void)
{
    int fd = any_fd();
    size_t count = draw(20000);
    off_t offset = draw_offset();
    struct iovec parts[2] = {{place(), count / 3}, {place() + count / 3, count - count / 3}};
    uint32_t kind = draw(5);
    struct stat stat1;
    memset(&stat1, 0, sizeof(stat1));
    if (is_folder(fd)) {
        return;
    }
    say(" kind %u %d %zu %lld", kind, fd, count, (long long)offset);
    ssize_t got = kind == 0   ? CALL(syscall(SYS_read, fd, place(), count))
                  : kind == 1 ? CALL(syscall(SYS_pread64, fd, place(), count, offset))
                  : kind == 2 ? CALL(syscall(SYS_readv, fd, parts, 2))
                  : kind == 3 ? CALL(syscall(SYS_lseek, fd, offset, (int)draw(5)))
                              : CALL(syscall(SYS_fstat, fd, &stat1));
    say_result(got);
    if (kind < 3) {
        say(" %016llx", (unsigned long long)hash_of(place(), got > 0 ? (size_t)got : 0));
    }
    say(" %lld at %lld", (long long)stat1.st_size, (long long)lseek(fd, 0, SEEK_CUR));
}

static void run_raw_here(void)
{
    char text[PATH_ROOM];
    const char *path = draw_tamed(true);
    say_path(path);
    SAY_CALL(syscall(SYS_chdir, path));
    long got = CALL(syscall(SYS_getcwd, text, sizeof(text)));
    say_result(got);
    say(" %s", got > 0 ? text : "NULL");
    world_moved();
}

static void run_raw_dup(void)
{
    int fd = any_fd();
    uint32_t kind = draw(3);
    say(" kind %u %d", kind, fd);
    int copy = (int)(kind == 0   ? CALL(syscall(SYS_dup, fd))
                     : kind == 1 ? CALL(syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 80))
                                 : CALL(syscall(SYS_dup3, fd, 90, O_CLOEXEC)));
    say_result(copy);
    keep(copy);
    if (copy >= 0 && percent(30)) {
        unkeep(copy);
        SAY_CALL(syscall(SYS_close, copy));
    }
}

static void run_wordexp(void)
{
    static const char *const words[] = {
        "*",        "a/*",         "many/f*7 size-0", "\"a/sh\"*", "a/{short,long}.txt",
        "no*thing", "$HOME/none*", "with\\ space/*",  "[a-m]*/*",  "../data/a*"};
    wordexp_t found;
    const char *text = words[draw(10)];
    say(" %s", text);
    int result = wordexp(text, &found, WRDE_NOCMD);
    say(" = %d", result);
    if (result == 0) {
        uint64_t hash = 0;
        for (size_t i = 0; i < found.we_wordc; i++) {
            bool home = strstr(found.we_wordv[i], "none") != NULL;
            hash = hash * 31 + (home ? 1 : hash_of(found.we_wordv[i], strlen(found.we_wordv[i])));
        }
        say(" %zu %016llx", found.we_wordc, (unsigned long long)hash);
        wordfree(&found);
    }
}

const struct op raw_ops[] = {{"raw-open", 25, run_raw_open},
                             {"raw-stat", 25, run_raw_stat},
                             {"raw-read", 30, run_raw_read},
                             {"raw-here", 10, run_raw_here},
                             {"raw-dup", 12, run_raw_dup},
                             {"wordexp", 6, run_wordexp},
                             {0}};
