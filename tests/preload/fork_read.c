/* Forked children read everything at once, also through descriptors and streams that the parent opened. */
#include <sys/wait.h>

#include "tests/preload/probe.h"

#define CHILDREN 8

static uint64_t digest_all(void)
{
    uint64_t all = PROBE_HASH, size;
    for (size_t i = 0; i < probe_count; i++) {
        if (probe_entries[i].type == DT_REG) {
            char *path = probe_path(probe_entries[i].path);
            int fd = open(path, O_RDONLY);
            uint64_t hash = fd < 0 ? 0 : probe_digest(fd, &size);
            probe_expect(hash != 0, "%s: %s", probe_entries[i].path, probe_errno(errno));
            all = probe_hash(all, &hash, sizeof(hash));
            close(fd);
            free(path);
        }
    }
    return all;
}

/* The stream was opened and half read by the parent. */
static int count_rest(DIR *dir)
{
    int count = 0;
    while (readdir(dir)) {
        count++;
    }
    return count;
}

int main(int argc, char **argv)
{
    int pipes[CHILDREN][2];
    pid_t pids[CHILDREN];
    probe_begin(argc, argv);
    probe_walk();
    DIR *dir = opendir(probe_root);
    int names = 0;
    while (readdir(dir)) {
        names++;
    }
    rewinddir(dir);
    readdir(dir);
    int root = dirfd(dir);
    for (int i = 0; i < CHILDREN; i++) {
        struct stat st;
        if (pipe(pipes[i]) < 0) {
            return 2;
        }
        fflush(stdout);
        pids[i] = fork();
        if (pids[i] == 0) {
            uint64_t hash = digest_all();
            /* A local stream shares its position with the other processes, ours does not: only the first
             * child asks. */
            bool good = i > 0 || count_rest(dir) == names - 1;
            good = good && fstatat(root, probe_some(DT_REG, 0), &st, 0) == 0;
            _exit(write(pipes[i][1], &hash, sizeof(hash)) == sizeof(hash) && good ? probe_wrong : 3);
        }
    }
    uint64_t own = digest_all();
    printf("%016llx\n", (unsigned long long)own);
    for (int i = 0; i < CHILDREN; i++) {
        uint64_t hash = 0;
        int status;
        probe_expect(read(pipes[i][0], &hash, sizeof(hash)) == sizeof(hash) && hash == own,
                     "child %d: other bytes", i);
        waitpid(pids[i], &status, 0);
        printf("child %d: %d\n", i, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    }
    closedir(dir);
    return probe_wrong;
}
