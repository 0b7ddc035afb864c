/* Orders without announcements: a program that shuffles and opens by itself (num_workers=0) opens the files
 * of its set in an order that the first ten tell, like indices that a loader announces. What it opened comes
 * out of the notes in the order of opening; several programs at once mix theirs, which no search takes for an
 * order.
 *
 * In an epoch each file is opened once: one that comes again begins the next. */
#include "fetch/plan/inner.h"

#include <stdlib.h>

#include "fetch/plan/known.h"
#include "fetch/plan/order_thread.h"
#include "fetch/plan/ranks.h"

#define FIRST_OPENS 10 /* as many as a search needs (known.c) */
#define ROUND_SHIFT 4  /* in the marks of an entry: the round in which it was opened last */
#define ROUNDS 15
#define OPENED_LOADER UINT32_MAX /* no process */

struct hr_opened {
    uint32_t gen;
    uint32_t last; /* entry */
    unsigned round;
    uint32_t count; /* opens of this round */
    uint32_t first[FIRST_OPENS];
    uint64_t base; /* rank of the set's first file, once there are so many */
};

static struct hr_opened *opened_of(struct hr_plan_tree *tree)
{
    if (!tree->opened && (tree->opened = calloc(1, sizeof *tree->opened))) {
        tree->opened->gen = tree->index.names->gen - 1;
    }
    struct hr_opened *opened = tree->opened;
    if (opened && opened->gen != tree->index.names->gen) {
        *opened = (struct hr_opened){.gen = tree->index.names->gen, .last = UINT32_MAX, .round = 1};
    }
    return opened;
}

/* The deepest directory that both are in or are. Parents have lower numbers. */
static uint32_t common_dir(const struct hr_index *index, uint32_t one, uint32_t other)
{
    while (one != other) {
        uint32_t *deeper = one > other ? &one : &other;
        if (index->dirs[*deeper].parent >= *deeper) {
            return 0;
        }
        *deeper = index->dirs[*deeper].parent;
    }
    return one;
}

static void tell(struct hr_plan_tree *tree, uint32_t number, uint32_t entry)
{
    uint32_t index = (uint32_t)(hr_ranks_of(tree->ranks, entry) - tree->opened->base);
    struct hr_known_batch batch = {.tree = tree,
                                   .base = tree->opened->base,
                                   .loader = OPENED_LOADER,
                                   .number = number,
                                   .count = 1,
                                   .indices = &index};
    hr_known_note(tree->plan, &batch);
}

/* The set is the directory that holds the first of it. */
static void tell_first(struct hr_plan_tree *tree)
{
    struct hr_opened *opened = tree->opened;
    const struct hr_index *index = &tree->index;
    if (!tree->ranks && hr_ranks_build(index, &tree->ranks) < 0) {
        return;
    }
    uint32_t dir = hr_index_parent(index, opened->first[0]);
    for (unsigned i = 1; i < FIRST_OPENS; i++) {
        dir = common_dir(index, dir, hr_index_parent(index, opened->first[i]));
    }
    opened->base = hr_ranks_of(tree->ranks, index->dirs[dir].first);
    for (unsigned i = 0; i < FIRST_OPENS; i++) {
        tell(tree, i, opened->first[i]);
    }
}

void hr_opened_note(struct hr_plan_tree *tree, uint32_t entry)
{
    const struct hr_plan_options *options = &tree->plan->options;
    if (!options->lookahead || options->order_search == HR_ORDER_MODE_OFF || !tree->settings.prefetch ||
        hr_lookahead_guides(tree)) {
        return;
    }
    struct hr_opened *opened = opened_of(tree);
    if (!opened || entry == opened->last) {
        return;
    }
    opened->last = entry;
    if (tree->marks[entry] >> ROUND_SHIFT == opened->round) {
        opened->round = opened->round % ROUNDS + 1;
        opened->count = 0;
    }
    uint8_t low = tree->marks[entry] & ((1u << ROUND_SHIFT) - 1);
    tree->marks[entry] = (uint8_t)(opened->round << ROUND_SHIFT | low);
    if (opened->count < FIRST_OPENS) {
        opened->first[opened->count++] = entry;
        if (opened->count == FIRST_OPENS) {
            tell_first(tree);
        }
    } else if (tree->ranks && hr_ranks_of(tree->ranks, entry) >= opened->base) {
        tell(tree, opened->count++, entry);
    }
}

void hr_opened_free(struct hr_plan_tree *tree)
{
    free(tree->opened);
    tree->opened = NULL;
}
