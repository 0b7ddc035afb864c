/* Names of directories that were read one at a time (dirs.c), kept for further readers and for questions
 * about single names until a listing is published. Main loop. */
#ifndef HR_PLAN_KNOWN_DIRS_H
#define HR_PLAN_KNOWN_DIRS_H

#include "fetch/plan/names.h"

/* The directory, as far as `revalidate` still believes it; NULL: not read, or too long ago. */
struct hr_known_dir *hr_known_dir_find(struct hr_plan_tree *tree, const char *path, uint32_t path_len);
/* A program reads it: among those that go, it is the last. The number of its names file. */
uint32_t hr_known_dir_use(struct hr_known_dir *dir);
const struct hr_index *hr_known_dir_index(const struct hr_known_dir *dir);
/* Read at told_ms; in the place of what was known of it. The index and its names file are taken over, and go
 * with it. 0, or -ENOMEM: they are the caller's still. */
int hr_known_dir_add(struct hr_plan_tree *tree, const char *path, uint32_t path_len,
                     const struct hr_index *index, uint32_t number, int64_t told_ms);
/* Does a directory that was read tell what `path` is? *ret_told_ms: when it was read. */
bool hr_known_dirs_tell(struct hr_plan_tree *tree, const char *path, uint32_t path_len, struct hr_name *ret,
                        int64_t *ret_told_ms);
void hr_known_dirs_forget(struct hr_plan_tree *tree); /* all of the tree's */

#endif
