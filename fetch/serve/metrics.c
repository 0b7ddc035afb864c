#include "fetch/serve/metrics.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fetch/base/clock.h"
#include "fetch/plan/doing.h"

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *wait_of(const struct hr_hist *hist)
{
    json_t *wait = json_object();
    json_object_set_new(wait, "count", number(hist->count));
    json_object_set_new(wait, "p50", json_real((double)hr_hist_quantile_us(hist, 0.50) / 1000));
    json_object_set_new(wait, "p90", json_real((double)hr_hist_quantile_us(hist, 0.90) / 1000));
    json_object_set_new(wait, "p99", json_real((double)hr_hist_quantile_us(hist, 0.99) / 1000));
    json_object_set_new(wait, "max", json_real((double)hist->max_us / 1000));
    return wait;
}

static void by_reason(json_t *document, const char *format, unsigned reason, uint64_t value)
{
    static const char *const names[HR_REASON_COUNT] = {
        [HR_REASON_DEMAND] = "demand", [HR_REASON_LOOKAHEAD] = "lookahead", [HR_REASON_REPLAY] = "replay",
        [HR_REASON_WINDOW] = "window", [HR_REASON_HINT] = "hint",           [HR_REASON_SWEEP] = "sweep",
    };
    const char *split = strchr(format, '%');
    char key[64];
    snprintf(key, sizeof key, "%.*s%s%s", (int)(split - format), format, names[reason], split + 2);
    json_object_set_new(document, key, number(value));
}

/* What was fetched before it was asked for, but for orders. */
static void add_ahead(json_t *document, const struct hr_plan_stats *plan)
{
    json_object_set_new(document, "announced", number(plan->announced));
    json_object_set_new(document, "announced_used", number(plan->announced_used));
    json_object_set_new(document, "lookahead_learned", number(plan->lookahead_learned));
    json_object_set_new(document, "lookahead_dropped", number(plan->lookahead_dropped));
    json_object_set_new(document, "lookahead_table", number(plan->lookahead_table));
    json_object_set_new(document, "lookahead_waiting", number(plan->lookahead_waiting));
    json_object_set_new(document, "lookahead_late", number(plan->lookahead_late));
    json_object_set_new(document, "lookahead_abandoned", number(plan->lookahead_abandoned));
    json_object_set_new(document, "heads_ahead", number(plan->heads_ahead));
    json_object_set_new(document, "heads_used", number(plan->heads_used));
    json_object_set_new(document, "tails_ahead", number(plan->tails_ahead));
    json_object_set_new(document, "cells_in_parts", number(plan->cells_in_parts));
    json_object_set_new(document, "shards_ahead", number(plan->shards_ahead));
    json_object_set_new(document, "shards_used", number(plan->shards_used));
    json_object_set_new(document, "shards_wrong", number(plan->shards_wrong));
}

/* Epochs whose order is known, and what that did to replacement. */
static void add_orders(json_t *document, const struct hr_plan_stats *plan)
{
    json_object_set_new(document, "order_searches", number(plan->order_searches));
    json_object_set_new(document, "order_misses", number(plan->order_misses));
    json_object_set_new(document, "known_order", number(plan->known_orders));
    json_object_set_new(document, "known_seed", number(plan->known_seed));
    json_object_set_new(document, "known_objects", number(plan->known_objects));
    json_object_set_new(document, "known_generator", json_string(plan->known_generator));
    json_object_set_new(document, "known_after", number(plan->known_after));
    json_object_set_new(document, "known_indices", number(plan->known_indices));
    json_object_set_new(document, "known_now", number(plan->known_now));
    json_object_set_new(document, "known_confidence", json_real(plan->known_confidence));
    json_object_set_new(document, "known_dropped", number(plan->known_dropped));
    json_object_set_new(document, "known_ahead", number(plan->known_ahead));
    json_object_set_new(document, "victims_read", number(plan->victims_read));
    json_object_set_new(document, "victims_last", number(plan->victims_last));
    json_object_set_new(document, "victims_next", number(plan->victims_next));
    json_object_set_new(document, "next_order", number(plan->next_orders));
    json_object_set_new(document, "next_right", number(plan->next_right));
    json_object_set_new(document, "next_wrong", number(plan->next_wrong));
}

