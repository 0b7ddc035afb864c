/* An index of an earlier life is used at once and checked behind: names come without waiting for its
 * millions, and a file that the disk has damaged is left as soon as that is known. */
#include "fetch/plan/names.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fetch/list/recheck.h"
#include "fetch/plan/adopting.h"
#include "fetch/plan/replay.h"

/* To programs there is no index then, as before the first one: they ask by name, or wait for the listing. */
static void drop(struct hr_plan_tree *tree)
{
    static const struct hr_names no_names = {.entry_count = 1};
    static const struct hr_entry no_entry = {.kind = HR_KIND_NONE};
    const struct hr_index none = {.names = &no_names, .entries = &no_entry};
    uint32_t gen = tree->index.names->gen;

    hr_log(HR_LOG_ERROR, "index damaged on disk bucket=%s prefix=%s gen=%u: removed, listed again",
           hr_store_bucket(tree->store), tree->shared->prefix, gen);
    atomic_store_explicit(&tree->shared->gen, 0, memory_order_release);
    hr_tree_drain_uses(tree);
    hr_replay_relist(tree, &none);
    hr_listing_retire(tree);
    hr_index_remove(tree->plan->index_dir, tree->id, gen);
    syscall(SYS_futex, &tree->shared->gen, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    hr_listing_want(tree, NULL);
}

static void checked(void *owner, int error)
{
    struct hr_plan_tree *tree = owner;

    hr_tree_recheck_end(tree);
    if (error == -EBADMSG) {
        drop(tree);
        return;
    }
    if (!tree->sealer &&
        !hr_adopting_sealing(tree)) { /* what is sealed meanwhile sweeps when it is published */
        hr_index_sweep(tree->plan->index_dir, tree->id, tree->index.names->gen, tree->plan->options.boot);
    }
    if (error < 0) {
        hr_log(HR_LOG_WARNING, "index not checked bucket=%s prefix=%s: %s", hr_store_bucket(tree->store),
               tree->shared->prefix, strerror(-error));
    }
}

void hr_tree_recheck(struct hr_plan_tree *tree)
{
    struct hr_recheck_options options = {
        .loop = tree->plan->options.loop,
        .index_dir = tree->plan->index_dir,
        .tree_id = tree->id,
        .gen = tree->index.names->gen,
        .done = checked,
        .owner = tree,
    };
    int error = hr_recheck_start(&options, &tree->recheck);
    if (error < 0) {
        checked(tree, error);
    }
}

void hr_tree_recheck_end(struct hr_plan_tree *tree)
{
    hr_recheck_free(tree->recheck);
    tree->recheck = NULL;
}
