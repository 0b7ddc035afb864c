/* Stand-in directories: made component by component, never through a symlink. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fetch/base/cleanup.h"
#include "fetch/cache/inside.h"

#define STANDIN_MODE 0111 /* an unhooked readdir is EACCES, not an empty directory */
#define MAKING_MODE 0311  /* for the moment of a mkdir inside; still not readable */

static int make_in(int parent_fd, const char *name)
{
    if (mkdirat(parent_fd, name, STANDIN_MODE) < 0) {
        return -errno;
    }
    /* Whatever the umask left. */
    return fchmodat(parent_fd, name, STANDIN_MODE, 0) < 0 ? -errno : 0;
}

/* Makes `name` in the folder parent_fd, which is `parent_name` of grand_fd (-1: the folder dirs, ours to
 * write). */
static int make_one(int grand_fd, const char *parent_name, int parent_fd, const char *name)
{
    int r = make_in(parent_fd, name);
    if (r == -EACCES && grand_fd >= 0) {
        if (fchmodat(grand_fd, parent_name, MAKING_MODE, 0) < 0) {
            return -errno;
        }
        r = make_in(parent_fd, name);
        if (fchmodat(grand_fd, parent_name, STANDIN_MODE, 0) < 0 && !r) {
            r = -errno;
        }
    }
    return r == -EEXIST ? 0 : r;
}

/* The next component of path: its length, 0 at the end, or -EINVAL for what cannot be a name. */
static int next_component(const char *path, size_t len, char name[HR_NAME_BYTES_MAX + 1])
{
    const char *slash = memchr(path, '/', len);
    size_t name_len = slash ? (size_t)(slash - path) : len;
    if (!len) {
        return 0;
    }
    if (!name_len || name_len > HR_NAME_BYTES_MAX || (slash && name_len + 1 == len) ||
        memchr(path, '\0', name_len)) {
        return -EINVAL;
    }
    memcpy(name, path, name_len);
    name[name_len] = '\0';
    return strcmp(name, ".") && strcmp(name, "..") ? (int)name_len : -EINVAL;
}

static int check_path(const char *path, size_t len)
{
    char name[HR_NAME_BYTES_MAX + 1];
    if (len > HR_KEY_MAX) {
        return -EINVAL;
    }
    while (len) {
        int got = next_component(path, len, name);
        if (got < 0) {
            return got;
        }
        size_t step = (size_t)got < len ? (size_t)got + 1 : (size_t)got;
        path += step;
        len -= step;
    }
    return 0;
}

static int open_folder(int at_fd, const char *name)
{
    int fd = openat(at_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int make_path(int dirs_fd, uint64_t map_hash, const char *path, size_t len)
{
    char name[HR_NAME_BYTES_MAX + 1];
    char parent_name[HR_NAME_BYTES_MAX + 1] = "";
    hr_cleanup_fd int grand_fd = -1;
    hr_cleanup_fd int parent_fd = hr_steal_fd(dirs_fd);
    (void)snprintf(name, sizeof(name), "%016" PRIx64, map_hash);
    for (;;) {
        int r = make_one(grand_fd, parent_name, parent_fd, name);
        int fd = r < 0 ? r : open_folder(parent_fd, name);
        if (fd < 0) {
            return fd;
        }
        hr_close_p(&grand_fd);
        grand_fd = parent_fd;
        parent_fd = fd;
        memcpy(parent_name, name, sizeof(name));
        int got = next_component(path, len, name);
        if (got <= 0) {
            return got;
        }
        size_t step = (size_t)got < len ? (size_t)got + 1 : (size_t)got;
        path += step;
        len -= step;
    }
}

int hr_cache_standin(struct hr_cache *cache, uint64_t map_hash, const char *path, uint32_t path_len)
{
    char dirs[PATH_MAX];
    int r = check_path(path, path_len);
    if (r < 0) {
        return r;
    }
    (void)snprintf(dirs, sizeof(dirs), "%s/dirs", cache->dir);
    int dirs_fd = open_folder(AT_FDCWD, dirs);
    if (dirs_fd == -ENOENT) {
        r = hr_folders_remake(cache);
        dirs_fd = r < 0 ? r : open_folder(AT_FDCWD, dirs);
    }
    return dirs_fd < 0 ? dirs_fd : make_path(dirs_fd, map_hash, path, path_len);
}