static json_t *plan_of(const struct hr_plan_stats *plan)
{
    json_t *document = json_object();
    json_object_set_new(document, "queued", number(plan->queued));
    json_object_set_new(document, "inflight_max", number(plan->in_flight_max));
    json_object_set_new(document, "memory_bytes", number(plan->memory_bytes));
    json_object_set_new(document, "memory_max_bytes", number(plan->memory_max_bytes));
    json_object_set_new(document, "listings", number(plan->listings));
    for (unsigned reason = 0; reason < HR_REASON_COUNT; reason++) {
        by_reason(document, "fetched_%s", reason, plan->fetched[reason]);
        by_reason(document, "used_%s", reason, plan->used[reason]);
        by_reason(document, "wasted_%s_bytes", reason, plan->wasted_bytes[reason]);
    }
    json_object_set_new(document, "segment_hits", number(plan->segment_hits));
    json_object_set_new(document, "segment_misses", number(plan->segment_misses));
    json_object_set_new(document, "copied_bytes", number(plan->copied_bytes));
    add_ahead(document, plan);
    add_orders(document, plan);
    json_object_set_new(document, "hints_willneed", number(plan->hints[HR_HINT_WILLNEED]));
    json_object_set_new(document, "hints_sequential", number(plan->hints[HR_HINT_SEQUENTIAL]));
    json_object_set_new(document, "hints_random", number(plan->hints[HR_HINT_RANDOM]));
    json_object_set_new(document, "hints_normal", number(plan->hints[HR_HINT_NORMAL]));
    json_object_set_new(document, "hints_dontneed", number(plan->hints[HR_HINT_DONTNEED]));
    json_object_set_new(document, "hints_unneeded", number(plan->hints_unneeded));
    json_object_set_new(document, "replay_steps", number(plan->replay_steps));
    json_object_set_new(document, "replay_unknown", number(plan->replay_unknown));
    json_object_set_new(document, "replay_ahead", number(plan->replay_ahead));
    json_object_set_new(document, "replay_misses", number(plan->replay_misses));
    json_object_set_new(document, "replay_jumps", number(plan->replay_jumps));
    json_object_set_new(document, "replay_dropped", number(plan->replay_dropped));
    json_object_set_new(document, "changed", number(plan->changed));
    json_object_set_new(document, "md5_off", number(plan->md5_off));
    return document;
}

/* One object an endpoint: how many requests it gets at a time, and what changed that. */
static json_t *endpoints_of(const struct hr_stores *stores)
{
    json_t *list = json_array();
    struct hr_endpoint_stats stats;
    for (unsigned i = 0; hr_stores_endpoint(stores, i, &stats); i++) {
        json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "endpoint",
                                              stats.endpoint, "width", (json_int_t)stats.width, "inflight",
                                              (json_int_t)stats.calls, "grown", (json_int_t)stats.grown,
                                              "cuts", (json_int_t)stats.cuts, "throttled",
                                              (json_int_t)stats.throttled, "hedges", (json_int_t)stats.hedges,
                                              "hedges_won", (json_int_t)stats.hedges_won));
    }
    return list;
}

/* What has not started, and the limits that it waits for. */
static void add_queues(json_t *document, const struct hr_plan *plan)
{
    unsigned queued[HR_REASON_COUNT], connections;
    uint64_t memory_bytes;
    hr_plan_queued(plan, queued);
    for (unsigned reason = 0; reason < HR_REASON_COUNT; reason++) {
        by_reason(document, "queued_%s", reason, queued[reason]);
    }
    hr_plan_limits(plan, &connections, &memory_bytes);
    json_object_set_new(document, "connections", number(connections));
    json_object_set_new(document, "memory_budget_bytes", number(memory_bytes));
}

/* What threads waited for, and how long in all. */
static json_t *waits_of(const struct hr_waits *waits)
{
    struct hr_wait_sum sums[HR_WAIT_REASONS];
    json_t *document = json_object();
    hr_waits_sum(waits, sums);
    for (unsigned i = 0; i < HR_WAIT_REASONS; i++) {
        json_object_set_new(
            document, hr_wait_reason_name((enum hr_wait_reason)i),
            json_pack("{s:I, s:f}", "count", (json_int_t)sums[i].count, "ms", (double)sums[i].us / 1000));
    }
    return document;
}

