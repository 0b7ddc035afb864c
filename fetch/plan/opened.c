/* Orders without announcements: a program that shuffles and opens by itself (num_workers=0) opens the files
 * of its set in an order that the first few tell, like indices that a loader announces. What it waits for is
 * noted when it asks, one round trip earlier than when it has it; what the cache had comes out of the notes,
 * in the order of opening. Several programs at once mix theirs, which no search takes for an order.
 *
 * In an epoch each file is opened once: one that comes again begins the next. */
#include "fetch/plan/inner.h"

#include <stdlib.h>

#include "fetch/plan/known.h"
#include "fetch/plan/order_thread.h"
#include "fetch/plan/ranks.h"
#include "fetch/plan/replay.h"

#define ROUND_SHIFT 5 /* in the marks of an entry: the round in which it was opened last */
#define ROUNDS 7
#define SHUFFLE_SPAN 8 /* entries an open: who picks from fewer looks around in one place */

struct hr_opened {
    uint32_t gen;
    uint32_t last; /* entry */
    unsigned round;
    uint32_t count, rises, falls; /* opens, and those behind and before the last in the listing */
    uint32_t lowest, highest;     /* entry */
};

static struct hr_opened *opened_of(struct hr_plan_tree *tree)
{
    if (!tree->opened && (tree->opened = calloc(1, sizeof *tree->opened))) {
        tree->opened->gen = tree->index.names->gen - 1;
    }
    struct hr_opened *opened = tree->opened;
    if (opened && opened->gen != tree->index.names->gen) {
        *opened = (struct hr_opened){
            .gen = tree->index.names->gen, .last = UINT32_MAX, .round = 1, .lowest = UINT32_MAX};
    }
    return opened;
}

static bool is_of_use(const struct hr_plan_tree *tree)
{
    const struct hr_plan_options *options = &tree->plan->options;
    return options->lookahead && options->order_search != HR_ORDER_MODE_OFF && tree->settings.prefetch &&
           tree->index.names && !hr_lookahead_guides(tree) && !hr_replay_leads(tree);
}

static void next_round(struct hr_opened *opened)
{
    opened->round = opened->round % ROUNDS + 1;
}

/* Neither forwards nor backwards, and from all over the place. */
static void look_for_shuffle(struct hr_plan_tree *tree, struct hr_opened *opened, uint32_t entry)
{
    opened->rises += opened->count > 0 && entry > opened->last;
    opened->falls += opened->count > 0 && entry < opened->last;
    opened->lowest = entry < opened->lowest ? entry : opened->lowest;
    opened->highest = entry > opened->highest ? entry : opened->highest;
    opened->count++;
    if (opened->rises > 0 && opened->falls > 0 &&
        opened->highest - opened->lowest >= SHUFFLE_SPAN * opened->count) {
        hr_sweep_shuffled(tree, opened->lowest, opened->highest);
    }
}

static void note(struct hr_plan_tree *tree, struct hr_opened *opened, uint32_t entry)
{
    uint8_t *mark = &tree->marks[entry];
    bool again = *mark >> ROUND_SHIFT == opened->round;
    look_for_shuffle(tree, opened, entry);
    opened->last = entry;
    if (!tree->ranks && hr_ranks_build(&tree->index, &tree->ranks) < 0) {
        return;
    }
    bool anew = hr_known_open(tree, (uint32_t)hr_ranks_of(tree->ranks, entry), again);
    if (again || anew) {
        next_round(opened);
    }
    *mark = (uint8_t)(opened->round << ROUND_SHIFT | (*mark & ((1u << ROUND_SHIFT) - 1)));
}

void hr_opened_asked(struct hr_plan_tree *tree, uint32_t entry)
{
    struct hr_opened *opened = is_of_use(tree) ? opened_of(tree) : NULL;
    if (!opened) {
        return;
    }
    hr_tree_drain_uses(tree); /* what was opened before it comes before it */
    bool awaited = tree->marks[entry] & HR_ENTRY_AWAITED;
    if (awaited && tree->marks[entry] >> ROUND_SHIFT == opened->round) {
        return; /* it asks again, or somebody else does */
    }
    tree->marks[entry] |= HR_ENTRY_AWAITED;
    note(tree, opened, entry);
}

void hr_opened_note(struct hr_plan_tree *tree, uint32_t entry)
{
    bool awaited = tree->marks[entry] & HR_ENTRY_AWAITED;
    tree->marks[entry] &= (uint8_t)~HR_ENTRY_AWAITED;
    struct hr_opened *opened = is_of_use(tree) ? opened_of(tree) : NULL;
    if (opened && !awaited && entry != opened->last) {
        note(tree, opened, entry);
    }
}

void hr_opened_free(struct hr_plan_tree *tree)
{
    free(tree->opened);
    tree->opened = NULL;
}
