/* Asynchronous reads straight by system calls: bytes read, or -errno (also of the set-up). */
#ifndef HR_POISON_RING_H
#define HR_POISON_RING_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

ssize_t poison_ring_read(int fd, void *buffer, size_t bytes, uint64_t offset);       /* io_uring */
ssize_t poison_ring_read_fixed(int fd, void *buffer, size_t bytes, uint64_t offset); /* a registered file */
ssize_t poison_submit_read(int fd, void *buffer, size_t bytes, uint64_t offset);     /* io_submit */

#endif
