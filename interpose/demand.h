/* Asking the daemon and waiting for it. Async-signal-safe, no heap, no locks. */
#ifndef HR_DEMAND_H
#define HR_DEMAND_H

#include <stdint.h>

#include "interpose/abi.h"
#include "interpose/context.h"

/* Both wait as long as the daemon lives (it ends every request itself), restart it when it died, and return:
 *   -EAGAIN  the session or the generation was replaced: get the session and look the path up again;
 *   -EINTR   the wait is older than 2 s and a signal handler ran in it;
 *   -EIO     no daemon can be had (a line on stderr said why). */

/* Wants `entry`, whose state word the caller read as `seen` and could not use, and waits until the word is
 * another one. 0: RESIDENT or FACE when last looked (after a slice even with the same word: the file may be
 * back); or -errno from its state (said on stderr once). */
int hr_demand_entry(const struct hr_session *session, const struct hr_tree_view *view, uint32_t entry,
                    uint32_t seen);
/* A request that is answered in the ring. 0 with *ret filled (ret->error may still be set). */
int hr_demand_ask(const struct hr_session *session, enum hr_op op, uint32_t tree, uint64_t map_hash,
                  const char *path, uint32_t path_len, struct hr_answer *ret);

/* HR_OP_SEGMENT or HR_OP_WHOLE: 0 with *ret a file that is, or was a moment ago, in the cache and holds
 * ask->offset; the daemon's error, said on stderr once; or one of the above. */
int hr_demand_segment(const struct hr_session *session, enum hr_op op, const struct hr_segment_ask *ask,
                      struct hr_answer *ret);
/* The same request for its effect alone: never waits, and is left out when no slot is free. */
void hr_demand_hint(const struct hr_session *session, const struct hr_segment_ask *ask, enum hr_hint hint);

/* ---- Parts of the above, for their tests ---- */

/* Claims a free slot by CAS; -EAGAIN when all are taken. *ret_claim is what hr_demand_announce must find. */
int hr_demand_claim(struct hr_slots *slots, uint32_t pid, uint32_t tid, uint32_t *ret_slot,
                    uint64_t *ret_claim);
/* CLAIMED -> FULL, rings the bell. False: the claim was taken back by age; start again. */
bool hr_demand_announce(struct hr_slots *slots, uint32_t slot, uint64_t claim);

/* Tells the daemon of a batch that a loader will need. Never waits: without a free slot it is left out. */
void hr_demand_announce_batch(const struct hr_session *session, uint64_t stream, uint32_t batch,
                              const uint32_t *indices, unsigned count);

#endif
