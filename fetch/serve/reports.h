/* A job's report: the document, and its file in cache_dir/reports. */
#ifndef HR_SERVE_REPORTS_H
#define HR_SERVE_REPORTS_H

#include <jansson.h>

#include "fetch/serve/jobs.h"

struct hr_report_figures {
    struct hr_plan_stats plan;
    struct hr_store_stats store;
    struct hr_cache_stats cache;
};

struct hr_report {
    const char *program;
    uint32_t pid;
    int64_t began_ns, ended_ns; /* wall clock; ended 0: it runs */
    int64_t now_ns;
    bool alone;
    const struct hr_wait_sum *waits;                /* HR_WAIT_REASONS of them */
    const struct hr_report_figures *before, *after; /* of the whole daemon */
    unsigned connections;
    uint64_t memory_bytes;
};

/* NULL on ENOMEM. */
json_t *hr_report_json(const struct hr_report *report);
/* Whole or not at all; the oldest beyond HR_REPORTS_KEPT go. 0 or -errno. */
#define HR_REPORTS_KEPT 16
int hr_report_write(const char *cache_dir, int64_t began_ns, uint32_t context, const json_t *document);

#endif
