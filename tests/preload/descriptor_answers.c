/* What a descriptor of a file answers beside its bytes: flags, positions, locks, refusals of every write,
 * edges of reads and mappings. A local file opened for reading is the judge. */
#include <poll.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "tests/preload/probe.h"

#define HUGE_OFFSET ((off_t)1 << 61)

static char bytes[1 << 20];
static off_t size;
/* What no compiler is to see through. */
static char *volatile nowhere = (char *)16;
static volatile int minus_one = -1, too_many = 5000;

/* "what: 12" or "what: EBADF". */
static void number(const char *what, long long value)
{
    int error = errno;
    if (value < 0) {
        printf("  %s: %s\n", what, probe_errno(error));
    } else {
        printf("  %s: %lld\n", what, value);
    }
}

#define SAY(call) number(#call, (long long)(call))

/* O_NOFOLLOW and O_APPEND mean nothing to a reader, and are not passed on to the cache file. */
static void flags_of(const char *path)
{
    static const struct {
        const char *name;
        int flags;
    } ways[] = {{"O_RDONLY", 0},        {"O_CLOEXEC", O_CLOEXEC},   {"O_NONBLOCK", O_NONBLOCK},
                {"O_APPEND", O_APPEND}, {"O_NOFOLLOW", O_NOFOLLOW}, {"O_SYNC", O_SYNC},
                {"O_DSYNC", O_DSYNC},   {"O_NOCTTY", O_NOCTTY},     {"O_PATH", O_PATH}};
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        int fd = open(path, O_RDONLY | ways[i].flags);
        printf("  %s: F_GETFL %x F_GETFD %d\n", ways[i].name,
               (unsigned)fcntl(fd, F_GETFL) & ~(unsigned)(O_NOFOLLOW | O_APPEND), fcntl(fd, F_GETFD));
        number("  read", read(fd, bytes, 10));
        number("  write", write(fd, bytes, 10));
        close(fd);
    }
    int fd = open(path, O_RDONLY);
    SAY(fcntl(fd, F_SETFL, O_NONBLOCK | O_APPEND));
    SAY(fcntl(fd, F_GETFL));
    SAY(syscall(SYS_fcntl, fd, F_GETFL));
    SAY(fcntl(fd, F_SETFL, 0));
    SAY(fcntl(fd, F_GETFL));
    SAY(fcntl(fd, F_SETFD, FD_CLOEXEC));
    SAY(fcntl(fd, F_GETFD));
    SAY(ioctl(fd, FIONCLEX));
    SAY(fcntl(fd, F_GETFD));
    SAY(fcntl(fd, F_GETOWN));
    SAY(fcntl(fd, F_GETPIPE_SZ));
    SAY(fcntl(fd, F_GET_SEALS));
    SAY(fcntl(dup(fd), F_GETFL));
    SAY(fcntl(fcntl(fd, F_DUPFD_CLOEXEC, 100), F_GETFD));
    close(fd);
}

static void positions(int fd)
{
    SAY(lseek(fd, 0, SEEK_END));
    SAY(read(fd, bytes, 10));
    SAY(lseek(fd, 5, SEEK_CUR));
    SAY(read(fd, bytes, 10));
    SAY(lseek(fd, -3, SEEK_END));
    SAY(read(fd, bytes, 10));
    SAY(lseek(fd, 0, SEEK_CUR));
    SAY(lseek(fd, -1, SEEK_SET));
    SAY(lseek(fd, HUGE_OFFSET, SEEK_SET));
    SAY(lseek(fd, 0, SEEK_CUR));
    SAY(lseek(fd, 0, 99));
    SAY(lseek(fd, 0, SEEK_DATA));
    SAY(lseek(fd, 0, SEEK_HOLE));
    SAY(lseek(fd, size / 2, SEEK_DATA));
    SAY(lseek(fd, size / 2, SEEK_HOLE));
    SAY(lseek(fd, size, SEEK_DATA));
    SAY(lseek(fd, size, SEEK_HOLE));
    SAY(lseek(fd, -1, SEEK_DATA));
    SAY(lseek(fd, 7, SEEK_SET));
    SAY(lseek(dup(fd), 0, SEEK_CUR));
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        _exit(read(fd, bytes, 100) < 0);
    }
    waitpid(pid, NULL, 0);
    SAY(lseek(fd, 0, SEEK_CUR));
}

