#include "fetch/cache/put.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A write that meets a full disk is tried again after each of so many evictions; more would only empty the
 * cache for somebody else's files. */
#define ROOM_TRIES 4
/* Larger objects are worked on alone: what waits behind one in the same hands would wait for long. So would a
 * program that waits for the last of several such. */
#define TOGETHER_BYTES_MAX (1u << 20)

static void push(struct hr_put *put)
{
    if (!put->running && !put->settling) {
        put->running = true;
        hr_writers_push(put->cache->writers, &put->work);
    }
}

static void put_free(struct hr_put *put)
{
    struct hr_cache *cache = put->cache;
    if (put->previous) {
        put->previous->next = put->next;
    } else {
        cache->puts = put->next;
    }
    if (put->next) {
        put->next->previous = put->previous;
    }
    cache->put_count--;
    if (put->face_id) {
        hr_face_release(cache, put->face_id);
    }
    hr_extents_release(&put->extents);
    (void)pthread_mutex_destroy(&put->lock);
    free(put->object);
    free(put);
}

static void free_victims(struct hr_put *put)
{
    while (put->victims) {
        struct hr_object *victim = put->victims;
        put->victims = victim->next_victim;
        hr_budget_unlinked(&put->cache->budget, hr_object_charge(victim));
        free(victim);
    }
}

static void call_landed(struct hr_put *put)
{
    struct hr_budget *budget = &put->cache->budget;
    while (put->landed.head) {
        struct hr_part *part = hr_parts_take(&put->landed);
        uint64_t more =
            put->charge - put->landed_bytes < part->len ? put->charge - put->landed_bytes : part->len;
        put->landed_bytes += more;
        hr_budget_land(budget, more);
        hr_part_let_go(put->cache, part);
        if (part->written) {
            part->written(part->written_owner, part->len);
        }
        free(part);
    }
}

/* The disk is full though the budget was not: give up at least as much as this object takes, twice as much
 * each time (files that are still open free nothing). */
static void find_room(struct hr_put *put)
{
    struct hr_cache *cache = put->cache;
    uint64_t given = 0;
    uint64_t least = put->charge ? put->charge : hr_budget_charge(0); /* a face takes an inode */
    hr_handed_end(cache);
    if (put->room_tries < ROOM_TRIES) {
        given = hr_cache_give_up(cache, least << put->room_tries, &put->victims);
        put->room_tries++;
    }
    put->awaits_unlinks = !given && cache->unlinks;
    if (!given && !put->awaits_unlinks) {
        (void)pthread_mutex_lock(&put->lock);
        put->order_error = put->order_error ? put->order_error : -ENOSPC;
        (void)pthread_mutex_unlock(&put->lock);
    }
}

static void complete(struct hr_put *put)
{
    struct hr_cache *cache = put->cache;
    struct hr_object *object = put->object;
    struct hr_object *stays = NULL;
    int error = put->result;
    hr_budget_settle(&cache->budget, put->charge, put->landed_bytes, put->sealed);
    if (put->sealed) {
        put->object = NULL;
        error = hr_cache_admit(cache, object, &stays);
        if (stays != object) {
            hr_budget_give_up(&cache->budget, put->charge);
            hr_cache_unlink_later(object);
        }
    }
    if (error == -EBADMSG) {
        cache->verify_failures++;
    }
    if (stays && stays->cached.kind == HR_CACHED_FACE) {
        hr_journal_flush(cache->journal); /* programs hold it open at once: a next life must know it */
    }
    put->done(put->owner, put, error, stays ? &stays->cached : NULL);
    put_free(put);
}

static bool has_orders(struct hr_put *put)
{
    (void)pthread_mutex_lock(&put->lock);
    bool has = put->incoming.head || (put->order_error && !put->scrapped) ||
               (put->finish_asked && !put->sealed && !put->scrapped);
    (void)pthread_mutex_unlock(&put->lock);
    return has;
}

static void settle(struct hr_work *work)
{
    struct hr_put *put = hr_put_of(work);
    put->running = false;
    put->awaits_unlinks = false;
    put->settling = true;
    put->failed = put->result;
    free_victims(put);
    call_landed(put);
    put->settling = false;
    if (put->need_room && !put->abort_called) {
        find_room(put);
        if (!put->awaits_unlinks) {
            push(put);
        }
    } else if (has_orders(put)) {
        push(put);
    } else if (put->abort_called) {
        hr_budget_settle(&put->cache->budget, put->charge, put->landed_bytes, false);
        put_free(put);
    } else if (put->finish_called) {
        complete(put);
    }
}

void hr_puts_go_on(struct hr_cache *cache)
{
    for (struct hr_put *put = cache->puts; put; put = put->next) {
        if (put->awaits_unlinks) {
            put->awaits_unlinks = false;
            push(put);
        }
    }
}

static int find_place(struct hr_cache *cache, const struct hr_object *object, uint64_t *ret_charge)
{
    uint64_t charge = hr_object_charge(object);
    if (charge > cache->budget.limit_bytes || object->cached.size > INT64_MAX) {
        return -ENOSPC;
    }
    int r = charge ? hr_cache_make_room(cache, charge) : 0;
    if (r == -ENOSPC && cache->put_count) {
        return -EAGAIN;
    }
    if (!r && object->cached.kind != HR_CACHED_SEGMENT) {
        r = hr_residents_reserve(cache->residents, cache->put_count + 1);
    }
    if (!r) {
        *ret_charge = charge;
    }
    return r;
}

