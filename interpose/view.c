#include "interpose/view.h"

#include <string.h>
#include <sys/auxv.h>

#include "interpose/context.h"
#include "interpose/demand.h"
#include "interpose/live.h"
#include "interpose/standin.h"
#include "interpose/view_parts.h"
#include "interpose/way.h"
#include "interpose/inner.h"

/* ---- what is there ---- */

static const char *rel_of(const struct hr_place *place)
{
    return place->path + place->rel;
}

static uint32_t rel_len_of(const struct hr_place *place)
{
    return place->len - place->rel;
}

int hr_view_tree(const struct hr_session *session, const struct hr_place *place, uint32_t *ret_tree)
{
    unsigned map = place->map == HR_WAY ? hr_way_map(place) : place->map;
    if (map >= session->maps->map_count || session->maps->tree[map] >= HR_TREES_MAX) {
        return -EIO;
    }
    *ret_tree = session->maps->tree[map];
    return 0;
}

/* Directories of any map that lead to the root of a deeper one exist, whatever the store says. */
static bool leads_to_a_map(const struct hr_place *place)
{
    return hr_maps.count > 1 && hr_path_above(place->path, place->len);
}

static uint64_t ino_of(const struct hr_place *place, const struct hr_tree *tree)
{
    uint32_t head = tree->prefix_len <= HR_KEY_MAX ? tree->prefix_len : HR_KEY_MAX;
    if (rel_len_of(place) == 0 && head > 0) {
        head--; /* the root's key, without its trailing slash */
    }
    return hr_object_ino(tree->salt, tree->prefix, head, rel_of(place), rel_len_of(place));
}

static int check_kind(const struct hr_place *place, const struct hr_object *object)
{
    return place->must_be_dir && object->kind != HR_KIND_DIR ? -ENOTDIR : 0;
}

/* -ENODATA: ask by path. */
static int find_indexed(const struct hr_place *place, const struct hr_tree_view *view,
                        const struct hr_tree *tree, struct hr_object *ret)
{
    uint32_t number;
    int error = hr_index_lookup(&view->index, rel_of(place), rel_len_of(place), &number);
    const struct hr_entry *entry = error ? NULL : &view->index.entries[number];
    if ((!entry || entry->kind != HR_KIND_DIR) && leads_to_a_map(place)) {
        hr_view_fill(ret, place->map, tree, HR_KIND_DIR, 0, tree->start_ns);
        return 0;
    }
    if (!entry) {
        return error;
    }
    if (HR_UNLIKELY(hr_view_by_name(view, number))) {
        return -ENODATA;
    }
    hr_view_fill(ret, place->map, tree, entry->kind, entry->size, entry->mtime_ns);
    ret->tree = view;
    ret->entry = number;
    return check_kind(place, ret);
}

/* Where a name begins that is longer than any can be, or NULL: it is not asked for. */
static const char *long_name(const struct hr_place *place)
{
    const char *part = rel_of(place);
    const char *at = part;
    for (; *at && at - part <= HR_NAME_BYTES_MAX; at++) {
        part = *at == '/' ? at + 1 : part;
    }
    return at - part > HR_NAME_BYTES_MAX ? part : NULL;
}

static int find_asked(const struct hr_session *session, const struct hr_place *place, uint32_t number,
                      enum hr_op op, struct hr_object *ret, uint64_t *ret_file_id);

/* -ENAMETOOLONG, where the directory of the long name is there. */
static HR_NOINLINE int judge_long(const struct hr_session *session, const struct hr_place *place,
                                  uint32_t number, const char *part)
{
    struct hr_place up = *place;
    struct hr_object object;
    uint64_t file_id;
    if (part == rel_of(place)) {
        return -ENAMETOOLONG;
    }
    up.len = (uint32_t)(part - place->path) - 1;
    up.path[up.len] = '\0';
    up.must_be_dir = true;
    int error = find_asked(session, &up, number, HR_OP_LOOK, &object, &file_id);
    return error ? error : -ENAMETOOLONG;
}