static void reads(int fd)
{
    struct iovec none[2] = {{.iov_base = NULL, .iov_len = 0}, {.iov_base = bytes, .iov_len = 10}};
    struct iovec wrong = {.iov_base = bytes, .iov_len = (size_t)-1};
    SAY(pread(fd, bytes, 10, -1));
    SAY(pread(fd, bytes, 10, size));
    SAY(pread(fd, bytes, 10, size - 4));
    SAY(pread(fd, bytes, 10, size + 1));
    SAY(pread(fd, bytes, 10, HUGE_OFFSET));
    SAY(pread(fd, bytes, 0, 0));
    SAY(pread(fd, bytes, 0, -1));
    SAY(pread(fd, bytes, sizeof(bytes), size - 100));
    SAY(lseek(fd, 0, SEEK_SET));
    SAY(read(fd, bytes, 0));
    SAY(readv(fd, none, 2));
    SAY(readv(fd, none, 1));
    SAY(readv(fd, none, 0));
    SAY(readv(fd, none, minus_one));
    SAY(readv(fd, none, too_many));
    SAY(readv(fd, &wrong, 1));
    SAY(preadv(fd, none, 2, size - 4));
    SAY(preadv(fd, none, 2, -1));
    SAY(preadv2(fd, none, 2, -1, 0));
    SAY(preadv2(fd, none, 2, -2, 0));
    SAY(preadv2(fd, none, 2, 0, 0x40000000));
    SAY(preadv2(fd, none, 2, 0, RWF_DSYNC));
    SAY(lseek(fd, 0, SEEK_CUR));
    if (size > 65536) {
        SAY(pread(fd, nowhere, 65536, 0));
        SAY(lseek(fd, 0, SEEK_SET));
        SAY(read(fd, nowhere, 65536));
        SAY(lseek(fd, 0, SEEK_CUR));
    }
}

static void writes(int fd)
{
    struct iovec part = {.iov_base = bytes, .iov_len = 10};
    int ends[2];
    probe_expect(pipe(ends) == 0 && write(ends[1], bytes, 100) == 100, "pipe");
    int from = open("/proc/self/exe", O_RDONLY);
    SAY(write(fd, bytes, 10));
    SAY(write(fd, bytes, 0));
    SAY(pwrite(fd, bytes, 10, 0));
    SAY(pwrite64(fd, bytes, 10, 0));
    SAY(writev(fd, &part, 1));
    SAY(pwritev(fd, &part, 1, 0));
    SAY(pwritev2(fd, &part, 1, 0, 0));
    SAY(syscall(SYS_write, fd, bytes, 10));
    SAY(syscall(SYS_pwrite64, fd, bytes, 10, 0L));
    SAY(syscall(SYS_writev, fd, &part, 1));
    SAY(ftruncate(fd, 0));
    SAY(ftruncate64(fd, size + 1));
    SAY(syscall(SYS_ftruncate, fd, 0L));
    SAY(fallocate(fd, 0, 0, 4096));
    SAY(posix_fallocate(fd, 0, 4096));
    SAY(syscall(SYS_fallocate, fd, 0, 0L, 4096L));
    SAY(sendfile(fd, from, NULL, 100));
    SAY(splice(ends[0], NULL, fd, NULL, 100, 0));
    SAY(copy_file_range(from, NULL, fd, NULL, 100, 0));
    SAY(syscall(SYS_sendfile, fd, from, NULL, 100L));
    SAY(syscall(SYS_splice, ends[0], NULL, fd, NULL, 100L, 0));
    SAY(syscall(SYS_copy_file_range, from, NULL, fd, NULL, 100L, 0));
    SAY(dprintf(fd, "text"));
    SAY(fsync(fd));
    SAY(fdatasync(fd));
    SAY(posix_fadvise(fd, 0, size, POSIX_FADV_WILLNEED));
    SAY(posix_fadvise(fd, 0, 0, 99));
    SAY(readahead(fd, 0, 4096));
    close(from);
    close(ends[0]);
    close(ends[1]);
}

