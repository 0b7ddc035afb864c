#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fetch/base/clock.h"
#include "fetch/cache/inside.h"

int hr_cache_admit(struct hr_cache *cache, struct hr_object *object)
{
    struct hr_object *older = hr_table_find(cache, &object->cached.source, object->cached.key,
                                            object->cached.key_len, object->cached.etag, object->etag_len);
    if (older) {
        hr_cache_take_out(cache, older);
        hr_cache_unlink_later(older);
    }
    int r = hr_table_add(cache, object);
    if (r < 0) {
        return r;
    }
    hr_policy_admit(&cache->policy, &object->policy);
    const struct hr_resident_fields fields = {
        .ino = object->ino,
        .size = object->cached.size,
        .mtime_ns = object->cached.mtime_ns,
        .object_ino = hr_object_ino(object->salt, object->cached.key, object->cached.key_len, "", 0),
        .file_id = object->cached.file_id,
        .object_dev = object->dev,
        .nonce = object->nonce,
    };
    hr_residents_put(cache->residents, &fields);
    if (!object->link.segment) {
        hr_journal_add(cache->journal, object);
    }
    return 0;
}

void hr_cache_take_out(struct hr_cache *cache, struct hr_object *object)
{
    if (!cache->quiet && cache->options.evicted) {
        cache->options.evicted(cache->options.owner, &object->cached);
    }
    hr_policy_forget(&cache->policy, &object->policy);
    hr_residents_evict(cache->residents, object->ino, object->cached.file_id);
    hr_journal_forget(cache->journal, object);
    hr_table_remove(cache, object);
    hr_budget_give_up(&cache->budget, hr_budget_charge(object->cached.size));
}

static struct hr_object *object_of_leaving(struct hr_work *work)
{
    return (struct hr_object *)((char *)work - offsetof(struct hr_object, leaving));
}

static void leaving_run(struct hr_work *work)
{
    const struct hr_object *object = object_of_leaving(work);
    char path[PATH_MAX];
    hr_object_path(object->cache->dir, object->cached.file_id, path);
    (void)unlink(path);
}

static void leaving_done(struct hr_work *work)
{
    struct hr_object *object = object_of_leaving(work);
    hr_budget_unlinked(&object->cache->budget, hr_budget_charge(object->cached.size));
    free(object);
}

void hr_cache_unlink_later(struct hr_object *object)
{
    object->leaving.run = leaving_run;
    object->leaving.done = leaving_done;
    hr_writers_push(object->cache->writers, &object->leaving);
}

uint64_t hr_cache_give_up(struct hr_cache *cache, uint64_t bytes, struct hr_object **ret_list)
{
    uint64_t given = 0;
    while (given < bytes) {
        struct hr_policy_node *node = hr_policy_victim(&cache->policy);
        if (!node) {
            break;
        }
        struct hr_object *object = (struct hr_object *)((char *)node - offsetof(struct hr_object, policy));
        hr_cache_take_out(cache, object);
        given += hr_budget_charge(object->cached.size);
        cache->evictions++;
        cache->evicted_bytes += object->cached.size;
        object->next_victim = *ret_list;
        *ret_list = object;
    }
    return given;
}

int hr_cache_make_room(struct hr_cache *cache, uint64_t bytes)
{
    struct hr_object *list = NULL;
    struct hr_budget *budget = &cache->budget;
    hr_budget_refresh(budget, cache->dir, hr_clock_ms());
    if (bytes && !hr_budget_possible(budget, bytes)) {
        return -ENOSPC; /* nothing is given up for what cannot fit */
    }
    uint64_t lacks = hr_budget_lacks(budget, bytes);
    uint64_t given = lacks ? hr_cache_give_up(cache, lacks, &list) : 0;
    while (list) {
        struct hr_object *object = list;
        list = object->next_victim;
        hr_cache_unlink_later(object);
    }
    return given < lacks ? -ENOSPC : 0;
}

void hr_cache_drop(struct hr_cache *cache, uint64_t file_id)
{
    struct hr_object *object = hr_table_by_id(cache, file_id);
    if (object) {
        hr_cache_take_out(cache, object);
        hr_cache_unlink_later(object);
    }
}

void hr_cache_recheck(struct hr_cache *cache)
{
    struct hr_object *object = NULL;
    struct hr_object *next = NULL;
    HASH_ITER(by_id, cache->by_id, object, next)
    {
        char path[PATH_MAX];
        struct stat st;
        hr_object_path(cache->dir, object->cached.file_id, path);
        if (lstat(path, &st) < 0 || !hr_object_matches(object, &st, cache->dev)) {
            hr_cache_take_out(cache, object);
            hr_cache_unlink_later(object);
        }
    }
    hr_journal_rewrite(cache->journal);
    /* What cannot be written again is only for later lives and newer clients: this life goes on. */
    (void)hr_ids_persist(cache);
    (void)hr_residents_renew(cache->residents, cache->put_count);
}
