#include "fetch/cache/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fetch/base/cleanup.h"
#include "fetch/base/clock.h"
#include "fetch/cache/inside.h"

#define TICK_MS 1000        /* the free floor is looked at */
#define SYNC_EVERY_TICKS 60 /* what a crash of the machine costs: a minute of fetching */

static int sync_now(const char *dir)
{
    hr_cleanup_fd int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    return syncfs(fd) < 0 ? -errno : 0;
}

static struct hr_cache *cache_of_sync(struct hr_work *work)
{
    return (struct hr_cache *)((char *)work - offsetof(struct hr_cache, sync));
}

static void sync_run(struct hr_work *work)
{
    struct hr_cache *cache = cache_of_sync(work);
    cache->sync_error = sync_now(cache->dir);
}

static void sync_done(struct hr_work *work)
{
    struct hr_cache *cache = cache_of_sync(work);
    cache->syncing = false;
    if (!cache->sync_error) {
        hr_journal_synced(cache->journal, cache->sync_epoch);
    }
}

static const struct hr_work_kind sync_work = {.run = sync_run, .done = sync_done};

static void on_tick(void *owner)
{
    struct hr_cache *cache = owner;
    (void)hr_cache_make_room(cache, 0);
    hr_handed_tick(cache);
    if (++cache->ticks % SYNC_EVERY_TICKS == 0 && !cache->syncing &&
        hr_journal_epoch_end(cache->journal, &cache->sync_epoch)) {
        cache->syncing = true;
        hr_writers_push(cache->slow, &cache->sync);
    }
    hr_journal_flush(cache->journal); /* what a full disk refused */
    (void)hr_loop_arm(cache->options.loop, &cache->tick, TICK_MS);
}

static void on_batch_end(void *owner)
{
    struct hr_cache *cache = owner;
    if (!cache->journal) {
        return;
    }
    if (atomic_exchange_explicit(&cache->remade, false, memory_order_acq_rel)) {
        hr_cache_recheck(cache);
    }
    hr_journal_flush(cache->journal);
}

static void cache_free(struct hr_cache *cache)
{
    cache->quiet = true;
    hr_loop_disarm(cache->options.loop, &cache->tick);
    if (cache->writers) {
        hr_handed_end(cache);
        hr_writers_drain(cache->writers);
    }
    hr_writers_free(cache->slow);
    hr_writers_free(cache->writers);
    hr_journal_close(cache->journal);
    hr_residents_close(cache->residents);
    hr_segments_release(&cache->segments);
    hr_policy_release(&cache->policy);
    for (uint32_t chain = 0; chain < cache->by_id.heads; chain++) {
        for (struct hr_chained *link = hr_chains_at(&cache->by_id, chain), *next; link; link = next) {
            next = link->next;
            free(hr_object_of_id(link));
        }
    }
    hr_chains_release(&cache->by_id);
    hr_chains_release(&cache->by_key);
    hr_sources_release(cache);
    free(cache->dir);
    free(cache);
}

static int copy_options(struct hr_cache *cache, const struct hr_cache_options *options)
{
    size_t len = strlen(options->dir);
    while (len > 1 && options->dir[len - 1] == '/') {
        len--;
    }
    if (!len || len > HR_CACHE_DIR_MAX || !options->writer_threads) {
        return -EINVAL;
    }
    cache->dir = strndup(options->dir, len);
    if (!cache->dir) {
        return -ENOMEM;
    }
    cache->options = *options;
    cache->options.dir = cache->dir;
    cache->budget.limit_bytes = options->size_bytes;
    cache->budget.floor_bytes = options->free_bytes;
    cache->seed = hr_random_u64();
    cache->quiet = true;
    cache->tick = (struct hr_timer)HR_TIMER_INIT(on_tick, cache);
    cache->sync = (struct hr_work){.kind = &sync_work};
    if (!cache->options.faces_max) {
        cache->options.faces_max = HR_FACES_MAX;
    }
    hr_policy_init(&cache->policy);
    hr_policy_list_init(&cache->bare);
    return hr_tables_init(cache);
}

static int open_inside(struct hr_cache *cache, char what[128])
{
    const char *folder = "";
    int r = hr_folders_make(cache->dir, &folder);
    (void)snprintf(what, 128, "the folder %s", *folder ? folder : "itself");
    if (!r) {
        (void)snprintf(what, 128, "a file in spool");
        r = hr_folders_probe(cache->dir, &cache->dev);
    }
    if (!r) {
        (void)snprintf(what, 128, "writer threads");
        r = hr_writers_new(cache->options.writer_threads, cache->options.loop, on_batch_end, cache,
                           &cache->writers);
    }
    if (!r) {
        r = hr_writers_new(1, cache->options.loop, on_batch_end, cache, &cache->slow);
    }
    if (!r) {
        (void)snprintf(what, 128, "records and objects of earlier runs");
        r = hr_cache_adopt(cache);
    }
    return r;
}

