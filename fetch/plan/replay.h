/* Replay: an order that was recorded (recording.h) is what a job will open, so it is asked for in that order,
 * ahead of the job by at most what the sweep may be ahead and half of the cache. Opens out of their order
 * move it or are misses; a job that does something else ends it. Costs requests when it is wrong, never a
 * byte. Main loop. */
#ifndef HR_PLAN_REPLAY_H
#define HR_PLAN_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

struct hr_plan;
struct hr_plan_tree;
struct hr_index;
struct hr_replay;

/* Names are added, then it starts. -ENOMEM. */
int hr_replay_new(struct hr_plan *plan, struct hr_replay **ret);
/* 0, also for a name that the index does not have (any more), which is counted; -EAGAIN: the tree has no
 * index yet (ask for it: LIST); -EINVAL: no such tree; -ENOMEM. */
int hr_replay_add(struct hr_replay *replay, uint32_t tree, const char *path, uint32_t path_len);
int hr_replay_start(struct hr_replay *replay); /* 0 or -ENOMEM */
void hr_replay_end(struct hr_replay *replay);
/* CLOCK_MONOTONIC ms of the last open that it was told of. */
int64_t hr_replay_last_ms(const struct hr_replay *replay);

/* An entry was opened. */
void hr_replay_opened(struct hr_plan_tree *tree, uint32_t entry);
/* The tree's index is about to become `fresh`. */
void hr_replay_relist(struct hr_plan_tree *tree, const struct hr_index *fresh);
/* Is there one for this tree: nothing else needs to be guessed. */
bool hr_replay_leads(const struct hr_plan_tree *tree);
/* There may be room for more. */
void hr_replay_advance(struct hr_plan *plan);

#endif
