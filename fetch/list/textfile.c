#include "fetch/list/textfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "fetch/base/cleanup.h"

#define READ_BYTES (256u << 10) /* zlib's input: large enough that its calls do not show */

struct hr_textfile {
    gzFile stream;
    int64_t mtime_ns;
    uint64_t size;
};

int hr_textfile_open(const char *path, struct hr_textfile **ret)
{
    /* O_NONBLOCK: a FIFO in its place must not hold us up. */
    hr_cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        return -errno;
    }
    if (!S_ISREG(st.st_mode)) {
        return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
    }
    struct hr_textfile *file = calloc(1, sizeof *file);
    if (!file) {
        return -ENOMEM;
    }
    file->stream = gzdopen(fd, "rb");
    if (!file->stream) {
        free(file);
        return -ENOMEM;
    }
    (void)hr_steal_fd(fd);
    (void)gzbuffer(file->stream, READ_BYTES);
    file->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    file->size = (uint64_t)st.st_size;
    *ret = file;
    return 0;
}

int64_t hr_textfile_read(struct hr_textfile *file, char *ret_bytes, size_t room)
{
    size_t got = 0;
    while (got < room) {
        size_t part = room - got < READ_BYTES ? room - got : READ_BYTES;
        int read = gzread(file->stream, ret_bytes + got, (unsigned)part);
        if (read <= 0) {
            int error;
            (void)gzerror(file->stream, &error);
            if (read == 0 && error == Z_OK) {
                break;
            }
            return error == Z_ERRNO ? -EIO : error == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
        }
        got += (size_t)read;
    }
    return (int64_t)got;
}

int64_t hr_textfile_mtime_ns(const struct hr_textfile *file)
{
    return file->mtime_ns;
}

uint64_t hr_textfile_size(const struct hr_textfile *file)
{
    return file->size;
}

void hr_textfile_close(struct hr_textfile *file)
{
    if (file) {
        (void)gzclose(file->stream);
    }
    free(file);
}
