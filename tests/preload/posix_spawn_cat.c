/* posix_spawn and posix_spawnp start children that read the tree; what cannot start is the return value. */
#include <spawn.h>
#include <sys/wait.h>

#include "tests/preload/probe.h"

extern char **environ;

static void spawn(const char *what, bool search, const char *program, char *const argv[], char *const envp[])
{
    pid_t pid = -1;
    int status = 0;
    fflush(stdout);
    int error = search ? posix_spawnp(&pid, program, NULL, NULL, argv, envp)
                       : posix_spawn(&pid, program, NULL, NULL, argv, envp);
    if (error == 0) {
        waitpid(pid, &status, 0);
    }
    printf("%s: %s, status %d\n", what, probe_errno(error), WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

int main(int argc, char **argv)
{
    probe_begin(argc, argv);
    probe_walk();
    for (size_t i = 0; i < probe_count && i < 20; i++) {
        if (probe_entries[i].type == DT_REG) {
            char *path = probe_path(probe_entries[i].path);
            char *const sum[] = {"cksum", path, NULL};
            spawn(probe_entries[i].path, i % 2, i % 2 ? "cksum" : "/usr/bin/cksum", sum, environ);
            free(path);
        }
    }
    char *file = probe_path(probe_some(DT_REG, 0)), *dir = probe_path(probe_some(DT_DIR, 0));
    char *missing = probe_path("no-such-name");
    char *const list[] = {"ls", dir, NULL};
    spawn("ls", true, "ls", list, environ);
    char *const own[] = {file, NULL};
    spawn("file of the tree", false, file, own, environ);
    spawn("file of the tree, searched", true, file, own, environ);
    spawn("missing", false, missing, own, environ);
    spawn("missing in PATH", true, "no-such-program-anywhere", own, environ);
    /* The working directory is inherited. */
    char *const here[] = {"ls", NULL};
    probe_say("chdir", chdir(dir) == 0);
    spawn("ls here", false, "/bin/ls", here, environ);
    return probe_wrong;
}
