/* open and its twins on every file: bytes by read, pread, lseek and mmap; refusals of what is no file or not
 * there. */
#include <sys/mman.h>

#include "tests/preload/probe.h"

extern int __open_2(const char *path, int flags);
extern int __open64_2(const char *path, int flags);

static uint64_t by_mmap(int fd, uint64_t size)
{
    if (size == 0) {
        return PROBE_HASH;
    }
    void *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) {
        return 0;
    }
    uint64_t hash = probe_hash(PROBE_HASH, map, size);
    munmap(map, size);
    return hash;
}

static void every_way(const char *relative)
{
    char *path = probe_path(relative);
    uint64_t size, other;
    int fd = open(path, O_RDONLY);
    if (fd < 0) {
        printf("%s: %s\n", relative, probe_errno(errno));
        return;
    }
    uint64_t hash = probe_digest(fd, &size);
    printf("%s %llu %016llx\n", relative, (unsigned long long)size, (unsigned long long)hash);
    probe_expect(lseek(fd, 0, SEEK_END) == (off_t)size, "%s: SEEK_END is not the size", relative);
    probe_expect(by_mmap(fd, size) == hash, "%s: mmap shows other bytes", relative);
    char last;
    probe_expect(pread(fd, &last, 1, (off_t)size) == 0, "%s: no end of file at the end", relative);
    close(fd);
    int (*const ways[])(const char *, int) = {__open_2, __open64_2};
    for (unsigned i = 0; i < 2; i++) {
        fd = ways[i](path, O_RDONLY | O_CLOEXEC);
        probe_expect(fd >= 0 && probe_digest(fd, &other) == hash, "%s: fortified open %u", relative, i);
        probe_expect(fd >= 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC), "%s: O_CLOEXEC lost", relative);
        close(fd);
    }
    fd = open64(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    probe_expect(fd >= 0 && probe_digest(fd, &other) == hash, "%s: open64", relative);
    close(fd);
    free(path);
}

static void try_open(const char *what, const char *relative, int flags)
{
    char *path = probe_path(relative);
    int fd = open(path, flags, 0666);
    probe_say(what, fd >= 0);
    if (fd >= 0) {
        close(fd);
    }
    free(path);
}

int main(int argc, char **argv)
{
    char name[PATH_MAX];
    probe_begin(argc, argv);
    probe_walk();
    for (size_t i = 0; i < probe_count; i++) {
        if (probe_entries[i].type == DT_REG) {
            every_way(probe_entries[i].path);
        }
    }
    const char *file = probe_some(DT_REG, 0), *dir = probe_some(DT_DIR, 0);
    try_open("missing", "no-such-name", O_RDONLY);
    try_open("missing folder", "no/such/name", O_RDONLY);
    snprintf(name, sizeof(name), "%s/below", file);
    try_open("below a file", name, O_RDONLY);
    snprintf(name, sizeof(name), "%s/", file);
    try_open("file with a slash", name, O_RDONLY);
    try_open("file as a directory", file, O_RDONLY | O_DIRECTORY);
    try_open("exclusive creation of what is there", file, O_CREAT | O_EXCL | O_RDONLY);
    try_open("directory", dir, O_RDONLY);
    try_open("directory as such", dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    try_open("directory by O_PATH", dir, O_PATH);
    try_open("directory for writing", dir, O_WRONLY);
    /* The first directory of the sorted walk lies at the top. */
    snprintf(name, sizeof(name), ".//%s/../%s/.././/%s", dir, dir, file);
    try_open("odd spelling", name, O_RDONLY);
    return probe_wrong;
}
