/* A path brought into the cache by hr_warm_*, for the tests that look at what came of it. */
#ifndef HR_TEST_PLAN_WARMED_H
#define HR_TEST_PLAN_WARMED_H

#include "tests/unit/plan/lab.h"

#include "fetch/plan/warm.h"

static struct hr_warm_progress seen;
static uint32_t warm_id;

static inline bool has_finished(struct lab *lab)
{
    assert_int_equal(hr_warm_progress(lab->plan, warm_id, &seen), 0);
    return seen.finished;
}

static inline void warm(struct lab *lab, const char *path)
{
    warm_id = 0;
    assert_int_equal(hr_warm_add(lab->plan, lab->tree, path, (uint32_t)strlen(path), &warm_id), 0);
    hr_warm_close(lab->plan, warm_id);
    lab_until(lab, has_finished);
}

#endif
