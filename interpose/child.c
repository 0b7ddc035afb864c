#include "interpose/child.h"

#include <fcntl.h>

#include "interpose/context.h"
#include "interpose/cwd.h"
#include "interpose/obstacle.h"
#include "interpose/path.h"
#include "interpose/tiny.h"
#include "interpose/inner.h"

/* Copied to the caller's stack, which may be a thread's of 128 KiB: 4,096 variables and a long LD_PRELOAD. */
#define COPY_BYTES_MAX (40 * 1024)
#define DEFAULT_SEARCH "/bin:/usr/bin" /* what libc takes when PATH is unset */

static const char own_file[] = "libheadrace.so";
static const char preload_name[] = "LD_PRELOAD=";

/* ---- LD_PRELOAD ---- */

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

/* ---- the program ---- */

static bool stat_at(int dirfd, const char *path, int flags, struct stat *ret)
{
    return hr_sys(SYS_newfstatat, dirfd, (long)path, (long)ret, flags, 0, 0) == 0;
}

/* ---- the verdict ---- */

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
    bool inside;
    return hr_cwd_matters() && hr_cwd_read(path, room, &inside) > 0 && inside;
}

long hr_child_judge(int dirfd, const char *path, char *const envp[], bool *ret_hooked)
{
    char cwd[HR_PLACE_MAX];
    *ret_hooked = true;
    if (HR_LIKELY(!hr_active) || !path) {
        return 0;
    }
    size_t bytes = copy_bytes(envp);
    *ret_hooked = bytes > 0 && names_maps(envp);
    if (bytes == 0 && !hr_cwd_matters()) {
        return 0;
    }
    const char *why = hr_obstacle(dirfd, path, NULL);
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
    /* A static program ignores LD_PRELOAD, and its own children (of valgrind, of an init in a container) may
     * be preloaded again. */
    return why == hr_obstacle_static ? 0 : (long)bytes;
}

bool hr_child_is_program(int dirfd, const char *path)
{
    struct stat stat;
    return stat_at(dirfd, path, path[0] == '\0' ? AT_EMPTY_PATH : 0, &stat) && S_ISREG(stat.st_mode) &&
           (stat.st_mode & (S_IXUSR | S_IXGRP | S_IXOTH));
}

/* ---- PATH ---- */

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
