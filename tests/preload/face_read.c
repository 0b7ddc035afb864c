/* The largest file by every way to read it: read, pread, readv, preadv2, lseek, shared offsets, copies of its
 * descriptor, locks, and what a read-only descriptor refuses. */
#include <pthread.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "tests/preload/probe.h"

#ifndef SYS_close_range
#define SYS_close_range 436 /* Linux 5.9 */
#endif

#define BLOCK 70001 /* fits no page and no segment */
#define CHILDREN 4

static char buffer[1 << 20];
static const char *path;
static off_t size;

static void find_largest(void)
{
    struct stat st;
    for (size_t i = 0; i < probe_count; i++) {
        char *name = probe_path(probe_entries[i].path);
        if (probe_entries[i].type == DT_REG && stat(name, &st) == 0 && st.st_size > size) {
            size = st.st_size;
            path = name;
            printf("%s\n", probe_entries[i].path);
        }
    }
    printf("%lld bytes\n", (long long)size);
}

static int open_it(void)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        printf("open: %s\n", probe_errno(errno));
        exit(1);
    }
    return fd;
}

static void say_bytes(const char *what, ssize_t got)
{
    int error = errno;
    if (got < 0) {
        printf("%s: %s\n", what, probe_errno(error));
    } else {
        printf("%s: %zd %016llx\n", what, got,
               (unsigned long long)probe_hash(PROBE_HASH, buffer, (size_t)got));
    }
}

/* Each block from another place of the buffer's room, full until the end. */
static void whole_by(const char *what, size_t block)
{
    int fd = open_it();
    uint64_t hash = PROBE_HASH;
    off_t at = 0;
    ssize_t got;
    while ((got = read(fd, buffer, block)) > 0) {
        hash = probe_hash(hash, buffer, (size_t)got);
        at += got;
        probe_expect((size_t)got == block || at == size, "%s: %zd at %lld", what, got, (long long)at);
    }
    printf("%s: %lld %016llx %s\n", what, (long long)at, (unsigned long long)hash,
           probe_errno(got < 0 ? errno : 0));
    probe_expect(lseek(fd, 0, SEEK_CUR) == size, "%s: offset", what);
    close(fd);
}

static void at_places(int fd)
{
    const off_t places[] = {0, 1, 4095, size / 3, size / 2 + 7, size - 10, size, size + 10, -1};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        say_bytes("pread", pread(fd, buffer, BLOCK, places[i]));
        say_bytes("pread few", pread(fd, buffer, 13, places[i]));
    }
    struct iovec parts[] = {{buffer, 10}, {buffer + 10, 0}, {buffer + 10, BLOCK}, {buffer + 10 + BLOCK, 3}};
    say_bytes("readv", readv(fd, parts, 4));
    say_bytes("preadv", preadv(fd, parts, 4, size / 2));
    say_bytes("preadv2", preadv2(fd, parts, 4, size / 3, 0));
    say_bytes("preadv2 at the offset", preadv2(fd, parts, 4, -1, 0));
    say_bytes("readv none", readv(fd, parts, 0));
    printf("offset %lld\n", (long long)lseek(fd, 0, SEEK_CUR));
}

static void seeks(int fd)
{
    const struct {
        const char *name;
        int whence;
    } whences[] = {{"SET", SEEK_SET}, {"CUR", SEEK_CUR}, {"END", SEEK_END}, {"HOLE", SEEK_HOLE}};
    const off_t offsets[] = {0, 5, -5, -size, -size - 1, size, size - 1, size + 7};
    for (size_t w = 0; w < sizeof(whences) / sizeof(whences[0]); w++) {
        for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
            lseek(fd, 100, SEEK_SET);
            off_t got = lseek(fd, offsets[i], whences[w].whence);
            printf("lseek %s %zu: %lld %s, then %lld\n", whences[w].name, i, (long long)got,
                   probe_errno(got < 0 ? errno : 0), (long long)lseek(fd, 0, SEEK_CUR));
        }
    }
    printf("lseek DATA: %lld\n", (long long)lseek(fd, 77, SEEK_DATA));
    lseek(fd, -9, SEEK_END);
    say_bytes("the last", read(fd, buffer, 100));
    say_bytes("the end", read(fd, buffer, 100));
}

static void shared_offset(int fd)
{
    int copy = dup(fd), high = fcntl(fd, F_DUPFD_CLOEXEC, 100);
    lseek(fd, 0, SEEK_SET);
    say_bytes("dup", read(copy, buffer, 1000));
    say_bytes("F_DUPFD", read(high, buffer, 1000));
    probe_expect(dup2(fd, copy) == copy, "dup2");
    say_bytes("dup2", read(copy, buffer, 1000));
    /* Children take blocks of one word each by turns; together they take each once. */
    int pipes[2];
    uint64_t sum = 0, word;
    probe_expect(pipe(pipes) == 0, "pipe");
    lseek(fd, 0, SEEK_SET);
    for (int i = 0; i < CHILDREN; i++) {
        if (fork() == 0) {
            uint64_t mine = 0;
            while (read(fd, buffer, 4096) == 4096) {
                mine += probe_hash(PROBE_HASH, buffer, 4096);
            }
            _exit(write(pipes[1], &mine, sizeof(mine)) != sizeof(mine));
        }
    }
    for (int i = 0; i < CHILDREN; i++) {
        probe_expect(read(pipes[0], &word, sizeof(word)) == sizeof(word), "a child's sum");
        sum += word;
        wait(NULL);
    }
    printf("shared by children: %016llx, offset %lld\n", (unsigned long long)sum,
           (long long)lseek(fd, 0, SEEK_CUR));
    close(pipes[0]);
    close(pipes[1]);
    close(copy);
    close(high);
}

