/* The descriptor in other hands: inherited, sent, given as standard input, executed, loaded. */
#include <dlfcn.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "tests/e2e/poison/rows.h"

#define HELPER "HR_POISON_BARE" /* environment: the program without hooks */

extern char **environ;

static void fork_read(void)
{
    int fd = poison_open();
    pid_t pid = poison_fork();
    if (pid == 0) {
        poison_got(read(fd, poison_buffer, poison_len));
        _exit(0);
    }
    poison_wait(pid);
}

static void child_opens(void)
{
    pid_t pid = poison_fork();
    if (pid == 0) {
        poison_got(read(poison_open(), poison_buffer, poison_len));
        _exit(0);
    }
    poison_wait(pid);
}

static void send_descriptor(int socket, int fd)
{
    char room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {.iov_base = room, .iov_len = 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &fd, sizeof(fd));
    poison_need(sendmsg(socket, &message, 0) == 1, "sendmsg");
}

static int received(struct msghdr *message)
{
    int fd = -1;
    struct cmsghdr *head = CMSG_FIRSTHDR(message);
    poison_need(head && head->cmsg_type == SCM_RIGHTS, "a descriptor in the message");
    memcpy(&fd, CMSG_DATA(head), sizeof(fd));
    return fd;
}

enum receiver { RECVMSG, RECVMMSG, CALL_RECVMSG };

static void rights(enum receiver by)
{
    int ends[2];
    poison_need(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    pid_t pid = poison_fork();
    if (pid == 0) {
        char byte, room[256];
        struct iovec part = {.iov_base = &byte, .iov_len = 1};
        struct mmsghdr many = {
            .msg_hdr = {
                .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)}};
        long got = by == RECVMSG    ? recvmsg(ends[0], &many.msg_hdr, 0)
                   : by == RECVMMSG ? recvmmsg(ends[0], &many, 1, 0, NULL)
                                    : syscall(SYS_recvmsg, ends[0], &many.msg_hdr, 0);
        poison_need(got == 1, "recvmsg");
        poison_got(read(received(&many.msg_hdr), poison_buffer, poison_len));
        _exit(0);
    }
    int fd = poison_open();
    send_descriptor(ends[1], fd);
    close(fd);
    poison_wait(pid);
}

static void rights_recvmsg(void)
{
    rights(RECVMSG);
}

static void rights_recvmmsg(void)
{
    rights(RECVMMSG);
}

static void rights_call(void)
{
    rights(CALL_RECVMSG);
}

/* Another process' descriptor, taken from here. */
static void pidfd_getfd_row(void)
{
    int ends[2], fd = -1;
    char byte;
    poison_need(pipe(ends) == 0, "pipe");
    pid_t pid = poison_fork();
    if (pid == 0) {
        fd = poison_open();
        poison_need(write(ends[1], &fd, sizeof(fd)) == sizeof(fd), "write");
        pause();
    }
    poison_need(read(ends[0], &fd, sizeof(fd)) == sizeof(fd), "read");
    int process = (int)syscall(SYS_pidfd_open, pid, 0);
    int taken = (int)syscall(SYS_pidfd_getfd, process, fd, 0);
    (void)byte;
    if (taken < 0) {
        poison_errno(errno);
        return;
    }
    poison_got(read(taken, poison_buffer, poison_len));
}

static char *head_count(void)
{
    static char text[32];
    snprintf(text, sizeof(text), "%zu", poison_len);
    return text;
}

/* `head -c LEN` with the object as its standard input. */
static void spawned(bool by_path, char *const *environment, const char *program)
{
    int ends[2], error;
    pid_t pid;
    posix_spawn_file_actions_t actions;
    char *const argv[] = {(char *)(uintptr_t) "head", (char *)(uintptr_t) "-c", head_count(), NULL};
    poison_pipe(ends);
    posix_spawn_file_actions_init(&actions);
    if (by_path) {
        poison_at = 0;
        posix_spawn_file_actions_addopen(&actions, 0, poison_path, O_RDONLY, 0);
    } else {
        posix_spawn_file_actions_adddup2(&actions, poison_open(), 0);
    }
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    error = posix_spawn(&pid, program, &actions, NULL, argv, environment);
    close(ends[1]);
    if (error) {
        poison_errno(error);
        return;
    }
    poison_drain(ends[0]);
    poison_wait(pid);
}

#define HEAD "/usr/bin/head"
static char *no_environment[] = {NULL};

static void spawn_dup2(void)
{
    spawned(false, environ, HEAD);
}

