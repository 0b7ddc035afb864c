#include "fetch/list/files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fetch/base/clock.h"

void hr_list_tree_prefix(uint64_t tree_id, char ret_name[HR_LIST_NAME_BYTES])
{
    (void)snprintf(ret_name, HR_LIST_NAME_BYTES, "%016" PRIx64 "-", tree_id);
}

void hr_list_names_name(uint64_t tree_id, uint32_t gen, char ret_name[HR_LIST_NAME_BYTES])
{
    (void)snprintf(ret_name, HR_LIST_NAME_BYTES, "%016" PRIx64 "-%08" PRIx32 ".names", tree_id, gen);
}

void hr_list_boot_name(uint64_t tree_id, uint32_t gen, uint64_t boot, const char *ending,
                       char ret_name[HR_LIST_NAME_BYTES])
{
    (void)snprintf(ret_name, HR_LIST_NAME_BYTES, "%016" PRIx64 "-%08" PRIx32 "-%016" PRIx64 ".%s", tree_id,
                   gen, boot, ending);
}

bool hr_list_names_parse(const char *name, uint64_t tree_id, uint32_t *ret_gen)
{
    char again[HR_LIST_NAME_BYTES];
    uint32_t gen;

    hr_list_tree_prefix(tree_id, again);
    if (strncmp(name, again, strlen(again)) != 0 || sscanf(name + strlen(again), "%8" SCNx32, &gen) != 1) {
        return false;
    }
    hr_list_names_name(tree_id, gen, again);
    if (strcmp(name, again) != 0) {
        return false;
    }
    *ret_gen = gen;
    return true;
}

int hr_list_write_error(int error)
{
    return error == EDQUOT || error == EFBIG ? -ENOSPC : -error;
}

int hr_list_dir_open(const char *index_dir)
{
    int fd = open(index_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

void hr_list_file_close(struct hr_list_file *file)
{
    if (file->private_name[0] != '\0') {
        (void)unlinkat(file->dir_fd, file->private_name, 0);
        file->private_name[0] = '\0';
    }
    if (file->fd >= 0) {
        (void)close(file->fd);
    }
    if (file->dir_fd >= 0) {
        (void)close(file->dir_fd);
    }
    file->fd = file->dir_fd = -1;
}

int hr_list_file_allocate(int fd, uint64_t bytes)
{
    int error;

    if (bytes > INT64_MAX) {
        return -ENOSPC;
    }
    do {
        error = posix_fallocate(fd, 0, (off_t)bytes);
    } while (error == EINTR);
    return error != 0 ? hr_list_write_error(error) : 0;
}

/* Where the file system knows no nameless files (some overlays and network ones). */
static int unnamed_by_unlink(const char *dir)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/scratch.XXXXXX", dir) >= (int)sizeof(path)) {
        return -ENAMETOOLONG;
    }
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) {
        return hr_list_write_error(errno);
    }
    (void)unlink(path);
    return fd;
}

int hr_list_file_unnamed(const char *dir, uint64_t bytes)
{
    int fd = open(dir, O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        fd = errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL ? unnamed_by_unlink(dir)
                                                                       : hr_list_write_error(errno);
    }
    if (fd < 0) {
        return fd;
    }
    int rc = hr_list_file_allocate(fd, bytes);
    if (rc < 0) {
        (void)close(fd);
        return rc;
    }
    return fd;
}

int hr_list_file_new(const char *index_dir, const char *final_name, uint64_t bytes, struct hr_list_file *ret)
{
    struct hr_list_file file = HR_LIST_FILE_NONE;
    char name[HR_LIST_NAME_BYTES];

    int rc = hr_list_dir_open(index_dir);
    if (rc < 0) {
        return rc;
    }
    file.dir_fd = rc;
    (void)snprintf(file.final_name, sizeof(file.final_name), "%s", final_name);
    (void)snprintf(name, sizeof(name), "%.60s.%016" PRIx64, final_name, hr_random_u64());
    file.fd = openat(file.dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file.fd < 0) {
        rc = hr_list_write_error(errno);
        goto failed;
    }
    memcpy(file.private_name, name, sizeof(file.private_name));
    rc = hr_list_file_allocate(file.fd, bytes);
    if (rc < 0) {
        goto failed;
    }
    *ret = file;
    return 0;
failed:
    hr_list_file_close(&file);
    return rc;
}

int hr_list_file_commit(struct hr_list_file *file, mode_t mode, bool lasting)
{
    if (fchmod(file->fd, mode) < 0 || (lasting && fsync(file->fd) < 0) ||
        renameat(file->dir_fd, file->private_name, file->dir_fd, file->final_name) < 0) {
        return hr_list_write_error(errno);
    }
    file->private_name[0] = '\0';
    /* The name's own way to the disk: without it the file may be gone after a power cut, never wrong. */
    if (lasting && fsync(file->dir_fd) < 0) {
        int error = errno;
        (void)unlinkat(file->dir_fd, file->final_name, 0);
        return hr_list_write_error(error);
    }
    return 0;
}
