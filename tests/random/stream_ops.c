/* Calls of stdio on files. */
#include <fcntl.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/random/random.h"

#define STREAMS_MAX 4

static FILE *streams[STREAMS_MAX];
/* Of one size on both sides: how far libc reads ahead follows from st_blksize, and is seen in an offset that
 * is shared. */
static char buffers[STREAMS_MAX][4096];

static FILE *some_stream(void)
{
    size_t first = draw(STREAMS_MAX);
    for (size_t i = 0; i < STREAMS_MAX; i++) {
        if (streams[(first + i) % STREAMS_MAX]) {
            return streams[(first + i) % STREAMS_MAX];
        }
    }
    return NULL;
}

static const char *draw_mode(void)
{
    static const char *const modes[] = {"r", "r", "r",  "rb", "re", "rm", "rc", "r+",
                                        "w", "a", "a+", "w+", "rx", "wx", "q",  ""};
    return modes[percent(75) ? draw(7) : draw(16)];
}

static void opened(FILE *stream, int error, bool again)
{
    if (!stream) {
        say(" = NULL");
        say_error(error);
        return;
    }
    size_t number = draw(STREAMS_MAX);
    if (streams[number]) {
        fclose(streams[number]);
    }
    streams[number] = stream;
    setvbuf(stream, buffers[number], _IOFBF, sizeof(buffers[number]));
    struct stat stat;
    bool folder = fstat(fileno(stream), &stat) == 0 && S_ISDIR(stat.st_mode);
    say(" = fd %d flags %o", fileno(stream),
        folder ? 0 : fcntl(fileno(stream), F_GETFL) & ~(O_NOFOLLOW | O_APPEND));
    say(" %d",
        again ? 0 : fcntl(fileno(stream), F_GETFD)); /* what freopen keeps of an 'e' is libc's muddle */
}

static void run_fopen(void)
{
    const char *path = percent(60) ? draw_tamed(false) : draw_path();
    const char *mode = draw_mode();
    say(" %s", mode);
    say_path(path);
    errno = 0;
    FILE *stream = path ? fopen(path, mode) : NULL;
    opened(stream, errno, false);
}

/* Of a descriptor of its own: one of a large object becomes another description, whose offset is no dup's any
 * more. */
static void run_fdopen(void)
{
    int copy = open(draw_tamed(false), O_RDONLY);
    off_t offset = draw(70000);
    const char *mode = draw_mode();
    lseek(copy, offset, SEEK_SET);
    say(" %d %lld %s", copy, (long long)offset, mode);
    errno = 0;
    FILE *stream = fdopen(copy, mode);
    opened(stream, errno, false);
    if (!stream) {
        close(copy);
    }
}

static void run_freopen(void)
{
    size_t number = draw(STREAMS_MAX);
    const char *path = percent(60) ? draw_tamed(false) : draw_path();
    const char *mode = draw_mode();
    if (!streams[number] || !path || fcntl(fileno(streams[number]), F_GETFD) < 0) {
        return;
    }
    say(" %s", mode);
    say_path(path);
    errno = 0;
    FILE *stream = freopen(path, mode, streams[number]);
    streams[number] = NULL;
    opened(stream, errno, true);
}

static void run_fclose(void)
{
    size_t number = draw(STREAMS_MAX);
    if (streams[number]) {
        SAY_CALL(fclose(streams[number]));
        streams[number] = NULL;
    }
}

static void say_state(FILE *stream)
{
    say(" eof %d error %d at %lld", feof(stream) != 0, ferror(stream) != 0, (long long)ftello(stream));
}

static void run_stream_read(void)
{
    FILE *stream = some_stream();
    if (!stream) {
        return;
    }
    size_t count = (size_t)draw_length();
    size_t size = percent(70) ? 1 : 1 + draw(9);
    say(" fd %d %zu %zu", fileno(stream), size, count / size);
    errno = 0;
    size_t got = fread(place(), size, count / size, stream);
    int error = errno;
    say(" = %zu %016llx", got, (unsigned long long)hash_of(place(), got * size));
    say_error(error);
    say_state(stream);
}

static void run_stream_line(void)
{
    static char *text;
    static size_t room;
    FILE *stream = some_stream();
    if (!stream) {
        return;
    }
    say(" fd %d", fileno(stream));
    if (percent(40)) {
        char *line = fgets((char *)place(), (int)draw(5000) + 1, stream);
        say(" fgets %zu", line ? strlen(line) : 0);
    } else {
        ssize_t got = getdelim(&text, &room, percent(70) ? '\n' : 'e', stream);
        say(" getdelim %zd %016llx", got, (unsigned long long)hash_of(text, got > 0 ? (size_t)got : 0));
    }
    say_state(stream);
}

static void run_stream_seek(void)
{
    FILE *stream = some_stream();
    if (!stream) {
        return;
    }
    off_t offset = draw_offset();
    int whence = (int)draw(4);
    say(" fd %d %lld %d", fileno(stream), (long long)offset, whence);
    if (percent(85)) {
        SAY_CALL(fseeko(stream, offset, whence));
    } else {
        rewind(stream);
    }
    say_state(stream);
    say(" fd %s", lseek(fileno(stream), 0, SEEK_CUR) >= 0 ? "has a place" : "has none");
}

static void run_stream_odd(void)
{
    FILE *stream = some_stream();
    if (!stream) {
        return;
    }
    say(" fd %d", fileno(stream));
    switch (draw(6)) {
    case 0:
        say(" ungetc %d %d", ungetc('u', stream), fgetc(stream));
        break;
    case 1:
        say(" fputc");
        SAY_CALL(fputc('p', stream));
        SAY_CALL(fflush(stream));
        break;
    case 2:
        say(" fflush");
        SAY_CALL(fflush(stream));
        say(" fd at %lld", (long long)lseek(fileno(stream), 0, SEEK_CUR));
        break;
    case 3:
        clearerr(stream);
        break;
    case 4:
        say(" fgetc %d", fgetc(stream));
        break;
    default:
        say(" pending %zu", __freading(stream) ? (size_t)1 : 0);
    }
    say_state(stream);
}

const struct op stream_ops[] = {
    {"fopen", 35, run_fopen},       {"fdopen", 15, run_fdopen},     {"freopen", 8, run_freopen},
    {"fclose", 12, run_fclose},     {"fread", 35, run_stream_read}, {"getline", 25, run_stream_line},
    {"fseek", 25, run_stream_seek}, {"stream", 20, run_stream_odd}, {0}};
