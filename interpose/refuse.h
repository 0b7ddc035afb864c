/* What a read-only file system says to a change of a mapped path: -errno. What is missing is told
 * first (ENOENT, ENOTDIR, EEXIST), then EROFS. Nothing is changed. */
#ifndef HR_REFUSE_H
#define HR_REFUSE_H

#include <stdint.h>

#include "interpose/path.h"

/* `answer`, where there is something. */
int hr_refuse_with(const struct hr_place *place, int answer);
/* chmod, chown, utimes: something that has to be there. */
int hr_refuse_existing(const struct hr_place *place);
/* mkdir, symlink: something new. Linux names EEXIST before EROFS. */
int hr_refuse_new(const struct hr_place *place);
/* open: a name that is not there and should be made. */
int hr_refuse_create(const struct hr_place *place);
/* mkstemp: something new, whose name is not looked at. */
int hr_refuse_temporary(const struct hr_place *place);
/* A map's root is a mount point. */
int hr_refuse_removal(const struct hr_place *place);
/* Either side may be outside (NULL). Linux compares the mounts before it looks at the names, not before their
 * parents. */
int hr_refuse_rename(const struct hr_place *from, const struct hr_place *to);
int hr_refuse_link(const struct hr_place *from, const struct hr_place *to);
int hr_refuse_truncate(const struct hr_place *place, int64_t length);

#endif
