/* `headrace run`: the job's environment, a daemon that knows it, then COMMAND in this very process. */
#include "fetch/cmd/cmd.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fetch/base/buf.h"
#include "fetch/base/cleanup.h"
#include "fetch/base/text.h"
#include "fetch/cmd/aliases.h"
#include "fetch/cmd/client.h"
#include "fetch/cmd/named.h"
#include "fetch/cmd/orders.h"
#include "fetch/cmd/program.h"
#include "interpose/obstacle.h"

#define HR_SETS_MAX 128            /* ours; there are fewer settings */
#define HR_MAP_TEXT_MAX (1u << 20) /* ours; the kernel takes 128 KiB in one variable */

extern char **environ;

struct run_args {
    const char *sets[HR_SETS_MAX];
    size_t set_count;
    struct hr_buf maps;          /* joined by newlines */
    const char *record, *replay; /* files, or NULL */
    bool init;
    char program[256]; /* what the job is called in its report; "": it gets none */
};

/* COMMAND, and the script that it runs: its first argument where that is a file. Others may hold secrets. */
static void name_program(struct run_args *args, char *const *command)
{
    const char *slash = strrchr(command[0], '/');
    if (command[1] && strcmp(slash ? slash + 1 : command[0], "headrace") == 0 &&
        strcmp(command[1], "probe") == 0) {
        return; /* doctor's: the last job is still the one before */
    }
    bool script = command[1] && command[1][0] != '-' && access(command[1], F_OK) == 0;
    snprintf(args->program, sizeof args->program, "%s%s%s", command[0], script ? " " : "",
             script ? command[1] : "");
}

/* --map ./x=URL: the map's path made absolute, odd characters of the working directory encoded. */
static int add_map(struct hr_buf *maps, const char *text)
{
    if (maps->len > 0 && hr_buf_puts(maps, "\n") < 0) {
        return -ENOMEM;
    }
    if (text[0] != '/') {
        char cwd[PATH_MAX];
        if (!getcwd(cwd, sizeof cwd)) {
            return -errno;
        }
        text += strncmp(text, "./", 2) == 0 ? 2 : 0;
        if (hr_percent_encode(cwd, strlen(cwd), true, maps) < 0 || hr_buf_puts(maps, "/") < 0) {
            return -ENOMEM;
        }
    }
    return hr_buf_puts(maps, text);
}

/* How many arguments are ours, or -1 after a complaint. */
static int parse(int argc, char **argv, struct run_args *args)
{
    int i = 0;
    for (; i < argc && argv[i][0] == '-'; i++) {
        bool has_value = i + 1 < argc;
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        if (strcmp(argv[i], "--init") == 0) {
            args->init = true;
        } else if (strcmp(argv[i], "--map") == 0 && has_value) {
            if (add_map(&args->maps, argv[++i]) < 0) {
                hr_complain("run: --map %s: all maps together are longer than %u bytes", argv[i],
                            HR_MAP_TEXT_MAX);
                return -1;
            }
        } else if (strcmp(argv[i], "--record") == 0 && has_value) {
            args->record = argv[++i];
        } else if (strcmp(argv[i], "--replay") == 0 && has_value) {
            args->replay = argv[++i];
        } else if (strcmp(argv[i], "--set") == 0 && has_value && args->set_count < HR_SETS_MAX) {
            args->sets[args->set_count++] = argv[++i];
        } else {
            hr_complain("run: %s %s", argv[i],
                        strcmp(argv[i], "--map") == 0 || strcmp(argv[i], "--set") == 0 ||
                                strcmp(argv[i], "--record") == 0 || strcmp(argv[i], "--replay") == 0
                            ? "needs one more argument"
                            : "is no option");
            return -1;
        }
    }
    if (i >= argc) {
        (void)hr_usage("run");
        return -1;
    }
    return i;
}

