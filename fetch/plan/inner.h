/* What the files of the plan share. Everything here belongs to the main loop's thread. */
#ifndef HR_PLAN_INNER_H
#define HR_PLAN_INNER_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <string.h>

#include "fetch/base/log.h"
#include "fetch/list/filter.h"
#include "fetch/list/lister.h"
#include "fetch/list/sealer.h"
#include "fetch/plan/brought.h"
#include "fetch/plan/early.h"
#include "fetch/plan/pace.h"
#include "fetch/plan/plan.h"

/* One range of a large object: a cell, so that segments spare requests. */
#define HR_PART_BYTES HR_CELL_BYTES
#define HR_PAGE_BYTES 4096u /* segments begin and end on pages (cache.h) */
#define HR_UNKNOWN_BYTES UINT64_MAX

struct hr_plan_tree;
struct hr_opened;
struct hr_overlay; /* names.h */

/* Askers that wait for one thing. */
struct hr_waiter {
    struct hr_asker asker;
    struct hr_waiter *next;
};

/* Bits of hr_plan_tree.marks: brought unasked and not opened since; ever opened; a loader said that it will
 * open it; of those brought unasked, by nobody's word (hr_plan_tree.guessed_bytes); asked for and not yet
 * noted as opened. The upper three are opened.c's. */
enum {
    HR_ENTRY_SWEPT = 1,
    HR_ENTRY_USED = 2,
    HR_ENTRY_ANNOUNCED = 4,
    HR_ENTRY_GUESSED = 8,
    HR_ENTRY_AWAITED = 16
};

/* Of one kind of work: how often it ended, and how the last time. */
struct hr_ended {
    uint64_t count;
    int error;
    char message[HR_MESSAGE_MAX];
};

struct hr_plan_tree {
    struct hr_plan *plan;
    uint32_t number;
    struct hr_tree *shared; /* in control */
    uint64_t id;
    struct hr_source_id source; /* endpoint+bucket: whose cache objects they are */
    struct hr_source_id asking; /* endpoint+bucket+identity: who shares one request */
    struct hr_store *store;
    struct hr_tree_settings settings; /* without its texts */
    struct hr_filter *filter;         /* NULL: every name is there */
    /* The published generation. */
    struct hr_index index; /* index.names NULL: none */
    struct hr_states *states;
    struct hr_uses *uses;
    uint32_t uses_seen; /* head of the ring as far as it was read */
    uint8_t *marks;     /* one an entry */
    uint32_t next_gen;
    /* Listing. */
    struct hr_lister *lister; /* until what it brought is published */
    struct hr_sealer *sealer; /* what the lister brought; it listens no more then */
    struct hr_waiter *list_waiters;
    char *list_file;              /* list=FILE: where the names come from; NULL: from listings */
    uint64_t list_file_bytes;     /* as it was read last; 0: not in this life of the daemon */
    struct hr_adopting *adopting; /* names on their way out of a file */
    struct hr_ended list_end;     /* listings, and readings of list_file */
    struct hr_ended import_end;
    bool list_again;                  /* once more when it has ended */
    uint64_t read_outside, read_gone; /* rows that the last reading of a file left out */
    char filter_id[33];               /* of include and exclude; "": none */
    int list_error;                   /* last one failed with this... */
    int64_t list_error_until_ms;      /* ...and is not tried again before */
    bool list_long;                   /* its first page was not its last one */
    bool list_plain;                  /* the store cannot be listed by many lanes */
    char list_note[80];               /* why, or why not this time: said once */
    uint64_t list_beside;             /* LISTs of single directories since it began */
    bool listed;                      /* a LIST has succeeded since the job's credentials came */
    int64_t unlisted_until_ms;        /* LIST is not allowed to us: as list=none until then */
    bool unlisted_said;               /* why directories cannot be read */
    bool empty_said;                  /* that it names nothing */
    struct hr_known_dir *dirs;        /* known_dirs.c: hash of directories that were read */
    struct hr_dir_read *dir_reads;
    /* Before an index: */
    struct hr_overlay *overlay;
    struct hr_look *looks; /* LISTs for single names under way */
    uint32_t distinct_names;
    /* Refusals in a row; before any success they mean that the store does not want us at all. */
    unsigned denied;
    bool md5_is_etag; /* the last answer with an ETag that may be an MD5 said so */
    bool welcome;     /* a GET has succeeded since the job's credentials came */
    int64_t denied_until_ms;
    int64_t message_ms;
    int message_error;
    /* Sweep. */
    uint64_t opens;
    uint64_t demanded_bytes;
    uint64_t swept_bytes, swept_used_bytes;
    uint64_t guessed_bytes; /* of swept_bytes that nobody opened: what the sweep brought */
    uint32_t sweep_first;   /* entry; what lies before it comes last */
    uint32_t sweep_cursor;  /* entries behind it that were looked at */
    bool shuffled;          /* opened in no order of the listing's */
    bool sweep_done;
    bool sweep_rests; /* no job has the tree: until somebody waits for an object of it */
    /* Look-ahead. */
    struct hr_recheck *recheck; /* of this generation's file, while it runs */
    struct hr_ranks *ranks;     /* of this generation; NULL until an announcement needs them */
    uint64_t announced_used;
    uint32_t tails_missed;    /* large objects whose end was asked for before it was there... */
    uint64_t tail_bytes;      /* ...and the longest of those ends */
    struct hr_opened *opened; /* opened.c; NULL until something is */
    uint64_t noted;           /* opens that clients noted */
    int64_t sweep_after_ms;   /* a sweep's fetch failed: not before */
};

