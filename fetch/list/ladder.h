/* Where to split: a picture of how the keys of a listing branch, byte by byte, learned from the keys that
 * have come. It guesses how many keys lie between two keys and names strings between them that are worth a
 * look. It may be wrong about everything: only balance depends on it. Pure: no I/O, no clock. */
#ifndef HR_LIST_LADDER_H
#define HR_LIST_LADDER_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/abi.h"

/* Places in keys that are told apart: so many parts between slashes, so many bytes of each; ours. */
#define HR_LADDER_PARTS 16u
#define HR_LADDER_PART_BYTES 24u
#define HR_LADDER_LEVELS (HR_LADDER_PARTS * HR_LADDER_PART_BYTES)
#define HR_LADDER_CUT_MAX (HR_KEY_MAX + 8) /* a cut: part of a key and one character more */

/* A view of a key; at NULL: none (before the first, behind the last). */
struct hr_key {
    const char *at;
    uint32_t len;
};

struct hr_ladder {
    uint32_t prefix_len;
    uint64_t passed[HR_LADDER_LEVELS];   /* keys that have this byte, behind a neighbour, */
    uint64_t crossed[HR_LADDER_LEVELS];  /* first differ from it there, */
    uint64_t entered[HR_LADDER_LEVELS];  /* or did before */
    uint64_t branched[HR_LADDER_LEVELS]; /* the same of keys that probes found */
    uint64_t seen[HR_LADDER_LEVELS][4];  /* bytes seen there, a bit each */
    uint64_t common[4];                  /* bytes seen where keys branch */
    double below[HR_LADDER_LEVELS + 1];  /* keys below a node of so many bytes, guessed */
    double unit[HR_LADDER_LEVELS];       /* keys from one seen byte to the next there, guessed */
    bool any_bytes;                      /* keys are not all UTF-8 */
    bool stale;                          /* below and unit are older than the rest */
};

int hr_key_compare(struct hr_key a, struct hr_key b); /* bytewise */
uint32_t hr_key_shared(struct hr_key a, struct hr_key b);

void hr_ladder_init(struct hr_ladder *ladder, uint32_t prefix_len);
/* Two keys that follow each other in a listing. */
void hr_ladder_neighbours(struct hr_ladder *ladder, struct hr_key before, struct hr_key key);
/* A key that is there, and one (or at NULL) somewhere before it. */
void hr_ladder_seen(struct hr_ladder *ladder, struct hr_key before, struct hr_key key);

/* Keys behind low and up to high (none: up to the end), guessed; at least 0. */
double hr_ladder_between(struct hr_ladder *ladder, struct hr_key low, struct hr_key high);
/* A string strictly between low and high (none: the end) near `fraction` of what lies between; low is a
 * key. Valid UTF-8 when low is. ret_cut has HR_LADDER_CUT_MAX bytes. 0: nothing worth trying. */
uint32_t hr_ladder_cut(struct hr_ladder *ladder, struct hr_key low, struct hr_key high, double fraction,
                       char *ret_cut);
/* A string behind all keys that share low's first `keep` bytes and its next one. 0: none. */
uint32_t hr_ladder_leave(struct hr_key low, uint32_t keep, char *ret_cut);
/* Like that, behind other nodes there too: `fraction` of the bytes that keys are known to branch in. */
uint32_t hr_ladder_ahead(const struct hr_ladder *ladder, struct hr_key low, uint32_t keep, double fraction,
                         char *ret_cut);

/* Strings behind low in ascending order, each about `each` keys behind the one before as far as the picture
 * goes on, to the end: `take` gets them, and stops it by anything but 0, which is returned. */
int hr_ladder_steps(struct hr_ladder *ladder, struct hr_key low, uint32_t fork, double each,
                    int (*take)(void *owner, struct hr_key cut), void *owner);

/* By the place of strings alone, for where the picture is wrong: how many times as far it is from `at` to
 * `to` (none: the end) as from `from` to `at`. */
double hr_ladder_way(const struct hr_ladder *ladder, struct hr_key from, struct hr_key at, struct hr_key to);
/* Like hr_ladder_cut by the place of strings alone. */
uint32_t hr_ladder_interpolate(struct hr_ladder *ladder, struct hr_key low, struct hr_key high,
                               double fraction, char *ret_cut);

#endif
