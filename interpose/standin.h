/* Stand-in directories: real, empty directories under cache_dir/dirs/MAPHASH/PATH that carry a descriptor or
 * a working directory for us. Which place a descriptor stands for is found from the descriptor alone
 * (readlink of /proc/self/fd/N); one byte a descriptor only says where looking is worth it.
 * Async-signal-safe. */
#ifndef HR_STANDIN_H
#define HR_STANDIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "interpose/path.h"

/* A byte a descriptor number: 0 is "certainly not"; HR_MARK_FACE: maybe a face (face.h), not a directory;
 * below it: maybe a stand-in (1, or its cursor's number). Numbers beyond the table always look. */
#define HR_MARK_FACE 0xff
#define HR_STANDIN_MARKS 65536 /* untouched pages cost nothing */
extern _Atomic uint8_t hr_standin_marks[HR_STANDIN_MARKS] __attribute__((visibility("hidden")));
static inline bool hr_standin_maybe(int fd)
{
    return __builtin_expect((unsigned)fd >= HR_STANDIN_MARKS, 0)
               ? fd >= 0
               : atomic_load_explicit(&hr_standin_marks[fd], memory_order_relaxed) != 0;
}
void hr_standin_mark(int fd);
void hr_standin_mark_face(int fd);
/* A descriptor that came from elsewhere (inherited, SCM_RIGHTS), by its F_GETFL: marked as what it could be,
 * or unmarked. */
void hr_standin_mark_arrived(int fd, int flags);
void hr_standin_unmark(int fd);                              /* no-op in a vfork child */
void hr_standin_copy(int from, int to);                      /* after dup, dup2, dup3, F_DUPFD */
void hr_standin_unmark_range(unsigned first, unsigned last); /* the same, of all of them */
void hr_standin_adopt_inherited(void);                       /* constructor: all that are open */

/* A directory on the way to a map ("/mnt" of "/mnt/data"): a relative path from it may be ours too. */
void hr_standin_mark_above(int fd);
/* Where the kernel says a descriptor points (readlink of /proc/self/fd/N): length or -errno; terminated. */
int hr_standin_readlink(int fd, char *out, size_t room);

/* The number of a descriptor as /proc/self/fd writes it: decimal digits without a 0 ahead, or -1. */
int hr_standin_number(const char *text);
/* Calls visit for each open descriptor (its own of the folder too). False: there is no /proc. */
bool hr_standin_each(void (*visit)(void *owner, int fd), void *owner);

/* hr_map_hash of a map, computed once. */
uint64_t hr_standin_hash(unsigned map);
/* A real path under cache_dir/dirs -> the mapped path it stands for. False: it is not one of ours. */
bool hr_standin_place(const char *real_path, struct hr_place *ret);

#endif
