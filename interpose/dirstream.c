#include "interpose/dirstream.h"

#include <stdatomic.h>
#include <sys/mman.h>

#include "interpose/context.h"
#include "interpose/standin.h"
#include "interpose/view.h"
#include "interpose/way.h"
#include "interpose/inner.h"

#define POOL_STREAMS 256  /* in the object itself: a walker holds one stream a level */
#define CHUNK_STREAMS 256 /* a further mapping, about 400 KiB of untouched pages */
#define CHUNKS_MAX 255    /* 65,536 streams in all, beyond what descriptors would allow */

#define DOTS 2 /* positions 0 and 1 are "." and ".." */

struct hr_stream {
    _Atomic uint32_t used;
    int fd;       /* stand-in descriptor, -1 until somebody asks */
    uint32_t map; /* number in hr_maps */
    uint32_t position;
    uint64_t salt;
    uint64_t self_ino, parent_ino;
    struct hr_view_dir dir;
    struct hr_walk walk; /* over dir.index */
    uint32_t prefix_len; /* of the map's prefix in head */
    uint32_t head_len;
    uint64_t head_hash;        /* hr_object_ino_head of it */
    char head[HR_KEY_MAX + 2]; /* what every child's key begins with: prefix, path below the map, '/' */
    struct dirent64 entry;
};

static struct hr_stream pool[POOL_STREAMS];
static struct hr_stream *_Atomic chunks[CHUNKS_MAX];
static _Atomic uint32_t next_guess;

/* ---- the walk ---- */

static int compare_names(const char *a, uint32_t a_len, const char *b, uint32_t b_len)
{
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    if (order != 0) {
        return order;
    }
    return a_len < b_len ? -1 : a_len > b_len;
}

/* The component by which `deeper` continues the directory `path`; 0 when it does not. */
static uint32_t continues(const struct hr_map *deeper, const char *path, size_t path_len)
{
    if (deeper->path_len <= path_len + 1 || deeper->path[path_len] != '/' ||
        memcmp(deeper->path, path, path_len) != 0) {
        return 0;
    }
    const char *name = deeper->path + path_len + 1;
    const char *slash = memchr(name, '/', deeper->path_len - path_len - 1);
    size_t len = slash ? (size_t)(slash - name) : deeper->path_len - path_len - 1;
    return len <= HR_NAME_BYTES_MAX ? (uint32_t)len : 0;
}

/* Keeps the extra names sorted and each once. */
static void add_extra(struct hr_walk *walk, const struct hr_maps *maps, struct hr_walk_extra extra)
{
    const char *name = maps->map[extra.map].path + extra.name_at;
    uint32_t at = 0;
    for (; at < walk->extra_count; at++) {
        const struct hr_walk_extra *other = &walk->extra[at];
        int order =
            compare_names(name, extra.name_len, maps->map[other->map].path + other->name_at, other->name_len);
        if (order == 0) {
            return;
        }
        if (order < 0) {
            break;
        }
    }
    memmove(&walk->extra[at + 1], &walk->extra[at], (walk->extra_count - at) * sizeof(walk->extra[0]));
    walk->extra[at] = extra;
    walk->extra_count++;
}

static bool child_has_name(const struct hr_walk *walk, uint32_t child, const char *name, uint32_t name_len)
{
    if (!walk->index || child >= hr_index_child_count(walk->index, walk->dir_entry)) {
        return false;
    }
    uint32_t len;
    const char *text = hr_index_name(walk->index, hr_index_child(walk->index, walk->dir_entry, child), &len);
    return len == name_len && memcmp(text, name, len) == 0;
}