enum hr_want_state { HR_WANT_QUEUED, HR_WANT_FETCHING, HR_WANT_WRITING };

enum hr_want_kind {
    HR_WANT_OBJECT,  /* what a name stands for, as one file */
    HR_WANT_FIRST,   /* was OBJECT, of unknown size: it is large and waits for its face; what came, or comes,
                        becomes the face's first segment */
    HR_WANT_SEGMENT, /* a range of a face's object */
    HR_WANT_WHOLE    /* a face's object as one file, from its segments and what they lack */
};

/* One thing to be fetched: the same for everybody who asks for it. */
struct hr_want {
    UT_hash_handle hh; /* in hr_plan.wants by id: tree->asking, then the key; of SEGMENT and WHOLE: the face,
                          the cell */
    struct hr_want *cell_next; /* SEGMENT: more of the same cell, which share the place in the table */
    struct hr_lane *lane;
    struct hr_want *prev, *next; /* in its lane's queue while QUEUED */
    unsigned ahead; /* WINDOW: so many cells from its reader, when that asked last; UINT_MAX: not told */
    struct hr_want *placed_prev, *placed_next;
    bool placed; /* in hr_plan.placed */
    struct hr_plan *plan;
    struct hr_plan_tree *tree; /* whose store fetches it */
    enum hr_want_kind kind;
    enum hr_reason reason;
    enum hr_want_state state;
    int64_t asked_us; /* when the first program began to wait; 0: nobody does */
    struct hr_waiter *waiters;
    /* What is known of it; size HR_UNKNOWN_BYTES and etag "" when no index names it. */
    uint64_t size; /* of what is fetched: of SEGMENT the range's */
    uint64_t face_id;
    uint64_t first;        /* SEGMENT: where the range begins in the object */
    uint64_t object_bytes; /* SEGMENT, FIRST */
    int64_t mtime_ns;
    char etag[136];
    uint64_t memory_bytes; /* reserved for bodies not yet written */
    /* Under way. */
    struct hr_put *put;
    struct hr_verify verify;
    uint64_t next_offset; /* first byte not yet asked for */
    uint64_t part_bytes;  /* of one request; 0: as much as any may have */
    unsigned calls;       /* in flight, copies among them */
    unsigned copies;      /* parts that the cache takes out of segments */
    bool learned;         /* an answer told size, version and proofs */
    bool answered;        /* one did in an earlier try: room is taken before it is asked for again */
    bool copied;          /* WHOLE: some parts come from segments */
    bool denied;          /* error: these credentials may not read it, or it is missing (store.h) */
    bool md5_doubted;     /* equal bytes twice, with a CRC beside the MD5: this try goes by the CRC */
    int error;            /* first failure: no more parts are asked for */
    char message[HR_MESSAGE_MAX];
    char mismatch_md5[33]; /* body of the try before, when it did not match */
    unsigned tries;        /* fetches that did not bring the object that was expected */
    struct hr_hindrance hindrance;
    struct hr_buf body;         /* FIRST: what came, until the face is there */
    struct hr_call *first_call; /* FIRST: or what brings it */
    const char *key;            /* full, behind id */
    uint32_t key_len;
    unsigned id_len; /* bytes of id */
    char id[];
};

