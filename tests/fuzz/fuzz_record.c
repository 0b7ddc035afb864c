/* The journal's records, as a damaged disk would hand them over: no read outside the bytes given, and what
 * decodes is within bounds and encodes to the same bytes again. The codec is built in here: it needs
 * fetch/base only. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/cache/record.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const uint8_t *at, const struct hr_record *record, size_t used)
{
    struct hr_buf again = HR_BUF_INIT(HR_RECORD_BYTES_MAX);
    if (hr_record_encode(record, &again) || again.len != used || memcmp(again.data, at, used) != 0) {
        abort();
    }
    hr_buf_release(&again);
}

/* A stream of records as it is; then the same with each record's CRC made right where there is room for one,
 * so that the fuzzer gets past it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hr_record record;
    size_t used = 0;
    for (size_t at = 0; at < size && !hr_record_decode(data + at, size - at, &record, &used); at += used) {
        check(data + at, &record, used);
    }
    uint8_t *copy = malloc(size ? size : 1); /* of exactly this size: reading past it is seen */
    memcpy(copy, data, size);
    for (size_t at = 0; size - at >= sizeof(struct wire);) {
        struct wire wire;
        memcpy(&wire, copy + at, sizeof(wire));
        wire.magic = RECORD_MAGIC;
        wire.cached = (uint16_t)(wire.cached % 4);
        if (wire.cached == HR_CACHED_SEGMENT) {
            wire.size %= HR_CELL_BYTES + 2;
            wire.face_id = wire.file_id ? wire.face_id % wire.file_id : 0;
        } else {
            wire.face_id %= 2;
            wire.offset %= 2;
        }
        wire.kind = (uint16_t)(wire.kind % 6);
        wire.file_id %= (uint64_t)HR_FILE_ID_MAX + 2;
        wire.epoch %= (uint32_t)EPOCH_MAX + 2;
        wire.key_len = (uint16_t)(wire.key_len % (HR_KEY_MAX + 2));
        wire.etag_len = (uint16_t)(wire.etag_len % (HR_ETAG_BYTES_MAX + 2));
        wire.length = (uint32_t)hr_record_bytes(wire.key_len, wire.etag_len);
        if (wire.length > size - at) {
            memcpy(copy + at, &wire, sizeof(wire));
            (void)hr_record_decode(copy + at, size - at, &record, &used);
            break;
        }
        memcpy(copy + at, &wire, sizeof(wire));
        wire.crc = hr_crc32c(0, copy + at + CRC_FROM, wire.length - CRC_FROM);
        memcpy(copy + at, &wire, sizeof(wire));
        if (hr_record_decode(copy + at, size - at, &record, &used)) {
            break;
        }
        check(copy + at, &record, used);
        at += used;
    }
    free(copy);
    return 0;
}
