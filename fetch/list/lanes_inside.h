/* Inside of lanes.h: a lane's range and its gaps (ranges.c), probes (probes.c), folders' names (folders.c),
 * and who does what (lanes.c). */
#ifndef HR_LIST_LANES_INSIDE_H
#define HR_LIST_LANES_INSIDE_H

#include "fetch/list/lanes.h"

/* In flight: for each lane of the width, and before pages earn more. These and the constants in lanes.c
 * and probes.c are ours, found with tests/unit/list/test_lanes.c's rounds. */
#define PROBES_A_LANE 3u
#define PROBES_FIRST 64u
#define STEAL_PAGES 0.75 /* a range of less is left to its lane; */
#define STEAL_LATE 0.7   /* and in the end of a listing */
#define EARLY_PAGES 20u  /* before so many, nothing is known of an end */
#define TAIL_PART 0.02   /* of a page: where less is left, one key is asked for */

/* An owned string. at NULL: none. */
struct text {
    char *at;
    uint32_t len;
};

/* Between two cuts of a range. */
struct gap {
    struct text cut;   /* keys behind this; at NULL: from the start */
    struct text first; /* a key that was there, at or behind all that is listed */
    struct text empty; /* no key from here to the gap's end; at NULL: not known */
    bool solid;        /* no cut is worth trying until its first key moves */
    unsigned probing;
    double keys;      /* between first and end, guessed */
    uint64_t answers; /* when; 0: not yet */
};

/* Where two ranges meet, and the key behind it that each side saw. */
struct seam {
    uint64_t seen[2];
    bool known[2];
};

struct lane {
    bool used, asked;
    uint32_t turn;
    struct gap *gaps; /* ascending; gaps[0].cut is where the lane is */
    uint32_t gap_count, gap_room;
    struct text upto;                  /* at NULL: to the end */
    uint32_t seam_before, seam_behind; /* UINT32_MAX: none */
    bool begun;                        /* its first page has come */
    bool tail;                         /* whether anything is left is asked by one key, since its last page */
    uint32_t fork;                     /* first byte in which the keys of its last page differ */
    double listed, guessed;            /* keys that came, and how many were expected for that way */
    double surplus;                    /* of late: keys that came where hardly any were expected */
    struct text start;                 /* its first key; at NULL: none has come */
    double came;                       /* keys behind start, */
    double left;                       /* how many were expected by place alone then, */
    double beyond;                     /* and how many came that were not */
};

struct probe {
    bool used;
    uint32_t lane; /* whose tail it asks about; UINT32_MAX: it looks ahead */
    struct text cut;
};

/* The name of a folder, with its slash. */
struct folder {
    struct text name;
    uint32_t depth; /* slashes in it */
    double before;  /* keys in the folders before it, guessed */
    bool opened;    /* folders in it are known: it counts for nothing by itself */
    bool cut_off;   /* there are more behind it, of which the answer had no room */
};

#define FOLDERS_DEPTH 16u /* deeper ones are not told apart; ours */
#define FOLDERS_ASKED 16u /* requests with a delimiter at most; ours */

struct folders {
    struct folder *list; /* ascending */
    uint32_t count;
    struct text asked[FOLDERS_ASKED]; /* directories */
    uint32_t asked_count, sent;       /* those sent are the first */
    struct text after[FOLDERS_ASKED];
    uint64_t keys[FOLDERS_DEPTH + 1];    /* keys that came in folders of so many slashes, */
    uint64_t entered[FOLDERS_DEPTH + 1]; /* and those folders */
    double all;                          /* keys in all folders, guessed */
    bool stale;                          /* `before` is older than the rest */
    bool fresh;                          /* cuts at names were not looked for since something came */
};

