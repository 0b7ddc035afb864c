/* freopen and freopen64: stdin becomes a file and keeps its number; a failure closes the stream. */
#include "tests/preload/probe.h"

int main(int argc, char **argv)
{
    char line[400];
    probe_begin(argc, argv);
    probe_walk();
    for (size_t i = 0; i < probe_count; i++) {
        if (probe_entries[i].type != DT_REG) {
            continue;
        }
        char *path = probe_path(probe_entries[i].path);
        uint64_t hash = PROBE_HASH, size = 0, other;
        FILE *stream = i % 2 ? freopen(path, "r", stdin) : freopen64(path, "rb", stdin);
        if (!stream) {
            printf("%s: %s\n", probe_entries[i].path, probe_errno(errno));
            return 1;
        }
        size_t got;
        while ((got = fread(line, 1, sizeof(line), stdin)) > 0) {
            hash = probe_hash(hash, line, got);
            size += got;
        }
        printf("%s fd %d: %llu %016llx\n", probe_entries[i].path, fileno(stdin), (unsigned long long)size,
               (unsigned long long)hash);
        int fd = open(path, O_RDONLY);
        probe_expect(probe_digest(fd, &other) == hash && other == size, "%s: open reads other bytes", path);
        struct stat by_fd, by_path;
        probe_expect(fstat(fileno(stdin), &by_fd) == 0 && stat(path, &by_path) == 0 &&
                         by_fd.st_ino == by_path.st_ino && by_fd.st_dev == by_path.st_dev,
                     "%s: fstat of the stream is another file's", path);
        close(fd);
        free(path);
    }
    char *path = probe_path(probe_some(DT_REG, 0));
    FILE *own = fopen(path, "r");
    probe_say("same stream, other mode", own && freopen(NULL, "rb", own) == own);
    char *missing = probe_path("no-such-name");
    int before = own ? fileno(own) : -1;
    probe_say("missing", freopen(missing, "r", own) != NULL);
    probe_expect(fcntl(before, F_GETFD) < 0, "a failed freopen left the descriptor open");
    free(missing);
    free(path);
    return probe_wrong;
}
