/* What the files of this room share: an object of the cache, the cache itself. Nobody else includes this. */
#ifndef HR_CACHE_INSIDE_H
#define HR_CACHE_INSIDE_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "fetch/cache/budget.h"
#include "fetch/cache/cache.h"
#include "fetch/cache/journal.h"
#include "fetch/cache/policy.h"
#include "fetch/cache/record.h"
#include "fetch/cache/residents.h"
#include "fetch/cache/segments.h"
#include "fetch/cache/writers.h"

/* Longest cache_dir: what is below it ("/objects/XX/ID", "/residents-BOOT-GEN") fits in PATH_MAX. */
#define HR_CACHE_DIR_MAX (PATH_MAX - 64)

/* source, key, '\0', etag, and of a face a '\0' more: what by_key is keyed by. */
#define HR_IDENTITY_BYTES_MAX (sizeof(struct hr_source_id) + HR_KEY_MAX + 1 + HR_ETAG_BYTES_MAX + 1)

struct hr_object {
    struct hr_cached cached; /* key and etag point into identity */
    union {
        struct {
            struct hr_object *segments; /* those in the index, any order */
            uint32_t holds;             /* segments here and on their way in; 0: it is among cache->bare */
        } face;
        struct {
            struct hr_object *previous; /* of its face's */
            struct hr_object *next;
            uint32_t copies; /* parts of puts that are still to be copied from its file */
            bool left;       /* unlinked when the last of them is done */
        } segment;
    };
    uint64_t ino;
    uint64_t salt;
    int64_t written_s; /* seconds of the file's mtime; nanoseconds: nonce */
    uint32_t nonce;
    uint32_t dev;
    uint32_t epoch;  /* hr_journal: when its record was made */
    bool other_boot; /* adoption: recorded before the kernel started */
    bool seen;       /* adoption: its file is there and right */
    bool guess;      /* nobody asked for it */
    uint16_t etag_len;
    uint16_t handed_tick;  /* of the cache, when its number was told to a program last; 0: never */
    uint16_t handed_count; /* told since then, and no open noted yet */
    uint32_t identity_len;
    struct hr_policy_node policy;
    struct hr_journal_link link;
    struct hr_work leaving; /* after it left the tables: its file's unlink */
    struct hr_object *next_victim;
    struct hr_cache *cache;
    UT_hash_handle by_key; /* not of a segment */
    UT_hash_handle by_id;
    char identity[]; /* identity_len bytes and '\0' */
};

struct hr_cache {
    struct hr_cache_options options; /* dir is our copy */
    char *dir;
    uint64_t dev;  /* st_dev of a cache file */
    uint64_t seed; /* of hashes (keys come from outside) and of where folders lie */
    struct hr_object *by_key;
    struct hr_object *by_id;
    struct hr_segments segments;
    uint64_t face_count;
    struct hr_policy_list bare; /* faces without segments, to be given up when there are too many faces */
    struct hr_policy policy;
    struct hr_budget budget;
    struct hr_journal *journal;
    struct hr_residents_table *residents;
    struct hr_writers *writers;
    struct hr_writers *slow; /* one thread for syncfs, which may take seconds */
    struct hr_put *puts;     /* all that were begun and not yet freed */
    uint64_t put_count;
    uint64_t unlinks; /* of files given up, with the writers */
    uint64_t next_id;
    uint64_t id_end;        /* below it, ids are ours to give: persisted ahead */
    struct hr_object *held; /* handed.c: evicted, linked through next_victim */
    uint64_t held_bytes;
    struct hr_timer tick;
    unsigned ticks;
    struct hr_work sync;
    uint32_t sync_epoch;
    int sync_error;
    bool syncing;
    bool adopting;
    bool quiet; /* opening or closing: nobody is told */
    bool closing;
    atomic_bool remade; /* a writer found folders missing and made them again */
    uint64_t evictions, evicted_bytes, verify_failures, adopted;
};

/* What an object takes of the budget. */
static inline uint64_t hr_object_charge(const struct hr_object *object)
{
    return object->cached.kind == HR_CACHED_FACE ? 0 : hr_budget_charge(object->cached.size);
}

static inline mode_t hr_object_mode(const struct hr_object *object)
{
    return object->cached.kind == HR_CACHED_FACE ? 0200 : 0400;
}

static inline uint64_t hr_object_file_bytes(const struct hr_object *object)
{
    return object->cached.kind == HR_CACHED_FACE ? 0 : object->cached.size;
}

/* table.c: the two hash tables. Segments are in by_id alone: their face finds them. */
/* NULL (errno: ENOMEM, EINVAL) or a new object outside the tables; freed with free(). */
struct hr_object *hr_object_new(struct hr_cache *cache, enum hr_cached_kind kind,
                                const struct hr_source_id *source, const char *key, uint32_t key_len,
                                const char *etag, size_t etag_len);
int hr_table_add(struct hr_cache *cache, struct hr_object *object); /* 0 or -ENOMEM */
void hr_table_remove(struct hr_cache *cache, struct hr_object *object);
/* kind: WHOLE or FACE */
struct hr_object *hr_table_find(struct hr_cache *cache, enum hr_cached_kind kind,
                                const struct hr_source_id *source, const char *key, size_t key_len,
                                const char *etag, size_t etag_len);
