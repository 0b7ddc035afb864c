/* Calls that read directories. The order of names is the file system's own: they are sorted first, and
 * positions are compared by what is read after them. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/random/random.h"

#define NAMES_MAX 2000
#define NAME_ROOM 300

struct names {
    size_t count;
    char name[NAMES_MAX][NAME_ROOM]; /* the type's letter, then the name */
};
static struct names seen;

static void add(const char *name, unsigned char type)
{
    if (seen.count < NAMES_MAX) {
        char *at = seen.name[seen.count++];
        at[0] = type == DT_DIR ? 'd' : type == DT_REG ? 'f' : '?';
        snprintf(at + 1, NAME_ROOM - 1, "%s", name);
    }
}

static int by_name(const void *left, const void *right)
{
    return strcmp(left, right);
}

static void say_names(void)
{
    uint64_t hash = 0;
    qsort(seen.name, seen.count, NAME_ROOM, by_name);
    for (size_t i = 0; i < seen.count; i++) {
        hash = hash * 31 + hash_of(seen.name[i], strlen(seen.name[i]));
        if (seen.count < 12) {
            say(" %s", seen.name[i]);
        }
    }
    say(" %zu names %016llx", seen.count, (unsigned long long)hash);
    seen.count = 0;
}

/* Of a mount point, and of the map's name above it, the listing has another one's. */
static bool same_inode(DIR *dir, const struct dirent *entry)
{
    struct statx stat;
    return strcmp(entry->d_name, "..") == 0 || strcmp(entry->d_name, "data") == 0 ||
           (statx(dirfd(dir), entry->d_name, AT_SYMLINK_NOFOLLOW, STATX_INO, &stat) == 0 &&
            (stat.stx_ino == entry->d_ino || (stat.stx_attributes & STATX_ATTR_MOUNT_ROOT)));
}

#define INODES_TOLD 10
/* What is left of the stream; an inode number is the one that stat tells. */
static void read_rest(DIR *dir)
{
    struct dirent *entry;
    size_t same = 0;
    while ((errno = 0, entry = readdir(dir))) {
        add(entry->d_name, entry->d_type);
        same += seen.count <= INODES_TOLD && same_inode(dir, entry);
    }
    say(" %s",
        same == (seen.count < INODES_TOLD ? seen.count : INODES_TOLD) ? "same inodes" : "other inodes");
    if (errno) {
        say_error(errno);
    }
    say_names();
}

static void check_position(DIR *dir)
{
    char name[NAME_ROOM] = "";
    long at = telldir(dir);
    struct dirent *entry = readdir(dir);
    if (entry) {
        snprintf(name, sizeof(name), "%s", entry->d_name);
    }
    for (uint32_t i = draw(4); i > 0; i--) {
        (void)readdir(dir);
    }
    seekdir(dir, at);
    entry = readdir(dir);
    say(" seek %s", strcmp(entry ? entry->d_name : "", name) == 0 ? "same" : "differs");
    seekdir(dir, at);
    say(" tell %s", telldir(dir) == at ? "same" : "differs");
}

static void play(DIR *dir)
{
    for (uint32_t turns = draw(5); turns > 0; turns--) {
        switch (draw(4)) {
        case 0:
            check_position(dir);
            break;
        case 1:
            rewinddir(dir);
            break;
        case 2: {
            struct dirent room, *entry = NULL;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
            int error = readdir_r(dir, &room, &entry);
#pragma GCC diagnostic pop
            say(" r %d %s", error, entry ? "one" : "end");
            break;
        }
        default:
            for (uint32_t i = draw(10); i > 0; i--) {
                (void)readdir(dir);
            }
        }
    }
    rewinddir(dir);
    read_rest(dir);
    struct dirent *end = readdir(dir);
    say(" %s", end ? "goes on" : "ends");
}

static void run_opendir(void)
{
    const char *path = percent(60) ? draw_tamed(true) : draw_path();
    say_path(path);
    if (!path) {
        return; /* libc reads it by itself */
    }
    errno = 0;
    DIR *dir = opendir(path);
    if (!dir) {
        say_error(errno);
        return;
    }
    say(" fd %d cloexec %d", dirfd(dir), fcntl(dirfd(dir), F_GETFD));
    play(dir);
    SAY_CALL(closedir(dir));
}

static void run_fdopendir(void)
{
    int fd = any_fd();
    int copy = percent(50) ? dup(fd) : openat(fd, ".", O_RDONLY | O_DIRECTORY);
    say(" %d %d", fd, copy);
    lseek(copy, 0, SEEK_SET); /* a stream begins where its descriptor is: the file system's own affair */
    errno = 0;
    DIR *dir = fdopendir(copy);
    if (!dir) {
        say_error(errno);
        close(copy);
        return;
    }
    say(" fd %s", dirfd(dir) == copy ? "kept" : "other");
    play(dir);
    SAY_CALL(closedir(dir));
    say(" closed %d", fcntl(copy, F_GETFD));
}

static int not_dots(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void run_scandir(void)
{
    struct dirent **list = NULL;
    int at;
    const char *path = draw_at(&at);
    if (!path) {
        return; /* libc reads it by itself */
    }
    bool filter = percent(50);
    say(" %d", at);
    say_path(path);
    int count =
        CALL(scandirat(at, path, &list, filter ? not_dots : NULL, percent(80) ? alphasort : versionsort));
    say(" = %d", count);
    if (count < 0) {
        say_error(errno);
    }
    uint64_t hash = 0;
    for (int i = 0; i < count; i++) {
        hash = hash * 31 + hash_of(list[i]->d_name, strlen(list[i]->d_name));
        free(list[i]);
    }
    if (count >= 0) {
        free(list);
    }
    say(" %016llx", (unsigned long long)hash);
}

static void run_getdents(void)
{
    struct record {
        uint64_t ino;
        int64_t offset;
        unsigned short length;
        unsigned char type;
        char name[];
    };
    int fd = percent(85) ? folder_fd() : any_fd();
    size_t room = percent(80) ? 512 + draw(40000) : draw(40);
    lseek(fd, 0, SEEK_SET); /* whether a stream of a dup shares it is not told */
    say(" %d %zu", fd, room < 40 ? room : 0);
    ssize_t got;
    bool raw = percent(50);
    while ((got = raw ? CALL(syscall(SYS_getdents64, fd, place(), room))
                      : CALL(getdents64(fd, place(), room))) > 0) {
        for (ssize_t at = 0; at < got;) {
            const struct record *record = (const struct record *)(place() + at);
            if (strcmp(record->name, "data") != 0) { /* of its parent: only opendir shows a map there */
                add(record->name, record->type);
            }
            at += record->length;
        }
    }
    say_result(got);
    if (room >= 512) {
        say_names(); /* how many fit in less is a matter of their order */
    }
    seen.count = 0;
}

const struct op folder_ops[] = {{"opendir", 45, run_opendir},
                                {"fdopendir", 20, run_fdopendir},
                                {"scandir", 15, run_scandir},
                                {"getdents", 15, run_getdents},
                                {0}};
