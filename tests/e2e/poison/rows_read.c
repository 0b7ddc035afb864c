/* Reads of the object's descriptor, and of the other descriptors and names that the same open file has. */
#include <sys/syscall.h>
#include <sys/uio.h>

#include "tests/e2e/poison/rows.h"

extern ssize_t __read(int fd, void *buffer, size_t size);
extern ssize_t __read_chk(int fd, void *buffer, size_t size, size_t room);
extern ssize_t __pread64(int fd, void *buffer, size_t size, off64_t offset);
extern ssize_t __pread_chk(int fd, void *buffer, size_t size, off_t offset, size_t room);
extern ssize_t __pread64_chk(int fd, void *buffer, size_t size, off64_t offset, size_t room);

#define AT ((off_t)poison_at)
#define ROOM POISON_LEN_MAX

static struct iovec *parts(void)
{
    static struct iovec both[2];
    size_t first = poison_len / 3;
    both[0] = (struct iovec){.iov_base = poison_buffer, .iov_len = first};
    both[1] = (struct iovec){.iov_base = poison_buffer + first, .iov_len = poison_len - first};
    return both;
}

/* A row that is one call on a descriptor of the object. */
#define ROW(name, call)                                                                                      \
    static void name(void)                                                                                   \
    {                                                                                                        \
        int fd = poison_open();                                                                              \
        poison_got(call);                                                                                    \
    }

ROW(do_read, read(fd, poison_buffer, poison_len))
ROW(do_under_read, __read(fd, poison_buffer, poison_len))
ROW(do_read_chk, __read_chk(fd, poison_buffer, poison_len, ROOM))
ROW(do_readv, readv(fd, parts(), 2))
ROW(do_pread, pread(fd, poison_buffer, poison_len, AT))
ROW(do_pread64, pread64(fd, poison_buffer, poison_len, AT))
ROW(do_under_pread64, __pread64(fd, poison_buffer, poison_len, AT))
ROW(do_pread_chk, __pread_chk(fd, poison_buffer, poison_len, AT, ROOM))
ROW(do_pread64_chk, __pread64_chk(fd, poison_buffer, poison_len, AT, ROOM))
ROW(do_preadv, preadv(fd, parts(), 2, AT))
ROW(do_preadv64, preadv64(fd, parts(), 2, AT))
ROW(do_preadv2, preadv2(fd, parts(), 2, AT, 0))
ROW(do_preadv2_here, preadv2(fd, parts(), 2, -1, 0))
ROW(do_preadv2_hipri, preadv2(fd, parts(), 2, AT, RWF_HIPRI))
ROW(do_preadv2_nowait, preadv2(fd, parts(), 2, AT, RWF_NOWAIT))
ROW(do_preadv64v2, preadv64v2(fd, parts(), 2, AT, 0))
ROW(call_read, syscall(SYS_read, fd, poison_buffer, poison_len))
ROW(call_readv, syscall(SYS_readv, fd, parts(), 2))
ROW(call_pread64, syscall(SYS_pread64, fd, poison_buffer, poison_len, AT))
ROW(call_preadv, syscall(SYS_preadv, fd, parts(), 2, AT, 0L))
ROW(call_preadv2, syscall(SYS_preadv2, fd, parts(), 2, AT, 0L, 0))

/* From the object's very start, where the descriptor stands after open. */
static void read_from_start(void)
{
    int fd = open(poison_path, O_RDONLY);
    poison_bytes(poison_buffer, read(fd, poison_buffer, poison_len), 0);
}

static void read_twice(void)
{
    int fd = poison_open();
    size_t half = poison_len / 2;
    ssize_t first = read(fd, poison_buffer, half);
    ssize_t second = first > 0 ? read(fd, poison_buffer + first, poison_len - half) : 0;
    poison_got(first > 0 && second > 0 ? first + second : first > 0 ? second : first);
}

/* Every byte of the object, as cp takes it. */
static void read_whole(void)
{
    int fd = open(poison_path, O_RDONLY);
    uint64_t at = 0;
    ssize_t got;
    while ((got = read(fd, poison_buffer, POISON_LEN_MAX)) > 0) {
        for (ssize_t i = 0; i < got; i++, at++) {
            if ((unsigned char)poison_buffer[i] != poison_byte(at)) {
                poison_say("%s at %llu", poison_buffer[i] ? "WRONG" : "ZERO", (unsigned long long)at);
                return;
            }
        }
    }
    got < 0 ? poison_errno(errno) : poison_say("good %llu", (unsigned long long)at);
}

ROW(do_dup, read(dup(fd), poison_buffer, poison_len))
ROW(do_dup2, read(dup2(fd, 77), poison_buffer, poison_len))
ROW(do_dup3, read(dup3(fd, 78, O_CLOEXEC), poison_buffer, poison_len))
ROW(do_dupfd, read(fcntl(fd, F_DUPFD, 90), poison_buffer, poison_len))
ROW(do_dupfd_cloexec, read(fcntl(fd, F_DUPFD_CLOEXEC, 90), poison_buffer, poison_len))
ROW(call_dup, read((int)syscall(SYS_dup, fd), poison_buffer, poison_len))
ROW(call_fcntl, read((int)syscall(SYS_fcntl, fd, F_DUPFD, 90), poison_buffer, poison_len))
/* Beyond the numbers that have a byte of their own. */
ROW(high_number, read(fcntl(fd, F_DUPFD, 500), poison_buffer, poison_len))

