/* The cache: whole, verified objects as files of their own under cache_dir/objects, with their records.
 *
 * One thread (the daemon's main loop) owns a cache and calls everything here; file work (create, write,
 * verify, unlink) runs on writer threads and comes back through callbacks on that loop. Law: a file's number
 * is told (to a callback, in a record) only when it is whole and verified; nothing is ever written into it
 * from then on. It has that number for its name from the start: who was not told cannot ask for it, and what
 * no record tells of is removed by the next life.
 *
 * A cache object is content: source (endpoint+bucket), key, ETag, size. Which trees show it is the owner's
 * business, told through the callbacks.
 *
 * A large object may be here in three ways, side by side: whole; as a face (an empty file of mode 0200 that
 * programs hold open); as segments (files of byte ranges, each inside one cell of HR_CELL_BYTES). A face is
 * not evicted by need of room: descriptors of it may be open anywhere; it is charged nothing. Segments belong
 * to the face of their version and go when it goes. */
#ifndef HR_CACHE_CACHE_H
#define HR_CACHE_CACHE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "fetch/base/buf.h"
#include "fetch/net/loop.h"
#include "interpose/abi.h"

struct hr_cache;

struct hr_source_id {
    uint8_t bytes[16]; /* truncated SHA-256 of endpoint, bucket: no identity, no secret */
};

#define HR_FACES_MAX 65536u /* then go those that had no segment and no use for the longest time */

enum hr_cached_kind { HR_CACHED_WHOLE = 0, HR_CACHED_FACE = 1, HR_CACHED_SEGMENT = 2 };

/* What is in the cache; it and all that it leads to are valid until the object is evicted. There are
 * millions: what only some have, and what lies behind them in memory, is asked for below. */
struct hr_cached {
    const struct hr_source_id *source;
    uint64_t size;    /* the object's; of a SEGMENT its own bytes */
    int64_t mtime_ns; /* the object's */
    uint64_t file_id; /* names the file; never used twice in a cache directory */
    uint32_t key_len;
    uint16_t etag_len;
    uint16_t kind; /* enum hr_cached_kind */
};
const char *hr_cached_key(const struct hr_cached *cached);  /* full key in the bucket */
const char *hr_cached_etag(const struct hr_cached *cached); /* without quotes */
uint64_t hr_cached_face_id(const struct hr_cached *cached); /* SEGMENT: file_id of its face; others: 0 */
uint64_t hr_cached_offset(const struct hr_cached *cached);  /* SEGMENT: of its first byte; others: 0 */

struct hr_cache_options {
    const char *dir;         /* cache_dir: exists, checked by hr_cache_dir_check */
    uint64_t size_bytes;     /* budget */
    uint64_t free_bytes;     /* floor of free space on the file system */
    unsigned writer_threads; /* >= 1 */
    uint64_t faces_max;      /* 0: HR_FACES_MAX */
    uint64_t boot;
    struct hr_loop *loop;
    /* An object of any kind left the cache (evicted, replaced, or its file was found missing or foreign):
     * take it out of the states. The file is unlinked after this returns. Must not change the cache. */
    void (*evicted)(void *owner, const struct hr_cached *cached);
    /* Another whole object of the cache that is needed later than this one, which would be given up; NULL:
     * none is known. Must not change the cache. May be NULL. */
    const struct hr_cached *(*needed_later)(void *owner, const struct hr_cached *victim);
    /* residents-BOOT-gen is whole and has its name: publish gen now; the older one is marked retired and
     * unlinked when this returns. Not called for the first (hr_cache_stats tells it). May be NULL. */
    void (*residents_grown)(void *owner, uint32_t gen);
    void *owner;
};

/* Is this a directory that may be ours: absolute, not a symlink, owned by us, closed to others (0700; made so
 * when we create it), writable, local (a network or FUSE file system is an error that names it). Creates it
 * and missing parents, 0700, when absent. 0 or -errno with one line in ret_message: -EINVAL, -ELOOP
 * (symlink), -ENOTDIR, -EPERM (owner or mode), -EOPNOTSUPP (file system), -EROFS, -EACCES, ... */
int hr_cache_dir_check(const char *dir, char ret_message[256]);
/* The default place: the first that is writable, local and not tmpfs of $SLURM_TMPDIR/headrace-UID,
 * $TMPDIR/headrace-UID, $XDG_CACHE_HOME/headrace, $HOME/.cache/headrace, /var/tmp/headrace-UID (UID because
 * the first two and the last are shared with others). Created. env as in getenv. 0, and ret_message is "" or
 * one line for people: which place was passed over because it is on a network; or -errno (-ENAMETOOLONG:
 * room). */
typedef const char *(*hr_env_of)(void *owner, const char *name);
int hr_cache_dir_default(hr_env_of env, void *owner, char *ret_dir, size_t room, char ret_message[256]);
/* The same place, as far as it is there: -ENOENT where it would have to be created. */
int hr_cache_dir_find(hr_env_of env, void *owner, char *ret_dir, size_t room, char ret_message[256]);

