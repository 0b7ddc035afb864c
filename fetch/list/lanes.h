/* Who lists what: the keys under a prefix as ranges (after, upto], one a lane, and the cuts known inside
 * each.
 *
 * Lanes grow from one. Probes (one key behind a cut) tell real keys ahead of a lane, and requests with a
 * delimiter the names of folders; an idle lane takes the upper part of the largest remaining range at such a
 * cut. Where a page goes on into the next range and through all of it, that one is done. Ranges meet at
 * strings, not at objects, so every key is in exactly one whatever is added or removed meanwhile. What the
 * two lanes at a cut saw behind it is compared: a store that lists in another order is found out. Pure: asks
 * go out and answers come in by calls; owned by one thread. */
#ifndef HR_LIST_LANES_H
#define HR_LIST_LANES_H

#include <stdbool.h>
#include <stdint.h>

#include "fetch/list/ladder.h"
#include "fetch/store/store.h"

struct hr_list_lanes;

struct hr_list_lanes_ask {
    bool probe;    /* one key, */
    bool folders;  /* or the folders in `dir` by a delimiter: nobody may wait for those; else a page */
    uint32_t lane; /* of a page, */
    uint32_t turn; /* and which lane that is: the number is used again */
    uint32_t probe_number;
    struct hr_key after; /* valid until the next call, as dir; at NULL: from the first key on */
    struct hr_key dir;   /* at NULL: the prefix */
};

struct hr_list_lanes_progress {
    unsigned listing;       /* lanes with a page under way, */
    unsigned listing_max;   /* and most so far */
    uint64_t pages, probes; /* asked for, */
    uint64_t folders;       /* and requests with a delimiter */
};

/* width: lanes at most. hurry: somebody waits, so that some requests which may bring nothing are worth it. 0
 * or -ENOMEM. */
int hr_list_lanes_new(uint32_t prefix_len, unsigned width, bool hurry, struct hr_list_lanes **ret);
void hr_list_lanes_free(struct hr_list_lanes *lanes); /* accepts NULL */

/* The next thing to ask for. 1, 0: nothing before an answer comes, -ENOMEM. */
int hr_list_lanes_next(struct hr_list_lanes *lanes, struct hr_list_lanes_ask *ret);
bool hr_list_lanes_done(const struct hr_list_lanes *lanes); /* every range is listed */

/* Somebody waits for a page's answer: not, when another page brought all of its range. */
bool hr_list_lanes_waits(const struct hr_list_lanes *lanes, const struct hr_list_lanes_ask *ask);
/* A lane's page (hr_list_lanes_waits), keys ascending and behind what was asked for. *ret_take: how many of
 * them, from the first, are taken; the rest are another lane's. 0, -ENOMEM, or -EPROTO: the store does not
 * list in bytewise order.
 */
int hr_list_lanes_page(struct hr_list_lanes *lanes, uint32_t lane, const struct hr_listed *listed,
                       uint32_t count, bool truncated, uint32_t *ret_take);
/* A probe's answer; key.at NULL: there is none. A key that is not behind the cut is -EPROTO. */
int hr_list_lanes_probe(struct hr_list_lanes *lanes, uint32_t probe_number, struct hr_key key);

/* Folders in `dir`, as an answer has them: ascending, each with its slash. Anything else is not used.
 * 0 or -ENOMEM. */
int hr_list_lanes_folders(struct hr_list_lanes *lanes, struct hr_key dir, const struct hr_listed *folders,
                          uint32_t count, bool truncated);

/* A probe that was not sent yet: what came meanwhile tells all that it would. True: it is done with, as if
 * answered. */
bool hr_list_lanes_moot(struct hr_list_lanes *lanes, uint32_t probe_number);

/* A request had to be sent again (the store throttles): half as many lanes, then more again. */
void hr_list_lanes_throttled(struct hr_list_lanes *lanes);
void hr_list_lanes_progress(const struct hr_list_lanes *lanes, struct hr_list_lanes_progress *ret);

#endif