static void spawn_open(void)
{
    spawned(true, environ, HEAD);
}

static void spawn_bare(void)
{
    spawned(false, no_environment, HEAD);
}

static void spawn_static(void)
{
    spawned(false, environ, getenv(HELPER));
}

/* The same by fork and exec. */
static void exec_stdin(const char *program, char *const *environment, bool vforked)
{
    int ends[2];
    char *const argv[] = {(char *)(uintptr_t) "head", (char *)(uintptr_t) "-c", head_count(), NULL};
    poison_pipe(ends);
    int fd = poison_open();
    pid_t pid = vforked ? vfork() : fork();
    if (pid == 0) {
        dup2(fd, 0);
        dup2(ends[1], 1);
        close(ends[1]);
        execve(program, argv, environment);
        _exit(errno);
    }
    close(ends[1]);
    poison_drain(ends[0]);
    poison_wait(pid);
}

static void exec_hooked(void)
{
    exec_stdin(HEAD, environ, false);
}

static void exec_vfork(void)
{
    exec_stdin(HEAD, environ, true);
}

static void exec_bare(void)
{
    exec_stdin(HEAD, no_environment, false);
}

static void exec_static(void)
{
    exec_stdin(getenv(HELPER), environ, false);
}

static void exec_static_vfork(void)
{
    exec_stdin(getenv(HELPER), environ, true);
}

static void shell_redirects(void)
{
    char command[128];
    snprintf(command, sizeof(command), "head -c %zu <&%d", poison_len, poison_open());
    FILE *out = popen(command, "r");
    poison_need(out != NULL, "popen");
    poison_drain(fileno(out));
}

/* sed reads its standard input as a stream: inside libc. */
static void stream_of_child(void)
{
    char command[128];
    snprintf(command, sizeof(command), "LC_ALL=C sed '' <&%d | head -c %zu", poison_open(), poison_len);
    FILE *out = popen(command, "r");
    poison_need(out != NULL, "popen");
    poison_drain(fileno(out));
}

static void shell_opens(void)
{
    char command[4096 + 64];
    snprintf(command, sizeof(command), "tail -c +%llu %s | head -c %zu", (unsigned long long)poison_at + 1,
             poison_path, poison_len);
    FILE *out = popen(command, "r");
    poison_need(out != NULL, "popen");
    poison_drain(fileno(out));
}

/* No program and no library: the words of the refusal are the outcome. */
static void do_dlopen(void)
{
    void *library = dlopen(poison_path, RTLD_NOW);
    const char *error = library ? NULL : dlerror();
    const char *last = error ? strrchr(error, ':') : NULL;
    poison_say("%s", last ? last + 2 : "loaded");
}

static char *const argv_self[] = {(char *)(uintptr_t) "self", NULL};

static void do_execve(void)
{
    execve(poison_path, argv_self, environ);
    poison_errno(errno);
}

static void do_fexecve(void)
{
    fexecve(poison_open(), argv_self, environ);
    poison_errno(errno);
}

static void do_execveat(void)
{
    syscall(SYS_execveat, poison_open(), "", argv_self, environ, 0x1000 /* AT_EMPTY_PATH */);
    poison_errno(errno);
}

const struct poison_row rows_hand[] = {{"fork, read", fork_read},
                                       {"fork, open", child_opens},
                                       {"SCM_RIGHTS, recvmsg", rights_recvmsg},
                                       {"SCM_RIGHTS, recvmmsg", rights_recvmmsg},
                                       {"SCM_RIGHTS, syscall recvmsg", rights_call},
                                       {"pidfd_getfd", pidfd_getfd_row},
                                       {"posix_spawn, dup2 to 0", spawn_dup2},
                                       {"posix_spawn, open as 0", spawn_open},
                                       {"posix_spawn without preload", spawn_bare},
                                       {"posix_spawn of a static program", spawn_static},
                                       {"exec", exec_hooked},
                                       {"vfork, exec", exec_vfork},
                                       {"exec without preload", exec_bare},
                                       {"exec of a static program", exec_static},
                                       {"vfork, exec of a static program", exec_static_vfork},
                                       {"popen, redirected", shell_redirects},
                                       {"popen, sed of stdin", stream_of_child},
                                       {"popen, opened there", shell_opens},
                                       {"dlopen", do_dlopen},
                                       {"execve of it", do_execve},
                                       {"fexecve of it", do_fexecve},
                                       {"execveat of it", do_execveat},
                                       {NULL, NULL}};
