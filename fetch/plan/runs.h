/* How far one reader goes on from where it jumped to. Who reads records, row groups or arrays that lie here
 * and there in an object, in steps, reads about as much in order the next time as it did the last times: so
 * much comes at once, and nothing behind it. Pure. */
#ifndef HR_PLAN_RUNS_H
#define HR_PLAN_RUNS_H

#include <stdbool.h>
#include <stdint.h>

struct hr_runs {      /* zero: nothing is known */
    uint64_t start;   /* of the one that goes on... */
    unsigned asks;    /* ...and how often it asked; who asks once makes no run */
    bool longer;      /* one was longer than it was thought to be */
    uint64_t bytes;   /* how long those without holes are thought to be; 0: not known */
    uint64_t reached; /* how far the last one with a window went; 0: none has */
    unsigned sure;    /* rises with those that go on, falls with reads that stay alone */
    unsigned guesses; /* since one was last asked for as it was read */
    bool guessed;     /* this one came as long as it is thought to be with its first ask */
};

/* A jump to `start`. */
void hr_runs_begin(struct hr_runs *runs, uint64_t start);
/* It leaves some out: what comes now is measured by itself. */
void hr_runs_skip(struct hr_runs *runs);
/* After either: how many bytes come with its first ask, of `bytes`; 0: those, because reads that stay alone
 * are exact. */
uint64_t hr_runs_first(struct hr_runs *runs, uint64_t bytes);
/* It goes on without a hole, behind `read` bytes of the run. How many more come at once, 0: it is longer than
 * was thought, or nothing is known. */
uint64_t hr_runs_go_on(struct hr_runs *runs, uint64_t read);
/* How far ahead of `offset` its window may be: to where the last one ended; beyond that, or when none has, as
 * far as it has come, and a cell. */
uint64_t hr_runs_ahead(const struct hr_runs *runs, uint64_t offset);
/* It jumps elsewhere: it has read `read` bytes for certain, of those that it was given, and was at `offset`.
 */
void hr_runs_end(struct hr_runs *runs, uint64_t read, uint64_t given, uint64_t offset, bool window);

#endif
