/* The working directory: inside a map the kernel's is a stand-in directory, and the program is told the
 * mapped path. */
#define HR_HEAP_BY_CONTRACT /* getcwd(NULL, ...) and get_current_dir_name give memory to their caller */

#include <limits.h>

#include "interpose/cwd.h"
#include "interpose/door.h"
#include "interpose/standin.h"
#include "interpose/tiny.h"
#include "interpose/view.h"
#include "interpose/inner.h"

/* ---- chdir ---- */

static int enter(const struct hr_place *place)
{
    int fd = hr_view_standin(place, O_CLOEXEC);
    if (fd < 0) {
        return fd;
    }
    long result = hr_sys(SYS_fchdir, fd, 0, 0, 0, 0, 0);
    hr_standin_unmark(fd);
    hr_sys(SYS_close, fd, 0, 0, 0, 0, 0);
    return (int)result;
}

int chdir(const char *path)
{
    struct hr_place place;
    const char *given = path;
    int result = hr_door_target(AT_FDCWD, &path, &place) ? (int)hr_edge(enter(&place)) : HR_REAL(chdir)(path);
    if (HR_UNLIKELY(result < 0) && hr_way_missed(AT_FDCWD, given, &place)) {
        result = (int)hr_edge(enter(&place));
    }
    if (HR_UNLIKELY(hr_active) && result == 0) {
        hr_cwd_changed();
    }
    return result;
}

int fchdir(int fd)
{
    int result = HR_REAL(fchdir)(fd);
    if (HR_UNLIKELY(hr_active) && result == 0) {
        hr_cwd_changed();
    }
    return result;
}

/* Goes to the root inside libc, in a child that goes on with our memory. */
int daemon(int stay, int keep_open)
{
    int result = HR_REAL(daemon)(stay, keep_open);
    if (HR_UNLIKELY(hr_active) && result == 0 && !stay) {
        hr_cwd_changed();
    }
    return result;
}

/* Into a mount namespace: the kernel moves to its root. */
int setns(int fd, int type)
{
    int result = HR_REAL(setns)(fd, type);
    if (HR_UNLIKELY(hr_active) && result == 0) {
        hr_cwd_changed();
    }
    return result;
}

/* ---- getcwd ---- */

/* Asks the kernel, not our own copy: right in a vfork child and after a raw fchdir too. Length of the mapped
 * path in `out` (PATH_MAX bytes), 0: the working directory is nothing of ours. */
static size_t mapped_cwd(char *out)
{
    bool inside;
    int len = hr_cwd_read(out, PATH_MAX, &inside);
    return len > 0 && inside ? (size_t)len : 0;
}

static char *give(const char *path, size_t len, char *buffer, size_t size)
{
    if (buffer && size == 0) {
        errno = EINVAL;
        return NULL;
    }
    if (size > 0 && size <= len) {
        errno = ERANGE;
        return NULL;
    }
    char *out = buffer ? buffer : malloc(size > 0 ? size : len + 1);
    return out ? memcpy(out, path, len + 1) : NULL;
}

static HR_NOINLINE char *getcwd_active(char *buffer, size_t size)
{
    char path[PATH_MAX];
    size_t len = mapped_cwd(path);
    return len > 0 ? give(path, len, buffer, size) : HR_REAL(getcwd)(buffer, size);
}

/* hr_cwd_matters() alone decides whether the kernel is asked once more than without us. */
static inline bool may_be_mapped(void)
{
    return HR_UNLIKELY(hr_active) && hr_cwd_matters();
}

char *getcwd(char *buffer, size_t size)
{
    return may_be_mapped() ? getcwd_active(buffer, size) : HR_REAL(getcwd)(buffer, size);
}

char *__getcwd_chk(char *buffer, size_t size, size_t room)
{
    if (size > room || !may_be_mapped()) {
        return HR_REAL(__getcwd_chk)(buffer, size, room);
    }
    return getcwd_active(buffer, size);
}

/* getwd has no size: PATH_MAX is its contract. */
static HR_NOINLINE bool getwd_active(char *buffer, size_t room)
{
    char path[PATH_MAX];
    size_t len = buffer ? mapped_cwd(path) : 0;
    if (len == 0 || len >= room) {
        return false;
    }
    memcpy(buffer, path, len + 1);
    return true;
}

char *getwd(char *buffer)
{
    return may_be_mapped() && getwd_active(buffer, PATH_MAX) ? buffer : HR_REAL(getwd)(buffer);
}

char *__getwd_chk(char *buffer, size_t room)
{
    return may_be_mapped() && getwd_active(buffer, room) ? buffer : HR_REAL(__getwd_chk)(buffer, room);
}

/* PWD only where it names the same directory, as libc has it; in a map that is a question of text. */
static HR_NOINLINE char *current_dir_active(void)
{
    struct hr_place named;
    char path[PATH_MAX];
    size_t len = mapped_cwd(path);
    if (len == 0) {
        return HR_REAL(get_current_dir_name)();
    }
    const char *pwd = hr_env("PWD");
    if (pwd && pwd[0] == '/' && hr_path_find(AT_FDCWD, pwd, &named) && named.len == len &&
        memcmp(named.path, path, len) == 0) {
        return strdup(pwd);
    }
    return give(path, len, NULL, 0);
}

char *get_current_dir_name(void)
{
    return may_be_mapped() ? current_dir_active() : HR_REAL(get_current_dir_name)();
}
