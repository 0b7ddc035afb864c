/* What one file call costs: run with and without the preload, on unmapped, mapped and local paths.
 *     overhead time FILE DIR            ns a call of every operation, least of ROUNDS batches
 *     overhead warm FILE DIR            the same of what a training program does with a finished object
 *     overhead count OPERATION TIMES FILE DIR    TIMES calls of one operation, for an instruction counter
 *     overhead start TIMES PROGRAM ENVIRONMENT...    microseconds from spawn to exit of PROGRAM, least and
 * median, with each of the environments in turn; an ENVIRONMENT is NAME=VALUE words with newlines between
 * them */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 300
#define ROUND_NS 200000      /* a batch is long beside the clock and short beside a time slice */
#define WARM_BYTES (1 << 20) /* more than any file it is given */
#define STARTS_MAX 10000
#define ENVIRONMENTS_MAX 8
#define WORDS_MAX 32

struct target {
    const char *file, *dir;
    int fd; /* of file, open */
};

struct operation {
    const char *name;
    long (*call)(const struct target *target); /* units of work done; 0: it failed */
};

static char buffer[WARM_BYTES];
/* Paths where every run has them: where a text begins in its block of 16 bytes changes the count. */
static char file_path[4096] __attribute__((aligned(64)));
static char dir_path[4096] __attribute__((aligned(64)));

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "overhead: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- operations ---- */

static long do_stat(const struct target *target)
{
    struct stat st;
    return stat(target->file, &st) == 0;
}

static long do_lstat(const struct target *target)
{
    struct stat st;
    return lstat(target->file, &st) == 0;
}

static long do_fstat(const struct target *target)
{
    struct stat st;
    return fstat(target->fd, &st) == 0;
}

static long do_access(const struct target *target)
{
    return access(target->file, R_OK) == 0;
}

static long do_open(const struct target *target)
{
    int fd = open(target->file, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && close(fd) == 0;
}

static long do_read(const struct target *target)
{
    return pread(target->fd, buffer, 64, 0) > 0;
}

static long do_getcwd(const struct target *target)
{
    (void)target;
    return getcwd(buffer, sizeof(buffer)) != NULL;
}

static long do_readdir(const struct target *target)
{
    DIR *dir = opendir(target->dir);
    long count = 0;
    while (dir && readdir(dir)) {
        count++;
    }
    return dir && closedir(dir) == 0 ? count : 0;
}

static long do_fopen(const struct target *target)
{
    FILE *file = fopen(target->file, "re");
    return file && fclose(file) == 0;
}

static long do_whole(const struct target *target)
{
    struct stat st;
    int fd = open(target->file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return 0;
    }
    ssize_t got = read(fd, buffer, sizeof(buffer));
    return close(fd) == 0 && got == st.st_size;
}

static const struct operation plain[] = {
    {"stat", do_stat},     {"lstat", do_lstat},     {"fstat", do_fstat},
    {"access", do_access}, {"open+close", do_open}, {"read", do_read},
    {"getcwd", do_getcwd}, {"readdir", do_readdir}, {"fopen+fclose", do_fopen},
};

static const struct operation warm[] = {
    {"stat", do_stat},
    {"readdir", do_readdir},
    {"open+fstat+read+close", do_whole},
};

/* ---- measuring ---- */

static long must(const struct operation *operation, const struct target *target)
{
    long units = operation->call(target);
    if (units <= 0) {
        die(operation->name);
    }
    return units;
}

/* ns a unit of work: the least of all batches, which is what no interruption touched. */
static double least_ns(const struct operation *operation, const struct target *target)
{
    double least = 1e18;
    long calls = 1;
    uint64_t took = 0;
    for (; took < ROUND_NS; calls *= 2) {
        uint64_t began = now_ns();
        for (long i = 0; i < calls; i++) {
            must(operation, target);
        }
        took = now_ns() - began;
    }
    for (int round = 0; round < ROUNDS; round++) {
        long units = 0;
        uint64_t began = now_ns();
        for (long i = 0; i < calls / 2; i++) {
            units += must(operation, target);
        }
        double each = (double)(now_ns() - began) / (double)units;
        least = each < least ? each : least;
    }
    return least;
}

static int measure(const struct operation *operations, size_t count, const struct target *target)
{
    for (size_t i = 0; i < count; i++) {
        printf("%s %.1f\n", operations[i].name, least_ns(&operations[i], target));
    }
    return 0;
}

static int repeat(const char *name, long times, const struct target *target)
{
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        if (strcmp(plain[i].name, name) == 0) {
            for (long n = 0; n < times; n++) {
                must(&plain[i], target);
            }
            return 0;
        }
    }
    fprintf(stderr, "overhead: no operation %s\n", name);
    return 2;
}

/* ---- starts ---- */

static uint64_t start_ns(char *program, char **environment)
{
    char *argv[] = {program, NULL};
    pid_t pid;
    int status;
    uint64_t began = now_ns();
    errno = posix_spawn(&pid, program, NULL, NULL, argv, environment);
    if (errno != 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        die(program);
    }
    return now_ns() - began;
}

static int ascending(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

static int starts(int times, char *program, char **texts, int count)
{
    static uint64_t took[ENVIRONMENTS_MAX][STARTS_MAX];
    char *words[ENVIRONMENTS_MAX][WORDS_MAX + 1];
    for (int i = 0; i < count; i++) {
        int used = 0;
        for (char *word = strtok(texts[i], "\n"); word && used < WORDS_MAX; word = strtok(NULL, "\n")) {
            words[i][used++] = word;
        }
        words[i][used] = NULL;
    }
    /* In turn, so that the machine's moods meet all of them. */
    for (int n = 0; n < times; n++) {
        for (int i = 0; i < count; i++) {
            took[i][n] = start_ns(program, words[i]);
        }
    }
    for (int i = 0; i < count; i++) {
        qsort(took[i], (size_t)times, sizeof(took[i][0]), ascending);
        printf("%d %.1f %.1f\n", i, (double)took[i][0] / 1000, (double)took[i][times / 2] / 1000);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *mode = argc >= 4 ? argv[1] : "";
    if (strcmp(mode, "start") == 0) {
        int times = atoi(argv[2]);
        if (times > 0 && times <= STARTS_MAX && argc > 4 && argc - 4 <= ENVIRONMENTS_MAX) {
            return starts(times, argv[3], argv + 4, argc - 4);
        }
    } else if (mode[0] && strlen(argv[argc - 2]) < sizeof(file_path) &&
               strlen(argv[argc - 1]) < sizeof(dir_path)) {
        struct target target = {.file = strcpy(file_path, argv[argc - 2]),
                                .dir = strcpy(dir_path, argv[argc - 1])};
        target.fd = open(target.file, O_RDONLY | O_CLOEXEC);
        if (target.fd < 0) {
            die(target.file);
        }
        if (strcmp(mode, "time") == 0) {
            return measure(plain, sizeof(plain) / sizeof(plain[0]), &target);
        }
        if (strcmp(mode, "warm") == 0) {
            return measure(warm, sizeof(warm) / sizeof(warm[0]), &target);
        }
        if (strcmp(mode, "count") == 0 && argc == 6) {
            return repeat(argv[2], atol(argv[3]), &target);
        }
    }
    fputs("usage: overhead time|warm FILE DIR, count OPERATION TIMES FILE DIR, start TIMES PROGRAM "
          "ENVIRONMENT...\n",
          stderr);
    return 2;
}