struct hr_md5_off { /* a bucket whose ETags are no MD5 after all */
    UT_hash_handle hh;
    struct hr_source_id source;
};

struct hr_part {                 /* one request of a want */
    struct hr_part *prev, *next; /* hr_plan.parts */
    struct hr_call *call;
    struct hr_plan *plan;
    struct hr_want *want;  /* NULL: nobody's any more */
    struct hr_want *rider; /* gets what comes behind want's bytes; or NULL */
    uint64_t reserved_bytes;
};

struct hr_lane { /* of one endpoint */
    struct hr_lane *prev, *next;
    const struct hr_width *width; /* what tells it from others, as well */
    struct hr_want *queue[HR_REASON_COUNT];
    struct hr_want
        *first_last; /* of the look-ahead queue: what goes first ends with it; NULL: nothing does */
};

struct hr_making; /* a face on its way */
struct hr_known_dir;
struct hr_dir_read;
struct hr_readers;
struct hr_shards;
struct hr_warm;
struct hr_recording;
struct hr_replay;

struct hr_plan {
    struct hr_plan_options options;
    char *cache_dir;
    char *index_dir; /* cache_dir/index */
    struct hr_cache *cache;
    struct hr_plan_tree *trees[HR_TREES_MAX];
    uint32_t tree_count;
    uint32_t sweep_turn;
    struct hr_want *wants;  /* hash */
    struct hr_lane *lanes;  /* list; whose turn it is comes first */
    struct hr_want *placed; /* queued wants that have their place in the cache */
    struct hr_part *parts;  /* requests in flight */
    struct hr_md5_off *md5_off;
    struct hr_guide *guides; /* hash: what each job's loaders announced */
    struct hr_early early;   /* opens whose batches may be announced yet */
    struct hr_pace pace;
    struct hr_heads *heads;            /* heads.c; NULL until a large object is announced */
    struct hr_epoch_left *epochs_left; /* victims.c: what known orders still need */
    struct hr_epoch_next *epochs_next; /* victims.c: the predicted ones after them */
    struct hr_knowns *knowns;  /* epochs whose order is known, and the search; NULL until a loader needs it */
    struct hr_making *makings; /* hash */
    struct hr_readers *readers;
    struct hr_shards *shards; /* shards.c; NULL until a large object is read */
    struct hr_recording *recordings;
    struct hr_replay *replays;
    struct { /* warm.h */
        struct hr_warm *list;
        uint32_t last_id;
        struct hr_timer timer;
    } warms;
    struct hr_brought brought; /* unasked, not used yet */
    struct {                   /* known_dirs.c: names of directories that are kept */
        struct hr_known_dir *list;
        uint32_t count, last_number;
        uint64_t bytes;
    } dirs;
    struct hr_plan_stats stats;
    uint64_t ahead_room_bytes;   /* for what is announced beside a kept set (sweep.c) */
    bool ahead_due;              /* something was used or has left: there may be room for more */
    bool advancing;              /* what was announced is being asked for */
    struct hr_timer ahead_timer; /* armed while what is announced waits for room */
    unsigned ahead_idle;         /* looks in a row that found nothing opened */
    uint64_t hits_seen;          /* stats.hits at the last heartbeat */
    void (*changed)(void *owner, uint32_t tree, uint32_t entry); /* hr_plan_on_change */
    void *changed_owner;
    struct hr_hindrance told; /* of the want whose news is being told; else empty */
    bool pumping, ending;
};

/* tree.c */
/* How a request by the tree's credentials ended: a store that refuses everything is left alone. */
void hr_tree_judge(struct hr_plan_tree *tree, int error);
struct hr_plan_tree *hr_tree_get(struct hr_plan *plan, uint32_t number);
static inline bool hr_tree_has_source(const struct hr_plan_tree *tree, const struct hr_source_id *source)
{
    return memcmp(&tree->source, source, sizeof(*source)) == 0;
}
/* A whole object or a face is in the cache; the whole wins. True: the tree's index names this version. */
bool hr_tree_resident(struct hr_plan_tree *tree, const struct hr_cached *cached);
void hr_tree_gone(struct hr_plan_tree *tree, const struct hr_cached *cached);
/* etag: of the version that failed, "" when not known; an entry that names another one is left alone. */
void hr_tree_failed(struct hr_plan_tree *tree, const char *key, uint32_t key_len, const char *etag,
                    int error);
