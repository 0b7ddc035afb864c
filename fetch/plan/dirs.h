/* Directories that are read before there is an index: each listed by itself (delimiter), published as a small
 * names file of its own, and remembered (known_dirs.h). */
#ifndef HR_PLAN_DIRS_H
#define HR_PLAN_DIRS_H

#include "fetch/plan/inner.h"

/* HR_OP_DIR. Answered with file_id: the number of the directory's names file; 0: there is an index. */
void hr_dir_ask(struct hr_plan_tree *tree, const char *path, uint32_t path_len, const struct hr_asker *asker);

/* The whole listing has more pages, has ended well, or has not. */
void hr_dirs_more(struct hr_plan_tree *tree);
void hr_dirs_listed(struct hr_plan_tree *tree);
void hr_dirs_unlisted(struct hr_plan_tree *tree, int error);
void hr_dirs_free(struct hr_plan_tree *tree);

#endif