void hr_walk_begin(struct hr_walk *ret, const struct hr_index *index, uint32_t dir_entry,
                   const struct hr_maps *maps, unsigned own, const char *path, size_t path_len)
{
    ret->index = index;
    ret->dir_entry = dir_entry;
    ret->count = index ? hr_index_child_count(index, dir_entry) : 0;
    ret->extra_count = 0;
    for (unsigned i = 0; i < maps->count; i++) {
        uint32_t len = i == own ? 0 : continues(&maps->map[i], path, path_len);
        if (len > 0) {
            add_extra(ret, maps,
                      (struct hr_walk_extra){
                          .name_at = (uint16_t)(path_len + 1), .name_len = (uint8_t)len, .map = (uint8_t)i});
        }
    }
    uint32_t added = 0;
    for (uint32_t i = 0; i < ret->extra_count; i++) {
        struct hr_walk_extra *extra = &ret->extra[i];
        const char *name = maps->map[extra->map].path + extra->name_at;
        uint32_t child = index ? hr_index_seek(index, dir_entry, name, extra->name_len) : 0;
        extra->slot = child + added;
        extra->replaces = child_has_name(ret, child, name, extra->name_len);
        added += !extra->replaces;
    }
    ret->count += added;
}

void hr_walk_name(const struct hr_walk *walk, const struct hr_maps *maps, uint32_t n,
                  struct hr_walk_name *ret)
{
    uint32_t child = n;
    for (uint32_t i = 0; i < walk->extra_count && walk->extra[i].slot <= n; i++) {
        const struct hr_walk_extra *extra = &walk->extra[i];
        if (extra->slot == n) {
            *ret = (struct hr_walk_name){
                .name = maps->map[extra->map].path + extra->name_at, .len = extra->name_len, .extra = true};
            return;
        }
        child -= !extra->replaces;
    }
    ret->entry = hr_index_child(walk->index, walk->dir_entry, child);
    ret->name = hr_index_name(walk->index, ret->entry, &ret->len);
    ret->extra = false;
}

/* ---- the pool ---- */

static bool within(const struct hr_stream *base, size_t count, const void *pointer)
{
    return (uintptr_t)pointer - (uintptr_t)base < count * sizeof(*base);
}

_Atomic bool hr_dirstream_met;

bool hr_dirstream_known(const DIR *dir)
{
    if (within(pool, POOL_STREAMS, dir)) {
        return true;
    }
    for (unsigned i = 0; i < CHUNKS_MAX; i++) {
        const struct hr_stream *chunk = atomic_load_explicit(&chunks[i], memory_order_acquire);
        if (!chunk) {
            return false;
        }
        if (within(chunk, CHUNK_STREAMS, dir)) {
            return true;
        }
    }
    return false;
}

