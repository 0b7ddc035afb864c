/* Bytes that move without a read: mappings, and calls that copy from descriptor to descriptor. */
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "tests/e2e/poison/rows.h"

#define PAGE ((off_t)(poison_at & ~4095ull))
#define SPAN (poison_len + 4096)

static void look(const void *map, size_t bytes)
{
    if (map == MAP_FAILED) {
        poison_errno(errno);
        return;
    }
    poison_bytes(map, (ssize_t)bytes, (uint64_t)PAGE);
}

/* A row that is one mapping of a descriptor of the object. */
#define MAP(name, call)                                                                                      \
    static void name(void)                                                                                   \
    {                                                                                                        \
        int fd = poison_open();                                                                              \
        look((call), SPAN);                                                                                  \
    }

MAP(map_private, mmap(NULL, SPAN, PROT_READ, MAP_PRIVATE, fd, PAGE))
MAP(map_shared, mmap(NULL, SPAN, PROT_READ, MAP_SHARED, fd, PAGE))
MAP(map_validated, mmap(NULL, SPAN, PROT_READ, MAP_SHARED_VALIDATE, fd, PAGE))
MAP(map_64, mmap64(NULL, SPAN, PROT_READ, MAP_PRIVATE, fd, PAGE))
MAP(map_populated, mmap(NULL, SPAN, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, PAGE))
MAP(map_writable, mmap(NULL, SPAN, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, PAGE))
MAP(call_map, (void *)syscall(SYS_mmap, NULL, SPAN, PROT_READ, MAP_PRIVATE, fd, PAGE))

static void map_without_access(void)
{
    void *map = mmap(NULL, SPAN, PROT_NONE, MAP_PRIVATE, poison_open(), PAGE);
    if (map != MAP_FAILED && mprotect(map, SPAN, PROT_READ) != 0) {
        map = MAP_FAILED;
    }
    look(map, SPAN);
}

static void map_fixed(void)
{
    char *room = mmap(NULL, SPAN + 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    look(mmap(room + 4096, SPAN, PROT_READ, MAP_PRIVATE | MAP_FIXED, poison_open(), PAGE), SPAN);
}

static void map_closed(void)
{
    int fd = poison_open();
    void *map = mmap(NULL, SPAN, PROT_READ, MAP_PRIVATE, fd, PAGE);
    close(fd);
    look(map, SPAN);
}

static void map_dropped(void)
{
    char *map = mmap(NULL, SPAN, PROT_READ | PROT_WRITE, MAP_PRIVATE, poison_open(), PAGE);
    if (map != MAP_FAILED) {
        memset(map, 0, 4096);
        madvise(map, SPAN, MADV_DONTNEED);
    }
    look(map, SPAN);
}

static void map_grown(void)
{
    void *map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, poison_open(), PAGE);
    if (map != MAP_FAILED) {
        map = mremap(map, 4096, SPAN, MREMAP_MAYMOVE);
    }
    look(map, SPAN);
}

static void map_moved(void)
{
    void *map = mmap(NULL, SPAN, PROT_READ, MAP_PRIVATE, poison_open(), PAGE);
    void *room = mmap(NULL, SPAN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map != MAP_FAILED) {
        map = mremap(map, SPAN, SPAN, MREMAP_MAYMOVE | MREMAP_FIXED, room);
    }
    look(map, SPAN);
}

/* From the start of the object to where the row reads: several cells in one mapping. */
static void map_all_before(void)
{
    size_t bytes = (size_t)PAGE + SPAN;
    char *map = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, poison_open(), 0);
    if (map == MAP_FAILED) {
        poison_errno(errno);
        return;
    }
    poison_bytes(map, (ssize_t)bytes, 0);
}

/* What a copying call left in a file or pipe; its own result first, for no byte is an outcome too. */
static void moved(ssize_t got, int from)
{
    if (got <= 0) {
        poison_got(got);
        return;
    }
    poison_len = (size_t)got;
    poison_drain(from);
}

static void into_file(ssize_t (*copy)(int from, int to))
{
    int to = poison_file();
    ssize_t got = copy(poison_open(), to);
    int error = errno;
    lseek(to, 0, SEEK_SET);
    errno = error;
    moved(got, to);
}

static void into_pipe(ssize_t (*copy)(int from, int to))
{
    int ends[2];
    poison_pipe(ends);
    moved(copy(poison_open(), ends[1]), ends[0]);
}

static ssize_t send_here(int from, int to)
{
    return sendfile(to, from, NULL, poison_len);
}

