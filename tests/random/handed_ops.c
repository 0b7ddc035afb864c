/* Descriptors that go another way than by open: over other ones, through a socket, into a copying call, by
 * their names in /proc, to aio, O_PATH; and directories that stay open over other calls. */
#include <aio.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/random/random.h"

#define KEPT_DIRS 3

static bool is_folder(int fd)
{
    struct stat stat;
    return fstat(fd, &stat) == 0 && S_ISDIR(stat.st_mode);
}

static void say_bytes(const void *bytes, ssize_t count)
{
    say_result(count);
    say(" %016llx", (unsigned long long)hash_of(bytes, count > 0 ? (size_t)count : 0));
}

/* What `to` was is closed by it. */
static void run_over(void)
{
    int fd = any_fd(), to = kept(draw(KEPT_MAX));
    bool third = percent(40) && fd != to;
    if (to < 0) {
        return;
    }
    say(" %s %d %d", third ? "dup3" : "dup2", fd, to);
    int result = third ? CALL(dup3(fd, to, O_CLOEXEC)) : CALL(dup2(fd, to));
    say_result(result);
    say(" fd %d %s", fcntl(to, F_GETFD), is_folder(to) ? "folder" : "file");
    if (!is_folder(to)) {
        say(" at %lld", (long long)lseek(to, 0, SEEK_CUR));
        say_bytes(place(), CALL(read(to, place(), draw(9000))));
    }
}

static void run_socket(void)
{
    int ends[2];
    int fd = any_fd();
    if (fd < 0 || fcntl(fd, F_GETFD) < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
        return;
    }
    char byte = 'x', room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    say(" %d", fd);
    SAY_CALL(sendmsg(ends[0], &message, 0));
    memset(room, 0, sizeof(room));
    message.msg_controllen = sizeof(room);
    SAY_CALL(recvmsg(ends[1], &message, percent(50) ? MSG_CMSG_CLOEXEC : 0));
    header = CMSG_FIRSTHDR(&message);
    close(ends[0]);
    close(ends[1]);
    if (header) {
        int got;
        memcpy(&got, CMSG_DATA(header), sizeof(got));
        say(" fd %d %d", got, fcntl(got, F_GETFD));
        if (!is_folder(got)) {
            say_bytes(place(), CALL(pread(got, place(), draw(9000), draw_offset())));
        }
        keep(got);
    }
}

/* Into one of ours nothing is copied. */
static void run_into(void)
{
    int ends[2];
    int fd = file_fd(), from = file_fd();
    size_t count = draw(5000);
    uint32_t kind = draw(3);
    if (pipe2(ends, O_NONBLOCK) != 0) {
        return;
    }
    say(" kind %u %d %d %zu", kind, from, fd, count);
    ssize_t wrote = write(ends[1], "bytes", 5);
    say(" (%zd)", wrote);
    SAY_CALL(kind == 0   ? sendfile(fd, from, NULL, count)
             : kind == 1 ? copy_file_range(from, NULL, fd, NULL, count, 0)
                         : splice(ends[0], NULL, fd, NULL, count, SPLICE_F_NONBLOCK));
    say(" at %lld", (long long)lseek(fd, 0, SEEK_CUR));
    close(ends[0]);
    close(ends[1]);
}

/* Of directories: a file's is the cache's. */
static void run_link_of_fd(void)
{
    static const char *const forms[] = {"/proc/self/fd/%d", "/dev/fd/%d", "/proc/thread-self/fd/%d",
                                        "/proc/self/fd/%d/..", "/proc/self/fd/%d/."};
    char path[64], text[PATH_ROOM];
    struct stat stat1 = {0};
    int fd = folder_fd();
    uint32_t form = draw(5);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(path, sizeof(path), forms[form], fd);
#pragma GCC diagnostic pop
    say_path(path);
    ssize_t got = CALL(readlink(path, text, sizeof(text) - 1));
    say_result(got);
    say(" %.*s", got > 0 ? (int)got : 0, text);
    say_result(CALL(lstat(path, &stat1)));
    say(" %o", stat1.st_mode & S_IFMT);
    errno = 0;
    char *real = realpath(path, text);
    say(" %s", real ? real : "NULL");
    if (!real) {
        say_error(errno);
    }
    SAY_CALL(access(path, R_OK | X_OK));
}

