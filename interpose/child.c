#include "interpose/child.h"

#include <fcntl.h>

#include "interpose/context.h"
#include "interpose/cwd.h"
#include "interpose/elf.h"
#include "interpose/path.h"
#include "interpose/tiny.h"
#include "interpose/inner.h"

#define SCRIPT_LEVELS 4 /* `#!` lines followed; the kernel gives up behind the fourth too */
/* Copied to the caller's stack, which may be a thread's of 128 KiB: 4,096 variables and a long LD_PRELOAD. */
#define COPY_BYTES_MAX (40 * 1024)
#define DEFAULT_SEARCH "/bin:/usr/bin" /* what libc takes when PATH is unset */

/* The one obstacle that LD_PRELOAD does not mind: such a program ignores it, and its own children (of
 * valgrind, of an init in a container) may be preloaded again. */
static const char static_program[] = "static program";

static const char own_file[] = "libheadrace.so";
static const char preload_name[] = "LD_PRELOAD=";

/* ---- LD_PRELOAD
 * -------------------------------------------------------------------------------------------------- */

static bool is_separator(char c)
{
    return c == ' ' || c == ':';
}

static bool names_us(const char *item, size_t len)
{
    const size_t own_len = sizeof(own_file) - 1;
    return len >= own_len && memcmp(item + len - own_len, own_file, own_len) == 0 &&
           (len == own_len || item[len - own_len - 1] == '/');
}

bool hr_child_without_us(const char *value, char *out)
{
    bool found = false;
    size_t used = 0;
    while (*value) {
        size_t len = 0;
        while (value[len] && !is_separator(value[len])) {
            len++;
        }
        if (names_us(value, len)) {
            found = true;
        } else if (len > 0) {
            if (used > 0) {
                out[used++] = ':';
            }
            memcpy(out + used, value, len);
            used += len;
        }
        value += len;
        value += *value != '\0';
    }
    out[used] = '\0';
    return found;
}

static const char *preload_value(const char *variable)
{
    return strncmp(variable, preload_name, sizeof(preload_name) - 1) == 0
               ? variable + sizeof(preload_name) - 1
               : NULL;
}

/* Bytes of a copy without us, 0 when we are not named in it. */
static size_t copy_bytes(char *const envp[])
{
    size_t count = 1, text = 0;
    bool named = false;
    for (char *const *at = envp; at && *at; at++, count++) {
        const char *value = preload_value(*at);
        if (value) {
            text += strlen(*at) + 1;
            named = named || strstr(value, own_file);
        }
    }
    return named ? count * sizeof(char *) + text : 0;
}

/* Our object without maps serves nothing. */
static bool names_maps(char *const envp[])
{
    static const char name[] = "HEADRACE_MAP=";
    for (char *const *at = envp; at && *at; at++) {
        if (strncmp(*at, name, sizeof(name) - 1) == 0 && (*at)[sizeof(name) - 1] != '\0') {
            return true;
        }
    }
    return false;
}

void hr_child_environment(char **copy, char *const envp[])
{
    size_t count = 1;
    for (char *const *at = envp; *at; at++) {
        count++;
    }
    char *text = (char *)(copy + count);
    for (; *envp; envp++) {
        const char *value = preload_value(*envp);
        char *changed = text + sizeof(preload_name) - 1;
        if (!value || !hr_child_without_us(value, changed)) {
            *copy++ = *envp;
        } else if (changed[0] != '\0') {
            memcpy(text, preload_name, sizeof(preload_name) - 1);
            *copy++ = text;
            text = changed + strlen(changed) + 1;
        }
    }
    *copy = NULL;
}

/* ---- the program
 * ------------------------------------------------------------------------------------------------- */

static long read_at(void *source, void *buffer, size_t size, uint64_t offset)
{
    if (offset > INT64_MAX) {
        return -EINVAL;
    }
    return hr_sys(SYS_pread64, *(const int *)source, (long)buffer, (long)size, (long)offset, 0, 0);
}

static bool stat_at(int dirfd, const char *path, int flags, struct stat *ret)
{
    return hr_sys(SYS_newfstatat, dirfd, (long)path, (long)ret, flags, 0, 0) == 0;
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
    if ((stat->st_mode & S_ISUID) && stat->st_uid != (uid_t)hr_sys(SYS_geteuid, 0, 0, 0, 0, 0, 0)) {
        return true;
    }
    return (stat->st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) &&
           stat->st_gid != (gid_t)hr_sys(SYS_getegid, 0, 0, 0, 0, 0, 0);
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
        fd = hr_sys(SYS_openat, dirfd, (long)path, O_RDONLY | O_CLOEXEC | O_NOCTTY, 0, 0, 0);
        if (fd < 0) {
            return false;
        }
    }
    int source = (int)fd;
    hr_elf_identify(read_at, &source, ret_elf);
    if (path[0] != '\0') {
        hr_sys(SYS_close, fd, 0, 0, 0, 0, 0);
    }
    return true;
}

