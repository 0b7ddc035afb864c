/* Everything that would change a map is refused as a read-only file system refuses it, and changes nothing.
 * On a local copy nothing is tried: this program compares with its own table and prints only what is wrong.
 */
#include <dlfcn.h>
#include <sys/time.h>
#include <utime.h>

#include "tests/preload/probe.h"

static char file[PATH_MAX], dir[PATH_MAX], fresh[PATH_MAX], lost[PATH_MAX], under[PATH_MAX], root[PATH_MAX],
    outside[PATH_MAX];

static void refused(const char *what, int result, int want)
{
    int error = errno;
    probe_expect(result < 0 && error == want, "%s: %s, not %s", what, probe_errno(result < 0 ? error : 0),
                 probe_errno(want));
    if (result >= 3) {
        close(result);
    }
}

static void removing(void)
{
    refused("unlink file", unlink(file), EROFS);
    refused("unlink directory", unlink(dir), EROFS);
    refused("unlink missing", unlink(fresh), ENOENT);
    refused("unlink below a file", unlink(under), ENOTDIR);
    refused("unlinkat file", unlinkat(AT_FDCWD, file, 0), EROFS);
    refused("unlinkat directory", unlinkat(AT_FDCWD, dir, AT_REMOVEDIR), EROFS);
    refused("remove file", remove(file), EROFS);
    refused("remove missing", remove(lost), ENOENT);
    refused("rmdir", rmdir(dir), EROFS);
    refused("rmdir missing", rmdir(fresh), ENOENT);
    refused("rmdir root", rmdir(root), EBUSY);
}

/* Names of mknod in old programs; no header has them any more. */
static void old_names(void)
{
    int (*make)(int, const char *, mode_t, dev_t *) =
        (int (*)(int, const char *, mode_t, dev_t *))dlsym(RTLD_DEFAULT, "__xmknod");
    int (*make_at)(int, int, const char *, mode_t, dev_t *) =
        (int (*)(int, int, const char *, mode_t, dev_t *))dlsym(RTLD_DEFAULT, "__xmknodat");
    dev_t none = 0;
    refused("__xmknod", make(0, fresh, S_IFREG | 0666, &none), EROFS);
    refused("__xmknod there", make(0, file, S_IFREG | 0666, &none), EEXIST);
    refused("__xmknodat", make_at(0, AT_FDCWD, fresh, S_IFREG | 0666, &none), EROFS);
}

static void creating(void)
{
    refused("mkdir", mkdir(fresh, 0777), EROFS);
    refused("mkdir there", mkdir(dir, 0777), EEXIST);
    refused("mkdir root", mkdir(root, 0777), EEXIST);
    refused("mkdir without parent", mkdir(lost, 0777), ENOENT);
    refused("mkdir below a file", mkdir(under, 0777), ENOTDIR);
    refused("mkdirat", mkdirat(AT_FDCWD, fresh, 0777), EROFS);
    refused("symlink", symlink("x", fresh), EROFS);
    refused("symlink there", symlink("x", file), EEXIST);
    refused("symlinkat", symlinkat("x", AT_FDCWD, lost), ENOENT);
    refused("mknod", mknod(fresh, S_IFREG | 0666, 0), EROFS);
    refused("mknodat", mknodat(AT_FDCWD, file, S_IFREG | 0666, 0), EEXIST);
    refused("mkfifo", mkfifo(fresh, 0666), EROFS);
    refused("mkfifoat", mkfifoat(AT_FDCWD, lost, 0666), ENOENT);
    refused("creat", creat(fresh, 0666), EROFS);
    refused("creat there", creat(file, 0666), EROFS);
    refused("open O_CREAT", open(fresh, O_CREAT | O_RDONLY, 0666), EROFS);
    refused("open O_CREAT without parent", open(lost, O_CREAT | O_WRONLY, 0666), ENOENT);
    refused("open O_WRONLY", open(file, O_WRONLY), EROFS);
    refused("open O_RDWR", open(file, O_RDWR), EROFS);
    refused("open O_TRUNC", open(file, O_RDONLY | O_TRUNC), EROFS);
    refused("open O_TMPFILE", open(dir, O_TMPFILE | O_RDWR, 0600), EROFS);
}

static void moving(void)
{
    refused("rename", rename(file, fresh), EROFS);
    refused("rename missing", rename(fresh, file), ENOENT);
    refused("rename into nothing", rename(file, lost), ENOENT);
    refused("rename out", rename(file, outside), EXDEV);
    refused("rename in", rename("/etc/passwd", fresh), EXDEV);
    refused("renameat", renameat(AT_FDCWD, dir, AT_FDCWD, fresh), EROFS);
    refused("renameat2", renameat2(AT_FDCWD, file, AT_FDCWD, fresh, 0), EROFS);
    refused("rename root", rename(root, fresh), EXDEV);
    refused("link", link(file, fresh), EROFS);
    refused("link there", link(file, file), EEXIST);
    refused("link missing", link(fresh, fresh), ENOENT);
    refused("link out", link(file, outside), EXDEV);
    refused("linkat in", linkat(AT_FDCWD, "/etc/passwd", AT_FDCWD, fresh, 0), EROFS);
}

