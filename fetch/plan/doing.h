/* What is being done about something that a program waits for: for people. Main loop; changes nothing. */
#ifndef HR_PLAN_DOING_H
#define HR_PLAN_DOING_H

#include "fetch/plan/plan.h"
#include "fetch/store/calls.h"

enum hr_doing_state {
    HR_DOING_NOTHING,    /* it has just come, or failed: the program wakes */
    HR_DOING_CONNECTION, /* queued: `connections` requests are in flight */
    HR_DOING_WIDTH,      /* queued: its endpoint gets no more at a time */
    HR_DOING_MEMORY,     /* queued: bodies fill `memory` */
    HR_DOING_ROOM,       /* queued: the cache has no room until others have arrived */
    HR_DOING_CALL,       /* see call */
    HR_DOING_WRITING,    /* all of it came, the cache writes it */
    HR_DOING_LISTING,    /* pages and keys so far */
    HR_DOING_STATES
};

struct hr_doing {
    enum hr_doing_state state;
    enum hr_reason reason; /* of the want, when there is one */
    struct hr_call_doing call;
    unsigned calls;                    /* of the want, in flight */
    uint64_t range_first, range_bytes; /* of the object; range_bytes 0: all of it */
    uint64_t object_bytes;             /* 0: not known */
    uint64_t pages, keys;              /* LISTING */
    const char *bucket, *prefix;       /* of the tree; valid until the next change */
    uint32_t prefix_len;
};

/* op LOOK, OPEN, FETCH (by its path), LIST. False: no such tree. */
bool hr_plan_doing(struct hr_plan *plan, enum hr_op op, uint32_t tree, const char *path, uint32_t path_len,
                   struct hr_doing *ret);
/* SEGMENT, WHOLE: also the object's full key, 2 * HR_KEY_MAX bytes. False: nobody knows that face. */
bool hr_plan_doing_bytes(struct hr_plan *plan, const struct hr_segment_ask *ask, bool whole,
                         struct hr_doing *ret, char *ret_key, uint32_t *ret_key_len);
/* The path of an entry of the published generation. Its length, or -errno. */
int hr_plan_entry_path(struct hr_plan *plan, uint32_t tree, uint32_t gen, uint32_t entry, char *ret_path,
                       size_t room);

/* What has not started yet, by reason. */
void hr_plan_queued(const struct hr_plan *plan, unsigned ret[HR_REASON_COUNT]);
/* The limits that it is under. */
void hr_plan_limits(const struct hr_plan *plan, unsigned *ret_connections, uint64_t *ret_memory_bytes);

#endif
