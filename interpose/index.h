/* Reading one published index (struct hr_names): look up a path, walk a directory. Lock-free, never
 * allocates, makes no system call; shared by the preloaded object, the daemon and the command. The mapping is
 * the caller's and is never changed once published. Any thread. */
#ifndef HR_INDEX_H
#define HR_INDEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "interpose/abi.h"

/* A name is looked for in this many hash slots from its own, then by binary search among its siblings: names
 * chosen to collide cost a constant. In a table that is 3/4 full, one name in some thousands gets there. */
#define HR_INDEX_PROBES_MAX 64u
#define HR_INDEX_ETAG_MAX 135u /* bytes; what the store hands on at most (its buffer of 136) */

struct hr_index {
    const struct hr_names *names; /* the mapping, names->file_bytes long */
    const struct hr_entry *entries;
    const struct hr_dir *dirs;
    const uint32_t *hash;
    const char *text;
};

/* Nothing is in it but the root. */
static inline bool hr_index_is_empty(const struct hr_index *index)
{
    return index->names->file_count == 0 && index->names->dir_count <= 1;
}

/* Looks at the header alone: magic, version, sections inside `bytes`. O(1). 0 or -EBADMSG. After 0 every call
 * below stays inside the mapping and ends, for any path and every entry < entry_count, whatever the bytes
 * are: what does not fit its bounds is not there (no child, no name, no directory). What it says may be
 * nonsense. */
int hr_index_adopt(struct hr_index *ret, const void *base, uint64_t bytes);
/* Every entry, directory, name and hash slot inside its bounds, sorted, linked consistently, findable: after
 * 0 it says what a listing said, if the checksums hold (fetch/list). O(n). 0, -EBADMSG, or -ECANCELED when
 * *stop (may be NULL) became true. */
int hr_index_check(const struct hr_index *index, const _Atomic bool *stop);

/* Path relative to the root, components separated by single slashes, no leading or trailing one; "" is the
 * root. 0, -ENOENT, -ENOTDIR (a component in the middle is a file), -ENAMETOOLONG (a component over 255
 * bytes). */
int hr_index_lookup(const struct hr_index *index, const char *path, size_t path_len, uint32_t *ret_entry);

/* The n-th child (0 <= n < count) of a directory entry, in bytewise order of names. A file has no children; a
 * child that is not there is 0, the root. The entries below a directory are one contiguous range. */
uint32_t hr_index_child_count(const struct hr_index *index, uint32_t dir_entry);
uint32_t hr_index_child(const struct hr_index *index, uint32_t dir_entry, uint32_t n);
/* n of the first child whose name is >= name, the count when there is none: for resuming a walk in another
 * generation. */
uint32_t hr_index_seek(const struct hr_index *index, uint32_t dir_entry, const char *name, size_t name_len);

/* The children of a directory entry; NULL: a file. */
const struct hr_dir *hr_index_dir(const struct hr_index *index, uint32_t entry);
/* Number of the directory (struct hr_dir) that holds an entry; the root's and a doubtful one's is 0. */
uint32_t hr_index_parent(const struct hr_index *index, uint32_t entry);

/* Behind the last entry below a directory (that is one range from its first child on); of a file behind
 * itself. */
uint32_t hr_index_end(const struct hr_index *index, uint32_t entry);

/* Not terminated; *ret_len bytes, 0 for the root only. */
const char *hr_index_name(const struct hr_index *index, uint32_t entry, uint32_t *ret_len);
/* Path of an entry relative to the root, terminated. Returns its length, -ENAMETOOLONG when it does not fit
 * in room. */
int hr_index_path(const struct hr_index *index, uint32_t entry, char *ret_path, size_t room);
/* ETag as the store spells it, without quotes, terminated; "" when none. Returns its length or -ENOSPC. */
int hr_index_etag(const struct hr_index *index, uint32_t entry, char *ret_etag, size_t room);

/* Hash of a child's name under directory number `dir` (hr_dir index): the builder fills hr_names.hash with
 * it. */
uint64_t hr_index_hash(uint32_t dir, const char *name, size_t name_len);
/* The slot at which the search for a hash begins; it goes on at the next, and from the last to the first. */
static inline uint64_t hr_index_slot(uint64_t hash, uint64_t slots)
{
    return (uint64_t)(((unsigned __int128)hash * slots) >> 64);
}
/* The same function under any seed, for tables in memory. */
uint64_t hr_index_hash_seeded(uint64_t seed, const char *name, size_t name_len);

#endif
