#include "fetch/cmd/advice.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define HR_WORTH 0.10 /* of the time waited: less is not worth a line */
#define HR_MANY 16    /* waits: fewer are the start of a job */

struct advice {
    const json_t *report;
    unsigned count;
    char (*lines)[HR_ADVICE_BYTES];
};

double hr_report_figure(const json_t *document, const char *name)
{
    const json_t *at = document;
    while (at && *name) {
        char part[64];
        size_t len = strcspn(name, ".");
        snprintf(part, sizeof part, "%.*s", (int)len, name);
        at = json_object_get(at, part);
        name += len + (name[len] == '.');
    }
    return at && json_is_number(at) ? json_number_value(at) : 0;
}

static double get(const struct advice *advice, const char *name)
{
    return hr_report_figure(advice->report, name);
}

static void say(struct advice *advice, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct advice *advice, const char *format, ...)
{
    va_list args;
    if (advice->count == HR_ADVICE_LINES) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(advice->lines[advice->count++], HR_ADVICE_BYTES, format, args);
    va_end(args);
}

/* Is this reason a good part of what was waited for? */
static bool weighs(const struct advice *advice, const char *reason)
{
    char name[64];
    snprintf(name, sizeof name, "waits.by.%s.ms", reason);
    double all = get(advice, "waits.ms");
    return all > 0 && get(advice, name) >= HR_WORTH * all;
}

static void on_store(struct advice *advice)
{
    if (get(advice, "throttled") > 0 && weighs(advice, "throttled")) {
        say(advice,
            "The store throttled %.0f requests: lower `connections` (it is %.0f), or spread the objects "
            "over more prefixes.",
            get(advice, "throttled"), get(advice, "connections"));
    }
    if (weighs(advice, "retry")) {
        say(advice,
            "%.0f requests had to be sent again: look at daemon.log for the errors; the endpoint or the "
            "way to it is not sound.",
            get(advice, "retries"));
    }
    if (get(advice, "errors") > 0) {
        say(advice,
            "%.0f requests failed for good: daemon.log names them; a store that is only slow needs more "
            "`timeout_s`.",
            get(advice, "errors"));
    }
}

static void on_cache(struct advice *advice)
{
    double budget = get(advice, "cache.budget_bytes"), data = get(advice, "index.bytes");
    bool too_small = data > budget && get(advice, "cache.evictions") > 0;
    if (too_small) {
        say(advice,
            "The cache (%.1f GiB) is smaller than what is listed (%.1f GiB) and gave up %.0f files: a "
            "larger `cache_size`, or another `cache_dir`, spares fetching them again each epoch.",
            budget / (1 << 30), data / (1 << 30), get(advice, "cache.evictions"));
    }
    if (weighs(advice, "room") && !too_small) {
        say(advice,
            "Objects waited for room in the cache: raise `cache_size` (it is %.1f GiB) or free space on "
            "its file system.",
            budget / (1 << 30));
    }
}

static void on_names(struct advice *advice)
{
    if (weighs(advice, "listing")) {
        say(advice,
            "Much of the time went into listing: keep the index between jobs with `revalidate` (an age, "
            "or `forever`), or start it at once with `list=all`.");
    }
    if (weighs(advice, "name") && get(advice, "waits.by.name.count") >= HR_MANY) {
        say(advice, "%.0f names were asked for one by one: `list=all` takes them from one listing.",
            get(advice, "waits.by.name.count"));
    }
}

static void on_prefetch(struct advice *advice)
{
    bool demand = weighs(advice, "demand") && get(advice, "waits.by.demand.count") >= HR_MANY;
    bool ahead = get(advice, "prefetch.lookahead.fetched") > 0 || get(advice, "prefetch.replay.fetched") > 0;
    if (demand && !ahead) {
        say(advice,
            "%.0f objects were waited for that nothing had foreseen: num_workers > 0 in a DataLoader "
            "announces them; for another program, record the order once (`run --record FILE`) and give "
            "it to the next (`run --replay FILE`), or `headrace warm` the paths first.",
            get(advice, "waits.by.demand.count"));
    } else if (demand) {
        say(advice,
            "%.0f objects were waited for that nothing had foreseen, though look-ahead worked: the first "
            "batches, or other files than those that are announced (`run --record` and `--replay` know "
            "all).",
            get(advice, "waits.by.demand.count"));
    }
    if (weighs(advice, "late") && get(advice, "waits.by.late.count") >= HR_MANY) {
        say(advice,
            "%.0f objects were on their way, but late: a larger prefetch_factor announces them earlier; "
            "`order_search` and --replay look further ahead; when the store or the line is at its limit, "
            "`headrace bench` says so.",
            get(advice, "waits.by.late.count"));
    }
    double fetched = get(advice, "bytes.fetched"), wasted = get(advice, "bytes.wasted");
    if (wasted > HR_WORTH * fetched && get(advice, "prefetch.sweep.wasted_bytes") > wasted / 2) {
        say(advice,
            "%.0f MiB came ahead in listing order and left the cache unused: `prefetch=off` for this map "
            "spares them.",
            wasted / (1 << 20));
    }
}

unsigned hr_advice(const json_t *report, char ret[HR_ADVICE_LINES][HR_ADVICE_BYTES])
{
    struct advice advice = {.report = report, .lines = ret};
    on_store(&advice);
    on_cache(&advice);
    on_names(&advice);
    on_prefetch(&advice);
    return advice.count;
}
