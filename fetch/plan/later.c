/* A question about a name that waits for the names of its tree, and is then asked again. */
#include "fetch/plan/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct later {
    struct hr_plan *plan;
    struct hr_asker asker;
    enum hr_op op;
    uint32_t tree;
    uint32_t path_len;
    char path[];
};

static void names_there(void *owner, uint32_t ticket, const struct hr_answer *answer)
{
    struct later *later = owner;
    struct hr_asker asker = later->asker;
    (void)ticket;
    if (answer->error < 0) {
        hr_answer_error(&asker, answer->error);
    } else {
        hr_plan_ask(later->plan, later->op, later->tree, later->path, later->path_len, &asker);
    }
    free(later);
}

int hr_later(const struct hr_plan_tree *tree, enum hr_op op, const char *path, uint32_t path_len,
             const struct hr_asker *asker, struct hr_asker *ret)
{
    struct later *later = calloc(1, sizeof *later + path_len);
    if (!later) {
        return -ENOMEM;
    }
    *later = (struct later){
        .plan = tree->plan, .asker = *asker, .op = op, .tree = tree->number, .path_len = path_len};
    memcpy(later->path, path, path_len);
    *ret = (struct hr_asker){.fn = names_there, .owner = later};
    return 0;
}