/* Takes over what earlier lives left: every object with a sound record whose file has the recorded inode,
 * size, times and the mode of its kind; of segments those whose face is there. What is torn, missing,
 * unrecorded or foreign below objects/ and spool/ is removed. After a crash of the machine, objects that were
 * not yet known to be on the disk are dropped (fetch/cache/journal.h). Nobody is told through evicted. One
 * syncfs a minute, while there are new objects, runs on a thread of its own. */
int hr_cache_open(const struct hr_cache_options *options, char ret_message[256], struct hr_cache **ret);
/* Discards puts that were not finished (written is still called, done is not), waits for the others and their
 * done, syncs. Not from inside a callback; accepts NULL. */
void hr_cache_close(struct hr_cache *cache);

/* The whole object; NULL when absent. */
const struct hr_cached *hr_cache_find(struct hr_cache *cache, const struct hr_source_id *source,
                                      const char *key, uint32_t key_len, const char *etag);
/* Its face; NULL when there is none. */
const struct hr_cached *hr_cache_face(struct hr_cache *cache, const struct hr_source_id *source,
                                      const char *key, uint32_t key_len, const char *etag);
const struct hr_cached *hr_cache_by_id(struct hr_cache *cache, uint64_t file_id); /* of any kind, or NULL */
/* The segment of a face that holds the byte at `offset`; of several the longest. NULL when absent. */
const struct hr_cached *hr_cache_segment(struct hr_cache *cache, uint64_t face_id, uint64_t offset);
/* The first one of the cell of `offset` that begins there or behind it. NULL when absent. */
const struct hr_cached *hr_cache_next_segment(struct hr_cache *cache, uint64_t face_id, uint64_t offset);
/* How many segments the cell of `offset` has and their bytes together (a measure of random reading). */
void hr_cache_cell(struct hr_cache *cache, uint64_t face_id, uint64_t offset, unsigned *ret_segments,
                   uint64_t *ret_bytes);
/* How many of a cell's segments make one row with the range [first, end) in it, none apart from the next (a
 * measure of reading in either direction). */
unsigned hr_cache_row(struct hr_cache *cache, uint64_t face_id, uint64_t first, uint64_t end);
/* Calls fn for every object of a source, whole ones and faces (to fill a new states array: look at kind), in
 * no order. fn must not change the cache. */
void hr_cache_each(struct hr_cache *cache, const struct hr_source_id *source,
                   void (*fn)(void *owner, const struct hr_cached *cached), void *owner_pointer);
void hr_cache_touch(struct hr_cache *cache, uint64_t file_id); /* used now: for the replacement policy, and
                                                                  for the age of faces without segments */
void hr_cache_announced(struct hr_cache *cache, uint64_t file_id); /* somebody will use it soon */
void hr_cache_abandoned(struct hr_cache *cache, uint64_t file_id); /* nobody will after all, or again */

/* Its number is told to a program that will open it: should it leave now, its file keeps its name and its
 * room for a second or two, unless nothing else is left to give up (bounded: handed.c). */
void hr_cache_handed(struct hr_cache *cache, uint64_t file_id);
/* A program noted that it has opened it: one of those that were told. */
void hr_cache_opened(struct hr_cache *cache, uint64_t file_id);

/* Segments of a face that lie in the range go first when room is needed. How many there are. */
unsigned hr_cache_unneeded(struct hr_cache *cache, uint64_t face_id, uint64_t offset, uint64_t bytes);

/* What a finished download must prove before it gets its name. */
struct hr_verify {
    bool md5; /* whole body's MD5 must be md5_hex */
    char md5_hex[33];
    uint32_t crc_kind; /* enum hr_crc_kind of fetch/store/store.h */
    uint64_t crc;
    uint8_t sha[32]; /* SHA1 (20 bytes) or SHA256 */
};

/* One object on its way in. Parts may arrive in any order, each exactly once, together covering [0, size). */
struct hr_put;
struct hr_put_options {
    struct hr_source_id source;
    uint64_t object_dev_salt; /* salt of st_ino (abi.h); kept over restarts: the same in every life for one
                                 source */
    uint32_t object_dev;      /* st_dev to report; the same */
    const char *key;
    uint32_t key_len;
    const char *etag;
    /* SEGMENT: bytes of the range, which lies in one cell. FACE: of the object; no part is given, finish at
     * once. */
    uint64_t size;
    int64_t mtime_ns;
    enum hr_cached_kind kind;
    /* SEGMENT: a living face's of the same source, key and ETag; offset in the object. Offset and end are
     * multiples of 4096, but for an end that is the object's. Parts count from 0 at `offset`. */
    uint64_t face_id, offset;
    bool guess;   /* nobody asked for it, nor said that he will use it */
    bool awaited; /* somebody waits for it: it is not kept back for others to be worked on with */
    /* Once, on the loop, after hr_put_finish; the put is gone when it returns. error 0: cached is there, its
     * file has its name, residents has its record (of a segment: none). Of a FACE that was there already, and
     * of a SEGMENT that lies inside one that was there already (or is the same), cached is that one and the
     * new file is gone; else a segment replaces those that lie inside it. A face's record is with the kernel:
     * it survives a kill of the daemon. -EBADMSG: verification failed (hr_put_body_md5_hex tells what came);
     * -ENOSPC: no room even after eviction; -EINVAL: the parts did not cover the object; -ESTALE: the
     * segment's face left meanwhile; -EIO... then cached is NULL. */
    void (*done)(void *owner, struct hr_put *put, int error, const struct hr_cached *cached);
    void *owner;
};
/* Makes room (evicts) and reserves size bytes, none for a FACE. 0; -ENOSPC (does not fit the budget or the
 * disk); -EAGAIN (only puts in flight are in the way: try again after one of them is done); -EINVAL (key or
 * ETag too long, empty key, NUL in them; a SEGMENT's range or version is none of its face's); -ESTALE (that
 * face is not in the cache); -ENOMEM; -ECANCELED (closing). Strings are copied. A WHOLE of the same source,
 * key and ETag is replaced when the new one is done. */
