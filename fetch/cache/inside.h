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
#include "fetch/cache/chains.h"
#include "fetch/cache/journal.h"
#include "fetch/cache/policy.h"
#include "fetch/cache/record.h"
#include "fetch/cache/residents.h"
#include "fetch/cache/segments.h"
#include "fetch/cache/writers.h"

/* Longest cache_dir: what is below it ("/objects/XX/ID", "/residents-BOOT-GEN") fits in PATH_MAX. */
#define HR_CACHE_DIR_MAX (PATH_MAX - 64)

/* What the objects of one bucket share. */
struct hr_source {
    struct hr_source_id id;
    uint64_t salt;
    struct hr_cache *cache;
    struct hr_source *next;
    uint32_t dev;
};

/* There are millions: each byte counts. A face or a segment is the beginning of a larger one (below); behind
 * it lie the texts (identity.c). */
struct hr_object {
    struct hr_cached cached; /* source: the `id` of a struct hr_source */
    union {
        struct { /* in the tables */
            struct hr_chained by_id;
            struct hr_chained by_key;       /* not of a segment */
            struct hr_segment *recorded_in; /* the journal's; NULL: not recorded */
        };
        struct hr_work leaving;        /* after it left them: its file's unlink */
        struct hr_object *next_victim; /* before that */
    };
    struct hr_policy_node policy; /* its id is by_key's hash, too: set from the start */
    uint64_t ino;
    int64_t written_s : 34;     /* seconds of the file's mtime (to the year 2242)... */
    uint64_t nonce : 30;        /* ...and nanoseconds */
    uint16_t handed_tick;       /* of the cache, when its number was told to a program last; 0: never */
    uint16_t handed_count : 14; /* told since then, and no open noted yet */
    uint16_t guess : 1;         /* nobody asked for it */
    uint16_t seen : 1;          /* adoption: its file is there and right */
    uint32_t epoch : 31;        /* hr_journal: when its record was made */
    uint32_t other_boot : 1;    /* adoption: recorded before the kernel started */
};

struct hr_object_face {
    struct hr_object object;
    struct hr_object *segments; /* those in the index, any order */
    uint32_t holds;             /* segments here and on their way in; 0: it is among cache->bare */
};

struct hr_object_segment {
    struct hr_object object;
    uint64_t face_id;
    uint64_t offset;
    struct hr_object *previous; /* of its face's */
    struct hr_object *next;
    uint32_t copies; /* parts of puts that are still to be copied from its file */
    bool left;       /* unlinked when the last of them is done */
};

struct hr_cache {
    struct hr_cache_options options; /* dir is our copy */
    char *dir;
    uint64_t dev;              /* st_dev of a cache file */
    uint64_t seed;             /* of hashes (keys come from outside) and of where folders lie */
    struct hr_source *sources; /* as many as buckets were ever used here */
    struct hr_chains by_key;
    struct hr_chains by_id;
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

static inline struct hr_source *hr_object_source(const struct hr_object *object)
{
    return (struct hr_source *)((char *)object->cached.source - offsetof(struct hr_source, id));
}

static inline struct hr_cache *hr_object_cache(const struct hr_object *object)
{
    return hr_object_source(object)->cache;
}

static inline struct hr_object_face *hr_object_face(const struct hr_object *object) /* it is one */
{
    return (struct hr_object_face *)object;
}

static inline struct hr_object_segment *hr_object_segment(const struct hr_object *object) /* it is one */
{
    return (struct hr_object_segment *)object;
}

/* identity.c: what an object is, and how it lies in memory. */
struct hr_identity {
    enum hr_cached_kind kind;
    const struct hr_source_id *source;
    const char *key;
    uint32_t key_len;
    const char *etag;
    size_t etag_len;
};
/* What else does not change; face_id, offset: of a segment. */
struct hr_object_facts {
    uint64_t size;
    int64_t mtime_ns;
    uint64_t salt;
    uint32_t dev;
    uint64_t face_id, offset;
};
/* NULL (errno: ENOMEM, EINVAL) or a new object outside the tables; freed with free(). */
struct hr_object *hr_object_new(struct hr_cache *cache, const struct hr_identity *identity,
                                const struct hr_object_facts *facts);
struct hr_identity hr_object_identity(const struct hr_object *object);
bool hr_identity_good(const struct hr_identity *identity); /* lengths, and no NUL in a text */
bool hr_is_version(const struct hr_object *object, const struct hr_identity *identity); /* but for its kind */
/* Seeded, so that nobody who names objects chooses the collisions; the same as long as the cache is open. */
uint32_t hr_identity_hash(const struct hr_cache *cache, const struct hr_identity *identity);
void hr_sources_release(struct hr_cache *cache);

/* table.c: the two hash tables. Segments are in by_id alone: their face finds them. */
int hr_tables_init(struct hr_cache *cache); /* 0 or -ENOMEM */
void hr_table_add(struct hr_cache *cache, struct hr_object *object);
void hr_table_remove(struct hr_cache *cache, struct hr_object *object);
/* kind: WHOLE or FACE */
struct hr_object *hr_table_find(struct hr_cache *cache, const struct hr_identity *identity);
struct hr_object *hr_table_by_id(struct hr_cache *cache, uint64_t file_id);
/* Of what the tables' chains link. */
static inline struct hr_object *hr_object_of_id(const struct hr_chained *link)
{
    return (struct hr_object *)((char *)link - offsetof(struct hr_object, by_id));
}

static inline struct hr_object *hr_object_of_key(const struct hr_chained *link)
{
    return (struct hr_object *)((char *)link - offsetof(struct hr_object, by_key));
}

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
void hr_face_release(struct hr_cache *cache, uint64_t face_id); /* it may have left meanwhile */
/* May a segment of this kind of range and version be put? 0, -EINVAL, -ESTALE. */
int hr_segment_check(struct hr_cache *cache, const struct hr_object *segment, struct hr_object **ret_face);
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
