/* Is this descriptor one of ours, and what does it stand for? Cache files are known by device, inode, size,
 * mode and a nonce in the mtime's nanoseconds, all at once; anything else keeps the kernel's answer.
 * Async-signal-safe. */
#ifndef HR_IDENTITY_H
#define HR_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "interpose/abi.h"

struct hr_identity {
    uint64_t ino;
    uint32_t dev;
    uint64_t size;
    int64_t mtime_ns;
};

/* Pure: the record that matches all three. */
bool hr_identity_lookup(const struct hr_residents *table, uint64_t ino, uint64_t size, uint32_t nonce,
                        struct hr_identity *ret);

#define HR_CACHE_FILE_MODE 0400
/* Is it worth a look? Directories and the mode of cache files only. */
static inline bool hr_identity_maybe(unsigned mode)
{
    return S_ISDIR(mode) || (mode & (S_IFMT | 07777)) == (S_IFREG | HR_CACHE_FILE_MODE);
}

/* After a successful real fstat(fd): replaces *stat when fd is a cache file or a stand-in directory. Files
 * that are not ours cost no system call. */
void hr_identity_stat(int fd, struct stat *stat);
/* The same after statx(fd, "", AT_EMPTY_PATH...). */
void hr_identity_statx(int fd, unsigned mask, struct statx *stat);
/* Does its own fstat. True when fd is a cache file: *ret is the object's. */
bool hr_identity_fd(int fd, struct stat *ret);

#endif
