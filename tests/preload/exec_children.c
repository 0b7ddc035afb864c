/* Every exec starts a child that reads the tree; one that gets no environment does not; programs in the tree
 * do not run, and say so as files without an x bit do. */
#include <sys/wait.h>

#include "tests/preload/probe.h"

extern char **environ;

enum way { EXECVE, EXECV, EXECVP, EXECVPE, EXECL, EXECLP, EXECLE, FEXECVE, EXECVEAT, WAY_COUNT };
static const char *const way_names[] = {"execve", "execv",  "execvp",  "execvpe", "execl",
                                        "execlp", "execle", "fexecve", "execveat"};

static void start(enum way way, const char *program, char *const argv[])
{
    const char *name = strrchr(program, '/') ? strrchr(program, '/') + 1 : program;
    switch (way) {
    case EXECVE:
        execve(program, argv, environ);
        break;
    case EXECV:
        execv(program, argv);
        break;
    case EXECVP:
        execvp(name, argv);
        break;
    case EXECVPE:
        execvpe(name, argv, environ);
        break;
    case EXECL:
        execl(program, argv[0], argv[1], (char *)NULL);
        break;
    case EXECLP:
        execlp(name, argv[0], argv[1], (char *)NULL);
        break;
    case EXECLE:
        execle(program, argv[0], argv[1], (char *)NULL, environ);
        break;
    case FEXECVE:
        fexecve(open(program, O_RDONLY | O_CLOEXEC), argv, environ);
        break;
    default:
        execveat(AT_FDCWD, program, argv, environ, 0);
        break;
    }
}

static void child(enum way way, const char *program, char *const argv[])
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        start(way, program, argv);
        _exit(errno == ENOENT ? 101 : errno == EACCES ? 102 : errno == ENOTDIR ? 103 : 104);
    }
    int status;
    waitpid(pid, &status, 0);
    printf("%s: status %d\n", way_names[way], WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

int main(int argc, char **argv)
{
    char below[PATH_MAX + 8];
    probe_begin(argc, argv);
    probe_walk();
    char *file = probe_path(probe_some(DT_REG, 0)), *dir = probe_path(probe_some(DT_DIR, 0));
    char *missing = probe_path("no-such-name");
    char *const sum[] = {"cksum", file, NULL};
    char *const list[] = {"ls", dir, NULL};
    for (enum way way = 0; way < WAY_COUNT; way++) {
        child(way, "/usr/bin/cksum", sum);
        child(way, "/bin/ls", list);
    }
    /* A shell and a program below it. */
    char script[2 * PATH_MAX];
    setenv("PROBE_FILE", file, 1);
    snprintf(script, sizeof(script), "cd \"%s\" && pwd && cat < \"$PROBE_FILE\" | cksum; ls | cksum", dir);
    char *const shell[] = {"sh", "-c", script, NULL};
    child(EXECVE, "/bin/sh", shell);
    /* Programs in the tree. */
    char *const own[] = {file, NULL};
    child(EXECVE, file, own);
    child(EXECV, dir, own);
    child(EXECVE, missing, own);
    snprintf(below, sizeof(below), "%s/x", file);
    child(EXECVE, below, own);
    return probe_wrong;
}
