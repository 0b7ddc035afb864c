/* write(): passed through; what a DataLoader announces to its workers is looked at on the way. */
#include "interpose/peek.h"
#include "interpose/inner.h"

static inline ssize_t written(int fd, const void *bytes, size_t len, ssize_t result)
{
    if (HR_UNLIKELY(hr_active) && result == (ssize_t)len) {
        hr_peek_written(fd, bytes, len);
    }
    return result;
}

ssize_t write(int fd, const void *bytes, size_t len)
{
    return written(fd, bytes, len, HR_REAL(write)(fd, bytes, len));
}

ssize_t __write(int fd, const void *bytes, size_t len)
{
    return written(fd, bytes, len, HR_REAL(__write)(fd, bytes, len));
}
