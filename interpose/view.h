/* What is at a place: index entry, or the daemon's answer -> stat, statx, descriptor. Negative errno
 * everywhere. */
#ifndef HR_VIEW_H
#define HR_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "interpose/abi.h"
#include "interpose/index.h"
#include "interpose/path.h"

struct statx;

#define HR_DIR_SIZE_BYTES 4096 /* what stat says of any directory */

/* What a place holds. */
struct hr_object {
    uint32_t kind; /* HR_KIND_FILE or HR_KIND_DIR */
    uint32_t map;
    uint64_t size;
    int64_t mtime_ns;
    uint64_t ino; /* from hr_view_find and hr_identity: an open does without */
    uint32_t dev;
    bool face; /* the daemon answered an OPEN, with a face */
    /* Known from an index: its view (NULL when the daemon answered) and entry. */
    const struct hr_tree_view *tree;
    uint32_t entry;
};

/* One tree as this process has it mapped: never unmapped, replaced by a newer generation beside it. */
struct hr_tree_view {
    uint32_t tree;
    uint32_t gen;
    struct hr_index index;
    const struct hr_states *states;
    struct hr_uses *uses;
    uint64_t ino_head; /* hr_object_ino_head of the tree's prefix */
};

/* 0, -ENOENT, -ENOTDIR, -EACCES, -EIO... A way (way.h) is always there. Asks the daemon when no index is
 * there yet (and waits). */
int hr_view_find(const struct hr_place *place, struct hr_object *ret);

/* The names of one directory: out of the tree's index, or as the daemon read it. */
struct hr_view_dir {
    struct hr_index index;
    uint32_t entry; /* of the directory in it */
    uint64_t salt;  /* of its tree; valid with -ENOENT and -ENOTDIR, too */
    void *own;      /* NULL, or a mapping for hr_view_dir_end */
    size_t own_bytes;
};
/* Asks for it and waits where there is no index yet. 0, -ENOENT, -ENOTDIR, -EACCES, -EIO... */
int hr_view_dir(const struct hr_place *place, struct hr_view_dir *ret);
void hr_view_dir_end(struct hr_view_dir *dir);

/* Once, before hr_active. */
void hr_view_init(void);
/* Whose everything is: the caller's, without a system call as the program was started. */
extern uint32_t hr_view_uid __attribute__((visibility("hidden")));
extern uint32_t hr_view_gid __attribute__((visibility("hidden")));
static inline uint32_t hr_view_owner(void)
{
    return hr_view_uid;
}
void hr_view_stat(const struct hr_object *object, struct stat *ret);
void hr_view_statx(const struct hr_object *object, unsigned mask, struct statx *ret);

/* open(2) at a mapped place: waits until the whole object is in the cache, then a real read-only descriptor
 * of the cache file; a directory gives its stand-in. Answers EROFS/EISDIR/EEXIST/ENOTDIR as a read-only file
 * system does. */
int hr_view_open(const struct hr_place *place, int flags, unsigned mode);
/* Full path of the cache file that holds the object now (for freopen and the like): length or -errno. */
int hr_view_cache_path(const struct hr_place *place, char *ret_path, size_t room);
/* An O_PATH descriptor of the stand-in directory of a place (extra: O_CLOEXEC), marked (hr_standin_mark).
 * -ENOTDIR when the place holds a file. */
int hr_view_standin(const struct hr_place *place, int extra_flags);

#endif
