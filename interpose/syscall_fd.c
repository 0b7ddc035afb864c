#include "interpose/syscall_fd.h"

#include <linux/aio_abi.h>

#include "interpose/cwd.h"
#include "interpose/face.h"
#include "interpose/standin.h"
#include "interpose/sys.h"
#include "interpose/inner.h"

static bool fd_is(long fd)
{
    return hr_standin_maybe((int)fd);
}

/* The kernel's getcwd gives the length with the terminator. */
static long cwd_length(char *buffer, size_t size)
{
    if (size == 0) {
        return hr_edge(-ERANGE);
    }
    return getcwd(buffer, size) ? (long)strlen(buffer) + 1 : -1;
}

/* Reads, writes and the rest on a marked descriptor. */
static bool by_marked_fd(long number, const long *args, long *ret)
{
    int fd = (int)args[0];
    void *at = (void *)args[1];
    switch (number) {
    case SYS_read:
        *ret = read(fd, at, (size_t)args[2]);
        return true;
    case SYS_readv:
        *ret = readv(fd, at, (int)args[2]);
        return true;
    case SYS_pread64:
        *ret = pread64(fd, at, (size_t)args[2], args[3]);
        return true;
    case SYS_preadv: /* a word of 64 bits has the whole offset */
        *ret = preadv64(fd, at, (int)args[2], args[3]);
        return true;
    case SYS_preadv2:
        *ret = preadv64v2(fd, at, (int)args[2], args[3], (int)args[5]);
        return true;
    case SYS_write:
        *ret = write(fd, at, (size_t)args[2]);
        return true;
    case SYS_writev:
        *ret = writev(fd, at, (int)args[2]);
        return true;
    case SYS_pwrite64:
        *ret = pwrite64(fd, at, (size_t)args[2], args[3]);
        return true;
    case SYS_pwritev:
        *ret = pwritev64(fd, at, (int)args[2], args[3]);
        return true;
    case SYS_pwritev2:
        *ret = pwritev64v2(fd, at, (int)args[2], args[3], (int)args[5]);
        return true;
    case SYS_ftruncate:
        *ret = ftruncate64(fd, args[1]);
        return true;
    case SYS_fallocate:
        *ret = fallocate64(fd, (int)args[1], args[2], args[3]);
        return true;
    case SYS_fadvise64: {
        int error = posix_fadvise64(fd, args[1], args[2], (int)args[3]);
        *ret = hr_edge(-error);
        return true;
    }
    case SYS_readahead:
        *ret = readahead(fd, args[1], (size_t)args[2]);
        return true;
    default:
        return false;
    }
}

/* The descriptor itself: its place, its copies, its properties. */
static bool by_descriptor(long number, long a, long b, long c, long *ret)
{
    switch (number) {
    case SYS_getdents64:
        *ret = getdents64((int)a, (void *)b, (size_t)c);
        return true;
    case SYS_lseek:
        *ret = lseek((int)a, b, (int)c);
        return true;
    case SYS_fcntl:
        *ret = fcntl((int)a, (int)b, c);
        return true;
    case SYS_ioctl:
        *ret = ioctl((int)a, (unsigned long)b, c);
        return true;
    case SYS_close:
        *ret = close((int)a);
        return true;
    case SYS_dup:
        *ret = dup((int)a);
        return true;
#if defined(__x86_64__)
    case SYS_dup2:
        *ret = dup2((int)a, (int)b);
        return true;
#endif
    case SYS_dup3:
        *ret = dup3((int)a, (int)b, (int)c);
        return true;
    default:
        return false;
    }
}

/* Calls on descriptors, and on the working directory. */
bool hr_syscall_by_fd(long number, const long *args, long *ret)
{
    long a = args[0], b = args[1], c = args[2];
    switch (number) {
    case SYS_fstat:
        *ret = fstat((int)a, (struct stat *)b);
        return true;
    case SYS_chdir:
        *ret = chdir((const char *)a);
        return true;
    case SYS_fchdir:
        *ret = fchdir((int)a);
        return true;
    case SYS_getcwd:
        if (!hr_cwd_matters()) {
            return false;
        }
        *ret = cwd_length((char *)a, (size_t)b);
        return true;
    default:
        break;
    }
    bool onto = number == SYS_dup3;
#if defined(__x86_64__)
    onto = onto || number == SYS_dup2;
#endif
    bool other = (number == SYS_ioctl && hr_faces_any()) || (onto && fd_is(b));
    if (!fd_is(a) && !other) {
        return false;
    }
    return by_descriptor(number, a, b, c, ret) || by_marked_fd(number, args, ret);
}

/* ---- calls that can reach a large object by another way than their first argument ---- */

/* The kernel reads by itself: plain files only. */
static long submit(const struct iocb *const *requests, long count)
{
    for (long i = 0; i < count; i++) {
        int error = hr_face_materialise_if((int)requests[i]->aio_fildes);
        if (error) {
            return error;
        }
    }
    return 0;
}

/* Copies inside the kernel, and mappings. */
static bool by_face_fd(long number, const long *args, long *ret)
{
    switch (number) {
    case SYS_mmap:
        if (!hr_face_maybe((int)args[4])) {
            return false;
        }
        *ret =
            (long)mmap64((void *)args[0], (size_t)args[1], (int)args[2], (int)args[3], (int)args[4], args[5]);
        return true;
    case SYS_mremap:
        if (!hr_faces_any()) {
            return false;
        }
        *ret = (long)mremap((void *)args[0], (size_t)args[1], (size_t)args[2], (int)args[3], (void *)args[4]);
        return true;
    case SYS_sendfile:
        if (!hr_face_maybe((int)args[0]) && !hr_face_maybe((int)args[1])) {
            return false;
        }
        *ret = sendfile64((int)args[0], (int)args[1], (off64_t *)args[2], (size_t)args[3]);
        return true;
    case SYS_splice:
    case SYS_copy_file_range:
        if (!hr_face_maybe((int)args[0]) && !hr_face_maybe((int)args[2])) {
            return false;
        }
        *ret = (number == SYS_splice ? splice : copy_file_range)((int)args[0], (off64_t *)args[1],
                                                                 (int)args[2], (off64_t *)args[3],
                                                                 (size_t)args[4], (unsigned)args[5]);
        return true;
    default:
        return false;
    }
}

bool hr_syscall_by_face(long number, const long *args, long *ret)
{
    switch (number) {
    case SYS_io_uring_setup: /* a ring opens and looks up names by itself: ENOENT for those of a map */
        *ret = hr_edge(-ENOSYS);
        return true;
    case SYS_io_setup:
        hr_face_want_whole();
        return false;
    case SYS_io_submit:
        *ret = hr_faces_any() ? hr_edge(submit((const struct iocb *const *)args[2], args[1])) : 0;
        return *ret < 0;
    case SYS_close_range:
        *ret = close_range((unsigned)args[0], (unsigned)args[1], (int)args[2]);
        return true;
    case SYS_pidfd_getfd:
        *ret = pidfd_getfd((int)args[0], (int)args[1], (unsigned)args[2]);
        return true;
    case SYS_execve:
        *ret = hr_faces_any() ? execve((const char *)args[0], (char *const *)args[1], (char *const *)args[2])
                              : 0;
        return hr_faces_any();
    case SYS_execveat:
        *ret = hr_faces_any() ? execveat((int)args[0], (const char *)args[1], (char *const *)args[2],
                                         (char *const *)args[3], (int)args[4])
                              : 0;
        return hr_faces_any();
    default:
        return by_face_fd(number, args, ret);
    }
}
