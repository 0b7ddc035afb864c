/* Large objects of one folder and suffix, as training sets and logs are cut up: how they were read so far
 * tells how much comes along when the next one is begun; and where they are opened in the listing's order, by
 * one program or by workers that take turns, a window that reaches the end of one goes on into the one that
 * is opened next. Figures: shards_ahead, shards_used, shards_wrong. Main loop. */
#ifndef HR_PLAN_SHARDS_H
#define HR_PLAN_SHARDS_H

#include "fetch/plan/inner.h"

struct hr_shard_opening {
    bool trusted;    /* those that were begun before it were read on */
    bool read_whole; /* so were most of the others */
    bool stream;     /* its name says that it is read from front to back */
};

/* It is read from its start. */
void hr_shard_begun(struct hr_plan *plan, uint64_t face_id, struct hr_shard_opening *ret);
/* Its reader went on past what it had asked for first... */
void hr_shard_read_on(struct hr_plan *plan, uint64_t face_id);
/* ...to its end. */
void hr_shard_read_whole(struct hr_plan *plan, uint64_t face_id);
/* The window of one that reads it reaches so many cells beyond its end, which is `ahead` cells from there. */
void hr_shard_ahead(struct hr_plan_tree *tree, uint64_t face_id, unsigned ahead, unsigned cells);
struct hr_name;
/* A name of such a folder that no index tells, and no answer about it alone: is it among those that one LIST
 * told? */
bool hr_shard_told(struct hr_plan_tree *tree, const char *path, uint32_t path_len, struct hr_name *ret);
void hr_shards_free(struct hr_plan *plan);

#endif
