/* Is this descriptor one of ours, and what does it stand for? Cache files are known by device, inode, size,
 * mode and a nonce in the mtime's nanoseconds, all at once; anything else keeps the kernel's answer. A face
 * (face.h) is empty and of another mode, and stands for its object.
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
    uint64_t file_id; /* of the cache file, whole or face */
};

/* Pure: the record that matches all three; a face's has the object's size, which its file cannot tell. */
bool hr_identity_lookup(const struct hr_residents *table, uint64_t ino, uint64_t size, uint32_t nonce,
                        struct hr_identity *ret);
bool hr_identity_lookup_face(const struct hr_residents *table, uint64_t ino, uint32_t nonce,
                             struct hr_identity *ret);

#define HR_CACHE_FILE_MODE 0400 /* what lets clients know such a file by its look */
#define HR_FACE_FILE_MODE 0200  /* nobody can read it by mistake */
/* Is it worth a look? Directories and the modes of cache files only. */
static inline bool hr_identity_maybe(unsigned mode)
{
    unsigned what = mode & (S_IFMT | 07777);
    return what == (S_IFREG | HR_CACHE_FILE_MODE) || what == (S_IFREG | HR_FACE_FILE_MODE) || S_ISDIR(mode);
}

/* After a successful real fstat(fd): replaces *stat when fd is a cache file or a stand-in directory. Files
 * that are not ours cost no system call. */
void hr_identity_stat(int fd, struct stat *stat);
/* The same after statx(fd, "", AT_EMPTY_PATH...). */
void hr_identity_statx(int fd, unsigned mask, struct statx *stat);
/* Does its own fstat. True when fd is a cache file or a face: *ret is the object's. */
bool hr_identity_of(int fd, struct hr_identity *ret);
bool hr_identity_fd(int fd, struct stat *ret);

/* What a descriptor with this fstat is among faces. LOST: it has the form and the name of one, and the daemon
 * knows nothing of it (any more): *ret is undefined, nothing can be read. */
enum hr_face_look { HR_FACE_NOT, HR_FACE_LOST, HR_FACE_FOUND };
enum hr_face_look hr_identity_face(int fd, const struct stat *stat, struct hr_identity *ret);
/* After a successful real stat of any path: replaces *stat when it is a face's (a way through /proc). */
void hr_identity_stat_path(struct stat *stat);

#endif
