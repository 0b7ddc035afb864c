#include "fetch/plan/gaps.h"

#include "fetch/base/least.h"

#define HR_BRIDGE_BYTES (64u << 10) /* so much comes twice rather than that a request more is sent */

/* Where what holds the byte ends, there or on its way; nothing does: `offset`. */
static uint64_t held_until(struct hr_plan_tree *tree, const struct hr_cached *face, uint64_t offset)
{
    const struct hr_cached *there = hr_cache_segment(tree->plan->cache, face->file_id, offset);
    uint64_t end = there ? hr_cached_offset(there) + there->size : offset;
    for (const struct hr_want *want = hr_want_cell(tree, face->file_id, offset); want;
         want = want->cell_next) {
        if (want->first <= offset && want->first + want->size > end) {
            end = want->first + want->size;
        }
    }
    return end;
}

/* Where the next begins that is held, `end` at most. */
static uint64_t lacking_until(struct hr_plan_tree *tree, const struct hr_cached *face, uint64_t offset,
                              uint64_t end)
{
    const struct hr_cached *next = hr_cache_next_segment(tree->plan->cache, face->file_id, offset);
    end = next ? hr_least(hr_cached_offset(next), end) : end;
    for (const struct hr_want *want = hr_want_cell(tree, face->file_id, offset); want;
         want = want->cell_next) {
        end = want->first > offset ? hr_least(want->first, end) : end;
    }
    return end;
}

struct hr_range hr_gap_next(struct hr_plan_tree *tree, const struct hr_cached *face, uint64_t from,
                            uint64_t end)
{
    uint64_t first = end, last = end;
    for (uint64_t at = from; at < end;) {
        uint64_t held = held_until(tree, face, at);
        if (held > at) {
            if (first < end && held - last > HR_BRIDGE_BYTES) {
                break;
            }
            at = held;
            continue;
        }
        first = hr_least(first, at);
        at = last = lacking_until(tree, face, at, end);
    }
    return (struct hr_range){first, last - first};
}

struct hr_range hr_gap_around(struct hr_plan_tree *tree, const struct hr_cached *face, struct hr_range cell,
                              uint64_t offset)
{
    uint64_t end = cell.first + cell.bytes;
    struct hr_range gap = hr_gap_next(tree, face, cell.first, end);
    while (gap.bytes > 0 && gap.first + gap.bytes <= offset) {
        gap = hr_gap_next(tree, face, gap.first + gap.bytes, end);
    }
    return gap;
}
