/* read(2), pread(2), lseek(2) and their kin on a face: as on a read-only file of the object's bytes. Negative
 * errno everywhere. Async-signal-safe. */
#ifndef HR_FACE_READ_H
#define HR_FACE_READ_H

#include <sys/types.h>
#include <sys/uio.h>

#include "interpose/face.h"

/* At the descriptor's offset, which moves by what was read. flags: RWF_*. */
ssize_t hr_face_readv(int fd, const struct hr_face *face, const struct iovec *parts, int count, int flags);
/* At `offset`. */
ssize_t hr_face_preadv(const struct hr_face *face, const struct iovec *parts, int count, off_t offset,
                       int flags);
off_t hr_face_seek(int fd, const struct hr_face *face, off_t offset, int whence);

#endif
