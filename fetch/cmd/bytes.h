/* All bytes of an object, through the cache, into a descriptor: what `cat` and `warm --to` write. */
#ifndef HR_CMD_BYTES_H
#define HR_CMD_BYTES_H

#include "fetch/cmd/target.h"

/* path: of the target's tree. A large object goes segment by segment: it need not fit the cache. 0, -EISDIR,
 * -errno with one line in message; something may have been written then. */
int hr_bytes_copy(const struct target *target, const char *path, int fd, char message[HR_MESSAGE_BYTES]);

#endif
