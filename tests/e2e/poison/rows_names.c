/* Sizes and positions of the object, and names of a directory whose listing is held back. */
#include <dirent.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "tests/e2e/poison/rows.h"

static void number(long long value)
{
    value < 0 ? poison_errno(errno) : poison_say("%lld", value);
}

#define NUMBER(name, call)                                                                                   \
    static void name(void)                                                                                   \
    {                                                                                                        \
        int fd = poison_open();                                                                              \
        struct stat st;                                                                                      \
        (void)st;                                                                                            \
        number(call);                                                                                        \
    }

static long long by_statx(int fd)
{
    struct statx stx;
    return statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &stx) == 0 ? (long long)stx.stx_size : -1;
}

static long long waiting(int fd)
{
    int bytes;
    return ioctl(fd, FIONREAD, &bytes) == 0 ? bytes : -1;
}

static long long call_waiting(int fd)
{
    int bytes;
    return syscall(SYS_ioctl, fd, FIONREAD, &bytes) == 0 ? bytes : -1;
}

static long long by_link(int fd)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return stat(path, &st) == 0 ? (long long)st.st_size : -1;
}

NUMBER(seek_end, lseek(fd, 0, SEEK_END))
NUMBER(seek_end64, lseek64(fd, -1, SEEK_END))
NUMBER(seek_data, lseek(fd, (off_t)poison_at, SEEK_DATA))
NUMBER(seek_hole, lseek(fd, (off_t)poison_at, SEEK_HOLE))
NUMBER(call_seek, syscall(SYS_lseek, fd, 0L, SEEK_END))
NUMBER(size_fstat, fstat(fd, &st) == 0 ? (long long)st.st_size : -1)
NUMBER(size_fstatat, fstatat(fd, "", &st, AT_EMPTY_PATH) == 0 ? (long long)st.st_size : -1)
NUMBER(size_call, syscall(SYS_fstat, fd, &st) == 0 ? (long long)st.st_size : -1)
NUMBER(size_statx, by_statx(fd))
NUMBER(size_link, by_link(fd))
NUMBER(fionread, waiting(fd))
NUMBER(fionread_call, call_waiting(fd))
NUMBER(read_at_end, pread(fd, poison_buffer, 10, lseek(fd, 0, SEEK_END)))
NUMBER(read_of_nothing, read(fd, poison_buffer, 0))

/* ---- names */

static void count(int names)
{
    poison_say(names ? "%d names" : "empty", names);
}

static void listed(DIR *dir, bool wide)
{
    int names = 0;
    if (!dir) {
        poison_errno(errno);
        return;
    }
    errno = 0;
    while (wide ? (void *)readdir64(dir) : (void *)readdir(dir)) {
        names++;
    }
    errno ? poison_errno(errno) : count(names);
}

static int dark(void)
{
    int fd = open(poison_dark, O_RDONLY | O_DIRECTORY);
    if (fd < 0) {
        poison_errno(errno);
        _exit(0);
    }
    return fd;
}

static void do_readdir(void)
{
    listed(opendir(poison_dark), false);
}

static void do_readdir64(void)
{
    listed(opendir(poison_dark), true);
}

static void do_fdopendir(void)
{
    listed(fdopendir(dark()), false);
}

static void do_here(void)
{
    poison_need(chdir(poison_dark) == 0, "chdir");
    listed(opendir("."), false);
}

static void do_again(void)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", dark());
    listed(opendir(path), false);
}

static void entries(bool by_call)
{
    char buffer[4096];
    int fd = dark(), names = 0;
    ssize_t got;
    while ((got = by_call ? syscall(SYS_getdents64, fd, buffer, sizeof(buffer))
                          : getdents64(fd, buffer, sizeof(buffer))) > 0) {
        for (ssize_t at = 0; at < got; at += ((struct dirent64 *)(void *)(buffer + at))->d_reclen) {
            names++;
        }
    }
    got < 0 ? poison_errno(errno) : count(names);
}

