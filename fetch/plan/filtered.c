/* Names of a tree with a filter, asked for before there is an index: what is not admitted is not there;
 * whether a directory has anything in it only the listing tells. */
#include "fetch/plan/inner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A LOOK that waits for the listing. */
struct later {
    struct hr_plan *plan;
    struct hr_asker asker;
    uint32_t tree;
    uint32_t path_len;
    char path[];
};

static void listed(void *owner, uint32_t ticket, const struct hr_answer *answer)
{
    struct later *later = owner;
    struct hr_asker asker = later->asker;
    (void)ticket;
    if (answer->error < 0) {
        hr_answer_error(&asker, answer->error);
    } else {
        hr_plan_ask(later->plan, HR_OP_LOOK, later->tree, later->path, later->path_len, &asker);
    }
    free(later);
}

static void look_later(struct hr_plan_tree *tree, const char *path, uint32_t path_len,
                       const struct hr_asker *asker)
{
    struct later *later = calloc(1, sizeof *later + path_len);
    if (!later) {
        hr_answer_error(asker, -ENOMEM);
        return;
    }
    later->plan = tree->plan;
    later->asker = *asker;
    later->tree = tree->number;
    later->path_len = path_len;
    memcpy(later->path, path, path_len);
    struct hr_asker waits = {.fn = listed, .owner = later};
    hr_listing_want(tree, &waits);
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
