#include "fetch/cmd/status.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "fetch/cmd/advice.h"

static const char *const reasons[] = {"demand", "lookahead", "replay", "window", "hint", "sweep"};

static double figure(const json_t *document, const char *name)
{
    return hr_report_figure(document, name);
}

static double of_reason(const json_t *document, const char *format, const char *reason)
{
    char name[64];
    snprintf(name, sizeof name, "plan.%s_%s", format, reason);
    return figure(document, name);
}

static double wasted_of(const json_t *document, const char *reason)
{
    char name[64];
    snprintf(name, sizeof name, "plan.wasted_%s_bytes", reason);
    return figure(document, name) / (1 << 20);
}

static void print_endpoints(const json_t *document)
{
    const json_t *endpoints = json_object_get(document, "endpoints");
    for (size_t i = 0; i < json_array_size(endpoints); i++) {
        const json_t *one = json_array_get(endpoints, i);
        const char *name = json_string_value(json_object_get(one, "endpoint"));
        printf("  %s: %.0f of %.0f requests that it gets at a time are out; grown %.0f times, cut %.0f, "
               "throttled "
               "%.0f\n",
               name ? name : "?", figure(one, "inflight"), figure(one, "width"), figure(one, "grown"),
               figure(one, "cuts"), figure(one, "throttled"));
    }
}

static void print_order(const json_t *document)
{
    const char *generator =
        json_string_value(json_object_get(json_object_get(document, "plan"), "known_generator"));
    if (figure(document, "plan.known_order") > 0) {
        printf(
            "  order: known in %.0f epochs (%.0f now), %s with seed %.0f, confidence %.6f by %.0f indices; "
            "dropped %.0f; given up by it %.0f read, %.0f needed last; the next epoch's in %.0f epochs "
            "(right "
            "%.0f, wrong %.0f), given up by it %.0f\n",
            figure(document, "plan.known_order"), figure(document, "plan.known_now"),
            generator ? generator : "", figure(document, "plan.known_seed"),
            figure(document, "plan.known_confidence"), figure(document, "plan.known_indices"),
            figure(document, "plan.known_dropped"), figure(document, "plan.victims_read"),
            figure(document, "plan.victims_last"), figure(document, "plan.next_order"),
            figure(document, "plan.next_right"), figure(document, "plan.next_wrong"),
            figure(document, "plan.victims_next"));
    } else {
        printf("  order: not known; %.0f announced, %.0f searches, of which %.0f found none\n",
               figure(document, "plan.announced"), figure(document, "plan.order_searches"),
               figure(document, "plan.order_misses"));
    }
}

/* One screen: what waits, what is out, what bounds it. */
static void print_plan(const json_t *document)
{
    const char *policy = json_string_value(json_object_get(json_object_get(document, "cache"), "policy"));
    printf("The planner:\n  %-10s %8s %10s %10s %12s\n", "reason", "queued", "fetched", "used", "wasted MiB");
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        printf("  %-10s %8.0f %10.0f %10.0f %12.1f\n", reasons[i], of_reason(document, "queued", reasons[i]),
               of_reason(document, "fetched", reasons[i]), of_reason(document, "used", reasons[i]),
               wasted_of(document, reasons[i]));
    }
    printf("  in flight: %.0f of %.0f connections; %.1f of %.0f MiB for bodies\n",
           figure(document, "inflight"), figure(document, "plan.connections"),
           figure(document, "plan.memory_bytes") / (1 << 20),
           figure(document, "plan.memory_budget_bytes") / (1 << 20));
    print_endpoints(document);
    print_order(document);
    printf("  cache: %.1f of %.1f MiB; policy %s%s, hit rate %.2f\n\n",
           figure(document, "cache.bytes") / (1 << 20), figure(document, "cache.budget_bytes") / (1 << 20),
           policy ? policy : "?",
           policy && strcmp(policy, "keep") == 0 ? " (a set is kept through epochs)"
                                                 : " (what was used last stays)",
           figure(document, "cache.hit_rate"));
}

static void print_figures(const json_t *document, const char *prefix)
{
    const char *key;
    const json_t *value;
    json_object_foreach((json_t *)(uintptr_t)document, key, value)
    {
        char name[128];
        snprintf(name, sizeof name, "%s%s%s", prefix, *prefix ? "." : "", key);
        if (json_is_object(value)) {
            print_figures(value, name);
        } else if (json_is_string(value)) {
            printf("%-24s %s\n", name, json_string_value(value));
        } else if (json_is_real(value)) {
            printf("%-24s %.3f\n", name, json_real_value(value));
        } else if (json_is_integer(value)) {
            printf("%-24s %lld\n", name, (long long)json_integer_value(value));
        }
    }
}

void hr_status_print(const json_t *document)
{
    print_plan(document);
    print_figures(document, "");
}