/* Why the program cannot be preloaded; NULL: it can, or there is no telling. */
static const char *obstacle(int dirfd, const char *path)
{
    struct hr_elf elf;
    struct stat stat;
    char interpreter[HR_ELF_INTERP_MAX];
    if (!identify(dirfd, path, &elf, &stat)) {
        return NULL;
    }
    for (int level = 0; elf.kind == HR_ELF_SCRIPT; level++) {
        memcpy(interpreter, elf.interp, sizeof(interpreter));
        path = interpreter;
        if (level == SCRIPT_LEVELS || !identify(AT_FDCWD, path, &elf, &stat)) {
            return NULL;
        }
    }
    const char *own = hr_elf_own_interp();
    switch (elf.kind) {
    case HR_ELF_STATIC:
        /* The loader itself, called with a program as its argument, preloads like any other start. */
        return own && path[0] != '\0' && same_file(path, own) ? NULL : static_program;
    case HR_ELF_FOREIGN:
        return "program of another architecture";
    case HR_ELF_DYNAMIC:
        if (own && !same_file(elf.interp, own)) {
            return "program of another libc";
        }
        return changes_identity(&stat) ? "setuid program" : NULL;
    default:
        return NULL;
    }
}

/* ---- the verdict
 * ------------------------------------------------------------------------------------------------- */

static void say_invisible(const char *path, const char *why)
{
    static bool said;
    if (!__atomic_exchange_n(&said, true, __ATOMIC_RELAXED)) {
        hr_say(path, " cannot be preloaded (", why, "): paths under ", hr_maps.map[0].path,
               hr_maps.count > 1 ? " and the other maps are" : " are", " not visible to it", NULL);
    }
}

static bool cwd_is_mapped(char *path, size_t room)
{
    unsigned map;
    uint32_t root;
    return hr_cwd_matters() && hr_cwd_read(path, room) > 0 && hr_path_under(path, &map, &root);
}

long hr_child_judge(int dirfd, const char *path, char *const envp[], bool *ret_hooked)
{
    char cwd[HR_PLACE_MAX];
    *ret_hooked = true;
    if (HR_LIKELY(!hr_active)) {
        return 0;
    }
    size_t bytes = copy_bytes(envp);
    *ret_hooked = bytes > 0 && names_maps(envp);
    if (bytes == 0 && !hr_cwd_matters()) {
        return 0;
    }
    const char *why = obstacle(dirfd, path);
    if (!why) {
        return 0;
    }
    *ret_hooked = false;
    if (cwd_is_mapped(cwd, sizeof(cwd))) {
        hr_say(path, " cannot be preloaded (", why, "): it is not started in ", cwd,
               ", which it could not see", NULL);
        return -EACCES;
    }
    if (bytes == 0 || bytes > COPY_BYTES_MAX) {
        return 0;
    }
    say_invisible(path, why);
    return why == static_program ? 0 : (long)bytes;
}

bool hr_child_is_program(int dirfd, const char *path)
{
    struct stat stat;
    return stat_at(dirfd, path, path[0] == '\0' ? AT_EMPTY_PATH : 0, &stat) && S_ISREG(stat.st_mode) &&
           (stat.st_mode & (S_IXUSR | S_IXGRP | S_IXOTH));
}

/* ---- PATH
 * -------------------------------------------------------------------------------------------------------- */

static bool is_runnable(const char *path)
{
    struct stat stat;
    return stat_at(AT_FDCWD, path, 0, &stat) && S_ISREG(stat.st_mode) &&
           hr_sys(SYS_faccessat, AT_FDCWD, (long)path, X_OK, 0, 0, 0) == 0;
}

int hr_child_search(const char *file, const char *search, char *out, size_t room)
{
    size_t file_len = strlen(file);
    if (file_len == 0) {
        return -ENOENT;
    }
    if (file_len + 1 > room) {
        return -ENAMETOOLONG;
    }
    if (memchr(file, '/', file_len)) {
        memcpy(out, file, file_len + 1);
        return 0;
    }
    const char *at = search ? search : DEFAULT_SEARCH;
    for (;;) {
        size_t len = 0;
        while (at[len] && at[len] != ':') {
            len++;
        }
        /* An empty element is the working directory. */
        if (len + 1 + file_len + 1 <= room) {
            memcpy(out, at, len);
            out[len] = '/';
            memcpy(out + len + (len > 0), file, file_len + 1);
            if (is_runnable(out)) {
                return 0;
            }
        }
        if (!at[len]) {
            return -ENOENT;
        }
        at += len + 1;
    }
}
