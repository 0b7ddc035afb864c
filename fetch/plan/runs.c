#include "fetch/plan/runs.h"

#include "fetch/base/least.h"
#include "interpose/abi.h"

#define HR_RUN_SLACK_BYTES (64u << 10)  /* more is asked for: less than a request costs */
#define HR_RUN_LEAST_BYTES (256u << 10) /* as much comes with the second piece of one that nobody knows */
#define HR_RUN_LEAP 32                  /* a guess brings at most so many times what was read before it */
#define HR_RUN_JUMP_BYTES (64u << 10)   /* that comes with a jump in any case */
#define HR_RUN_SHRINKS_FIRST 4          /* until one was longer, of what may be too much a quarter goes... */
#define HR_RUN_SHRINKS 16               /* ...then little: one in some is longer, and takes a request more */
#define HR_RUN_SURE 3 /* one up for each that goes on, one down for others: the next comes whole */
#define HR_RUN_SURE_MOST 4
#define HR_RUN_GUESSES 7 /* in a row; then one is asked for as it is read: is it still so? */
/* Of one that was enough a 32nd goes, one that was not brings a quarter more: one in nine is not. */
#define HR_RUN_GUESS_SHRINKS 32
#define HR_RUN_GUESS_GROWS 4

void hr_runs_begin(struct hr_runs *runs, uint64_t start)
{
    runs->start = start;
    hr_runs_skip(runs);
}

void hr_runs_skip(struct hr_runs *runs)
{
    runs->asks = 1;
    runs->guessed = false;
}

uint64_t hr_runs_first(struct hr_runs *runs, uint64_t bytes)
{
    uint64_t most = hr_most(bytes, HR_RUN_JUMP_BYTES) * HR_RUN_LEAP;
    uint64_t thought = hr_least(runs->bytes + HR_RUN_SLACK_BYTES, most);
    if (runs->bytes == 0 || runs->sure < HR_RUN_SURE || bytes >= thought) {
        return 0;
    }
    runs->guessed = runs->guesses < HR_RUN_GUESSES;
    runs->guesses = runs->guessed ? runs->guesses + 1 : 0;
    return runs->guessed ? thought : 0;
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
    bool alone = runs->asks < 2;
    if (runs->guessed) {
        uint64_t grown = hr_least(given, runs->bytes + runs->bytes / HR_RUN_GUESS_GROWS);
        uint64_t less = hr_most(runs->bytes - runs->bytes / HR_RUN_GUESS_SHRINKS, HR_RUN_JUMP_BYTES);
        runs->bytes = alone ? hr_least(runs->bytes, less) : hr_most(runs->bytes, grown);
        return;
    }
    runs->sure = alone ? runs->sure - hr_least(runs->sure, 1) : hr_least(runs->sure + 1, HR_RUN_SURE_MOST);
    if (alone) {
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
