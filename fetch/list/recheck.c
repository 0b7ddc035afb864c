#include "fetch/list/recheck.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "fetch/base/thread.h"
#include "fetch/list/publish.h"
#include "fetch/net/task.h"

struct hr_recheck {
    struct hr_recheck_options options;
    struct hr_task task;
    atomic_bool stop;
    int error; /* the thread's, until it is done */
};

static void check(void *owner)
{
    struct hr_recheck *recheck = owner;

    hr_thread_idle();
    recheck->error = hr_index_verify(recheck->options.index_dir, recheck->options.tree_id,
                                     recheck->options.gen, &recheck->stop);
}

static void checked(void *owner)
{
    struct hr_recheck *recheck = owner;

    recheck->options.done(recheck->options.owner, recheck->error);
}

int hr_recheck_start(const struct hr_recheck_options *options, struct hr_recheck **ret)
{
    struct hr_recheck *recheck = calloc(1, sizeof(*recheck));
    if (recheck == NULL) {
        return -ENOMEM;
    }
    recheck->options = *options;
    recheck->task = (struct hr_task){
        .loop = options->loop, .name = "hr-recheck", .work = check, .done = checked, .owner = recheck};
    int rc = hr_task_start(&recheck->task);
    if (rc < 0) {
        free(recheck);
        return rc;
    }
    *ret = recheck;
    return 0;
}

void hr_recheck_free(struct hr_recheck *recheck)
{
    if (recheck == NULL) {
        return;
    }
    atomic_store(&recheck->stop, true);
    hr_task_end(&recheck->task);
    free(recheck);
}
