/* The status document: what the daemon did and is doing. Keys are stable (README.md, Status). */
#ifndef HR_SERVE_METRICS_H
#define HR_SERVE_METRICS_H

#include "fetch/cache/cache.h"
#include "fetch/net/http.h"
#include "fetch/plan/plan.h"
#include "fetch/serve/slots.h"
#include "fetch/serve/waits.h"
#include "fetch/store/store.h"

struct hr_metrics_sources {
    const struct hr_http *http;
    const struct hr_stores *stores;
    const struct hr_cache *cache;
    const struct hr_plan *plan;
    const struct hr_intake *intake;
    const struct hr_waits *waits;
    const char *cache_dir;
    int64_t started_ms;
    uint32_t contexts;
};

/* What left the cache unused, whatever it was fetched for. */
uint64_t hr_metrics_wasted_bytes(const struct hr_plan_stats *plan);
/* One line of JSON, malloc'ed; NULL on ENOMEM. */
char *hr_metrics_json(const struct hr_metrics_sources *sources);

#endif
