/* Jobs: what the programs of one environment waited for, and what was fetched meanwhile. One begins when
 * `run` (or the preloaded object) attaches a context, and ends with the last process that a `run` became;
 * where none can be watched, after a minute without a request. The last reports stay in cache_dir/reports,
 * 0600. Main loop. */
#ifndef HR_SERVE_JOBS_H
#define HR_SERVE_JOBS_H

#include <jansson.h>
#include <stdint.h>

#include "fetch/cache/cache.h"
#include "fetch/net/loop.h"
#include "fetch/plan/plan.h"
#include "fetch/serve/waits.h"
#include "fetch/store/store.h"

#define HR_REPORTS_DIR "reports" /* in cache_dir; NAME.json each, sorted by their beginnings */

struct hr_jobs;

struct hr_jobs_options {
    struct hr_loop *loop;
    const char *cache_dir;
    struct hr_plan *plan;
    const struct hr_control *control; /* which trees a context has */
    const struct hr_stores *stores;
    const struct hr_cache *cache;
    unsigned connections;
    uint64_t memory_bytes;
};

/* 0 or -ENOMEM. */
int hr_jobs_new(const struct hr_jobs_options *options, struct hr_jobs **ret);
void hr_jobs_stop(struct hr_jobs *jobs); /* what runs is reported as it stands; before plan and cache end */
void hr_jobs_free(struct hr_jobs *jobs); /* accepts NULL */

/* A program attaches: its name ("": told by the first request), and the process whose end is the job's (0:
 * none).
 */
void hr_jobs_began(struct hr_jobs *jobs, uint32_t context, const char *program, uint32_t pid);
/* hr_waits_new's ended; owner is the jobs. */
void hr_jobs_waited(void *jobs, const struct hr_wait_ended *wait);
void hr_jobs_tick(struct hr_jobs *jobs);

/* {"jobs": [...]}: those that run. */
json_t *hr_jobs_json(struct hr_jobs *jobs);

#endif
