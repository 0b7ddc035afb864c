/* Large objects of one bucket, folder and suffix: which of them were begun and read whole, and whether they
 * are opened in the order of their names. Between shards.c, which tells what readers did, and shards_ahead.c,
 * which goes by it. */
#ifndef HR_PLAN_FAMILIES_H
#define HR_PLAN_FAMILIES_H

#include "fetch/plan/siblings.h"

#define HR_FAMILIES 64   /* then the one that was quiet longest is forgotten */
#define HR_BEGUN_KEPT 64 /* of a family, until its names are there */
#define HR_EXPECTED 32   /* at a time */

struct hr_family { /* of one bucket, folder and suffix */
    uint64_t id;   /* 0: free */
    int64_t used_ms;
    uint64_t begun[HR_BEGUN_KEPT]; /* names, a ring... */
    bool whole[HR_BEGUN_KEPT];     /* ...and which of them were read to their ends */
    unsigned begun_count, whole_count;
    unsigned doubts;       /* begun in a row and not read on */
    unsigned reading_most; /* at a time, since the row began: so many may come to what is left out */
    unsigned wrong;        /* rows broken off, since something expected was opened */
    char *lowest;          /* key of the first by name among those begun */
    struct hr_siblings names;
    bool asked;                         /* for the names... */
    const struct hr_plan_tree *told_to; /* ...which an answer of the store told that tree... */
    int64_t told_ms;                    /* ...at this time; NULL: the index did */
};

struct hr_row { /* what was opened, by its place among the siblings */
    uint32_t first, last, step;
    unsigned opened, reading;
};

struct hr_expected { /* will be opened */
    bool taken;
    uint32_t turn;
    struct hr_plan_tree *tree;
    uint64_t family, name;
    uint64_t after;           /* face whose window it goes on from */
    uint64_t face_id;         /* 0: it is not there yet */
    unsigned wanted, brought; /* cells */
    unsigned ahead;           /* so many lie between its start and who reads that one */
    int64_t since_ms;
};

struct hr_shards {
    struct hr_family families[HR_FAMILIES];
    struct hr_expected expected[HR_EXPECTED];
    unsigned doubts; /* of the first of their families */
};

/* The face, or NULL when it is none (any more). */
const struct hr_cached *hr_family_face(struct hr_plan *plan, uint64_t face_id);
/* Of a face; NULL: none of its objects was begun. */
struct hr_family *hr_family_of(struct hr_plan *plan, const struct hr_cached *face);
struct hr_family *hr_family_by_key(struct hr_plan *plan, const struct hr_source_id *source, const char *key,
                                   uint32_t key_len);
struct hr_family *hr_family_find(struct hr_plan *plan, uint64_t id);
struct hr_family *hr_family_make(struct hr_plan *plan, const struct hr_cached *face); /* NULL on ENOMEM */
void hr_family_forget(struct hr_family *family);
/* NULL: not among the names that are known. */
struct hr_sibling *hr_family_sibling(struct hr_family *family, uint64_t name);
/* Its place in the ring of those begun, or HR_BEGUN_KEPT. */
unsigned hr_family_begun_at(const struct hr_family *family, uint64_t name);
struct hr_row hr_family_row(const struct hr_family *family);
/* Are there enough of them, in equal steps, to say which come next? */
bool hr_family_fits(const struct hr_family *family, const struct hr_row *row);
/* It was opened: what is expected after it may change. */
void hr_family_opened(struct hr_plan *plan, struct hr_family *family, struct hr_sibling *sibling);
/* Its names are there: marks those that were begun before. */
void hr_family_named(struct hr_plan *plan, struct hr_family *family);
struct hr_expected *hr_family_expected(struct hr_plan *plan, uint64_t family, uint64_t name);
void hr_family_drop(struct hr_expected *expected); /* nothing is expected of it any more */

#endif
