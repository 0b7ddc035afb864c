/* The tables of objects, by what they are and by number. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/base/clock.h"
#include "fetch/cache/inside.h"

/* Seeded, so that nobody who names objects chooses the collisions. */
static unsigned hash_bytes(uint64_t seed, const char *bytes, size_t len)
{
    uint64_t hash = seed ^ len;
    while (len) {
        uint64_t word = 0;
        size_t take = len < sizeof(word) ? len : sizeof(word);
        memcpy(&word, bytes, take);
        hash = hr_mix64(hash ^ word) + seed;
        bytes += take;
        len -= take;
    }
    return (unsigned)(hash ^ (hash >> 32));
}

/* No text has a NUL in it: one more at the end tells a face's from that of its version's whole object. */
static size_t make_identity(char *identity, enum hr_cached_kind kind, const struct hr_source_id *source,
                            const char *key, size_t key_len, const char *etag, size_t etag_len)
{
    char *at = identity;
    memcpy(at, source->bytes, sizeof(source->bytes));
    at += sizeof(source->bytes);
    memcpy(at, key, key_len);
    at += key_len;
    *at++ = '\0';
    memcpy(at, etag, etag_len);
    at[etag_len] = '\0';
    return sizeof(source->bytes) + key_len + 1 + etag_len + (kind == HR_CACHED_FACE);
}

static bool texts_good(const char *key, size_t key_len, const char *etag, size_t etag_len)
{
    return key_len && key_len <= HR_KEY_MAX && etag_len <= HR_ETAG_BYTES_MAX && !memchr(key, '\0', key_len) &&
           !memchr(etag, '\0', etag_len);
}

struct hr_object *hr_object_new(struct hr_cache *cache, enum hr_cached_kind kind,
                                const struct hr_source_id *source, const char *key, uint32_t key_len,
                                const char *etag, size_t etag_len)
{
    if (!texts_good(key, key_len, etag, etag_len)) {
        errno = EINVAL;
        return NULL;
    }
    struct hr_object *object = calloc(1, sizeof(*object) + sizeof(*source) + key_len + 1 + etag_len + 1);
    if (!object) {
        return NULL;
    }
    object->cache = cache;
    object->identity_len =
        (uint32_t)make_identity(object->identity, kind, source, key, key_len, etag, etag_len);
    object->etag_len = (uint16_t)etag_len;
    object->cached.kind = kind;
    object->cached.source = *source;
    object->cached.key = object->identity + sizeof(*source);
    object->cached.key_len = key_len;
    object->cached.etag = object->cached.key + key_len + 1;
    return object;
}

uint32_t hr_object_policy_id(const struct hr_object *object)
{
    unsigned hash = hash_bytes(object->cache->seed, object->identity, object->identity_len);
    uint64_t part = object->cached.kind == HR_CACHED_SEGMENT ? object->cached.offset + 1 : 0;
    return (uint32_t)hr_mix64(hash ^ hr_mix64(part));
}

int hr_table_add(struct hr_cache *cache, struct hr_object *object)
{
    bool named = object->cached.kind != HR_CACHED_SEGMENT;
    if (named) {
        unsigned hash = hash_bytes(cache->seed, object->identity, object->identity_len);
        HASH_ADD_KEYPTR_BYHASHVALUE(by_key, cache->by_key, object->identity, object->identity_len, hash,
                                    object);
        if (!object->by_key.tbl) {
            return -ENOMEM;
        }
    }
    unsigned hash = (unsigned)hr_mix64(object->cached.file_id);
    HASH_ADD_KEYPTR_BYHASHVALUE(by_id, cache->by_id, &object->cached.file_id, sizeof(object->cached.file_id),
                                hash, object);
    if (!object->by_id.tbl) {
        if (named) {
            HASH_DELETE(by_key, cache->by_key, object);
        }
        return -ENOMEM;
    }
    return 0;
}

void hr_table_remove(struct hr_cache *cache, struct hr_object *object)
{
    if (object->cached.kind != HR_CACHED_SEGMENT) {
        HASH_DELETE(by_key, cache->by_key, object);
    }
    HASH_DELETE(by_id, cache->by_id, object);
}

struct hr_object *hr_table_find(struct hr_cache *cache, enum hr_cached_kind kind,
                                const struct hr_source_id *source, const char *key, size_t key_len,
                                const char *etag, size_t etag_len)
{
    char identity[HR_IDENTITY_BYTES_MAX];
    struct hr_object *object = NULL;
    if (!texts_good(key, key_len, etag, etag_len)) {
        return NULL;
    }
    size_t len = make_identity(identity, kind, source, key, key_len, etag, etag_len);
    unsigned hash = hash_bytes(cache->seed, identity, len);
    HASH_FIND_BYHASHVALUE(by_key, cache->by_key, identity, len, hash, object);
    return object;
}

struct hr_object *hr_table_by_id(struct hr_cache *cache, uint64_t file_id)
{
    struct hr_object *object = NULL;
    unsigned hash = (unsigned)hr_mix64(file_id);
    HASH_FIND_BYHASHVALUE(by_id, cache->by_id, &file_id, sizeof(file_id), hash, object);
    return object;
}
