#include "interpose/peek.h"

#include "interpose/context.h"
#include "interpose/demand.h"
#include "interpose/pickle.h"
#include "interpose/sys.h"
#include "interpose/inner.h"

#define HEADER_BYTES HR_PEEK_HEADER_BYTES /* alone when the body is over 16 KiB */
#define SMALLEST_BYTES 10                 /* 80 02 4b 00 5d 4b 00 61 86 2e, without header */
#define LARGEST_BYTES 65536
#define INDICES_MAX 4096 /* of one batch; larger ones are let pass */

_Atomic uint32_t hr_peek_tag;
_Atomic int hr_peek_fd = -1;

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

static HR_NOINLINE bool is_batch(const uint8_t *body, size_t len)
{
    uint32_t indices[INDICES_MAX];
    uint64_t batch;
    return hr_pickle_batch(body, len, &batch, indices, INDICES_MAX) > 0;
}

static HR_NOINLINE void announce(const struct hr_session *session, int fd, const uint8_t *body, size_t len)
{
    uint32_t indices[INDICES_MAX];
    uint64_t batch;
    unsigned count = hr_pickle_batch(body, len, &batch, indices, INDICES_MAX);
    uint64_t stream = (uint64_t)(uint32_t)HR_SYS0(SYS_getpid) << 32 | (uint32_t)fd;
    hr_demand_announce_batch(session, stream, (uint32_t)batch, indices, count);
}

/* Reads it twice, so that its indices and what looks for a daemon are not on the stack together. */
static HR_NOINLINE void tell(int fd, const uint8_t *body, size_t len)
{
    struct hr_session session;
    if (is_batch(body, len) && hr_session_follow(&session)) {
        announce(&session, fd, body, len);
    }
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

static bool is_header(const uint8_t *bytes, size_t len)
{
    if (len != HEADER_BYTES || bytes[0] != 0) {
        return false;
    }
    size_t said = (size_t)bytes[1] << 16 | (size_t)bytes[2] << 8 | bytes[3];
    return said >= SMALLEST_BYTES && said <= LARGEST_BYTES;
}

static HR_NOINLINE void note(const uint8_t *body, size_t len)
{
    uint32_t indices[INDICES_MAX];
    uint64_t batch;
    unsigned count = hr_pickle_batch(body, len, &batch, indices, INDICES_MAX);
    if (count > 0) {
        atomic_store_explicit(&hr_peek_tag, hr_batch_tag((uint32_t)batch, indices, count),
                              memory_order_relaxed);
    }
}

void hr_peek_read(int fd, const void *bytes, size_t len)
{
    struct hr_session session;
    bool follows = fd == atomic_load_explicit(&hr_peek_fd, memory_order_relaxed);
    bool header = is_header(bytes, len);
    if ((!follows && !header) || !hr_session_peek(&session) || hr_pid_is_borrowed()) {
        return;
    }
    atomic_store_explicit(&hr_peek_fd, header ? fd : -1, memory_order_relaxed);
    if (follows && len >= SMALLEST_BYTES && len <= LARGEST_BYTES && *(const uint8_t *)bytes == 0x80) {
        note(bytes, len);
    }
}
