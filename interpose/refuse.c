#include "interpose/refuse.h"

#include "interpose/context.h"
#include "interpose/view.h"
#include "interpose/inner.h"

static bool is_root(const struct hr_place *place)
{
    return place->path[place->rel] == '\0';
}

int hr_refuse_with(const struct hr_place *place, int answer)
{
    struct hr_object object;
    int error = hr_view_find(place, &object);
    return error < 0 ? error : answer;
}

int hr_refuse_existing(const struct hr_place *place)
{
    return hr_refuse_with(place, -EROFS);
}

static int find_parent(const struct hr_place *place)
{
    struct hr_place parent = *place;
    struct hr_object object;
    uint32_t root_len = hr_maps.map[place->map].path_len;
    while (parent.len > root_len && parent.path[parent.len - 1] != '/') {
        parent.len--;
    }
    parent.len -= parent.len > root_len;
    parent.path[parent.len] = '\0';
    parent.rel = parent.len > root_len ? parent.rel : parent.len;
    parent.must_be_dir = true;
    return hr_view_find(&parent, &object);
}

int hr_refuse_new(const struct hr_place *place)
{
    struct hr_object object;
    if (is_root(place)) {
        return -EEXIST;
    }
    int error = find_parent(place);
    if (error < 0) {
        return error;
    }
    error = hr_view_find(place, &object);
    /* -ENOTDIR: a file, asked for with a slash at the end. */
    return error == 0 || error == -ENOTDIR ? -EEXIST : error == -ENOENT ? -EROFS : error;
}

int hr_refuse_create(const struct hr_place *place)
{
    if (place->rel >= place->len) {
        return -ENOENT;
    }
    int error = find_parent(place);
    return error < 0 ? error : place->must_be_dir ? -EISDIR : -EROFS;
}

int hr_refuse_temporary(const struct hr_place *place)
{
    int error = find_parent(place);
    return error < 0 ? error : -EROFS;
}

/* A root's name is its parent's, which may lie in another map. */
static bool is_root_outside(const struct hr_place *place)
{
    unsigned map;
    uint32_t root;
    struct hr_place up = *place;
    while (up.len > 1 && up.path[up.len - 1] != '/') {
        up.len--;
    }
    up.path[up.len - (up.len > 1)] = '\0';
    return is_root(place) && !hr_path_under(up.path, &map, &root);
}

int hr_refuse_removal(const struct hr_place *place)
{
    int error = hr_refuse_existing(place);
    return error == -EROFS && is_root_outside(place) ? -EBUSY : error;
}

int hr_refuse_rename(const struct hr_place *from, const struct hr_place *to)
{
    int error = from && !is_root(from) ? find_parent(from) : 0;
    if (error == 0 && to && !is_root(to)) {
        error = find_parent(to);
    }
    if (error < 0) {
        return error;
    }
    if (!from || !to || from->map != to->map || is_root(from) != is_root(to)) {
        return -EXDEV; /* a root's name is its parent's, outside */
    }
    return is_root(from) ? -EBUSY : hr_refuse_existing(from);
}

int hr_refuse_link(const struct hr_place *from, const struct hr_place *to)
{
    struct hr_object object;
    int error = from ? hr_view_find(from, &object) : 0;
    if (error < 0) {
        return error;
    }
    if (!to) {
        return -EXDEV;
    }
    return hr_refuse_new(to);
}

int hr_refuse_truncate(const struct hr_place *place, int64_t length)
{
    struct hr_object object;
    if (length < 0) {
        return -EINVAL;
    }
    int error = hr_view_find(place, &object);
    return error < 0 ? error : object.kind == HR_KIND_DIR ? -EISDIR : -EROFS;
}