static int find_asked(const struct hr_session *session, const struct hr_place *place, uint32_t number,
                      enum hr_op op, struct hr_object *ret, uint64_t *ret_file_id)
{
    const struct hr_tree *tree = &session->control->trees[number];
    struct hr_answer answer;
    if (rel_len_of(place) == 0 || leads_to_a_map(place)) {
        hr_view_fill(ret, place->map, tree, HR_KIND_DIR, 0, tree->start_ns);
        return 0;
    }
    const char *too_long = long_name(place);
    if (too_long) {
        return judge_long(session, place, number, too_long);
    }
    int error = hr_demand_ask(session, op, number, 0, rel_of(place), rel_len_of(place), &answer);
    if (error == -ENAMETOOLONG) {
        return -ENOENT; /* longer than any key */
    }
    if (!error) {
        error = answer.error;
    }
    if (error) {
        return error > 0 ? -EIO : error;
    }
    if (answer.kind != HR_KIND_FILE && answer.kind != HR_KIND_DIR) {
        return -EIO;
    }
    hr_view_fill(ret, place->map, tree, answer.kind, answer.size, answer.mtime_ns);
    *ret_file_id = answer.file_id;
    ret->face = (answer.flags & HR_ANSWER_FACE) != 0;
    return check_kind(place, ret);
}

int hr_view_locate(const struct hr_session *session, const struct hr_place *place, enum hr_op op,
                   struct hr_object *ret, uint64_t *ret_file_id)
{
    const struct hr_tree_view *view;
    uint32_t number;
    int error = hr_view_tree(session, place, &number);
    if (error) {
        return error;
    }
    error = hr_session_tree(session, number, &view);
    if (!error) {
        error = find_indexed(place, view, &session->control->trees[number], ret);
    }
    return error == -ENODATA ? find_asked(session, place, number, op, ret, ret_file_id) : error;
}

int hr_view_find(const struct hr_place *place, struct hr_object *ret)
{
    struct hr_session session;
    uint64_t file_id;
    if (HR_UNLIKELY(place->map == HR_WAY)) {
        hr_way_object(place, ret);
        return 0;
    }
    for (unsigned i = 0; i < HR_VIEW_TRIES; i++) {
        int error = hr_session_get(&session);
        if (!error) {
            error = hr_view_locate(&session, place, HR_OP_LOOK, ret, &file_id);
        }
        if (!error) {
            ret->ino = ino_of(place, &session.control->trees[session.maps->tree[place->map]]);
        }
        if (error != -EAGAIN) {
            return error;
        }
    }
    return -EIO;
}

/* The directory's own file. -EAGAIN: another one is its file by now. */
static int map_dir(const struct hr_session *session, uint32_t tree, uint64_t file_id, struct hr_view_dir *ret)
{
    struct hr_mapping mapping;
    uint32_t number = (uint32_t)file_id;
    int error = hr_live_map_dir(session, tree, number, &mapping);
    if (error) {
        return error == -ENOENT ? -EAGAIN : error;
    }
    if (hr_index_adopt(&ret->index, mapping.base, mapping.bytes) || ret->index.names->gen != number ||
        ret->index.names->tree_id != session->control->trees[tree].id) {
        hr_live_unmap(&mapping);
        return -EIO;
    }
    ret->entry = 0;
    ret->own = mapping.base;
    ret->own_bytes = mapping.bytes;
    return 0;
}

/* The daemon has written a line of it. */
static void say_when_empty(const struct hr_session *session, uint32_t tree, const struct hr_index *index)
{
    if (HR_UNLIKELY(hr_index_is_empty(index))) {
        hr_session_say(session, tree);
    }
}

static int dir_once(const struct hr_session *session, const struct hr_place *place, struct hr_view_dir *ret)
{
    const struct hr_tree_view *view;
    struct hr_answer answer;
    uint32_t tree = 0;
    int error = hr_view_tree(session, place, &tree);
    if (error) {
        return error;
    }
    ret->salt = session->control->trees[tree].salt;
    error = hr_session_tree(session, tree, &view);
    if (error == -ENODATA && long_name(place)) {
        return judge_long(session, place, tree, long_name(place));
    }
    if (error == -ENODATA) {
        error = hr_demand_ask(session, HR_OP_DIR, tree, 0, rel_of(place), rel_len_of(place), &answer);
        error = error ? error : answer.error;
        error = error > 0        ? -EIO
                : error          ? error
                : answer.file_id ? map_dir(session, tree, answer.file_id, ret)
                                 : -EAGAIN;
        if (!error && rel_len_of(place) == 0) {
            say_when_empty(session, tree, &ret->index);
        }
        return error;
    }
    if (!error) {
        error = hr_index_lookup(&view->index, rel_of(place), rel_len_of(place), &ret->entry);
    }
    if (!error && view->index.entries[ret->entry].kind != HR_KIND_DIR) {
        error = -ENOTDIR;
    }
    if (!error) {
        ret->index = view->index;
        say_when_empty(session, tree, &view->index);
    }
    return error;
}