static struct hr_stream *claim_in(struct hr_stream *base, uint32_t count, uint32_t first)
{
    for (uint32_t i = 0; i < count; i++) {
        struct hr_stream *stream = &base[(first + i) % count];
        uint32_t expected = 0;
        if (atomic_load_explicit(&stream->used, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong_explicit(&stream->used, &expected, 1, memory_order_acquire,
                                                    memory_order_relaxed)) {
            return stream;
        }
    }
    return NULL;
}

static struct hr_stream *add_chunk(unsigned at)
{
    size_t bytes = CHUNK_STREAMS * sizeof(struct hr_stream);
    long base = hr_sys(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base < 0 && base > -4096) {
        return NULL;
    }
    struct hr_stream *expected = NULL;
    if (!atomic_compare_exchange_strong_explicit(&chunks[at], &expected, (struct hr_stream *)base,
                                                 memory_order_acq_rel, memory_order_acquire)) {
        hr_sys(SYS_munmap, base, (long)bytes, 0, 0, 0, 0);
        return expected;
    }
    return (struct hr_stream *)base;
}

static struct hr_stream *claim(void)
{
    uint32_t guess = atomic_fetch_add_explicit(&next_guess, 1, memory_order_relaxed);
    atomic_store_explicit(&hr_dirstream_met, true, memory_order_relaxed);
    struct hr_stream *stream = claim_in(pool, POOL_STREAMS, guess % POOL_STREAMS);
    for (unsigned i = 0; !stream && i < CHUNKS_MAX; i++) {
        struct hr_stream *chunk = atomic_load_explicit(&chunks[i], memory_order_acquire);
        if (!chunk) {
            chunk = add_chunk(i);
        }
        if (!chunk) {
            return NULL;
        }
        stream = claim_in(chunk, CHUNK_STREAMS, guess % CHUNK_STREAMS);
    }
    return stream;
}

static void release(struct hr_stream *stream)
{
    atomic_store_explicit(&stream->used, 0, memory_order_release);
}

/* ---- inode numbers ---- */

/* False: longer than a key may be, so that nothing can be in there. */
static bool set_head(struct hr_stream *stream, const struct hr_place *place)
{
    if (place->map == HR_WAY) {
        stream->prefix_len = 0;
        stream->head_len = place->len;
        memcpy(stream->head, place->path + 1, place->len - 1);
        stream->head[place->len - 1] = '/';
        return true;
    }
    const struct hr_map *map = &hr_maps.map[place->map];
    size_t rel_len = place->len - place->rel;
    if (map->prefix_len + rel_len + 1 > sizeof(stream->head)) {
        return false;
    }
    memcpy(stream->head, map->prefix, map->prefix_len);
    memcpy(stream->head + map->prefix_len, place->path + place->rel, rel_len);
    stream->prefix_len = map->prefix_len;
    stream->head_len = (uint32_t)(map->prefix_len + rel_len);
    if (rel_len > 0) {
        stream->head[stream->head_len++] = '/';
    }
    return true;
}

/* Of the directory whose key is the first `len` bytes of head. */
static uint64_t dir_ino(const struct hr_stream *stream, uint32_t len)
{
    return hr_object_ino(stream->salt, stream->head, len - (len > 0), "", 0);
}

/* The root's ".." is the root, as in the root of any mounted file system. */
static uint64_t parent_ino(const struct hr_stream *stream)
{
    uint32_t len = stream->head_len;
    if (len > stream->prefix_len) {
        do {
            len--;
        } while (len > stream->prefix_len && stream->head[len - 1] != '/');
    }
    return dir_ino(stream, len);
}

static void place_of(const struct hr_stream *stream, const char *name, uint32_t name_len,
                     struct hr_place *ret)
{
    if (stream->map == HR_WAY) {
        ret->path[0] = '/';
        memcpy(ret->path + 1, stream->head, stream->head_len - 1);
        ret->path[stream->head_len] = '\0';
        hr_way_fill(ret, stream->head_len);
        return;
    }
    const struct hr_map *map = &hr_maps.map[stream->map];
    uint32_t rel_len = stream->head_len - stream->prefix_len;
    memcpy(ret->path, map->path, map->path_len);
    ret->map = stream->map;
    ret->must_be_dir = false;
    ret->len = map->path_len;
    if (rel_len + name_len > 0) {
        ret->path[ret->len++] = '/';
        memcpy(ret->path + ret->len, stream->head + stream->prefix_len, rel_len);
        memcpy(ret->path + ret->len + rel_len, name, name_len);
        ret->len += rel_len + name_len;
        ret->len -= ret->path[ret->len - 1] == '/';
    }
    ret->path[ret->len] = '\0';
    ret->rel = ret->len > map->path_len ? map->path_len + 1u : map->path_len;
}

/* A name that leads to another map has the inode number that stat gives it there. In a way a map's root has
 * one of its own, as at any mount point: asking for the root's would start a daemon for an `ls`. */
static uint64_t extra_ino(const struct hr_stream *stream, const struct hr_walk_name *name)
{
    struct hr_place place;
    struct hr_object object;
    if (stream->map == HR_WAY) {
        return hr_object_ino_tail(stream->head_hash, name->name, name->len);
    }
    place_of(stream, name->name, name->len, &place);
    if (hr_path_find(AT_FDCWD, place.path, &place) && hr_view_find(&place, &object) == 0) {
        return object.ino;
    }
    return hr_object_ino(stream->salt, stream->head, stream->head_len, name->name, name->len);
}

/* ---- the stream ---- */

static int fill(struct hr_stream *stream, const struct hr_place *place)
{
    if (!set_head(stream, place)) {
        return -ENOENT;
    }
    bool way = place->map == HR_WAY;
    stream->dir.own = NULL;
    int error = way ? -ENOENT : hr_view_dir(place, &stream->dir);
    bool only_way = way || ((error == -ENOENT || error == -ENOTDIR) && hr_maps.count > 1 &&
                            hr_path_above(place->path, place->len));
    if (error < 0 && !only_way) {
        return error;
    }
    stream->map = place->map;
    stream->position = 0;
    stream->salt = way ? HR_WAY_SALT : stream->dir.salt;
    stream->self_ino = dir_ino(stream, stream->head_len);
    stream->head_hash = hr_object_ino_head(stream->salt, stream->head, stream->head_len);
    stream->parent_ino = parent_ino(stream);
    hr_walk_begin(&stream->walk, only_way ? NULL : &stream->dir.index, stream->dir.entry, &hr_maps,
                  place->map, place->path, place->len);
    return 0;
}

int hr_dirstream_open(const struct hr_place *place, int fd, DIR **ret)
{
    struct hr_stream *stream = claim();
    if (!stream) {
        return -EMFILE;
    }
    int error = fill(stream, place);
    if (error < 0) {
        release(stream);
        return error;
    }
    stream->fd = fd;
    *ret = (DIR *)stream;
    return 0;
}

static struct dirent64 *give(struct hr_stream *stream, const char *name, uint32_t len, uint64_t ino,
                             unsigned char type)
{
    struct dirent64 *entry = &stream->entry;
    entry->d_ino = ino;
    entry->d_off = (off64_t)stream->position;
    entry->d_reclen = (unsigned short)((offsetof(struct dirent64, d_name) + len + 1 + 7) & ~(size_t)7);
    entry->d_type = type;
    memcpy(entry->d_name, name, len);
    entry->d_name[len] = '\0';
    return entry;
}

struct dirent64 *hr_dirstream_next(DIR *dir)
{
    struct hr_stream *stream = (struct hr_stream *)dir;
    uint32_t at = stream->position;
    if (at >= stream->walk.count + DOTS) {
        return NULL;
    }
    stream->position = at + 1;
    if (at < DOTS) {
        return give(stream, "..", at + 1, at == 0 ? stream->self_ino : stream->parent_ino, DT_DIR);
    }
    struct hr_walk_name name;
    hr_walk_name(&stream->walk, &hr_maps, at - DOTS, &name);
    if (name.extra) {
        return give(stream, name.name, name.len, extra_ino(stream, &name), DT_DIR);
    }
    bool is_dir = stream->walk.index->entries[name.entry].kind == HR_KIND_DIR;
    uint64_t ino = hr_object_ino_tail(stream->head_hash, name.name, name.len);
    return give(stream, name.name, name.len, ino, is_dir ? DT_DIR : DT_REG);
}

long hr_dirstream_tell(const DIR *dir)
{
    return (long)((const struct hr_stream *)dir)->position;
}

void hr_dirstream_seek(DIR *dir, long position)
{
    struct hr_stream *stream = (struct hr_stream *)dir;
    long end = (long)stream->walk.count + DOTS;
    stream->position = (uint32_t)(position < 0 ? 0 : position > end ? end : position);
}

int hr_dirstream_fd(DIR *dir)
{
    struct hr_stream *stream = (struct hr_stream *)dir;
    if (stream->fd < 0) {
        struct hr_place place;
        place_of(stream, "", 0, &place);
        int fd = hr_view_standin(&place, O_CLOEXEC);
        if (fd < 0) {
            return fd;
        }
        stream->fd = fd;
    }
    return stream->fd;
}

void hr_dirstream_close(DIR *dir)
{
    struct hr_stream *stream = (struct hr_stream *)dir;
    if (stream->fd >= 0) {
        hr_standin_unmark(stream->fd);
        hr_sys(SYS_close, stream->fd, 0, 0, 0, 0, 0);
    }
    hr_view_dir_end(&stream->dir);
    release(stream);
}
