/* POSIX aio: libc's own threads read by calls that no hook sees, so a large object is made a plain file in
 * place first. Before glibc 2.34 these are librt's, which may be loaded behind libc. */
#include <aio.h>

#include "interpose/face.h"
#include "interpose/inner.h"

#define REAL_AIO(name)                                                                                       \
    ({                                                                                                       \
        if (HR_UNLIKELY(!HR_REAL(name))) {                                                                   \
            hr_real.name = hr_real_elsewhere(#name);                                                         \
        }                                                                                                    \
        hr_real.name;                                                                                        \
    })

/* 0 or -1 with errno. */
static inline int ready(int fd)
{
    if (HR_LIKELY(!hr_active) || !hr_face_maybe(fd)) {
        return 0;
    }
    return (int)hr_edge(hr_face_materialise_if(fd));
}

int aio_read(struct aiocb *request)
{
    return ready(request->aio_fildes) < 0 ? -1 : REAL_AIO(aio_read)(request);
}

int aio_read64(struct aiocb64 *request)
{
    return ready(request->aio_fildes) < 0 ? -1 : REAL_AIO(aio_read64)(request);
}

int aio_write(struct aiocb *request)
{
    return ready(request->aio_fildes) < 0 ? -1 : REAL_AIO(aio_write)(request);
}

int aio_write64(struct aiocb64 *request)
{
    return ready(request->aio_fildes) < 0 ? -1 : REAL_AIO(aio_write64)(request);
}

int lio_listio(int mode, struct aiocb *const requests[], int count, struct sigevent *event)
{
    for (int i = 0; i < count; i++) {
        if (requests[i] && ready(requests[i]->aio_fildes) < 0) {
            return -1;
        }
    }
    return REAL_AIO(lio_listio)(mode, requests, count, event);
}

int lio_listio64(int mode, struct aiocb64 *const requests[], int count, struct sigevent *event)
{
    for (int i = 0; i < count; i++) {
        if (requests[i] && ready(requests[i]->aio_fildes) < 0) {
            return -1;
        }
    }
    return REAL_AIO(lio_listio64)(mode, requests, count, event);
}
