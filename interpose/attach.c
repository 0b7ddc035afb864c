#include "interpose/attach.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "interpose/sys.h"
#include "interpose/tiny.h"
#include "interpose/inner.h"

#define COMMAND_NAME "headrace"
#define ATTACH_TIMEOUT_MS 30000 /* a cold start opens and checks an index of millions of names */
#define FIND_TIMEOUT_MS 2000    /* nobody waits for what it tells: DataLoader's main process goes on */
#define ATTACH_SLICE_MS 100
#define INTERRUPTIBLE_AFTER_MS 2000 /* DESIGN 4: local opens never return EINTR */
#define REPLY_BYTES 8192
#define CLOSE_LOOP_MAX 65536 /* without close_range (Linux before 5.9) */
#define KERNEL_SIGNALS 64
#define KERNEL_SIGSET_BYTES 8

/* What the grandchild needs, made before it exists. */
struct launch {
    char command[PATH_MAX];
    int report; /* write end of the pipe */
    bool find;  /* `--find`: what it cannot tell is no news */
};

static char own_file[PATH_MAX]; /* absolute; "" while it could not be told */

void hr_attach_init(void)
{
    struct hr_out path;
    const char *name = hr_real_own_path();
    hr_out_init(&path, own_file, sizeof(own_file));
    if (name[0] == '/') {
        hr_out_text(&path, name);
        return;
    }
    long len = name[0] ? HR_SYS2(SYS_getcwd, own_file, sizeof(own_file))
                       : HR_SYS4(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", own_file, sizeof(own_file) - 1);
    if (len <= 0 || own_file[0] != '/') {
        own_file[0] = '\0';
        return;
    }
    if (name[0]) {
        path.len = (size_t)len - 1;
        hr_out_text(&path, "/");
        hr_out_text(&path, name);
    } else {
        own_file[len] = '\0';
    }
    if (path.full) {
        own_file[0] = '\0';
    }
}

/* The `headrace` in the directory that our own object was loaded from. */
static int find_command(char *out, size_t room)
{
    struct hr_out path;
    const char *slash = strrchr(own_file, '/');
    if (!slash) {
        return -ENOENT;
    }
    hr_out_init(&path, out, room);
    hr_out_bytes(&path, own_file, (size_t)(slash + 1 - own_file));
    hr_out_text(&path, COMMAND_NAME);
    return hr_out_done(&path);
}

static void close_others(int keep)
{
    if (keep > 3) {
        HR_SYS3(SYS_close_range, 3, keep - 1, 0);
    }
    if (HR_SYS3(SYS_close_range, keep + 1, ~0u, 0) == 0) {
        return;
    }
    for (int fd = 3; fd < CLOSE_LOOP_MAX; fd++) {
        if (fd != keep) {
            HR_SYS1(SYS_close, fd);
        }
    }
}

static void default_signals(void)
{
    /* struct kernel_sigaction, all zero: SIG_DFL, no flags, empty mask. */
    static const unsigned long zero[4];
    for (int number = 1; number <= KERNEL_SIGNALS; number++) {
        HR_SYS4(SYS_rt_sigaction, number, zero, 0, KERNEL_SIGSET_BYTES);
    }
    HR_SYS4(SYS_rt_sigprocmask, SIG_SETMASK, zero, 0, KERNEL_SIGSET_BYTES);
}

/* Our environment without what the loader acts on; the strings are shared. */
static char **clean_environment(void)
{
    size_t count = 0;
    for (char **at = environ; at && *at; at++) {
        count++;
    }
    long memory = HR_SYS6(SYS_mmap, 0, (count + 1) * sizeof(char *), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory < 0 && memory >= -4095) {
        return NULL;
    }
    char **list = (char **)memory;
    size_t kept = 0;
    for (char **at = environ; at && *at; at++) {
        if (strncmp(*at, "LD_", 3) != 0) {
            list[kept++] = *at;
        }
    }
    list[kept] = NULL;
    return list;
}

static void report_failure(int fd, const char *command, long error)
{
    char line[PATH_MAX + 64];
    struct hr_out out;
    hr_out_init(&out, line, sizeof(line));
    hr_out_text(&out, "error cannot run ");
    hr_out_text(&out, command);
    hr_out_text(&out, " (errno ");
    hr_out_decimal(&out, (uint64_t)-error);
    hr_out_text(&out, ")\n");
    HR_SYS3(SYS_write, fd, line, out.len);
}

/* In the grandchild, which has a copy of our memory and shares nothing with us. Does not return. */
static void become_command(const struct launch *launch)
{
    char number[24];
    struct hr_out out;
    int report = (int)HR_SYS3(SYS_fcntl, launch->report, F_DUPFD, 3);
    hr_out_init(&out, number, sizeof(number));
    hr_out_decimal(&out, (uint64_t)report);

    HR_SYS0(SYS_setsid);
    HR_SYS1(SYS_chdir, "/");
    default_signals();
    long null = HR_SYS4(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0);
    for (int fd = 0; fd < 3; fd++) {
        if (null >= 0 && null != fd) {
            HR_SYS3(SYS_dup3, null, fd, 0);
        } else if (null < 0) {
            HR_SYS1(SYS_close, fd);
        }
    }
    close_others(report);
    char *argv[] = {(char *)launch->command,
                    (char *)"attach",
                    (char *)"--fd",
                    number,
                    launch->find ? (char *)"--find" : NULL,
                    NULL};
    char **environment = clean_environment();
    long error = environment ? HR_SYS3(SYS_execve, launch->command, argv, environment) : -ENOMEM;
    report_failure(report, launch->command, error);
    HR_SYS1(SYS_exit_group, 127);
}

/* A fork that tells nobody: no exit signal, no atfork handlers. */
static long bare_clone(void)
{
    return HR_SYS5(SYS_clone, 0, 0, 0, 0, 0);
}

static long start_detached(const struct launch *launch)
{
    uint64_t all = ~0ull;
    uint64_t old = 0;
    /* No handler of the application runs in the children. */
    HR_SYS4(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, KERNEL_SIGSET_BYTES);
    long child = bare_clone();
    if (child == 0) {
        if (bare_clone() == 0) {
            become_command(launch);
        }
        for (;;) {
            HR_SYS1(SYS_exit_group, 0);
        }
    }
    HR_SYS4(SYS_rt_sigprocmask, SIG_SETMASK, &old, 0, KERNEL_SIGSET_BYTES);
    if (child > 0) {
        while (HR_SYS4(SYS_wait4, child, 0, __WCLONE, 0) == -EINTR) {
        }
    }
    return child;
}

static void say(const struct launch *launch, const char *text)
{
    if (!launch->find) {
        hr_say(text, NULL);
    }
}

/* Lines from the command until "ok" or "error". 0, 1 when more must come, -EIO. */
static int read_line(const struct launch *launch, char *line, char *ret_dir, size_t room)
{
    if (strncmp(line, "warn ", 5) == 0) {
        say(launch, line + 5);
        return 1;
    }
    if (strncmp(line, "ok /", 4) != 0) {
        say(launch, strncmp(line, "error ", 6) == 0 ? line + 6 : "attach gave an answer that is none");
        return -EIO;
    }
    size_t len = strlen(line + 3);
    while (len > 1 && line[3 + len - 1] == '/') {
        len--;
    }
    if (len >= room) {
        return -EIO;
    }
    memcpy(ret_dir, line + 3, len);
    ret_dir[len] = '\0';
    return 0;
}

static int wait_readable(int fd, uint64_t start_ms, uint64_t timeout_ms, bool *interrupted)
{
    for (;;) {
        struct pollfd poll = {.fd = fd, .events = POLLIN};
        struct timespec slice = {.tv_nsec = ATTACH_SLICE_MS * 1000000L};
        long got = HR_SYS5(SYS_ppoll, &poll, 1, &slice, 0, KERNEL_SIGSET_BYTES);
        if (got > 0) {
            return poll.revents & POLLNVAL ? -EBADF : 0;
        }
        uint64_t waited_ms = hr_now_ms() - start_ms;
        *interrupted |= got == -EINTR;
        if (*interrupted && waited_ms > INTERRUPTIBLE_AFTER_MS) {
            return -EINTR;
        }
        if (waited_ms > timeout_ms) {
            return -ETIMEDOUT;
        }
    }
}

static int read_reply(const struct launch *launch, int fd, char *ret_dir, size_t room)
{
    char reply[REPLY_BYTES];
    size_t have = 0;
    uint64_t start_ms = hr_now_ms();
    bool interrupted = false;

    for (;;) {
        int ready =
            wait_readable(fd, start_ms, launch->find ? FIND_TIMEOUT_MS : ATTACH_TIMEOUT_MS, &interrupted);
        if (ready == -EINTR) {
            return ready;
        }
        long got = ready < 0 ? ready : HR_SYS3(SYS_read, fd, reply + have, sizeof(reply) - 1 - have);
        if (got == -EINTR || got == -EAGAIN) {
            continue;
        }
        if (got <= 0) {
            say(launch, got == -ETIMEDOUT ? "no answer from `headrace attach` within 30 s"
                                          : "`headrace attach` ended without an answer");
            return -EIO;
        }
        have += (size_t)got;
        reply[have] = '\0';
        char *line = reply;
        for (char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
            *end = '\0';
            int result = read_line(launch, line, ret_dir, room);
            if (result <= 0) {
                return result;
            }
        }
        have -= (size_t)(line - reply);
        memmove(reply, line, have);
    }
}

static int ask_command(bool find, char *ret_dir, size_t room)
{
    struct launch launch = {.find = find};
    int pipe[2];
    int length = find_command(launch.command, sizeof(launch.command));
    if (length < 0) {
        say(&launch, "cannot tell where the headrace command lies");
        return -EIO;
    }
    long made = HR_SYS2(SYS_pipe2, pipe, O_CLOEXEC);
    if (made < 0) {
        return (int)made;
    }
    launch.report = pipe[1];
    long child = start_detached(&launch);
    HR_SYS1(SYS_close, pipe[1]);
    int result = -EIO;
    if (child < 0) {
        say(&launch, "cannot start `headrace attach`: no process");
    } else {
        result = read_reply(&launch, pipe[0], ret_dir, room);
    }
    HR_SYS1(SYS_close, pipe[0]);
    return result;
}

int hr_attach(char *ret_dir, size_t room)
{
    return ask_command(false, ret_dir, room);
}

int hr_attach_find(char *ret_dir, size_t room)
{
    return ask_command(true, ret_dir, room);
}
