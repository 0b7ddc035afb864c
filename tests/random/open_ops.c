/* Calls that open and close. */
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/random/random.h"

/* Of a descriptor: what its flags say. O_NOFOLLOW and O_APPEND mean nothing to a reader. */
static void say_flags(int fd)
{
    if (fd >= 0) {
        int flags = fcntl(fd, F_GETFL);
        bool pathlike = flags & O_PATH;
        struct stat stat;
        bool folder = fstat(fd, &stat) == 0 && S_ISDIR(stat.st_mode);
        say(" fl %o fd %d", folder || pathlike ? 0 : flags & ~(O_NOFOLLOW | O_APPEND), fcntl(fd, F_GETFD));
        say(" %o %lld", stat.st_mode & S_IFMT, folder ? 0 : (long long)stat.st_size);
    }
}

/* O_DIRECT and O_SYNC are about the disk below: only where they are refused it is seen. */
static int some_flags(void)
{
    static const int harmless[] = {O_CLOEXEC, O_NONBLOCK, O_NOCTTY, O_NOFOLLOW, O_APPEND, O_NOATIME};
    static const int telling[] = {O_CREAT, O_EXCL, O_TRUNC, O_DIRECTORY, O_PATH, O_SYNC, O_DSYNC};
    static const int modes[] = {O_WRONLY, O_RDWR, O_TMPFILE | O_RDWR, O_TMPFILE, O_RDWR | O_CREAT};
    int flags = draw_flags(harmless, 6, 8);
    if (percent(25)) {
        flags |= draw_flags(telling, 7, 25);
    }
    if (percent(12)) {
        flags |= modes[draw(5)];
    }
    return flags | (percent(1) ? 1 << 29 : 0);
}

/* One of O_PATH ends here: a directory's is always one in a map, so nobody can tell them apart. */
static void opened(int fd, int flags)
{
    say_result(fd);
    say_flags(fd);
    if (fd >= 0 && (flags & O_PATH)) {
        close(fd);
        return;
    }
    keep(fd);
}

static void run_open(void)
{
    const char *path = draw_path();
    int flags = some_flags();
    say(" %o", flags);
    say_path(path);
    opened(CALL(open(path, flags, 0644)), flags);
}

static void run_plain(void)
{
    const char *path = draw_tamed(false);
    say_path(path);
    opened(CALL(open(path, O_RDONLY)), 0);
}

static void run_folder(void)
{
    const char *path = draw_tamed(true);
    int flags = O_RDONLY | (percent(70) ? O_DIRECTORY : 0) | (percent(15) ? O_PATH : 0);
    say(" %o", flags);
    say_path(path);
    opened(CALL(open(path, flags)), flags);
}

static void run_openat(void)
{
    int dirfd;
    const char *path = draw_at(&dirfd);
    int flags = some_flags();
    say(" %d %o", dirfd, flags);
    say_path(path);
    opened(CALL(openat(dirfd, path, flags, 0644)), flags);
}

static void run_openat2(void)
{
    static const int kinds[] = {RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS};
    int dirfd;
    const char *path = draw_at(&dirfd);
    struct open_how how = {.flags = (unsigned)some_flags() & ~(unsigned)(O_CREAT | O_TMPFILE | 1 << 29)};
    if (how.flags & O_PATH) {
        how.flags &= O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    }
    if (percent(50)) {
        how.resolve = (unsigned)draw_flags(kinds, 2, 40);
    }
    size_t size = percent(95) ? sizeof(how) : draw(24);
    say(" %d %llo %llx %zu", dirfd, how.flags, how.resolve, size);
    say_path(path);
    opened((int)CALL(syscall(SYS_openat2, dirfd, path, &how, size)), (int)how.flags);
}

static void run_creat(void)
{
    const char *path = draw_path();
    say_path(path);
    opened(CALL(creat(path, 0644)), 0);
}

static void run_close(void)
{
    int fd = any_fd();
    unkeep(fd);
    say(" %d", fd);
    SAY_CALL(close(fd));
}

static bool is_kept(int fd)
{
    bool found = false;
    for (size_t i = 0; i < KEPT_MAX; i++) {
        found |= kept(i) == fd;
    }
    return found;
}

static void run_close_range(void)
{
    int first = any_fd();
    int last = first + (int)draw(3) - (percent(10) ? 5 : 0);
    if (first < 3 || first > KEPT_MAX * 100) {
        return;
    }
    for (int fd = first + 1; fd <= last; fd++) {
        last = is_kept(fd) ? last : fd - 1; /* a stream's is not to be taken from under it */
    }
    int flags = percent(30) ? CLOSE_RANGE_CLOEXEC : percent(5) ? 64 : 0;
    say(" %d %d %d", first, last, flags);
    int result = CALL(close_range((unsigned)first, (unsigned)last, flags));
    say_result(result);
    for (int fd = first; result == 0 && !flags && fd <= last; fd++) {
        unkeep(fd);
    }
}

/* Also of descriptors by the kernel's own names. */
static void run_again(void)
{
    static const int modes[] = {O_RDONLY, O_RDONLY, O_RDONLY,    O_RDONLY | O_NOFOLLOW,
                                O_WRONLY, O_RDWR,   O_DIRECTORY, O_PATH};
    char path[64];
    int fd = file_fd();
    int flags = modes[draw(8)];
    __builtin_snprintf(path, sizeof(path), percent(50) ? "/proc/self/fd/%d" : "/dev/fd/%d", fd);
    say(" %o %s", flags, path);
    opened(CALL(open(path, flags)), flags);
}

const struct op open_ops[] = {{"open", 90, run_open},          {"open-file", 120, run_plain},
                              {"open-folder", 50, run_folder}, {"openat", 80, run_openat},
                              {"openat2", 25, run_openat2},    {"creat", 8, run_creat},
                              {"close", 60, run_close},        {"close_range", 5, run_close_range},
                              {"open-again", 15, run_again},   {0}};
