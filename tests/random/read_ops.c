/* Calls that read, move the offset, or copy out of a descriptor. */
#include <fcntl.h>
#include <limits.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/random/random.h"

#define PARTS_MAX 5
#define FAR ((off_t)1 << 40) /* which of two errors a sum beyond 2^63 is depends on the kernel */

static void say_bytes(const void *bytes, ssize_t count)
{
    say_result(count);
    if (count > 0) {
        say(" %016llx", (unsigned long long)hash_of(bytes, (size_t)count));
    }
}

static bool is_folder(int fd)
{
    struct stat stat;
    return fstat(fd, &stat) == 0 && S_ISDIR(stat.st_mode);
}

/* A position in a directory is the file system's own. */
static void say_offset(int fd)
{
    say(" at %lld", is_folder(fd) ? 0 : (long long)lseek(fd, 0, SEEK_CUR));
}

/* Where a read's bytes go: somewhere or nowhere. Other memory that cannot be written is a fault there, as of
 * any store, when the bytes come out of a mapping: that is meant. */
static unsigned char *draw_buffer(long *count)
{
    switch (draw(25)) {
    case 0:
        return NULL;
    case 1:
        *count = 1L << 28;
        return place();
    default:
        return place();
    }
}

static void run_read(void)
{
    int fd = any_fd();
    long count = draw_length();
    unsigned char *buffer = draw_buffer(&count);
    if (is_folder(fd)) {
        lseek(fd, 0, SEEK_SET);
    }
    say(" %d %ld %s", fd, count, buffer ? "" : "NULL");
    say_bytes(buffer, CALL(read(fd, buffer, (size_t)count)));
    say_offset(fd);
}

static void run_pread(void)
{
    int fd = file_fd();
    long count = draw_length();
    unsigned char *buffer = draw_buffer(&count);
    off_t offset = draw_offset();
    say(" %d %ld %lld %s", fd, count, (long long)offset, buffer ? "" : "NULL");
    say_bytes(buffer, CALL(pread(fd, buffer, (size_t)count, offset)));
}

static int draw_parts(struct iovec *parts)
{
    int count = (int)draw(PARTS_MAX);
    unsigned char *at = place();
    for (int i = 0; i < count; i++) {
        parts[i] = (struct iovec){.iov_base = at, .iov_len = (size_t)draw_length() % (1 << 20)};
        at += parts[i].iov_len;
        say(" %zu", parts[i].iov_len);
    }
    if (count > 0 && percent(4)) {
        parts[draw((uint32_t)count)].iov_len = SIZE_MAX;
        say(" with a huge one");
    }
    return percent(3) ? -1 : percent(3) ? 2000 : count;
}

static void run_readv(void)
{
    struct iovec parts[PARTS_MAX];
    int fd = file_fd();
    say(" %d", fd);
    int count = draw_parts(parts);
    say(" (%d)", count);
    say_bytes(place(), CALL(readv(fd, parts, count)));
    say_offset(fd);
}

static void run_preadv(void)
{
    struct iovec parts[PARTS_MAX];
    int fd = file_fd();
    off_t offset = draw_offset();
    say(" %d %lld", fd, (long long)offset);
    int count = draw_parts(parts);
    static const int kinds[] = {0, RWF_HIPRI, RWF_DSYNC, RWF_APPEND, 1 << 20};
    int flags = kinds[percent(70) ? 0 : draw(5)];
    bool second = flags || percent(50);
    say(" (%d) %s %x", count, second ? "preadv2" : "preadv", (unsigned)flags);
    say_bytes(place(),
              CALL(second ? preadv2(fd, parts, count, offset, flags) : preadv(fd, parts, count, offset)));
    say_offset(fd);
}

static void run_lseek(void)
{
    static const int ways[] = {SEEK_SET, SEEK_SET,  SEEK_SET,  SEEK_CUR, SEEK_END,
                               SEEK_END, SEEK_DATA, SEEK_HOLE, 77};
    int fd = percent(93) ? file_fd() : any_fd();
    int way = ways[draw(9)];
    off_t offset = percent(70) || way == SEEK_SET ? draw_offset() : (off_t)draw(5000) - 2500;
    if (is_folder(fd)) {
        offset = 0; /* positions in a directory are the file system's own */
        way = SEEK_SET;
    }
    say(" %d %lld %d", fd, (long long)offset, way);
    SAY_CALL(lseek(fd, offset, way));
    say_offset(fd);
}

/* What is in a pipe, without waiting. */
static void drain(int pipe_fd, ssize_t copied)
{
    ssize_t got = copied > 0 ? read(pipe_fd, place(), (size_t)copied) : 0;
    if (copied > 0) {
        say(" %zd %016llx", got, (unsigned long long)hash_of(place(), got > 0 ? (size_t)got : 0));
    }
}

static off_t draw_near(void)
{
    off_t offset = draw_offset();
    return offset < 0 || offset > FAR ? 0 : offset;
}

/* Into a pipe a copy ends where the pipe is full, which depends on how its pages are used: one page at most.
 */
static void run_to_pipe(void)
{
    int ends[2];
    int fd = file_fd();
    off_t offset = draw_near(), *at = percent(60) ? &offset : NULL;
    size_t count = draw(4097);
    bool splices = percent(50);
    if (pipe2(ends, O_NONBLOCK) != 0) {
        return;
    }
    say(" %s %d %lld %zu", splices ? "splice" : "sendfile", fd, at ? (long long)offset : -7, count);
    ssize_t copied = splices ? CALL(splice(fd, at, ends[1], NULL, count, SPLICE_F_NONBLOCK))
                             : CALL(sendfile(ends[1], fd, at, count));
    say_result(copied);
    drain(ends[0], copied);
    say(" left %lld", (long long)offset);
    say_offset(fd);
    close(ends[0]);
    close(ends[1]);
}

static void run_to_file(void)
{
    int fd = file_fd();
    int out = open(world_scratch(), O_RDWR | O_CREAT | O_TRUNC, 0600);
    off_t offset = draw_near(), *at = percent(60) ? &offset : NULL;
    long count = draw_length();
    bool sends = percent(50);
    say(" %s %d %lld %ld", sends ? "sendfile" : "copy_file_range", fd, at ? (long long)offset : -7, count);
    ssize_t copied = sends ? CALL(sendfile(out, fd, at, (size_t)count))
                           : CALL(copy_file_range(fd, at, out, NULL, (size_t)count, percent(5) ? 1 : 0));
    say_result(copied);
    ssize_t got = copied > 0 ? pread(out, place(), (size_t)copied, 0) : 0;
    say(" %zd %016llx left %lld", got, (unsigned long long)hash_of(place(), got > 0 ? (size_t)got : 0),
        (long long)offset);
    say_offset(fd);
    close(out);
}

static void run_advise(void)
{
    int fd = file_fd();
    off_t offset = draw_offset();
    long count = draw_length();
    int advice = (int)draw(8);
    if (percent(30)) {
        say(" readahead %d %lld %ld", fd, (long long)offset, count);
        SAY_CALL(readahead(fd, offset, (size_t)count));
        return;
    }
    say(" %d %lld %ld %d", fd, (long long)offset, count, advice);
    SAY_CALL(posix_fadvise(fd, offset, count, advice));
}

const struct op read_ops[] = {
    {"read", 110, run_read},      {"pread", 110, run_pread},  {"readv", 30, run_readv},
    {"preadv", 40, run_preadv},   {"lseek", 110, run_lseek},  {"to-pipe", 30, run_to_pipe},
    {"to-file", 20, run_to_file}, {"advise", 15, run_advise}, {0}};
