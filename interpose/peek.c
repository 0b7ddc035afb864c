#include "interpose/peek.h"

#include "interpose/context.h"
#include "interpose/demand.h"
#include "interpose/pickle.h"
#include "interpose/sys.h"
#include "interpose/inner.h"

#define HEADER_BYTES 4    /* multiprocessing.connection's length, alone when the body is over 16 KiB */
#define SMALLEST_BYTES 10 /* 80 02 4b 00 5d 4b 00 61 86 2e, without header */
#define LARGEST_BYTES 65536
#define INDICES_MAX 4096 /* of one batch; larger ones are let pass */

/* Like a pickle of ours? Decides for nearly every write of nearly every program, so: two bytes. */
static const uint8_t *body_of(const uint8_t *bytes, size_t *len)
{
    if (*len > HEADER_BYTES + SMALLEST_BYTES && bytes[HEADER_BYTES] == 0x80 && bytes[0] == 0) {
        size_t said = (size_t)bytes[1] << 16 | (size_t)bytes[2] << 8 | bytes[3];
        *len -= HEADER_BYTES;
        return said == *len ? bytes + HEADER_BYTES : NULL;
    }
    return bytes[0] == 0x80 ? bytes : NULL;
}

static HR_NOINLINE void tell(int fd, const uint8_t *body, size_t len)
{
    uint32_t indices[INDICES_MAX];
    uint64_t batch;
    struct hr_session session;
    unsigned count = hr_pickle_batch(body, len, &batch, indices, INDICES_MAX);
    if (count == 0 || !hr_session_peek(&session) || hr_session_stale(session.control)) {
        return;
    }
    uint64_t stream = (uint64_t)(uint32_t)HR_SYS0(SYS_getpid) << 32 | (uint32_t)fd;
    hr_demand_announce_batch(&session, stream, (uint32_t)batch, indices, count);
}

void hr_peek_written(int fd, const void *bytes, size_t len)
{
    if (HR_LIKELY(len < SMALLEST_BYTES || len > LARGEST_BYTES)) {
        return;
    }
    const uint8_t *body = body_of(bytes, &len);
    if (HR_UNLIKELY(body != NULL)) {
        tell(fd, body, len);
    }
}
