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
#define SPOOL_FOLDER_IDS 256u
#define SPOOL_ABREAST 4u        /* as many as there are usual writer threads */
#define SPOOL_FOLDERS_KEPT 256u /* 65,536 ids: longer than a put takes */

void hr_object_path(const char *dir, uint64_t file_id, char ret_path[PATH_MAX])
{
    (void)snprintf(ret_path, PATH_MAX, "%s/objects/%02x/%016" PRIx64, dir, (unsigned)(file_id & 0xff),
                   file_id);
}

/* Ids i, i + SPOOL_ABREAST, ... of a block of ids share a folder: several are in use at a time, because
 * creating in one folder is one after the other in the kernel. */
static uint64_t spool_folder(uint64_t file_id)
{
    return file_id / (SPOOL_FOLDER_IDS * SPOOL_ABREAST) * SPOOL_ABREAST + file_id % SPOOL_ABREAST;
}

/* The name is what ext4 chooses the place by: another one in each life. */
static void folder_path(const struct hr_cache *cache, uint64_t folder, char path[PATH_MAX])
{
    (void)snprintf(path, PATH_MAX, "%s/spool/%016" PRIx64, cache->dir, hr_mix64(cache->seed + folder));
}

void hr_spool_path(const struct hr_cache *cache, uint64_t file_id, char ret_path[PATH_MAX])
{
    folder_path(cache, spool_folder(file_id), ret_path);
    size_t len = strlen(ret_path);
    (void)snprintf(ret_path + len, PATH_MAX - len, "/%016" PRIx64, file_id);
}

int hr_spool_folder_make(const struct hr_cache *cache, uint64_t file_id)
{
    char path[PATH_MAX];
    uint64_t folder = spool_folder(file_id);
    folder_path(cache, folder, path);
    if (mkdir(path, 0700) < 0 && errno != EEXIST) {
        return -errno;
    }
    if (chmod(path, 0700) < 0) {
        return -errno;
    }
    if (folder >= SPOOL_FOLDERS_KEPT) {
        folder_path(cache, folder - SPOOL_FOLDERS_KEPT, path);
        (void)rmdir(path); /* one with a slow put in it stays, until the next start */
    }
    return 0;
}

/* A folder of ours: made 0700, or there already and ours. Looked for first: 256 of them are there at every
 * start but one. */
static int folder_make(int parent_fd, const char *name)
{
    struct stat st;
    int r = fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
    if (r == -ENOENT) {
        r = mkdirat(parent_fd, name, 0700) < 0 && errno != EEXIST ? -errno : 0;
        if (!r && fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            r = -errno;
        }
    }
    if (r < 0) {
        return r;
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
            r = folder_make(objects_fd, shelf);
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