static json_t *cache_of(const struct hr_cache_stats *cache, const struct hr_plan_stats *plan)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:I, s:f}", "hits",
                     (json_int_t)plan->hits, "misses", (json_int_t)plan->misses, "bytes",
                     (json_int_t)cache->bytes, "objects", (json_int_t)cache->objects, "budget_bytes",
                     (json_int_t)cache->budget_bytes, "evictions", (json_int_t)cache->evictions,
                     "verify_failures", (json_int_t)cache->verify_failures, "adopted",
                     (json_int_t)cache->adopted, "faces", (json_int_t)cache->faces, "segments",
                     (json_int_t)cache->segments, "policy", cache->keeps_set ? "keep" : "recent",
                     "kept_bytes", (json_int_t)cache->kept_bytes, "held_bytes", (json_int_t)cache->held_bytes,
                     "hit_rate", cache->uses ? (double)cache->use_hits / (double)cache->uses : 0.0);
}

/* Anonymous memory of this process in bytes: what the memory budget is about. */
static uint64_t rss_anon_bytes(void)
{
    FILE *file = fopen("/proc/self/status", "re");
    if (!file) {
        return 0;
    }
    char line[256];
    unsigned long long kib = 0;
    while (fgets(line, sizeof line, file) && sscanf(line, "RssAnon: %llu kB", &kib) != 1) {
    }
    fclose(file);
    return (uint64_t)kib * 1024;
}

uint64_t hr_metrics_wasted_bytes(const struct hr_plan_stats *plan)
{
    uint64_t wasted = 0;
    for (unsigned reason = 0; reason < HR_REASON_COUNT; reason++) {
        wasted += plan->wasted_bytes[reason];
    }
    return wasted;
}

char *hr_metrics_json(const struct hr_metrics_sources *sources)
{
    struct hr_store_stats store;
    struct hr_http_stats http;
    struct hr_cache_stats cache;
    struct hr_plan_stats plan;
    struct hr_intake_stats intake;
    hr_stores_stats(sources->stores, &store);
    hr_http_stats(sources->http, &http);
    hr_cache_stats(sources->cache, &cache);
    hr_plan_stats(sources->plan, &plan);
    hr_intake_stats(sources->intake, &intake);
    json_t *document = json_pack(
        "{s:s, s:I, s:s, s:f, s:I, s:I}", "version", HR_VERSION, "pid", (json_int_t)getpid(), "cache_dir",
        sources->cache_dir, "uptime_s", (double)(hr_clock_ms() - sources->started_ms) / 1000, "contexts",
        (json_int_t)sources->contexts, "rss_anon_bytes", (json_int_t)rss_anon_bytes());
    json_object_set_new(document, "requests",
                        json_pack("{s:I, s:I, s:I, s:I}", "get", (json_int_t)store.requests_get, "list",
                                  (json_int_t)store.requests_list, "head", (json_int_t)store.requests_head,
                                  "put", (json_int_t)0));
    json_object_set_new(document, "bytes",
                        json_pack("{s:I, s:I}", "fetched", (json_int_t)store.bytes_fetched, "wasted",
                                  (json_int_t)hr_metrics_wasted_bytes(&plan)));
    json_object_set_new(document, "cache", cache_of(&cache, &plan));
    json_object_set_new(document, "index",
                        json_pack("{s:I, s:I, s:I, s:I}", "objects", (json_int_t)plan.index_objects, "bytes",
                                  (json_int_t)plan.index_bytes, "hidden", (json_int_t)plan.hidden, "trees",
                                  (json_int_t)plan.trees));
    json_object_set_new(
        document, "connections",
        json_pack("{s:I, s:I}", "opened", (json_int_t)http.connects, "reused", (json_int_t)http.reused));
    json_object_set_new(document, "slots",
                        json_pack("{s:I, s:I, s:I}", "taken", (json_int_t)intake.taken, "torn",
                                  (json_int_t)intake.torn, "reclaimed", (json_int_t)intake.reclaimed));
    json_object_set_new(document, "inflight", number(plan.in_flight));
    json_object_set_new(document, "retries", number(store.retries));
    json_object_set_new(document, "throttled", number(store.throttled));
    json_object_set_new(document, "hedges", number(store.hedges));
    json_object_set_new(document, "hedges_won", number(store.hedges_won));
    json_object_set_new(document, "errors", number(store.errors));
    json_object_set_new(document, "wait_ms", wait_of(&plan.wait));
    json_object_set_new(document, "waits", waits_of(sources->waits));
    json_object_set_new(document, "plan", plan_of(&plan));
    add_queues(json_object_get(document, "plan"), sources->plan);
    json_object_set_new(document, "endpoints", endpoints_of(sources->stores));
    char *text = json_dumps(document, JSON_COMPACT | JSON_PRESERVE_ORDER);
    json_decref(document);
    return text;
}
