/* Copies inside the kernel out of every file, with and without an offset, and into one. */
#include "tests/preload/probe.h"

#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

static int scratch(void)
{
    int fd = open("sent", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    probe_expect(fd >= 0, "no scratch file");
    return fd;
}

static void say_content(const char *what, int out, int in)
{
    uint64_t bytes;
    lseek(out, 0, SEEK_SET);
    uint64_t hash = probe_digest(out, &bytes);
    printf("  %s: %llu bytes %016llx, position %lld\n", what, (unsigned long long)bytes,
           (unsigned long long)hash, (long long)lseek(in, 0, SEEK_CUR));
    close(out);
}

static void by_sendfile(int fd, off_t size)
{
    int out = scratch();
    off_t at = size / 3;
    lseek(fd, 5, SEEK_SET);
    while (sendfile(out, fd, &at, 100000) > 0) {
    }
    printf("  offset %lld\n", (long long)at);
    say_content("sendfile at an offset", out, fd);
    out = scratch();
    lseek(fd, size / 2, SEEK_SET);
    ssize_t sent = sendfile(out, fd, NULL, (size_t)size * 2 + 1);
    printf("  in one call: %zd\n", sent);
    say_content("sendfile", out, fd);
    at = -1;
    probe_say("  negative offset", sendfile(1, fd, &at, 10) >= 0);
    probe_say("  into it", sendfile(fd, fd, NULL, 10) >= 0);
    probe_say("  into nothing", sendfile(-1, fd, NULL, 10) >= 0);
}

static void by_splice(int fd, off_t size)
{
    int ends[2], out = scratch();
    ssize_t got;
    off64_t at = size / 4;
    probe_expect(pipe2(ends, O_CLOEXEC) == 0, "pipe");
    while ((got = splice(fd, &at, ends[1], NULL, 1 << 20, SPLICE_F_MOVE)) > 0) {
        while (got > 0) {
            ssize_t passed = splice(ends[0], NULL, out, NULL, (size_t)got, 0);
            probe_expect(passed > 0, "splice to a file");
            got -= passed > 0 ? passed : got;
        }
    }
    printf("  splice ended with %zd, offset %lld\n", got, (long long)at);
    say_content("splice", out, fd);
    probe_say("  splice from a file to a file", splice(fd, NULL, scratch(), NULL, 10, 0) >= 0);
    probe_expect(write(ends[1], "x", 1) == 1, "pipe");
    probe_say("  splice into it", splice(ends[0], NULL, fd, NULL, 1, SPLICE_F_NONBLOCK) >= 0);
    close(ends[0]);
    close(ends[1]);
}

static void by_copy_file_range(int fd)
{
    int out = scratch();
    ssize_t got;
    uint64_t copied = 0;
    lseek(fd, 3, SEEK_SET);
    while ((got = copy_file_range(fd, NULL, out, NULL, 1 << 20, 0)) > 0) {
        copied += (uint64_t)got;
    }
    /* Another file system is a reason to refuse; then programs read and write. */
    if (got < 0 && copied == 0 && (errno == EXDEV || errno == EOPNOTSUPP || errno == EINVAL)) {
        while (sendfile(out, fd, NULL, 1 << 20) > 0) {
        }
    }
    say_content("copy_file_range", out, fd);
    out = scratch();
    probe_expect(write(out, "abc", 3) == 3 && lseek(out, 0, SEEK_SET) == 0, "write");
    probe_say("  copy_file_range into it", copy_file_range(out, NULL, fd, NULL, 3, 0) >= 0);
    probe_say("  with a flag", copy_file_range(fd, NULL, out, NULL, 3, 1) >= 0);
    probe_expect(ioctl(out, FICLONE, fd) < 0 || !probe_mapped(), "a clone of what is no file of one piece");
    close(out);
}

/* As much as a socket takes at a time; nothing of it twice, nothing left out. */
static void by_socket(int fd)
{
    int ends[2];
    char buffer[4096];
    uint64_t hash = PROBE_HASH, bytes = 0;
    ssize_t got, sent = 1;
    probe_expect(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
    lseek(fd, 0, SEEK_SET);
    while (sent > 0) {
        while ((sent = sendfile(ends[0], fd, NULL, 1 << 20)) > 0) {
        }
        sent = sent < 0 && errno == EAGAIN;
        while ((got = read(ends[1], buffer, sizeof(buffer))) > 0) {
            hash = probe_hash(hash, buffer, (size_t)got);
            bytes += (uint64_t)got;
        }
    }
    printf("  socket: %llu bytes %016llx\n", (unsigned long long)bytes, (unsigned long long)hash);
    close(ends[0]);
    close(ends[1]);
}

static void the_rest(int fd, off_t size)
{
    int unread = -1;
    lseek(fd, size / 2, SEEK_SET);
    probe_say("  FIONREAD", ioctl(fd, FIONREAD, &unread) == 0);
    printf("  unread %d, terminal %d, %s\n", unread, isatty(fd), probe_errno(errno));
    printf("  advice %d %d %d\n", posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED),
           posix_fadvise(fd, 0, -5, POSIX_FADV_WILLNEED), posix_fadvise(fd, 0, 0, 77));
    for (int advice = POSIX_FADV_NORMAL; advice <= POSIX_FADV_NOREUSE; advice++) {
        printf("  advice %d: %d %d\n", advice, posix_fadvise(fd, 0, 0, advice),
               posix_fadvise64(fd, size / 2, 4096, advice));
    }
    posix_fadvise(fd, 0, 0, POSIX_FADV_NORMAL);
    probe_say("  readahead", readahead(fd, 0, 4096) == 0);
    probe_say("  flock", flock(fd, LOCK_SH | LOCK_NB) == 0);
    probe_say("  unlock", flock(fd, LOCK_UN) == 0);
    probe_say("  fsync", fsync(fd) == 0);
    errno = 0;
    printf("  position %lld\n", (long long)lseek(fd, 0, SEEK_CUR));
}

int main(int argc, char **argv)
{
    probe_begin(argc, argv);
    probe_walk();
    for (size_t i = 0; i < probe_count; i++) {
        if (probe_entries[i].type != DT_REG) {
            continue;
        }
        char *path = probe_path(probe_entries[i].path);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        off_t size = lseek(fd, 0, SEEK_END);
        printf("%s %lld\n", probe_entries[i].path, (long long)size);
        by_sendfile(fd, size);
        by_splice(fd, size);
        by_copy_file_range(fd);
        by_socket(fd);
        the_rest(fd, size);
        close(fd);
        free(path);
    }
    return probe_wrong;
}
