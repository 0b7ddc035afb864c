/* 16 threads open, stat, list and read everything, each from another start. */
#include <pthread.h>

#include "tests/preload/probe.h"

#define THREADS 16

static uint64_t hashes[THREADS][PROBE_ENTRIES_MAX];

static int count_names(const char *path)
{
    int count = 0;
    DIR *dir = opendir(path);
    while (dir && readdir(dir)) {
        count++;
    }
    if (dir) {
        closedir(dir);
    }
    return count;
}

static void *work(void *argument)
{
    size_t own = (size_t)argument;
    for (size_t k = 0; k < probe_count; k++) {
        size_t i = (k + own * probe_count / THREADS) % probe_count;
        char *path = probe_path(probe_entries[i].path);
        struct stat by_path, by_fd;
        uint64_t size;
        int fd = open(path, O_RDONLY);
        bool same = fd >= 0 && stat(path, &by_path) == 0 && fstat(fd, &by_fd) == 0 &&
                    by_path.st_ino == by_fd.st_ino && by_path.st_ino == probe_entries[i].ino;
        if (!same) {
            hashes[own][i] = 1;
        } else if (probe_entries[i].type == DT_REG) {
            hashes[own][i] = probe_digest(fd, &size);
        } else {
            hashes[own][i] = (uint64_t)count_names(path);
        }
        close(fd);
        free(path);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    probe_begin(argc, argv);
    probe_walk();
    for (size_t i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, work, (void *)i) != 0) {
            return 2;
        }
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (size_t i = 0; i < probe_count; i++) {
        printf("%s %016llx\n", probe_entries[i].path, (unsigned long long)hashes[0][i]);
        for (size_t k = 1; k < THREADS; k++) {
            probe_expect(hashes[k][i] == hashes[0][i], "%s: thread %zu sees something else",
                         probe_entries[i].path, k);
        }
    }
    return probe_wrong;
}