static void copies(int fd)
{
    FILE *file = tmpfile();
    off_t at = size;
    loff_t wide = size - 4;
    int to = fileno(file), ends[2];
    probe_expect(pipe(ends) == 0, "pipe");
    SAY(lseek(fd, 0, SEEK_SET));
    SAY(sendfile(to, fd, NULL, 0));
    SAY(sendfile(to, fd, NULL, 10));
    SAY(lseek(fd, 0, SEEK_CUR));
    SAY(sendfile(to, fd, &at, 10));
    SAY((at = size - 4, sendfile(to, fd, &at, 10)));
    SAY(size - at);
    SAY((at = -1, sendfile(to, fd, &at, 10)));
    SAY(sendfile(fd, fd, NULL, 10));
    SAY(copy_file_range(fd, &wide, to, NULL, 10, 0));
    SAY(size - wide);
    SAY(copy_file_range(fd, &wide, to, NULL, 10, 0));
    SAY(copy_file_range(fd, NULL, to, NULL, 10, 1));
    SAY(splice(fd, NULL, to, NULL, 10, 0));
    SAY((wide = size - 4, splice(fd, &wide, ends[1], NULL, 10, 0)));
    SAY(size - wide);
    SAY((wide = size, splice(fd, &wide, ends[1], NULL, 10, SPLICE_F_NONBLOCK)));
    SAY(tee(fd, ends[1], 10, 0) < 0);
    SAY(vmsplice(fd, &(struct iovec){.iov_base = bytes, .iov_len = 1}, 1, 0));
    SAY(lseek(fd, 0, SEEK_CUR));
    SAY(lseek(to, 0, SEEK_CUR));
    close(ends[0]);
    close(ends[1]);
    fclose(file);
}

static void mapped(const char *what, void *map)
{
    int error = errno;
    printf("  %s: %s\n", what, map == MAP_FAILED ? probe_errno(error) : "mapped");
    if (map != MAP_FAILED) {
        munmap(map, 4096);
    }
}

static void mappings(int fd)
{
    mapped("shared, writable", mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    mapped("write only", mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd, 0));
    mapped("private, writable", mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0));
    mapped("executable", mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0));
    mapped("no length", mmap(NULL, 0, PROT_READ, MAP_PRIVATE, fd, 0));
    mapped("odd offset", mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 100));
    mapped("negative offset", mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, -4096));
    mapped("neither private nor shared", mmap(NULL, 4096, PROT_READ, 0, fd, 0));
    mapped("behind the end", mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, (size + 8191) & ~4095l));
    mapped("by syscall", (void *)syscall(SYS_mmap, NULL, 4096L, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0L));
    char *map = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
    SAY(mprotect(map, 4096, PROT_READ | PROT_WRITE));
    SAY(msync(map, 8192, MS_SYNC));
    SAY(madvise(map, 4096, MADV_WILLNEED));
    SAY(madvise(map, 4096, MADV_REMOVE));
    SAY(munmap(map, 8192));
    map = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, fd, 0);
    SAY(mprotect(map, 4096, PROT_READ | PROT_WRITE));
    SAY(mprotect(map, 4096, PROT_READ | PROT_EXEC));
    SAY(munmap(map, 8192));
    if (size > 0) {
        /* The last page: the object's last bytes, then zeros. */
        off_t page = (size - 1) & ~4095l;
        map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, page);
        printf("  last page: %016llx\n", (unsigned long long)probe_hash(PROBE_HASH, map, 4096));
        munmap(map, 4096);
        map = mmap(NULL, (size_t)(page + 8192), PROT_READ, MAP_SHARED, fd, 0);
        printf("  to the last page: %016llx\n",
               (unsigned long long)probe_hash(PROBE_HASH, map, (size_t)page + 4096));
        munmap(map, (size_t)(page + 8192));
    }
}

