/* Paths of which the text alone does not tell where they lead: ".." behind what is no directory, the working
 * directory and descriptors by their names in /proc and /dev, names that are too long; and what must leave a
 * descriptor as it is. */
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "tests/preload/probe.h"

#ifndef SYS_close_range
#define SYS_close_range 436 /* Linux 5.9 */
#endif

static char bytes[1 << 20];
static char *volatile nowhere; /* NULL, which no compiler is to see */

static void tell(const char *what, long result)
{
    int error = errno;
    printf("  %s: %s\n", what, result < 0 ? probe_errno(error) : "works");
}

#define TELL(call) tell(#call, (long)(call))

static void dots(void)
{
    struct stat stat1;
    TELL(stat("nothing/..", &stat1));
    TELL(stat("top.txt/..", &stat1));
    TELL(stat("top.txt/../a", &stat1));
    TELL(stat("a/../top.txt", &stat1));
    TELL(stat("a/nothing/../one.txt", &stat1));
    TELL(stat("a/deep/../../top.txt", &stat1));
    TELL(stat("../nothing/..", &stat1));
    TELL(stat("../data/../data/top.txt", &stat1));
    TELL(stat("nothing/../../..", &stat1));
    TELL(open("top.txt/../top.txt", O_RDONLY));
    TELL(chdir("nothing/../a"));
    TELL(opendir("a/one.txt/..") ? 0 : -1);
    TELL(open("/proc/self/cwd/nothing/../top.txt", O_RDONLY));
}

static void longs(void)
{
    struct stat stat1;
    char path[5000], name[300];
    memset(name, 'n', sizeof(name));
    name[256] = '\0';
    TELL(stat(name, &stat1));
    TELL(opendir(name) ? 0 : -1);
    name[255] = '\0';
    TELL(stat(name, &stat1));
    size_t len = 0;
    while (len < PATH_MAX) {
        path[len] = len % 2 ? '/' : '.';
        len++;
    }
    path[PATH_MAX] = '\0';
    TELL(stat(path, &stat1));
    path[PATH_MAX - 2] = '\0';
    TELL(stat(path, &stat1));
}

static void count_names(const char *path)
{
    DIR *dir = opendir(path);
    int count = 0;
    while (dir && readdir(dir)) {
        count++;
    }
    printf("  %d names\n", count);
    if (dir) {
        closedir(dir);
    }
}

/* Up and out of the map's root, through a name in /proc, is where ".." leads. */
static void leaves(const char *path)
{
    struct stat out = {0}, above = {0};
    bool found = stat(path, &out) == 0 && stat("..", &above) == 0;
    int fd = open(path, O_RDONLY | O_DIRECTORY);
    struct stat opened = {0};
    found = found && fd >= 0 && fstat(fd, &opened) == 0;
    printf("  %s: %s\n", path,
           found && out.st_ino == above.st_ino && out.st_dev == above.st_dev && opened.st_ino == above.st_ino
               ? "above"
               : "elsewhere");
    close(fd);
}

static void by_proc(void)
{
    struct stat stat1;
    char path[64];
    count_names("/proc/self/cwd");
    count_names("/proc/self/cwd/a/.");
    int fd = open("a", O_RDONLY | O_DIRECTORY);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    count_names(path);
    snprintf(path, sizeof(path), "/dev/fd/%d/one.txt", fd);
    TELL(stat(path, &stat1));
    printf("  %lld bytes\n", (long long)stat1.st_size);
    /* The kernel's names of descriptors have no 0 ahead. */
    snprintf(path, sizeof(path), "/proc/self/fd/0%d/one.txt", fd);
    TELL(stat(path, &stat1));
    snprintf(path, sizeof(path), "/dev/fd/00%d", fd);
    TELL(chdir(path));
    snprintf(path, sizeof(path), "/proc/%d/cwd/a/one.txt", (int)getpid());
    probe_say("file by the own number", stat(path, &stat1) == 0);
    *strrchr(path, '/') = '\0';
    DIR *dir = opendir(path);
    int names = 0;
    while (dir && readdir(dir)) {
        names++;
    }
    printf("  %d names by the own number\n", names);
    closedir(dir);
    leaves("/proc/self/cwd/..");
    leaves("/proc/self/cwd/a/../..");
    snprintf(path, sizeof(path), "/dev/fd/%d/../..", fd);
    leaves(path);
    snprintf(path, sizeof(path), "/dev/fd/%d", fd);
    char text[PATH_MAX];
    ssize_t got = readlink(path, text, sizeof(text));
    printf("  leads to %.*s\n", got > 2 ? 2 : 0, text + got - 2);
    close(fd);
}

