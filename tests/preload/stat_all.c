/* The stat family in both ABIs and statx: size and type are printed; dev and ino must agree between all of
 * them. */
#include <sys/sysmacros.h>

#include "tests/preload/probe.h"

extern int __xstat(int version, const char *path, struct stat *ret);
extern int __xstat64(int version, const char *path, struct stat64 *ret);
extern int __lxstat(int version, const char *path, struct stat *ret);
extern int __lxstat64(int version, const char *path, struct stat64 *ret);
extern int __fxstat(int version, int fd, struct stat *ret);
extern int __fxstat64(int version, int fd, struct stat64 *ret);
extern int __fxstatat(int version, int dirfd, const char *path, struct stat *ret, int flags);
extern int __fxstatat64(int version, int dirfd, const char *path, struct stat64 *ret, int flags);

#if defined(__x86_64__)
#define STAT_VERSION 1
#else
#define STAT_VERSION 0
#endif

static void same(const char *path, const char *how, int result, const struct stat *a, const void *other)
{
    const struct stat *b = other;
    probe_expect(result == 0, "%s: %s: %s", path, how, probe_errno(errno));
    probe_expect(result != 0 ||
                     (a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_mode == b->st_mode &&
                      a->st_size == b->st_size && a->st_nlink == b->st_nlink &&
                      a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
                      a->st_blocks == b->st_blocks && a->st_blksize == b->st_blksize),
                 "%s: %s differs from stat", path, how);
}

static void by_statx(const char *path, const struct stat *want)
{
    struct statx got;
    int result = statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &got);
    probe_expect(result == 0 && got.stx_ino == want->st_ino && got.stx_size == (uint64_t)want->st_size &&
                     got.stx_mode == want->st_mode &&
                     makedev(got.stx_dev_major, got.stx_dev_minor) == want->st_dev &&
                     got.stx_mtime.tv_sec == want->st_mtim.tv_sec,
                 "%s: statx differs from stat", path);
}

static void compare(const char *relative, uint64_t entry_ino)
{
    char *path = probe_path(relative);
    struct stat want, have;
    struct stat64 have64;
    int found = stat(path, &want);
    probe_expect(found == 0, "%s: %s", relative, probe_errno(errno));
    if (S_ISDIR(want.st_mode)) {
        printf("%s/ %o\n", relative, want.st_mode & S_IFMT);
    } else {
        printf("%s %o %lld\n", relative, want.st_mode & S_IFMT, (long long)want.st_size);
    }
    probe_expect(entry_ino == 0 || entry_ino == want.st_ino, "%s: d_ino differs from stat", relative);
    same(relative, "lstat", lstat(path, &have), &want, &have);
    same(relative, "stat64", stat64(path, &have64), &want, &have64);
    same(relative, "lstat64", lstat64(path, &have64), &want, &have64);
    same(relative, "fstatat", fstatat(AT_FDCWD, path, &have, 0), &want, &have);
    same(relative, "fstatat64", fstatat64(AT_FDCWD, path, &have64, AT_SYMLINK_NOFOLLOW), &want, &have64);
    same(relative, "__xstat", __xstat(STAT_VERSION, path, &have), &want, &have);
    same(relative, "__xstat64", __xstat64(STAT_VERSION, path, &have64), &want, &have64);
    same(relative, "__lxstat", __lxstat(STAT_VERSION, path, &have), &want, &have);
    same(relative, "__lxstat64", __lxstat64(STAT_VERSION, path, &have64), &want, &have64);
    same(relative, "__fxstatat", __fxstatat(STAT_VERSION, AT_FDCWD, path, &have, 0), &want, &have);
    same(relative, "__fxstatat64", __fxstatat64(STAT_VERSION, AT_FDCWD, path, &have64, 0), &want, &have64);
    by_statx(path, &want);
    int fd = open(path, O_RDONLY);
    same(relative, "fstat", fstat(fd, &have), &want, &have);
    same(relative, "fstat64", fstat64(fd, &have64), &want, &have64);
    same(relative, "__fxstat", __fxstat(STAT_VERSION, fd, &have), &want, &have);
    same(relative, "__fxstat64", __fxstat64(STAT_VERSION, fd, &have64), &want, &have64);
    same(relative, "fstatat of the descriptor", fstatat(fd, "", &have, AT_EMPTY_PATH), &want, &have);
    close(fd);
    free(path);
}

static void try_stat(const char *what, const char *relative)
{
    struct stat ret;
    char *path = probe_path(relative);
    probe_say(what, stat(path, &ret) == 0);
    free(path);
}

int main(int argc, char **argv)
{
    char name[PATH_MAX];
    struct stat root, parent;
    probe_begin(argc, argv);
    probe_walk();
    compare("", 0);
    for (size_t i = 0; i < probe_count; i++) {
        compare(probe_entries[i].path, probe_entries[i].ino);
    }
    try_stat("missing", "no-such-name");
    try_stat("missing folder", "no/such/name");
    snprintf(name, sizeof(name), "%s/x", probe_some(DT_REG, 0));
    try_stat("below a file", name);
    snprintf(name, sizeof(name), "%s/", probe_some(DT_REG, 0));
    try_stat("file with a slash", name);
    snprintf(name, sizeof(name), "%s/", probe_some(DT_DIR, 0));
    try_stat("directory with a slash", name);
    memset(name, 'x', 300);
    name[300] = '\0';
    try_stat("name of 300 bytes", name);
    char *up = probe_path("..");
    probe_expect(stat(probe_root, &root) == 0 && stat(up, &parent) == 0, "root and its parent");
    probe_expect(!probe_mapped() || root.st_dev != parent.st_dev, "a map's root has its parent's device");
    free(up);
    return probe_wrong;
}
