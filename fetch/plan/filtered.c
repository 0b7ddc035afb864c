/* Names of a tree with a filter, asked for before there is an index: what is not admitted is not there;
 * whether a directory has anything in it only the listing tells. */
#include "fetch/plan/names.h"

#include <errno.h>

static void look_later(struct hr_plan_tree *tree, const char *path, uint32_t path_len,
                       const struct hr_asker *asker)
{
    struct hr_asker waits;
    int error = hr_later(tree, HR_OP_LOOK, path, path_len, asker, &waits);
    if (error < 0) {
        hr_answer_error(asker, error);
    } else {
        hr_listing_want(tree, &waits);
    }
}

bool hr_filtered_ask(struct hr_plan_tree *tree, enum hr_op op, const char *path, uint32_t path_len,
                     const struct hr_asker *asker)
{
    if (!tree->filter || tree->index.names || path_len == 0 || (op != HR_OP_LOOK && op != HR_OP_OPEN) ||
        hr_filter_admits(tree->filter, path, path_len)) {
        return false;
    }
    if (op == HR_OP_OPEN || !hr_filter_admits_below(tree->filter, path, path_len)) {
        hr_answer_error(asker, -ENOENT);
    } else if (hr_tree_list_mode(tree) == HR_LIST_DIRS || hr_tree_list_mode(tree) == HR_LIST_NONE) {
        return false;
    } else {
        look_later(tree, path, path_len, asker);
    }
    return true;
}
