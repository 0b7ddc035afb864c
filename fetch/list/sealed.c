/* Names files that are on disk already: found, checked, swept. */
#include "fetch/list/publish.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fetch/base/cleanup.h"
#include "fetch/base/digest.h"
#include "fetch/list/files.h"

#define READ_BYTES (1u << 20) /* one pread of the checksum's way through the file */

static void closedir_p(DIR **dir)
{
    if (*dir != NULL) {
        (void)closedir(*dir);
    }
}

/* NULL: errno tells. */
static DIR *open_index_dir(const char *index_dir)
{
    int fd = hr_list_dir_open(index_dir);
    if (fd < 0) {
        errno = -fd;
        return NULL;
    }
    DIR *stream = fdopendir(fd);
    if (stream == NULL) {
        int error = errno;
        (void)close(fd);
        errno = error;
    }
    return stream;
}

/* ---- checking ---- */

/* Through pread, so that a bad disk is an error and no signal. */
static int body_checksum(int fd, uint64_t bytes, const _Atomic bool *stop, uint64_t *ret_crc)
{
    hr_cleanup_free char *buffer = malloc(READ_BYTES);
    uint64_t crc = 0;

    if (buffer == NULL) {
        return -ENOMEM;
    }
    for (uint64_t at = sizeof(struct hr_names); at < bytes;) {
        if (stop != NULL && atomic_load_explicit(stop, memory_order_relaxed)) {
            return -ECANCELED;
        }
        size_t wanted = bytes - at < READ_BYTES ? (size_t)(bytes - at) : READ_BYTES;
        ssize_t got = pread(fd, buffer, wanted, (off_t)at);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0 && errno == EIO) {
            return -EBADMSG; /* the disk has lost it */
        }
        if (got <= 0) {
            return got < 0 ? -errno : -EBADMSG;
        }
        crc = hr_crc64nvme(crc, buffer, (size_t)got);
        at += (uint64_t)got;
    }
    *ret_crc = crc;
    return 0;
}

static int check_header(int fd, uint64_t tree_id, uint32_t gen, uint64_t bytes, struct hr_names *ret)
{
    struct hr_names header;

    if (pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header)) {
        return -EBADMSG;
    }
    struct hr_names bare = header;
    bare.header_checksum = 0;
    if (header.header_checksum != hr_crc64nvme(0, &bare, sizeof(bare)) || header.magic != HR_MAGIC_NAMES ||
        header.abi_version != HR_ABI_VERSION || header.tree_id != tree_id || header.gen != gen ||
        header.file_bytes != bytes) {
        return -EBADMSG;
    }
    *ret = header;
    return 0;
}

/* Looks at the header and maps. 0; -EBADMSG: damaged; else the system had no means to tell. */
static int adopt_file(int fd, uint64_t tree_id, uint32_t gen, struct hr_index *ret_index)
{
    struct stat st;
    struct hr_names header;

    if (fstat(fd, &st) < 0) {
        return -errno;
    }
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 07777) != 0400 ||
        st.st_size < (off_t)sizeof(header)) {
        return -EBADMSG;
    }
    int rc = check_header(fd, tree_id, gen, (uint64_t)st.st_size, &header);
    if (rc < 0) {
        return rc;
    }
    void *base = mmap(NULL, header.file_bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        return -errno;
    }
    struct hr_index index;
    rc = hr_index_adopt(&index, base, header.file_bytes);
    if (rc < 0) {
        (void)munmap(base, header.file_bytes);
        return rc;
    }
    *ret_index = index;
    return 0;
}

