/* Memory mappings of faces: pieces of segments side by side, real mappings of real files. What is in none of
 * them (pages beyond the object's end) is SIGBUS as for any file. munmap, mprotect, madvise, msync, mlock and
 * fork need nothing. Async-signal-safe; negative errno. */
#ifndef HR_FACE_MAP_H
#define HR_FACE_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/face.h"

/* The arguments of mmap(2). Waits for all that is mapped. The address, or -errno. */
long hr_face_mmap(const struct hr_face *face, void *address, size_t bytes, int prot, int flags,
                  int64_t offset);

/* False: not the growth of a face's mapping, the kernel's affair. *ret is the address or -errno. A private
 * mapping grows where it is or not at all: its changed pages cannot be moved piece by piece. */
bool hr_face_mremap(void *old, size_t old_bytes, size_t new_bytes, int flags, void *to, long *ret);
/* May what is mapped at this address be of a face? (Any cache file.) */
bool hr_face_mapped_at(const void *address);

#endif
