/* Calls of several: threads, children with shared offsets, programs that are started. */
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/random/random.h"

#define THREADS 4
#define READS 20
#define READ_BYTES 5000u
#define OUT_ROOM (1 << 16)

extern char **environ;

struct work {
    int fd;
    uint64_t seed;
    uint64_t sum;
    long shared; /* bytes that were read by the offset that all share */
    bool shares;
};

static void *work(void *argument)
{
    struct work *work = argument;
    unsigned char bytes[READ_BYTES];
    for (int i = 0; i < READS; i++) {
        work->seed = work->seed * 6364136223846793005ull + 1442695040888963407ull;
        if (work->shares) {
            ssize_t got = read(work->fd, bytes, (work->seed >> 33) % READ_BYTES + 1);
            work->shared += got > 0 ? got : 0;
            continue;
        }
        off_t offset = (off_t)((work->seed >> 33) % (1 << 17));
        ssize_t got = pread(work->fd, bytes, READ_BYTES, offset);
        work->sum = work->sum * 31 + (got > 0 ? hash_of(bytes, (size_t)got) : (uint64_t)got);
    }
    return NULL;
}

static void run_threads(void)
{
    pthread_t threads[THREADS];
    struct work works[THREADS];
    long shared = 0;
    bool shares = percent(40);
    int one = file_fd();
    say(" %s", shares ? "one offset" : "offsets of their own");
    for (int i = 0; i < THREADS; i++) {
        works[i] = (struct work){.fd = shares ? one : file_fd(), .seed = draw(1u << 30), .shares = shares};
        pthread_create(&threads[i], NULL, work, &works[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        shared += works[i].shared;
        if (!shares) {
            say(" %d %016llx", works[i].fd, (unsigned long long)works[i].sum);
        }
    }
    if (shares) {
        say(" %d %ld at %lld", one, shared, (long long)lseek(one, 0, SEEK_CUR));
    }
}

static void run_fork(void)
{
    int fd = file_fd();
    uint32_t count = draw(9000) + 1;
    off_t move = draw(100000);
    bool moves = percent(30);
    say(" %d %u", fd, count);
    pid_t pid = fork();
    if (pid == 0) {
        if (moves) {
            lseek(fd, move, SEEK_SET);
        }
        ssize_t got = read(fd, place(), count);
        _exit(got < 0 ? 255 : (int)(hash_of(place(), (size_t)got) % 250));
    }
    int status = -1;
    waitpid(pid, &status, 0);
    say(" child %d at %lld", WEXITSTATUS(status), (long long)lseek(fd, 0, SEEK_CUR));
    ssize_t got = CALL(read(fd, place(), count));
    say_result(got);
    say(" %016llx", (unsigned long long)hash_of(place(), got > 0 ? (size_t)got : 0));
}

static void say_output(int from)
{
    uint64_t sum = 0;
    long total = 0;
    for (ssize_t got; (got = read(from, place(), OUT_ROOM)) > 0; total += got) {
        for (ssize_t i = 0; i < got; i++) {
            sum = sum * 31 + place()[i];
        }
    }
    close(from);
    say(" %ld bytes %016llx", total, (unsigned long long)sum);
}

static void say_status(pid_t pid)
{
    int status = -1;
    waitpid(pid, &status, 0);
    say(" status %x", (unsigned)status);
}

static void run_vfork(void)
{
    int ends[2];
    const char *path = percent(70) ? draw_tamed(false) : draw_path();
    if (!path || pipe(ends) != 0) {
        return;
    }
    char *const argv[] = {"cat", "--", (char *)path, NULL};
    int null = open("/dev/null", O_WRONLY);
    say_path(path);
    pid_t pid = vfork();
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        close(ends[0]);
        execvp("cat", argv);
        _exit(99);
    }
    close(ends[1]);
    close(null);
    say_output(ends[0]);
    say_status(pid);
}

/* A descriptor of ours as a program's input, by inheritance or by its name. */
static void run_spawn(void)
{
    int ends[2];
    int fd = file_fd();
    const char *path = percent(70) ? draw_tamed(false) : draw_path();
    bool by_name = percent(50);
    if (!path || pipe2(ends, O_CLOEXEC) != 0) {
        return;
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (by_name) {
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, path, O_RDONLY, 0);
        say_path(path);
    } else {
        posix_spawn_file_actions_adddup2(&actions, fd, STDIN_FILENO);
        say(" %d", fd);
    }
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    char *const argv[] = {"cat", NULL};
    pid_t pid = -1;
    int error = posix_spawnp(&pid, "cat", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    say(" = %d", error);
    say_output(ends[0]);
    if (error == 0) {
        say_status(pid);
        if (!by_name) {
            say(" at %lld", (long long)lseek(fd, 0, SEEK_CUR));
        }
    }
}

/* What a shell sees of a name. */
static void run_shell(void)
{
    char command[PATH_ROOM * 2];
    const char *path = percent(60) ? draw_tamed(percent(50)) : draw_path();
    if (!path || strchr(path, '\'')) {
        return;
    }
    static const char *const commands[] = {"test -d '%s' && echo d", "test -f '%s' && wc -c < '%s'",
                                           "cd '%s' && pwd", "ls -A -- '%s' | sort | cksum",
                                           "head -c 100 '%s' | cksum"};
    const char *format = commands[draw(5)];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(command, sizeof(command) - 20, format, path, path);
#pragma GCC diagnostic pop
    snprintf(command + strlen(command), 20, " 2>/dev/null");
    say(" %.30s", format);
    say_path(path);
    FILE *out = popen(command, "r");
    char text[400] = "";
    size_t got = out ? fread(text, 1, sizeof(text) - 1, out) : 0;
    int status = out ? pclose(out) : -1;
    for (size_t i = 0; i < got; i++) {
        text[i] = text[i] == '\n' ? ' ' : text[i];
    }
    say(" = %d %s", status, text);
}

const struct op process_ops[] = {{"threads", 6, run_threads}, {"fork", 8, run_fork},
                                 {"vfork", 4, run_vfork},     {"spawn", 4, run_spawn},
                                 {"shell", 3, run_shell},     {0}};