void hr_tree_fail_entry(struct hr_plan_tree *tree, uint32_t entry, int error);
/* What the index says of it (but its name) does not hold: programs ask by path from now on, until a listing
 * is published. */
void hr_tree_doubt(struct hr_plan_tree *tree, uint32_t entry);
bool hr_tree_doubted(const struct hr_plan_tree *tree, uint32_t entry);
/* A path that no index tells about: there is none, or its entry is doubted. */
bool hr_tree_unlisted(const struct hr_plan_tree *tree, const char *path, uint32_t path_len);
/* The file that the word promises is not there and the cache knows nothing of it. */
void hr_tree_forget(struct hr_plan_tree *tree, uint32_t entry, uint64_t file_id);
bool hr_tree_entry_of(struct hr_plan_tree *tree, const char *key, uint32_t key_len, uint32_t *ret_entry);
/* A program uses a file of the cache. */
void hr_tree_file_used(struct hr_plan *plan, uint64_t file_id);
/* The full key of a path. Its length. */
uint32_t hr_tree_key(const struct hr_plan_tree *tree, const char *path, uint32_t path_len,
                     char key[2 * HR_KEY_MAX]);
bool hr_tree_denied(const struct hr_plan_tree *tree);
void hr_tree_say(struct hr_plan_tree *tree, int error, const char *message);
void hr_tree_free(struct hr_plan_tree *tree);
void hr_tree_drain_uses(struct hr_plan_tree *tree);
void hr_tree_drain_all(struct hr_plan *plan); /* what clients noted, of all trees */

/* answers.c */
void hr_answer_error(const struct hr_asker *asker, int error);
struct hr_asker hr_asker_nobody(void); /* is told and does not mind: where NULL would say that nobody waits */
void hr_waiters_add(struct hr_waiter **list, const struct hr_asker *asker);
void hr_waiters_answer(struct hr_waiter **list, const struct hr_answer *answer);

/* opens.c */
/* open() of a name, listed or not, for askers that hold no mapping of the index. */
void hr_open_ask(struct hr_plan_tree *tree, const char *path, uint32_t path_len,
                 const struct hr_asker *asker);
/* Is the file of a cached object what it should be? A client that finds none, or a foreign one, asks again.
 */
bool hr_open_file_is_there(const struct hr_plan *plan, const struct hr_cached *cached);

/* faces.c */
/* Does a face stand for an object of this size and ETag? */
bool hr_face_fits(const struct hr_plan *plan, uint64_t size, const char *etag);
/* What stands for a large object is found, or made, and put into the states of all trees. asker (may be NULL)
 * is answered, maybe at once. True: it had to be made. */
bool hr_face_want(struct hr_plan_tree *tree, const char *key, uint32_t key_len, const char *etag,
                  uint64_t size, int64_t mtime_ns, const struct hr_asker *asker);
/* True: it is being made, asker will be answered. */
bool hr_face_join(struct hr_plan_tree *tree, const char *key, uint32_t key_len, const char *etag,
                  const struct hr_asker *asker);
void hr_faces_free(struct hr_plan *plan);

/* window.c: how each thread reads each large object. */
struct hr_pattern {
    bool cells;           /* it reads on: whole cells */
    bool to_end;          /* it has read all of the object so far: it will end it */
    bool begins;          /* at the start, to read on: nothing of it is there as a rule */
    bool exact;           /* it said that it reads here and there: nothing but what it asks for */
    uint64_t piece_bytes; /* else at least so much from the offset on */
    uint64_t run_bytes; /* or so much, in whichever cells it lies: as its last runs (runs.h); 0: not known */
    unsigned ahead_cells; /* behind the one that is asked for */
};
void hr_window_note(struct hr_plan *plan, const struct hr_reader *reader, const struct hr_segment_ask *ask,
                    struct hr_pattern *ret);