int hr_cache_open(const struct hr_cache_options *options, char ret_message[256], struct hr_cache **ret)
{
    char what[128] = "the settings";
    struct hr_cache *cache = calloc(1, sizeof(*cache));
    int r = cache ? copy_options(cache, options) : -ENOMEM;
    if (!r) {
        r = open_inside(cache, what);
    }
    if (r < 0) {
        (void)snprintf(ret_message, 256, "cache in %.120s: %s: %s", options->dir, what, strerror(-r));
        if (cache && cache->dir) {
            cache_free(cache);
        } else {
            free(cache);
        }
        return r;
    }
    if (hr_journal_wants_rewrite(cache->journal)) {
        hr_journal_rewrite(cache->journal);
    }
    (void)hr_cache_make_room(cache, 0); /* a smaller budget than last time */
    hr_journal_flush(cache->journal);
    (void)hr_loop_arm(options->loop, &cache->tick, TICK_MS);
    cache->quiet = false;
    *ret = cache;
    return 0;
}

void hr_cache_close(struct hr_cache *cache)
{
    uint32_t epoch = 0;
    if (!cache) {
        return;
    }
    hr_puts_close(cache);
    hr_writers_drain(cache->slow);
    if (hr_journal_epoch_end(cache->journal, &epoch) && !sync_now(cache->dir)) {
        hr_journal_synced(cache->journal, epoch);
    }
    cache_free(cache);
}

const struct hr_cached *hr_cache_find(struct hr_cache *cache, const struct hr_source_id *source,
                                      const char *key, uint32_t key_len, const char *etag)
{
    const struct hr_identity identity = {HR_CACHED_WHOLE, source, key, key_len, etag, strlen(etag)};
    struct hr_object *object = hr_table_find(cache, &identity);
    return object ? &object->cached : NULL;
}

void hr_cache_each(struct hr_cache *cache, const struct hr_source_id *source,
                   void (*fn)(void *owner, const struct hr_cached *cached), void *owner_pointer)
{
    for (uint32_t chain = 0; chain < cache->by_key.heads; chain++) {
        for (struct hr_chained *link = hr_chains_at(&cache->by_key, chain); link; link = link->next) {
            const struct hr_cached *cached = &hr_object_of_key(link)->cached;
            if (!memcmp(cached->source, source, sizeof(*source))) {
                fn(owner_pointer, cached);
            }
        }
    }
}

void hr_cache_touch(struct hr_cache *cache, uint64_t file_id)
{
    struct hr_object *object = hr_table_by_id(cache, file_id);
    if (!object) {
        return;
    }
    if (object->cached.kind != HR_CACHED_FACE) {
        hr_policy_used(&cache->policy, &object->policy);
    } else if (!hr_object_face(object)->holds) {
        hr_policy_list_remove(&object->policy);
        hr_policy_list_add(&cache->bare, &object->policy);
    }
}

void hr_cache_announced(struct hr_cache *cache, uint64_t file_id)
{
    struct hr_object *object = hr_table_by_id(cache, file_id);
    if (object && object->cached.kind != HR_CACHED_FACE) {
        hr_policy_announced(&cache->policy, &object->policy);
    }
}

void hr_cache_abandoned(struct hr_cache *cache, uint64_t file_id)
{
    struct hr_object *object = hr_table_by_id(cache, file_id);
    if (object && object->cached.kind != HR_CACHED_FACE) {
        hr_policy_abandoned(&cache->policy, &object->policy);
    }
}

void hr_cache_stats(const struct hr_cache *cache, struct hr_cache_stats *ret)
{
    const struct hr_budget *budget = &cache->budget;
    int64_t free_bytes = budget->free_bytes + (int64_t)(budget->reserved_bytes - budget->landed_bytes);
    uint64_t used = budget->used_bytes + budget->reserved_bytes;
    int64_t spare = budget->free_bytes - (int64_t)budget->floor_bytes;
    uint64_t most = used + (spare > 0 ? (uint64_t)spare : 0);
    *ret = (struct hr_cache_stats){
        .room_bytes = most < budget->limit_bytes ? most : budget->limit_bytes,
        .bytes = budget->used_bytes + budget->reserved_bytes,
        .faces = cache->face_count,
        .segments = cache->segments.count,
        .objects = cache->by_key.count - cache->face_count,
        .budget_bytes = budget->limit_bytes,
        .free_bytes = free_bytes > 0 ? (uint64_t)free_bytes : 0,
        .evictions = cache->evictions,
        .evicted_bytes = cache->evicted_bytes,
        .verify_failures = cache->verify_failures,
        .adopted = cache->adopted,
        .held_bytes = cache->held_bytes,
        .writes_in_flight = cache->put_count,
        .residents_gen = hr_residents_gen(cache->residents),
        .cache_dev = cache->dev,
        .keeps_set = cache->policy.keep,
        .kept_bytes = hr_policy_kept_bytes(&cache->policy),
        .uses = cache->policy.uses,
        .use_hits = cache->policy.hits,
    };
}
