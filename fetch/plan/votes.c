#include "fetch/plan/votes.h"

#include <math.h>
#include <string.h>

#define WRONG_MOST (1.0 / 64) /* of all guesses until now, by chance */
/* Of a handful of files nearly any open fits, and a wrong guess costs as little. */
#define FEW_FILES 256u
#define WRONG_MOST_OF_FEW 1.0
#define SURER (1.0 / 16) /* for each guess that was wrong... */
#define WRONG_COUNTED 4u /* ...up to so many: a job of weeks has such */

static bool is_same(const struct hr_guess *one, const struct hr_guess *other)
{
    return one->tree == other->tree && one->gen == other->gen && one->stride == other->stride &&
           one->value == other->value && one->with == other->with;
}

/* Its place; else the one that has least to lose. */
static struct hr_vote *place_of(struct hr_votes *votes, const struct hr_guess *guess)
{
    uint64_t hash = ((uint64_t)guess->value * 8 + guess->stride + (uint64_t)(guess->with + 1) * 0x10001) *
                    UINT64_C(0x9e3779b97f4a7c15);
    struct hr_vote *set = votes->votes[hash >> 32 & (HR_VOTE_SETS - 1)], *place = &set[0];
    for (unsigned i = 0; i < HR_VOTE_WAYS; i++) {
        if (set[i].count > 0 && is_same(&set[i].guess, guess)) {
            return &set[i];
        }
        if (set[i].count < place->count || (set[i].count == place->count && set[i].last < place->last)) {
            place = &set[i];
        }
    }
    *place = (struct hr_vote){.guess = *guess};
    return place;
}

/* How many guesses chance would have brought as far until now. */
static double by_chance(const struct hr_votes *votes, const struct hr_vote *vote, const struct hr_odds *odds)
{
    double each = (double)odds->suggests / (double)odds->files;
    double expected = each * (double)(votes->opens - vote->first + 1);
    double wrong = (double)votes->opens * (double)odds->bases * each;
    for (unsigned i = 1; i < vote->count; i++) {
        wrong *= expected / i;
    }
    return wrong;
}

bool hr_vote_for(struct hr_votes *votes, const struct hr_guess *guess, const struct hr_odds *odds)
{
    struct hr_vote *vote = place_of(votes, guess);
    uint64_t open = votes->earlier ? votes->earlier : votes->opens;
    if (vote->count == 0 || vote->last != open) {
        double each = (double)odds->suggests / (double)odds->files;
        if (vote->count == 0 || each * (double)(votes->opens - vote->first) > vote->count) {
            vote->count = 0; /* chance alone would have brought more by now */
            vote->first = open;
        }
        vote->first = open < vote->first ? open : vote->first;
        vote->count++;
        vote->last = open;
    }
    unsigned wrong = votes->wrong < WRONG_COUNTED ? votes->wrong : WRONG_COUNTED;
    double most = odds->files < FEW_FILES ? WRONG_MOST_OF_FEW : WRONG_MOST;
    return vote->count > 1 && by_chance(votes, vote, odds) < most * pow(SURER, wrong);
}

void hr_votes_clear(struct hr_votes *votes)
{
    memset(votes->votes, 0, sizeof votes->votes);
}
