/* What a vfork child does (close, dup2, chdir, open, exec) leaves the parent's descriptors and directory
 * alone. */
#include <sys/wait.h>

#include "tests/preload/probe.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static void check_parent(const char *what, int root, const char *file)
{
    char here[PATH_MAX];
    struct stat st;
    printf("%s: %s %s\n", what, probe_errno(fstatat(root, file, &st, 0) == 0 ? 0 : errno),
           getcwd(here, sizeof(here)) ? here : probe_errno(errno));
    int fd = openat(root, file, O_RDONLY);
    uint64_t size, hash = probe_digest(fd, &size);
    printf("  %llu %016llx\n", (unsigned long long)size, (unsigned long long)hash);
    close(fd);
}

static int wait_for(pid_t pid)
{
    int status;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(int argc, char **argv)
{
    probe_begin(argc, argv);
    probe_walk();
    const char *file = probe_some(DT_REG, 0);
    char *path = probe_path(file), *dir = probe_path(probe_some(DT_DIR, 0));
    char *const sum[] = {"cksum", path, NULL};
    char *const list[] = {"ls", ".", NULL};
    int root = open(probe_root, O_RDONLY | O_DIRECTORY);
    int null = open("/dev/null", O_RDWR);
    check_parent("before", root, file);

    fflush(stdout);
    pid_t pid = vfork();
    if (pid == 0) {
        close(root);
        dup2(null, root);
        char first;
        int fd = open(path, O_RDONLY);
        _exit(fd >= 0 && read(fd, &first, 1) >= 0 ? 0 : 3);
    }
    printf("closing child: %d\n", wait_for(pid));
    check_parent("after close in the child", root, file);

    pid = vfork();
    if (pid == 0) {
        int ok = chdir(dir) == 0;
        execv(ok ? "/bin/ls" : "/bin/false", list);
        _exit(4);
    }
    printf("chdir child: %d\n", wait_for(pid));
    check_parent("after chdir in the child", root, file);

    char kept[PATH_MAX];
    probe_expect(getcwd(kept, sizeof(kept)) && chdir("/usr") == 0, "chdir");
    pid = vfork();
    if (pid == 0) {
        static char here[PATH_MAX];
        struct stat st;
        int ok = chdir(probe_root) == 0 && access(file, R_OK) == 0 && stat(file, &st) == 0 &&
                 open(file, O_RDONLY) >= 0 && getcwd(here, sizeof(here)) && strcmp(here, probe_root) == 0;
        _exit(ok ? 0 : 3);
    }
    printf("child that moved in: %d\n", wait_for(pid));
    probe_expect(getcwd(kept, sizeof(kept)) && strcmp(kept, "/usr") == 0, "the parent moved to %s", kept);
    check_parent("after a relative open in the child", root, file);

    pid = vfork();
    if (pid == 0) {
        execvp("cksum", sum);
        _exit(4);
    }
    printf("exec child: %d\n", wait_for(pid));

    pid = vfork();
    if (pid == 0) {
        execv(path, sum);
        _exit(errno == EACCES ? 13 : 4);
    }
    printf("child that cannot exec: %d\n", wait_for(pid));
    check_parent("at the end", root, file);
    close(root);
    close(null);
    return probe_wrong;
}
