/* The daemon's life in processes of their own: one a directory, ends when idle or told, never stays where its
 * directory is gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/settings.h"
#include "fetch/base/clock.h"
#include "fetch/serve/daemon.h"
#include "interpose/abi.h"

#define PATIENCE_MS 60000 /* a sanitizer build on a loaded machine */

struct rig {
    char home[64];
    char dir[96];
    pid_t pids[4];  /* 0: none */
    char word[512]; /* what the last one said when it was ready */
};

static int set_up(void **state)
{
    struct rig *rig = calloc(1, sizeof *rig);
    strcpy(rig->home, "/tmp/hr-daemon-XXXXXX");
    assert_non_null(mkdtemp(rig->home));
    snprintf(rig->dir, sizeof rig->dir, "%s/cache", rig->home);
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *rig = *state;
    char command[128];
    for (unsigned i = 0; i < 4; i++) {
        if (rig->pids[i]) {
            (void)kill(rig->pids[i], SIGKILL);
            (void)waitpid(rig->pids[i], NULL, 0);
        }
    }
    snprintf(command, sizeof command, "rm -rf %s", rig->home);
    int status = system(command);
    free(rig);
    return status;
}

static void be_daemon(const char *dir, const char *idle, int ready_fd)
{
    char text[64], why[HR_SETTINGS_MESSAGE_BYTES];
    char *envp[] = {text, (char *)(uintptr_t) "HEADRACE_CACHE_SIZE=64M", NULL};
    snprintf(text, sizeof text, "HEADRACE_IDLE_EXIT_S=%s", idle);
    struct hr_settings_sources sources = {.envp = envp, .no_file = true};
    struct hr_settings *settings = NULL;
    if (hr_settings_load(&sources, why, &settings) < 0) {
        _exit(99);
    }
    int status = hr_daemon_run(dir, settings, ready_fd);
    hr_settings_free(settings);
    _exit(status);
}

/* Until it says that it serves, or why not. */
static pid_t start(struct rig *rig, const char *idle)
{
    int fds[2];
    unsigned slot = 0;
    assert_int_equal(pipe(fds), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        close(fds[0]);
        be_daemon(rig->dir, idle, fds[1]);
    }
    close(fds[1]);
    size_t len = 0;
    ssize_t got;
    while (len + 1 < sizeof rig->word &&
           (got = read(fds[0], rig->word + len, sizeof rig->word - 1 - len)) > 0) {
        len += (size_t)got;
    }
    rig->word[len] = '\0';
    close(fds[0]);
    while (rig->pids[slot]) {
        slot++;
    }
    rig->pids[slot] = pid;
    return pid;
}

/* Its exit status; 1000 + signal. */
static int await(struct rig *rig, pid_t pid)
{
    int64_t deadline_ms = hr_clock_ms() + PATIENCE_MS;
    int status = 0;
    pid_t got;
    while ((got = waitpid(pid, &status, WNOHANG)) == 0 && hr_clock_ms() < deadline_ms) {
        usleep(5000);
    }
    assert_int_equal(got, pid);
    for (unsigned i = 0; i < 4; i++) {
        rig->pids[i] = rig->pids[i] == pid ? 0 : rig->pids[i];
    }
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static const struct hr_control *map_control(struct rig *rig)
{
    char path[128];
    snprintf(path, sizeof path, "%s/control", rig->dir);
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    void *base = mmap(NULL, sizeof(struct hr_control), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    assert_true(base != MAP_FAILED);
    return base;
}

static void unmap_control(const struct hr_control *control)
{
    munmap((void *)(uintptr_t)control, sizeof *control);
}

/* One question; the answer's length, -errno when nobody is there. */
static ssize_t ask(struct rig *rig, const char *request, char *ret, size_t room)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/sock", rig->dir);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        int error = errno;
        close(fd);
        return -error;
    }
    assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
    size_t len = 0;
    ssize_t got;
    while (len + 1 < room && (got = recv(fd, ret + len, room - 1 - len, 0)) > 0) {
        len += (size_t)got;
    }
    ret[len] = '\0';
    close(fd);
    return (ssize_t)len;
}

static void test_one_a_directory(void **state)
{
    struct rig *rig = *state;
    char answer[65536];
    pid_t first = start(rig, "100");
    assert_string_equal(rig->word, "ok\n");
    const struct hr_control *control = map_control(rig);
    assert_int_equal(control->magic, HR_MAGIC_CONTROL);
    assert_int_equal(control->daemon_pid, first);
    pid_t second = start(rig, "100");
    assert_string_equal(rig->word, "ok\n"); /* there is one */
    assert_int_equal(await(rig, second), 0);
    assert_int_equal(atomic_load(&control->retired), 0);
    assert_true(ask(rig, "{\"op\":\"status\"}\n", answer, sizeof answer) > 0);
    assert_non_null(strstr(answer, "\"requests\""));
    assert_true(ask(rig, "{\"op\":\"stop\"}\n", answer, sizeof answer) > 0);
    assert_string_equal(answer, "{}\n");
    assert_int_equal(await(rig, first), 0);
    assert_int_equal(atomic_load(&control->retired), 1);
    assert_true(ask(rig, "{\"op\":\"status\"}\n", answer, sizeof answer) < 0);
    unmap_control(control);
}

