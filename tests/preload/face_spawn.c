/* Open files handed to children: with our object, without it (an empty environment), by fork and exec, vfork
 * and exec, posix_spawn; the same bytes from the same position, and a shared position moves for both. */
#include "tests/preload/probe.h"

#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

static char shell[] = "sh", option[] = "-c", digest[] = "dd bs=4096 2>/dev/null | cksum";
static char *const reader[] = {shell, option, digest, NULL};
static char search_path[] = "PATH=/usr/bin:/bin";
static char *const bare[] = {search_path, NULL};

static int opened(const char *path, off_t at)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    lseek(fd, at, SEEK_SET);
    return fd;
}

static void finish(const char *what, pid_t pid, int fd)
{
    int status = 0;
    waitpid(pid, &status, 0);
    printf("  %s: status %d, position %lld\n", what, status, (long long)lseek(fd, 0, SEEK_CUR));
    close(fd);
}

/* Where the child cannot read but by a file of its own, the position is its own too. */
static void reap(const char *what, pid_t pid, int fd, off_t at)
{
    int status = 0;
    char byte;
    waitpid(pid, &status, 0);
    ssize_t got = pread(fd, &byte, 1, at);
    printf("  %s: status %d, still readable %zd\n", what, status, got);
    close(fd);
}

static void by_fork(const char *what, const char *path, off_t at, char *const envp[])
{
    int fd = opened(path, at);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fd, 0);
        execve("/bin/sh", reader, envp);
        _exit(99);
    }
    reap(what, pid, fd, at);
}

static void by_vfork(const char *what, const char *path, off_t at, char *const envp[])
{
    int fd = opened(path, at);
    pid_t pid = vfork();
    if (pid == 0) {
        dup2(fd, 0);
        execve("/bin/sh", reader, envp);
        _exit(99);
    }
    reap(what, pid, fd, at);
}

static void by_spawn(const char *what, const char *path, off_t at, char *const envp[])
{
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int fd = opened(path, at);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, 0);
    int error = posix_spawn(&pid, "/bin/sh", &actions, NULL, reader, envp);
    posix_spawn_file_actions_destroy(&actions);
    probe_expect(error == 0, "posix_spawn: %s", probe_errno(error));
    finish(what, pid, fd);
}

static void by_open_action(const char *what, const char *path, char *const envp[])
{
    posix_spawn_file_actions_t actions;
    pid_t pid;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, path, O_RDONLY, 0);
    int error = posix_spawnp(&pid, "sh", &actions, NULL, reader, envp);
    posix_spawn_file_actions_destroy(&actions);
    probe_expect(error == 0, "posix_spawnp: %s", probe_errno(error));
    finish(what, pid, dup(1));
}

/* Two numbers of one open file, inherited: the child moves the position of both. */
static void dups(const char *path, char *const envp[])
{
    static char script[] = "head -c 1000 <&8 | cksum; exec 8<&-; cat <&9 | wc -c";
    char *const argv[] = {shell, option, script, NULL};
    int fd = open(path, O_RDONLY | O_CLOEXEC), status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fd, 8);
        dup2(fd, 9);
        execve("/bin/sh", argv, envp);
        _exit(99);
    }
    waitpid(pid, &status, 0);
    printf("  two numbers: status %d\n", status);
    close(fd);
}

static void executed(const char *path)
{
    char *const argv[] = {shell, NULL};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    probe_say("  execve", execve(path, argv, environ) == 0);
    probe_say("  fexecve", fexecve(fd, argv, environ) == 0);
    close(fd);
}

/* Of a number that only a program with many files has. */
#define HIGH_FD 700

static void high(const char *program, const char *path)
{
    char digits[16];
    snprintf(digits, sizeof(digits), "%d", HIGH_FD);
    char *const argv[] = {(char *)program, (char *)path, digits, NULL};
    pid_t pid = fork();
    if (pid == 0) {
        dup2(open(path, O_RDONLY | O_CLOEXEC), HIGH_FD);
        execve(program, argv, environ);
        _exit(99);
    }
    waitpid(pid, NULL, 0);
}

static int tell_inherited(int fd)
{
    uint64_t size;
    off_t end = lseek(fd, 0, SEEK_END);
    lseek(fd, 0, SEEK_SET);
    uint64_t hash = probe_digest(fd, &size);
    printf("  descriptor %d: %lld, %llu %016llx\n", fd, (long long)end, (unsigned long long)size,
           (unsigned long long)hash);
    return 0;
}

int main(int argc, char **argv)
{
    struct stat st;
    if (argc == 3) {
        return tell_inherited(atoi(argv[2]));
    }
    probe_begin(argc, argv);
    setvbuf(stdout, NULL, _IONBF, 0);
    probe_walk();
    for (size_t i = 0; i < probe_count; i++) {
        if (probe_entries[i].type != DT_REG) {
            continue;
        }
        char *path = probe_path(probe_entries[i].path);
        probe_expect(stat(path, &st) == 0, "stat");
        printf("%s %lld\n", probe_entries[i].path, (long long)st.st_size);
        high("/proc/self/exe", path); /* first: the others make it a plain file for all */
        by_fork("fork", path, st.st_size / 2, environ);
        by_fork("fork, empty environment", path, st.st_size / 2, bare);
        by_vfork("vfork", path, st.st_size / 3, environ);
        by_vfork("vfork, empty environment", path, st.st_size / 3, bare);
        by_spawn("spawn", path, st.st_size / 4, environ);
        by_spawn("spawn, empty environment", path, st.st_size / 4, bare);
        by_open_action("spawn that opens", path, environ);
        by_open_action("spawn that opens, empty environment", path, bare);
        dups(path, environ);
        dups(path, bare);
        executed(path);
        free(path);
    }
    return probe_wrong;
}
