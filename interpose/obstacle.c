#include "interpose/obstacle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "interpose/sys.h"

#define SCRIPT_LEVELS 4 /* `#!` lines followed; the kernel gives up behind the fourth too */

const char hr_obstacle_static[] = "static program";
const char hr_obstacle_foreign[] = "program of another architecture";
const char hr_obstacle_libc[] = "program of another libc";
const char hr_obstacle_setuid[] = "setuid program";

static long read_at(void *source, void *buffer, size_t size, uint64_t offset)
{
    if (offset > INT64_MAX) {
        return -EINVAL;
    }
    return HR_SYS4(SYS_pread64, *(const int *)source, buffer, size, offset);
}

static bool stat_at(int dirfd, const char *path, int flags, struct stat *ret)
{
    return HR_SYS4(SYS_newfstatat, dirfd, path, ret, flags) == 0;
}

static bool same_file(const char *a, const char *b)
{
    struct stat a_stat, b_stat;
    return strcmp(a, b) == 0 || (stat_at(AT_FDCWD, a, 0, &a_stat) && stat_at(AT_FDCWD, b, 0, &b_stat) &&
                                 a_stat.st_dev == b_stat.st_dev && a_stat.st_ino == b_stat.st_ino);
}

/* The loader drops a preload with a path from LD_PRELOAD when an exec changes who the process is. */
static bool changes_identity(const struct stat *stat)
{
    if ((stat->st_mode & S_ISUID) && stat->st_uid != (uid_t)HR_SYS0(SYS_geteuid)) {
        return true;
    }
    return (stat->st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) &&
           stat->st_gid != (gid_t)HR_SYS0(SYS_getegid);
}

/* Opens only regular files: opening anything else may wait or do something. */
static bool identify(int dirfd, const char *path, struct hr_elf *ret_elf, struct stat *ret_stat)
{
    int flags = path[0] == '\0' ? AT_EMPTY_PATH : 0;
    if (!stat_at(dirfd, path, flags, ret_stat) || !S_ISREG(ret_stat->st_mode)) {
        return false;
    }
    long fd = dirfd;
    if (path[0] != '\0') {
        fd = HR_SYS4(SYS_openat, dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY, 0);
        if (fd < 0) {
            return false;
        }
    }
    int source = (int)fd;
    hr_elf_identify(read_at, &source, ret_elf);
    if (path[0] != '\0') {
        HR_SYS1(SYS_close, fd);
    }
    return true;
}

const char *hr_obstacle(int dirfd, const char *path, char ret_file[HR_ELF_INTERP_MAX])
{
    struct hr_elf elf;
    struct stat stat;
    char interpreter[HR_ELF_INTERP_MAX] = "";
    bool known = identify(dirfd, path, &elf, &stat);
    for (int level = 0; known && elf.kind == HR_ELF_SCRIPT; level++) {
        memcpy(interpreter, elf.interp, sizeof(interpreter));
        path = interpreter;
        known = level < SCRIPT_LEVELS && identify(AT_FDCWD, path, &elf, &stat);
    }
    if (ret_file) {
        memcpy(ret_file, interpreter, sizeof(interpreter));
    }
    if (!known) {
        return NULL;
    }
    const char *own = hr_elf_own_interp();
    switch (elf.kind) {
    case HR_ELF_STATIC:
        /* The loader itself, called with a program as its argument, preloads like any other start. */
        return own && path[0] != '\0' && same_file(path, own) ? NULL : hr_obstacle_static;
    case HR_ELF_FOREIGN:
        return hr_obstacle_foreign;
    case HR_ELF_DYNAMIC:
        if (own && !same_file(elf.interp, own)) {
            return hr_obstacle_libc;
        }
        return changes_identity(&stat) ? hr_obstacle_setuid : NULL;
    default:
        return NULL;
    }
}
