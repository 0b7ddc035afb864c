/* A data set of numbered objects whose orders are looked for. */
#ifndef HR_TESTS_PLAN_NUMBERED_H
#define HR_TESTS_PLAN_NUMBERED_H

#include "tests/unit/plan/lab.h"

#include "fetch/plan/order_thread.h"

/* Until the next call. */
static inline const char *key_of(uint32_t rank)
{
    static char key[24];
    snprintf(key, sizeof key, "train/k%05u", rank);
    return key;
}

/* So many objects of so many bytes each are listed. */
static inline void open_numbered(struct lab *lab, uint32_t count, uint64_t bytes,
                                 const struct lab_options *options, enum hr_order_mode mode)
{
    for (uint32_t i = 0; i < count; i++) {
        s3_add(lab->s3, key_of(i), bytes);
    }
    lab_open(lab, options);
    lab->plan->options.lookahead = true;
    lab->plan->options.order_search = mode;
    lab_list(lab);
}

/* A worker whose batches were announced opens it. */
static inline void open_announced(struct lab *lab, uint32_t rank)
{
    hr_lookahead_opened(lab->plan, LAB_CONTEXT, lab->tree,
                        hr_tree_get(lab->plan, lab->tree)->index.names->gen,
                        lab_entry_in(lab, lab->tree, key_of(rank)));
}

/* As a program: brought where it is not there, opened, and that comes to the plan. */
static inline void open_noted(struct lab *lab, uint32_t index)
{
    const char *key = key_of(index);
    if (HR_STATE_KIND(lab_word(lab, key)) != HR_STATE_RESIDENT) {
        assert_int_equal(lab_open_entry(lab, key), 0);
    }
    lab_note(lab, key);
    hr_plan_drain(lab->plan);
    hr_plan_pump(lab->plan);
    lab_settle(lab);
}

#endif
