/* Our DIR: a walk over one directory of an index, with no descriptor and no system call of its own. A stream
 * keeps the view it began with, so a newer index never changes a walk that is under way.
 *
 * Streams live in a static pool (further ones in mappings that are kept), claimed by compare-and-swap: any
 * thread may open; one stream belongs to one thread at a time, as libc's do between readdir calls. Nothing
 * here allocates. */
#ifndef HR_DIRSTREAM_H
#define HR_DIRSTREAM_H

#include <dirent.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "config/maps.h"
#include "interpose/index.h"
#include "interpose/path.h"

/* ---- the walk: pure ---- */

/* A name that another map puts into this directory. */
struct hr_walk_extra {
    uint32_t slot;    /* its number in the merged order */
    uint16_t name_at; /* in hr_maps.map[map].path */
    uint8_t name_len;
    uint8_t map;
    bool replaces; /* the index has the name too: the map wins */
};

/* The children of one directory in bytewise order, the extra names merged in. */
struct hr_walk {
    const struct hr_index *index; /* NULL: a directory that exists only as the way to a deeper map */
    uint32_t dir_entry;
    uint32_t count; /* of all names */
    uint32_t extra_count;
    struct hr_walk_extra extra[HR_MAPS_MAX];
};

struct hr_walk_name {
    const char *name; /* not terminated */
    uint32_t len;
    uint32_t entry; /* of the index; 0 for an extra name */
    bool extra;
};

/* `path` is the canonical path of the directory, `own` the number of the map that it belongs to. */
void hr_walk_begin(struct hr_walk *ret, const struct hr_index *index, uint32_t dir_entry,
                   const struct hr_maps *maps, unsigned own, const char *path, size_t path_len);
/* The n-th name, n < count. */
void hr_walk_name(const struct hr_walk *walk, const struct hr_maps *maps, uint32_t n,
                  struct hr_walk_name *ret);

/* ---- the stream ---- */

/* Has this process ever opened one of our streams? */
extern _Atomic bool hr_dirstream_met;
bool hr_dirstream_known(const DIR *dir);

/* Recognised by address: no look at *dir, no system call. */
static inline bool hr_dirstream_ours(const DIR *dir)
{
    return __builtin_expect(atomic_load_explicit(&hr_dirstream_met, memory_order_relaxed), 0) &&
           hr_dirstream_known(dir);
}

/* Opens the directory at a place; waits for its names when there is no index yet. fd: a stand-in descriptor
 * that the stream takes over on success, or -1. 0, -ENOENT, -ENOTDIR, -EACCES, -EIO, -EMFILE (no memory for
 * one more stream). */
int hr_dirstream_open(const struct hr_place *place, int fd, DIR **ret);

/* Next entry, NULL at the end. Valid until the next call on the stream. "." and ".." come first. */
struct dirent64 *hr_dirstream_next(DIR *dir);
long hr_dirstream_tell(const DIR *dir);
void hr_dirstream_seek(DIR *dir, long position); /* one that tell gave; 0 rewinds */

/* The stand-in descriptor, made on first use and kept by the stream. Descriptor or -errno. */
int hr_dirstream_fd(DIR *dir);
void hr_dirstream_close(DIR *dir);

#endif
