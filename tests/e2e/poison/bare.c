/* A program without hooks (linked statically) that was handed an object's descriptor and a directory's.
 *   bare -c BYTES      copies so much of its standard input, as head does
 *   bare rows AT LEN SCRATCH SECONDS CACHE FACE DARK
 *                      every way to get bytes or names out of the two, and out of the cache directory */
#include <dirent.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "tests/e2e/poison/poison.h"
#include "tests/e2e/poison/ring.h"

#define AT ((off_t)poison_at)
#define CANDIDATES 8192 /* pages that a segment may begin at */

static int face, dark;
static const char *cache;

static struct iovec *part(void)
{
    static struct iovec one;
    one = (struct iovec){.iov_base = poison_buffer, .iov_len = poison_len};
    return &one;
}

#define ROW(name, call)                                                                                      \
    static void name(void)                                                                                   \
    {                                                                                                        \
        poison_got(call);                                                                                    \
    }

ROW(do_read, read(face, poison_buffer, poison_len))
ROW(do_readv, readv(face, part(), 1))
ROW(do_pread64, pread64(face, poison_buffer, poison_len, AT))
ROW(do_preadv2, preadv2(face, part(), 1, AT, 0))
ROW(do_preadv2_nowait, preadv2(face, part(), 1, AT, RWF_NOWAIT))

static void mapped(int flags)
{
    void *map = mmap(NULL, 4096, PROT_READ, flags, face, AT & ~(off_t)4095);
    if (map == MAP_FAILED) {
        poison_errno(errno);
        return;
    }
    poison_bytes(map, 4096, poison_at & ~4095ull);
}

static void map_private(void)
{
    mapped(MAP_PRIVATE);
}

static void map_shared(void)
{
    mapped(MAP_SHARED);
}

static void map_populated(void)
{
    mapped(MAP_PRIVATE | MAP_POPULATE);
}

static void to_file(ssize_t got, int file)
{
    if (got > 0) {
        got = pread(file, poison_buffer, poison_len, 0);
    }
    poison_got(got);
}

static void do_sendfile(void)
{
    int file = poison_file();
    off_t at = AT;
    to_file(sendfile(file, face, &at, poison_len), file);
}

static void do_copy(void)
{
    int file = poison_file();
    off64_t at = AT;
    to_file(copy_file_range(face, &at, file, NULL, poison_len, 0), file);
}

static void do_clone(void)
{
    int file = poison_file();
    to_file(ioctl(file, FICLONE, face) == 0 ? 1 : -1, file);
}

static void do_splice(void)
{
    int ends[2];
    off64_t at = AT;
    poison_pipe(ends);
    ssize_t got = splice(face, &at, ends[1], NULL, poison_len, 0);
    poison_got(got > 0 ? read(ends[0], poison_buffer, poison_len) : got);
}

static void do_tee(void)
{
    int ends[2];
    poison_pipe(ends);
    poison_got(tee(face, ends[1], poison_len, 0));
}

static void negative(ssize_t got)
{
    errno = got < 0 ? (int)-got : 0;
    poison_got(got);
}

static void do_ring(void)
{
    negative(poison_ring_read(face, poison_buffer, poison_len, poison_at));
}

static void do_ring_fixed(void)
{
    negative(poison_ring_read_fixed(face, poison_buffer, poison_len, poison_at));
}

static void do_submit(void)
{
    negative(poison_submit_read(face, poison_buffer, poison_len, poison_at));
}

static void do_exec(void)
{
    char *const argv[] = {NULL};
    syscall(SYS_execveat, face, "", argv, argv, AT_EMPTY_PATH);
    poison_errno(errno);
}

/* ---- other ways to the same file */

static void read_opened(int fd)
{
    poison_got(fd < 0 ? -1 : pread(fd, poison_buffer, poison_len, AT));
}

static const char *link_of(const char *format, int fd)
{
    static char path[4096];
    snprintf(path, sizeof(path), format, fd);
    return path;
}

/* Where the kernel says that the descriptor points: a name in the cache directory. */
static const char *place_of(int fd)
{
    static char path[4096];
    ssize_t len = readlink(link_of("/proc/self/fd/%d", fd), path, sizeof(path) - 1);
    poison_need(len > 0, "readlink");
    path[len] = '\0';
    poison_need(strncmp(path, cache, strlen(cache)) == 0, "a place in the cache directory");
    return path;
}

static void again(void)
{
    read_opened(open(link_of("/proc/self/fd/%d", face), O_RDONLY));
}

static void again_dev(void)
{
    read_opened(open(link_of("/dev/fd/%d", face), O_RDONLY));
}

static void again_rdwr(void)
{
    read_opened(open(link_of("/proc/self/fd/%d", face), O_RDWR));
}

static void again_wronly(void)
{
    read_opened(open(link_of("/proc/self/fd/%d", face), O_WRONLY));
}

static void again_path(void)
{
    read_opened(open(place_of(face), O_RDONLY));
}

static void again_mapped(void)
{
    int fd = open(place_of(face), O_RDONLY);
    void *map = fd < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    map == MAP_FAILED ? poison_errno(errno) : poison_say("mapped");
}

/* ---- names */

