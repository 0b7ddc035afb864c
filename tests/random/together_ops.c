/* Names from several at once: threads, and children by fork with directories of their own. What each of them
 * sees is summed up; descriptors that they get are not told. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/random/random.h"

#define THREADS 4
#define NAMES 12 /* of each */
#define READ_BYTES 4096u

struct visit {
    char path[PATH_ROOM];
    bool folder;
    off_t offset;
};
struct work {
    struct visit visits[NAMES];
    uint64_t sum;
};
static struct work works[THREADS];

static uint64_t add(uint64_t sum, uint64_t value)
{
    return sum * 0x100000001b3ull + value;
}

/* Which of the two it is, a store is not asked where nothing is listed. */
static uint64_t sum_error(void)
{
    return (uint64_t)(errno == ENOTDIR ? ENOENT : errno);
}

static uint64_t sum_folder(const char *path)
{
    uint64_t sum = 0;
    DIR *dir = opendir(path);
    if (!dir) {
        return sum_error();
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        sum += hash_of(entry->d_name, strlen(entry->d_name)) ^ entry->d_type;
    }
    closedir(dir);
    return sum;
}

static uint64_t sum_mapped(int fd, off_t offset)
{
    off_t page = offset & ~(off_t)4095;
    uint64_t sum = 7;
    struct stat stat;
    if (fstat(fd, &stat) != 0 || page + READ_BYTES > stat.st_size) {
        return sum;
    }
    void *at = mmap(NULL, READ_BYTES, PROT_READ, MAP_PRIVATE, fd, page);
    if (at != MAP_FAILED) {
        sum = hash_of(at, READ_BYTES);
        munmap(at, READ_BYTES);
    }
    return sum;
}

static uint64_t sum_file(const char *path, off_t offset)
{
    unsigned char bytes[READ_BYTES];
    struct stat by_path, by_fd;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint64_t sum = fd < 0 ? sum_error() : 0;
    if (fd >= 0) {
        ssize_t got = pread(fd, bytes, sizeof(bytes), offset);
        sum = add(sum, got > 0 ? hash_of(bytes, (size_t)got) : (uint64_t)got);
        got = read(fd, bytes, sizeof(bytes));
        sum = add(sum, got > 0 ? hash_of(bytes, (size_t)got) : (uint64_t)got);
        sum = add(sum, sum_mapped(fd, offset));
        bool same = stat(path, &by_path) == 0 && fstat(fd, &by_fd) == 0 && by_path.st_ino == by_fd.st_ino;
        sum = add(sum, same ? (uint64_t)by_fd.st_size : 1);
        close(fd);
    }
    return sum;
}

static void *work(void *argument)
{
    struct work *work = argument;
    work->sum = 0;
    for (int i = 0; i < NAMES; i++) {
        const struct visit *visit = &work->visits[i];
        work->sum =
            add(work->sum, visit->folder ? sum_folder(visit->path) : sum_file(visit->path, visit->offset));
    }
    return NULL;
}

static void draw_work(struct work *work)
{
    for (int i = 0; i < NAMES; i++) {
        struct visit *visit = &work->visits[i];
        visit->folder = percent(20);
        visit->offset = draw(21 << 20);
        snprintf(visit->path, sizeof(visit->path), "%s%s", draw_tamed(visit->folder),
                 percent(8) ? "/nothing" : "");
    }
}

static void run_names(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        draw_work(&works[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, work, &works[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        say(" %016llx", (unsigned long long)works[i].sum);
    }
}

/* A child that goes where its parent is not, while the parent goes on. */
static void run_child(void)
{
    int ends[2];
    const char *where = draw_tamed(true);
    draw_work(&works[0]);
    draw_work(&works[1]);
    if (pipe(ends) != 0) {
        return;
    }
    say_path(where);
    pid_t pid = fork();
    if (pid == 0) {
        char here[PATH_ROOM] = "";
        work(&works[0]);
        uint64_t told[2] = {works[0].sum, chdir(where) == 0 && getcwd(here, sizeof(here)) ? 1 : 0};
        told[1] = add(add(told[1], hash_of(here, strlen(here))), sum_folder("."));
        _exit(write(ends[1], told, sizeof(told)) == sizeof(told) ? 0 : 1);
    }
    close(ends[1]);
    work(&works[1]);
    uint64_t told[2] = {0};
    ssize_t got = read(ends[0], told, sizeof(told));
    close(ends[0]);
    int status = -1;
    waitpid(pid, &status, 0);
    say(" %zd status %x %016llx %016llx own %016llx", got, (unsigned)status, (unsigned long long)told[0],
        (unsigned long long)told[1], (unsigned long long)works[1].sum);
}

const struct op together_ops[] = {{"names", 6, run_names}, {"child", 6, run_child}, {0}};