/* A page behind the object's end is SIGBUS, as everywhere. */
static void beyond(int fd)
{
    int status;
    size_t end = ((size_t)size + 4095) & ~(size_t)4095;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        char *map = mmap(NULL, end + 4096, PROT_READ, MAP_PRIVATE, fd, 0);
        _exit(map == MAP_FAILED ? 99 : ((volatile char *)map)[end]);
    }
    waitpid(pid, &status, 0);
    printf("  a page behind the end: %s %d\n", WIFSIGNALED(status) ? "signal" : "status",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void locks(int fd)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 10};
    SAY(fcntl(fd, F_SETLK, &lock));
    lock.l_type = F_UNLCK;
    SAY(fcntl(fd, F_SETLK, &lock));
    lock.l_type = F_WRLCK;
    SAY(fcntl(fd, F_SETLK, &lock));
    SAY(fcntl(fd, F_OFD_SETLK, &lock));
    lock.l_type = F_RDLCK;
    lock.l_pid = 0;
    SAY(fcntl(fd, F_OFD_SETLK, &lock));
    SAY(fcntl(fd, F_GETLK, &lock));
    SAY(lock.l_type == F_UNLCK);
    SAY(flock(fd, LOCK_SH | LOCK_NB));
    SAY(flock(fd, LOCK_EX | LOCK_NB));
    SAY(flock(fd, LOCK_UN));
    SAY(lockf(fd, F_TEST, 10));
    SAY(lockf(fd, F_TLOCK, 10));
}

static void kinds(int fd)
{
    int waiting = -1, loop = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    struct pollfd one = {.fd = fd, .events = POLLIN | POLLOUT};
    struct timeval now = {0};
    fd_set in, out;
    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_SET(fd, &in);
    FD_SET(fd, &out);
    SAY(lseek(fd, 0, SEEK_SET));
    SAY(ioctl(fd, FIONREAD, &waiting));
    SAY(waiting);
    SAY(isatty(fd));
    SAY(ttyname(fd) != NULL);
    SAY(fchdir(fd));
    SAY(getdents64(fd, bytes, 4096));
    SAY(fdopendir(fd) != NULL);
    SAY(openat(fd, "x", O_RDONLY));
    SAY(faccessat(fd, "x", F_OK, 0));
    SAY(accept(fd, NULL, NULL));
    SAY(send(fd, bytes, 1, 0));
    SAY(recv(fd, bytes, 1, 0));
    SAY(epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event));
    SAY(poll(&one, 1, 0));
    SAY(one.revents);
    SAY(select(fd + 1, &in, &out, NULL, &now));
    SAY(fdopen(fd, "w") != NULL);
    SAY(fdopen(fd, "r+") != NULL);
    SAY(fdopen(fd, "a") != NULL);
    SAY(fpathconf(fd, _PC_NAME_MAX));
    close(loop);
}

static void stream(const char *path)
{
    int fd = open(path, O_RDONLY);
    SAY(lseek(fd, 3, SEEK_SET));
    FILE *file = fdopen(fd, "r");
    SAY(ftell(file));
    SAY(fgetc(file) >= 0);
    SAY(ftell(file));
    SAY(fseeko(file, size - 2, SEEK_SET));
    SAY(fread(bytes, 1, 10, file));
    SAY(feof(file) != 0);
    SAY(ferror(file) != 0);
    SAY(fseeko(file, 0, SEEK_END));
    SAY(ftello(file));
    SAY(fputc('x', file) == EOF);
    SAY(fclose(file));
    SAY(close(fd));
}

static void after_close(int fd)
{
    SAY(close(fd));
    SAY(close(fd));
    SAY(read(fd, bytes, 1));
    SAY(pread(fd, bytes, 1, 0));
    SAY(lseek(fd, 0, SEEK_SET));
    SAY(fcntl(fd, F_GETFL));
    mapped("mmap", mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0));
    /* The number again is another file. */
    int other = open("/proc/self/exe", O_RDONLY);
    probe_expect(other == fd && read(other, bytes, 4) == 4 && memcmp(bytes, "\177ELF", 4) == 0,
                 "the number again");
    close(other);
}

static void every_answer(const char *relative)
{
    char *path = probe_path(relative);
    int fd = open(path, O_RDONLY);
    struct stat st;
    probe_expect(fd >= 0 && fstat(fd, &st) == 0, "%s: open", relative);
    size = st.st_size;
    printf("%s\n", relative);
    flags_of(path);
    positions(fd);
    reads(fd);
    writes(fd);
    copies(fd);
    mappings(fd);
    beyond(fd);
    locks(fd);
    kinds(fd);
    stream(path);
    after_close(fd);
    free(path);
}

int main(int argc, char **argv)
{
    static const char *const files[] = {"b/mega.bin", "a/two.bin", "a/one.txt", "top.txt", "empty"};
    probe_begin(argc, argv);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        every_answer(files[i]);
    }
    return probe_wrong;
}
