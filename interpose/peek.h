/* Index batches on their way to DataLoader workers: seen in the main process' write(), told to the daemon,
 * and in the worker's read(), which its notes of use then name. Never changed or delayed. */
#ifndef HR_PEEK_H
#define HR_PEEK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HR_PEEK_HEADER_BYTES 4 /* multiprocessing.connection's length; a reader takes it by itself */

/* hr_batch_tag of the batch that this process read last; 0: none. */
extern _Atomic uint32_t hr_peek_tag __attribute__((visibility("hidden")));
/* A header came out of it, so the next read may bring a batch; -1: out of none. */
extern _Atomic int hr_peek_fd __attribute__((visibility("hidden")));

/* Called after a successful write of `len` bytes. A process that has opened nothing mapped tells of its
 * batches, too, once there is a daemon for it (hr_session_follow): its workers open for it. Keeps errno. */
void hr_peek_written(int fd, const void *bytes, size_t len);

/* May this read bring a header, or what follows one? */
static inline bool hr_peek_is_due(int fd, size_t size)
{
    return size == HR_PEEK_HEADER_BYTES || fd == atomic_load_explicit(&hr_peek_fd, memory_order_relaxed);
}
/* After such a read that brought all `len` bytes it was for. A process that has opened nothing mapped looks
 * at nothing. Keeps errno. */
void hr_peek_read(int fd, const void *bytes, size_t len);

#endif