struct hr_list_lanes {
    struct hr_ladder ladder;
    struct folders folders;
    uint32_t turns;
    uint64_t answers; /* that came, and one */
    bool hurry;       /* guesses, and a request for folders beside the first page, are worth it */
    bool guessed;     /* hr_lanes_guess was done */
    struct lane *lanes;
    uint32_t lane_room;  /* = most lanes ever */
    uint32_t lane_count; /* in use */
    unsigned width_max;
    double width;
    unsigned clean; /* answers since the width was last changed */
    unsigned deaf;  /* pages that were under way when it was: their troubles are
                       the same trouble */
    struct probe *probes;
    uint32_t probe_room, probe_count;
    struct seam *seams;
    uint32_t seam_count, seam_room;
    double page_keys;
    double wasted;     /* parts of pages that brought nothing, in pages */
    uint64_t look_ups; /* probes for what lies above a lane */
    bool late;         /* few pages are left, as far as is known */
    uint64_t pages_in;
    struct hr_list_lanes_progress progress;
};

static inline struct hr_key hr_lane_view(struct text text)
{
    return (struct hr_key){text.at, text.len};
}
/* 0 or -ENOMEM; *ret is freed and replaced. */
int hr_lane_copy(struct hr_key key, struct text *ret);
void hr_lane_release(struct lane *lane);

/* Where the keys of a gap end: its empty rest, the next cut, or the range's end. */
struct hr_key hr_lane_gap_end(const struct lane *lane, uint32_t number);
/* How far off the guesses have been where this lane went. */
double hr_lane_correction(const struct hr_list_lanes *lanes, const struct lane *lane);
/* Keys that are left, guessed. */
double hr_lane_gap_keys(struct hr_list_lanes *lanes, const struct lane *lane, uint32_t number);
double hr_lane_keys(struct hr_list_lanes *lanes, const struct lane *lane);
double hr_lanes_keys(struct hr_list_lanes *lanes); /* of all lanes */

/* The lane and gap that a string lies in: behind the cut, up to the next. NULL: in none. */
struct lane *hr_lane_find(struct hr_list_lanes *lanes, struct hr_key at, uint32_t *ret_gap);
/* Keys behind low and up to high (none: the end), guessed, by what is known of folders and by the picture. */
double hr_lanes_between(struct hr_list_lanes *lanes, struct hr_key low, struct hr_key high);

/* A gap behind gaps[at], which gets what is behind `cut`; `first` is there. 0 or -ENOMEM. */
int hr_lane_insert_gap(struct lane *lane, uint32_t at, struct hr_key cut, struct hr_key first);
/* The lane stands behind `key` now. 0 or -ENOMEM. */
int hr_lane_advance(struct lane *lane, struct hr_key key);
/* Whether one lane more is worth the part of a page that it costs, after `pages_ahead` more have come. */
bool hr_lanes_room(struct hr_list_lanes *lanes, unsigned pages_ahead);
/* An idle lane takes half of the largest range that is worth it. 1: one did, 0, -ENOMEM. */
int hr_lanes_steal(struct hr_list_lanes *lanes);

/* Learns how many keys folders have, from two keys that follow each other; before.at NULL: from one. */
void hr_folders_learn(struct hr_list_lanes *lanes, struct hr_key before, struct hr_key key);
/* A lane goes on behind `last`: notes which directories of it are worth asking for their folders. 0, -ENOMEM.
 */
int hr_folders_wanted(struct hr_list_lanes *lanes, struct hr_key last);
bool hr_folders_next(struct hr_list_lanes *lanes, struct hr_list_lanes_ask *ret);
/* Cuts gaps that are too large at folders' names. 0, -ENOMEM. */
int hr_folders_cut(struct hr_list_lanes *lanes);
void hr_folders_release(struct folders *folders);

/* Behind the first page: ranges at strings that are guessed by how its keys go on, so that a short listing is
 * all asked for at once. 0, -ENOMEM. */
int hr_lanes_guess(struct hr_list_lanes *lanes);

/* The first key behind the lane's last one (at NULL: there is none) has come. 0 or -EPROTO. */
int hr_lane_tail(struct hr_list_lanes *lanes, uint32_t number, struct hr_key key);

/* Asks for the key behind `cut`, for a lane's tail or (UINT32_MAX) to look ahead. 1 or -ENOMEM. There is room
 * for it. */
int hr_lanes_send_probe(struct hr_list_lanes *lanes, struct hr_key cut, uint32_t lane,
                        struct hr_list_lanes_ask *ret);
/* The next probe that is worth it. 1, 0, -ENOMEM. */
int hr_lanes_next_probe(struct hr_list_lanes *lanes, struct hr_list_lanes_ask *ret);

#endif
