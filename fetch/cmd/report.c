/* `headrace report`: what the last job waited for, what was fetched for it, and what would help. */
#include "fetch/cmd/cmd.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fetch/base/cleanup.h"
#include "fetch/cmd/advice.h"
#include "fetch/cmd/client.h"
#include "fetch/serve/jobs.h"

extern char **environ;

static double figure(const json_t *document, const char *name)
{
    return hr_report_figure(document, name);
}

/* ---- which one ---- */

/* The newer of two; `other` is taken. */
static json_t *newer(json_t *one, json_t *other)
{
    if (!other || (one && figure(one, "began") > figure(other, "began"))) {
        json_decref(other);
        return one;
    }
    json_decref(one);
    return other;
}

static json_t *newest_running(const struct hr_job *job)
{
    char message[HR_MESSAGE_BYTES];
    json_t *answer = NULL, *found = NULL;
    if (hr_client_ask(job, false, json_pack("{s:s}", "op", "report"), &answer, message) < 0) {
        return NULL; /* no daemon: what it wrote is there */
    }
    const json_t *jobs = json_object_get(answer, "jobs");
    for (size_t i = 0; i < json_array_size(jobs); i++) {
        found = newer(found, json_incref(json_array_get(jobs, i)));
    }
    json_decref(answer);
    return found;
}

static int is_report(const struct dirent *entry)
{
    size_t len = strlen(entry->d_name);
    return len > 5 && strcmp(entry->d_name + len - 5, ".json") == 0;
}

static json_t *newest_ended(const char *cache_dir)
{
    char path[PATH_MAX + sizeof HR_REPORTS_DIR + 1];
    snprintf(path, sizeof path, "%s/" HR_REPORTS_DIR, cache_dir);
    hr_cleanup_fd int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct dirent **names = NULL;
    json_t *document = NULL;
    int count = dir_fd < 0 ? 0 : scandirat(dir_fd, ".", &names, is_report, alphasort);
    for (int i = count - 1; i >= 0; i--) {
        hr_cleanup_fd int fd =
            document ? -1 : openat(dir_fd, names[i]->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0) {
            document = json_loadfd(fd, 0, NULL);
        }
        free(names[i]);
    }
    free(names);
    return document;
}

/* ---- the text ---- */

static void print_waits(const json_t *document)
{
    static const struct {
        const char *reason, *text;
    } rows[] = {
        {"demand", "objects that nothing had foreseen"},
        {"late", "objects that were on their way already"},
        {"segment", "bytes of large objects"},
        {"listing", "directories: the listing"},
        {"name", "names without a listing"},
        {"room", "room in the cache"},
        {"retry", "requests that had to be sent again"},
        {"throttled", "the store, which said: slow down"},
    };
    printf("Its threads waited %.1f s in all, %.0f times:\n", figure(document, "waits.ms") / 1000,
           figure(document, "waits.count"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char count[64], ms[64], longest[64];
        snprintf(count, sizeof count, "waits.by.%s.count", rows[i].reason);
        snprintf(ms, sizeof ms, "waits.by.%s.ms", rows[i].reason);
        snprintf(longest, sizeof longest, "waits.by.%s.max_ms", rows[i].reason);
        if (figure(document, count) > 0) {
            printf("  %10.2f s %8.0f times, at most %7.0f ms, for %s\n", figure(document, ms) / 1000,
                   figure(document, count), figure(document, longest), rows[i].text);
        }
    }
}

static void print_prefetch(const json_t *document)
{
    static const char *const reasons[] = {"lookahead", "replay", "window", "hint", "sweep"};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        char fetched[64], used[64], wasted[64];
        snprintf(fetched, sizeof fetched, "prefetch.%s.fetched", reasons[i]);
        snprintf(used, sizeof used, "prefetch.%s.used", reasons[i]);
        snprintf(wasted, sizeof wasted, "prefetch.%s.wasted_bytes", reasons[i]);
        if (figure(document, fetched) > 0) {
            printf("  %s: %.0f came ahead, %.0f were used, %.1f MiB left the cache unused\n", reasons[i],
                   figure(document, fetched), figure(document, used), figure(document, wasted) / (1 << 20));
        }
    }
    if (figure(document, "orders.known_order") > 0) {
        printf("  the order was known in %.0f epochs (seed %.0f), the next one's in %.0f of them\n",
               figure(document, "orders.known_order"), figure(document, "orders.known_seed"),
               figure(document, "orders.next_order"));
    }
}

static void print_report(const json_t *document)
{
    const char *program = json_string_value(json_object_get(document, "program"));
    time_t began = (time_t)figure(document, "began");
    struct tm local;
    char when[64] = "";
    if (localtime_r(&began, &local)) {
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
    }
    printf("%s, pid %.0f: began %s, %s %.1f s\n", program ? program : "?", figure(document, "pid"), when,
           json_is_true(json_object_get(document, "running")) ? "runs since" : "took",
           figure(document, "seconds"));
    print_waits(document);
    if (!json_is_true(json_object_get(document, "alone"))) {
        puts("Other jobs ran at the same time; what follows is of all of them:");
    }
    double opens = figure(document, "cache.hits") + figure(document, "cache.misses");
    printf("GETs %.0f, LISTs %.0f, %.1f MiB fetched, %.1f MiB wasted, retries %.0f, throttled %.0f, errors "
           "%.0f\n",
           figure(document, "requests.get"), figure(document, "requests.list"),
           figure(document, "bytes.fetched") / (1 << 20), figure(document, "bytes.wasted") / (1 << 20),
           figure(document, "retries"), figure(document, "throttled"), figure(document, "errors"));
    printf("opens %.0f, of which %.0f waited for nothing (%.0f %%)\n", opens, figure(document, "cache.hits"),
           opens > 0 ? 100 * figure(document, "cache.hits") / opens : 0);
    print_prefetch(document);
    char lines[HR_ADVICE_LINES][HR_ADVICE_BYTES];
    unsigned count = hr_advice(document, lines);
    puts(count ? "What to change:" : "Nothing stands out that would help.");
    for (unsigned i = 0; i < count; i++) {
        printf("- %s\n", lines[i]);
    }
}

static void print_json(json_t *document)
{
    char lines[HR_ADVICE_LINES][HR_ADVICE_BYTES];
    unsigned count = hr_advice(document, lines);
    json_t *advice = json_array();
    for (unsigned i = 0; i < count; i++) {
        json_array_append_new(advice, json_string(lines[i]));
    }
    json_object_set_new(document, "advice", advice);
    json_dumpf(document, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    putchar('\n');
}

int hr_cmd_report(int argc, char **argv)
{
    bool as_json = argc == 1 && strcmp(argv[0], "--json") == 0;
    if (argc > 1 || (argc == 1 && !as_json)) {
        return hr_usage("report");
    }
    char message[HR_MESSAGE_BYTES] = "";
    struct hr_job job;
    if (hr_job_load(&job, environ, NULL, 0, true, message) < 0) {
        hr_complain("%s", message);
        return HR_EXIT_FAILED;
    }
    json_t *document = newer(newest_running(&job), newest_ended(job.cache_dir));
    if (!document) {
        hr_complain(
            "no job has been reported in %s yet: none has used a map there, or it was another cache_dir",
            job.cache_dir);
        hr_job_free(&job);
        return HR_EXIT_FAILED;
    }
    if (as_json) {
        print_json(document);
    } else {
        print_report(document);
    }
    json_decref(document);
    hr_job_free(&job);
    return 0;
}
