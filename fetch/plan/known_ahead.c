/* Known epochs: what of them is asked for ahead of the announcements, as far as the bounds go. */
#include <math.h>

#include "fetch/plan/known_epoch.h"

#define QUEUE_MAX 4096    /* wants that wait: the rest of an epoch leaves room for what is announced */
#define PACED_MAX 64      /* ...while a first batch is made, and its workers wait */
#define ADVANCE_MAX 16384 /* entries looked at in one go: the loop must not stall */
/* A guess costs at most a page in the mean, so what is asked for by it grows with what speaks for it, up to
 * the most for one that is still guessed; from so many bits on it is taken for certain. */
#define GUESS_COST_BYTES 4096.0
#define GUESS_BYTES_MAX (64ull << 20)
#define CERTAIN_BITS 20

/* False: the bound is reached, this one comes later. What is there already is touched when it is announced:
 * in order of need and this early, what is needed first would leave the cache first. */
static bool bring_file(struct hr_plan *plan, struct hr_epoch *epoch, uint32_t entry)
{
    struct hr_plan_tree *tree = epoch->data.tree;
    uint64_t before = tree->swept_bytes, size = tree->index.entries[entry].size;
    uint32_t word = atomic_load_explicit(&tree->states->states[entry].word, memory_order_relaxed);
    if (HR_STATE_KIND(word) != HR_STATE_ABSENT || size > plan->options.small_max_bytes) {
        return true;
    }
    (void)hr_sweep_ahead(tree, entry, HR_REASON_LOOKAHEAD);
    if (tree->swept_bytes != before) {
        plan->stats.known_ahead++;
        epoch->ahead_bytes += size;
        return true;
    }
    char path[HR_KEY_MAX + 1];
    int len = hr_index_path(&tree->index, entry, path, sizeof path);
    return size == 0 || len < 0 || hr_want_find(tree, path, (uint32_t)len);
}

static bool bring(struct hr_plan *plan, struct hr_epoch *epoch, uint32_t index)
{
    bool room = true;
    for (unsigned file = 0; file < hr_dataset_files(&epoch->data) && room; file++) {
        uint32_t entry = hr_dataset_entry(&epoch->data, index, file);
        room = entry == HR_TABLE_NONE || bring_file(plan, epoch, entry);
    }
    return room;
}

double hr_epoch_spare_bits(const struct hr_epoch *epoch)
{
    return (double)epoch->agreed * log2(epoch->order.n) - log2(epoch->candidates);
}

static uint64_t guess_bytes_max(const struct hr_epoch *epoch)
{
    double spare = hr_epoch_spare_bits(epoch),
           bytes = GUESS_COST_BYTES * exp2(spare < CERTAIN_BITS ? spare : 0);
    return spare >= CERTAIN_BITS ? UINT64_MAX : bytes < GUESS_BYTES_MAX ? (uint64_t)bytes : GUESS_BYTES_MAX;
}

void hr_epoch_advance(struct hr_plan *plan, struct hr_epoch *epoch)
{
    uint32_t length = hr_order_length(&epoch->order);
    uint64_t bytes_max = guess_bytes_max(epoch);
    if (plan->ending || epoch->rests || !hr_dataset_is_current(&epoch->data) ||
        !epoch->data.tree->settings.prefetch) {
        return;
    }
    unsigned queue_max = hr_pace_holds(plan) ? 0 : hr_pace_is_on(plan) ? PACED_MAX : QUEUE_MAX;
    for (unsigned i = 0; i < ADVANCE_MAX && plan->stats.queued < queue_max; i++) {
        epoch->next = hr_epoch_unannounced(epoch, epoch->next);
        if (epoch->next >= length) {
            return;
        }
        if (epoch->ahead_bytes >= bytes_max) {
            hr_sweep_await_room(plan);
            return;
        }
        if (!bring(plan, epoch, hr_order_at(&epoch->order, epoch->permutation, epoch->next))) {
            return;
        }
        epoch->next++;
    }
}

void hr_known_advance(struct hr_plan *plan)
{
    for (unsigned i = 0; plan->knowns && i < HR_KNOWN_EPOCHS_MAX; i++) {
        if (plan->knowns->epochs[i].state == HR_EPOCH_KNOWN) {
            hr_epoch_advance(plan, &plan->knowns->epochs[i]);
        }
    }
}

void hr_epoch_abandon(struct hr_epoch *epoch)
{
    struct hr_plan_tree *tree = epoch->data.tree;
    bool known = epoch->state == HR_EPOCH_KNOWN && hr_dataset_is_current(&epoch->data);
    for (uint32_t at = 0; known && at < epoch->next; at++) {
        uint32_t index = hr_order_at(&epoch->order, epoch->permutation, at);
        for (unsigned file = 0; file < hr_dataset_files(&epoch->data); file++) {
            uint32_t entry = hr_dataset_entry(&epoch->data, index, file);
            if (entry != HR_TABLE_NONE &&
                (tree->marks[entry] & (HR_ENTRY_SWEPT | HR_ENTRY_ANNOUNCED)) == HR_ENTRY_SWEPT) {
                hr_sweep_abandon(tree, entry);
            }
        }
    }
}
