#include "fetch/plan/pace.h"

#include <utlist.h>

#include "fetch/base/clock.h"
#include "fetch/plan/guide.h"

/* Between the last of the batches that a loader begins with and the next one its first is made: opened, read
 * and decoded. The feeder threads of a loader's queues tell of theirs within a few ms. Ours. */
#define GAP_MS 25
#define LOOK_MS 4 /* between two looks at what was opened: a picture or two of decoding */

static void end_phase(struct hr_plan *plan)
{
    plan->pace.on = false;
    plan->ahead_due = true;
}

/* Opens that the cache answered are heard of late, and a worker that is done has nothing else to say. */
static void look(void *owner)
{
    struct hr_plan *plan = owner;
    hr_tree_drain_all(plan);
    if (!plan->pace.on) {
        return;
    }
    if (hr_clock_ms() >= plan->pace.until_ms ||
        hr_loop_arm(plan->options.loop, &plan->pace.timer, LOOK_MS) < 0) {
        end_phase(plan);
    }
    hr_plan_pump(plan);
}

static void begin_phase(struct hr_plan *plan, int64_t now_ms)
{
    struct hr_pace *pace = &plan->pace;
    if (!pace->timer.fn) {
        pace->timer = (struct hr_timer)HR_TIMER_INIT(look, plan);
    }
    if (hr_loop_arm(plan->options.loop, &pace->timer, LOOK_MS) == 0) {
        pace->until_ms = now_ms + plan->options.first_batch_ms;
        pace->on = true;
    }
}

void hr_pace_announced(struct hr_plan *plan, uint32_t number)
{
    struct hr_pace *pace = &plan->pace;
    int64_t now_ms = hr_clock_ms(), quiet_ms = now_ms - pace->told_ms;
    pace->told_ms = now_ms;
    if (number == 0 && plan->options.first_batch_ms > 0) {
        begin_phase(plan, now_ms);
    } else if (pace->on && quiet_ms >= GAP_MS) {
        end_phase(plan);
    }
}

bool hr_pace_is_on(const struct hr_plan *plan)
{
    return plan->pace.on;
}

/* Its worker opens its files one after the other. */
static bool is_opened(const struct batch *batch)
{
    const struct hr_plan_tree *tree = batch->base.tree;
    return hr_batch_usable(batch) &&
           !(tree->marks[hr_batch_entry(batch, batch->count - 1)] & HR_ENTRY_ANNOUNCED);
}

/* Is it the last of what its worker was told of? */
static bool is_last(const struct batch *batch)
{
    const struct batch *later = batch->next;
    while (later && (later->stream != batch->stream || later->is_others)) {
        later = later->next;
    }
    return !later;
}

/* Have more workers than so many something to open or to decode? */
static bool are_more_than(const struct hr_plan *plan, unsigned most)
{
    const struct hr_guide *guide, *next;
    unsigned count = 0;
    HASH_ITER(hh, plan->guides, guide, next)
    {
        const struct batch *batch;
        DL_FOREACH(guide->batches, batch)
        {
            bool counts = !batch->is_others && !batch->is_over && !is_opened(batch) && is_last(batch);
            if (counts && ++count > most) {
                return true;
            }
        }
    }
    return false;
}

bool hr_pace_holds(const struct hr_plan *plan)
{
    unsigned cores = plan->options.cores > 0 ? plan->options.cores : 1;
    return hr_pace_is_on(plan) && are_more_than(plan, plan->pace.waiting + cores - 1);
}

void hr_pace_end(struct hr_plan *plan)
{
    if (plan->pace.timer.fn) {
        hr_loop_disarm(plan->options.loop, &plan->pace.timer);
    }
}
