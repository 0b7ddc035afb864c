/* Names that come out of a file instead of a listing: list=FILE of a map, and imports (an index from another
 * node, S3 Inventory, a list). Text is read in slices between the other turns of the loop, and sealed
 * beside it. */
#ifndef HR_PLAN_ADOPTING_H
#define HR_PLAN_ADOPTING_H

#include "fetch/list/textlist.h"
#include "fetch/plan/plan.h"

struct hr_plan_tree;

/* ---- list=FILE ---- */

/* The file is another than the one that the tree's names came from. */
bool hr_adopting_stale(const struct hr_plan_tree *tree);
/* The names are wanted: read, unless that is under way. As hr_listing_want. */
void hr_adopting_want(struct hr_plan_tree *tree, const struct hr_asker *asker);
/* LOOK and OPEN before they are there: the store is not asked what is there, they wait. True: answered, or
 * will be. */
bool hr_adopting_ask(struct hr_plan_tree *tree, enum hr_op op, const char *path, uint32_t path_len,
                     const struct hr_asker *asker);

/* ---- imports ---- */

/* For people, of an exported index whose layout or first line is not ours. */
#define HR_ADOPTING_OTHER_VERSION                                                                            \
    "it was made by another version of headrace: export it again with this one (`headrace index export`), "  \
    "or list the map here (`headrace refresh`)"

struct hr_import {
    const char *const *files; /* absolute */
    unsigned file_count;
    const struct hr_textlist_columns *columns; /* NULL: told from the first row */
    int64_t listed_ns; /* what the names hold for; 0: when the oldest file was written */
};
/* 0: on its way, plan_tree.import_end tells the end; -EBUSY: another one is; -EINVAL: list=FILE names the
 * tree's file; -errno with one line. */
int hr_adopting_import(struct hr_plan *plan, uint32_t tree, const struct hr_import *import,
                       char ret_message[HR_MESSAGE_MAX]);
/* A names file of another daemon, whose bytes begin at `offset` of an open file. At once; 0 or -errno with
 * one line. fd is the caller's. */
int hr_adopting_index(struct hr_plan *plan, uint32_t tree, int fd, uint64_t offset,
                      char ret_message[HR_MESSAGE_MAX]);
void hr_adopting_free(struct hr_plan_tree *tree); /* ends what runs */
/* A thread writes the names that were read: no time to sweep the tree's files. */
bool hr_adopting_sealing(const struct hr_plan_tree *tree);

/* ---- for commands ---- */

/* How far a tree's names are. */
struct hr_names_state {
    bool listing, importing;
    uint64_t list_ends, import_ends; /* so many ended, the last one so: */
    int list_error, import_error;
    const char *list_message, *import_message;
    uint64_t keys, pages, probes; /* of what runs */
    unsigned lanes;               /* most so far */
    uint64_t outside, gone;       /* rows that the last reading left out */
    /* What is published; "" and 0 when nothing is. */
    char path[4096];
    uint32_t gen;
    uint64_t objects, bytes, unknown;
    int64_t listed_ns;
    const char *filter_id;
};
int hr_plan_names_state(struct hr_plan *plan, uint32_t tree, struct hr_names_state *ret); /* 0, -EINVAL */
/* Starts a listing unless there are names or one runs. */
int hr_plan_names_want(struct hr_plan *plan, uint32_t tree);
/* Lists again now; *ret_ends is the number of list_ends that it ends with. */
int hr_plan_names_again(struct hr_plan *plan, uint32_t tree, uint64_t *ret_ends);

#endif
