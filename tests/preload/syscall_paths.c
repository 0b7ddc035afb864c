/* The system calls that take a path or a directory's descriptor, by libc's syscall(). */
#include "tests/preload/probe.h"

#include <linux/stat.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

static long number(const char *what, long result)
{
    int error = errno;
    printf("%s: %s\n", what, result >= 0 ? "ok" : probe_errno(error));
    return result;
}

static void tell_file(const char *what, long fd)
{
    uint64_t size = 0;
    number(what, fd);
    if (fd >= 0) {
        uint64_t hash = probe_digest((int)fd, &size);
        printf("  %llu bytes %016llx\n", (unsigned long long)size, (unsigned long long)hash);
        syscall(SYS_close, fd);
    }
}

static void same_stat(const char *what, const char *path, long result, const struct stat *got)
{
    struct stat want;
    number(what, result);
    probe_expect(result < 0 || (stat(path, &want) == 0 && want.st_ino == got->st_ino &&
                                want.st_size == got->st_size && want.st_dev == got->st_dev),
                 "%s: another file than stat says", what);
}

static void opens(const char *file, const char *dir, int at)
{
    struct {
        uint64_t flags, mode, resolve;
    } how = {.flags = O_RDONLY | O_CLOEXEC};
#ifdef SYS_open
    tell_file("open", syscall(SYS_open, file, O_RDONLY));
    tell_file("open to write", syscall(SYS_open, file, O_RDONLY | O_DIRECTORY));
    tell_file("open of nothing", syscall(SYS_open, "", O_RDONLY));
#endif
    tell_file("openat", syscall(SYS_openat, AT_FDCWD, file, O_RDONLY, 0));
    tell_file("openat at", syscall(SYS_openat, at, "one.txt", O_RDONLY, 0));
    tell_file("openat missing", syscall(SYS_openat, at, "no-such", O_RDONLY, 0));
    tell_file("openat2", syscall(SYS_openat2, at, "one.txt", &how, sizeof(how)));
    tell_file("openat2 of a directory",
              syscall(SYS_openat2, AT_FDCWD, dir, &(uint64_t[3]){O_WRONLY, 0, 0}, 24));
    tell_file("openat2, short", syscall(SYS_openat2, at, "one.txt", &how, 8));
    how.flags = UINT64_C(1) << 40;
    tell_file("openat2, odd flags", syscall(SYS_openat2, at, "one.txt", &how, sizeof(how)));
    how.flags = O_RDONLY;
    how.mode = 0644;
    tell_file("openat2, a mode for nothing", syscall(SYS_openat2, at, "one.txt", &how, sizeof(how)));
    how.mode = 0;
    how.resolve = 1 << 20;
    tell_file("openat2, odd restrictions", syscall(SYS_openat2, at, "one.txt", &how, sizeof(how)));
    uint64_t longer[] = {O_RDONLY, 0, 0, 1};
    tell_file("openat2, of another kernel", syscall(SYS_openat2, at, "one.txt", longer, sizeof(longer)));
    probe_expect(syscall(SYS_openat, 0, NULL, O_RDONLY) < 0 && errno == EFAULT, "no path");
}

static void stats(const char *file, const char *dir, int at)
{
    struct stat st;
    struct statx stx, want;
    (void)dir;
#ifdef SYS_stat
    same_stat("stat", file, syscall(SYS_stat, file, &st), &st);
    same_stat("lstat", file, syscall(SYS_lstat, file, &st), &st);
    number("stat missing", syscall(SYS_stat, "/no/such/thing", &st));
    number("access", syscall(SYS_access, file, R_OK));
    number("access of a directory", syscall(SYS_access, dir, X_OK));
#endif
    same_stat("newfstatat", file, syscall(SYS_newfstatat, at, "one.txt", &st, 0), &st);
    same_stat("newfstatat of the directory", dir, syscall(SYS_newfstatat, at, "", &st, AT_EMPTY_PATH), &st);
    same_stat("fstat", dir, syscall(SYS_fstat, at, &st), &st);
    int fd = open(file, O_RDONLY);
    same_stat("fstat of a file", file, syscall(SYS_fstat, fd, &st), &st);
    number("statx", syscall(SYS_statx, at, "one.txt", 0, STATX_BASIC_STATS, &stx));
    probe_expect(statx(at, "one.txt", 0, STATX_BASIC_STATS, &want) == 0 && want.stx_ino == stx.stx_ino,
                 "statx");
    number("statx by descriptor", syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &stx));
    probe_expect(want.stx_ino == stx.stx_ino && want.stx_size == stx.stx_size, "statx by descriptor");
    /* EFAULT before Linux 6.11. */
    long result = syscall(SYS_statx, fd, NULL, AT_EMPTY_PATH, STATX_BASIC_STATS, &stx);
    number("statx without a path", result);
    probe_expect(result < 0 || (want.stx_ino == stx.stx_ino && want.stx_size == stx.stx_size),
                 "statx without a path");
    same_stat("newfstatat without a path", file, syscall(SYS_newfstatat, fd, NULL, &st, AT_EMPTY_PATH), &st);
    close(fd);
    number("faccessat", syscall(SYS_faccessat, at, "one.txt", R_OK));
    number("faccessat, missing", syscall(SYS_faccessat, at, "nothing", F_OK));
    number("faccessat2", syscall(SYS_faccessat2, at, "one.txt", R_OK, 0));
    char link[100];
    number("readlinkat", syscall(SYS_readlinkat, at, "one.txt", link, sizeof(link)));
    struct statfs fs;
    number("statfs", syscall(SYS_statfs, dir, &fs));
}

