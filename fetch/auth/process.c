#include "fetch/auth/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fetch/auth/credentials.h"
#include "fetch/base/clock.h"

#define OUTPUT_MAX_BYTES ((size_t)64 * 1024) /* a document has a few KiB */
#define LOOK_MS 20 /* whether it has ended; it may leave children that hold the pipe */

extern char **environ;

struct hr_process {
    struct hr_loop *loop;
    hr_process_fn done;
    void *owner;
    pid_t pid; /* 0: ended and reaped */
    int fd;
    int64_t deadline_ms;
    struct hr_timer timer;
    struct hr_process_result result;
    size_t len;
    char text[OUTPUT_MAX_BYTES + 1];
};

static void close_pipe(struct hr_process *process)
{
    if (process->fd >= 0) {
        hr_loop_unwatch(process->loop, process->fd);
        (void)close(process->fd);
        process->fd = -1;
    }
}

static void end_by_force(struct hr_process *process)
{
    if (process->pid > 0) {
        (void)kill(-process->pid, SIGKILL); /* its group: what it started goes too */
        while (waitpid(process->pid, &process->result.status, 0) < 0 && errno == EINTR) {
        }
        process->pid = 0;
    }
}

static void finish(struct hr_process *process, int error)
{
    end_by_force(process);
    close_pipe(process);
    hr_loop_disarm(process->loop, &process->timer);
    process->text[process->len] = '\0';
    process->result.error = error;
    process->result.text = process->text;
    process->result.text_len = process->len;
    process->done(process->owner, &process->result);
}

/* Takes what is there. False: there is more than a document has. */
static bool take_output(struct hr_process *process)
{
    while (process->fd >= 0) {
        size_t room = sizeof(process->text) - 1 - process->len;
        char beyond;
        ssize_t got =
            read(process->fd, room > 0 ? process->text + process->len : &beyond, room > 0 ? room : 1);

        if (got > 0 && room == 0) {
            return false;
        }
        if (got > 0) {
            process->len += (size_t)got;
        } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
            close_pipe(process);
        } else if (errno == EAGAIN) {
            break;
        }
    }
    return true;
}

static void on_output(void *owner, int fd, uint32_t events)
{
    struct hr_process *process = owner;

    (void)fd;
    (void)events;
    if (!take_output(process)) {
        finish(process, -EFBIG);
    }
}

static void on_timer(void *owner)
{
    struct hr_process *process = owner;
    pid_t ended = waitpid(process->pid, &process->result.status, WNOHANG);

    if (ended != 0 && !(ended < 0 && errno == EINTR)) {
        process->pid = 0;
        finish(process, take_output(process) ? 0 : -EFBIG);
    } else if (hr_clock_ms() >= process->deadline_ms ||
               hr_loop_arm(process->loop, &process->timer, LOOK_MS) < 0) {
        finish(process, -ETIMEDOUT);
    }
}

static bool is_replaced(const char *variable)
{
    return strncmp(variable, "AWS_", 4) == 0 || strncmp(variable, "HOME=", 5) == 0 ||
           strncmp(variable, "HEADRACE_", 9) == 0 || strncmp(variable, "LD_", 3) == 0;
}

static char **environment(char *const *variables)
{
    size_t count = 1, used = 0;

    for (char **at = environ; at != NULL && *at != NULL; at++) {
        count++;
    }
    for (char *const *at = variables; *at != NULL; at++) {
        count++;
    }
    char **made = calloc(count, sizeof(*made));
    if (made == NULL) {
        return NULL;
    }
    for (char *const *at = variables; *at != NULL; at++) {
        made[used++] = *at;
    }
    for (char **at = environ; at != NULL && *at != NULL; at++) {
        if (!is_replaced(*at)) {
            made[used++] = *at;
        }
    }
    return made;
}

/* Signals as in a fresh program, a group of its own, no input, its words for people dropped. */
static int spawn(char *const *words, char *const *envp, int out, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    int r;

    sigemptyset(&none);
    sigfillset(&all);
    if (posix_spawn_file_actions_init(&actions) != 0) {
        return -ENOMEM;
    }
    if (posix_spawnattr_init(&attributes) != 0) {
        (void)posix_spawn_file_actions_destroy(&actions);
        return -ENOMEM;
    }
    r = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    r = r != 0 ? r : posix_spawn_file_actions_adddup2(&actions, out, 1);
    r = r != 0 ? r : posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    r = r != 0 ? r : posix_spawnattr_setsigmask(&attributes, &none);
    r = r != 0 ? r : posix_spawnattr_setsigdefault(&attributes, &all);
    r = r != 0 ? r : posix_spawnattr_setpgroup(&attributes, 0);
    r = r != 0 ? r
               : posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                           POSIX_SPAWN_SETPGROUP);
    r = r != 0 ? r : posix_spawnp(ret_pid, words[0], &actions, &attributes, words, envp);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&actions);
    return -r;
}

int hr_process_start(struct hr_loop *loop, char *const *words, char *const *variables, int64_t limit_ms,
                     hr_process_fn done, void *owner, struct hr_process **ret)
{
    struct hr_process *process = malloc(sizeof(*process));
    char **envp = environment(variables);
    int ends[2] = {-1, -1};
    int r = process != NULL && envp != NULL ? 0 : -ENOMEM;

    if (process != NULL) {
        *process = (struct hr_process){.loop = loop, .done = done, .owner = owner, .fd = -1};
    }
    if (r == 0) {
        process->deadline_ms = hr_clock_ms() + limit_ms;
        process->timer = (struct hr_timer)HR_TIMER_INIT(on_timer, process);
        r = pipe2(ends, O_CLOEXEC) < 0 ? -errno : spawn(words, envp, ends[1], &process->pid);
    }
    free(envp);
    if (ends[1] >= 0) {
        (void)close(ends[1]);
    }
    if (r == 0) {
        (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
        r = hr_loop_watch(loop, ends[0], EPOLLIN, on_output, process);
        process->fd = r == 0 ? ends[0] : -1;
        r = r < 0 ? r : hr_loop_arm(loop, &process->timer, LOOK_MS);
    }
    if (r < 0) {
        if (ends[0] >= 0 && (process == NULL || process->fd < 0)) {
            (void)close(ends[0]);
        }
        hr_process_free(process);
        return r;
    }
    *ret = process;
    return 0;
}

void hr_process_free(struct hr_process *process)
{
    if (process == NULL) {
        return;
    }
    end_by_force(process);
    close_pipe(process);
    hr_loop_disarm(process->loop, &process->timer);
    hr_secret_zero(process->text, process->len);
    free(process);
}
