/* The short way of view.h: what the index and the cache tell at once, of a path that is canonical as it is.
 * Else one of two numbers, and nothing was done. Async-signal-safe. */
#ifndef HR_VIEW_WARM_H
#define HR_VIEW_WARM_H

#include <sys/stat.h>

#define HR_VIEW_LONG_WAY (-4096)  /* no errno; ask again */
#define HR_VIEW_ELSEWHERE (-4097) /* canonical, no map's by its text; an alias may lead into one */

/* As hr_view_open: a descriptor of an object's whole file, or -errno. */
int hr_view_open_warm(const char *path, int flags);
/* As hr_view_find and hr_view_stat: 0 or -errno. */
int hr_view_stat_warm(const char *path, struct stat *ret);

#endif
