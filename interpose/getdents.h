/* getdents64 and lseek on the stand-in descriptor of a mapped directory. The kernel keeps no position for it
 * (it is opened O_PATH), so a descriptor that is read this way gets a cursor of ours: one of our streams,
 * whose number is kept in the descriptor's byte (standin.h) and so follows dup and ends with close and with
 * the next open of the number. A child of fork goes on with a copy, and a program that was exec'd starts
 * anew: those two do not share the position, as they would on a kernel's directory. No locks that a fork
 * could leave behind. */
#ifndef HR_GETDENTS_H
#define HR_GETDENTS_H

#include <stddef.h>
#include <sys/types.h>

#include "interpose/path.h"

/* Bytes filled in, 0 at the end, -EINVAL (no room for one entry), -ENOENT..., -EMFILE (no stream left). */
ssize_t hr_getdents(int fd, const struct hr_place *place, void *buffer, size_t size);
/* The new position or -EINVAL; SEEK_SET takes what d_off or an earlier SEEK_CUR gave. */
off_t hr_getdents_seek(int fd, const struct hr_place *place, off_t offset, int whence);
/* Before a marked descriptor is duplicated: both have one position from now on. */
void hr_getdents_share(int fd);

#endif
