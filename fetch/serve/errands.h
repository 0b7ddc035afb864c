/* What commands ask of the daemon beside names and bytes, each answered at once (paths percent-encoded):
 *
 * - "warm": tree, id (0: a new one), paths, more (others will follow) -> id. Brings what lies below the
 * paths. -EAGAIN: "list" first
 * - "warming": id -> files, bytes, there_files, there_bytes, failed, full, finished; and when it has finished
 *   names: [[path, error], ...], after which the daemon forgets it
 * - "trouble": tree -> what the longest call of its store meets: text, left_ms; or nothing
 * - those of indexes.h
 * - "record": trees, file -> id. The first opens in these trees, the job's in the order of its maps, go to
 * the file (plan/recording.h) until the asking process ends, or the daemon does
 * - "replay": trees, id (0: a new one), lines (plan/recording.h), more -> id. An order to follow until the
 *   asking process ends. -EAGAIN: "list" first */
#ifndef HR_SERVE_ERRANDS_H
#define HR_SERVE_ERRANDS_H

#include <jansson.h>

#include "fetch/plan/plan.h"

struct hr_errands;

/* 0 or -ENOMEM. */
int hr_errands_new(struct hr_loop *loop, struct hr_plan *plan, struct hr_errands **ret);
void hr_errands_free(struct hr_errands *errands); /* accepts NULL */

/* Every heartbeat. True: something goes on for a job that lives. */
bool hr_errands_tick(struct hr_errands *errands);

/* The answer, the caller's; NULL: the operation is none of these (without errands: none is). pid: who asks.
 */
json_t *hr_errands_do(struct hr_errands *errands, const char *op, const json_t *request, uint32_t pid);

#endif
