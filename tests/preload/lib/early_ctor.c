/* A shared object whose constructor opens, stats, lists, duplicates, changes directory and allocates, before
 * or after the constructor of the object under test, as the order in LD_PRELOAD has it. It leaves its verdict
 * in EARLY_SAYS
 * ("fine" or the first thing that failed) and takes the path of a mapped file from EARLY_MAPPED. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *failed;

static void expect(int good, const char *what)
{
    if (!good && !failed) {
        failed = what;
    }
}

static void use_files(void)
{
    struct stat st;
    char byte, here[4096];
    int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
    expect(fd >= 0 && read(fd, &byte, 1) == 1, "open");
    expect(fstat(fd, &st) == 0 && S_ISREG(st.st_mode), "fstat");
    expect(stat("/", &st) == 0 && S_ISDIR(st.st_mode) && lstat("/etc", &st) == 0, "stat");
    expect(access("/etc/passwd", R_OK) == 0 && access("/no-such-name", F_OK) < 0, "access");
    int copy = dup(fd);
    expect(copy >= 0 && fcntl(copy, F_GETFD) >= 0 && close(copy) == 0 && close(fd) == 0, "dup and close");
    expect(getcwd(here, sizeof(here)) && chdir("/") == 0 && chdir(here) == 0, "getcwd and chdir");
}

static void use_streams(void)
{
    int names = 0;
    DIR *dir = opendir("/");
    while (dir && readdir(dir)) {
        names++;
    }
    expect(dir && names > 2 && closedir(dir) == 0, "readdir");
    FILE *stream = fopen("/etc/passwd", "r");
    expect(stream && fgetc(stream) != EOF && fclose(stream) == 0, "fopen");
}

__attribute__((constructor)) static void early(void)
{
    struct stat st;
    char *heap = malloc(100000);
    expect(heap != NULL, "malloc");
    use_files();
    use_streams();
    const char *mapped = getenv("EARLY_MAPPED");
    if (mapped) {
        /* Before the other constructor every path is unmapped: an answer, whichever, and no crash. */
        (void)stat(mapped, &st);
    }
    free(heap);
    setenv("EARLY_SAYS", failed ? failed : "fine", 1);
}
