/* opendir, fdopendir, readdir in all forms, rewinddir, telldir, seekdir, dirfd: every directory, sorted here.
 */
#include "tests/preload/probe.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#define NAMES_MAX 4096

static char *names[NAMES_MAX];
static int count;

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void keep(const char *name)
{
    if (count < NAMES_MAX) {
        names[count++] = strdup(name);
    }
}

static uint64_t digest(void)
{
    uint64_t hash = PROBE_HASH;
    qsort(names, (size_t)count, sizeof(names[0]), by_name);
    for (int i = 0; i < count; i++) {
        hash = probe_hash(hash, names[i], strlen(names[i]) + 1);
        free(names[i]);
    }
    count = 0;
    return hash;
}

static uint64_t by_readdir64(DIR *dir)
{
    struct dirent64 *entry;
    while ((entry = readdir64(dir))) {
        probe_expect(entry->d_ino != 0 && entry->d_reclen > strlen(entry->d_name), "%s: record",
                     entry->d_name);
        keep(entry->d_name);
    }
    return digest();
}

static uint64_t by_readdir_r(DIR *dir)
{
    struct dirent entry, *got;
    while (readdir_r(dir, &entry, &got) == 0 && got) {
        keep(entry.d_name);
    }
    return digest();
}

/* Every position is told, then visited in reverse. */
static void by_positions(const char *path, DIR *dir)
{
    static long at[NAMES_MAX];
    static char *want[NAMES_MAX];
    int found = 0;
    struct dirent *entry;
    rewinddir(dir);
    for (;;) {
        at[found] = telldir(dir);
        entry = readdir(dir);
        if (!entry || found == NAMES_MAX - 1) {
            break;
        }
        want[found++] = strdup(entry->d_name);
    }
    for (int i = found - 1; i >= 0; i--) {
        seekdir(dir, at[i]);
        entry = readdir(dir);
        probe_expect(entry && strcmp(entry->d_name, want[i]) == 0, "%s: seekdir to %s", path, want[i]);
        free(want[i]);
    }
}

static void walk(const char *relative)
{
    char *path = probe_path(relative);
    DIR *dir = opendir(path);
    if (!dir) {
        printf("%s: %s\n", relative, probe_errno(errno));
        exit(1);
    }
    struct dirent *entry;
    uint64_t dots = 0;
    while ((entry = readdir(dir))) {
        bool dot = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
        dots += dot;
        probe_expect(!dot || entry->d_type == DT_DIR, "%s/%s: type", relative, entry->d_name);
        keep(entry->d_name);
    }
    int total = count;
    uint64_t hash = digest();
    printf("%s/ %d names %016llx\n", relative, total, (unsigned long long)hash);
    probe_expect(dots == 2, "%s: %llu dots", relative, (unsigned long long)dots);
    probe_expect(readdir(dir) == NULL, "%s: something behind the end", relative);
    rewinddir(dir);
    probe_expect(by_readdir64(dir) == hash, "%s: readdir64 after rewinddir", relative);
    rewinddir(dir);
    probe_expect(by_readdir_r(dir) == hash, "%s: readdir_r", relative);
    by_positions(relative, dir);
    struct stat by_fd, by_path;
    probe_expect(fstat(dirfd(dir), &by_fd) == 0 && stat(path, &by_path) == 0 &&
                     by_fd.st_ino == by_path.st_ino,
                 "%s: dirfd is another directory", relative);
    probe_expect(dirfd(dir) == dirfd(dir), "%s: dirfd twice", relative);
    int copy = fcntl(dirfd(dir), F_DUPFD_CLOEXEC, 0);
    probe_expect(closedir(dir) == 0, "%s: closedir", relative);
    dir = fdopendir(copy);
    probe_expect(dir && dirfd(dir) == copy, "%s: fdopendir", relative);
    if (dir) {
        rewinddir(dir);
        probe_expect(by_readdir64(dir) == hash, "%s: readdir64 after fdopendir", relative);
        closedir(dir);
        probe_expect(fcntl(copy, F_GETFD) < 0, "%s: closedir left the descriptor", relative);
    }
    free(path);
}

static void try_opendir(const char *what, const char *relative)
{
    char *path = probe_path(relative);
    DIR *dir = opendir(path);
    probe_say(what, dir != NULL);
    if (dir) {
        closedir(dir);
    }
    free(path);
}

int main(int argc, char **argv)
{
    DIR *many[600];
    char name[PATH_MAX];
    probe_begin(argc, argv);
    probe_walk();
    walk("");
    for (size_t i = 0; i < probe_count; i++) {
        if (probe_entries[i].type == DT_DIR) {
            walk(probe_entries[i].path);
        }
    }
    try_opendir("missing", "no-such-name");
    try_opendir("file", probe_some(DT_REG, 0));
    snprintf(name, sizeof(name), "%s/x", probe_some(DT_REG, 0));
    try_opendir("below a file", name);
    probe_say("empty name", opendir("") != NULL);
    probe_say("fdopendir of nothing", fdopendir(987) != NULL);
    int fd = open(probe_root[0] ? "/etc/passwd" : "", O_RDONLY);
    probe_say("fdopendir of a file", fdopendir(fd) != NULL);
    close(fd);
    /* More at once than one pool holds. */
    unsigned opened = 0;
    for (; opened < 600 && (many[opened] = opendir(probe_root)); opened++) {
    }
    printf("open at once: %u\n", opened);
    for (unsigned i = 0; i < opened; i++) {
        probe_expect(readdir(many[i]) != NULL && closedir(many[i]) == 0, "stream %u", i);
    }
    return probe_wrong;
}
