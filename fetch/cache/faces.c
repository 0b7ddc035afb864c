/* Which face a segment belongs to, and what a face takes along when it leaves. */
#include <errno.h>
#include <string.h>

#include "fetch/cache/inside.h"

#define PAGE_BYTES 4096u /* clients map segments side by side: only the object's end may cut a page */

struct hr_object *hr_face_by_id(struct hr_cache *cache, uint64_t face_id)
{
    struct hr_object *object = hr_table_by_id(cache, face_id);
    return object && object->cached.kind == HR_CACHED_FACE ? object : NULL;
}

void hr_face_hold(struct hr_object *face)
{
    if (!hr_object_face(face)->holds++) {
        hr_policy_list_remove(&face->policy);
    }
}

void hr_face_release(struct hr_cache *cache, uint64_t face_id)
{
    struct hr_object *face = hr_face_by_id(cache, face_id);
    if (face && !--hr_object_face(face)->holds) {
        hr_policy_list_add(&cache->bare, &face->policy);
    }
}

int hr_segment_check(struct hr_cache *cache, const struct hr_object *segment, struct hr_object **ret_face)
{
    const struct hr_identity identity = hr_object_identity(segment);
    uint64_t offset = hr_object_segment(segment)->offset;
    uint64_t size = segment->cached.size;
    if (offset % PAGE_BYTES || !size || size > HR_CELL_BYTES - offset % HR_CELL_BYTES) {
        return -EINVAL;
    }
    struct hr_object *face = hr_face_by_id(cache, hr_object_segment(segment)->face_id);
    if (!face) {
        return -ESTALE;
    }
    uint64_t end = face->cached.size;
    if (offset >= end || size > end - offset || (size % PAGE_BYTES && size != end - offset) ||
        !hr_is_version(face, &identity)) {
        return -EINVAL;
    }
    *ret_face = face;
    return 0;
}

/* Descriptors of the face that is there may be open and would lose their record: it stays. */
int hr_face_settle(struct hr_cache *cache, struct hr_object *object, struct hr_object **ret_stays)
{
    const struct hr_identity identity = hr_object_identity(object);
    struct hr_object *older = hr_table_find(cache, &identity);
    *ret_stays = object;
    if (older && older->cached.size == object->cached.size) {
        *ret_stays = older;
    } else if (older) {
        hr_cache_leave(cache, older); /* a store that gave one ETag to two contents */
    }
    return 0;
}

int hr_segment_settle(struct hr_cache *cache, struct hr_object *object, struct hr_object **ret_stays)
{
    const struct hr_object_segment *own = hr_object_segment(object);
    uint64_t size = object->cached.size;
    struct hr_object *face = NULL;
    int r = hr_segment_check(cache, object, &face);
    if (r < 0) {
        return r;
    }
    struct hr_object *over = hr_segments_over(&cache->segments, own->face_id, own->offset, size);
    *ret_stays = over ? over : object;
    while (!over) {
        struct hr_object *inside = hr_segments_inside(&cache->segments, own->face_id, own->offset, size);
        if (!inside) {
            break;
        }
        hr_cache_leave(cache, inside);
    }
    return 0;
}

void hr_faces_trim(struct hr_cache *cache, const struct hr_object *newest)
{
    while (cache->face_count > cache->options.faces_max) {
        struct hr_policy_node *node = hr_policy_list_oldest(&cache->bare);
        if (!node || (newest && node == &newest->policy)) {
            return;
        }
        hr_cache_leave(cache, (struct hr_object *)((char *)node - offsetof(struct hr_object, policy)));
    }
}

static void drop_segments(struct hr_cache *cache, struct hr_object *face)
{
    while (hr_object_face(face)->segments) {
        struct hr_object *segment = hr_object_face(face)->segments;
        hr_cache_take_out(cache, segment);
        hr_cache_unlink_later(segment);
    }
}

void hr_cache_leave(struct hr_cache *cache, struct hr_object *object)
{
    if (object->cached.kind == HR_CACHED_FACE) {
        drop_segments(cache, object);
    }
    hr_cache_take_out(cache, object);
    hr_cache_unlink_later(object);
}

unsigned hr_cache_unneeded(struct hr_cache *cache, uint64_t face_id, uint64_t offset, uint64_t bytes)
{
    struct hr_object *face = hr_face_by_id(cache, face_id);
    uint64_t end = bytes < UINT64_MAX - offset ? offset + bytes : UINT64_MAX;
    unsigned count = 0;
    for (struct hr_object *segment = face ? hr_object_face(face)->segments : NULL; segment;
         segment = hr_object_segment(segment)->next) {
        uint64_t first = hr_object_segment(segment)->offset;
        if (first >= offset && first + segment->cached.size <= end) {
            hr_policy_unneeded(&cache->policy, &segment->policy);
            segment->handed_tick = 0; /* it was opened */
            count++;
        }
    }
    return count;
}

void hr_cache_drop_segments(struct hr_cache *cache, uint64_t face_id)
{
    struct hr_object *face = hr_face_by_id(cache, face_id);
    if (face) {
        drop_segments(cache, face);
    }
}

const struct hr_cached *hr_cache_face(struct hr_cache *cache, const struct hr_source_id *source,
                                      const char *key, uint32_t key_len, const char *etag)
{
    const struct hr_identity identity = {HR_CACHED_FACE, source, key, key_len, etag, strlen(etag)};
    struct hr_object *object = hr_table_find(cache, &identity);
    return object ? &object->cached : NULL;
}

const struct hr_cached *hr_cache_by_id(struct hr_cache *cache, uint64_t file_id)
{
    struct hr_object *object = hr_table_by_id(cache, file_id);
    return object ? &object->cached : NULL;
}

const struct hr_cached *hr_cache_segment(struct hr_cache *cache, uint64_t face_id, uint64_t offset)
{
    struct hr_object *object = hr_segments_at(&cache->segments, face_id, offset);
    return object ? &object->cached : NULL;
}

const struct hr_cached *hr_cache_next_segment(struct hr_cache *cache, uint64_t face_id, uint64_t offset)
{
    struct hr_object *object = hr_segments_next(&cache->segments, face_id, offset);
    return object ? &object->cached : NULL;
}

void hr_cache_cell(struct hr_cache *cache, uint64_t face_id, uint64_t offset, unsigned *ret_segments,
                   uint64_t *ret_bytes)
{
    hr_segments_measure(&cache->segments, face_id, offset, ret_segments, ret_bytes);
}

unsigned hr_cache_row(struct hr_cache *cache, uint64_t face_id, uint64_t first, uint64_t end)
{
    return hr_segments_row(&cache->segments, face_id, first, end);
}
