#include "fetch/serve/reports.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fetch/base/cleanup.h"
#include "fetch/serve/metrics.h"

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static double ms(uint64_t us)
{
    return (double)us / 1000;
}

static json_t *waits_of(const struct hr_report *report)
{
    json_t *by = json_object();
    uint64_t count = 0, us = 0;
    for (unsigned i = 0; i < HR_WAIT_REASONS; i++) {
        const struct hr_wait_sum *sum = &report->waits[i];
        count += sum->count;
        us += sum->us;
        json_object_set_new(by, hr_wait_reason_name((enum hr_wait_reason)i),
                            json_pack("{s:I, s:f, s:f}", "count", (json_int_t)sum->count, "ms", ms(sum->us),
                                      "max_ms", ms(sum->max_us)));
    }
    return json_pack("{s:I, s:f, s:o}", "count", (json_int_t)count, "ms", ms(us), "by", by);
}

/* What came unasked and what became of it, for each reason. */
static json_t *prefetch_of(const struct hr_plan_stats *before, const struct hr_plan_stats *after)
{
    static const char *const names[HR_REASON_COUNT] = {
        [HR_REASON_DEMAND] = "demand", [HR_REASON_LOOKAHEAD] = "lookahead", [HR_REASON_REPLAY] = "replay",
        [HR_REASON_WINDOW] = "window", [HR_REASON_HINT] = "hint",           [HR_REASON_SWEEP] = "sweep",
    };
    json_t *all = json_object();
    for (unsigned i = 0; i < HR_REASON_COUNT; i++) {
        json_object_set_new(all, names[i],
                            json_pack("{s:I, s:I, s:I, s:I}", "fetched",
                                      (json_int_t)(after->fetched[i] - before->fetched[i]), "bytes",
                                      (json_int_t)(after->fetched_bytes[i] - before->fetched_bytes[i]),
                                      "used", (json_int_t)(after->used[i] - before->used[i]), "wasted_bytes",
                                      (json_int_t)(after->wasted_bytes[i] - before->wasted_bytes[i])));
    }
    return all;
}

static json_t *orders_of(const struct hr_plan_stats *before, const struct hr_plan_stats *after)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "announced",
                     (json_int_t)(after->announced - before->announced), "announced_used",
                     (json_int_t)(after->announced_used - before->announced_used), "known_order",
                     (json_int_t)(after->known_orders - before->known_orders), "known_seed",
                     (json_int_t)after->known_seed, "next_order",
                     (json_int_t)(after->next_orders - before->next_orders), "searches",
                     (json_int_t)(after->order_searches - before->order_searches), "replay_steps",
                     (json_int_t)(after->replay_steps - before->replay_steps));
}

static void add_cache(json_t *document, const struct hr_report *report)
{
    const struct hr_report_figures *before = report->before, *after = report->after;
    uint64_t uses = after->cache.uses - before->cache.uses;
    uint64_t hits = after->plan.hits - before->plan.hits, misses = after->plan.misses - before->plan.misses;
    json_object_set_new(
        document, "cache",
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:s, s:f, s:I, s:I}", "hits", (json_int_t)hits, "misses",
                  (json_int_t)misses, "bytes", (json_int_t)after->cache.bytes, "budget_bytes",
                  (json_int_t)after->cache.budget_bytes, "evictions",
                  (json_int_t)(after->cache.evictions - before->cache.evictions), "policy",
                  after->cache.keeps_set ? "keep" : "recent", "hit_rate",
                  uses ? (double)(after->cache.use_hits - before->cache.use_hits) / (double)uses : 0.0,
                  "segment_hits", (json_int_t)(after->plan.segment_hits - before->plan.segment_hits),
                  "segment_misses", (json_int_t)(after->plan.segment_misses - before->plan.segment_misses)));
    json_object_set_new(document, "index",
                        json_pack("{s:I, s:I, s:I}", "objects", (json_int_t)after->plan.index_objects,
                                  "bytes", (json_int_t)after->plan.index_object_bytes, "listings",
                                  (json_int_t)(after->plan.listings - before->plan.listings)));
}

