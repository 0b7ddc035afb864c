/* Paths of which the text alone does not tell where they lead: "name/.." is an error where `name` is no
 * directory, and /proc/self/cwd, /proc/self/fd/N, the same by this process's number, /dev/fd/N and what lies
 * below them lead to stand-in directories. Async-signal-safe. */
#ifndef HR_CLIMB_H
#define HR_CLIMB_H

#include <stdbool.h>
#include <stddef.h>

#include "interpose/path.h"

/* base (canonical, terminated in place->path, base_len bytes; 0: path is absolute) and a path that climbs.
 * True: a name before one of its ".." is no directory: place->path and len become what says so when it must
 * be one, that name alone or with the ".." behind it. The kernel's own directories are looked at, too. */
bool hr_climb_fails(size_t base_len, const char *path, struct hr_place *place);

/* Of a path, canonical and shorter than HR_PLACE_MAX, that ".." follows: 0, or -ENOENT or -ENOTDIR of what is
 * no directory of its map. hr_enters_fn of config/links.h. */
int hr_climb_enters(const char *path);

/* Does an absolute path lead through /proc or /dev into a stand-in directory? *ret_dirfd (AT_FDCWD: the
 * working directory) and *ret_rest are the same place. False too where it names the link itself. */
bool hr_climb_proc(const char *path, int *ret_dirfd, const char **ret_rest);

#endif
