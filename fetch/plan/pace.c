#include "fetch/plan/pace.h"

#include "fetch/base/clock.h"
#include "fetch/plan/inner.h"

/* Between the last of the batches that a loader begins with and the next one its first is made: opened, read
 * and decoded. The feeder threads of a loader's queues tell of theirs within a few ms. Ours. */
#define GAP_MS 25

static void end_phase(struct hr_plan *plan)
{
    plan->pace.on = false;
    plan->ahead_due = true;
}

static void on_timer(void *owner)
{
    struct hr_plan *plan = owner;
    end_phase(plan);
    hr_plan_pump(plan);
}

void hr_pace_announced(struct hr_plan *plan, uint32_t number)
{
    struct hr_pace *pace = &plan->pace;
    int64_t now_ms = hr_clock_ms(), quiet_ms = now_ms - pace->told_ms;
    pace->told_ms = now_ms;
    if (number == 0 && plan->options.first_batch_ms > 0) {
        if (!pace->timer.fn) {
            pace->timer = (struct hr_timer)HR_TIMER_INIT(on_timer, plan);
        }
        if (hr_loop_arm(plan->options.loop, &pace->timer, plan->options.first_batch_ms) == 0) {
            pace->on = true;
        }
    } else if (pace->on && quiet_ms >= GAP_MS) {
        end_phase(plan);
    }
}

bool hr_pace_is_on(const struct hr_plan *plan)
{
    return plan->pace.on;
}

bool hr_pace_holds(const struct hr_plan *plan)
{
    return hr_pace_is_on(plan) && plan->pace.waiting == 0;
}

void hr_pace_end(struct hr_plan *plan)
{
    if (plan->pace.timer.fn) {
        hr_loop_disarm(plan->options.loop, &plan->pace.timer);
    }
}
