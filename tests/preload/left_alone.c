/* What is not hooked (interpose/exceptions.def) behaves with a mapped name as with one that is not there: an
 * error or libc's own way out, never a wrong answer. Each function of the list is called. */
#include <dlfcn.h>
#include <iconv.h>
#include <langinfo.h>
#include <libintl.h>
#include <locale.h>
#include <stddef.h>
#include <sys/quota.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <utmp.h>
#include <utmpx.h>

#include "tests/preload/probe.h"

#define AT_CLOEXEC_TREE O_CLOEXEC /* open_tree's flag; the headers have it since 2.36 */

static const char *file, *dir;

/* By address: the linker warns of these two. */
static void temporary(void)
{
    char *(*give_name)(char *) = (char *(*)(char *))dlsym(RTLD_DEFAULT, "mktemp");
    char *(*make_name)(const char *, const char *) =
        (char *(*)(const char *, const char *))dlsym(RTLD_DEFAULT, "tempnam");
    char *template = probe_path("tXXXXXX");
    probe_expect(give_name(template) == template && template[0], "mktemp");
    probe_expect(open(template, O_CREAT | O_EXCL | O_WRONLY, 0600) < 0 && errno == EROFS,
                 "mktemp, then open");
    free(template);
    char *name = make_name(dir, "hr");
    probe_expect(name && strncmp(name, "/tmp/", 5) == 0, "tempnam: %s", name ? name : "none");
    free(name);
}

static void accounting(void)
{
    struct utmpx record = {.ut_type = USER_PROCESS};
    struct utmp old = {.ut_type = USER_PROCESS};
    probe_expect(utmpxname(file) == 0, "utmpxname");
    setutxent();
    probe_expect(!getutxent(), "records of a mapped file");
    endutxent();
    probe_expect(utmpname(file) == 0, "utmpname");
    setutent();
    probe_expect(!getutent(), "records of a mapped file");
    endutent();
    updwtmpx(file, &record);
    updwtmp(file, &old);
}

static void settings(void)
{
    struct tm now;
    time_t second = 86400;
    char zone[PATH_MAX + 1];
    setenv("DATEMSK", file, 1);
    probe_expect(!getdate("1 2 3") && getdate_err == 3, "getdate: %d", getdate_err);
    probe_expect(getdate_r("1 2 3", &now) == 3, "getdate_r");
    setenv("LOCPATH", dir, 1);
    errno = 0;
    probe_expect(!setlocale(LC_ALL, "xx_HR.UTF-8"), "setlocale");
    errno = 0;
    probe_expect(!newlocale(LC_ALL_MASK, "xx_HR.UTF-8", (locale_t)0) && errno == ENOENT, "newlocale: %s",
                 probe_errno(errno));
    locale_t (*make_locale)(int, const char *, locale_t) =
        (locale_t(*)(int, const char *, locale_t))dlsym(RTLD_DEFAULT, "__newlocale");
    probe_expect(!make_locale(LC_ALL_MASK, "xx_HR.UTF-8", (locale_t)0), "__newlocale");
    unsetenv("LOCPATH");
    setenv("GCONV_PATH", dir, 1);
    errno = 0;
    probe_expect(iconv_open("X-HEADRACE", "UTF-8") == (iconv_t)-1 && errno == EINVAL, "iconv_open");
    unsetenv("GCONV_PATH");
    probe_expect(bindtextdomain("headrace", dir) && strcmp(dgettext("headrace", "word"), "word") == 0,
                 "bindtextdomain");
    snprintf(zone, sizeof(zone), ":%s", file);
    setenv("TZ", zone, 1);
    tzset();
    probe_expect(localtime_r(&second, &now) && now.tm_hour == 0 && now.tm_gmtoff == 0, "tzset");
}

/* connect, and the three that send to a name. */
static void sockets(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(file) >= sizeof(address.sun_path)) {
        printf("the path is too long for a socket\n");
        exit(1);
    }
    strcpy(address.sun_path, file);
    struct iovec part = {(char[]){"x"}, 1};
    struct mmsghdr message = {
        .msg_hdr = {.msg_name = &address, .msg_namelen = sizeof(address), .msg_iov = &part, .msg_iovlen = 1}};
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    probe_expect(connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 && errno == ENOENT, "connect");
    int (*connect_to)(int, const struct sockaddr *, socklen_t) =
        (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_DEFAULT, "__connect");
    probe_expect(connect_to(fd, (struct sockaddr *)&address, sizeof(address)) < 0 && errno == ENOENT,
                 "__connect");
    probe_expect(sendto(fd, "x", 1, 0, (struct sockaddr *)&address, sizeof(address)) < 0 && errno == ENOENT,
                 "sendto");
    probe_expect(sendmsg(fd, &message.msg_hdr, 0) < 0 && errno == ENOENT, "sendmsg");
    probe_expect(sendmmsg(fd, &message, 1, 0) < 0 && errno == ENOENT, "sendmmsg");
    close(fd);
}

static void unknown(const char *what, long result)
{
    probe_expect(result < 0 && (errno == ENOENT || errno == EPERM || errno == ENOSYS), "%s: %s", what,
                 result < 0 ? probe_errno(errno) : "done");
}

/* By number: the functions came with 2.36, and do just this. */
static void mounts(void)
{
    char attributes[32] = "\1"; /* set: read-only */
    unknown("quotactl", quotactl(QCMD(Q_GETFMT, USRQUOTA), file, 0, attributes));
    unknown("pivot_root", syscall(SYS_pivot_root, dir, dir));
    unknown("open_tree", syscall(SYS_open_tree, AT_FDCWD, file, AT_CLOEXEC_TREE));
    unknown("fspick", syscall(433 /* SYS_fspick */, AT_FDCWD, file, 1));
    unknown("move_mount", syscall(SYS_move_mount, AT_FDCWD, dir, AT_FDCWD, dir, 0));
    unknown("mount_setattr", syscall(442 /* SYS_mount_setattr */, AT_FDCWD, dir, 0, attributes, 32));
}

int main(int argc, char **argv)
{
    probe_begin(argc, argv);
    probe_walk();
    file = probe_path(probe_some(DT_REG, 0));
    dir = probe_path(probe_some(DT_DIR, 0));
    if (probe_mapped()) {
        temporary();
        accounting();
        settings();
        sockets();
        mounts();
    }
    int fd = open(file, O_RDONLY);
    probe_say("dprintf", dprintf(fd, "%d", 1) >= 0);
    close(fd);
    printf("entries %zu\n", probe_count);
    return probe_wrong;
}
