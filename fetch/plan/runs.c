#include "fetch/plan/runs.h"

#include "fetch/base/least.h"
#include "interpose/abi.h"

#define HR_RUN_SLACK_BYTES (64u << 10)  /* more is asked for: less than a request costs */
#define HR_RUN_LEAST_BYTES (256u << 10) /* as much comes with the second piece of one that nobody knows */
#define HR_RUN_LEAP 32                  /* a guess brings at most so many times what was read before it */
#define HR_RUN_SHRINKS_FIRST 4          /* until one was longer, of what may be too much a quarter goes... */
#define HR_RUN_SHRINKS 16               /* ...then little: one in some is longer, and takes a request more */

void hr_runs_begin(struct hr_runs *runs, uint64_t start)
{
    runs->start = start;
    runs->asks = 1;
}

void hr_runs_skip(struct hr_runs *runs)
{
    runs->asks = 1;
}

uint64_t hr_runs_go_on(struct hr_runs *runs, uint64_t read)
{
    uint64_t thought = hr_most(runs->bytes + HR_RUN_SLACK_BYTES, HR_RUN_LEAST_BYTES);
    runs->asks++;
    if (runs->bytes == 0) {
        return 0;
    }
    if (read >= thought) { /* once it may be half as long again */
        thought += runs->bytes / 2;
    }
    return read < thought ? hr_least(thought - read, read * HR_RUN_LEAP) : 0;
}

uint64_t hr_runs_ahead(const struct hr_runs *runs, uint64_t offset)
{
    uint64_t reach = offset - runs->start;
    return reach < runs->reached ? runs->reached - reach : reach - runs->reached + HR_CELL_BYTES;
}

void hr_runs_end(struct hr_runs *runs, uint64_t read, uint64_t given, uint64_t offset, bool window)
{
    if (window) {
        runs->reached = offset - runs->start;
    }
    if (runs->asks < 2) {
        return;
    }
    if (runs->bytes == 0) {
        runs->bytes = read + (given - read) / 2;
    } else if (read > hr_most(runs->bytes + HR_RUN_SLACK_BYTES, HR_RUN_LEAST_BYTES)) {
        runs->bytes = hr_least(given, 2 * runs->bytes); /* a long one among short ones is no rule */
        runs->longer = true;
    } else if (given <= runs->bytes / 2) {
        runs->bytes /= 2;
    } else if (read < runs->bytes) {
        runs->bytes -= (runs->bytes - read) / (runs->longer ? HR_RUN_SHRINKS : HR_RUN_SHRINKS_FIRST);
    }
}
