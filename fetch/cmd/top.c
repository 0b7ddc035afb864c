/* `headrace top`: what the daemon does, each second: in place on a terminal, else a line each. */
#include "fetch/cmd/cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fetch/cmd/client.h"

#define HR_TOP_PERIOD_S 1

extern char **environ;

/* "plan.fetched_demand" out of the status document. */
static double figure(const json_t *document, const char *name)
{
    const json_t *at = document;
    char part[64];
    while (at && *name) {
        size_t len = strcspn(name, ".");
        snprintf(part, sizeof part, "%.*s", (int)len, name);
        at = json_object_get(at, part);
        name += len + (name[len] == '.');
    }
    return at && json_is_number(at) ? json_number_value(at) : 0;
}

/* Growth in a second; against a document of another daemon: from 0. */
static double rate(const json_t *before, const json_t *now, const char *name)
{
    double seconds = figure(now, "uptime_s") - figure(before, "uptime_s");
    if (!before || figure(before, "pid") != figure(now, "pid") || seconds <= 0) {
        return 0;
    }
    return (figure(now, name) - figure(before, name)) / seconds;
}

static void print_line(const json_t *before, const json_t *now)
{
    printf("opens/s %.0f hits %.0f | GET/s %.0f %.1f MiB/s in flight %.0f queued %.0f | cache %.1f of %.1f "
           "MiB | wait "
           "p50 %.1f p99 %.1f ms | retries %.0f errors %.0f\n",
           rate(before, now, "cache.hits") + rate(before, now, "cache.misses"),
           rate(before, now, "cache.hits"), rate(before, now, "requests.get"),
           rate(before, now, "bytes.fetched") / (1 << 20), figure(now, "inflight"),
           figure(now, "plan.queued"), figure(now, "cache.bytes") / (1 << 20),
           figure(now, "cache.budget_bytes") / (1 << 20), figure(now, "wait_ms.p50"),
           figure(now, "wait_ms.p99"), figure(now, "retries"), figure(now, "errors"));
}

static void print_reasons(const json_t *before, const json_t *now)
{
    static const char *const reasons[] = {"demand", "lookahead", "replay", "window", "hint", "sweep"};
    printf("\n%-10s %8s %10s %12s %12s %14s\n", "reason", "queued", "fetched/s", "fetched", "used",
           "wasted MiB");
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        char queued[64], fetched[64], used[64], wasted[64];
        snprintf(queued, sizeof queued, "plan.queued_%s", reasons[i]);
        snprintf(fetched, sizeof fetched, "plan.fetched_%s", reasons[i]);
        snprintf(used, sizeof used, "plan.used_%s", reasons[i]);
        snprintf(wasted, sizeof wasted, "plan.wasted_%s_bytes", reasons[i]);
        printf("%-10s %8.0f %10.0f %12.0f %12.0f %14.1f\n", reasons[i], figure(now, queued),
               rate(before, now, fetched), figure(now, fetched), figure(now, used),
               figure(now, wasted) / (1 << 20));
    }
}

/* What threads wait for: of each second, all threads together. */
static void print_waits(const json_t *before, const json_t *now)
{
    const char *reason;
    json_t *one;
    json_object_foreach(json_object_get(now, "waits"), reason, one)
    {
        char count[64], ms[64];
        snprintf(count, sizeof count, "waits.%s.count", reason);
        snprintf(ms, sizeof ms, "waits.%s.ms", reason);
        if (figure(now, count) > 0) {
            printf("waits for %-10s %8.0f/s %10.0f ms/s %12.0f in all\n", reason, rate(before, now, count),
                   rate(before, now, ms), figure(now, count));
        }
    }
}

/* 0, or -1: no daemon. */
static int show(const struct hr_job *job, json_t **before, bool terminal)
{
    char message[HR_MESSAGE_BYTES] = "";
    json_t *now = NULL;
    if (hr_client_ask(job, false, json_pack("{s:s}", "op", "status"), &now, message) < 0) {
        hr_complain("%s", message);
        return -1;
    }
    if (terminal) {
        printf("\033[H\033[2Jheadrace, %s, up %.0f s\n\n", job->cache_dir, figure(now, "uptime_s"));
    }
    print_line(*before, now);
    if (terminal) {
        print_reasons(*before, now);
        putchar('\n');
        print_waits(*before, now);
    }
    fflush(stdout);
    json_decref(*before);
    *before = now;
    return 0;
}

int hr_cmd_top(int argc, char **argv)
{
    long count = -1; /* until it is interrupted */
    if (argc == 2 && strcmp(argv[0], "--count") == 0) {
        char *end;
        count = strtol(argv[1], &end, 10);
        if (!*argv[1] || *end || count < 1) {
            return hr_usage("top");
        }
    } else if (argc > 0) {
        return hr_usage("top");
    }
    char message[HR_MESSAGE_BYTES] = "";
    struct hr_job job;
    if (hr_job_load(&job, environ, NULL, 0, true, message) < 0) {
        hr_complain("%s", message);
        return HR_EXIT_FAILED;
    }
    json_t *before = NULL;
    bool terminal = isatty(STDOUT_FILENO);
    int error = show(&job, &before, terminal);
    for (long i = 1; error == 0 && (count < 0 || i < count) && !ferror(stdout); i++) {
        sleep(HR_TOP_PERIOD_S);
        error = show(&job, &before, terminal);
    }
    json_decref(before);
    hr_job_free(&job);
    return error < 0 ? HR_EXIT_FAILED : 0;
}
