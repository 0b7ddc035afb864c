#include "fetch/cache/segments.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/cache/inside.h"

struct cell_key {
    uint64_t face_id;
    uint64_t number; /* offset / HR_CELL_BYTES */
};

struct hr_cell {
    struct cell_key key;
    uint64_t bytes;
    unsigned count;
    unsigned room;
    struct hr_object **list; /* by offset */
    UT_hash_handle by_key;
};

static uint64_t begin_of(const struct hr_object *segment)
{
    return hr_object_segment(segment)->offset;
}

static uint64_t end_of(const struct hr_object *segment)
{
    return begin_of(segment) + segment->cached.size;
}

static unsigned hash_key(const struct cell_key *key)
{
    return (unsigned)hr_mix64(key->face_id ^ hr_mix64(key->number));
}

static struct hr_cell *find(const struct hr_segments *segments, uint64_t face_id, uint64_t offset)
{
    const struct cell_key key = {.face_id = face_id, .number = offset / HR_CELL_BYTES};
    struct hr_cell *cell = NULL;
    unsigned hash = hash_key(&key);
    HASH_FIND_BYHASHVALUE(by_key, segments->cells, &key, sizeof(key), hash, cell);
    return cell;
}

/* How many of the cell's segments begin below `offset`. */
static unsigned count_below(const struct hr_cell *cell, uint64_t offset)
{
    unsigned low = 0;
    unsigned high = cell->count;
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (begin_of(cell->list[middle]) < offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* How many of them end at `end` or before. */
static unsigned count_ended(const struct hr_cell *cell, uint64_t end)
{
    unsigned low = 0;
    unsigned high = cell->count;
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (end_of(cell->list[middle]) <= end) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void cell_free(struct hr_segments *segments, struct hr_cell *cell)
{
    HASH_DELETE(by_key, segments->cells, cell);
    free(cell->list);
    free(cell);
}

static struct hr_cell *find_or_make(struct hr_segments *segments, uint64_t face_id, uint64_t offset)
{
    struct hr_cell *cell = find(segments, face_id, offset);
    if (cell) {
        return cell;
    }
    cell = calloc(1, sizeof(*cell));
    if (!cell) {
        return NULL;
    }
    cell->key = (struct cell_key){.face_id = face_id, .number = offset / HR_CELL_BYTES};
    unsigned hash = hash_key(&cell->key);
    HASH_ADD_BYHASHVALUE(by_key, segments->cells, key, sizeof(cell->key), hash, cell);
    if (!cell->by_key.tbl) {
        free(cell);
        return NULL;
    }
    return cell;
}

static int cell_grow(struct hr_cell *cell)
{
    if (cell->count < cell->room) {
        return 0;
    }
    unsigned room = cell->room ? cell->room * 2 : 1; /* one is the common case: the whole cell */
    struct hr_object **list = reallocarray(cell->list, room, sizeof(struct hr_object *));
    if (!list) {
        return -ENOMEM;
    }
    cell->list = list;
    cell->room = room;
    return 0;
}

int hr_segments_add(struct hr_segments *segments, struct hr_object *face, struct hr_object *segment)
{
    struct hr_cell *cell = find_or_make(segments, face->cached.file_id, begin_of(segment));
    if (!cell || cell_grow(cell) < 0) {
        if (cell && !cell->count) {
            cell_free(segments, cell);
        }
        return -ENOMEM;
    }
    unsigned at = count_below(cell, begin_of(segment));
    memmove(&cell->list[at + 1], &cell->list[at], (cell->count - at) * sizeof(struct hr_object *));
    cell->list[at] = segment;
    cell->count++;
    cell->bytes += segment->cached.size;
    struct hr_object *first = hr_object_face(face)->segments;
    hr_object_segment(segment)->previous = NULL;
    hr_object_segment(segment)->next = first;
    if (first) {
        hr_object_segment(first)->previous = segment;
    }
    hr_object_face(face)->segments = segment;
    segments->count++;
    return 0;
}

void hr_segments_remove(struct hr_segments *segments, struct hr_object *face, struct hr_object *segment)
{
    struct hr_cell *cell = find(segments, face->cached.file_id, begin_of(segment));
    unsigned at = count_below(cell, begin_of(segment));
    cell->count--;
    cell->bytes -= segment->cached.size;
    memmove(&cell->list[at], &cell->list[at + 1], (cell->count - at) * sizeof(struct hr_object *));
    if (!cell->count) {
        cell_free(segments, cell);
    }
    struct hr_object_segment *own = hr_object_segment(segment);
    if (own->previous) {
        hr_object_segment(own->previous)->next = own->next;
    } else {
        hr_object_face(face)->segments = own->next;
    }
    if (own->next) {
        hr_object_segment(own->next)->previous = own->previous;
    }
    own->previous = own->next = NULL;
    segments->count--;
}

struct hr_object *hr_segments_at(const struct hr_segments *segments, uint64_t face_id, uint64_t offset)
{
    const struct hr_cell *cell = find(segments, face_id, offset);
    struct hr_object *longest = NULL;
    for (unsigned at = cell ? count_below(cell, offset + 1) : 0; at && end_of(cell->list[at - 1]) > offset;
         at--) {
        struct hr_object *segment = cell->list[at - 1];
        if (!longest || segment->cached.size > longest->cached.size) {
            longest = segment;
        }
    }
    return longest;
}

struct hr_object *hr_segments_next(const struct hr_segments *segments, uint64_t face_id, uint64_t offset)
{
    const struct hr_cell *cell = find(segments, face_id, offset);
    unsigned below = cell ? count_below(cell, offset) : 0;
    return cell && below < cell->count ? cell->list[below] : NULL;
}

struct hr_object *hr_segments_over(const struct hr_segments *segments, uint64_t face_id, uint64_t offset,
                                   uint64_t bytes)
{
    const struct hr_cell *cell = find(segments, face_id, offset);
    unsigned count = cell ? count_below(cell, offset + 1) : 0;
    if (!count) {
        return NULL;
    }
    struct hr_object *last = cell->list[count - 1]; /* reaches farthest of those that begin in time */
    return end_of(last) > offset && end_of(last) - offset >= bytes ? last : NULL;
}

struct hr_object *hr_segments_inside(const struct hr_segments *segments, uint64_t face_id, uint64_t offset,
                                     uint64_t bytes)
{
    const struct hr_cell *cell = find(segments, face_id, offset);
    unsigned ended = cell ? count_ended(cell, offset + bytes) : 0;
    return ended && begin_of(cell->list[ended - 1]) >= offset ? cell->list[ended - 1] : NULL;
}

void hr_segments_measure(const struct hr_segments *segments, uint64_t face_id, uint64_t offset,
                         unsigned *ret_count, uint64_t *ret_bytes)
{
    const struct hr_cell *cell = find(segments, face_id, offset);
    *ret_count = cell ? cell->count : 0;
    *ret_bytes = cell ? cell->bytes : 0;
}

unsigned hr_segments_row(const struct hr_segments *segments, uint64_t face_id, uint64_t first, uint64_t end)
{
    const struct hr_cell *cell = find(segments, face_id, first);
    unsigned below = cell ? count_below(cell, first) : 0;
    unsigned count = 0;
    for (unsigned at = below; at && end_of(cell->list[at - 1]) >= first; at--) {
        first = begin_of(cell->list[at - 1]);
        count++;
    }
    for (unsigned at = below; cell && at < cell->count && begin_of(cell->list[at]) <= end; at++) {
        end = end_of(cell->list[at]) > end ? end_of(cell->list[at]) : end;
        count++;
    }
    return count;
}

void hr_segments_release(struct hr_segments *segments)
{
    struct hr_cell *cell = NULL;
    struct hr_cell *next = NULL;
    HASH_ITER(by_key, segments->cells, cell, next)
    {
        cell_free(segments, cell);
    }
    segments->count = 0;
}
