/* Memory mappings of faces: pieces of segments side by side, real mappings of real files. What is in none of
 * them (pages beyond the object's end) is SIGBUS as for any file. munmap, mprotect, msync, mlock and fork
 * need nothing. Async-signal-safe; negative errno. */
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
/* madvise of NORMAL, RANDOM, SEQUENTIAL or WILLNEED, which the kernel has taken: told when the address lies
 * in a face's mapping. All bytes of that are here; it says how the process reads the object. */
void hr_face_map_advise(const void *address, size_t bytes, int advice);
bool hr_face_is_mapped(uint64_t face_id); /* in this process, as far as is remembered */
/* Did this process ever map a face? One load. */
extern _Atomic unsigned hr_face_maps __attribute__((visibility("hidden")));
static inline bool hr_face_maps_any(void)
{
    return __builtin_expect(atomic_load_explicit(&hr_face_maps, memory_order_relaxed) != 0, 0);
}
/* May what is mapped at this address be of a face? (Any cache file.) */
bool hr_face_mapped_at(const void *address);

#endif
