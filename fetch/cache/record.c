#include "fetch/cache/record.h"

#include <errno.h>
#include <string.h>

#include "fetch/base/digest.h"

#define RECORD_MAGIC 0x32435248u /* "HRC2" */
#define NONCE_END 1000000000u    /* nanoseconds of a second */
/* Ids begin below 2^62 and go up by 2^32 a life, epochs by one a minute at most: what is above these was
 * never given, and counting on from there would give numbers twice. */
#define FILE_ID_MAX INT64_MAX
#define EPOCH_MAX INT32_MAX

struct wire {
    uint32_t magic;
    uint32_t length; /* of everything, a multiple of 8 */
    uint32_t crc;    /* CRC32C of everything behind this field */
    uint16_t kind;
    uint16_t key_len;
    uint16_t etag_len;
    uint16_t cached; /* enum hr_cached_kind */
    uint32_t epoch;
    uint8_t id[16];
    uint64_t file_id;
    uint64_t size;
    uint64_t ino;
    uint64_t salt;
    int64_t mtime_ns;
    int64_t written_s;
    uint32_t nonce;
    uint32_t dev;
    uint64_t face_id;
    uint64_t offset;
};
_Static_assert(sizeof(struct wire) == HR_RECORD_HEAD_BYTES, "no holes: a hole would carry memory to disk");

#define CRC_FROM (offsetof(struct wire, crc) + sizeof(uint32_t))

size_t hr_record_bytes(uint32_t key_len, uint32_t etag_len)
{
    return (sizeof(struct wire) + key_len + etag_len + 7) & ~(size_t)7;
}

/* What may be wrong with it beyond this shows when its face is there. */
static int segment_good(const struct wire *wire)
{
    if (wire->cached != HR_CACHED_SEGMENT) {
        return wire->cached <= HR_CACHED_FACE && !wire->face_id && !wire->offset;
    }
    return wire->face_id && wire->face_id < wire->file_id && wire->size && wire->size <= HR_CELL_BYTES &&
           wire->offset <= INT64_MAX - HR_CELL_BYTES;
}

static int fields_good(const struct wire *wire)
{
    if (wire->key_len > HR_KEY_MAX || wire->etag_len > HR_ETAG_BYTES_MAX) {
        return 0;
    }
    if (wire->kind != HR_RECORD_OBJECT &&
        (wire->cached || wire->face_id || wire->offset || wire->key_len || wire->etag_len)) {
        return 0;
    }
    if (wire->file_id > HR_FILE_ID_MAX || wire->epoch > EPOCH_MAX) {
        return 0;
    }
    switch (wire->kind) {
    case HR_RECORD_OBJECT:
        /* Two inode numbers are markers of struct hr_resident. */
        return wire->file_id && wire->key_len && wire->nonce < NONCE_END && wire->size <= INT64_MAX &&
               wire->ino && wire->ino != HR_INO_GONE && segment_good(wire);
    case HR_RECORD_IDS:
        return wire->file_id != 0;
    case HR_RECORD_SEGMENT:
    case HR_RECORD_SYNCED:
        return 1;
    default:
        return 0;
    }
}

static int texts_good(const char *texts, size_t key_len, size_t etag_len, size_t padded_len)
{
    if (memchr(texts, '\0', key_len + etag_len)) {
        return 0;
    }
    for (size_t i = key_len + etag_len; i < padded_len; i++) {
        if (texts[i]) {
            return 0;
        }
    }
    return 1;
}

int hr_record_encode(const struct hr_record *record, struct hr_buf *out)
{
    union {
        struct wire wire;
        char bytes[(HR_RECORD_BYTES_MAX + 7) & ~7];
    } image;
    struct wire *wire = &image.wire;
    if (record->key_len > HR_KEY_MAX || record->etag_len > HR_ETAG_BYTES_MAX) {
        return -EINVAL;
    }
    size_t length = hr_record_bytes(record->key_len, record->etag_len);
    memset(image.bytes, 0, length);
    *wire = (struct wire){
        .magic = RECORD_MAGIC,
        .length = (uint32_t)length,
        .kind = (uint16_t)record->kind,
        .key_len = record->key_len,
        .etag_len = record->etag_len,
        .epoch = record->epoch,
        .file_id = record->file_id,
        .size = record->size,
        .ino = record->ino,
        .salt = record->salt,
        .mtime_ns = record->mtime_ns,
        .written_s = record->written_s,
        .nonce = record->nonce,
        .dev = record->dev,
        .cached = record->cached,
        .face_id = record->face_id,
        .offset = record->offset,
    };
    memcpy(wire->id, record->id, sizeof(wire->id));
    char *texts = image.bytes + sizeof(*wire);
    if (record->key_len) {
        memcpy(texts, record->key, record->key_len);
    }
    if (record->etag_len) {
        memcpy(texts + record->key_len, record->etag, record->etag_len);
    }
    if (!fields_good(wire) || !texts_good(texts, record->key_len, record->etag_len, length - sizeof(*wire))) {
        return -EINVAL;
    }
    wire->crc = hr_crc32c(0, image.bytes + CRC_FROM, length - CRC_FROM);
    return hr_buf_append(out, image.bytes, length);
}

int hr_record_decode(const void *bytes, size_t len, struct hr_record *ret, size_t *ret_used)
{
    struct wire wire;
    const char *at = bytes;
    if (len < sizeof(wire)) {
        return -EAGAIN;
    }
    memcpy(&wire, bytes, sizeof(wire));
    if (wire.magic != RECORD_MAGIC || !fields_good(&wire) ||
        wire.length != hr_record_bytes(wire.key_len, wire.etag_len)) {
        return -EBADMSG;
    }
    if (len < wire.length) {
        return -EAGAIN;
    }
    const char *texts = at + sizeof(wire);
    if (wire.crc != hr_crc32c(0, at + CRC_FROM, wire.length - CRC_FROM) ||
        !texts_good(texts, wire.key_len, wire.etag_len, wire.length - sizeof(wire))) {
        return -EBADMSG;
    }
    *ret = (struct hr_record){
        .kind = (enum hr_record_kind)wire.kind,
        .epoch = wire.epoch,
        .file_id = wire.file_id,
        .size = wire.size,
        .ino = wire.ino,
        .salt = wire.salt,
        .mtime_ns = wire.mtime_ns,
        .written_s = wire.written_s,
        .nonce = wire.nonce,
        .dev = wire.dev,
        .cached = wire.cached,
        .face_id = wire.face_id,
        .offset = wire.offset,
        .key = texts,
        .key_len = wire.key_len,
        .etag = texts + wire.key_len,
        .etag_len = wire.etag_len,
    };
    memcpy(ret->id, wire.id, sizeof(ret->id));
    *ret_used = wire.length;
    return 0;
}
