/* The epoch after one that is known: predicted, made beside the main loop, and told to those who choose what
 * leaves the cache. Nothing is fetched by it. */
#include "fetch/plan/known_epoch.h"

#include "fetch/plan/victims.h"

static void count(struct hr_plan *plan, enum hr_predicted was)
{
    plan->stats.next_right += was == HR_PREDICTED_RIGHT;
    plan->stats.next_wrong += was == HR_PREDICTED_WRONG;
}

static bool is_same_epoch(const struct hr_epoch *epoch, const struct hr_epoch *other)
{
    return hr_dataset_is(&epoch->data, &other->data) &&
           hr_order_same_epoch(&epoch->follows.orders.orders[0], &other->follows.orders.orders[0]);
}

/* Ranks share what is made for one of them. */
static bool is_being_made(const struct hr_knowns *knowns, const struct hr_epoch *epoch)
{
    for (unsigned i = 0; i < HR_KNOWN_EPOCHS_MAX; i++) {
        const struct hr_epoch *other = &knowns->epochs[i];
        if (other->follows.making_id && is_same_epoch(epoch, other)) {
            return true;
        }
    }
    return false;
}

static void prepare(struct hr_plan *plan, struct hr_epoch *epoch)
{
    struct hr_knowns *knowns = plan->knowns;
    if (!epoch->follows.due || hr_victims_next(plan, epoch->id, &epoch->follows.orders, NULL)) {
        epoch->follows.due = false;
        return;
    }
    if (!is_being_made(knowns, epoch) &&
        hr_order_searcher_make(knowns->searcher, knowns->last_id + 1, &epoch->follows.orders) == 0) {
        epoch->follows.making_id = ++knowns->last_id;
    }
}

void hr_known_next(struct hr_plan *plan, struct hr_epoch *epoch)
{
    count(plan, hr_predict_known(&epoch->follows.predict, &epoch->order));
    if (epoch->follows.making_id) { /* of the epoch that this one comes in the place of */
        hr_order_searcher_cancel(plan->knowns->searcher, epoch->follows.making_id);
        epoch->follows.making_id = 0;
    }
    unsigned epochs = hr_victims_foresee(&epoch->order);
    epoch->follows.due =
        epochs > 0 && hr_predict_next(&epoch->follows.predict, epochs, &epoch->follows.orders);
    prepare(plan, epoch);
}

void hr_known_next_missed(struct hr_plan *plan, struct hr_epoch *epoch)
{
    count(plan, hr_predict_missed(&epoch->follows.predict));
}

bool hr_known_next_made(struct hr_plan *plan, struct hr_order_result *result)
{
    struct hr_epoch *epoch = NULL;
    for (unsigned i = 0; i < HR_KNOWN_EPOCHS_MAX && !epoch; i++) {
        struct hr_epoch *one = &plan->knowns->epochs[i];
        epoch = one->follows.making_id == result->id ? one : NULL;
    }
    if (epoch) {
        epoch->follows.making_id = 0;
        epoch->follows.due = false;
        if (result->permutation) {
            (void)hr_victims_next(plan, epoch->id, &epoch->follows.orders, result->permutation);
        }
    }
    for (unsigned i = 0; i < HR_KNOWN_EPOCHS_MAX;
         i++) { /* others wait for it, or for a place in the search */
        prepare(plan, &plan->knowns->epochs[i]);
    }
    return epoch != NULL;
}
