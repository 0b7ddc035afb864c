#include "fetch/list/scratch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fetch/list/files.h"

#define ROOM_MIN_BYTES 4096      /* a page */
#define MEMORY_BYTES (16u << 20) /* more lies in a file: three such arrays of a listing stay below 48 MiB */
/* A file grows by an eighth, at least by this: few calls, little too much. */
#define FILE_STEP_BYTES (64ull << 20)

static int grow_memory(struct hr_scratch *scratch, size_t bytes)
{
    size_t wanted = scratch->room + scratch->room / 2;
    if (wanted < bytes) {
        wanted = bytes > ROOM_MIN_BYTES ? bytes : ROOM_MIN_BYTES;
    }
    if (scratch->dir != NULL && wanted > MEMORY_BYTES) {
        wanted = MEMORY_BYTES;
    }
    void *base = realloc(scratch->base, wanted);
    if (base == NULL) {
        return -ENOMEM;
    }
    scratch->base = base;
    scratch->room = wanted;
    return 0;
}

/* From memory into a new file of `room` bytes. */
static int move_to_file(struct hr_scratch *scratch, size_t room)
{
    int fd = hr_list_file_unnamed(scratch->dir, room);
    if (fd < 0) {
        return fd;
    }
    void *base = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        int error = -errno;
        (void)close(fd);
        return error;
    }
    if (scratch->room > 0) {
        memcpy(base, scratch->base, scratch->room);
    }
    free(scratch->base);
    scratch->base = base;
    scratch->room = room;
    scratch->fd = fd;
    scratch->mapped = true;
    return 0;
}

static int grow_file(struct hr_scratch *scratch, size_t room)
{
    int rc = hr_list_file_allocate(scratch->fd, room);
    if (rc < 0) {
        return rc;
    }
    void *base = mremap(scratch->base, scratch->room, room, MREMAP_MAYMOVE);
    if (base == MAP_FAILED) {
        return -errno;
    }
    scratch->base = base;
    scratch->room = room;
    return 0;
}

int hr_scratch_more(struct hr_scratch *scratch, size_t bytes)
{
    if (scratch->dir == NULL || bytes <= MEMORY_BYTES) {
        return grow_memory(scratch, bytes);
    }
    size_t step = scratch->room / 8 > FILE_STEP_BYTES ? scratch->room / 8 : FILE_STEP_BYTES;
    size_t room = (bytes + step) & ~(size_t)(ROOM_MIN_BYTES - 1);
    return scratch->mapped ? grow_file(scratch, room) : move_to_file(scratch, room);
}

void hr_scratch_empty(struct hr_scratch *scratch)
{
    if (scratch->mapped) {
        (void)munmap(scratch->base, scratch->room);
        (void)close(scratch->fd);
    } else {
        free(scratch->base);
    }
    *scratch = (struct hr_scratch){.dir = scratch->dir};
}
