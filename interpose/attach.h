/* Starting `headrace attach` from inside an application, so that nothing of it shows there: no child in its
 * wait(), no signal, no descriptor left. */
#ifndef HR_ATTACH_H
#define HR_ATTACH_H

#include <stddef.h>

/* Constructor: remembers where a relative LD_PRELOAD came from. */
void hr_attach_init(void);

/* Runs the `headrace` beside this object and waits for its answer (at most 30 s). 0 with the daemon's
 * cache_dir in ret_dir (without trailing slash), -EIO (a line on stderr said why), -EINTR as in demand.h.
 * What the command writes to its descriptor, a line each: "warn MESSAGE" (any number), then "ok CACHE_DIR" or
 * "error MESSAGE". */
int hr_attach(char *ret_dir, size_t room);

/* Where that cache_dir is, by `headrace attach --find`, which makes nothing and starts no daemon: in the same
 * way, but within 2 s, and nothing is said. 0; -EIO: not known, or not there yet; -EINTR. */
int hr_attach_find(char *ret_dir, size_t room);

#endif