static void refusals(int fd)
{
    struct iovec part = {buffer, 10};
    printf("F_GETFL %x\n", fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK));
    probe_say("F_SETFL", fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    printf("F_GETFL %x\n", fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK));
    probe_say("write", write(fd, buffer, 10) == 10);
    probe_say("write none", write(fd, buffer, 0) == 0);
    probe_say("writev", writev(fd, &part, 1) == 10);
    probe_say("pwrite", pwrite(fd, buffer, 10, 0) == 10);
    probe_say("pwritev", pwritev(fd, &part, 1, 0) == 10);
    probe_say("pwritev2", pwritev2(fd, &part, 1, 0, 0) == 10);
    probe_say("ftruncate", ftruncate(fd, 10) == 0);
    probe_say("fallocate", fallocate(fd, 0, 0, 10) == 0);
    printf("posix_fallocate: %s\n", probe_errno(posix_fallocate(fd, 0, 10)));
    probe_say("fsync", fsync(fd) == 0);
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 10};
    probe_say("F_SETLK read", fcntl(fd, F_SETLK, &lock) == 0);
    lock.l_type = F_WRLCK;
    probe_say("F_SETLK write", fcntl(fd, F_SETLK, &lock) == 0);
    probe_say("F_GETLK", fcntl(fd, F_GETLK, &lock) == 0);
    printf("F_GETLK: %d\n", lock.l_type);
    probe_say("F_SETLK none", fcntl(fd, F_SETLK, &lock) == 0);
    probe_say("F_LOCK", lockf(fd, F_LOCK, 1) == 0);
    probe_say("F_ULOCK", lockf(fd, F_ULOCK, 1) == 0);
    probe_say("flock", flock(fd, LOCK_SH | LOCK_NB) == 0);
}

static void *close_its_own(void *none)
{
    const unsigned unshare = 1u << 1; /* CLOSE_RANGE_UNSHARE */
    syscall(SYS_close_range, 3, ~0u, unshare);
    return none;
}

/* A thread that gives up the table of descriptors closes nobody else's. */
static void beside_a_thread(int fd)
{
    pthread_t thread;
    probe_expect(pthread_create(&thread, NULL, close_its_own, NULL) == 0 && pthread_join(thread, NULL) == 0,
                 "thread");
    say_bytes("beside a thread that closed its own", pread(fd, buffer, 10, 0));
}

static void by_name_of_descriptor(int fd)
{
    char name[64];
    struct stat st;
    lseek(fd, 1234, SEEK_SET);
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    int again = open(name, O_RDONLY | O_CLOEXEC);
    say_bytes("/proc/self/fd", read(again, buffer, BLOCK));
    probe_say("stat", stat(name, &st) == 0);
    printf("%lld bytes\n", (long long)st.st_size);
    probe_say("access", access(name, R_OK) == 0);
    close(again);
    snprintf(name, sizeof(name), "/proc/self/task/%d/fd/%d", getpid(), fd);
    again = open(name, O_RDONLY);
    say_bytes("/proc/self/task", read(again, buffer, 10));
    close(again);
    snprintf(name, sizeof(name), "//proc/self/fd/%d", fd);
    again = open(name, O_RDONLY);
    say_bytes("//proc/self/fd", read(again, buffer, 10));
    close(again);
    int here = open(".", O_RDONLY | O_DIRECTORY);
    probe_expect(chdir("/proc/self/fd") == 0, "chdir");
    snprintf(name, sizeof(name), "%d", fd);
    again = open(name, O_RDONLY);
    say_bytes("in /proc/self/fd", read(again, buffer, 10));
    close(again);
    probe_expect(fchdir(here) == 0, "fchdir");
    close(here);
    snprintf(name, sizeof(name), "/dev/fd/%d", fd);
    again = open(name, O_RDONLY | O_CLOEXEC);
    say_bytes("/dev/fd", read(again, buffer, 10));
    close(again);
    printf("offset %lld\n", (long long)lseek(fd, 0, SEEK_CUR));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        /* Of another process, which holds the only one. */
        close(fd);
        snprintf(name, sizeof(name), "/proc/%d/fd/%d", (int)getppid(), fd);
        again = open(name, O_RDONLY | O_CLOEXEC);
        say_bytes("/proc/PARENT/fd", read(again, buffer, BLOCK));
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    beside_a_thread(fd);
}

int main(int argc, char **argv)
{
    probe_begin(argc, argv);
    probe_walk();
    find_largest();
    whole_by("read", BLOCK);
    whole_by("read much", sizeof(buffer));
    int fd = open_it();
    at_places(fd);
    seeks(fd);
    shared_offset(fd);
    refusals(fd);
    by_name_of_descriptor(fd);
    printf("read nothing: %zd\n", read(fd, buffer, 0));
    close(fd);
    whole_by("read little", 997);
    return probe_wrong;
}
