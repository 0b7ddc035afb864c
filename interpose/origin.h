/* The way back: from a descriptor of an object to its name. A descriptor tells its cache file, and which
 * entry of an index has that file is looked up in the notes of what was opened last (hints, checked), then in
 * all of the states. Async-signal-safe. */
#ifndef HR_ORIGIN_H
#define HR_ORIGIN_H

#include <stdbool.h>

#include "interpose/path.h"

/* True: a listed object's, *ret is its place in the first map that shows it. False: not an object's, or of
 * one that is not listed (yet, or any more). */
bool hr_origin_of(int fd, struct hr_place *ret);

/* Of an object that was just opened and is not listed: its name is kept among the last ones, for
 * hr_origin_at. */
void hr_origin_note(const struct hr_place *place);

/* What a name in /proc or /dev of a descriptor, of any process, leads to: as hr_origin_of, and also of an
 * object that is not listed, if this process was one of the last to open it so. */
bool hr_origin_at(int dirfd, const char *path, struct hr_place *ret);

#endif
