/* Objects enter the cache and leave it: tables, record, residents, policy, file. */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fetch/base/clock.h"
#include "fetch/cache/inside.h"

static int settle_older(struct hr_cache *cache, struct hr_object *object, struct hr_object **ret_stays)
{
    const struct hr_cached *cached = &object->cached;
    if (cached->kind == HR_CACHED_FACE) {
        return hr_face_settle(cache, object, ret_stays);
    }
    if (cached->kind == HR_CACHED_SEGMENT) {
        return hr_segment_settle(cache, object, ret_stays);
    }
    const struct hr_identity identity = hr_object_identity(object);
    struct hr_object *older = hr_table_find(cache, &identity);
    if (older) {
        hr_cache_leave(cache, older);
    }
    *ret_stays = object;
    return 0;
}

static int enter_tables(struct hr_cache *cache, struct hr_object *object)
{
    if (object->cached.kind == HR_CACHED_SEGMENT) {
        struct hr_object *face = hr_face_by_id(cache, hr_object_segment(object)->face_id);
        int r = hr_segments_add(&cache->segments, face, object);
        if (r < 0) {
            return r;
        }
        hr_face_hold(face);
    }
    hr_table_add(cache, object);
    return 0;
}

static void leave_tables(struct hr_cache *cache, struct hr_object *object)
{
    if (object->cached.kind == HR_CACHED_SEGMENT) {
        uint64_t face_id = hr_object_segment(object)->face_id;
        hr_segments_remove(&cache->segments, hr_face_by_id(cache, face_id), object);
        hr_face_release(cache, face_id);
    }
    hr_table_remove(cache, object);
}

static void make_known(struct hr_cache *cache, const struct hr_object *object)
{
    const struct hr_resident_fields fields = {
        .ino = object->ino,
        .size = object->cached.size,
        .mtime_ns = object->cached.mtime_ns,
        .object_ino = hr_object_ino(hr_object_source(object)->salt, hr_cached_key(&object->cached),
                                    object->cached.key_len, "", 0),
        .file_id = object->cached.file_id,
        .object_dev = hr_object_source(object)->dev,
        .nonce = object->nonce,
        .flags = object->cached.kind == HR_CACHED_FACE ? HR_RESIDENT_FACE : 0,
    };
    hr_residents_put(cache->residents, &fields);
}

static enum hr_policy_why why_of(const struct hr_object *object)
{
    if (hr_object_cache(object)->adopting) {
        return HR_POLICY_EARLIER;
    }
    return object->guess ? HR_POLICY_GUESS : HR_POLICY_ASKED;
}

int hr_cache_admit(struct hr_cache *cache, struct hr_object *object, struct hr_object **ret_stays)
{
    struct hr_object *stays = NULL;
    int r = settle_older(cache, object, &stays);
    if (!r && stays == object) {
        r = enter_tables(cache, object);
    }
    if (r < 0) {
        return r;
    }
    *ret_stays = stays;
    if (stays != object) {
        return 0;
    }
    bool face = object->cached.kind == HR_CACHED_FACE;
    if (face) {
        hr_policy_list_add(&cache->bare, &object->policy);
    } else {
        hr_policy_admit(&cache->policy, &object->policy, object->policy.id, hr_object_charge(object),
                        why_of(object));
    }
    if (object->cached.kind != HR_CACHED_SEGMENT) {
        make_known(cache, object);
    }
    if (!object->recorded_in) {
        hr_journal_add(cache->journal, object);
    }
    cache->face_count += face;
    if (face && !cache->adopting) { /* then its segments come later */
        hr_faces_trim(cache, object);
    }
    return 0;
}

void hr_cache_take_out(struct hr_cache *cache, struct hr_object *object)
{
    if (!cache->quiet && cache->options.evicted) {
        cache->options.evicted(cache->options.owner, &object->cached);
    }
    if (object->cached.kind != HR_CACHED_FACE) {
        hr_policy_forget(&cache->policy, &object->policy);
    } else {
        cache->face_count--;
        if (!hr_object_face(object)->holds) {
            hr_policy_list_remove(&object->policy);
        }
    }
    if (object->cached.kind != HR_CACHED_SEGMENT) {
        hr_residents_evict(cache->residents, object->ino, object->cached.file_id);
    }
    hr_journal_forget(cache->journal, object);
    leave_tables(cache, object);
    hr_budget_give_up(&cache->budget, hr_object_charge(object));
}

static struct hr_object *object_of_leaving(struct hr_work *work)
{
    return (struct hr_object *)((char *)work - offsetof(struct hr_object, leaving));
}

