/* Calls about descriptors themselves. */
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/random/random.h"

#define LOW_FD 70 /* above what open gives here: a stream's descriptor is not to be taken from under it */
#define HIGH_FD 130

static bool is_folder(int fd)
{
    struct stat stat;
    return fstat(fd, &stat) == 0 && S_ISDIR(stat.st_mode);
}

static void run_dup(void)
{
    int fd = any_fd();
    uint32_t kind = draw(5);
    int to = LOW_FD + (int)draw(HIGH_FD - LOW_FD);
    int flags = percent(50) ? O_CLOEXEC : percent(5) ? O_NONBLOCK : 0;
    to = percent(10) ? fd : percent(3) ? -1 : to;
    say(" kind %u %d %d %x", kind, fd, to, (unsigned)flags);
    int result = kind == 0   ? CALL(dup(fd))
                 : kind == 1 ? CALL(dup2(fd, to))
                 : kind == 2 ? CALL(dup3(fd, to, flags))
                 : kind == 3 ? CALL(fcntl(fd, F_DUPFD, to))
                             : CALL(fcntl(fd, F_DUPFD_CLOEXEC, to));
    say_result(result);
    if (result >= 0) {
        keep(result);
        say(" fd %d at %lld", fcntl(result, F_GETFD),
            is_folder(result) ? 0 : (long long)lseek(result, 0, SEEK_CUR));
    }
}

static void run_flags(void)
{
    static const int flags[] = {O_NONBLOCK, O_APPEND, O_NOATIME, O_WRONLY, O_CREAT, O_SYNC};
    int fd = any_fd();
    if (is_folder(fd)) {
        say(" %d", fd);
        SAY_CALL(fcntl(fd, F_GETFD));
        return; /* O_PATH, in a map */
    }
    int set = draw_flags(flags, 6, 25);
    switch (draw(4)) {
    case 0:
        say(" F_SETFL %d %o", fd, set);
        SAY_CALL(fcntl(fd, F_SETFL, set));
        break;
    case 1:
        say(" F_SETFD %d", fd);
        SAY_CALL(fcntl(fd, F_SETFD, (int)draw(2)));
        break;
    case 2:
        say(" ioctl %d", fd);
        SAY_CALL(ioctl(fd, percent(50) ? FIOCLEX : FIONCLEX));
        break;
    default:
        break;
    }
    SAY_CALL(fcntl(fd, F_GETFL) & ~(O_APPEND | O_NOFOLLOW));
    SAY_CALL(fcntl(fd, F_GETFD));
}

static void run_lock(void)
{
    static const int commands[] = {F_GETLK, F_SETLK, F_OFD_GETLK, F_OFD_SETLK};
    static const short types[] = {F_RDLCK, F_RDLCK, F_WRLCK, F_UNLCK, 9};
    int fd = file_fd();
    struct flock lock = {.l_type = types[draw(5)],
                         .l_whence = (short)draw(percent(90) ? 3 : 5),
                         .l_start = (off_t)draw(5000) - 100,
                         .l_len = (off_t)draw(100) - 10};
    int command = commands[draw(4)];
    say(" %d command %d type %d whence %d %lld %lld", fd, command, lock.l_type, lock.l_whence,
        (long long)lock.l_start, (long long)lock.l_len);
    int result = CALL(fcntl(fd, command, &lock));
    say_result(result);
    if (result == 0 && (command == F_GETLK || command == F_OFD_GETLK)) {
        say(" type %d", lock.l_type);
    }
    lock =
        (struct flock){.l_type = F_UNLCK}; /* who holds one at the same time is another program's question */
    fcntl(fd, F_SETLK, &lock);
    fcntl(fd, F_OFD_SETLK, &lock);
}

static void run_flock(void)
{
    static const int kinds[] = {LOCK_SH, LOCK_EX, LOCK_UN, 99};
    int fd = file_fd();
    int kind = kinds[draw(4)];
    bool posix = percent(30);
    static const int posix_kinds[] = {F_TLOCK, F_TEST, F_ULOCK, 88};
    say(" %s %d %d", posix ? "lockf" : "flock", fd, kind);
    if (posix) {
        SAY_CALL(lockf(fd, posix_kinds[draw(4)], (off_t)draw(100)));
    } else {
        SAY_CALL(flock(fd, kind | LOCK_NB));
        flock(fd, LOCK_UN);
    }
}

static void run_poll(void)
{
    int fd = any_fd();
    if (is_folder(fd)) {
        fd = file_fd();
    }
    struct pollfd one = {.fd = fd, .events = (short)draw(128)};
    fd_set set;
    FD_ZERO(&set);
    struct timeval none = {0};
    say(" %d %x", fd, (unsigned)one.events);
    SAY_CALL(poll(&one, 1, 0));
    say(" %x", (unsigned)one.revents);
    if (fd >= 0 && fd < FD_SETSIZE) {
        FD_SET(fd, &set);
        SAY_CALL(select(fd + 1, &set, NULL, NULL, &none));
    }
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    SAY_CALL(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
    close(epoll);
}

static void run_ioctl(void)
{
    int fd = file_fd();
    int value = -5;
    char terminal[256];
    switch (draw(6)) {
    case 0:
        say(" isatty %d", fd);
        SAY_CALL(isatty(fd));
        break;
    case 1:
        say(" FIONREAD %d", fd);
        SAY_CALL(ioctl(fd, FIONREAD, &value));
        say(" %d", value);
        break;
    case 2:
        say(" FIONBIO %d", fd);
        value = (int)draw(2);
        SAY_CALL(ioctl(fd, FIONBIO, &value));
        break;
    case 3:
        say(" ttyname_r %d", fd);
        SAY_CALL(ttyname_r(fd, terminal, sizeof(terminal)));
        break;
    case 4:
        say(" TIOCGWINSZ %d", fd);
        SAY_CALL(ioctl(fd, TIOCGWINSZ, terminal));
        break;
    default:
        say(" unknown %d", fd);
        SAY_CALL(ioctl(fd, 0x7788, terminal));
    }
}

static void run_owner(void)
{
    int fd = file_fd();
    static const int commands[] = {F_GETOWN,    F_GETSIG, F_GETLEASE, F_GETPIPE_SZ,
                                   F_GET_SEALS, 12345,    F_NOTIFY};
    int command = commands[draw(7)];
    say(" %d %d", fd, command);
    SAY_CALL(fcntl(fd, command, 0));
}

const struct op descriptor_ops[] = {
    {"dup", 60, run_dup},   {"flags", 40, run_flags}, {"lock", 20, run_lock},  {"flock", 15, run_flock},
    {"poll", 15, run_poll}, {"ioctl", 20, run_ioctl}, {"owner", 8, run_owner}, {0}};
