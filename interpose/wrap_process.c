/* exec and posix_spawn. A program inside a map is a file of mode 0444: EACCES, as on any such file system.
 * Everything here may run in a vfork child: only the stack is written. */
#include <spawn.h>
#include <stdarg.h>

#include "interpose/child.h"
#include "interpose/door.h"
#include "interpose/face.h"
#include "interpose/spawn_actions.h"
#include "interpose/tiny.h"
#include "interpose/view.h"
#include "interpose/inner.h"

extern char **environ;

#define FILE_PATH_MAX (HR_PLACE_MAX + HR_NAME_BYTES_MAX + 1)

/* The environment that a child gets: envp itself or a copy on the caller's stack. */
#define CHILD_ENVIRONMENT(bytes, envp)                                                                       \
    ({                                                                                                       \
        char **given_envp = (char **)(envp);                                                                 \
        if ((bytes) > 0) {                                                                                   \
            given_envp = __builtin_alloca((size_t)(bytes));                                                  \
            hr_child_environment(given_envp, (envp));                                                        \
        }                                                                                                    \
        given_envp;                                                                                          \
    })

/* What a start of (dirfd, *path) answers at once (a negative errno), or how much its environment needs
 * copied. *ret_hooked: as in child.h; true as well where there is nothing to start. */
static long judge(int dirfd, const char **path, char *const envp[], struct hr_place *place, bool *ret_hooked)
{
    struct hr_object object;
    *ret_hooked = true;
    if (hr_door_target(dirfd, path, place)) {
        int error = hr_view_find(place, &object);
        return error < 0 ? error : -EACCES;
    }
    long bytes = hr_child_judge(dirfd, *path, envp, ret_hooked);
    if (!*ret_hooked && hr_faces_any()) {
        *ret_hooked = !hr_child_is_program(dirfd, *path);
    }
    return bytes;
}

/* The same for a name that is searched in PATH. */
static HR_NOINLINE long judge_searched(const char *file, char *const envp[], bool *ret_hooked)
{
    char path[FILE_PATH_MAX];
    return hr_child_search(file, hr_env("PATH"), path, sizeof(path)) < 0
               ? 0
               : hr_child_judge(AT_FDCWD, path, envp, ret_hooked);
}

/* A name with a slash is not searched. */
static long judge_file(const char **file, char *const envp[], struct hr_place *place, bool *ret_hooked)
{
    *ret_hooked = true;
    if (HR_LIKELY(!hr_active)) {
        return 0;
    }
    return strchr(*file, '/') ? judge(AT_FDCWD, file, envp, place, ret_hooked)
                              : judge_searched(*file, envp, ret_hooked);
}

/* ---- exec ---- */

static HR_NOINLINE long hand_over(long bytes)
{
    int error = hr_face_materialise_inherited();
    if (error) {
        hr_say("a program that is not preloaded cannot be given an open large object", NULL);
    }
    return error ? error : bytes;
}

/* A program without our hooks gets plain files of the large objects that are open. */
static inline long before_exec(long bytes, bool hooked)
{
    return bytes < 0 || hooked || !hr_faces_any() ? bytes : hand_over(bytes);
}

int execve(const char *path, char *const argv[], char *const envp[])
{
    struct hr_place place;
    bool hooked;
    long bytes = judge(AT_FDCWD, &path, envp, &place, &hooked);
    bytes = before_exec(bytes, hooked);
    return bytes < 0 ? (int)hr_edge(bytes) : HR_REAL(execve)(path, argv, CHILD_ENVIRONMENT(bytes, envp));
}

int execv(const char *path, char *const argv[])
{
    return execve(path, argv, environ);
}

int execvpe(const char *file, char *const argv[], char *const envp[])
{
    struct hr_place place;
    bool hooked;
    long bytes = judge_file(&file, envp, &place, &hooked);
    bytes = before_exec(bytes, hooked);
    return bytes < 0 ? (int)hr_edge(bytes) : HR_REAL(execvpe)(file, argv, CHILD_ENVIRONMENT(bytes, envp));
}

int execvp(const char *file, char *const argv[])
{
    return execvpe(file, argv, environ);
}

