/* The first batch of an epoch: until a trainer has it, what is fetched for later must not take the processors
 * from the workers that make it. Main loop. */
#ifndef HR_PLAN_PACE_H
#define HR_PLAN_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "fetch/net/loop.h"

struct hr_plan;

struct hr_pace {
    bool on;          /* a first batch is being made, */
    int64_t until_ms; /* at most so long */
    int64_t told_ms;  /* a batch was announced last */
    unsigned waiting; /* wants that programs wait for */
    struct hr_timer timer;
};

/* A loader told of the number-th batch of its epoch. It tells of the first ones at once, and of the next when
 * it has one back. */
void hr_pace_announced(struct hr_plan *plan, uint32_t number);
/* A first batch is being made. */
bool hr_pace_is_on(const struct hr_plan *plan);
/* ...and those who make it leave no processor free: nothing is begun that no one has told of. */
bool hr_pace_holds(const struct hr_plan *plan);
void hr_pace_end(struct hr_plan *plan);

#endif
