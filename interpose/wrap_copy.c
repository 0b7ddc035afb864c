/* Copies inside the kernel (sendfile, splice, copy_file_range) from and to a large object, and hints about
 * its pages. To: EBADF, as to anything that was opened for reading. tee and vmsplice know pipes only. */
#include <sys/sendfile.h>

#include "interpose/face_send.h"
#include "interpose/sys.h"
#include "interpose/inner.h"

/* One of the two descriptors may be a face. */
static inline bool maybe(int in, int out)
{
    return HR_UNLIKELY(hr_active) && (hr_face_maybe(in) || hr_face_maybe(out));
}

static bool is_face(int fd, struct hr_face *ret)
{
    return hr_face_maybe(fd) && hr_face_of(fd, ret);
}

enum side { NEITHER, SOURCE, TARGET };

/* Which of the two is a face; as a target it is refused, whatever the source is. */
static enum side side_of(int in, int out, struct hr_face *ret)
{
    return is_face(out, ret) ? TARGET : is_face(in, ret) ? SOURCE : NEITHER;
}

static HR_NOINLINE bool sendfile_face(int out, int in, off64_t *offset, size_t bytes, ssize_t *ret)
{
    struct hr_face face;
    enum side side = side_of(in, out, &face);
    *ret = side == SOURCE   ? hr_edge(hr_face_sendfile(out, in, &face, offset, bytes))
           : side == TARGET ? hr_edge(-EBADF)
                            : 0;
    return side != NEITHER;
}

ssize_t sendfile(int out, int in, off_t *offset, size_t bytes)
{
    ssize_t result;
    return maybe(in, out) && sendfile_face(out, in, offset, bytes, &result)
               ? result
               : HR_REAL(sendfile)(out, in, offset, bytes);
}

ssize_t sendfile64(int out, int in, off64_t *offset, size_t bytes)
{
    ssize_t result;
    return maybe(in, out) && sendfile_face(out, in, offset, bytes, &result)
               ? result
               : HR_REAL(sendfile64)(out, in, offset, bytes);
}

static HR_NOINLINE bool splice_face(int in, off64_t *in_offset, int out, off64_t *out_offset, size_t bytes,
                                    unsigned flags, ssize_t *ret)
{
    struct hr_face face;
    enum side side = side_of(in, out, &face);
    *ret = side == SOURCE   ? hr_edge(hr_face_splice(in, &face, in_offset, out, out_offset, bytes, flags))
           : side == TARGET ? hr_edge(-EBADF)
                            : 0;
    return side != NEITHER;
}

ssize_t splice(int in, off64_t *in_offset, int out, off64_t *out_offset, size_t bytes, unsigned flags)
{
    ssize_t result;
    return maybe(in, out) && splice_face(in, in_offset, out, out_offset, bytes, flags, &result)
               ? result
               : HR_REAL(splice)(in, in_offset, out, out_offset, bytes, flags);
}

static HR_NOINLINE bool copy_face(int in, off64_t *in_offset, int out, off64_t *out_offset, size_t bytes,
                                  unsigned flags, ssize_t *ret)
{
    struct hr_face face;
    enum side side = side_of(in, out, &face);
    *ret = side == SOURCE   ? hr_edge(hr_face_copy_range(in, &face, in_offset, out, out_offset, bytes, flags))
           : side == TARGET ? hr_edge(-EBADF)
                            : 0;
    return side != NEITHER;
}

ssize_t copy_file_range(int in, off64_t *in_offset, int out, off64_t *out_offset, size_t bytes,
                        unsigned flags)
{
    ssize_t result;
    return maybe(in, out) && copy_face(in, in_offset, out, out_offset, bytes, flags, &result)
               ? result
               : HR_REAL(copy_file_range)(in, in_offset, out, out_offset, bytes, flags);
}

/* ---- hints ---- */

/* *ret: 0 or the error, not negative, which is what posix_fadvise returns. */
static HR_NOINLINE bool advise_face(int fd, int64_t offset, int64_t bytes, int advice, int *ret)
{
    struct hr_face face;
    if (!hr_face_of(fd, &face)) {
        return false;
    }
    *ret = -hr_face_advise(&face, offset, bytes, advice);
    return true;
}

int posix_fadvise(int fd, off_t offset, off_t bytes, int advice)
{
    int result;
    return HR_UNLIKELY(hr_active) && hr_face_maybe(fd) && advise_face(fd, offset, bytes, advice, &result)
               ? result
               : HR_REAL(posix_fadvise)(fd, offset, bytes, advice);
}

int posix_fadvise64(int fd, off64_t offset, off64_t bytes, int advice)
{
    int result;
    return HR_UNLIKELY(hr_active) && hr_face_maybe(fd) && advise_face(fd, offset, bytes, advice, &result)
               ? result
               : HR_REAL(posix_fadvise64)(fd, offset, bytes, advice);
}

static HR_NOINLINE bool readahead_face(int fd, off64_t offset, size_t bytes, ssize_t *ret)
{
    struct hr_face face;
    if (!hr_face_of(fd, &face)) {
        return false;
    }
    *ret = hr_edge(hr_face_readahead(&face, offset, bytes));
    return true;
}

ssize_t readahead(int fd, off64_t offset, size_t bytes)
{
    ssize_t result;
    return HR_UNLIKELY(hr_active) && hr_face_maybe(fd) && readahead_face(fd, offset, bytes, &result)
               ? result
               : HR_REAL(readahead)(fd, offset, bytes);
}