static void do_getdents(void)
{
    entries(false);
}

static void call_getdents(void)
{
    entries(true);
}

static void do_scandir(void)
{
    struct dirent **list;
    int names = scandir(poison_dark, &list, NULL, alphasort);
    names < 0 ? poison_errno(errno) : count(names);
}

static void do_scandirat(void)
{
    struct dirent **list;
    int names = scandirat(dark(), ".", &list, NULL, alphasort);
    names < 0 ? poison_errno(errno) : count(names);
}

static void do_glob(void)
{
    glob_t found = {0};
    char pattern[4096];
    snprintf(pattern, sizeof(pattern), "%s/*", poison_dark);
    int result = glob(pattern, GLOB_ERR, NULL, &found);
    result == GLOB_NOMATCH ? poison_say("empty")
    : result               ? poison_say("glob %d", result)
                           : count((int)found.gl_pathc);
}

static int visited;

static int visit(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)path, (void)st, (void)kind;
    visited += where->level > 0;
    return 0;
}

static void do_nftw(void)
{
    nftw(poison_dark, visit, 4, FTW_PHYS) < 0 ? poison_errno(errno) : count(visited);
}

static void do_fts(void)
{
    char *paths[] = {(char *)(uintptr_t)poison_dark, NULL};
    FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    int names = 0, error = 0;
    for (FTSENT *node; tree && (node = fts_read(tree));) {
        names += node->fts_level > 0;
        error = node->fts_errno ? node->fts_errno : error;
    }
    error ? poison_errno(error) : count(names);
}

static void do_ls(void)
{
    char command[4096 + 32];
    snprintf(command, sizeof(command), "ls -1 %s 2>&1 | wc -l", poison_dark);
    FILE *out = popen(command, "r");
    int names = 0;
    poison_need(out && fscanf(out, "%d", &names) == 1, "popen");
    count(names);
}

static void by_name(bool opened)
{
    char path[4096];
    struct stat st;
    snprintf(path, sizeof(path), "%s/name-00", poison_dark);
    int result = opened ? open(path, O_RDONLY) : stat(path, &st);
    result < 0 ? poison_errno(errno) : poison_say("there");
}

static void do_stat(void)
{
    by_name(false);
}

static void do_open(void)
{
    by_name(true);
}

static void do_openat(void)
{
    openat(dark(), "name-00", O_RDONLY) < 0 ? poison_errno(errno) : poison_say("there");
}

const struct poison_row rows_names[] = {{"SEEK_END", seek_end},
                                        {"SEEK_END by lseek64", seek_end64},
                                        {"SEEK_DATA", seek_data},
                                        {"SEEK_HOLE", seek_hole},
                                        {"syscall lseek SEEK_END", call_seek},
                                        {"fstat", size_fstat},
                                        {"fstatat of it", size_fstatat},
                                        {"syscall fstat", size_call},
                                        {"statx", size_statx},
                                        {"stat /proc/self/fd", size_link},
                                        {"FIONREAD", fionread},
                                        {"syscall FIONREAD", fionread_call},
                                        {"pread at the end", read_at_end},
                                        {"read of no bytes", read_of_nothing},
                                        {"dark readdir", do_readdir},
                                        {"dark readdir64", do_readdir64},
                                        {"dark fdopendir", do_fdopendir},
                                        {"dark opendir of .", do_here},
                                        {"dark opendir /proc/self/fd", do_again},
                                        {"dark getdents64", do_getdents},
                                        {"dark syscall getdents64", call_getdents},
                                        {"dark scandir", do_scandir},
                                        {"dark scandirat", do_scandirat},
                                        {"dark glob", do_glob},
                                        {"dark nftw", do_nftw},
                                        {"dark fts", do_fts},
                                        {"dark ls", do_ls},
                                        {"dark stat", do_stat},
                                        {"dark open", do_open},
                                        {"dark openat", do_openat},
                                        {NULL, NULL}};
