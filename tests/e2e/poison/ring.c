#include "tests/e2e/poison/ring.h"

#include <errno.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static ssize_t ring_read(int fd, void *buffer, size_t bytes, uint64_t offset, int fixed)
{
    struct io_uring_params params = {0};
    int ring = (int)syscall(SYS_io_uring_setup, 4, &params);
    if (ring < 0) {
        return -errno;
    }
    if (fixed && syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES, &fd, 1) < 0) {
        return -errno;
    }
    size_t sq_bytes = params.sq_off.array + params.sq_entries * sizeof(unsigned);
    size_t cq_bytes = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
    int access = PROT_READ | PROT_WRITE;
    char *sq = mmap(NULL, sq_bytes, access, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
    char *cq = mmap(NULL, cq_bytes, access, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_CQ_RING);
    struct io_uring_sqe *entry = mmap(NULL, params.sq_entries * sizeof(*entry), access,
                                      MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
    if (sq == MAP_FAILED || cq == MAP_FAILED || entry == MAP_FAILED) {
        return -errno;
    }
    memset(entry, 0, sizeof(*entry));
    entry->opcode = IORING_OP_READ;
    entry->fd = fixed ? 0 : fd;
    entry->flags = fixed ? IOSQE_FIXED_FILE : 0;
    entry->addr = (uint64_t)(uintptr_t)buffer;
    entry->len = (unsigned)bytes;
    entry->off = offset;
    ((unsigned *)(void *)(sq + params.sq_off.array))[0] = 0;
    __atomic_store_n((unsigned *)(void *)(sq + params.sq_off.tail), 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0) {
        return -errno;
    }
    ssize_t result = ((struct io_uring_cqe *)(void *)(cq + params.cq_off.cqes))->res;
    close(ring);
    return result;
}

ssize_t poison_ring_read(int fd, void *buffer, size_t bytes, uint64_t offset)
{
    return ring_read(fd, buffer, bytes, offset, 0);
}

ssize_t poison_ring_read_fixed(int fd, void *buffer, size_t bytes, uint64_t offset)
{
    return ring_read(fd, buffer, bytes, offset, 1);
}

ssize_t poison_submit_read(int fd, void *buffer, size_t bytes, uint64_t offset)
{
    aio_context_t context = 0;
    struct io_event event = {0};
    struct iocb block = {.aio_lio_opcode = IOCB_CMD_PREAD,
                         .aio_fildes = (unsigned)fd,
                         .aio_buf = (uint64_t)(uintptr_t)buffer,
                         .aio_nbytes = bytes,
                         .aio_offset = (int64_t)offset};
    struct iocb *blocks[] = {&block};
    if (syscall(SYS_io_setup, 4, &context) < 0 || syscall(SYS_io_submit, context, 1L, blocks) < 0 ||
        syscall(SYS_io_getevents, context, 1L, 1L, &event, NULL) < 0) {
        return -errno;
    }
    return (ssize_t)event.res;
}
