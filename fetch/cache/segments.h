/* The index of segments: which pieces of which face's object are here. Face and cell -> the pieces that lie
 * in that cell, sorted by offset. No piece lies inside another one of its cell (faces.c keeps it so), so ends
 * ascend with offsets. A lookup is one hash probe and a binary search, whatever the object's size.
 *
 * Owned by the loop's thread. The objects are the caller's. */
#ifndef HR_CACHE_SEGMENTS_H
#define HR_CACHE_SEGMENTS_H

#include <stdint.h>

struct hr_object;
struct hr_cell;

/* Zeroed: empty. */
struct hr_segments {
    struct hr_cell *cells;
    uint64_t count;
};

/* Adds a segment to the index and to its face's list. 0 or -ENOMEM. */
int hr_segments_add(struct hr_segments *segments, struct hr_object *face, struct hr_object *segment);
void hr_segments_remove(struct hr_segments *segments, struct hr_object *face, struct hr_object *segment);
/* The longest that holds the byte at offset, or NULL. */
struct hr_object *hr_segments_at(const struct hr_segments *segments, uint64_t face_id, uint64_t offset);
/* The first of the cell of offset that begins there or behind it, or NULL. */
struct hr_object *hr_segments_next(const struct hr_segments *segments, uint64_t face_id, uint64_t offset);
/* One that holds all of [offset, offset + bytes), or NULL. */
struct hr_object *hr_segments_over(const struct hr_segments *segments, uint64_t face_id, uint64_t offset,
                                   uint64_t bytes);
/* One that lies inside [offset, offset + bytes), a range in one cell, or NULL. */
struct hr_object *hr_segments_inside(const struct hr_segments *segments, uint64_t face_id, uint64_t offset,
                                     uint64_t bytes);
/* The cell of offset: how many segments, and the sum of their bytes. */
void hr_segments_measure(const struct hr_segments *segments, uint64_t face_id, uint64_t offset,
                         unsigned *ret_count, uint64_t *ret_bytes);
/* How many make one row with [first, end), a range in one cell, each touching it or the next one. */
unsigned hr_segments_row(const struct hr_segments *segments, uint64_t face_id, uint64_t first, uint64_t end);
void hr_segments_release(struct hr_segments *segments); /* the index; objects stay */

#endif
