/* Streams and POSIX aio on every file: what libc reads by itself. */
#include "tests/preload/probe.h"

#include <aio.h>
#include <sys/wait.h>

static void say_stream(const char *what, FILE *stream)
{
    char buffer[3000];
    size_t got, bytes = 0;
    uint64_t hash = PROBE_HASH;
    if (!stream) {
        probe_say(what, false);
        return;
    }
    while ((got = fread(buffer, 1, sizeof(buffer), stream)) > 0) {
        hash = probe_hash(hash, buffer, got);
        bytes += got;
    }
    printf("  %s: %zu bytes %016llx, error %d\n", what, bytes, (unsigned long long)hash, ferror(stream) != 0);
}

static void streams(const char *path, off_t size)
{
    FILE *stream = fopen(path, "rbe");
    say_stream("fopen", stream);
    probe_expect(fseeko(stream, size / 2, SEEK_SET) == 0, "fseeko");
    say_stream("from the middle", stream);
    stream = freopen(NULL, "r", stream);
    say_stream("freopen of itself", stream);
    stream = freopen(path, "r", stream);
    say_stream("freopen", stream);
    fclose(stream);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    lseek(fd, size / 3, SEEK_SET);
    stream = fdopen(fd, "r");
    printf("  same descriptor %d, close-on-exec %d\n", stream && fileno(stream) == fd,
           fcntl(fd, F_GETFD) == FD_CLOEXEC);
    say_stream("fdopen", stream);
    fclose(stream);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    probe_say("  fdopen for writing", fdopen(fd, "w") != NULL);
    char name[64];
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    stream = fopen(name, "r");
    say_stream("by its number", stream);
    if (stream) {
        fclose(stream);
    }
    close(fd);
    stream = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    ssize_t first = getline(&line, &room, stream);
    printf("  first line %zd\n", first);
    free(line);
    fclose(stream);
}

/* As root the kernel would open a cache file for writing. */
static void rewritten(const char *path)
{
    static const char *const modes[] = {"w", "r+", "a"};
    for (size_t i = 0; probe_mapped() && i < sizeof(modes) / sizeof(*modes); i++) {
        FILE *stream = freopen(NULL, modes[i], fopen(path, "r"));
        probe_expect(!stream && errno == EROFS, "freopen of itself, %s: %s", modes[i], probe_errno(errno));
    }
}

/* Standard output that was opened for reading takes no text, and others go on reading. */
static void output(const char *path)
{
    char first;
    fflush(stdout);
    int other = open(path, O_RDONLY);
    pid_t pid = fork();
    if (pid == 0) {
        close(1);
        int fd = open(path, O_RDONLY);
        bool refused = fd == 1 && fputs("text", stdout) >= 0 && fflush(stdout) == EOF && errno == EBADF;
        close(1);
        refused = refused && dup(other) == 1 && fputs("text", stdout) >= 0 && fflush(stdout) == EOF;
        _exit(refused ? 0 : 1);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    printf("  as output: %d, then %zd\n", status, pread(other, &first, 1, 0));
    close(other);
}

static void in_thread_folder(const char *path)
{
    char name[64];
    int fd = open(path, O_RDONLY);
    snprintf(name, sizeof(name), "/proc/self/task/%d/fd/%d", getpid(), fd);
    FILE *stream = fopen(name, "r");
    say_stream("by its number in a thread's folder", stream);
    if (stream) {
        fclose(stream);
    }
    close(fd);
}

static ssize_t finished(struct aiocb *request)
{
    const struct aiocb *list[] = {request};
    while (aio_error(request) == EINPROGRESS) {
        aio_suspend(list, 1, NULL);
    }
    return aio_return(request);
}

static void asynchronous(const char *path, off_t size)
{
    static char texts[2][70000];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct aiocb one = {
        .aio_fildes = fd, .aio_buf = texts[0], .aio_nbytes = sizeof(texts[0]), .aio_offset = size / 5};
    probe_say("  aio_read", aio_read(&one) == 0);
    ssize_t got = finished(&one);
    printf("  %zd bytes %016llx\n", got,
           (unsigned long long)probe_hash(PROBE_HASH, texts[0], got > 0 ? (size_t)got : 0));
    close(fd);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    struct aiocb two = {
        .aio_fildes = fd, .aio_buf = texts[1], .aio_nbytes = sizeof(texts[1]), .aio_lio_opcode = LIO_READ};
    one.aio_fildes = fd;
    one.aio_lio_opcode = LIO_READ;
    struct aiocb *list[] = {&one, NULL, &two};
    probe_say("  lio_listio", lio_listio(LIO_WAIT, list, 3, NULL) == 0);
    ssize_t first = aio_return(&one), second = aio_return(&two);
    printf("  %zd and %zd bytes, %016llx\n", first, second,
           (unsigned long long)probe_hash(PROBE_HASH, texts[1], second > 0 ? (size_t)second : 0));
    probe_expect(aio_write(&one) < 0 || finished(&one) < 0, "aio_write into a file of a read-only tree");
    close(fd);
}

int main(int argc, char **argv)
{
    struct stat st;
    probe_begin(argc, argv);
    probe_walk();
    for (size_t i = 0; i < probe_count; i++) {
        if (probe_entries[i].type != DT_REG) {
            continue;
        }
        char *path = probe_path(probe_entries[i].path);
        probe_expect(stat(path, &st) == 0, "stat");
        printf("%s %lld\n", probe_entries[i].path, (long long)st.st_size);
        /* First, and one of both: it makes a plain file of the object. */
        (i % 2 ? output : in_thread_folder)(path);
        streams(path, st.st_size);
        asynchronous(path, st.st_size);
        rewritten(path);
        free(path);
    }
    return probe_wrong;
}