/* What the names of a file's descriptor lead to, as libraries ask that keep to a folder. */
static void file_by_proc(const char *name)
{
    static const char *const forms[] = {"/proc/self/fd/%d", "/dev/fd/%d", "/proc/%2$d/fd/%1$d"};
    char want[PATH_MAX], path[64], text[PATH_MAX];
    int fd = open(name, O_RDONLY);
    probe_expect(getcwd(want, sizeof(want) - strlen(name) - 1) != NULL, "no working directory");
    strcat(strcat(want, "/"), name);
    for (unsigned i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        snprintf(path, sizeof(path), forms[i], fd, getpid());
        ssize_t got = readlink(path, text, sizeof(text) - 1);
        text[got > 0 ? got : 0] = '\0';
        probe_expect(strcmp(text, want) == 0, "%s of %s leads to %s", path, name, text);
        memset(text, 0, sizeof(text));
        probe_expect(readlink(path, text, 3) == 3 && strncmp(text, want, 3) == 0, "cut: %s", text);
        probe_expect(realpath(path, text) == text && strcmp(text, want) == 0, "realpath: %s", text);
    }
    close(fd);
}

/* A file, small or large, is not changed by its descriptor's name, whoever runs this. */
static void not_written(const char *name)
{
    struct stat before, after;
    char path[64];
    int fd = open(name, O_RDONLY);
    fstat(fd, &before);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    bool refused = open(path, O_RDWR) < 0 && open(path, O_WRONLY | O_APPEND) < 0 &&
                   open(path, O_RDONLY | O_TRUNC) < 0 && truncate(path, 1) < 0 && !fopen(path, "r+") &&
                   syscall(SYS_openat, AT_FDCWD, path, O_RDWR) < 0 && access(path, W_OK) < 0 &&
                   fcntl(fd, F_GETFD) == 0;
    snprintf(path, sizeof(path), "/dev/fd/%d", fd);
    refused = refused && open(path, O_RDWR) < 0;
    bool same = stat(path, &after) == 0 && before.st_size == after.st_size &&
                before.st_mtime == after.st_mtime && before.st_ino == after.st_ino;
    /* The local copy is its owner's to write. */
    printf("  %s: %s\n", name,
           !probe_mapped() || (refused && same) ? "is as it was" : "was changed, or looks so");
    close(fd);
}

/* A descriptor by its name and openat2: what its restrictions forbid comes before what may not be written. */
static void restricted(const char *name)
{
    static const uint64_t restrictions[] = {RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH,
                                            RESOLVE_IN_ROOT, RESOLVE_NO_XDEV};
    char path[64];
    int fd = open(name, O_RDONLY);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    for (unsigned i = 0; i < sizeof(restrictions) / sizeof(restrictions[0]); i++) {
        TELL(syscall(SYS_openat2, AT_FDCWD, path, &(uint64_t[3]){O_RDONLY, 0, restrictions[i]}, 24));
        TELL(syscall(SYS_openat2, AT_FDCWD, path, &(uint64_t[3]){O_WRONLY, 0, restrictions[i]}, 24));
        TELL(syscall(SYS_openat2, AT_FDCWD, path, &(uint64_t[3]){O_TRUNC, 0, restrictions[i]}, 24));
    }
    snprintf(path, sizeof(path), "/proc/self/fd/0%d", fd);
    TELL(open(path, O_RDONLY));
    close(fd);
}

static void kept_open(const char *name)
{
    int fd = open(name, O_RDONLY), twin = dup(fd);
    TELL(syscall(SYS_close_range, fd, fd, 64));
    TELL(pread(fd, bytes, 100, 5));
    TELL(read(fd, nowhere, 10));
    TELL(pread(fd, nowhere, 10, 0));
    printf("  at %lld\n", (long long)lseek(fd, 0, SEEK_CUR));
    FILE *stream = fdopen(fd, "r");
    setvbuf(stream, NULL, _IONBF, 0);
    printf("  %zu, and its dup is at %lld\n", fread(bytes, 1, 10, stream),
           (long long)lseek(twin, 0, SEEK_CUR));
    fclose(stream);
    close(twin);
}

int main(int argc, char **argv)
{
    probe_begin(argc, argv);
    if (chdir(probe_root) != 0) {
        perror(probe_root);
        return 1;
    }
    file_by_proc("a/one.txt"); /* nothing is listed yet */
    file_by_proc("b/mega.bin");
    dots();
    longs();
    by_proc();
    file_by_proc("a/one.txt");
    file_by_proc("b/mega.bin");
    not_written("top.txt");
    not_written("b/mega.bin");
    restricted("top.txt");
    restricted("b/mega.bin");
    kept_open("b/mega.bin");
    kept_open("a/two.bin");
    return 0;
}
