/* What an object is: source, key, ETag and kind; and how that lies in memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/cache/inside.h"

_Static_assert(sizeof(struct hr_object) == 120, "there are millions of them");

static size_t bytes_of_kind(unsigned kind)
{
    return kind == HR_CACHED_WHOLE  ? sizeof(struct hr_object)
           : kind == HR_CACHED_FACE ? sizeof(struct hr_object_face)
                                    : sizeof(struct hr_object_segment);
}

/* Behind the object: key, '\0', ETag, '\0'. */
static char *texts_of(const struct hr_object *object)
{
    return (char *)object + bytes_of_kind(object->cached.kind);
}

static const struct hr_object *object_of(const struct hr_cached *cached)
{
    return (const struct hr_object *)((const char *)cached - offsetof(struct hr_object, cached));
}

const char *hr_cached_key(const struct hr_cached *cached)
{
    return texts_of(object_of(cached));
}

const char *hr_cached_etag(const struct hr_cached *cached)
{
    return texts_of(object_of(cached)) + cached->key_len + 1;
}

uint64_t hr_cached_face_id(const struct hr_cached *cached)
{
    return cached->kind == HR_CACHED_SEGMENT ? hr_object_segment(object_of(cached))->face_id : 0;
}

uint64_t hr_cached_offset(const struct hr_cached *cached)
{
    return cached->kind == HR_CACHED_SEGMENT ? hr_object_segment(object_of(cached))->offset : 0;
}

bool hr_identity_good(const struct hr_identity *identity)
{
    return identity->key_len && identity->key_len <= HR_KEY_MAX && identity->etag_len <= HR_ETAG_BYTES_MAX &&
           !memchr(identity->key, '\0', identity->key_len) &&
           !memchr(identity->etag, '\0', identity->etag_len);
}

static uint64_t hash_bytes(uint64_t seed, uint64_t hash, const void *bytes, size_t len)
{
    const char *at = bytes;
    hash ^= len;
    while (len) {
        uint64_t word = 0;
        size_t take = len < sizeof(word) ? len : sizeof(word);
        memcpy(&word, at, take);
        hash = hr_mix64(hash ^ word) + seed;
        at += take;
        len -= take;
    }
    return hash;
}

uint32_t hr_identity_hash(const struct hr_cache *cache, const struct hr_identity *identity)
{
    uint64_t seed = cache->seed;
    uint64_t hash =
        hash_bytes(seed, seed ^ (uint64_t)identity->kind, identity->source, sizeof(struct hr_source_id));
    hash = hash_bytes(seed, hash, identity->key, identity->key_len);
    hash = hash_bytes(seed, hash, identity->etag, identity->etag_len);
    return (uint32_t)(hash ^ (hash >> 32));
}

struct hr_identity hr_object_identity(const struct hr_object *object)
{
    const struct hr_cached *cached = &object->cached;
    return (struct hr_identity){
        .kind = (enum hr_cached_kind)cached->kind,
        .source = cached->source,
        .key = hr_cached_key(cached),
        .key_len = cached->key_len,
        .etag = hr_cached_etag(cached),
        .etag_len = cached->etag_len,
    };
}

bool hr_is_version(const struct hr_object *object, const struct hr_identity *identity)
{
    const struct hr_cached *cached = &object->cached;
    return cached->key_len == identity->key_len && cached->etag_len == identity->etag_len &&
           !memcmp(hr_cached_key(cached), identity->key, identity->key_len) &&
           !memcmp(hr_cached_etag(cached), identity->etag, identity->etag_len) &&
           !memcmp(cached->source, identity->source, sizeof(*cached->source));
}

/* Few, so a list; the one used last is its first. */
static struct hr_source *source_of(struct hr_cache *cache, const struct hr_source_id *id, uint64_t salt,
                                   uint32_t dev)
{
    struct hr_source **at = &cache->sources;
    while (*at && (memcmp(&(*at)->id, id, sizeof(*id)) != 0 || (*at)->salt != salt || (*at)->dev != dev)) {
        at = &(*at)->next;
    }
    struct hr_source *source = *at;
    if (source) {
        *at = source->next;
    } else {
        source = malloc(sizeof(*source));
        if (!source) {
            return NULL;
        }
        *source = (struct hr_source){.id = *id, .salt = salt, .dev = dev, .cache = cache};
    }
    source->next = cache->sources;
    cache->sources = source;
    return source;
}

void hr_sources_release(struct hr_cache *cache)
{
    while (cache->sources) {
        struct hr_source *source = cache->sources;
        cache->sources = source->next;
        free(source);
    }
}

static void put_texts(struct hr_object *object, const struct hr_identity *identity)
{
    char *texts = texts_of(object);
    memcpy(texts, identity->key, identity->key_len);
    texts[identity->key_len] = '\0';
    memcpy(texts + identity->key_len + 1, identity->etag, identity->etag_len);
    texts[identity->key_len + 1 + identity->etag_len] = '\0';
}

/* To replacement the parts of an object are objects. */
static uint32_t policy_id(const struct hr_cache *cache, const struct hr_identity *identity, uint64_t offset)
{
    uint32_t hash = hr_identity_hash(cache, identity);
    return identity->kind == HR_CACHED_SEGMENT ? (uint32_t)hr_mix64(hash ^ hr_mix64(offset + 1)) : hash;
}

struct hr_object *hr_object_new(struct hr_cache *cache, const struct hr_identity *identity,
                                const struct hr_object_facts *facts)
{
    if (!hr_identity_good(identity)) {
        errno = EINVAL;
        return NULL;
    }
    size_t text_bytes = identity->key_len + 1 + identity->etag_len + 1;
    struct hr_source *source = source_of(cache, identity->source, facts->salt, facts->dev);
    struct hr_object *object = source ? calloc(1, bytes_of_kind(identity->kind) + text_bytes) : NULL;
    if (!object) {
        errno = ENOMEM;
        return NULL;
    }
    object->cached = (struct hr_cached){
        .source = &source->id,
        .size = facts->size,
        .mtime_ns = facts->mtime_ns,
        .key_len = identity->key_len,
        .etag_len = (uint16_t)identity->etag_len,
        .kind = (uint16_t)identity->kind,
    };
    object->policy.id = policy_id(cache, identity, facts->offset);
    if (identity->kind == HR_CACHED_SEGMENT) {
        hr_object_segment(object)->face_id = facts->face_id;
        hr_object_segment(object)->offset = facts->offset;
    }
    put_texts(object, identity);
    return object;
}
