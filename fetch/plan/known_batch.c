/* What announced batches say of their epoch: what the known order has in their place, whether they are of the
 * next epoch already, or show of how many ranks this one is. */
#include "fetch/plan/known_epoch.h"

#include "fetch/plan/order_batches.h"

uint32_t hr_epoch_first(const struct hr_epoch *epoch, uint32_t number)
{
    return number == 0 ? 0 : number * epoch->batch_size - epoch->lead;
}

struct hr_known_batch hr_epoch_batch(const struct hr_epoch *epoch, const struct hr_known_batch *batch)
{
    struct hr_known_batch its = *batch;
    its.number -= epoch->first_number;
    if (its.number == 0) {
        uint32_t lead = epoch->lead < its.count ? epoch->lead : its.count;
        its.indices += lead;
        its.count -= lead;
    }
    return its;
}

/* Of a rank among others the first batch tells most: it has its place beside those that were
 * understood before it. */
void hr_epoch_take_notes(struct hr_epoch *epoch, const struct hr_known_batch *batch)
{
    bool late = batch->number == 0 && epoch->note_count > 0 && epoch->notes[0].number > 0;
    uint32_t others = batch->count < HR_ORDER_SEEN_MAX ? HR_ORDER_SEEN_MAX - batch->count : 0;
    epoch->note_count = late && epoch->note_count > others ? others : epoch->note_count;
    epoch->renoted |= late && epoch->state == HR_EPOCH_ASKED;
    epoch->batch_size = batch->count > epoch->batch_size ? batch->count : epoch->batch_size;
    for (uint32_t i = 0; i < batch->count; i++) {
        epoch->highest = batch->indices[i] > epoch->highest ? batch->indices[i] : epoch->highest;
        if (epoch->note_count < HR_ORDER_SEEN_MAX) {
            epoch->notes[epoch->note_count++] = (struct hr_epoch_note){batch->number, i, batch->indices[i]};
        }
    }
}

/* How many of its indices, from the first on, are what the known order has there. */
static uint32_t agreeing(const struct hr_epoch *epoch, const struct hr_known_batch *batch)
{
    uint64_t first = hr_epoch_first(epoch, batch->number), length = hr_order_length(&epoch->order);
    uint32_t i = 0;
    while (i < batch->count && first + i < length &&
           hr_order_at(&epoch->order, epoch->permutation, (uint32_t)first + i) == batch->indices[i]) {
        i++;
    }
    return i;
}

bool hr_epoch_is_as_known(const struct hr_epoch *epoch, const struct hr_known_batch *batch)
{
    return batch->count <= epoch->batch_size && agreeing(epoch, batch) == batch->count;
}

bool hr_epoch_is_over(const struct hr_epoch *epoch, const struct hr_known_batch *batch, uint32_t *ret_lead)
{
    uint64_t first = hr_epoch_first(epoch, batch->number), length = hr_order_length(&epoch->order);
    uint32_t lead = agreeing(epoch, batch), repeated = epoch->order.replicas > 1;
    bool dropped = lead == 0 && first + batch->count > length; /* drop_last */
    *ret_lead = lead;
    return first + lead + repeated >= length || dropped;
}

void hr_epoch_note_further(struct hr_epoch *epoch, const struct hr_known_batch *batch)
{
    uint32_t most = batch->count < HR_KNOWN_FURTHER ? batch->count : HR_KNOWN_FURTHER;
    if (batch->number > 0 && most >= epoch->further_count) {
        for (uint32_t i = 0; i < most; i++) {
            epoch->further[i] =
                (struct hr_order_seen){hr_epoch_first(epoch, batch->number) + i, batch->indices[i]};
        }
        epoch->further_count = most;
    }
}

void hr_epoch_take_turns(struct hr_epoch *epoch)
{
    struct hr_order *order = &epoch->order;
    struct hr_order_seen seen[1 + HR_KNOWN_FURTHER] = {{0, 0}};
    uint32_t length = hr_order_length(order);
    bool fits = true;
    for (unsigned i = 0; i < epoch->further_count; i++) {
        seen[1 + i] = epoch->further[i];
        fits &= seen[1 + i].position < length &&
                hr_order_at(order, epoch->permutation, seen[1 + i].position) == seen[1 + i].index;
    }
    if (!fits && epoch->batch_size > 1 && epoch->lead == 0 &&
        epoch->further_count >= hr_order_needed(order->n, HR_ORDER_BATCHES_RANKS_MAX)) {
        seen[0].index = hr_order_at(order, epoch->permutation, 0);
        (void)hr_order_batches_fit(order, epoch->permutation, epoch->batch_size, seen,
                                   1 + epoch->further_count);
    }
}

unsigned hr_epoch_agreeing_notes(const struct hr_epoch *epoch)
{
    uint32_t length = hr_order_length(&epoch->order);
    unsigned agreeing = 0;
    for (unsigned i = 0; i < epoch->note_count; i++) {
        const struct hr_epoch_note *note = &epoch->notes[i];
        uint64_t position = (uint64_t)hr_epoch_first(epoch, note->number) + note->at;
        agreeing += position < length &&
                    hr_order_at(&epoch->order, epoch->permutation, (uint32_t)position) == note->index;
    }
    return agreeing;
}