/* What was asked for last is in a file that ends at `end`: that is where a reader goes on. */
void hr_window_served(struct hr_plan *plan, const struct hr_reader *reader, uint64_t face_id, uint64_t end);
/* SEQUENTIAL, RANDOM or NORMAL: of all threads of that process. */
void hr_window_advise(struct hr_plan *plan, const struct hr_reader *reader, uint64_t face_id);
/* Does another thread, of any process, read the object these days? */
bool hr_window_shared(const struct hr_plan *plan, const struct hr_reader *reader, uint64_t face_id);
/* Cells that may be brought unasked for one reader among those that read now. */
unsigned hr_window_bound(const struct hr_plan *plan);
void hr_windows_free(struct hr_plan *plan);

/* lanes.c: queued wants. */
struct hr_lane *hr_lane_of(struct hr_plan *plan, const struct hr_store *store); /* NULL on ENOMEM */
void hr_lanes_free(struct hr_plan *plan);
void hr_lane_append(struct hr_want *want);
void hr_lane_prepend(struct hr_want *want);
void hr_lane_remove(struct hr_want *want);
/* One that is queued by look-ahead goes behind those that were hurried before it, and before all others. */
void hr_lane_hurry(struct hr_want *want);
/* One of a window, so many cells from its reader: what is nearer goes first, of whatever reader. NULL, or of
 * another reason: nothing. */
void hr_lane_near(struct hr_want *want, unsigned ahead);
void hr_lane_placed(struct hr_want *want); /* it has got its place in the cache */
/* The want whose request may start now, or NULL. */
struct hr_want *hr_lane_next(struct hr_plan *plan);
/* The same among those that have their place in the cache: when everybody else waits for room, they must get
 * on, or the room which they hold is never given back. */
struct hr_want *hr_lane_next_placed(struct hr_plan *plan);

/* wants.c */
/* size HR_UNKNOWN_BYTES when not known. The want may be an older one; NULL on ENOMEM. */
struct hr_want *hr_want_add(struct hr_plan_tree *tree, const char *path, uint32_t path_len,
                            enum hr_reason reason, uint64_t size, int64_t mtime_ns, const char *etag);
struct hr_want *hr_want_find(struct hr_plan_tree *tree, const char *path, uint32_t path_len);
/* SEGMENT: a range in one cell. WHOLE: all of it. The same want for who asks for the same range; NULL on
 * ENOMEM. */
struct hr_want *hr_want_add_range(struct hr_plan_tree *tree, const struct hr_cached *face,
                                  enum hr_want_kind kind, enum hr_reason reason, uint64_t first,
                                  uint64_t bytes);
/* The wants of a cell, linked by cell_next; offset UINT64_MAX: the one of the whole object. */
struct hr_want *hr_want_cell(struct hr_plan_tree *tree, uint64_t face_id, uint64_t offset);
/* To the end of a more urgent queue; less urgent changes nothing. */
void hr_want_promote(struct hr_want *want, enum hr_reason reason);
void hr_want_requeue(struct hr_want *want); /* at the head */
void hr_want_leave_queue(struct hr_want *want);
void hr_want_end(struct hr_want *want);  /* out of every list, freed */
void hr_plan_pump(struct hr_plan *plan); /* starts what may start */

/* fetching.c */
/* Asks for the next part of a want. 0; -EAGAIN: the cache has no room until others have arrived, the want
 * stays in its queue; other -errno: it has failed, or will when its calls are back. */
int hr_fetch_next(struct hr_want *want);
bool hr_fetch_all_asked(const struct hr_want *want);
uint64_t hr_fetch_cost(const struct hr_plan *plan,
                       const struct hr_want *want); /* memory the next part needs */
void hr_fetch_again(struct hr_want *want);          /* from the start, before others */
int hr_fetch_begin_put(struct hr_want *want);
/* The bytes are the cache's; -errno: they are still the caller's. Memory is accounted for. */
int hr_fetch_keep(struct hr_want *want, uint64_t offset, struct hr_buf *body);
void hr_fetch_memory(struct hr_plan *plan, int64_t bytes);
/* first_call's bytes are the range's from now on, which was queued; or nobody's. */
void hr_fetch_hand_over(struct hr_want *want, struct hr_want *range);
void hr_fetch_abandon(struct hr_want *want);

