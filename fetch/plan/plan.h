/* The plan: the only place that decides what is fetched and when. Owned by the daemon's main loop thread.
 *
 * Trees (what one identity sees under one prefix) come from contexts; requests come from slots or the socket;
 * every fetch is a want in one queue, demand first, then the sweep; results go to state words and answers. */
#ifndef HR_PLAN_PLAN_H
#define HR_PLAN_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "fetch/base/hist.h"
#include "fetch/cache/cache.h"
#include "fetch/net/loop.h"
#include "fetch/store/store.h"
#include "interpose/abi.h"

struct hr_plan;

struct hr_plan_options {
    struct hr_loop *loop;
    struct hr_control *control; /* mapped read-write; the plan writes trees and answers */
    const char *cache_dir;      /* index/ is made in it */
    uint64_t boot;
    int64_t born_ns;          /* the time of directories of which no listing tells; 0: now */
    unsigned connections;     /* requests in flight at most */
    unsigned list_lanes;      /* pages of one listing in flight at most */
    uint64_t memory_bytes;    /* bodies on their way from the network to the cache */
    bool lookahead;           /* act on what loaders announce */
    unsigned first_batch_ms;  /* so long what nobody told of makes way for a loader's first batch; 0: never */
    unsigned cores;           /* for programs and us */
    unsigned order_search;    /* enum hr_order_mode (order_thread.h) */
    bool order_idle;          /* idle cores search for what is less likely, too */
    uint64_t small_max_bytes; /* larger objects are faces, read by ranges */
};

int hr_plan_new(const struct hr_plan_options *options, struct hr_plan **ret);
/* The cache is opened after the plan, because its callback needs one. */
void hr_plan_set_cache(struct hr_plan *plan, struct hr_cache *cache);
/* hr_cache_options.evicted; owner is the plan. */
void hr_plan_evicted(void *plan, const struct hr_cached *cached);
/* hr_cache_options.needed_later: by known orders. */
const struct hr_cached *hr_plan_needed_later(void *plan, const struct hr_cached *victim);
/* hr_cache_options.residents_grown: clients find the new table by the control file. */
void hr_plan_residents_grown(void *plan, uint32_t gen);
/* Nothing new is started or asked for. Then the transport ends (every call comes back), then the plan is
 * freed: whoever still waits gets -ECANCELED. */
void hr_plan_stop(struct hr_plan *plan);
void hr_plan_free(struct hr_plan *plan); /* accepts NULL */

/* list=: the whole prefix when it pays, or at once; directories as they are read; never a LIST. */
enum hr_list_mode { HR_LIST_AUTO, HR_LIST_ALL, HR_LIST_DIRS, HR_LIST_NONE };

/* Per-map settings that the plan acts on. */
struct hr_tree_settings {
    bool prefetch;
    enum hr_list_mode list;
    bool follow;           /* changed=follow */
    const char *list_file; /* list=FILE, NULL: none; used during the call. Another file is another tree */
    const char *include, *exclude; /* fetch/list/filter.h, checked; used during the call. Another filter is
                                      another tree */
    int64_t revalidate_s;          /* HR_SECONDS_FOREVER, HR_SECONDS_START, or an age */
};

/* The tree of store's endpoint+bucket+identity and prefix: found or made (then the plan keeps a reference to
 * store). Settings of the newest job win. 0, -ENOSPC (HR_TREES_MAX), -ENOMEM. */
int hr_plan_tree(struct hr_plan *plan, struct hr_store *store, const char *prefix, uint32_t prefix_len,
                 const struct hr_tree_settings *settings, uint32_t *ret_number);
/* The store a tree fetches with, to hand it fresher credentials. */
struct hr_store *hr_plan_tree_store(struct hr_plan *plan, uint32_t number);
/* Its length; 0 for a tree that is none. */
uint32_t hr_plan_tree_prefix(struct hr_plan *plan, uint32_t number, const char **ret_prefix);

/* Who asked: fn is called once, on the loop, maybe from inside hr_plan_ask. */
struct hr_asker {
    void (*fn)(void *owner, uint32_t ticket, const struct hr_answer *answer);
    void *owner;
    uint32_t ticket;
};
/* op: LOOK, OPEN, LIST, DIR. path relative to the tree's root, checked here (no NUL, no empty, "." or ".."
 * part). OPEN of a large object is answered with its face (HR_ANSWER_FACE). */
