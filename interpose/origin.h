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

#endif