/* outcome.c */
/* hr_put_options.done; owner is the want. */
void hr_outcome_put_done(void *owner, struct hr_put *put, int error, const struct hr_cached *cached);
/* All calls are back, and want->error says what went wrong. */
void hr_outcome_failed(struct hr_want *want);
/* Tells everybody who waits that it failed, and ends the want. */
void hr_outcome_fail(struct hr_want *want, int error, const char *message);
void hr_outcome_no_room(struct hr_want *want, int error);
/* The first range of an unlisted object came, or comes by first_call: it is large, size, ETag and time are
 * known. Takes the body; NULL: none is there yet. */
void hr_outcome_first(struct hr_want *want, struct hr_buf *body);

/* opened.c: orders of what is opened without having been announced. */
/* A program has opened it; it waits for it. */
void hr_opened_note(struct hr_plan_tree *tree, uint32_t entry);
void hr_opened_asked(struct hr_plan_tree *tree, uint32_t entry);
void hr_opened_free(struct hr_plan_tree *tree);

/* lookahead.c */
/* Do announcements say what is opened there? */
bool hr_lookahead_guides(const struct hr_plan_tree *tree);
/* An entry was opened, by nobody knows which job, for the batch of that tag (0: for none). */
void hr_lookahead_used(struct hr_plan_tree *tree, uint32_t entry, uint32_t tag);
/* Asks for what was announced, as far as there is room. */
void hr_lookahead_advance(struct hr_plan *plan);
void hr_lookahead_stats(const struct hr_plan *plan, struct hr_plan_stats *stats); /* of now */
void hr_lookahead_free(struct hr_plan *plan);

/* heads.c: of large objects. */
/* A loader announced it: its beginning is brought. False: there is no room until something is opened. */
bool hr_head_ahead(struct hr_plan_tree *tree, uint32_t entry);
/* Some of it is read. in_time: what is read was there or on its way. */
void hr_head_read(struct hr_plan *plan, uint64_t face_id, bool in_time);
/* A program asked for the end of one and had to wait. */
void hr_tail_missed(struct hr_plan_tree *tree, uint64_t bytes);
void hr_heads_free(struct hr_plan *plan);

/* proof.c */
/* The first answer of a try: fills the want's size, version and proofs, or finds another object than the one
 * that was expected. 0, -ESTALE, -EBADMSG (another size, of the same ETag), -EIO (its size cannot be told).
 */
int hr_proof_learn(struct hr_want *want, const struct hr_call *call);
/* No answer told anything, as all of it was in the cache: what the bucket's other answers prove. */
void hr_proof_assume(struct hr_want *want);
int hr_proof_same(const struct hr_want *want, const struct hr_call *call); /* a later part: 0 or -ESTALE */
void hr_proof_md5_off(struct hr_plan_tree *tree); /* of its bucket, with one warning */

/* sweep.c */
/* Is it in the cache? Then it stays there until it is used. */
bool hr_sweep_keep(struct hr_plan_tree *tree, uint32_t entry);
/* A program waits for an entry that was announced. */
void hr_sweep_late(struct hr_plan_tree *tree, uint32_t entry);
/* Nobody comes for it after all: it is as any other, its request is not sent if it was not yet. */
void hr_sweep_abandon(struct hr_plan_tree *tree, uint32_t entry);
/* It is needed soon, for a reason that looks ahead: keeps it or brings it. False: the bounds leave no room.
 */
bool hr_sweep_ahead(struct hr_plan_tree *tree, uint32_t entry, enum hr_reason reason);
/* The next want of a sweep that may run now, or NULL. */
struct hr_want *hr_sweep_next(struct hr_plan *plan);
void hr_sweep_used(struct hr_plan_tree *tree, uint32_t entry);
/* What is opened lies between two entries in no order of the listing's. */
void hr_sweep_shuffled(struct hr_plan_tree *tree, uint32_t lowest, uint32_t highest);
/* Looks soon at what was opened: there may be room for more, or more to go by. */
void hr_sweep_await_room(struct hr_plan *plan);
void hr_sweep_end(struct hr_plan *plan); /* before the plan goes */
/* It was opened, has failed or is gone: no longer ahead of anybody. */
void hr_sweep_unmark(struct hr_plan_tree *tree, uint32_t entry);
/* A want that nobody waited for did not arrive. */
void hr_sweep_failed(struct hr_want *want, int error);

#endif
