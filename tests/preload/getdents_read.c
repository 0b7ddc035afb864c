/* A directory by its descriptor: read and its kin say EISDIR, getdents64 gives the names, lseek rewinds; by
 * libc's functions and by syscall(). */
#include "tests/preload/probe.h"

#include <sys/syscall.h>
#include <sys/uio.h>

static char *names[4096];
static int count;

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int keep_all(const char *buffer, ssize_t got)
{
    int before = count;
    for (ssize_t at = 0; at < got;) {
        const struct dirent64 *entry = (const struct dirent64 *)(buffer + at);
        bool dots = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
        probe_expect(entry->d_ino != 0 && (entry->d_type == DT_DIR || (!dots && entry->d_type == DT_REG)),
                     "%s: entry", entry->d_name);
        names[count++] = strdup(entry->d_name);
        at += entry->d_reclen;
    }
    return count - before;
}

static void tell(const char *what)
{
    qsort(names, (size_t)count, sizeof(names[0]), by_text);
    uint64_t hash = PROBE_HASH;
    for (int i = 0; i < count; i++) {
        hash = probe_hash(hash, names[i], strlen(names[i]) + 1);
        free(names[i]);
    }
    printf("%s: %d names %016llx\n", what, count, (unsigned long long)hash);
    count = 0;
}

static void read_all(const char *what, int fd, size_t room)
{
    char buffer[8192];
    ssize_t got;
    while ((got = getdents64(fd, buffer, room)) > 0) {
        keep_all(buffer, got);
    }
    probe_say(what, got == 0);
    tell(what);
}

static void try_reads(int fd)
{
    char byte;
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    probe_say("read", read(fd, &byte, 1) == 1);
    probe_say("read of nothing", read(fd, &byte, 0) == 0);
    probe_say("pread", pread(fd, &byte, 1, 0) == 1);
    probe_say("pread64", pread64(fd, &byte, 1, 0) == 1);
    probe_say("readv", readv(fd, &part, 1) == 1);
    probe_say("preadv", preadv(fd, &part, 1, 0) == 1);
    probe_say("preadv64", preadv64(fd, &part, 1, 0) == 1);
}

int main(int argc, char **argv)
{
    char buffer[1024];
    probe_begin(argc, argv);
    char *path = probe_path("a/deep/er");
    int fd = open(path, O_RDONLY | O_DIRECTORY);
    try_reads(fd);
    int copy = dup(fd);
    try_reads(copy);
    read_all("whole", fd, 8192);
    probe_say("behind the end", getdents64(fd, buffer, sizeof(buffer)) == 0);
    probe_say("rewind", lseek(fd, 0, SEEK_SET) == 0);
    read_all("small pieces", fd, 64);
    probe_say("rewind64", lseek64(fd, 0, SEEK_SET) == 0);
    read_all("the copy has the same position", copy, 8192);
    probe_say("the other one", getdents64(fd, buffer, sizeof(buffer)) == 0);
    lseek(copy, 0, SEEK_SET);
    probe_say("no room", getdents64(fd, buffer, 8) > 0);
    /* Some by one descriptor, the rest by the other. */
    ssize_t got = getdents64(fd, buffer, 600);
    int first = keep_all(buffer, got);
    off_t here = lseek(fd, 0, SEEK_CUR);
    got = getdents64(copy, buffer, 600);
    int second = keep_all(buffer, got);
    probe_expect(first > 2 && second > 2, "%d and %d entries", first, second);
    probe_expect(lseek(fd, here, SEEK_SET) == here, "back to the middle");
    count -= second;
    read_all("from the middle", copy, 8192);
    close(fd);
    lseek(copy, 0, SEEK_SET);
    read_all("after the close of the first", copy, 8192);
    close(copy);
    /* The same number again is another directory from its start. */
    path = probe_path("b");
    fd = open(path, O_RDONLY | O_DIRECTORY);
    read_all("another", fd, 8192);
    got = syscall(SYS_lseek, fd, 0L, SEEK_SET);
    probe_say("lseek by syscall", got == 0);
    while ((got = syscall(SYS_getdents64, fd, buffer, sizeof(buffer))) > 0) {
        keep_all(buffer, got);
    }
    tell("by syscall");
    close(fd);
    /* More directories than cursors. */
    int wrong = 0;
    for (int i = 0; i < 300; i++) {
        fd = open(path, O_RDONLY | O_DIRECTORY);
        wrong += getdents64(fd, buffer, sizeof(buffer)) <= 0;
        close(fd);
    }
    printf("wrong: %d\n", wrong);
    probe_say("closed", getdents64(fd, buffer, sizeof(buffer)) >= 0);
    path = probe_path("top.txt");
    fd = open(path, O_RDONLY);
    probe_say("a file", getdents64(fd, buffer, sizeof(buffer)) >= 0);
    probe_say("its end", lseek(fd, 0, SEEK_END) == 27);
    close(fd);
    return probe_wrong;
}
