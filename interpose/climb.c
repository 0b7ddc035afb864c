#include "interpose/climb.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "interpose/cwd.h"
#include "interpose/standin.h"
#include "interpose/sys.h"
#include "interpose/view.h"
#include "interpose/inner.h"

/* Why step->path, canonical and terminated, step->len bytes, is no directory of its map: -ENOENT or -ENOTDIR;
 * else, and where that cannot be told, 0. */
static int judge_mapped(struct hr_place *step, uint32_t root)
{
    struct hr_object object;
    step->rel = root + (step->path[root] == '/');
    step->must_be_dir = true;
    int error = step->rel < step->len ? hr_view_find(step, &object) : 0;
    return error == -ENOENT || error == -ENOTDIR ? error : 0;
}

HR_NOINLINE int hr_climb_enters(const char *path)
{
    struct hr_place step;
    uint32_t root;
    if (!hr_path_under(path, &step.map, &root)) {
        return 0;
    }
    step.len = (uint32_t)strlen(path);
    memcpy(step.path, path, step.len + 1);
    return judge_mapped(&step, root);
}

/* The same of any path. */
static int judge(struct hr_place *step, bool *ret_mapped)
{
    struct stat stat;
    uint32_t root;
    *ret_mapped = hr_path_under(step->path, &step->map, &root);
    if (!*ret_mapped) {
        long result = HR_SYS4(SYS_newfstatat, AT_FDCWD, step->path, &stat, 0);
        if (result == 0) {
            return S_ISDIR(stat.st_mode) ? 0 : -ENOTDIR;
        }
        bool lacks = result == -ENOTDIR || (result == -ENOENT && !hr_path_above(step->path, step->len));
        return lacks ? (int)result : 0;
    }
    return judge_mapped(step, root);
}

static size_t part_of(const char *path)
{
    size_t part = 0;
    while (path[part] && path[part] != '/') {
        part++;
    }
    return part;
}

HR_NOINLINE bool hr_climb_fails(size_t base_len, const char *path, struct hr_place *place)
{
    struct hr_place step;
    size_t len = base_len == 1 ? 0 : base_len, own = 0; /* own: names of the path's in it */
    memcpy(step.path, place->path, len);
    for (size_t part; *path; path += part + (path[part] == '/')) {
        part = part_of(path);
        if (part == 0 || (part == 1 && path[0] == '.')) {
            continue;
        }
        if (len + part + 2 > sizeof(step.path)) {
            return false;
        }
        if (part != 2 || path[0] != '.' || path[1] != '.') {
            step.path[len] = '/';
            memcpy(step.path + len + 1, path, part);
            len += part + 1;
            own++;
            continue;
        }
        step.path[len] = '\0';
        step.len = (uint32_t)len;
        bool mapped;
        int error = own > 0 && len + sizeof("/..") <= sizeof(place->path) ? judge(&step, &mapped) : 0;
        if (error) {
            /* A file of ours says it by itself, as a directory. */
            size_t tail = error == -ENOTDIR && mapped ? 0 : sizeof("/..") - 1;
            memcpy(place->path, step.path, len);
            memcpy(place->path + len, "/..", tail);
            place->path[len + tail] = '\0';
            place->len = (uint32_t)(len + tail);
            return true;
        }
        own -= own > 0;
        while (len > 0 && step.path[--len] != '/') {
        }
    }
    return false;
}

/* What follows a word at the start of the text, or NULL. */
static const char *after(const char *text, const char *word)
{
    size_t len = strlen(word);
    return text && strncmp(text, word, len) == 0 ? text + len : NULL;
}

static bool leads(int dirfd)
{
    struct hr_place place;
    return dirfd == AT_FDCWD ? hr_cwd_inside() : hr_standin_maybe(dirfd) && hr_path_of_fd(dirfd, &place);
}

/* "/proc/77/", where that is this process. */
static const char *behind_own_number(const char *path)
{
    const char *at = after(path, "/proc/");
    long number = 0;
    if (!at || *at < '1' || *at > '9') {
        return NULL;
    }
    for (; *at >= '0' && *at <= '9' && number <= INT_MAX; at++) {
        number = number * 10 + (*at - '0');
    }
    return *at == '/' && number == HR_SYS0(SYS_getpid) ? at + 1 : NULL;
}

HR_NOINLINE bool hr_climb_proc(const char *path, int *ret_dirfd, const char **ret_rest)
{
    const char *self = after(path, "/proc/self/");
    self = self ? self : after(path, "/proc/thread-self/");
    self = self ? self : behind_own_number(path);
    const char *rest = after(self, "cwd");
    int dirfd = AT_FDCWD;
    if (!rest) {
        const char *digits = after(self, "fd/");
        rest = digits ? digits : after(path, "/dev/fd/");
        if (!rest || *rest < '0' || *rest > '9' || (*rest == '0' && rest[1] >= '0' && rest[1] <= '9')) {
            return false;
        }
        for (dirfd = 0; *rest >= '0' && *rest <= '9' && dirfd < HR_STANDIN_MARKS; rest++) {
            dirfd = dirfd * 10 + (*rest - '0');
        }
    }
    if ((*rest != '/' && *rest != '\0') || !leads(dirfd)) {
        return false;
    }
    *ret_dirfd = dirfd;
    *ret_rest = rest;
    return true;
}
