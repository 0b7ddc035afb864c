#include "fetch/cache/extents.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int grow(struct hr_extents *extents)
{
    size_t few = sizeof(extents->few) / sizeof(extents->few[0]);
    if (!extents->list) {
        extents->list = extents->few;
        extents->room = few;
    }
    if (extents->count < extents->room) {
        return 0;
    }
    bool inside = extents->list == extents->few;
    struct hr_extent *list = reallocarray(inside ? NULL : extents->list, extents->room * 2, sizeof(*list));
    if (!list) {
        return -ENOMEM;
    }
    if (inside) {
        memcpy(list, extents->few, sizeof(extents->few));
    }
    extents->list = list;
    extents->room *= 2;
    return 0;
}

static void remove_at(struct hr_extents *extents, size_t at)
{
    extents->count--;
    memmove(&extents->list[at], &extents->list[at + 1], (extents->count - at) * sizeof(extents->list[0]));
}

int hr_extents_add(struct hr_extents *extents, uint64_t from, uint64_t to)
{
    size_t at = extents->count; /* of the first extent behind the new one */
    if (from >= to) {
        return -EINVAL;
    }
    while (at && extents->list[at - 1].from > from) {
        at--;
    }
    struct hr_extent *before = at ? &extents->list[at - 1] : NULL;
    struct hr_extent *behind = at < extents->count ? &extents->list[at] : NULL;
    if ((before && before->to > from) || (behind && behind->from < to)) {
        return -EINVAL;
    }
    if (before && before->to == from) {
        before->to = to;
        if (behind && behind->from == to) {
            before->to = behind->to;
            remove_at(extents, at);
        }
        return 0;
    }
    if (behind && behind->from == to) {
        behind->from = from;
        return 0;
    }
    int r = grow(extents);
    if (r < 0) {
        return r;
    }
    memmove(&extents->list[at + 1], &extents->list[at], (extents->count - at) * sizeof(extents->list[0]));
    extents->list[at] = (struct hr_extent){.from = from, .to = to};
    extents->count++;
    return 0;
}

bool hr_extents_cover(const struct hr_extents *extents, uint64_t size)
{
    if (!size) {
        return !extents->count;
    }
    return extents->count == 1 && extents->list[0].from == 0 && extents->list[0].to == size;
}

void hr_extents_release(struct hr_extents *extents)
{
    if (extents->list != extents->few) {
        free(extents->list);
    }
    *extents = (struct hr_extents){0};
}
