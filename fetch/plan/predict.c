#include "fetch/plan/predict.h"

#include <string.h>

#define DOUBTS 2 /* predictions that must be right before one is believed again */

/* By how much the seed grows, or what was drawn of one that stays, as far as one epoch or two tell; false: by
 * something else. */
static bool follow(const struct hr_predict *predict, const struct hr_order *order, struct hr_order *ret)
{
    struct hr_order same = predict->last;
    bool goes_on = same.seed == order->seed && order->skip > same.skip;
    same.seed = order->seed;
    same.skip = goes_on ? order->skip : same.skip;
    bool second = predict->has_last && memcmp(&same, order, sizeof same) == 0;
    uint32_t step = second ? order->seed - predict->last.seed : 1;
    *ret = *order;
    ret->seed += step;
    ret->skip += second ? order->skip - predict->last.skip : 0;
    return order->replicas > 1 && step <= 1;
}

static enum hr_predicted judge(struct hr_predict *predict, bool right)
{
    enum hr_predicted was = !predict->believed ? HR_PREDICTED_NOTHING
                            : right            ? HR_PREDICTED_RIGHT
                                               : HR_PREDICTED_WRONG;
    if (predict->has_next && !right) {
        predict->doubts = DOUBTS;
    } else if (predict->has_next && predict->doubts > 0) {
        predict->doubts--;
    }
    predict->has_next = false;
    predict->believed = false;
    return was;
}

enum hr_predicted hr_predict_known(struct hr_predict *predict, const struct hr_order *order)
{
    struct hr_order next;
    enum hr_predicted was =
        judge(predict, predict->has_next && memcmp(&predict->next, order, sizeof *order) == 0);
    predict->has_next = follow(predict, order, &next);
    predict->next = next;
    predict->last = *order;
    predict->has_last = true;
    return was;
}

enum hr_predicted hr_predict_missed(struct hr_predict *predict)
{
    predict->has_last = false;
    return judge(predict, false);
}

bool hr_predict_next(struct hr_predict *predict, unsigned most, struct hr_orders *ret)
{
    const struct hr_order *last = &predict->last, *next = &predict->next;
    predict->believed = predict->has_next && predict->doubts == 0;
    *ret = (struct hr_orders){.count = most};
    for (unsigned i = 0; i < most; i++) {
        ret->orders[i] = *next;
        ret->orders[i].seed += i * (next->seed - last->seed);
        ret->orders[i].skip += i * (next->skip - last->skip);
    }
    return predict->believed;
}