static void entries(int fd)
{
    int names = 0;
    ssize_t got = fd < 0 ? -1 : getdents64(fd, poison_buffer, 4096);
    if (got < 0) {
        poison_errno(errno);
        return;
    }
    for (ssize_t at = 0; at < got;) {
        const struct dirent64 *entry = (const struct dirent64 *)(void *)(poison_buffer + at);
        names += entry->d_name[0] != '.';
        at += entry->d_reclen;
    }
    poison_say(names ? "%d names" : "empty", names);
}

static void dark_entries(void)
{
    entries(dark);
}

static void dark_dot(void)
{
    entries(openat(dark, ".", O_RDONLY | O_DIRECTORY));
}

static void dark_again(void)
{
    entries(open(link_of("/proc/self/fd/%d", dark), O_RDONLY | O_DIRECTORY));
}

static void dark_path(void)
{
    entries(open(place_of(dark), O_RDONLY | O_DIRECTORY));
}

static void dark_here(void)
{
    poison_need(fchdir(dark) == 0, "fchdir");
    entries(open(".", O_RDONLY | O_DIRECTORY));
}

static void dark_name(void)
{
    int fd = openat(dark, "name-00", O_RDONLY);
    fd < 0 ? poison_errno(errno) : poison_say("there");
}

/* ---- the cache's files: each that can be read is a piece of an object */

static bool is_piece(const char *bytes, ssize_t len)
{
    for (uint64_t page = 0; page < CANDIDATES; page++) {
        ssize_t i = 0;
        while (i < len && (unsigned char)bytes[i] == poison_byte(page * 4096 + (uint64_t)i)) {
            i++;
        }
        if (i == len) {
            return true;
        }
    }
    return false;
}

static unsigned readable, refused;

static bool look_at(const char *path)
{
    static char bytes[16 << 20]; /* twice a cell */
    int fd = open(path, O_RDONLY);
    if (fd < 0) {
        refused++;
        return true;
    }
    ssize_t got = read(fd, bytes, sizeof(bytes));
    close(fd);
    readable++;
    if (got <= 0) {
        poison_say("empty: %s", path + strlen(cache));
        return false;
    }
    if (!is_piece(bytes, got)) {
        poison_say("WRONG: %s", path + strlen(cache));
        return false;
    }
    return true;
}

static void objects(void)
{
    char folder[4096], path[4096 + 512];
    for (unsigned number = 0; number < 256; number++) {
        snprintf(folder, sizeof(folder), "%s/objects/%02x", cache, number);
        DIR *dir = opendir(folder);
        for (struct dirent *entry; dir && (entry = readdir(dir));) {
            snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
            if (entry->d_type == DT_REG && !look_at(path)) {
                return;
            }
        }
        if (dir) {
            closedir(dir);
        }
    }
    poison_say("%u readable, %u refused", readable, refused);
}

static const struct poison_row rows[] = {{"read", do_read},
                                         {"readv", do_readv},
                                         {"pread64", do_pread64},
                                         {"preadv2", do_preadv2},
                                         {"preadv2 RWF_NOWAIT", do_preadv2_nowait},
                                         {"mmap private", map_private},
                                         {"mmap shared", map_shared},
                                         {"mmap MAP_POPULATE", map_populated},
                                         {"sendfile", do_sendfile},
                                         {"copy_file_range", do_copy},
                                         {"FICLONE", do_clone},
                                         {"splice", do_splice},
                                         {"tee", do_tee},
                                         {"io_uring", do_ring},
                                         {"io_uring, registered file", do_ring_fixed},
                                         {"io_submit", do_submit},
                                         {"execveat", do_exec},
                                         {"again /proc/self/fd", again},
                                         {"again /dev/fd", again_dev},
                                         {"again O_RDWR", again_rdwr},
                                         {"again O_WRONLY", again_wronly},
                                         {"again by path", again_path},
                                         {"again by path, mmap", again_mapped},
                                         {"dark getdents64", dark_entries},
                                         {"dark openat .", dark_dot},
                                         {"dark /proc/self/fd", dark_again},
                                         {"dark by path", dark_path},
                                         {"dark fchdir", dark_here},
                                         {"dark name", dark_name},
                                         {"objects", objects},
                                         {NULL, NULL}};

static int head(size_t left)
{
    static char buffer[65536];
    while (left > 0) {
        ssize_t got = read(0, buffer, left < sizeof(buffer) ? left : sizeof(buffer));
        if (got <= 0) {
            return got < 0;
        }
        if (write(1, buffer, (size_t)got) != got) {
            return 1;
        }
        left -= (size_t)got;
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "-c") == 0) {
        return head(strtoull(argv[2], NULL, 10));
    }
    if (argc == 4 && strcmp(argv[1], "write") == 0) {
        printf("write\t%zd\n", write(atoi(argv[2]), "poison", 6));
        return 0;
    }
    if (argc != 9 || strcmp(argv[1], "rows") != 0) {
        return 2;
    }
    poison_at = strtoull(argv[2], NULL, 10);
    poison_len = strtoull(argv[3], NULL, 10);
    poison_scratch = argv[4];
    cache = argv[6];
    face = atoi(argv[7]);
    dark = atoi(argv[8]);
    poison_run(rows, NULL, (unsigned)atoi(argv[5]));
    return 0;
}
