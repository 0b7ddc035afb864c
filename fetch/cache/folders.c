/* The folders below cache_dir, and what lies where in them. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fetch/base/cleanup.h"
#include "fetch/cache/inside.h"

#define SHELVES 256 /* objects/00 .. objects/ff: a thousand files a folder at 256 k objects */
/* Groups that shelves lie in: finding a new place takes ext4 170 us, one beside another folder 24. */
#define SEATS 16

void hr_object_path(const char *dir, uint64_t file_id, char ret_path[PATH_MAX])
{
    (void)snprintf(ret_path, PATH_MAX, "%s/objects/%02x/%016" PRIx64, dir, (unsigned)(file_id & 0xff),
                   file_id);
}

static int folder_new(const char *path)
{
    if (mkdir(path, 0700) < 0) {
        return errno == EEXIST ? 0 : -errno;
    }
    return chmod(path, 0700) < 0 ? -errno : 0; /* whatever the umask */
}

int hr_shelf_make(const struct hr_cache *cache, uint64_t file_id)
{
    char seat[PATH_MAX];
    char fresh[PATH_MAX];
    char shelf[PATH_MAX];
    unsigned number = (unsigned)(file_id % SHELVES);
    /* The name is what ext4 chooses the place by. */
    uint64_t seat_name = hr_mix64(cache->seed + number % SEATS);
    (void)snprintf(seat, PATH_MAX, "%s/spool/%016" PRIx64, cache->dir, seat_name);
    (void)snprintf(shelf, PATH_MAX, "%s/objects/%02x", cache->dir, number);
    (void)snprintf(fresh, PATH_MAX, "%s/spool/%016" PRIx64 "/%02x", cache->dir, seat_name, number);
    int r = folder_new(fresh);
    if (r == -ENOENT) {
        r = folder_new(seat);
        r = r < 0 ? r : folder_new(fresh);
    }
    if (!r && rename(fresh, shelf) < 0) {
        r = -errno;
        (void)rmdir(fresh);
    }
    /* Another writer made it: took ours there, or has a file in its own. */
    return (r == -ENOENT && !access(shelf, F_OK)) || r == -ENOTEMPTY || r == -EEXIST ? 0 : r;
}

/* Is a folder that is there ours? -ENOENT: it is not there. */
static int folder_check(int parent_fd, const char *name)
{
    struct stat st;
    if (fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return -errno;
    }
    if (!S_ISDIR(st.st_mode)) {
        return -ENOTDIR;
    }
    if (st.st_uid != geteuid()) {
        return -EPERM;
    }
    /* A umask or a person may have left other bits; without ours nothing works, with others' it is not
     * private. */
    if ((st.st_mode & 0777) != 0700 && fchmodat(parent_fd, name, 0700, 0) < 0) {
        return -errno;
    }
    return 0;
}

/* Made 0700, or there already and ours. */
static int folder_make(int parent_fd, const char *name)
{
    int r = folder_check(parent_fd, name);
    if (r == -ENOENT) {
        r = mkdirat(parent_fd, name, 0700) < 0 && errno != EEXIST ? -errno : folder_check(parent_fd, name);
    }
    return r;
}

/* Folders made in the spool shall not lie near it, but each somewhere else. File systems that know no such
 * thing say so, and do not need it. */
static void spread(int dir_fd)
{
    int flags = 0;
    hr_cleanup_fd int fd = openat(dir_fd, "spool", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && !ioctl(fd, FS_IOC_GETFLAGS, &flags) && !(flags & FS_TOPDIR_FL)) {
        flags |= FS_TOPDIR_FL;
        (void)ioctl(fd, FS_IOC_SETFLAGS, &flags);
    }
}

int hr_folders_make(const char *dir, const char **ret_what)
{
    static const char *const names[] = {"spool", "records", "dirs", "objects"};
    hr_cleanup_fd int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const char *what = "";
    int r = dir_fd < 0 ? -errno : 0;
    for (size_t i = 0; !r && i < sizeof(names) / sizeof(names[0]); i++) {
        what = names[i];
        r = folder_make(dir_fd, names[i]);
    }
    if (!r) {
        spread(dir_fd);
        hr_cleanup_fd int objects_fd =
            openat(dir_fd, "objects", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r = objects_fd < 0 ? -errno : 0;
        for (unsigned i = 0; !r && i < SHELVES; i++) {
            char shelf[3] = {"0123456789abcdef"[i >> 4 & 0xf], "0123456789abcdef"[i & 0xf], '\0'};
            r = folder_check(objects_fd, shelf);
            r = r == -ENOENT ? 0 : r; /* made when its first file is */
        }
    }
    if (r < 0 && ret_what) {
        *ret_what = what;
    }
    return r;
}

int hr_folders_remake(struct hr_cache *cache)
{
    char message[256];
    int r = hr_cache_dir_check(cache->dir, message);
    if (!r) {
        r = hr_folders_make(cache->dir, NULL);
    }
    if (!r) {
        atomic_store_explicit(&cache->remade, true, memory_order_release);
    }
    return r;
}

int hr_folders_probe(const char *dir, uint64_t *ret_dev)
{
    char path[PATH_MAX];
    struct stat st;
    (void)snprintf(path, sizeof(path), "%s/spool/probe", dir);
    (void)unlink(path);
    hr_cleanup_fd int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return -errno;
    }
    int r = fstat(fd, &st) < 0 ? -errno : 0;
    (void)unlink(path);
    if (!r) {
        *ret_dev = st.st_dev;
    }
    return r;
}

bool hr_object_matches(const struct hr_object *object, const struct stat *st, uint64_t dev)
{
    return S_ISREG(st->st_mode) && (st->st_mode & 07777) == hr_object_mode(object) &&
           st->st_uid == geteuid() && st->st_dev == dev && st->st_ino == object->ino &&
           (uint64_t)st->st_size == hr_object_file_bytes(object) && st->st_mtim.tv_sec == object->written_s &&
           (uint32_t)st->st_mtim.tv_nsec == object->nonce;
}
