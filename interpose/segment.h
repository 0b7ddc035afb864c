/* Segments of large objects, as a reader meets them: found, waited for, opened, copied from. The process
 * keeps a small table of segments it has seen (which file holds which bytes) with read-only mappings of the
 * newest, for small reads; no descriptor is kept. Lock-free; a fork or a longjmp in the middle of a copy
 * costs one place of the table. Negative errno everywhere. Async-signal-safe. */
#ifndef HR_SEGMENT_H
#define HR_SEGMENT_H

#include <stdint.h>
#include <sys/types.h>

#include "interpose/face.h"

struct hr_segment {
    uint64_t file_id;
    uint64_t offset; /* in the object */
    uint64_t bytes;
};

/* A read-only close-on-exec descriptor of the file that holds `offset`, waiting for it as long as it takes;
 * `wanted` bytes from there are of interest (they are fetched side by side). The caller closes it. -EIO,
 * -ESTALE, -EINTR (a signal handler ran and 2 s have passed), -EMFILE... */
int hr_segment_open(const struct hr_face *face, uint64_t offset, uint64_t wanted, struct hr_segment *ret);
/* Copies [offset, offset + bytes), which lie inside the object, waiting for what is missing. bytes, or fewer
 * when an error came after some were copied, or -errno. A buffer that is not there is -EFAULT for long reads
 * and a fault for short ones. */
ssize_t hr_segment_copy(const struct hr_face *face, void *buffer, size_t bytes, uint64_t offset);
/* Only what needs no waiting (RWF_NOWAIT): bytes, or -EAGAIN. */
ssize_t hr_segment_copy_ready(const struct hr_face *face, void *buffer, size_t bytes, uint64_t offset);
/* A hint that the range will be read: asks, does not wait. */
void hr_segment_hint(const struct hr_face *face, uint64_t offset, uint64_t bytes);
/* The other hints: tells, does not wait. */
void hr_segment_advise(const struct hr_face *face, uint64_t offset, uint64_t bytes, enum hr_hint hint);

#endif
