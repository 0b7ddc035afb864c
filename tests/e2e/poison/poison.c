#include "tests/e2e/poison/poison.h"

#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define ROWS_MAX 256
#define SAID_MAX 160

const char *poison_path, *poison_dark, *poison_scratch;
uint64_t poison_at;
size_t poison_len;
char *poison_buffer;

static char (*said)[SAID_MAX]; /* shared with the children */
static char *own_line;

unsigned char poison_byte(uint64_t offset)
{
    /* splitmix64's finaliser over the number of eight bytes */
    uint64_t x = (offset >> 3) + 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    x ^= x >> 31;
    unsigned char byte = (unsigned char)(x >> (8 * (offset & 7)));
    return byte ? byte : 'z';
}

void poison_say(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(own_line, SAID_MAX, format, list);
    va_end(list);
}

void poison_errno(int error)
{
    const char *name = strerrorname_np(error);
    poison_say("%s", name ? name : "no errno");
}

void poison_bytes(const void *buffer, ssize_t got, uint64_t offset)
{
    const unsigned char *bytes = buffer;
    if (got <= 0) {
        got < 0 ? poison_errno(errno) : poison_say("end");
        return;
    }
    for (ssize_t i = 0; i < got; i++) {
        if (bytes[i] != poison_byte(offset + (uint64_t)i)) {
            poison_say("%s at %llu of %zd", bytes[i] ? "WRONG" : "ZERO",
                       (unsigned long long)(offset + (uint64_t)i), got);
            return;
        }
    }
    poison_say("good %zd", got);
}

void poison_got(ssize_t got)
{
    poison_bytes(poison_buffer, got, poison_at);
}

void poison_drain(int fd)
{
    size_t have = 0;
    ssize_t got = 0;
    while (have < poison_len && (got = read(fd, poison_buffer + have, poison_len - have)) > 0) {
        have += (size_t)got;
    }
    poison_got(have ? (ssize_t)have : got);
}

void poison_need(bool good, const char *what)
{
    if (!good) {
        poison_say("row: %s: %s", what, strerror(errno));
        _exit(1);
    }
}

int poison_open(void)
{
    int fd = open(poison_path, O_RDONLY);
    poison_need(fd >= 0 && lseek(fd, (off_t)poison_at, SEEK_SET) == (off_t)poison_at, "open");
    return fd;
}

int poison_file(void)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/row-XXXXXX", poison_scratch);
    int fd = mkstemp(path);
    poison_need(fd >= 0 && unlink(path) == 0, "mkstemp");
    return fd;
}

void poison_pipe(int ends[2])
{
    poison_need(pipe(ends) == 0 && fcntl(ends[1], F_SETPIPE_SZ, POISON_LEN_MAX) >= 0, "pipe");
}

pid_t poison_fork(void)
{
    pid_t pid = fork();
    poison_need(pid >= 0, "fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    return pid;
}

void poison_wait(pid_t pid)
{
    int status;
    poison_need(waitpid(pid, &status, 0) == pid, "waitpid");
}

static pid_t begin(const struct poison_row *row, unsigned number, unsigned seconds)
{
    pid_t pid = fork();
    if (pid < 0) {
        perror("fork");
        exit(2);
    }
    if (pid == 0) {
        own_line = said[number];
        setpgid(0, 0);
        alarm(seconds);
        row->run();
        _exit(0);
    }
    return pid;
}

static void tell(const char *name, unsigned number, int status)
{
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
        printf("%s\twaits\n", name);
    } else if (WIFSIGNALED(status)) {
        printf("%s\tsignal %s\n", name, strsignal(WTERMSIG(status)));
    } else {
        printf("%s\t%s\n", name, said[number][0] ? said[number] : "nothing said");
    }
}

void poison_run(const struct poison_row *rows, const char *only, unsigned seconds)
{
    pid_t pids[ROWS_MAX] = {0};
    size_t shared = sizeof(said[0]) * ROWS_MAX;
    said = mmap(NULL, shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    poison_buffer = calloc(1, POISON_LEN_MAX);
    if (said == MAP_FAILED || !poison_buffer) {
        perror("memory");
        exit(2);
    }
    for (unsigned i = 0; rows[i].name && i < ROWS_MAX; i++) {
        if (!only || strstr(rows[i].name, only)) {
            pids[i] = begin(&rows[i], i, seconds);
        }
    }
    for (unsigned i = 0; rows[i].name && i < ROWS_MAX; i++) {
        int status;
        if (!pids[i]) {
            continue;
        }
        while (waitpid(pids[i], &status, 0) < 0 && errno == EINTR) {
        }
        kill(-pids[i], SIGKILL); /* what the row started */
        tell(rows[i].name, i, status);
    }
    fflush(stdout);
}
