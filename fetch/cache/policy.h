/* Replacement, behind a narrow interface: what to give up when room is needed.
 *
 * Two ways, and a choice between them that follows from what is seen:
 *   recent: give up what was used least recently; right for working sets that move or fit.
 *   keep:   keep the set that is there, and let newcomers pass through a small share of the room; right for
 *           epochs over more than fits, where what was used last is needed last.
 * What is not used yet but will be (it was asked for or announced) is given up for neither, within bounds.
 *
 * The node lives in the object. Owned by the loop's thread; no call fails, and only init allocates. O(1) over
 * time. */
#ifndef HR_CACHE_POLICY_H
#define HR_CACHE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

struct hr_shadow;

struct hr_policy_node {
    struct hr_policy_node *older;
    struct hr_policy_node *newer;
    uint64_t stamp : 60; /* policy->clock at its last admission, use or announcement */
    uint64_t list : 3;   /* enum hr_policy_place */
    uint64_t fresh : 1;  /* not used since it came: its first use is no hit */
    uint32_t id;         /* of what it holds: the same when that comes again */
    uint32_t pages;      /* of 4 KiB */
};

/* A plain list by age. */
struct hr_policy_list {
    struct hr_policy_node ends; /* ends.newer: the oldest; ends.older: the newest */
};
void hr_policy_list_init(struct hr_policy_list *list);
void hr_policy_list_add(struct hr_policy_list *list, struct hr_policy_node *node); /* as the newest */
void hr_policy_list_remove(struct hr_policy_node *node);
struct hr_policy_node *hr_policy_list_oldest(const struct hr_policy_list *list); /* NULL: empty */

enum hr_policy_place {
    HR_POLICY_KEPT,      /* was used */
    HR_POLICY_PASSING,   /* keep: was used, and is the next to go */
    HR_POLICY_AWAITED,   /* came because somebody uses it soon */
    HR_POLICY_ANNOUNCED, /* was kept, and somebody uses it soon */
    HR_POLICY_UNNEEDED,  /* who used it said that he is done with it */
    HR_POLICY_UNASKED,   /* came on a guess, or was there when the daemon started */
    HR_POLICY_PLACES
};

#define HR_POLICY_LAPS 9 /* quarters of the kept set: an epoch over it is 4, twice that the longest gap */

struct hr_policy {
    struct hr_policy_list lists[HR_POLICY_PLACES];
    uint64_t pages[HR_POLICY_PLACES];
    unsigned passing_count;
    bool keep;
    uint64_t clock;          /* pages admitted, and one a use: orders stamps, measures ages */
    uint64_t capacity_pages; /* 0: it was never full */
    struct hr_shadow *shadow;
    /* recent -> keep */
    uint64_t keep_after;      /* not before the clock says so */
    uint64_t recurring_pages; /* used again, in the sample's scale */
    unsigned recurring_count;
    unsigned patience; /* caches full that recency gets when it proves better; doubles each time in a row */
    /* keep -> recent */
    uint64_t lead_pages;  /* by which recency was better lately */
    uint64_t stale_pages; /* came again while the kept set was idle */
    uint64_t gap_pages;   /* between two uses of what comes again and is not there: an epoch's size */
    unsigned gap_count;   /* of which that is the mean, at most GAP_MEMORY */
    /* How fast the kept set is gone through: its hits, one object once a lap. */
    uint64_t kept_hit_pages;
    uint64_t lap_begun_pages;      /* kept_hit_pages then */
    uint64_t laps[HR_POLICY_LAPS]; /* clock at their beginnings, the latest first */
    uint64_t kept_since_pages;     /* kept_hit_pages when it last began to keep */
    /* How much of what is awaited there is at a time. */
    uint64_t awaited_most, awaited_most_before, awaited_turn;
    bool unasked_dead; /* nobody uses what came unasked */
    uint64_t unasked_used;
    uint64_t uses, hits;
};

void hr_policy_init(struct hr_policy *policy);
void hr_policy_release(struct hr_policy *policy);
enum hr_policy_why {
    HR_POLICY_ASKED,  /* for a program that waits, or on a loader's word */
    HR_POLICY_GUESS,  /* the sweep's */
    HR_POLICY_EARLIER /* it was there when the daemon started */
};
void hr_policy_admit(struct hr_policy *policy, struct hr_policy_node *node, uint32_t id, uint64_t bytes,
                     enum hr_policy_why why);
void hr_policy_used(struct hr_policy *policy, struct hr_policy_node *node);
void hr_policy_announced(struct hr_policy *policy, struct hr_policy_node *node); /* it is used soon */
void hr_policy_abandoned(struct hr_policy *policy, struct hr_policy_node *node); /* it is not, after all */
void hr_policy_unneeded(struct hr_policy *policy, struct hr_policy_node *node);  /* goes before all others */
void hr_policy_forget(struct hr_policy *policy, struct hr_policy_node *node);    /* it left, why ever */
/* Room is needed, and so many bytes fit in all. */
void hr_policy_full(struct hr_policy *policy, uint64_t capacity_bytes);
/* The one to give up next, still admitted; NULL when there is none. */
struct hr_policy_node *hr_policy_victim(struct hr_policy *policy);
uint64_t hr_policy_kept_bytes(const struct hr_policy *policy); /* 0 unless it keeps a set */

#endif