int hr_put_begin(struct hr_cache *cache, const struct hr_put_options *options, struct hr_put **ret);
/* Somebody waits now for one that was not awaited: it is written next, if it is a large one. */
void hr_put_hurry(struct hr_put *put);
/* Takes the bytes of `part` (the buffer is empty afterwards). The whole object in one part is the common
 * case: follow it with hr_put_finish at once, and it is verified from memory before a byte is written.
 * written(owner) is called on the loop when the memory is free again, whatever becomes of the put; may be
 * NULL. 0, or the part is still the caller's: -EINVAL (outside, given before, after finish), -ENOMEM, or the
 * error that the put met already (abort it, or finish it: done gets the error). */
int hr_put_part(struct hr_put *put, uint64_t offset, struct hr_buf *part,
                void (*written)(void *owner, uint64_t bytes), void *written_owner);
/* A part whose bytes a segment of the same version holds already: [offset, offset + bytes) is copied from it
 * by a writer thread (copy_file_range, else read and write). Errors as hr_put_part; -EINVAL for another
 * version's face; -ENOENT when no single segment of the face covers all of it. The segment may be evicted
 * meanwhile: its file stays until it is copied. Takes no descriptor before the writer comes to it. */
int hr_put_copy(struct hr_put *put, uint64_t offset, uint64_t bytes, uint64_t face_id,
                void (*written)(void *owner, uint64_t bytes), void *written_owner);
/* All parts were given: verify (NULL: nothing to prove), sync nothing, set times, record; then done.
 */
void hr_put_finish(struct hr_put *put, const struct hr_verify *verify);
/* Removes what was written; done is not called, written is. The put is not the caller's any more. Not inside
 * done. */
void hr_put_abort(struct hr_put *put);
const char *hr_put_body_md5_hex(const struct hr_put *put); /* in done, when verify->md5; else "" */

/* Evicts objects until `bytes` fit below the budget and above the free floor. 0 or -ENOSPC. An object takes
 * its size rounded up to 4 KiB, at least 4 KiB. The floor is also kept once a second with nobody asking. */
int hr_cache_make_room(struct hr_cache *cache, uint64_t bytes);
/* Where the file of an object is (abi.h: objects/XX/ID). Any thread. */
void hr_object_path(const char *dir, uint64_t file_id, char ret_path[PATH_MAX]);
/* Drops one object now (the client found its file gone or foreign). A face goes with its segments. */
void hr_cache_drop(struct hr_cache *cache, uint64_t file_id);
void hr_cache_drop_segments(struct hr_cache *cache, uint64_t face_id); /* the whole object is here now */

/* Makes dirs/MAPHASH/path (each part 0111). path as in abi.h STANDIN. 0 or -errno (-EINVAL on "..", "//", a
 * slash at an end, a part over 255 bytes). Runs on the loop: some microseconds a part. */
int hr_cache_standin(struct hr_cache *cache, uint64_t map_hash, const char *path, uint32_t path_len);

struct hr_cache_stats {
    /* objects: whole ones. bytes: charged, with what is reserved. free_bytes: of the file system. evictions:
     * to make room. adopted: of all kinds */
    uint64_t faces, segments;
    uint64_t bytes, objects, budget_bytes, free_bytes, evictions, evicted_bytes, verify_failures, adopted;
    uint64_t room_bytes;       /* that it may hold now: its budget, or what the file system has for it */
    uint64_t held_bytes;       /* of files that left and keep their names for a moment (hr_cache_handed) */
    uint64_t writes_in_flight; /* puts begun and not done */
    uint32_t residents_gen;
    uint64_t cache_dev;
    /* How room is made (policy.h), and for which bytes. uses: hr_cache_touch; use_hits: but for the first of
     * each object since it came. */
    bool keeps_set;
    uint64_t kept_bytes, uses, use_hits;
};
void hr_cache_stats(const struct hr_cache *cache, struct hr_cache_stats *ret);

#endif