static int by_name(const char *format, int fd)
{
    char path[64];
    snprintf(path, sizeof(path), format, fd);
    return open(path, O_RDONLY);
}

static int at_proc(int fd)
{
    char name[16];
    int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY);
    snprintf(name, sizeof(name), "%d", fd);
    return openat(dir, name, O_RDONLY);
}

static int by_pid(int fd)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", getpid(), fd);
    return open(path, O_RDONLY);
}

static int by_stdin(int fd)
{
    dup2(fd, 0);
    return open("/dev/stdin", O_RDONLY);
}

static int call_open(int fd)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY);
}

static int call_openat2(int fd)
{
    char path[64];
    const uint64_t how[3] = {O_RDONLY};
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return (int)syscall(SYS_openat2, AT_FDCWD, path, how, sizeof(how));
}

static int by_o_path(int fd)
{
    (void)fd;
    return by_name("/proc/self/fd/%d", open(poison_path, O_PATH));
}

/* Another open file of the same object: its offset is its own. */
#define AGAIN(name, opened)                                                                                  \
    static void name(void)                                                                                   \
    {                                                                                                        \
        int fd = poison_open(), other = (opened);                                                            \
        if (other < 0) {                                                                                     \
            poison_errno(errno);                                                                             \
            return;                                                                                          \
        }                                                                                                    \
        poison_got(pread(other, poison_buffer, poison_len, AT));                                             \
        (void)fd;                                                                                            \
    }

AGAIN(again_proc, by_name("/proc/self/fd/%d", fd))
AGAIN(again_thread, by_name("/proc/thread-self/fd/%d", fd))
AGAIN(again_dev, by_name("/dev/fd/%d", fd))
AGAIN(again_pid, by_pid(fd))
AGAIN(again_stdin, by_stdin(fd))
AGAIN(again_openat, at_proc(fd))
AGAIN(again_call, call_open(fd))
AGAIN(again_openat2, call_openat2(fd))
AGAIN(again_o_path, by_o_path(fd))

static void again_stream(void)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", poison_open());
    FILE *file = fopen(path, "r");
    if (!file || fseeko(file, AT, SEEK_SET) != 0) {
        poison_errno(errno);
        return;
    }
    size_t got = fread(poison_buffer, 1, poison_len, file);
    poison_got(got == 0 && ferror(file) ? -1 : (ssize_t)got);
}

/* Past the page cache, or refused by the file system. */
static void direct(void)
{
    int fd = open(poison_path, O_RDONLY | O_DIRECT);
    void *page;
    if (fd < 0 || posix_memalign(&page, 4096, 8192) != 0) {
        poison_errno(errno);
        return;
    }
    poison_bytes(page, pread(fd, page, 8192, AT & ~(off_t)4095), poison_at & ~4095ull);
}

static void set_direct(void)
{
    int fd = poison_open();
    void *page;
    if (fcntl(fd, F_SETFL, O_DIRECT) != 0 || posix_memalign(&page, 4096, 8192) != 0) {
        poison_errno(errno);
        return;
    }
    poison_bytes(page, pread(fd, page, 8192, AT & ~(off_t)4095), poison_at & ~4095ull);
}

const struct poison_row rows_read[] = {{"read", do_read},
                                       {"__read", do_under_read},
                                       {"__read_chk", do_read_chk},
                                       {"readv", do_readv},
                                       {"pread", do_pread},
                                       {"pread64", do_pread64},
                                       {"__pread64", do_under_pread64},
                                       {"__pread_chk", do_pread_chk},
                                       {"__pread64_chk", do_pread64_chk},
                                       {"preadv", do_preadv},
                                       {"preadv64", do_preadv64},
                                       {"preadv2", do_preadv2},
                                       {"preadv2 where it stands", do_preadv2_here},
                                       {"preadv2 RWF_HIPRI", do_preadv2_hipri},
                                       {"preadv2 RWF_NOWAIT", do_preadv2_nowait},
                                       {"preadv64v2", do_preadv64v2},
                                       {"syscall read", call_read},
                                       {"syscall readv", call_readv},
                                       {"syscall pread64", call_pread64},
                                       {"syscall preadv", call_preadv},
                                       {"syscall preadv2", call_preadv2},
                                       {"read from the start", read_from_start},
                                       {"read twice", read_twice},
                                       {"read the whole", read_whole},
                                       {"read of a dup", do_dup},
                                       {"read of a dup2", do_dup2},
                                       {"read of a dup3", do_dup3},
                                       {"read of an F_DUPFD", do_dupfd},
                                       {"read of an F_DUPFD_CLOEXEC", do_dupfd_cloexec},
                                       {"read of a syscall dup", call_dup},
                                       {"read of a syscall fcntl", call_fcntl},
                                       {"read of a high number", high_number},
                                       {"open /proc/self/fd", again_proc},
                                       {"open /proc/thread-self/fd", again_thread},
                                       {"open /dev/fd", again_dev},
                                       {"open /proc/PID/fd", again_pid},
                                       {"open /dev/stdin", again_stdin},
                                       {"openat of /proc/self/fd", again_openat},
                                       {"syscall openat /proc/self/fd", again_call},
                                       {"syscall openat2 /proc/self/fd", again_openat2},
                                       {"open /proc/self/fd of an O_PATH", again_o_path},
                                       {"fopen /proc/self/fd", again_stream},
                                       {"open O_DIRECT", direct},
                                       {"F_SETFL O_DIRECT", set_direct},
                                       {NULL, NULL}};
