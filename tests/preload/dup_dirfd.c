/* Copies of a directory descriptor all lead into the tree; a closed number that is used again does not. */
#include "tests/preload/probe.h"

static const char *file;
static struct stat want;

static void leads(const char *what, int fd, bool into)
{
    struct stat st;
    int result = fstatat(fd, file, &st, 0);
    printf("%s: %s\n", what, probe_errno(result == 0 ? 0 : errno));
    probe_expect((result == 0) == into, "%s leads %s", what, into ? "nowhere" : "into the tree");
    probe_expect(!into || (st.st_ino == want.st_ino && st.st_dev == want.st_dev), "%s: another file", what);
}

int main(int argc, char **argv)
{
    probe_begin(argc, argv);
    probe_walk();
    file = probe_some(DT_REG, 0);
    char *path = probe_path(file);
    probe_expect(stat(path, &want) == 0, "stat");
    int first = open(probe_root, O_RDONLY | O_DIRECTORY);
    int by_dup = dup(first);
    int by_dup2 = dup2(first, 100);
    int by_dup3 = dup3(first, 101, O_CLOEXEC);
    int by_fcntl = fcntl(first, F_DUPFD, 102);
    int by_fcntl_exec = fcntl(first, F_DUPFD_CLOEXEC, 103);
    leads("open", first, true);
    leads("dup", by_dup, true);
    leads("dup2", by_dup2, true);
    leads("dup3", by_dup3, true);
    leads("F_DUPFD", by_fcntl, true);
    leads("F_DUPFD_CLOEXEC", by_fcntl_exec, true);
    printf("close on exec: %d %d %d\n", fcntl(by_dup2, F_GETFD), fcntl(by_dup3, F_GETFD),
           fcntl(by_fcntl_exec, F_GETFD));
    close(first);
    leads("after the first is closed", by_dup, true);
    int other = open("/", O_RDONLY | O_DIRECTORY);
    printf("same number: %d\n", other == first);
    leads("its number again", other, false);
    probe_expect(dup2(other, by_dup2) == by_dup2, "dup2 over a copy");
    leads("dup2 over a copy", by_dup2, false);
    probe_expect(dup3(by_dup, other, 0) == other, "dup3 over another directory");
    leads("dup3 over another directory", other, true);
    probe_expect(dup2(by_dup, by_dup) == by_dup, "dup2 onto itself");
    leads("dup2 onto itself", by_dup, true);
    probe_say("dup of nothing", dup(987) >= 0);
    probe_say("dup3 onto itself", dup3(by_dup, by_dup, 0) >= 0);
    /* The third argument of fcntl is a pointer for locks. */
    int fd = open(path, O_RDONLY);
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    probe_say("read lock", fcntl(fd, F_SETLK, &lock) == 0);
    lock.l_type = F_RDLCK;
    probe_say("ask for a lock", fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK);
    free(path);
    return probe_wrong;
}