static void changing(void)
{
    struct timeval now[2] = {{1, 0}, {1, 0}};
    struct timespec fine[2] = {{1, 0}, {1, 0}};
    refused("truncate", truncate(file, 0), EROFS);
    refused("truncate64", truncate64(file, 0), EROFS);
    refused("truncate directory", truncate(dir, 0), EISDIR);
    refused("truncate negative", truncate(file, -1), EINVAL);
    refused("truncate missing", truncate(fresh, 0), ENOENT);
    refused("chmod", chmod(file, 0777), EROFS);
    refused("chmod missing", chmod(fresh, 0777), ENOENT);
    refused("fchmodat", fchmodat(AT_FDCWD, dir, 0777, 0), EROFS);
    refused("chown", chown(file, getuid(), getgid()), EROFS);
    refused("lchown", lchown(file, getuid(), getgid()), EROFS);
    refused("fchownat", fchownat(AT_FDCWD, under, getuid(), getgid(), 0), ENOTDIR);
    refused("utime", utime(file, NULL), EROFS);
    refused("utimes", utimes(file, now), EROFS);
    refused("lutimes", lutimes(fresh, now), ENOENT);
    refused("futimesat", futimesat(AT_FDCWD, file, now), EROFS);
    refused("utimensat", utimensat(AT_FDCWD, file, fine, 0), EROFS);
}

static void by_descriptor(const char *path)
{
    struct timeval now[2] = {{1, 0}, {1, 0}};
    struct timespec fine[2] = {{1, 0}, {1, 0}};
    int fd = open(path, O_RDONLY);
    probe_expect(fd >= 0, "%s: open: %s", path, probe_errno(errno));
    refused("fchmod", fchmod(fd, 0777), EROFS);
    refused("fchown", fchown(fd, getuid(), getgid()), EROFS);
    refused("futimens", futimens(fd, fine), EROFS);
    refused("futimes", futimes(fd, now), EROFS);
    refused("fchownat of a descriptor", fchownat(fd, "", getuid(), getgid(), AT_EMPTY_PATH), EROFS);
    close(fd);
}

static void write_to(int fd)
{
    probe_expect(write(fd, "x", 1) < 0, "write to a file of a map");
    probe_expect(ftruncate(fd, 0) < 0, "ftruncate of a file of a map");
}

static void temporary(void)
{
    char name[PATH_MAX + 32];
    snprintf(name, sizeof(name), "%s/tXXXXXX", dir);
    refused("mkstemp", mkstemp(name), EROFS);
    refused("mkstemp64", mkstemp64(name), EROFS);
    refused("mkostemp", mkostemp(name, O_CLOEXEC), EROFS);
    refused("mkdtemp", mkdtemp(name) ? 0 : -1, EROFS);
    snprintf(name, sizeof(name), "%s/tXXXXXX.end", dir);
    refused("mkstemps", mkstemps(name, 4), EROFS);
    refused("mkostemps64", mkostemps64(name, 4, 0), EROFS);
    refused("mkstemps, bad template", mkstemps(name, 3), EINVAL);
    snprintf(name, sizeof(name), "%s/tXXXXXX", lost);
    refused("mkstemp without parent", mkstemp(name), ENOENT);
    static const char *const modes[] = {"w", "a", "r+", "w+", "a+", "wx"};
    for (unsigned i = 0; i < 6; i++) {
        FILE *stream = fopen(file, modes[i]);
        refused(modes[i], stream ? 0 : -1, i == 5 ? EEXIST : EROFS);
    }
    refused("fopen new", fopen(fresh, "w") ? 0 : -1, EROFS);
}

/* A relative temporary file beside the tree, made while the working directory is inside it. */
static void temporary_outside(void)
{
    char name[] = "../hr-probe-XXXXXX";
    int start = open(".", O_RDONLY | O_DIRECTORY);
    if (chdir(root) == 0) {
        int fd = mkstemp(name);
        probe_expect(fd >= 0 && access(name, F_OK) == 0, "mkstemp beside the tree: %s", probe_errno(errno));
        probe_expect(unlink(name) == 0, "unlink beside the tree: %s", probe_errno(errno));
        close(fd);
    }
    probe_expect(fchdir(start) == 0, "fchdir back");
    close(start);
}

int main(int argc, char **argv)
{
    uint64_t before, after;
    struct stat st, st_after;
    probe_begin(argc, argv);
    probe_walk();
    snprintf(root, sizeof(root), "%s", probe_root);
    snprintf(file, sizeof(file), "%s/%s", probe_root, probe_some(DT_REG, 0));
    snprintf(dir, sizeof(dir), "%s/%s", probe_root, probe_some(DT_DIR, 0));
    snprintf(fresh, sizeof(fresh), "%s/no-such-name", probe_root);
    snprintf(lost, sizeof(lost), "%s/no-such-folder/name", probe_root);
    snprintf(under, sizeof(under), "%s/%s/name", probe_root, probe_some(DT_REG, 0));
    snprintf(outside, sizeof(outside), "%s-outside", probe_root);
    int fd = open(file, O_RDONLY);
    uint64_t hash = probe_digest(fd, &before);
    probe_expect(fstat(fd, &st) == 0, "fstat");
    if (probe_mapped()) {
        removing();
        creating();
        old_names();
        moving();
        changing();
        by_descriptor(file);
        write_to(fd);
        temporary();
    }
    temporary_outside();
    lseek(fd, 0, SEEK_SET);
    probe_expect(probe_digest(fd, &after) == hash && before == after, "the file changed");
    probe_expect(fstat(fd, &st_after) == 0 && st_after.st_mode == st.st_mode &&
                     st_after.st_mtim.tv_sec == st.st_mtim.tv_sec,
                 "its mode or time changed");
    probe_expect(access(outside, F_OK) < 0, "something was made outside");
    close(fd);
    printf("entries %zu\n", probe_count);
    return probe_wrong;
}