static void directories(const char *dir)
{
    char here[PATH_MAX], before[PATH_MAX];
    number("getcwd", syscall(SYS_getcwd, before, sizeof(before)));
    number("chdir", syscall(SYS_chdir, dir));
    long len = number("getcwd inside", syscall(SYS_getcwd, here, sizeof(here)));
    probe_expect(len == (long)strlen(here) + 1 && strcmp(here, dir) == 0, "getcwd says %s, %ld", here, len);
    number("getcwd, no room", syscall(SYS_getcwd, here, 3));
    tell_file("openat from inside", syscall(SYS_openat, AT_FDCWD, "one.txt", O_RDONLY));
    int back = open(before, O_RDONLY | O_DIRECTORY);
    number("fchdir", syscall(SYS_fchdir, back));
    syscall(SYS_close, back);
    probe_expect(getcwd(here, sizeof(here)) && strcmp(here, before) == 0, "not back but in %s", here);
    int fd = open(dir, O_RDONLY | O_DIRECTORY);
    int copy = (int)syscall(SYS_dup, fd);
    tell_file("from a copy", syscall(SYS_openat, copy, "one.txt", O_RDONLY));
    int third = (int)syscall(SYS_dup3, copy, 123, O_CLOEXEC);
    syscall(SYS_close, fd);
    tell_file("from another", syscall(SYS_openat, third, "one.txt", O_RDONLY));
    char byte;
    number("read of a directory", syscall(SYS_read, third, &byte, 1));
    syscall(SYS_close, third);
    syscall(SYS_close, copy);
    tell_file("closed", syscall(SYS_openat, copy, "one.txt", O_RDONLY));
}

/* Everything else is handed on as it came. */
static void others(void)
{
    errno = 4321;
    probe_expect(syscall(SYS_getpid) == getpid() && errno == 4321, "getpid");
    void *page =
        (void *)syscall(SYS_mmap, NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
    probe_expect(page != MAP_FAILED && syscall(SYS_munmap, page, 8192) == 0, "six arguments");
    number("a number that is none", syscall(100000));
    number("a negative one", syscall(-1));
    int pipe_fds[2];
    probe_expect(syscall(SYS_pipe2, pipe_fds, O_CLOEXEC) == 0 && syscall(SYS_write, pipe_fds[1], "x", 1) == 1,
                 "write");
    char byte = 0;
    probe_expect(syscall(SYS_read, pipe_fds[0], &byte, 1) == 1 && byte == 'x', "read");
    probe_expect(syscall(SYS_close, pipe_fds[0]) == 0 && syscall(SYS_close, pipe_fds[1]) == 0, "close");
    number("close again", syscall(SYS_close, pipe_fds[1]));
}

int main(int argc, char **argv)
{
    probe_begin(argc, argv);
    char *file = probe_path("a/one.txt");
    char *dir = probe_path("a");
    int at = open(dir, O_RDONLY | O_DIRECTORY);
    opens(file, dir, at);
    stats(file, dir, at);
    directories(dir);
    others();
    /* What a read-only tree refuses: compared inside, for the local copy is written to. */
    if (probe_mapped()) {
        static const struct {
            const char *what;
            long number;
            int flags;
        } calls[] = {{"unlinkat", SYS_unlinkat, 0},
                     {"rmdir", SYS_unlinkat, AT_REMOVEDIR},
                     {"mkdirat", SYS_mkdirat, 0755}};
        for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
            long result = syscall(calls[i].number, at,
                                  i == 2   ? "new"
                                  : i == 1 ? "deep"
                                           : "one.txt",
                                  calls[i].flags);
            probe_expect(result < 0 && errno == EROFS, "%s: %s", calls[i].what, probe_errno(errno));
        }
        probe_expect(syscall(SYS_renameat2, at, "one.txt", at, "two", 0) < 0 && errno == EROFS, "renameat2");
        probe_expect(syscall(SYS_renameat2, AT_FDCWD, "/etc/passwd", at, "two", 0) < 0, "renameat2 into it");
        probe_expect(syscall(SYS_symlinkat, "x", at, "new") < 0 && errno == EROFS, "symlinkat");
        probe_expect(syscall(SYS_openat, at, "one.txt", O_RDWR) < 0 && errno == EROFS, "open to write");
#ifdef SYS_unlink
        probe_expect(syscall(SYS_unlink, file) < 0 && errno == EROFS, "unlink");
        probe_expect(syscall(SYS_rename, "/etc/passwd", file) < 0 && (errno == EROFS || errno == EXDEV),
                     "rename");
#endif
    }
    close(at);
    return probe_wrong;
}
