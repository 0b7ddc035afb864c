/* Guesses of what a loader's indices stand for, and when enough speaks for one. Chance explains an open, too:
 * the more bases there could be and the more indices wait, the more opens it takes. Main loop. */
#ifndef HR_PLAN_VOTES_H
#define HR_PLAN_VOTES_H

#include <stdbool.h>
#include <stdint.h>

#define HR_VOTE_SETS 128u /* 512 guesses: what 32 workers' opens suggest in a dozen of them */
#define HR_VOTE_WAYS 4u

/* The index-th object is the file of rank value + stride * index in its tree. */
struct hr_guess {
    const void *tree; /* names it, and is not looked at */
    uint32_t gen;
    uint32_t stride;
    int64_t value;
    int with; /* a base: this is another file of its samples; -1: it stands by itself */
};

struct hr_vote {
    struct hr_guess guess;
    uint64_t first; /* open that it was voted for by first... */
    uint64_t last;  /* ...and last; one open has one vote */
    unsigned count; /* 0: free */
};

struct hr_votes {
    struct hr_vote votes[HR_VOTE_SETS][HR_VOTE_WAYS];
    uint64_t opens;   /* the newest, which votes now... */
    uint64_t earlier; /* ...or this one before it, once more; 0: the newest */
    unsigned wrong;   /* guesses that were taken back: the next must be surer */
};

/* What chance had. */
struct hr_odds {
    uint64_t files;    /* that an open could be of */
    uint64_t bases;    /* that there could be, as many as are left room for by the highest index */
    unsigned suggests; /* bases by one open */
};

/* One vote of the present open, however often it is asked. True: by these odds it is hardly chance any more.
 */
bool hr_vote_for(struct hr_votes *votes, const struct hr_guess *guess, const struct hr_odds *odds);
void hr_votes_clear(struct hr_votes *votes); /* but for what it has learned */

#endif