int hr_view_dir(const struct hr_place *place, struct hr_view_dir *ret)
{
    struct hr_session session;
    ret->own = NULL;
    for (unsigned i = 0; i < HR_VIEW_TRIES; i++) {
        int error = hr_session_get(&session);
        if (!error) {
            error = dir_once(&session, place, ret);
        }
        if (error != -EAGAIN) {
            return error == -ENAMETOOLONG && !long_name(place) ? -ENOENT : error; /* longer than any key */
        }
    }
    return -EIO;
}

void hr_view_dir_end(struct hr_view_dir *dir)
{
    struct hr_mapping mapping = {.base = dir->own, .bytes = dir->own_bytes};
    if (dir->own) {
        hr_live_unmap(&mapping);
        dir->own = NULL;
    }
}

/* ---- as the kernel would tell it ---- */

static inline uint32_t io_bytes_of(const struct hr_object *object)
{
    return object->kind == HR_KIND_DIR ? HR_VIEW_IO_BYTES_MIN : hr_view_io_bytes(object->size);
}

static inline uint64_t blocks_of(const struct hr_object *object)
{
    return object->kind == HR_KIND_DIR ? 0 : hr_view_blocks(object->size);
}

static unsigned mode_of(const struct hr_object *object)
{
    return object->kind == HR_KIND_DIR ? S_IFDIR | 0555 : S_IFREG | 0444;
}

uint32_t hr_view_uid;
uint32_t hr_view_gid;

void hr_view_init(void)
{
    hr_view_uid = (uint32_t)getauxval(AT_EUID);
    hr_view_gid = (uint32_t)getauxval(AT_EGID);
}

void hr_view_stat(const struct hr_object *object, struct stat *ret)
{
    const struct timespec time = hr_view_time_of(object->mtime_ns);
    *ret = (struct stat){.st_dev = object->dev,
                         .st_ino = object->ino,
                         .st_mode = mode_of(object),
                         .st_nlink = 1,
                         .st_uid = hr_view_uid,
                         .st_gid = hr_view_gid,
                         .st_size = (off_t)object->size,
                         .st_blksize = (blksize_t)io_bytes_of(object),
                         .st_blocks = (blkcnt_t)blocks_of(object),
                         .st_atim = time,
                         .st_mtim = time,
                         .st_ctim = time};
}

void hr_view_statx(const struct hr_object *object, unsigned mask, struct statx *ret)
{
    (void)mask; /* more than asked for is allowed, and costs nothing */
    const struct timespec split = hr_view_time_of(object->mtime_ns);
    struct statx_timestamp time = {.tv_sec = split.tv_sec, .tv_nsec = (uint32_t)split.tv_nsec};
    memset(ret, 0, sizeof(*ret));
    ret->stx_mask = STATX_BASIC_STATS;
    ret->stx_blksize = io_bytes_of(object);
    ret->stx_nlink = 1;
    ret->stx_uid = hr_view_uid;
    ret->stx_gid = hr_view_gid;
    ret->stx_mode = (uint16_t)mode_of(object);
    ret->stx_ino = object->ino;
    ret->stx_size = object->size;
    ret->stx_blocks = blocks_of(object);
    ret->stx_atime = time;
    ret->stx_mtime = time;
    ret->stx_ctime = time;
    /* dev_t as glibc's major() and minor() take it apart */
    ret->stx_dev_major = object->dev >> 8 & 0xfff;
    ret->stx_dev_minor = (object->dev & 0xff) | (object->dev >> 12 & 0xfff00);
}