static void leaving_run(struct hr_work *work)
{
    const struct hr_object *object = object_of_leaving(work);
    char path[PATH_MAX];
    hr_object_path(hr_object_cache(object)->dir, object->cached.file_id, path);
    (void)unlink(path);
}

static void leaving_done(struct hr_work *work)
{
    struct hr_object *object = object_of_leaving(work);
    struct hr_cache *cache = hr_object_cache(object);
    hr_budget_unlinked(&cache->budget, hr_object_charge(object));
    free(object);
    cache->unlinks--;
    hr_puts_go_on(cache);
}

static const struct hr_work_kind leaving_work = {.run = leaving_run, .done = leaving_done};

static bool pinned(const struct hr_object *object)
{
    return object->cached.kind == HR_CACHED_SEGMENT && hr_object_segment(object)->copies;
}

void hr_cache_unlink_later(struct hr_object *object)
{
    if (pinned(object)) {
        hr_object_segment(object)->left = true;
        return;
    }
    if (hr_handed_hold(object)) {
        return;
    }
    struct hr_cache *cache = hr_object_cache(object);
    object->leaving = (struct hr_work){.kind = &leaving_work};
    cache->unlinks++;
    hr_writers_push(cache->writers, &object->leaving);
}

void hr_segment_pin(struct hr_object *segment)
{
    hr_object_segment(segment)->copies++;
}

void hr_segment_unpin(struct hr_object *segment)
{
    struct hr_object_segment *own = hr_object_segment(segment);
    if (!--own->copies && own->left) {
        hr_cache_unlink_later(segment);
    }
}

/* The policy's choice, or what is needed later than that. */
static struct hr_object *victim_of(struct hr_cache *cache)
{
    struct hr_policy_node *node = hr_policy_victim(&cache->policy);
    if (!node) {
        return NULL;
    }
    struct hr_object *object = (struct hr_object *)((char *)node - offsetof(struct hr_object, policy));
    bool asks = cache->options.needed_later && !cache->quiet && object->cached.kind == HR_CACHED_WHOLE;
    const struct hr_cached *later =
        asks ? cache->options.needed_later(cache->options.owner, &object->cached) : NULL;
    struct hr_object *instead = later ? hr_table_by_id(cache, later->file_id) : NULL;
    return instead && instead->cached.kind == HR_CACHED_WHOLE ? instead : object;
}

uint64_t hr_cache_give_up(struct hr_cache *cache, uint64_t bytes, struct hr_object **ret_list)
{
    uint64_t used_bytes = cache->budget.used_bytes;
    while (used_bytes - cache->budget.used_bytes < bytes) {
        struct hr_object *object = victim_of(cache);
        if (!object) {
            if (!hr_handed_give_up(cache)) {
                break;
            }
            continue;
        }
        hr_cache_take_out(cache, object);
        cache->evictions++;
        cache->evicted_bytes += object->cached.size;
        if (pinned(object)) {
            hr_cache_unlink_later(object);
        } else if (!hr_handed_hold(object)) {
            object->next_victim = *ret_list;
            *ret_list = object;
        }
    }
    return used_bytes - cache->budget.used_bytes;
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
    uint64_t wanted = budget->used_bytes + budget->reserved_bytes + bytes;
    if (lacks && lacks < wanted) {
        hr_policy_full(&cache->policy, wanted - lacks);
    }
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
        hr_cache_leave(cache, object);
    }
}

/* One of a chain of by_id whose file is not what it was, or NULL. */
static struct hr_object *find_gone(const struct hr_cache *cache, uint32_t chain)
{
    for (struct hr_chained *link = hr_chains_at(&cache->by_id, chain); link; link = link->next) {
        struct hr_object *object = hr_object_of_id(link);
        char path[PATH_MAX];
        struct stat st;
        hr_object_path(cache->dir, object->cached.file_id, path);
        if (lstat(path, &st) < 0 || !hr_object_matches(object, &st, cache->dev)) {
            return object;
        }
    }
    return NULL;
}

void hr_cache_recheck(struct hr_cache *cache)
{
    for (uint32_t chain = 0; chain < cache->by_id.heads; chain++) {
        struct hr_object *object = NULL;
        while ((object = find_gone(cache, chain))) { /* anew: a face takes others with it */
            hr_cache_leave(cache, object);
        }
    }
    hr_journal_rewrite(cache->journal);
    /* What cannot be written again is only for later lives and newer clients: this life goes on. */
    (void)hr_ids_persist(cache);
    (void)hr_residents_renew(cache->residents, cache->put_count);
}