void hr_plan_ask(struct hr_plan *plan, enum hr_op op, uint32_t tree, const char *path, uint32_t path_len,
                 const struct hr_asker *asker);
/* FETCH: nobody is answered, the entry's state word is. Stale generations and wild numbers are dropped. */
/* True: it is on its way, and the word will change. */
bool hr_plan_fetch(struct hr_plan *plan, uint32_t tree, uint32_t gen, uint32_t entry);
/* A program of job `context` asked for an entry that was not there (before hr_plan_fetch): what look-ahead
 * learns from. */
void hr_lookahead_opened(struct hr_plan *plan, uint32_t context, uint32_t tree, uint32_t gen, uint32_t entry);

/* Who reads a large object. */
struct hr_reader {
    uint32_t context; /* whose trees are looked at first; UINT32_MAX: nobody's */
    uint32_t tree;    /* looked at before those; UINT32_MAX: none */
    uint32_t pid, tid;
    enum hr_hint hint; /* it does not read now, it only says what it will do */
};
/* SEGMENT, and WHOLE when `whole`: a file that holds ask->offset of a face's object. Everything is checked.
 * Reading on brings the cells behind as well. */
void hr_plan_segment(struct hr_plan *plan, const struct hr_reader *reader, const struct hr_segment_ask *ask,
                     bool whole, const struct hr_asker *asker);

/* Part of a batch of dataset indices that a loader of job `context` sent to a worker. A hint: everything is
 * checked. */
struct hr_announcement {
    uint32_t context;
    uint64_t stream; /* the worker's queue */
    uint32_t batch;  /* counts from 0 in each epoch */
    uint32_t part, parts;
    const uint32_t *indices;
    uint32_t count;
};
void hr_plan_announce(struct hr_plan *plan, const struct hr_announcement *part);
/* No process of the job lives: what its loaders announced is not opened any more. What was learned stays, for
 * its next run. */
void hr_plan_job_ended(struct hr_plan *plan, uint32_t context);
/* No job has the tree any more: nothing is swept until a program waits for an object of it. */
void hr_plan_tree_left(struct hr_plan *plan, uint32_t tree);

/* An asker that stores into the control's ring and wakes. */
struct hr_asker hr_plan_ring_asker(struct hr_plan *plan, uint32_t ticket);

/* Names of the published index of a tree ("" when none), for the command. */
int hr_plan_index_path(struct hr_plan *plan, uint32_t tree, char *ret_path, size_t room);

/* ETag of a name in the index or among those looked at; "" when not known. */
void hr_plan_etag(struct hr_plan *plan, uint32_t tree, const char *path, uint32_t path_len, char *ret_etag,
                  size_t room);

/* What went wrong last in a tree, when it went wrong with this error; else NULL. Valid until the next call.
 */
const char *hr_plan_message(struct hr_plan *plan, uint32_t tree, int error);

/* hr_stores_on_room: something may start. */
void hr_plan_room(void *plan);
/* hr_stores_on_trouble: whoever waits for this store is told why. */
void hr_plan_trouble(void *plan, const struct hr_store *store, const char *message, int64_t left_ms);
/* Every heartbeat: reads what clients noted, moves the sweep, lets go of what is old. Returns true when
 * clients did something since the last call. */
bool hr_plan_tick(struct hr_plan *plan);

/* What kept a program waiting longer than one request does. */
struct hr_hindrance {
    bool foreseen; /* it was asked for ahead of the program, and came late */
    bool retried, throttled;
    bool no_room; /* the cache had no room for it at first */
};
/* changed(owner, tree, entry): an entry's state word has changed. One; before anything is fetched. */
void hr_plan_on_change(struct hr_plan *plan, void (*changed)(void *owner, uint32_t tree, uint32_t entry),
                       void *owner);
/* Inside an answer or a change: of the fetch that it is news of. */
struct hr_hindrance hr_plan_told(const struct hr_plan *plan);

/* Reads what clients noted, between heartbeats: before figures are taken. */
void hr_plan_drain(struct hr_plan *plan);