static ssize_t send_at(int from, int to)
{
    off_t at = (off_t)poison_at;
    return sendfile(to, from, &at, poison_len);
}

static ssize_t send_64(int from, int to)
{
    off64_t at = (off64_t)poison_at;
    return sendfile64(to, from, &at, poison_len);
}

static ssize_t call_send(int from, int to)
{
    return syscall(SYS_sendfile, to, from, NULL, poison_len);
}

static ssize_t splice_here(int from, int to)
{
    return splice(from, NULL, to, NULL, poison_len, 0);
}

static ssize_t splice_at(int from, int to)
{
    off64_t at = (off64_t)poison_at;
    return splice(from, &at, to, NULL, poison_len, 0);
}

static ssize_t call_splice(int from, int to)
{
    return syscall(SYS_splice, from, NULL, to, NULL, poison_len, 0);
}

static ssize_t do_tee(int from, int to)
{
    return tee(from, to, poison_len, 0);
}

static ssize_t call_tee(int from, int to)
{
    return syscall(SYS_tee, from, to, poison_len, 0);
}

static ssize_t copy_here(int from, int to)
{
    return copy_file_range(from, NULL, to, NULL, poison_len, 0);
}

static ssize_t copy_at(int from, int to)
{
    off64_t at = (off64_t)poison_at;
    return copy_file_range(from, &at, to, NULL, poison_len, 0);
}

static ssize_t call_copy(int from, int to)
{
    return syscall(SYS_copy_file_range, from, NULL, to, NULL, poison_len, 0);
}

#define INTO(name, where, copy)                                                                              \
    static void name(void)                                                                                   \
    {                                                                                                        \
        where(copy);                                                                                         \
    }

INTO(sendfile_pipe, into_pipe, send_here)
INTO(sendfile_file, into_file, send_here)
INTO(sendfile_offset, into_file, send_at)
INTO(sendfile64_pipe, into_pipe, send_64)
INTO(sendfile_call, into_pipe, call_send)
INTO(splice_pipe, into_pipe, splice_here)
INTO(splice_offset, into_pipe, splice_at)
INTO(splice_call, into_pipe, call_splice)
INTO(tee_pipe, into_pipe, do_tee)
INTO(tee_call, into_pipe, call_tee)
INTO(copy_file, into_file, copy_here)
INTO(copy_offset, into_file, copy_at)
INTO(copy_call, into_file, call_copy)

static void sendfile_socket(void)
{
    int ends[2];
    poison_need(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    poison_len = poison_len < 65536 ? poison_len : 65536; /* what a socket takes without a reader */
    moved(sendfile(ends[1], poison_open(), NULL, poison_len), ends[0]);
}

/* A clone shares extents where the file system can, and is refused elsewhere. */
static void clone_file(void)
{
    int to = poison_file();
    if (ioctl(to, FICLONE, poison_open()) != 0) {
        poison_errno(errno);
        return;
    }
    poison_got(pread(to, poison_buffer, poison_len, (off_t)poison_at));
}

const struct poison_row rows_move[] = {{"mmap private", map_private},
                                       {"mmap shared", map_shared},
                                       {"mmap MAP_SHARED_VALIDATE", map_validated},
                                       {"mmap64", map_64},
                                       {"mmap MAP_POPULATE", map_populated},
                                       {"mmap writable", map_writable},
                                       {"syscall mmap", call_map},
                                       {"mmap PROT_NONE, mprotect", map_without_access},
                                       {"mmap MAP_FIXED", map_fixed},
                                       {"mmap, close", map_closed},
                                       {"mmap, MADV_DONTNEED", map_dropped},
                                       {"mremap larger", map_grown},
                                       {"mremap elsewhere", map_moved},
                                       {"mmap of all before", map_all_before},
                                       {"sendfile to a pipe", sendfile_pipe},
                                       {"sendfile to a file", sendfile_file},
                                       {"sendfile to a socket", sendfile_socket},
                                       {"sendfile with an offset", sendfile_offset},
                                       {"sendfile64", sendfile64_pipe},
                                       {"syscall sendfile", sendfile_call},
                                       {"splice", splice_pipe},
                                       {"splice with an offset", splice_offset},
                                       {"syscall splice", splice_call},
                                       {"tee", tee_pipe},
                                       {"syscall tee", tee_call},
                                       {"copy_file_range", copy_file},
                                       {"copy_file_range with an offset", copy_offset},
                                       {"syscall copy_file_range", copy_call},
                                       {"FICLONE", clone_file},
                                       {NULL, NULL}};
