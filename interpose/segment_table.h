/* What this process knows of segments: which file holds which bytes, and mappings of those in use. Lock-free;
 * who is cut off in the middle of a change (fork in another thread, longjmp) costs one place.
 * Async-signal-safe. */
#ifndef HR_SEGMENT_TABLE_H
#define HR_SEGMENT_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "interpose/segment.h"

/* A file that held `offset` of the object when it was last heard of. */
bool hr_segment_recall(uint64_t face_id, uint64_t offset, struct hr_segment *ret);
void hr_segment_remember(uint64_t face_id, const struct hr_segment *segment);
void hr_segment_forget(uint64_t face_id, const struct hr_segment *segment);

/* Copies from a mapping: how many bytes from offset on, 0 when it is in none. */
size_t hr_segment_copy_mapped(uint64_t face_id, void *buffer, size_t bytes, uint64_t offset);
/* Maps the part of an open segment file round `offset` (a cell of it) in place of one that is less used.
 * Failing is no error: the file is still there. */
void hr_segment_map(uint64_t face_id, const struct hr_segment *segment, int fd, uint64_t offset);

#endif
