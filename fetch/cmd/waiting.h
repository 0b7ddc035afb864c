/* Why nothing comes, where that lasts: what the store of a tree meets, one line on stderr, once a process.
 * How far a command is, is told by progress.h. */
#ifndef HR_CMD_WAITING_H
#define HR_CMD_WAITING_H

#include "fetch/cmd/client.h"
#include "fetch/cmd/progress.h"

/* Says what this tree's store meets, unless it meets nothing. For hr_job.silent. */
void hr_waiting_tell(const struct hr_job *job, uint32_t tree);

/* For who asks again and again how far something is. */
struct hr_waiting {
    uint64_t figure;
    int64_t since_ms; /* it stands there */
};
void hr_waiting_begin(struct hr_waiting *waiting);
/* True: nothing has moved for a while. figure: anything that moves when something comes. */
bool hr_waiting_lasts(struct hr_waiting *waiting, uint64_t figure);
/* hr_waiting_tell, and the line that progress has on a terminal makes room for it. */
void hr_waiting_tell_beside(const struct hr_job *job, uint32_t tree, struct hr_progress *progress);

#endif
