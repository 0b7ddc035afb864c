/* Functions of libc that open or stat a name by themselves, or leave the working directory, say the same of a
 * map. */
#include <dlfcn.h>
#include <mntent.h>
#include <nl_types.h>
#include <sched.h>
#include <sys/ipc.h>

#include "tests/preload/probe.h"

static void keys(const char *file, const char *dir, const char *missing)
{
    struct stat st;
    key_t key = ftok(file, 'h');
    probe_expect(stat(file, &st) == 0 &&
                     key == (key_t)((st.st_ino & 0xffff) | ((st.st_dev & 0xff) << 16) | ('h' << 24)),
                 "ftok of a file: %x", (unsigned)key);
    probe_expect(ftok(file, 'i') != key && ftok(dir, 'h') != -1, "ftok of others");
    probe_say("ftok missing", ftok(missing, 'h') != -1);
}

static void limits(const char *file, const char *missing)
{
    int fd = open(file, O_RDONLY), dirfd = open(probe_root, O_RDONLY | O_DIRECTORY);
    printf("pathconf %ld %ld %ld %ld\n", pathconf(file, _PC_NAME_MAX), pathconf(probe_root, _PC_NAME_MAX),
           pathconf(file, _PC_PATH_MAX), pathconf(file, _PC_FILESIZEBITS));
    printf("fpathconf %ld %ld %ld\n", fpathconf(fd, _PC_NAME_MAX), fpathconf(dirfd, _PC_PATH_MAX),
           fpathconf(fd, _PC_FILESIZEBITS));
    probe_say("pathconf missing", pathconf(missing, _PC_NAME_MAX) >= 0);
    probe_say("pathconf, no such name", pathconf(file, 10000) >= 0);
    if (probe_mapped()) {
        probe_expect(pathconf(file, _PC_LINK_MAX) == 1 && pathconf(file, _PC_2_SYMLINKS) == 0, "links");
    }
    close(fd);
    close(dirfd);
}

/* Whatever lines a file has, both sides must see the same. */
static void streams(const char *file, const char *missing)
{
    char buffer[4096];
    uint64_t hash = PROBE_HASH;
    size_t got, bytes = 0;
    FILE *stream = setmntent(file, "r");
    probe_say("setmntent", stream != NULL);
    while (stream && (got = fread(buffer, 1, sizeof(buffer), stream)) > 0) {
        hash = probe_hash(hash, buffer, got);
        bytes += got;
    }
    printf("%zu bytes, %llx\n", bytes, (unsigned long long)hash);
    probe_expect(!stream || endmntent(stream) == 1, "endmntent");
    FILE *(*by_old_name)(const char *, const char *) =
        (FILE * (*)(const char *, const char *)) dlsym(RTLD_DEFAULT, "_IO_fopen");
    stream = by_old_name(file, "r");
    probe_say("_IO_fopen", stream != NULL);
    probe_expect(stream && fread(buffer, 1, 1, stream) == (bytes > 0) && fclose(stream) == 0, "_IO_fopen");
    probe_say("setmntent missing", setmntent(missing, "r") != NULL);
    if (probe_mapped()) {
        probe_expect(!setmntent(file, "r+") && errno == EROFS, "setmntent to write");
        probe_expect(!setmntent(file, "a") && errno == EROFS, "setmntent to append");
    }
    probe_expect(catopen(file, 0) == (nl_catd)-1, "a file that is no catalogue");
    probe_say("catopen missing", catopen(missing, 0) != (nl_catd)-1);
}

/* Names, whatever their order: sums of hashes. */
static void entries(const char *dir)
{
    char buffer[512];
    off_t base = -1;
    ssize_t got;
    uint64_t sum = 0;
    unsigned count = 0;
    int fd = open(dir, O_RDONLY | O_DIRECTORY);
    while ((got = getdirentries(fd, buffer, sizeof(buffer), &base)) > 0) {
        for (ssize_t at = 0; at < got;) {
            struct dirent *entry = (struct dirent *)(void *)(buffer + at);
            sum += probe_hash(PROBE_HASH, entry->d_name, strlen(entry->d_name));
            count++;
            at += entry->d_reclen;
        }
    }
    probe_expect(got == 0, "getdirentries: %s", probe_errno(errno));
    probe_expect(lseek(fd, 0, SEEK_SET) == 0, "rewind");
    off64_t base64 = -1;
    got = getdirentries64(fd, buffer, sizeof(buffer), &base64);
    probe_expect(got > 0 && base64 == 0, "getdirentries64: base %lld", (long long)base64);
    printf("getdirentries: %u names, %llx\n", count, (unsigned long long)sum);
    close(fd);
}

static void here(const char *what)
{
    char path[PATH_MAX];
    printf("%s: %s, etc is %s\n", what, getcwd(path, sizeof(path)) ? path : probe_errno(errno),
           access("etc/passwd", R_OK) == 0 ? "here" : "not here");
}

/* Where the working directory is afterwards, and what a relative name means then. */
static void leaving(void)
{
    probe_expect(chdir(probe_root) == 0, "chdir");
    here("before");
    int fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    probe_say("setns", setns(fd, 0) == 0);
    here("after setns");
    close(fd);
    probe_expect(chdir(probe_root) == 0, "chdir");
    fflush(stdout);
    int ends[2];
    if (pipe(ends) < 0) {
        abort();
    }
    if (fork() == 0) {
        close(ends[0]);
        if (daemon(0, 1) < 0) {
            _exit(1);
        }
        here("in a daemon");
        fflush(stdout);
        close(ends[1]);
        _exit(0);
    }
    close(ends[1]);
    char end;
    probe_expect(read(ends[0], &end, 1) == 0, "the daemon's end");
    close(ends[0]);
}

int main(int argc, char **argv)
{
    probe_begin(argc, argv);
    probe_walk();
    char *file = probe_path(probe_some(DT_REG, 0)), *dir = probe_path(probe_some(DT_DIR, 0));
    char *missing = probe_path("no-such-name");
    keys(file, dir, missing);
    limits(file, missing);
    streams(file, missing);
    entries(dir);
    leaving();
    return probe_wrong;
}
