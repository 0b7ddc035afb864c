/* openat, fstatat, faccessat and readlinkat below directory descriptors, O_PATH ones and the working
 * directory. */
#include "tests/preload/probe.h"

static void below(const char *what, int dirfd, const char *path)
{
    uint64_t size = 0, hash = 0;
    int fd = openat(dirfd, path, O_RDONLY);
    if (fd >= 0) {
        hash = probe_digest(fd, &size);
        close(fd);
    }
    int error = errno;
    printf("%s %s: %s %llu %016llx\n", what, path, fd >= 0 ? "ok" : probe_errno(error),
           (unsigned long long)size, (unsigned long long)hash);
    struct stat by_path;
    int found = fstatat(dirfd, path, &by_path, 0);
    probe_expect((found == 0) == (fd >= 0), "%s %s: fstatat and openat differ", what, path);
    probe_expect((faccessat(dirfd, path, R_OK, 0) == 0) == (fd >= 0), "%s %s: faccessat", what, path);
    probe_expect(found != 0 || (uint64_t)by_path.st_size == size || S_ISDIR(by_path.st_mode), "%s %s: size",
                 what, path);
}

int main(int argc, char **argv)
{
    probe_begin(argc, argv);
    probe_walk();
    int root = open(probe_root, O_RDONLY | O_DIRECTORY);
    int path_only = open(probe_root, O_PATH | O_CLOEXEC);
    probe_say("root", root >= 0);
    probe_say("root by O_PATH", path_only >= 0);
    for (size_t i = 0; i < probe_count; i++) {
        if (probe_entries[i].type == DT_REG) {
            below("root", root, probe_entries[i].path);
            below("path", path_only, probe_entries[i].path);
            continue;
        }
        int dir = openat(root, probe_entries[i].path, O_RDONLY | O_DIRECTORY);
        probe_expect(dir >= 0, "%s: %s", probe_entries[i].path, probe_errno(errno));
        size_t len = strlen(probe_entries[i].path);
        for (size_t k = 0; k < probe_count; k++) {
            const char *path = probe_entries[k].path;
            if (probe_entries[k].type == DT_REG && strncmp(path, probe_entries[i].path, len) == 0 &&
                path[len] == '/') {
                below("deep", dir, path + len + 1);
            }
        }
        struct stat self, same;
        probe_expect(fstat(dir, &self) == 0 && fstatat(root, probe_entries[i].path, &same, 0) == 0 &&
                         self.st_ino == same.st_ino && self.st_dev == same.st_dev && S_ISDIR(self.st_mode),
                     "%s: fstat of its descriptor is another's", probe_entries[i].path);
        probe_expect(fstatat(dir, "", &same, AT_EMPTY_PATH) == 0 && same.st_ino == self.st_ino,
                     "%s: AT_EMPTY_PATH", probe_entries[i].path);
        close(dir);
    }
    const char *file = probe_some(DT_REG, 0);
    int fd = openat(root, file, O_RDONLY);
    below("missing", root, "no-such-name");
    below("dots", root, "./.");
    below("below a file", fd, "name");
    probe_say("openat below a closed descriptor", openat(987, "x", O_RDONLY) >= 0);
    probe_say("openat up and out", openat(root, "../../../../../../../../etc/passwd", O_RDONLY) >= 0);
    char link[16];
    probe_say("readlinkat of a file", readlinkat(root, file, link, sizeof(link)) >= 0);
    close(fd);
    close(root);
    close(path_only);
    return probe_wrong;
}
