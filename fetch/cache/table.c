/* The tables of objects, by what they are and by number. */
#include <errno.h>

#include "fetch/cache/inside.h"

static uint32_t hash_of_key(const struct hr_chained *item)
{
    return hr_object_of_key(item)->policy.id;
}

static uint32_t hash_of_number(uint64_t file_id)
{
    return (uint32_t)hr_mix64(file_id);
}

static uint32_t hash_of_id(const struct hr_chained *item)
{
    return hash_of_number(hr_object_of_id(item)->cached.file_id);
}

int hr_tables_init(struct hr_cache *cache)
{
    int r = hr_chains_init(&cache->by_key, hash_of_key);
    return r < 0 ? r : hr_chains_init(&cache->by_id, hash_of_id);
}

void hr_table_add(struct hr_cache *cache, struct hr_object *object)
{
    if (object->cached.kind != HR_CACHED_SEGMENT) {
        hr_chains_add(&cache->by_key, &object->by_key);
    }
    hr_chains_add(&cache->by_id, &object->by_id);
}

void hr_table_remove(struct hr_cache *cache, struct hr_object *object)
{
    if (object->cached.kind != HR_CACHED_SEGMENT) {
        hr_chains_remove(&cache->by_key, &object->by_key);
    }
    hr_chains_remove(&cache->by_id, &object->by_id);
}

struct hr_object *hr_table_find(struct hr_cache *cache, const struct hr_identity *identity)
{
    if (!hr_identity_good(identity)) {
        return NULL;
    }
    uint32_t hash = hr_identity_hash(cache, identity);
    for (struct hr_chained *link = hr_chains_of(&cache->by_key, hash); link; link = link->next) {
        struct hr_object *object = hr_object_of_key(link);
        if (object->policy.id == hash && object->cached.kind == identity->kind &&
            hr_is_version(object, identity)) {
            return object;
        }
    }
    return NULL;
}

struct hr_object *hr_table_by_id(struct hr_cache *cache, uint64_t file_id)
{
    struct hr_chained *link = hr_chains_of(&cache->by_id, hash_of_number(file_id));
    while (link && hr_object_of_id(link)->cached.file_id != file_id) {
        link = link->next;
    }
    return link ? hr_object_of_id(link) : NULL;
}
