/* Recorded orders of jobs (plan/recording.h, plan/replay.h): each belongs to the process that asked for it
 * and ends with it. A process that cannot be watched counts as gone after a minute without an open. */
#ifndef HR_SERVE_ORDERS_H
#define HR_SERVE_ORDERS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "fetch/net/loop.h"
#include "fetch/plan/plan.h"

struct hr_orders;

/* 0 or -ENOMEM. */
int hr_orders_new(struct hr_loop *loop, struct hr_plan *plan, struct hr_orders **ret);
void hr_orders_free(struct hr_orders *orders); /* what is recorded is written; accepts NULL */
/* Every heartbeat. True: a job's order is recorded or replayed. */
bool hr_orders_tick(struct hr_orders *orders);

/* The answers of errands.h; pid: who asks. */
json_t *hr_orders_record(struct hr_orders *orders, const json_t *request, uint32_t pid);
json_t *hr_orders_replay(struct hr_orders *orders, const json_t *request, uint32_t pid);

#endif
