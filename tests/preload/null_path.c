/* A NULL path is EFAULT, or whatever libc makes of it, and never the end of the process: Rust's standard
 * library asks statx so whether the kernel knows it. Each call in a child of its own, from outside and from
 * inside the directory. */
#include <mntent.h>
#include <spawn.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mount.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <utime.h>

#include "tests/preload/probe.h"

static const char *volatile none; /* volatile: the compiler is not to know that it is NULL */
static char *const nothing[] = {NULL};
static void *volatile nowhere;
static struct stat plain;
static struct statx extended;
static struct statfs fs;
static struct statvfs vfs;
static char buffer[PATH_MAX];

/* How a call ended, as the status of the child that made it: 200 for a result, an errno below. */
#define CALL(call)                                                                                           \
    do {                                                                                                     \
        fflush(stdout);                                                                                      \
        pid_t pid = fork();                                                                                  \
        if (pid == 0) {                                                                                      \
            errno = 0;                                                                                       \
            bool bad = (long)(call) == -1 || ((long)(call) == 0 && errno);                                   \
            _exit(bad ? errno : 200);                                                                        \
        }                                                                                                    \
        say(#call, pid);                                                                                     \
    } while (0)

static void say(const char *call, pid_t pid)
{
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        printf("%s: no child\n", call);
    } else if (WIFSIGNALED(status)) {
        printf("%s: signal %d\n", call, WTERMSIG(status));
    } else {
        printf("%s: %s\n", call, WEXITSTATUS(status) == 200 ? "ok" : probe_errno(WEXITSTATUS(status)));
    }
}

static void look(int dirfd)
{
    CALL(statx(0, none, 0, STATX_ALL, nowhere));
    CALL(statx(dirfd, none, 0, STATX_ALL, &extended));
    CALL(statx(dirfd, none, AT_SYMLINK_NOFOLLOW, STATX_ALL, &extended));
    CALL(stat(none, &plain));
    CALL(lstat(none, &plain));
    CALL(fstatat(dirfd, none, &plain, 0));
    CALL(fstatat(dirfd, none, &plain, AT_SYMLINK_NOFOLLOW));
    CALL(access(none, R_OK));
    CALL(faccessat(dirfd, none, R_OK, 0));
    CALL(euidaccess(none, R_OK));
    CALL(readlink(none, buffer, sizeof(buffer)));
    CALL(readlinkat(dirfd, none, buffer, sizeof(buffer)));
    CALL(realpath(none, buffer));
    CALL(canonicalize_file_name(none));
    CALL(statfs(none, &fs));
    CALL(statvfs(none, &vfs));
    CALL(getxattr(none, "user.x", buffer, sizeof(buffer)));
    CALL(lgetxattr(none, "user.x", buffer, sizeof(buffer)));
    CALL(listxattr(none, buffer, sizeof(buffer)));
    CALL(llistxattr(none, buffer, sizeof(buffer)));
    CALL(ftok(none, 1));
    CALL(pathconf(none, _PC_NAME_MAX));
    CALL(inotify_add_watch(inotify_init(), none, IN_MODIFY));
    CALL(syscall(SYS_statx, dirfd, none, 0, STATX_ALL, &extended));
    CALL(syscall(SYS_newfstatat, dirfd, none, &plain, 0));
}

static void enter(int dirfd)
{
    CALL(open(none, O_RDONLY));
    CALL(open(none, O_RDONLY | O_DIRECTORY));
    CALL(open(none, O_WRONLY | O_CREAT, 0600));
    CALL(openat(dirfd, none, O_RDONLY));
    CALL(creat(none, 0600));
    CALL(fopen(none, "r"));
    CALL(chdir(none));
    CALL(opendir(none));
    CALL(setmntent(none, "r"));
    CALL(syscall(SYS_openat, dirfd, none, O_RDONLY));
    CALL(execve(none, nothing, nothing));
    CALL(execveat(dirfd, none, nothing, nothing, 0));
    CALL(posix_spawn(NULL, none, NULL, NULL, nothing, nothing));
    CALL(chroot(none));
}

static void change(int dirfd)
{
    CALL(unlink(none));
    CALL(unlinkat(dirfd, none, 0));
    CALL(remove(none));
    CALL(rmdir(none));
    CALL(mkdir(none, 0700));
    CALL(mkdirat(dirfd, none, 0700));
    CALL(rename(none, "x"));
    CALL(rename("x", none));
    CALL(renameat(dirfd, none, dirfd, "x"));
    CALL(link(none, "x"));
    CALL(link("x", none));
    CALL(linkat(dirfd, none, dirfd, "x", 0));
    CALL(symlink(none, "x"));
    CALL(symlink("x", none));
    CALL(symlinkat("x", dirfd, none));
    CALL(truncate(none, 1));
    CALL(chmod(none, 0600));
    CALL(fchmodat(dirfd, none, 0600, 0));
    CALL(chown(none, 0, 0));
    CALL(lchown(none, 0, 0));
    CALL(fchownat(dirfd, none, 0, 0, 0));
    CALL(utime(none, NULL));
    CALL(utimes(none, NULL));
    CALL(lutimes(none, NULL));
    CALL(mknod(none, S_IFIFO | 0600, 0));
    CALL(mkfifo(none, 0600));
    CALL(setxattr(none, "user.x", "y", 1, 0));
    CALL(removexattr(none, "user.x"));
    CALL(umount(none));
    CALL(swapon(none, 0));
}

int main(int argc, char **argv)
{
    probe_begin(argc, argv);
    int dirfd = open(probe_root, O_RDONLY | O_DIRECTORY);
    printf("outside\n");
    look(AT_FDCWD);
    enter(AT_FDCWD);
    change(AT_FDCWD);
    printf("from a descriptor\n");
    look(dirfd);
    enter(dirfd);
    if (chdir(probe_root)) {
        return 1;
    }
    printf("inside\n");
    look(AT_FDCWD);
    enter(AT_FDCWD);
    return probe_wrong;
}