struct hr_object *hr_table_by_id(struct hr_cache *cache, uint64_t file_id);
/* Of what it holds: the same when that comes again in this life. */
uint32_t hr_object_policy_id(const struct hr_object *object);

/* folders.c: paths and folders below cache_dir. Any thread. */
/* Makes the folder of hr_object_path: in the spool, and moved. ext4 puts a file near its folder, a folder
 * where the spool's seed sends it, and without a journal it looks past every inode that was freed there in
 * the last minutes (800 us a create where a cache of 4,000 files was removed before). 0 or -errno. */
int hr_shelf_make(const struct hr_cache *cache, uint64_t file_id);
/* Makes cache_dir's folders where they are missing and checks that they are ours. 0 or -errno; ret_what (may
 * be NULL) gets the name of the folder that failed. */
int hr_folders_make(const char *dir, const char **ret_what);
/* After an ENOENT below cache_dir: makes everything again, cache_dir too. 0 or -errno. */
int hr_folders_remake(struct hr_cache *cache);
/* st_dev of a file in the cache: made, looked at and removed. 0 or -errno. */
int hr_folders_probe(const char *dir, uint64_t *ret_dev);
/* Is this the finished file of the object? */
struct stat;
bool hr_object_matches(const struct hr_object *object, const struct stat *st, uint64_t dev);

/* ids.c: file ids that are never given twice. Persists the end of a new block. 0 or -errno. */
int hr_ids_open(struct hr_cache *cache, uint64_t highest_seen);
int hr_ids_take(struct hr_cache *cache, uint64_t *ret_id); /* larger than all before. 0 or -errno */
int hr_ids_persist(struct hr_cache *cache);

/* adopt.c: takes over what earlier lives left. 0 or -errno. */
int hr_cache_adopt(struct hr_cache *cache);

/* faces.c: what is special about faces and segments. */
struct hr_object *hr_face_by_id(struct hr_cache *cache, uint64_t face_id); /* NULL: not there, or no face */
/* While a face is held, by its segments and by puts of them, it is not given up for its age. */
void hr_face_hold(struct hr_object *face);
void hr_face_release(struct hr_cache *cache, uint64_t face_id);             /* it may have left meanwhile */
bool hr_same_version(const struct hr_cached *a, const struct hr_cached *b); /* source, key, ETag */
/* May a segment of this kind of range and version be put? 0, -EINVAL, -ESTALE. */
int hr_segment_check(struct hr_cache *cache, const struct hr_cached *segment, struct hr_object **ret_face);
/* Both: the object that stays (`object`, or one that was there and serves as well) in ret_stays. 0, -ENOMEM,
 * -ESTALE (segment: its face left). */
int hr_face_settle(struct hr_cache *cache, struct hr_object *object, struct hr_object **ret_stays);
int hr_segment_settle(struct hr_cache *cache, struct hr_object *object, struct hr_object **ret_stays);
/* Gives up bare faces, never `newest` (may be NULL), down to the limit. */
void hr_faces_trim(struct hr_cache *cache, const struct hr_object *newest);
/* The object leaves, with its segments when it is a face; the files are unlinked. */
void hr_cache_leave(struct hr_cache *cache, struct hr_object *object);

/* evict.c */
/* Admits a new object: tables, policy, residents, journal; its budget was settled by the caller. What it
 * replaces leaves. 0 (ret_stays: the object, or the one that was there and stays instead), -ENOMEM, -ESTALE;
 * an object that does not stay is the caller's again. */
int hr_cache_admit(struct hr_cache *cache, struct hr_object *object, struct hr_object **ret_stays);
/* Takes it out of everything and tells the owner; its file is the caller's (hr_cache_unlink_later). A face
 * has no segments any more. */
void hr_cache_take_out(struct hr_cache *cache, struct hr_object *object);
void hr_cache_unlink_later(struct hr_object *object); /* owns the object from here */
/* Between these a segment's file is not unlinked, though the segment may leave the cache. */
void hr_segment_pin(struct hr_object *segment);
void hr_segment_unpin(struct hr_object *segment);
/* Evicts until `bytes` are given up; the objects, linked through next_victim, go to ret_list. Bytes given up.
 */
uint64_t hr_cache_give_up(struct hr_cache *cache, uint64_t bytes, struct hr_object **ret_list);
void hr_cache_recheck(struct hr_cache *cache); /* after folders were missing: forget what is gone */

/* handed.c: what hr_cache_handed means for files that left. */
/* True: the file of an object that left the tables is kept for a moment, charged as before (it may push out
 * others that are kept so); it is unlinked by itself. */
bool hr_handed_hold(struct hr_object *object);
void hr_handed_tick(struct hr_cache *cache);    /* once a tick: those whose moment has passed */
bool hr_handed_give_up(struct hr_cache *cache); /* the one used least recently; false: there is none */
void hr_handed_end(struct hr_cache *cache);     /* all of them */

/* put.c: every put that is not finished is discarded, with its callbacks of memory; the others end. */
void hr_puts_close(struct hr_cache *cache);
/* A file that was given up has been unlinked: those that met a full disk try again. */
void hr_puts_go_on(struct hr_cache *cache);

#endif