static void add_network(json_t *document, const struct hr_report *report)
{
    const struct hr_store_stats *before = &report->before->store, *after = &report->after->store;
    uint64_t wasted =
        hr_metrics_wasted_bytes(&report->after->plan) - hr_metrics_wasted_bytes(&report->before->plan);
    json_object_set_new(document, "requests",
                        json_pack("{s:I, s:I, s:I, s:I}", "get",
                                  (json_int_t)(after->requests_get - before->requests_get), "list",
                                  (json_int_t)(after->requests_list - before->requests_list), "head",
                                  (json_int_t)(after->requests_head - before->requests_head), "hedges",
                                  (json_int_t)(after->hedges - before->hedges)));
    json_object_set_new(document, "bytes",
                        json_pack("{s:I, s:I}", "fetched",
                                  (json_int_t)(after->bytes_fetched - before->bytes_fetched), "wasted",
                                  (json_int_t)wasted));
    json_object_set_new(document, "retries", number(after->retries - before->retries));
    json_object_set_new(document, "throttled", number(after->throttled - before->throttled));
    json_object_set_new(document, "errors", number(after->errors - before->errors));
}

json_t *hr_report_json(const struct hr_report *report)
{
    int64_t until_ns = report->ended_ns ? report->ended_ns : report->now_ns;
    json_t *name = json_string(report->program); /* NULL: not UTF-8 */
    json_t *document =
        json_pack("{s:s, s:o, s:I, s:f, s:f, s:b, s:b}", "version", HR_VERSION, "program",
                  name ? name : json_string("?"), "pid", (json_int_t)report->pid, "began",
                  (double)report->began_ns / 1e9, "seconds", (double)(until_ns - report->began_ns) / 1e9,
                  "running", report->ended_ns == 0, "alone", report->alone);
    if (!document) {
        return NULL;
    }
    json_object_set_new(document, "waits", waits_of(report));
    add_network(document, report);
    add_cache(document, report);
    json_object_set_new(document, "prefetch", prefetch_of(&report->before->plan, &report->after->plan));
    json_object_set_new(document, "orders", orders_of(&report->before->plan, &report->after->plan));
    json_object_set_new(document, "connections", number(report->connections));
    json_object_set_new(document, "memory_bytes", number(report->memory_bytes));
    return document;
}

/* ---- files ---- */

static int is_report(const struct dirent *entry)
{
    size_t len = strlen(entry->d_name);
    return len > 5 && strcmp(entry->d_name + len - 5, ".json") == 0;
}

static void remove_oldest(int dir_fd)
{
    struct dirent **names = NULL;
    int count = scandirat(dir_fd, ".", &names, is_report, alphasort);
    for (int i = 0; i < count; i++) {
        if (i < count - HR_REPORTS_KEPT) {
            (void)unlinkat(dir_fd, names[i]->d_name, 0);
        }
        free(names[i]);
    }
    free(names);
}

int hr_report_write(const char *cache_dir, int64_t began_ns, uint32_t context, const json_t *document)
{
    hr_cleanup_fd int cache_fd = open(cache_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (cache_fd < 0 || (mkdirat(cache_fd, HR_REPORTS_DIR, 0700) < 0 && errno != EEXIST)) {
        return -errno;
    }
    hr_cleanup_fd int dir_fd =
        openat(cache_fd, HR_REPORTS_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir_fd < 0) {
        return -errno;
    }
    char name[64];
    /* In order of time by name: 16 digits of microseconds. */
    snprintf(name, sizeof name, "%016lld-%u.json", (long long)(began_ns / 1000), context);
    (void)unlinkat(dir_fd, "new", 0);
    hr_cleanup_fd int fd = openat(dir_fd, "new", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return -errno;
    }
    if (json_dumpfd(document, fd, JSON_COMPACT | JSON_PRESERVE_ORDER) < 0 ||
        renameat(dir_fd, "new", dir_fd, name) < 0) {
        int error = errno ? -errno : -EIO;
        (void)unlinkat(dir_fd, "new", 0);
        return error;
    }
    remove_oldest(dir_fd);
    return 0;
}
