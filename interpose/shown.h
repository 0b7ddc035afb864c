/* A real directory on the way to a map's root ("/mnt" of "/mnt/data") shows the map point, whether it is
 * there or not (one that is not there itself: way.h). The real directory's stream is walked first, then come
 * the names that only maps put there; it is wrapped only while there are such names. Reading its descriptor
 * by getdents64 gives what is really there. Streams live in a static pool; one belongs to one thread at a
 * time, as libc's do. */
#ifndef HR_SHOWN_H
#define HR_SHOWN_H

#include <dirent.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

extern _Atomic bool hr_shown_met; /* has this process ever opened one? */
bool hr_shown_known(const DIR *dir);
/* Recognised by address. */
static inline bool hr_shown_ours(const DIR *dir)
{
    return __builtin_expect(atomic_load_explicit(&hr_shown_met, memory_order_relaxed), 0) &&
           hr_shown_known(dir);
}

/* Takes `real` over, an open stream of the directory at that canonical path above a
 * map. Returns `real` itself, its descriptor marked (hr_standin_mark_above), when every name is there; NULL
 * with errno EMFILE (and real closed) when the pool is used up. */
DIR *hr_shown_open(DIR *real, const char *path, size_t len);

struct dirent64 *hr_shown_next(DIR *dir);
long hr_shown_tell(DIR *dir);
void hr_shown_seek(DIR *dir, long position);
void hr_shown_rewind(DIR *dir);
int hr_shown_fd(DIR *dir);
int hr_shown_close(DIR *dir);

#endif
