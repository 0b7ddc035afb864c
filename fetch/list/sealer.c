#include "fetch/list/sealer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "fetch/net/task.h"

struct hr_sealer {
    struct hr_sealer_options options;
    struct hr_task task;
    bool told; /* the owner has what came of it */
    /* The thread's, until it is done: */
    int error;
    struct hr_index index;
};

static void publish(void *owner)
{
    struct hr_sealer *sealer = owner;
    const struct hr_sealer_options *options = &sealer->options;

    sealer->error = hr_builder_publish(options->builder, options->index_dir, options->tree_id, options->gen,
                                       options->listed_ns, &sealer->index);
}

static void published(void *owner)
{
    struct hr_sealer *sealer = owner;

    sealer->told = true;
    sealer->options.done(sealer->options.owner, sealer->error, &sealer->index, sealer->options.builder);
}

int hr_sealer_start(const struct hr_sealer_options *options, struct hr_sealer **ret)
{
    struct hr_sealer *sealer = calloc(1, sizeof(*sealer));
    if (sealer == NULL) {
        return -ENOMEM;
    }
    sealer->options = *options;
    sealer->task = (struct hr_task){
        .loop = options->loop, .name = "hr-sealer", .work = publish, .done = published, .owner = sealer};
    int rc = hr_task_start(&sealer->task);
    if (rc < 0) {
        free(sealer);
        return rc;
    }
    *ret = sealer;
    return 0;
}

void hr_sealer_free(struct hr_sealer *sealer)
{
    if (sealer == NULL) {
        return;
    }
    hr_task_end(&sealer->task);
    if (!sealer->told && sealer->error == 0) {
        hr_index_unmap(&sealer->index);
        hr_index_remove(sealer->options.index_dir, sealer->options.tree_id, sealer->options.gen);
    }
    hr_builder_free(sealer->options.builder);
    free(sealer);
}