static int check_map_points(const struct hr_job *job)
{
    char message[HR_MESSAGE_BYTES];
    for (unsigned i = 0; i < job->maps->count; i++) {
        int error = hr_job_check_point(job, &job->maps->map[i], message);
        if (error < 0) {
            hr_complain("%s; choose another path, or add ?hide=yes to its URL", message);
            return error;
        }
    }
    return 0;
}

/* libheadrace.so lies beside this program, in an installation as in build/. */
static int find_object(char *ret_path, size_t room)
{
    char self[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (len < 0) {
        return -errno;
    }
    self[len] = '\0';
    *strrchr(self, '/') = '\0';
    int wrote = snprintf(ret_path, room, "%s/libheadrace.so", self);
    if (wrote < 0 || (size_t)wrote >= room) {
        return -ENAMETOOLONG;
    }
    if (access(ret_path, R_OK) < 0) {
        hr_complain("%s: %s; it belongs beside the headrace program", ret_path, strerror(errno));
        return -ENOENT;
    }
    if (strpbrk(ret_path, " :")) {
        hr_complain("%s: LD_PRELOAD cannot name a path with a blank or colon; move headrace", ret_path);
        return -EINVAL;
    }
    return 0;
}

static int export_to_job(void *owner, const char *variable, const char *value)
{
    return hr_job_setenv(owner, variable, value);
}

static int set_preload(struct hr_job *job)
{
    char object[PATH_MAX];
    int error = find_object(object, sizeof object);
    if (error < 0) {
        return error;
    }
    const char *others = hr_job_getenv(job, "LD_PRELOAD");
    if (others && strstr(others, object)) {
        return 0;
    }
    hr_cleanup_free char *both = NULL;
    if (asprintf(&both, "%s%s%s", object, others && *others ? ":" : "", others ? others : "") < 0) {
        return -ENOMEM;
    }
    return hr_job_setenv(job, "LD_PRELOAD", both);
}

static int prepare(struct run_args *args, struct hr_job *job)
{
    char message[HR_MESSAGE_BYTES] = "";
    if (args->maps.len > 0 && setenv("HEADRACE_MAP", args->maps.data, 1) < 0) {
        hr_complain("out of memory");
        return -ENOMEM;
    }
    int error = hr_job_load(job, environ, args->sets, args->set_count, false, message);
    if (error < 0) {
        hr_complain("%s", message);
        return error;
    }
    for (unsigned i = 0; hr_settings_warning(job->settings, i); i++) {
        hr_complain("%s", hr_settings_warning(job->settings, i));
    }
    if (job->cache_note[0]) {
        hr_complain("%s", job->cache_note);
    }
    if (job->maps->count == 0) {
        hr_complain("nothing is mapped: give --map PATH=URL or set HEADRACE_MAP");
        return -EINVAL;
    }
    error = check_map_points(job);
    if (error == 0) {
        error = hr_settings_export(job->settings, export_to_job, job);
    }
    if (error == 0) {
        error = hr_job_setenv(job, "HEADRACE_CACHE_DIR", job->cache_dir);
    }
    if (error == 0) {
        error = set_preload(job);
    }
    if (error < 0) {
        return error;
    }
    char warning[HR_MESSAGE_BYTES] = "";
    uint32_t trees[HR_MAPS_MAX];
    job->program = args->program[0] ? args->program : NULL;
    error = hr_client_attach(job, trees, warning, message);
    if (error == 0 && warning[0]) {
        hr_complain("%s", warning);
    }
    error = error == 0 ? named_files(job, trees, message) : error;
    if (error == 0 && args->replay) { /* before it may be written anew */
        error = hr_order_replay(job, trees, args->replay, message);
    }
    if (error == 0 && args->record) {
        error = hr_order_record(job, trees, args->record, message);
    }
    if (error < 0) {
        hr_complain("%s", message);
    }
    return error;
}

/* LD_PRELOAD without us, who are its first name: the loader of another libc would refuse to start the
 * program. */
static int leave_preload(struct hr_job *job)
{
    const char *names = hr_job_getenv(job, "LD_PRELOAD");
    const char *others = names + strcspn(names, " :");
    hr_cleanup_free char *rest = strdup(*others ? others + 1 : "");
    return rest ? hr_job_setenv(job, "LD_PRELOAD", rest) : -ENOMEM;
}

/* A command that cannot be preloaded runs without its maps, said once, or (`required`) not at all. */
static int check_command(struct hr_job *job, const char *name)
{
    struct hr_program program;
    if (hr_program_look(name, hr_job_getenv(job, "PATH"), &program) < 0) {
        return 0; /* exec will say so */
    }
    const char *why = program.obstacle ? program.obstacle : program.go ? "Go program" : NULL;
    if (!why) {
        return 0;
    }
    bool required = hr_settings_bool(job->settings, HR_SETTING_REQUIRED);
    hr_complain("%s cannot be preloaded (%s): %s", name, why,
                required ? "it is not started, because required=on" : "mapped paths are not visible to it");
    if (required) {
        return -ENOEXEC;
    }
    return program.obstacle && program.obstacle != hr_obstacle_static ? leave_preload(job) : 0;
}

static int exec_command(struct hr_job *job, char **command)
{
    environ = job->envp;
    execvp(command[0], command);
    int error = errno;
    hr_complain("cannot run %s: %s", command[0][0] ? command[0] : "''", strerror(error));
    return error == ENOENT ? HR_EXIT_NOT_FOUND : HR_EXIT_CANNOT_EXEC;
}

/* A terminal's own signal (kernel's, to its whole foreground group) has reached the command already. */
static bool has_it_already(const siginfo_t *info, pid_t child)
{
    bool of_terminal = info->si_signo == SIGINT || info->si_signo == SIGQUIT || info->si_signo == SIGTSTP ||
                       info->si_signo == SIGWINCH;
    return of_terminal && info->si_code == SI_KERNEL && getpgid(child) == getpgrp();
}

/* PID 1 and --init: the command is a child in its own process group's place; signals go on to it, orphans are
 * reaped. */
static int stay_as_parent(struct hr_job *job, char **command)
{
    sigset_t all, old;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &old);
    pid_t child = fork();
    if (child == 0) {
        sigprocmask(SIG_SETMASK, &old, NULL);
        _exit(exec_command(job, command));
    }
    if (child < 0) {
        hr_complain("--init cannot start %s: %s", command[0], strerror(errno));
        return HR_EXIT_OWN;
    }
    for (;;) {
        siginfo_t info;
        int status;
        if (sigwaitinfo(&all, &info) < 0) {
            continue;
        }
        if (info.si_signo != SIGCHLD) {
            if (!has_it_already(&info, child)) {
                (void)kill(child, info.si_signo);
            }
            continue;
        }
        pid_t ended;
        while ((ended = waitpid(-1, &status, WNOHANG)) > 0) {
            if (ended == child) {
                return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
            }
        }
    }
}

int hr_cmd_run(int argc, char **argv)
{
    struct run_args args = {.maps = HR_BUF_INIT(HR_MAP_TEXT_MAX)};
    int used = parse(argc, argv, &args);
    if (used < 0) {
        return HR_EXIT_USAGE;
    }
    struct hr_job job = {.settings = NULL};
    name_program(&args, argv + used);
    int error = prepare(&args, &job);
    hr_buf_release(&args.maps);
    if (error == 0) {
        error = check_command(&job, argv[used]);
    }
    if (error == 0) {
        error = hr_aliases_export(&job, argv + used);
    }
    if (error < 0) {
        hr_job_free(&job);
        return HR_EXIT_OWN;
    }
    return args.init || getpid() == 1 ? stay_as_parent(&job, argv + used) : exec_command(&job, argv + used);
}