static void put_enlist(struct hr_put *put)
{
    struct hr_cache *cache = put->cache;
    hr_budget_reserve(&cache->budget, put->charge);
    put->next = cache->puts;
    if (put->next) {
        put->next->previous = put;
    }
    cache->puts = put;
    cache->put_count++;
}

static struct hr_object *object_of(struct hr_cache *cache, const struct hr_put_options *options)
{
    const struct hr_identity identity = {options->kind,    &options->source, options->key,
                                         options->key_len, options->etag,    strlen(options->etag)};
    const struct hr_object_facts facts = {.size = options->size,
                                          .mtime_ns = options->mtime_ns,
                                          .salt = options->object_dev_salt,
                                          .dev = options->object_dev,
                                          .face_id = options->face_id,
                                          .offset = options->offset};
    struct hr_object *object = hr_object_new(cache, &identity, &facts);
    if (object) {
        object->guess = options->guess;
    }
    return object;
}

static int prepare(struct hr_cache *cache, struct hr_put *put, const struct hr_put_options *options)
{
    struct hr_object *object = object_of(cache, options);
    struct hr_object *face = NULL;
    put->object = object;
    int r = object ? 0 : -errno;
    if (!r && object->cached.kind == HR_CACHED_SEGMENT) {
        r = hr_segment_check(cache, object, &face);
    }
    if (!r) {
        r = find_place(cache, object, &put->charge);
    }
    if (!r) {
        r = hr_ids_take(cache, &object->cached.file_id);
    }
    if (!r && face) {
        put->face_id = hr_object_segment(object)->face_id;
        hr_face_hold(face);
    }
    return r;
}

static const struct hr_work_kind small_put = {hr_put_run, settle, hr_puts_verify};
static const struct hr_work_kind large_put = {hr_put_run, settle, NULL}; /* or a part of one */

int hr_put_begin(struct hr_cache *cache, const struct hr_put_options *options, struct hr_put **ret)
{
    if (cache->closing || (unsigned)options->kind > HR_CACHED_SEGMENT) {
        return cache->closing ? -ECANCELED : -EINVAL;
    }
    struct hr_put *put = calloc(1, sizeof(*put));
    if (!put) {
        return -ENOMEM;
    }
    int r = prepare(cache, put, options);
    if (r < 0) {
        free(put->object);
        free(put);
        return r;
    }
    bool small = options->kind == HR_CACHED_WHOLE && options->size <= TOGETHER_BYTES_MAX;
    put->work = (struct hr_work){.kind = small ? &small_put : &large_put,
                                 .patient = small && !options->awaited,
                                 .urgent = options->awaited && options->size > TOGETHER_BYTES_MAX};
    put->cache = cache;
    put->done = options->done;
    put->owner = options->owner;
    put->fd = -1;
    (void)pthread_mutex_init(&put->lock, NULL);
    put_enlist(put);
    *ret = put;
    return 0;
}

int hr_put_give(struct hr_put *put, struct hr_part *part)
{
    const struct hr_cached *cached = &put->object->cached;
    if (put->failed || put->finish_called || put->abort_called) {
        return put->failed ? put->failed : -EINVAL;
    }
    if (cached->kind == HR_CACHED_FACE || part->offset > cached->size ||
        part->len > cached->size - part->offset) {
        return -EINVAL;
    }
    int r = part->len ? hr_extents_add(&put->extents, part->offset, part->offset + part->len) : 0;
    if (r < 0) {
        return r;
    }
    (void)pthread_mutex_lock(&put->lock);
    hr_parts_append(&put->incoming, part);
    (void)pthread_mutex_unlock(&put->lock);
    push(put);
    return 0;
}

int hr_put_part(struct hr_put *put, uint64_t offset, struct hr_buf *part,
                void (*written)(void *owner, uint64_t bytes), void *written_owner)
{
    struct hr_part *node = calloc(1, sizeof(*node));
    if (!node) {
        return -ENOMEM;
    }
    node->offset = offset;
    node->len = part->len;
    node->bytes = *part;
    node->written = written;
    node->written_owner = written_owner;
    int r = hr_put_give(put, node);
    if (r < 0) {
        free(node);
        return r;
    }
    hr_buf_init(part, part->ceiling);
    return 0;
}

void hr_put_finish(struct hr_put *put, const struct hr_verify *verify)
{
    if (put->finish_called || put->abort_called) {
        return;
    }
    put->finish_called = true;
    if (verify && put->object->cached.kind != HR_CACHED_FACE) {
        put->verify = *verify;
    }
    (void)pthread_mutex_lock(&put->lock);
    put->finish_asked = true;
    if (!hr_extents_cover(&put->extents, hr_object_file_bytes(put->object))) {
        put->order_error = -EINVAL;
    }
    (void)pthread_mutex_unlock(&put->lock);
    push(put);
}

void hr_put_abort(struct hr_put *put)
{
    if (put->abort_called) {
        return;
    }
    put->abort_called = true;
    (void)pthread_mutex_lock(&put->lock);
    put->order_error = -ECANCELED;
    (void)pthread_mutex_unlock(&put->lock);
    push(put);
}

const char *hr_put_body_md5_hex(const struct hr_put *put)
{
    return put->md5_hex;
}

void hr_put_hurry(struct hr_put *put)
{
    if (put->object->cached.size > TOGETHER_BYTES_MAX) {
        hr_writers_prefer(put->cache->writers, &put->work);
    }
    hr_writers_hurry(put->cache->writers);
}

void hr_puts_close(struct hr_cache *cache)
{
    cache->closing = true;
    for (struct hr_put *put = cache->puts; put; put = put->next) {
        if (!put->finish_called) {
            hr_put_abort(put);
        }
    }
    hr_writers_drain(cache->writers);
}
