/* One record of the cache's journal: encoded, decoded, checked. Pure functions, any thread.
 *
 * On disk (native endian, one machine; the magic changes with the layout): a fixed head, the key, the ETag,
 * zeros up to a multiple of 8. The CRC covers everything behind itself, so a record that was torn, cut or
 * overwritten does not decode. Decoding trusts nothing: lengths, texts and numbers are within the bounds that
 * the rest relies on. */
#ifndef HR_CACHE_RECORD_H
#define HR_CACHE_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "fetch/base/buf.h"
#include "fetch/cache/cache.h"
#include "interpose/abi.h"

#define HR_ETAG_BYTES_MAX 135 /* what struct hr_call of fetch/store/store.h holds */
#define HR_BOOT_ID_BYTES 16
/* Ids begin below 2^62 and go up by 2^32 a life (ids.c): more was never given, and the next could be an old
 * one. */
#define HR_FILE_ID_MAX INT64_MAX

enum hr_record_kind {
    HR_RECORD_SEGMENT = 1, /* first of each file: boot_id, epoch (proven so far) */
    HR_RECORD_OBJECT = 2,  /* or a face, or a segment of one */
    HR_RECORD_SYNCED = 3,  /* epoch: objects of this and earlier epochs are on the disk */
    HR_RECORD_IDS = 4      /* file_id: no number from here on was ever given */
};

struct hr_record {
    enum hr_record_kind kind;
    uint32_t epoch;
    uint8_t id[16]; /* OBJECT: the source; SEGMENT: the kernel's boot id */
    uint64_t file_id;
    /* OBJECT */
    uint64_t size;
    uint64_t ino;
    uint64_t salt;
    int64_t mtime_ns;  /* the object's */
    int64_t written_s; /* seconds and nanoseconds (nonce) of the file's mtime */
    uint32_t nonce;
    uint32_t dev;             /* st_dev to report */
    uint16_t cached;          /* enum hr_cached_kind */
    uint64_t face_id, offset; /* HR_CACHED_SEGMENT: its face, older than itself; else 0 */
    const char *key;          /* decoded: inside the bytes given, not terminated */
    uint16_t key_len;
    const char *etag;
    uint16_t etag_len;
};

#define HR_RECORD_HEAD_BYTES 112 /* of a record without texts */
#define HR_RECORD_BYTES_MAX (HR_RECORD_HEAD_BYTES + HR_KEY_MAX + HR_ETAG_BYTES_MAX + 7)

size_t hr_record_bytes(uint32_t key_len, uint32_t etag_len);
/* 0, -EINVAL (out of the bounds that decoding asks for), -ENOMEM, -EFBIG. */
int hr_record_encode(const struct hr_record *record, struct hr_buf *out);
/* 0; -EAGAIN: the bytes end inside the record; -EBADMSG: this is no record. */
int hr_record_decode(const void *bytes, size_t len, struct hr_record *ret, size_t *ret_used);

#endif
