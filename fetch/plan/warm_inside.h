/* One warming: between warm.c, which walks what it was asked for, and warm_bring.c, which brings it. */
#ifndef HR_PLAN_WARM_INSIDE_H
#define HR_PLAN_WARM_INSIDE_H

#include "fetch/plan/inner.h"
#include "fetch/plan/warm.h"

/* One object on its way, in one piece or many. */
struct file {
    struct hr_warm *warm;
    uint64_t bytes;
    unsigned pieces; /* that are on their way, and one while more may come */
    int error;
    uint32_t path_len;
    char path[];
};

/* A large object whose cells are asked for one by one. */
struct cells {
    struct file *file;
    uint64_t face_id, at;
};

struct failed {
    int error;
    char path[];
};

struct hr_warm {
    struct hr_warm *prev, *next;
    struct hr_plan *plan;
    struct hr_plan_tree *tree;
    uint32_t id;
    struct item *items, *last; /* warm.c: paths */
    struct cells cells;        /* file NULL: none */
    unsigned pieces;           /* on their way */
    uint64_t charged_bytes;
    int64_t asked_ms;
    struct failed *failed[HR_WARM_FAILED_MAX];
    struct hr_warm_progress progress;
    bool closed, forgotten, feeding;
    void (*landed)(struct hr_warm *warm); /* a piece came or failed: there may be more to ask for */
};

/* True: the entry is in the cache, nothing is to be fetched. */
bool hr_warm_is_resident(struct hr_warm *warm, uint32_t number);
/* False: the rest would push out what was brought; the warming is full. */
bool hr_warm_take_room(struct hr_warm *warm, uint64_t bytes);
/* An entry; a small one has its room. One that is large may become warm->cells, later. */
void hr_warm_bring(struct hr_warm *warm, uint32_t number);
/* The next cell of warm->cells, which takes its room. */
void hr_warm_bring_cell(struct hr_warm *warm);
void hr_warm_leave_cells(struct hr_warm *warm); /* the rest of them is not brought */
void hr_warm_note_failed(struct hr_warm *warm, const char *path, uint32_t path_len, int error);

#endif