int execveat(int dirfd, const char *path, char *const argv[], char *const envp[], int flags)
{
    struct hr_place place;
    bool hooked;
    long bytes = judge(dirfd, &path, envp, &place, &hooked);
    bytes = before_exec(bytes, hooked);
    if (bytes < 0) {
        return (int)hr_edge(bytes);
    }
    char **child_envp = CHILD_ENVIRONMENT(bytes, envp);
    return HR_REAL(execveat) ? HR_REAL(execveat)(dirfd, path, argv, child_envp, flags)
                             : (int)hr_edge(hr_sys(SYS_execveat, dirfd, (long)path, (long)argv,
                                                   (long)child_envp, flags, 0));
}

int fexecve(int fd, char *const argv[], char *const envp[])
{
    bool hooked;
    long bytes = hr_child_judge(fd, "", envp, &hooked);
    bytes = before_exec(bytes, hooked || !hr_faces_any() || !hr_child_is_program(fd, ""));
    return bytes < 0 ? (int)hr_edge(bytes) : HR_REAL(fexecve)(fd, argv, CHILD_ENVIRONMENT(bytes, envp));
}

/* The arguments of execl and its kin as an array on the caller's stack. E2BIG is the kernel's affair; what
 * int counts is more than any stack holds. */
#define COLLECT(arg, list, argv)                                                                             \
    do {                                                                                                     \
        size_t count = 1;                                                                                    \
        va_list counting;                                                                                    \
        va_copy(counting, list);                                                                             \
        for (const char *each = (arg); each; each = va_arg(counting, const char *)) {                        \
            count++;                                                                                         \
        }                                                                                                    \
        va_end(counting);                                                                                    \
        (argv) = __builtin_alloca(count * sizeof(char *));                                                   \
        (argv)[0] = (char *)(arg);                                                                           \
        for (size_t i = 1; i < count; i++) {                                                                 \
            (argv)[i] = va_arg(list, char *);                                                                \
        }                                                                                                    \
    } while (0)

int execl(const char *path, const char *arg, ...)
{
    char **argv;
    va_list list;
    va_start(list, arg);
    COLLECT(arg, list, argv);
    va_end(list);
    return execve(path, argv, environ);
}

int execlp(const char *file, const char *arg, ...)
{
    char **argv;
    va_list list;
    va_start(list, arg);
    COLLECT(arg, list, argv);
    va_end(list);
    return execvpe(file, argv, environ);
}

int execle(const char *path, const char *arg, ...)
{
    char **argv;
    va_list list;
    va_start(list, arg);
    COLLECT(arg, list, argv);
    char *const *envp = va_arg(list, char *const *);
    va_end(list);
    return execve(path, argv, envp);
}

/* ---- posix_spawn: the error is the return value ---- */

typedef int (*spawn_fn)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                        char *const[], char *const[]);

static int spawn(spawn_fn real, long bytes, bool hooked, pid_t *pid, const char *path,
                 const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
                 char *const argv[], char *const envp[])
{
    struct hr_spawn_actions ours;
    bytes = before_exec(bytes, hooked);
    int error = bytes < 0 ? (int)bytes : hr_spawn_actions_begin(actions, hooked, &ours);
    if (error < 0) {
        return -error;
    }
    /* A child that cannot be preloaded would see an empty directory there. */
    int result = bytes > 0 && ours.cwd_is_mapped
                     ? EACCES
                     : real(pid, path, ours.use, attributes, argv, CHILD_ENVIRONMENT(bytes, envp));
    hr_spawn_actions_end(&ours);
    return result;
}

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
    struct hr_place place;
    bool hooked;
    long bytes = judge(AT_FDCWD, &path, envp, &place, &hooked);
    return spawn(HR_REAL(posix_spawn), bytes, hooked, pid, path, actions, attributes, argv, envp);
}

int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
    struct hr_place place;
    bool hooked;
    long bytes = judge_file(&file, envp, &place, &hooked);
    return spawn(HR_REAL(posix_spawnp), bytes, hooked, pid, file, actions, attributes, argv, envp);
}
