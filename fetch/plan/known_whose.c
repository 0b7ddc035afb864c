/* Whose batch it is: a process may go through one data set by several loaders, one after the other, one
 * inside the other (an evaluation while training), or side by side. */
#include "fetch/plan/known_epoch.h"

#include "fetch/plan/victims.h"

static bool is_its(const struct hr_epoch *epoch, const struct hr_known_batch *batch)
{
    return epoch->id && !epoch->opens && epoch->loader == batch->loader &&
           hr_dataset_is(&epoch->data, &batch->data) && hr_dataset_is_current(&epoch->data);
}

/* Its indices are what the known order has there. */
static bool knows(const struct hr_epoch *epoch, const struct hr_known_batch *batch)
{
    if (epoch->state != HR_EPOCH_KNOWN || batch->number < epoch->first_number) {
        return false;
    }
    struct hr_known_batch its = hr_epoch_batch(epoch, batch);
    return its.count > 0 && hr_epoch_is_as_known(epoch, &its);
}

/* ...and did not come yet. */
static bool awaits(const struct hr_epoch *epoch, const struct hr_known_batch *batch)
{
    return knows(epoch, batch) && !hr_epoch_was_noted(epoch, batch->number - epoch->first_number);
}

/* All of it was announced, but what a loader may drop. */
static bool is_read(const struct hr_epoch *epoch)
{
    return epoch->state == HR_EPOCH_KNOWN &&
           (uint64_t)hr_epoch_first(epoch, epoch->last_number + 1) + epoch->batch_size >
               hr_order_length(&epoch->order);
}

struct hr_epoch *hr_epoch_of_batch(struct hr_knowns *knowns, const struct hr_known_batch *batch,
                                   bool *ret_anew)
{
    struct hr_epoch *own = NULL, *awaiting = NULL, *before = NULL, *read = NULL;
    for (unsigned i = 0; i < HR_KNOWN_EPOCHS_MAX; i++) {
        struct hr_epoch *epoch = &knowns->epochs[i];
        if (!is_its(epoch, batch)) {
            continue;
        }
        own = epoch->iteration == batch->iteration ? epoch : own;
        awaiting = awaits(epoch, batch) ? epoch : awaiting;
        before = batch->before && epoch->iteration == batch->before ? epoch : before;
        read = is_read(epoch) && (!read || epoch->heard > read->heard) ? epoch : read;
    }
    /* Which queue is of which iteration is concluded from numbers: indices say more. */
    own = own && (knows(own, batch) || !awaiting) ? own : awaiting;
    *ret_anew = !own;
    return own ? own : before ? before : read;
}

static bool is_apart(const struct hr_epoch *one, const struct hr_epoch *other)
{
    bool apart = true;
    for (unsigned i = 0; i < HR_KNOWN_FIRST_NUMBERS / 64; i++) {
        apart = apart && (one->numbers[i] & other->numbers[i]) == 0;
    }
    return apart;
}

struct hr_epoch *hr_epoch_rest_of(struct hr_knowns *knowns, const struct hr_epoch *epoch)
{
    for (unsigned i = 0; i < HR_KNOWN_EPOCHS_MAX; i++) {
        struct hr_epoch *one = &knowns->epochs[i];
        if (one != epoch && one->state == HR_EPOCH_KNOWN && !one->opens && one->loader == epoch->loader &&
            hr_dataset_is(&one->data, &epoch->data) && one->order.rank == epoch->order.rank &&
            hr_order_same_epoch(&one->order, &epoch->order) && one->first_number == epoch->first_number &&
            one->lead == epoch->lead && is_apart(one, epoch)) {
            return one;
        }
    }
    return NULL;
}

void hr_epoch_rest_others(struct hr_plan *plan, const struct hr_epoch *begun)
{
    for (unsigned i = 0; i < HR_KNOWN_EPOCHS_MAX; i++) {
        struct hr_epoch *epoch = &plan->knowns->epochs[i];
        if (epoch->id && !epoch->opens && epoch->loader == begun->loader &&
            epoch->iteration != begun->iteration) {
            epoch->rests = true;
            hr_victims_rest(plan, epoch->id);
        }
    }
}
