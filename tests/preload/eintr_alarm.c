/* SIGALRM and SIGCHLD every 10 ms, handlers without SA_RESTART, while everything is opened, read and listed:
 * no EINTR reaches the program. */
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/preload/probe.h"

#define RUN_MS 1500 /* at least one round, then until this has passed */
#define PERIOD_US 10000
#define SENDER_MS 30000 /* it is killed long before */

static volatile sig_atomic_t alarms, children;

static void on_signal(int number)
{
    if (number == SIGALRM) {
        alarms++;
    } else {
        children++;
    }
}

static long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000ll + now.tv_nsec / 1000000;
}

static pid_t start_sender(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        for (int sent = 0; sent < SENDER_MS * 1000 / PERIOD_US && kill(getppid(), SIGCHLD) == 0; sent++) {
            usleep(PERIOD_US);
        }
        _exit(0);
    }
    return pid;
}

static uint64_t round_digest(void)
{
    uint64_t all = PROBE_HASH, size;
    for (size_t i = 0; i < probe_count; i++) {
        char *path = probe_path(probe_entries[i].path);
        struct stat st;
        probe_expect(stat(path, &st) == 0, "stat %s: %s", probe_entries[i].path, probe_errno(errno));
        int fd = open(path, O_RDONLY);
        probe_expect(fd >= 0, "open %s: %s", probe_entries[i].path, probe_errno(errno));
        if (probe_entries[i].type == DT_REG && fd >= 0) {
            uint64_t hash = probe_digest(fd, &size);
            probe_expect(hash != 0, "read %s: %s", probe_entries[i].path, probe_errno(errno));
            all = probe_hash(all, &hash, sizeof(hash));
        }
        close(fd);
        free(path);
    }
    return all;
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct itimerval every = {{0, PERIOD_US}, {0, PERIOD_US}};
    struct itimerval never = {{0, 0}, {0, 0}};
    probe_begin(argc, argv);
    pid_t sender = start_sender();
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGCHLD, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    long long start = now_ms();
    probe_walk();
    uint64_t first = round_digest();
    while (now_ms() - start < RUN_MS) {
        probe_expect(round_digest() == first, "another round, other bytes");
    }
    setitimer(ITIMER_REAL, &never, NULL);
    kill(sender, SIGKILL);
    while (waitpid(sender, NULL, 0) < 0 && errno == EINTR) {
    }
    printf("%zu entries %016llx\n", probe_count, (unsigned long long)first);
    probe_expect(alarms > 10 && children > 10, "only %d alarms and %d children", (int)alarms, (int)children);
    return probe_wrong;
}