static int open_names(int dir_fd, uint64_t tree_id, uint32_t gen)
{
    char name[HR_LIST_NAME_BYTES];

    hr_list_names_name(tree_id, gen, name);
    /* O_NONBLOCK: a FIFO in its place must not hold us up. */
    int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int hr_index_verify(const char *index_dir, uint64_t tree_id, uint32_t gen, const _Atomic bool *stop)
{
    struct hr_index index;
    uint64_t crc = 0;
    hr_cleanup_fd int dir_fd = hr_list_dir_open(index_dir);
    if (dir_fd < 0) {
        return dir_fd;
    }
    hr_cleanup_fd int fd = open_names(dir_fd, tree_id, gen);
    if (fd < 0) {
        return fd;
    }
    int rc = adopt_file(fd, tree_id, gen, &index);
    if (rc < 0) {
        return rc;
    }
    rc = body_checksum(fd, index.names->file_bytes, stop, &crc);
    if (rc == 0) {
        rc = crc == index.names->checksum ? hr_index_check(&index, stop) : -EBADMSG;
    }
    hr_index_unmap(&index);
    return rc;
}

void hr_index_remove(const char *index_dir, uint64_t tree_id, uint32_t gen)
{
    char name[HR_LIST_NAME_BYTES];
    hr_cleanup_fd int dir_fd = hr_list_dir_open(index_dir);

    if (dir_fd >= 0) {
        hr_list_names_name(tree_id, gen, name);
        (void)unlinkat(dir_fd, name, 0);
    }
}

/* ---- finding ---- */

/* Largest generation below `below`; false: none. */
static bool newest_below(DIR *stream, uint64_t tree_id, uint64_t below, uint32_t *ret_gen)
{
    bool found = false;
    uint32_t gen;

    rewinddir(stream);
    for (const struct dirent *entry = readdir(stream); entry != NULL; entry = readdir(stream)) {
        if (hr_list_names_parse(entry->d_name, tree_id, &gen) && gen < below && (!found || gen > *ret_gen)) {
            *ret_gen = gen;
            found = true;
        }
    }
    return found;
}

int hr_index_load(const char *index_dir, uint64_t tree_id, struct hr_index *ret_index)
{
    hr_cleanup(closedir_p) DIR *stream = open_index_dir(index_dir);
    if (stream == NULL) {
        return -errno;
    }
    int dir_fd = dirfd(stream);
    uint32_t gen = 0;
    for (uint64_t below = UINT64_MAX; newest_below(stream, tree_id, below, &gen); below = gen) {
        char name[HR_LIST_NAME_BYTES];
        hr_list_names_name(tree_id, gen, name);
        hr_cleanup_fd int fd = open_names(dir_fd, tree_id, gen);
        int rc = fd < 0 ? fd : adopt_file(fd, tree_id, gen, ret_index);
        if (rc == 0) {
            return 0;
        }
        if (rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE) {
            return rc;
        }
        (void)unlinkat(dir_fd, name, 0);
    }
    return -ENOENT;
}

void hr_index_unmap(struct hr_index *index)
{
    if (index->names != NULL) {
        void *base = (void *)(uintptr_t)index->names;
        (void)munmap(base, index->names->file_bytes);
        *index = (struct hr_index){.names = NULL};
    }
}

void hr_index_sweep(const char *index_dir, uint64_t tree_id, uint32_t keep, uint64_t boot)
{
    char prefix[HR_LIST_NAME_BYTES];
    char names[HR_LIST_NAME_BYTES];
    char states[HR_LIST_NAME_BYTES];
    char uses[HR_LIST_NAME_BYTES];
    hr_cleanup(closedir_p) DIR *stream = open_index_dir(index_dir);
    if (stream == NULL) {
        return;
    }
    int dir_fd = dirfd(stream);
    hr_list_tree_prefix(tree_id, prefix);
    hr_list_names_name(tree_id, keep, names);
    hr_list_boot_name(tree_id, keep, boot, "states", states);
    hr_list_boot_name(tree_id, keep, boot, "uses", uses);
    for (const struct dirent *entry = readdir(stream); entry != NULL; entry = readdir(stream)) {
        const char *name = entry->d_name;
        if (strncmp(name, prefix, strlen(prefix)) == 0 && strcmp(name, names) != 0 &&
            strcmp(name, states) != 0 && strcmp(name, uses) != 0) {
            (void)unlinkat(dir_fd, name, 0);
        }
    }
}

void hr_index_remove_dir(const char *index_dir, uint64_t tree_id, uint32_t number, uint64_t boot)
{
    char name[HR_LIST_NAME_BYTES];
    hr_cleanup_fd int dir_fd = hr_list_dir_open(index_dir);

    hr_list_boot_name(tree_id, number, boot, "dir", name);
    if (dir_fd >= 0) {
        (void)unlinkat(dir_fd, name, 0);
    }
}

void hr_index_sweep_dirs(const char *index_dir)
{
    hr_cleanup(closedir_p) DIR *stream = open_index_dir(index_dir);
    if (stream == NULL) {
        return;
    }
    int dir_fd = dirfd(stream);
    for (const struct dirent *entry = readdir(stream); entry != NULL; entry = readdir(stream)) {
        const char *ending = strchr(entry->d_name, '.');
        if (ending != NULL && strncmp(ending, ".dir", 4) == 0 && (ending[4] == '\0' || ending[4] == '.') &&
            ending > entry->d_name) {
            (void)unlinkat(dir_fd, entry->d_name, 0);
        }
    }
}
