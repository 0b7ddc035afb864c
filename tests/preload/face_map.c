/* Mappings of every file: whole, from the middle, past the end, private, in a place that is given; and what
 * mmap refuses. */
#include "tests/preload/probe.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static size_t page;
static sigjmp_buf trap;

static void on_trap(int number)
{
    siglongjmp(trap, number);
}

static int touch(const volatile char *at)
{
    struct sigaction action = {.sa_handler = on_trap}, old;
    sigaction(SIGBUS, &action, &old);
    int number = sigsetjmp(trap, 1);
    if (number == 0) {
        (void)*at;
    }
    sigaction(SIGBUS, &old, NULL);
    return number;
}

static size_t round_up(size_t bytes)
{
    return (bytes + page - 1) / page * page;
}

/* Digest of a mapping of [offset, offset + bytes). */
static void say_part(const char *what, int fd, size_t offset, size_t bytes, int flags)
{
    char *map = mmap(NULL, bytes, PROT_READ, flags, fd, (off_t)offset);
    if (map == MAP_FAILED) {
        printf("  %s at %zu, %zu: %s\n", what, offset, bytes, probe_errno(errno));
        return;
    }
    printf("  %s at %zu, %zu: %016llx\n", what, offset, bytes,
           (unsigned long long)probe_hash(PROBE_HASH, map, bytes));
    munmap(map, bytes);
}

static void parts(int fd, size_t size)
{
    say_part("whole", fd, 0, size, MAP_SHARED);
    say_part("private", fd, 0, size, MAP_PRIVATE | MAP_POPULATE);
    say_part("up to the last page", fd, 0, round_up(size), MAP_SHARED);
    size_t middle = size / 2 / page * page;
    say_part("second half", fd, middle, size - middle, MAP_PRIVATE | MAP_NORESERVE);
    if (middle > 0) {
        say_part("around the middle", fd, middle - page, page + 1, MAP_SHARED_VALIDATE);
    }
}

static void past_the_end(int fd, size_t size)
{
    size_t bytes = round_up(size) + 2 * page;
    char *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        probe_say("  past the end", false);
        return;
    }
    printf("  past the end: %d %d %d\n", touch(map + size - 1), touch(map + bytes - 2 * page),
           touch(map + bytes - 1));
    munmap(map, bytes);
    map = mmap(NULL, page, PROT_READ, MAP_SHARED, fd, (off_t)(round_up(size) + 5 * page));
    printf("  wholly past the end: %d\n", map == MAP_FAILED ? -errno : touch(map));
    munmap(map, page);
}

static void changed(int fd, size_t size)
{
    char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) {
        probe_say("  changed", false);
        return;
    }
    memset(map, 1, size / 2 + 1);
    printf("  changed: %016llx\n", (unsigned long long)probe_hash(PROBE_HASH, map, size));
    probe_expect(madvise(map, round_up(size), MADV_DONTNEED) == 0, "madvise");
    printf("  and back: %016llx\n", (unsigned long long)probe_hash(PROBE_HASH, map, size));
    munmap(map, size);
}

/* What the kernel says, whatever lies behind; and the bytes stay what they are. */
static void advised(int fd, size_t size)
{
    char *map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        probe_say("  advised", false);
        return;
    }
    for (int advice = MADV_NORMAL; advice <= MADV_DONTNEED; advice++) {
        printf("  advice %d: %d %d", advice, madvise(map, round_up(size), advice),
               posix_madvise(map, page, advice));
        printf(" %d %016llx\n", madvise(map + 1, page, advice),
               (unsigned long long)probe_hash(PROBE_HASH, map, size));
    }
    munmap(map, size);
    printf("  gone: %d %d\n", madvise(map, page, MADV_RANDOM), posix_madvise(map, page, POSIX_MADV_RANDOM));
}

static void placed(int fd, size_t size)
{
    size_t bytes = round_up(size) + 2 * page;
    char *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(room, 'x', bytes);
    void *taken = mmap(room + page, size, PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
    probe_expect(taken == MAP_FAILED && errno == EEXIST && room[page] == 'x', "MAP_FIXED_NOREPLACE replaced");
    char *map = mmap(room + page, size, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0);
    probe_expect(map == room + page && room[0] == 'x' && room[bytes - 1] == 'x', "MAP_FIXED lies elsewhere");
    printf("  placed: %016llx\n", (unsigned long long)probe_hash(PROBE_HASH, room + page, size));
    munmap(room, bytes);
}

static void grown(int fd, size_t size)
{
    char *map = mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0);
    char *more = mremap(map, page, size, MREMAP_MAYMOVE);
    printf("  grown: %016llx\n",
           (unsigned long long)(more == MAP_FAILED ? 0 : probe_hash(PROBE_HASH, more, size)));
    munmap(more, size);
}

static void refused(int fd)
{
    probe_say("  shared and writable",
              mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED);
    probe_say("  no length", mmap(NULL, 0, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED);
    probe_say("  offset in a page", mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 1) != MAP_FAILED);
    probe_say("  no type", mmap(NULL, page, PROT_READ, 0, fd, 0) != MAP_FAILED);
    probe_say("  too far", mmap(NULL, page, PROT_READ, MAP_SHARED, fd, -(off_t)page) != MAP_FAILED);
    char *map = mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0);
    probe_say("  made writable", mprotect(map, page, PROT_READ | PROT_WRITE) == 0);
    munmap(map, page);
}

static void one(const char *relative)
{
    char *path = probe_path(relative);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    off_t size = lseek(fd, 0, SEEK_END);
    printf("%s %lld\n", relative, (long long)size);
    if (size > 0) {
        parts(fd, (size_t)size);
        past_the_end(fd, (size_t)size);
        changed(fd, (size_t)size);
        advised(fd, (size_t)size);
        placed(fd, (size_t)size);
        grown(fd, (size_t)size);
        refused(fd);
        /* The descriptor's own number is not needed any more. */
        char *map = (char *)syscall(SYS_mmap, NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0);
        close(fd);
        fd = -1;
        printf("  by number: %016llx\n", (unsigned long long)probe_hash(PROBE_HASH, map, (size_t)size));
        munmap(map, (size_t)size);
    }
    if (fd >= 0) {
        close(fd);
    }
    free(path);
}

int main(int argc, char **argv)
{
    probe_begin(argc, argv);
    page = (size_t)sysconf(_SC_PAGESIZE);
    probe_walk();
    for (size_t i = 0; i < probe_count; i++) {
        if (probe_entries[i].type == DT_REG) {
            one(probe_entries[i].path);
        }
    }
    return probe_wrong;
}
