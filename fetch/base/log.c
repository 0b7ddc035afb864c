#include "fetch/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "fetch/base/clock.h"

#define LINE_MAX_BYTES 1024 /* the header's promise; longer lines are cut */

static const char *const level_names[HR_LOG_LEVEL_COUNT] = {"error", "warning", "info", "debug"};

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER; /* guards log_fd */
static int log_fd = STDERR_FILENO;
static atomic_int log_level = HR_LOG_INFO;

int hr_log_open(const char *path, enum hr_log_level level)
{
    int fd = STDERR_FILENO;
    if (path) {
        fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
        if (fd < 0) {
            return -errno;
        }
    }
    (void)pthread_mutex_lock(&log_lock);
    int old = log_fd;
    log_fd = fd;
    (void)pthread_mutex_unlock(&log_lock);
    if (old != STDERR_FILENO) {
        (void)close(old);
    }
    atomic_store(&log_level, (int)level);
    return 0;
}

/* Copies text into line[at..], control bytes as \xNN, and returns the new end; stops where the line is full.
 */
static size_t append_escaped(char *line, size_t at, size_t room, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c >= 0x20 && c != 0x7f) {
            if (at + 1 > room) {
                break;
            }
            line[at++] = (char)c;
        } else {
            if (at + 4 > room) {
                break;
            }
            (void)snprintf(line + at, 5, "\\x%02x", c);
            at += 4;
        }
    }
    return at;
}

__attribute__((format(printf, 2, 0))) static void write_line(enum hr_log_level level, const char *format,
                                                             va_list args)
{
    char text[LINE_MAX_BYTES];
    char line[LINE_MAX_BYTES + 8]; /* room for the last escape's terminator */
    (void)vsnprintf(text, sizeof(text), format, args);

    int64_t wall_ns = hr_clock_wall_ns();
    time_t seconds = (time_t)(wall_ns / 1000000000);
    struct tm utc;
    (void)gmtime_r(&seconds, &utc);
    size_t at = strftime(line, 32, "%Y-%m-%dT%H:%M:%S", &utc);
    at += (size_t)snprintf(line + at, 32, ".%03dZ %s ", (int)(wall_ns / 1000000 % 1000), level_names[level]);
    at = append_escaped(line, at, LINE_MAX_BYTES - 1, text);
    line[at++] = '\n';

    (void)pthread_mutex_lock(&log_lock);
    size_t done = 0;
    while (done < at) {
        ssize_t n = write(log_fd, line + done, at - done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            break; /* a full disk or a closed stderr must not stop the daemon */
        }
        done += (size_t)n;
    }
    (void)pthread_mutex_unlock(&log_lock);
}

void hr_log(enum hr_log_level level, const char *format, ...)
{
    if ((int)level > atomic_load_explicit(&log_level, memory_order_relaxed)) {
        return;
    }
    int saved_errno = errno;
    va_list args;
    va_start(args, format);
    write_line(level, format, args);
    va_end(args);
    errno = saved_errno;
}