static void test_idle_end_and_the_next_life(void **state)
{
    struct rig *rig = *state;
    int64_t began_ms = hr_clock_ms();
    pid_t first = start(rig, "1");
    assert_string_equal(rig->word, "ok\n");
    const struct hr_control *control = map_control(rig);
    uint64_t boot = control->boot;
    assert_int_equal(await(rig, first), 0);
    assert_true(hr_clock_ms() - began_ms >= 900);
    assert_int_equal(atomic_load(&control->retired), 1);
    unmap_control(control);
    pid_t next = start(rig, "100");
    assert_string_equal(rig->word, "ok\n");
    control = map_control(rig);
    assert_true(control->boot != boot);
    unmap_control(control);
    assert_int_equal(kill(next, SIGTERM), 0);
    assert_int_equal(await(rig, next), 0);
}

static void test_killed_daemon_is_succeeded(void **state)
{
    struct rig *rig = *state;
    pid_t first = start(rig, "100");
    const struct hr_control *old = map_control(rig);
    assert_int_equal(kill(first, SIGKILL), 0);
    assert_int_equal(await(rig, first), 1000 + SIGKILL);
    assert_int_equal(atomic_load(&old->retired), 0); /* it could not say so... */
    (void)start(rig, "100");
    assert_string_equal(rig->word, "ok\n");
    assert_int_equal(atomic_load(&old->retired), 1); /* ...the next one does */
    unmap_control(old);
}

/* Whoever removes the directory, or puts another in its place, gets rid of the daemon. */
static void test_directory_removed_under_it(void **state)
{
    struct rig *rig = *state;
    static const char *const ways[] = {"rm -rf cache", "rm -rf cache/*", "rm -f cache/lock",
                                       "rm -f cache/control", "rm -rf away && mv cache away"};
    char command[128], answer[65536];
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++) {
        pid_t first = start(rig, "100");
        assert_string_equal(rig->word, "ok\n");
        const struct hr_control *control = map_control(rig);
        snprintf(command, sizeof command, "cd %s && %s", rig->home, ways[i]);
        assert_int_equal(system(command), 0);
        assert_int_equal(await(rig, first), 1);
        assert_int_equal(atomic_load(&control->retired), 1);
        unmap_control(control);
        pid_t next = start(rig, "100");
        assert_string_equal(rig->word, "ok\n");
        assert_true(ask(rig, "{\"op\":\"status\"}\n", answer, sizeof answer) > 0);
        assert_int_equal(kill(next, SIGTERM), 0);
        assert_int_equal(await(rig, next), 0);
    }
}

/* The new one is there before the old one has noticed: neither harms the other. */
static void test_two_for_a_moment(void **state)
{
    struct rig *rig = *state;
    char command[128], answer[65536];
    pid_t first = start(rig, "100");
    snprintf(command, sizeof command, "rm -rf %s", rig->dir);
    assert_int_equal(kill(first, SIGSTOP), 0);
    assert_int_equal(system(command), 0);
    pid_t next = start(rig, "100");
    assert_string_equal(rig->word, "ok\n");
    assert_int_equal(kill(first, SIGCONT), 0);
    assert_int_equal(await(rig, first), 1);
    usleep(300000);
    assert_true(ask(rig, "{\"op\":\"status\"}\n", answer, sizeof answer) > 0);
    const struct hr_control *control = map_control(rig);
    assert_int_equal(control->daemon_pid, next);
    assert_int_equal(atomic_load(&control->retired), 0);
    unmap_control(control);
}

static void test_directories_that_cannot_be_used(void **state)
{
    struct rig *rig = *state;
    static const struct {
        const char *command, *says;
    } cases[] = {
        {": > cache", "cache"},
        {"mkdir real && ln -s real cache", "symlink"},
        {"mkdir cache && chmod 0755 cache", "chmod 700"},
        {"mkdir -p cache/lock && chmod 0700 cache", "lock"},
        {"mkdir cache && chmod 0700 cache && : > cache/index", "index"},
    };
    char command[160];
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(command, sizeof command, "cd %s && %s", rig->home, cases[i].command);
        assert_int_equal(system(command), 0);
        pid_t pid = start(rig, "100");
        if (strncmp(rig->word, "error ", 6) != 0 || !strstr(rig->word, cases[i].says)) {
            print_message("%s -> %s\n", cases[i].command, rig->word);
        }
        assert_int_equal(strncmp(rig->word, "error ", 6), 0);
        assert_non_null(strstr(rig->word, cases[i].says));
        assert_int_equal(await(rig, pid), 1);
        snprintf(command, sizeof command, "rm -rf %s/cache %s/real", rig->home, rig->home);
        assert_int_equal(system(command), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        RIG_TEST(test_one_a_directory),
        RIG_TEST(test_idle_end_and_the_next_life),
        RIG_TEST(test_killed_daemon_is_succeeded),
        RIG_TEST(test_directory_removed_under_it),
        RIG_TEST(test_two_for_a_moment),
        RIG_TEST(test_directories_that_cannot_be_used),
#undef RIG_TEST
    };
    return cmocka_run_group_tests_name("daemon", tests, NULL, NULL);
}
