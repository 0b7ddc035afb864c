/* mmap of a large object, and the calls that would stretch such a mapping over what is not there. An unmarked
 * descriptor costs one byte. */
#include <stdarg.h>
#include <sys/mman.h>

#include "interpose/face_map.h"
#include "interpose/inner.h"

/* False: not a face, the kernel's. */
static HR_NOINLINE bool map_face(void *address, size_t bytes, int prot, int flags, int fd, off64_t offset,
                                 void **ret)
{
    struct hr_face face;
    if (!hr_face_of(fd, &face)) {
        return false;
    }
    *ret = (void *)hr_edge(hr_face_mmap(&face, address, bytes, prot, flags, offset));
    return true;
}

static inline bool is_ours(int fd, int flags)
{
    return HR_UNLIKELY(hr_active) && !(flags & MAP_ANONYMOUS) && hr_face_maybe(fd);
}

void *mmap(void *address, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    void *result;
    return is_ours(fd, flags) && map_face(address, bytes, prot, flags, fd, offset, &result)
               ? result
               : HR_REAL(mmap)(address, bytes, prot, flags, fd, offset);
}

void *mmap64(void *address, size_t bytes, int prot, int flags, int fd, off64_t offset)
{
    void *result;
    return is_ours(fd, flags) && map_face(address, bytes, prot, flags, fd, offset, &result)
               ? result
               : HR_REAL(mmap64)(address, bytes, prot, flags, fd, offset);
}

/* The fifth argument is there with MREMAP_FIXED alone; taken and passed on always, as libc itself does. */
void *mremap(void *old, size_t old_bytes, size_t new_bytes, int flags, ...)
{
    va_list list;
    long result;
    va_start(list, flags);
    void *to = va_arg(list, void *);
    va_end(list);
    if (HR_UNLIKELY(hr_active) && hr_face_mremap(old, old_bytes, new_bytes, flags, to, &result)) {
        return (void *)hr_edge(result);
    }
    return HR_REAL(mremap)(old, old_bytes, new_bytes, flags, to);
}

/* Counts pages of the file, which here is a segment's. */
int remap_file_pages(void *address, size_t bytes, int prot, size_t page, int flags)
{
    if (HR_UNLIKELY(hr_active) && hr_face_mapped_at(address)) {
        errno = EINVAL;
        return -1;
    }
    return HR_REAL(remap_file_pages)(address, bytes, prot, page, flags);
}

/* All bytes of a face's mapping are here: the advice is the kernel's, and tells how the object is read.
 * Allocators give other advice, about memory of their own. */
static inline bool may_tell(int advice)
{
    return HR_UNLIKELY(hr_active) && advice >= MADV_NORMAL && advice <= MADV_WILLNEED && hr_face_maps_any();
}

static HR_NOINLINE int madvise_told(void *address, size_t bytes, int advice)
{
    int result = HR_REAL(madvise)(address, bytes, advice);
    if (result == 0) {
        hr_face_map_advise(address, bytes, advice);
    }
    return result;
}

static HR_NOINLINE int posix_madvise_told(void *address, size_t bytes, int advice)
{
    int error = HR_REAL(posix_madvise)(address, bytes, advice);
    if (error == 0) {
        hr_face_map_advise(address, bytes, advice);
    }
    return error;
}

int madvise(void *address, size_t bytes, int advice)
{
    return may_tell(advice) ? madvise_told(address, bytes, advice) : HR_REAL(madvise)(address, bytes, advice);
}

int posix_madvise(void *address, size_t bytes, int advice)
{
    return may_tell(advice) ? posix_madvise_told(address, bytes, advice)
                            : HR_REAL(posix_madvise)(address, bytes, advice);
}
