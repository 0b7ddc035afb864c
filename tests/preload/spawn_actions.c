/* posix_spawn with file actions that name the tree: the child opens and changes directory by itself, past
 * every hook. */
#include "tests/preload/probe.h"

#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

static posix_spawn_file_actions_t actions;

static void begin(void)
{
    posix_spawn_file_actions_init(&actions);
}

static void run(const char *what, const char *script)
{
    pid_t pid;
    int status = 0;
    char *argv[] = {"sh", "-c", (char *)script, NULL};
    int error = posix_spawn(&pid, "/bin/sh", &actions, NULL, argv, environ);
    if (error == 0) {
        waitpid(pid, &status, 0);
    }
    printf("%s: %s, status %d\n", what, probe_errno(error), WEXITSTATUS(status));
    fflush(stdout);
    posix_spawn_file_actions_destroy(&actions);
}

static void open_as(int fd, const char *relative, int flags)
{
    char *path = probe_path(relative);
    posix_spawn_file_actions_addopen(&actions, fd, path, flags, 0644);
    free(path);
}

static int open_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 1000; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

static void files(void)
{
    begin();
    open_as(0, "top.txt", O_RDONLY);
    run("standard input", "cat");
    begin();
    open_as(5, "a/one.txt", O_RDONLY);
    open_as(0, "top.txt", O_RDONLY);
    posix_spawn_file_actions_adddup2(&actions, 5, 7);
    run("three descriptors", "cat; head -c 12 <&7; ls /proc/self/fd | tr '\\n' ' '");
#if __GLIBC_PREREQ(2, 34)
    begin();
    posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    open_as(0, "a-b", O_RDONLY);
    run("behind closefrom", "cat; ls /proc/self/fd | tr '\\n' ' '");
#endif
    begin();
    open_as(0, "no-such", O_RDONLY);
    run("missing", "cat");
    begin();
    open_as(0, "a", O_RDONLY);
    run("a directory to read", "cat 2>&1 | sed 's/.*: //'");
}

static void working_directories(void)
{
    char *root = probe_path("");
    char *deep = probe_path("a/deep");
    begin();
    posix_spawn_file_actions_addchdir_np(&actions, root);
    run("chdir", "cat top.txt; ls; pwd -P | sed 's/.*\\(data\\)/\\1/'");
    begin();
    posix_spawn_file_actions_addchdir_np(&actions, deep);
    posix_spawn_file_actions_addopen(&actions, 0, "-dash", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 4, "../one.txt", O_RDONLY, 0);
    run("relative to the chdir", "cat; head -n 1 <&4; cat ./-dash");
    begin();
    posix_spawn_file_actions_addchdir_np(&actions, deep);
    posix_spawn_file_actions_addchdir_np(&actions, "../../b");
    posix_spawn_file_actions_addopen(&actions, 0, "../../outside", O_RDONLY, 0);
    run("two chdirs and out", "cat");
    begin();
    posix_spawn_file_actions_addchdir_np(&actions, "no-such-place");
    run("chdir to nowhere", "cat");
    begin();
    char *file = probe_path("top.txt");
    posix_spawn_file_actions_addchdir_np(&actions, file);
    run("chdir to a file", "cat");
    int fd = open(deep, O_RDONLY | O_DIRECTORY);
    begin();
    posix_spawn_file_actions_adddup2(&actions, fd, 20);
    posix_spawn_file_actions_addfchdir_np(&actions, 20);
    posix_spawn_file_actions_addopen(&actions, 0, "-dash", O_RDONLY, 0);
    posix_spawn_file_actions_addclose(&actions, 20);
    run("fchdir", "cat; cat er/still/three.txt");
    close(fd);
    probe_expect(chdir(root) == 0, "chdir");
    begin();
    posix_spawn_file_actions_addopen(&actions, 0, "top.txt", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 6, "../outside", O_RDONLY, 0);
    run("from inside", "cat; cat <&6");
    begin();
    posix_spawn_file_actions_addchdir_np(&actions, "..");
    posix_spawn_file_actions_addopen(&actions, 0, "data/a-b", O_RDONLY, 0);
    run("up and down", "cat; cat outside");
}

static void nothing_of_the_tree(void)
{
    posix_spawn_file_actions_t none;
    pid_t pid;
    int status;
    posix_spawn_file_actions_init(&none);
    posix_spawn_file_actions_addopen(&none, 1, "/dev/null", O_WRONLY, 0);
    char *echo[] = {"echo", "hidden", NULL};
    printf("nothing of the tree: %d\n", posix_spawnp(&pid, "echo", &none, NULL, echo, environ));
    waitpid(pid, &status, 0);
    printf("status %d\n", status);
}

int main(int argc, char **argv)
{
    probe_begin(argc, argv);
    setvbuf(stdout, NULL, _IONBF, 0);
    /* A file beside the tree, made anew in either run. */
    int made = open("outside", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    probe_expect(made >= 0 && write(made, "outside\n", 8) == 8 && close(made) == 0, "cannot make a file");
    int before = open_descriptors();
    files();
    working_directories();
    nothing_of_the_tree();
    printf("descriptors left: %d\n", open_descriptors() - before);
    return probe_wrong;
}
