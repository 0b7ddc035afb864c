/* Which orders the next epochs of ranks that share them have: the epoch, if one sets it, is added to the
 * seed; else the order stays, or one generator goes on. The two that were known last tell which. A prediction
 * that was wrong ends this until two would have been right. Other samplers read everything in each epoch, of
 * which no order lets a cache hit more than what it holds at its beginning. Pure. */
#ifndef HR_PLAN_PREDICT_H
#define HR_PLAN_PREDICT_H

#include <stdbool.h>

#include "fetch/plan/order_torch.h"

struct hr_predict {
    struct hr_order last, next; /* next: what would come, believed or not */
    bool has_last, has_next;
    bool believed; /* what is predicted now was acted upon */
    unsigned doubts;
};

#define HR_PREDICT_MOST 4 /* epochs; four nodes that cache a quarter gain no more by others */

/* One epoch after the other. */
struct hr_orders {
    struct hr_order orders[HR_PREDICT_MOST];
    unsigned count;
};

enum hr_predicted { HR_PREDICTED_NOTHING, HR_PREDICTED_RIGHT, HR_PREDICTED_WRONG };

/* An epoch's order is known. Was it the one that was predicted and believed? */
enum hr_predicted hr_predict_known(struct hr_predict *predict, const struct hr_order *order);
/* The epoch that follows has an order that nobody knows. */
enum hr_predicted hr_predict_missed(struct hr_predict *predict);
/* True: the next epochs' orders, at most `most` of them (1 to HR_PREDICT_MOST). */
bool hr_predict_next(struct hr_predict *predict, unsigned most, struct hr_orders *ret);

#endif