/* In order of urgency. */
enum hr_reason {
    HR_REASON_DEMAND,
    HR_REASON_LOOKAHEAD,
    HR_REASON_REPLAY, /* a recorded order goes on there */
    HR_REASON_WINDOW, /* behind where a large object is read */
    HR_REASON_HINT,   /* somebody said so: `headrace warm`, posix_fadvise */
    HR_REASON_SWEEP,
    HR_REASON_COUNT
};

struct hr_plan_stats {
    unsigned in_flight, in_flight_max, queued, listings;
    uint64_t memory_bytes, memory_max_bytes;
    uint64_t fetched[HR_REASON_COUNT]; /* objects and segments that reached the cache */
    uint64_t fetched_bytes[HR_REASON_COUNT];
    uint64_t used[HR_REASON_COUNT];         /* of those: opened or read before they left the cache */
    uint64_t wasted_bytes[HR_REASON_COUNT]; /* left it unused */
    uint64_t swept_used, swept_used_bytes;  /* of the sweep's objects: opened later */
    uint64_t swept_wasted_bytes;            /* evicted without having been opened */
    uint64_t hits, misses;                  /* opens answered by the cache alone, opens that had to ask */
    uint64_t segment_hits, segment_misses; /* asks for bytes of large objects: there already, or waited for */
    uint64_t hints[HR_HINTS];              /* what programs said of large objects */
    uint64_t hints_unneeded;               /* segments that DONTNEED made the next to go */
    uint64_t copied_bytes;                 /* of whole files that came out of segments */
    uint64_t announced, announced_used;    /* objects that loaders said they would open; those then opened */
    uint64_t lookahead_learned, lookahead_dropped; /* guesses how indices become paths */
    uint64_t lookahead_table;                      /* indices whose files are known one by one, now */
    uint64_t lookahead_waiting;                    /* announced, and not asked for yet: there is no room */
    uint64_t lookahead_late;                       /* announced, and a program waited for it */
    uint64_t lookahead_abandoned; /* asked for, and the loader that announced it has ended or begun anew */
    uint64_t heads_ahead, tails_ahead;  /* of announced large objects: beginnings and ends asked for ahead */
    uint64_t heads_used;                /* of those objects: what was read first was there, or on its way */
    uint64_t shards_ahead, shards_used; /* large objects begun before they were opened; those then opened */
    uint64_t shards_wrong;              /* rows of opens that were broken off after one was expected */
    uint64_t cells_in_parts;            /* asked for by several requests at once, as a reader began */
    uint64_t order_searches, order_misses; /* for an epoch's order; those that found none */
    uint64_t known_orders;                 /* epochs whose order became known */
    uint64_t known_dropped, known_ahead;   /* orders that a batch proved wrong; objects asked for by them */
    uint64_t replay_steps, replay_ahead;   /* of recorded orders: names; those asked for ahead */
    uint64_t replay_unknown;               /* names that the index does not have */
    uint64_t replay_misses, replay_jumps;  /* opens that were not next in the order */
    uint64_t replay_dropped;               /* orders that the job did not follow */
    uint32_t known_seed;                   /* of the order that became known last... */
    uint32_t known_objects;                /* ...how many it shuffles... */
    const char *known_generator;           /* ...whose shuffle it is ("" before the first)... */
    unsigned known_after;                  /* ...how many indices it took... */
    uint64_t known_indices;                /* ...and how many indices have agreed with it so far */
    double known_confidence;               /* 1 - chance that another of the seeds gives those */
    unsigned known_now;                    /* epochs whose order is known and holds */
    /* Given up instead of what a known order needs sooner: read already; needed last; needed last by the next
     * epoch, or not at all. */
    uint64_t victims_read, victims_last, victims_next;
    uint64_t next_orders;            /* epochs whose next one's order was predicted and gone by... */
    uint64_t next_right, next_wrong; /* ...and what became of that, where the next one came */
    uint64_t changed, failed, md5_off;
    uint64_t index_objects, index_bytes, hidden;
    uint64_t index_object_bytes; /* of all objects that are listed */
    uint32_t trees;
    struct hr_hist wait; /* demand: from the request to the state word */
};
void hr_plan_stats(const struct hr_plan *plan, struct hr_plan_stats *ret);

#endif