static void run_pathlike(void)
{
    static const int extras[] = {O_DIRECTORY, O_NOFOLLOW, O_CLOEXEC};
    char again[64];
    struct stat stat1 = {0};
    const char *path = percent(70) ? draw_tamed(percent(40)) : draw_path();
    int flags = O_PATH | draw_flags(extras, 3, 25);
    say(" %o", flags);
    say_path(path);
    int fd = CALL(open(path, flags));
    say_result(fd);
    if (fd < 0) {
        return;
    }
    say_result(CALL(fstat(fd, &stat1)));
    bool folder = S_ISDIR(stat1.st_mode);
    say(" %o %lld fd %d", stat1.st_mode & S_IFMT, folder ? 0 : (long long)stat1.st_size, fcntl(fd, F_GETFD));
    if (!folder) {
        SAY_CALL(read(fd, place(), 10));
        SAY_CALL(lseek(fd, 1, SEEK_SET));
    }
    SAY_CALL(fstatat(fd, "", &stat1, AT_EMPTY_PATH));
    SAY_CALL(faccessat(fd, "short.txt", R_OK, 0));
    snprintf(again, sizeof(again), "/proc/self/fd/%d", fd);
    int other = CALL(open(again, O_RDONLY | O_CLOEXEC));
    say_result(other);
    if (other >= 0 && !is_folder(other)) {
        say_bytes(place(), CALL(pread(other, place(), 5000, draw(70000))));
    }
    close(other);
    other = CALL(openat(fd, ".", O_RDONLY | O_DIRECTORY));
    say_result(other);
    close(other);
    close(fd);
}

static void run_aio(void)
{
    int fd = file_fd();
    struct aiocb block = {.aio_fildes = fd,
                          .aio_buf = place(),
                          .aio_nbytes = draw(20000),
                          .aio_offset = draw(percent(50) ? 70000 : 21 << 20)};
    block.aio_sigevent.sigev_notify = SIGEV_NONE;
    if (fd < 0 || is_folder(fd)) {
        return;
    }
    say(" %d %zu %lld", fd, block.aio_nbytes, (long long)block.aio_offset);
    int error = aio_read(&block) == 0 ? 0 : errno;
    const struct aiocb *list[] = {&block};
    while (error == 0 && aio_error(&block) == EINPROGRESS) {
        aio_suspend(list, 1, NULL);
    }
    ssize_t got = error == 0 ? aio_return(&block) : -1;
    say(" %d %zd %016llx", error, got, (unsigned long long)hash_of(place(), got > 0 ? (size_t)got : 0));
}

/* Nothing in the tree is a program. */
static void run_exec(void)
{
    const char *path = percent(60) ? draw_tamed(percent(30)) : draw_path();
    char *const argv[] = {"program", NULL}, *const environment[] = {NULL};
    int fd = file_fd();
    bool by_fd = percent(30);
    if (by_fd) {
        say(" %d", fd);
    } else {
        say_path(path);
    }
    pid_t pid = vfork();
    if (pid == 0) {
        errno = 0;
        if (by_fd) {
            fexecve(fd, argv, environment);
        } else {
            execve(path, argv, environment);
        }
        _exit(errno);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    say_error(WIFEXITED(status) ? WEXITSTATUS(status) : 0);
}

static struct {
    DIR *dir;
    uint64_t sum;
    long count;
} dirs[KEPT_DIRS];

static void take(size_t number, long most)
{
    struct dirent *entry;
    for (; most != 0 && dirs[number].dir && (entry = readdir(dirs[number].dir)); most--) {
        dirs[number].sum += hash_of(entry->d_name, strlen(entry->d_name)) ^ entry->d_type;
        dirs[number].count++;
    }
}

/* A stream that is read a little at a time; all of it is told at its end, because the order is the file
 * system's own. */
static void run_stream(void)
{
    size_t number = draw(KEPT_DIRS);
    const char *path = draw_tamed(true);
    if (!dirs[number].dir) {
        say_path(path);
        errno = 0;
        dirs[number].dir = opendir(path);
        say_error(errno);
        say(" fd %d", dirs[number].dir ? dirfd(dirs[number].dir) : -1); /* in a map, there is none before */
        dirs[number].sum = 0;
        dirs[number].count = 0;
        return;
    }
    uint32_t kind = draw(4);
    struct stat stat1;
    say(" %zu kind %u fd %d", number, kind, dirfd(dirs[number].dir));
    switch (kind) {
    case 0:
        take(number, -1);
        say(" %ld %016llx", dirs[number].count, (unsigned long long)dirs[number].sum);
        SAY_CALL(closedir(dirs[number].dir));
        dirs[number].dir = NULL;
        break;
    case 1:
        SAY_CALL(fstatat(dirfd(dirs[number].dir), "..", &stat1, 0));
        SAY_CALL(faccessat(dirfd(dirs[number].dir), draw_entry(false)->name, R_OK, 0));
        break;
    default:
        take(number, (long)draw(100));
    }
}

const struct op handed_ops[] = {{"over", 15, run_over},
                                {"socket", 12, run_socket},
                                {"into", 10, run_into},
                                {"link-of-fd", 12, run_link_of_fd},
                                {"pathlike", 20, run_pathlike},
                                {"aio", 8, run_aio},
                                {"exec", 6, run_exec},
                                {"dir-stream", 30, run_stream},
                                {0}};
