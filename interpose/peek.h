/* Index batches on their way to DataLoader workers: seen in write(), told to the daemon, never changed or
 * delayed. */
#ifndef HR_PEEK_H
#define HR_PEEK_H

#include <stddef.h>

/* Called after a successful write of `len` bytes. A process that has opened nothing mapped tells nothing.
 * Keeps errno. */
void hr_peek_written(int fd, const void *bytes, size_t len);

#endif
