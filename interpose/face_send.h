/* Kernel copies out of a face: the real call on the descriptor of one segment after the other. offset: where
 * in the object, moved on by what was copied; NULL: the descriptor's own position. Bytes, short only where
 * the kernel's call was or where an error came after some, or -errno. Async-signal-safe. */
#ifndef HR_FACE_SEND_H
#define HR_FACE_SEND_H

#include <stdint.h>
#include <sys/types.h>

#include "interpose/face.h"

ssize_t hr_face_sendfile(int out, int in, const struct hr_face *face, off64_t *offset, size_t bytes);
ssize_t hr_face_splice(int in, const struct hr_face *face, off64_t *offset, int out, off64_t *out_offset,
                       size_t bytes, unsigned flags);
ssize_t hr_face_copy_range(int in, const struct hr_face *face, off64_t *offset, int out, off64_t *out_offset,
                           size_t bytes, unsigned flags);

/* posix_fadvise and readahead: 0 or -errno. */
int hr_face_advise(const struct hr_face *face, int64_t offset, int64_t bytes, int advice);
int hr_face_readahead(const struct hr_face *face, int64_t offset, size_t bytes);

#endif
