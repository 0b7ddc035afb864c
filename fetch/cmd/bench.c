/* `headrace bench URL`: whole objects as fast as this machine's client gets them, with no cache and no
 * program. */
#include "fetch/cmd/cmd.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "config/maps.h"
#include "config/settings.h"
#include "fetch/base/cleanup.h"
#include "fetch/base/clock.h"
#include "fetch/net/http.h"
#include "fetch/net/loop.h"
#include "fetch/store/store.h"

#define HR_BENCH_KEYS 20000    /* keys listed at most; requests go round them */
#define HR_BENCH_REQUESTS 4000 /* per number of connections, when not said */
#define HR_BENCH_STEPS 8
#define HR_BENCH_MESSAGE_BYTES 512 /* a URL's start and what is wrong with it */
/* A store that has not answered by then is named, so that a wrong one is seen. */
#define HR_BENCH_QUIET_MS 2000

extern char **environ;

struct bench_key {
    char *key;
    uint32_t len;
    uint64_t size;
};

struct bench {
    struct hr_loop *loop;
    struct hr_http *http;
    struct hr_stores *stores;
    struct hr_store *store;
    struct hr_maps *maps;
    struct hr_settings *settings;
    struct hr_timer quiet; /* until the first page is there */
    struct bench_key *keys;
    unsigned key_count;
    /* One step. */
    unsigned want, started, ended, failed;
    uint64_t bytes;
    int error;
    char message[HR_BENCH_MESSAGE_BYTES];
};

static const char *process_env(void *owner, const char *name)
{
    (void)owner;
    return getenv(name);
}

static void next_page(struct bench *bench, const char *token);

static void still_quiet(void *owner)
{
    struct bench *bench = owner;
    hr_complain("no answer from %s yet (LIST s3://%s/%s); it is tried again for %lld s (timeout_s)",
                hr_store_endpoint(bench->store), hr_store_bucket(bench->store), bench->maps->map[0].prefix,
                (long long)hr_settings_seconds(bench->settings, HR_SETTING_TIMEOUT_S));
}

static void page_done(struct hr_call *call)
{
    struct bench *bench = call->owner;
    hr_loop_disarm(bench->loop, &bench->quiet);
    for (uint32_t i = 0; call->error == 0 && i < call->listed_count && bench->key_count < HR_BENCH_KEYS;
         i++) {
        const struct hr_listed *listed = &call->listed[i];
        struct bench_key *key = &bench->keys[bench->key_count];
        if (listed->size == 0 || !(key->key = strndup(listed->key, listed->key_len))) {
            continue;
        }
        key->len = listed->key_len;
        key->size = listed->size;
        bench->key_count++;
    }
    bench->error = call->error;
    snprintf(bench->message, sizeof bench->message, "%s", call->message);
    bool more = call->error == 0 && call->truncated && call->next_token && bench->key_count < HR_BENCH_KEYS;
    if (more) {
        next_page(bench, call->next_token);
    } else {
        hr_loop_stop(bench->loop);
    }
    hr_call_free(call);
}

static void next_page(struct bench *bench, const char *token)
{
    const struct hr_map *map = &bench->maps->map[0];
    struct hr_call *call = hr_call_new(HR_CALL_LIST, bench->store, map->prefix, map->prefix_len);
    if (call) {
        call->token = token ? strdup(token) : NULL;
        call->done = page_done;
        call->owner = bench;
    }
    bench->error = call ? hr_call_start(call) : -ENOMEM;
    if (bench->error < 0) {
        hr_call_free(call);
        hr_loop_stop(bench->loop);
    }
}

static void start_get(struct bench *bench);

static void get_done(struct hr_call *call)
{
    struct bench *bench = call->owner;
    bench->ended++;
    bench->bytes += call->body.len;
    if (call->error < 0) {
        bench->failed++;
        snprintf(bench->message, sizeof bench->message, "%s", call->message);
    }
    hr_call_free(call);
    if (bench->ended == bench->want) {
        hr_loop_stop(bench->loop);
    } else if (bench->started < bench->want) {
        start_get(bench);
    }
}

static void start_get(struct bench *bench)
{
    const struct bench_key *key = &bench->keys[bench->started++ % bench->key_count];
    struct hr_call *call = hr_call_new(HR_CALL_GET, bench->store, key->key, key->len);
    if (call) {
        call->expected_bytes = key->size;
        call->body_max_bytes = key->size;
        call->done = get_done;
        call->owner = bench;
    }
    if (!call || hr_call_start(call) < 0) {
        hr_call_free(call);
        bench->failed++;
        bench->ended++;
    }
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void step(struct bench *bench, unsigned connections, bool as_json, json_t *results)
{
    bench->started = bench->ended = bench->failed = 0;
    bench->bytes = 0;
    double cpu = cpu_seconds();
    int64_t began_us = hr_clock_us();
    for (unsigned i = 0; i < connections && bench->started < bench->want; i++) {
        start_get(bench);
    }
    if (bench->ended < bench->want) {
        (void)hr_loop_run(bench->loop);
    }
    double seconds = (double)(hr_clock_us() - began_us) / 1e6;
    double rate = bench->ended / seconds, megabytes = (double)bench->bytes / 1e6 / seconds;
    cpu = cpu_seconds() - cpu;
    if (as_json) {
        json_array_append_new(results,
                              json_pack("{s:I, s:I, s:I, s:f, s:f, s:f, s:f}", "connections",
                                        (json_int_t)connections, "requests", (json_int_t)bench->ended,
                                        "failed", (json_int_t)bench->failed, "seconds", seconds,
                                        "requests_per_s", rate, "megabytes_per_s", megabytes, "cpu_s", cpu));
    } else {
        printf("%4u connections: %8.0f requests/s %8.1f MB/s  %5.2f s CPU for %u requests%s\n", connections,
               rate, megabytes, cpu, bench->ended, bench->failed ? ", SOME FAILED" : "");
    }
    if (bench->failed) {
        hr_complain("%u of %u requests failed: %s", bench->failed, bench->ended, bench->message);
    }
}

static int open_bench(struct bench *bench, const char *url, unsigned connections)
{
    char text[4096];
    struct hr_maps_error maps_error;
    bench->maps = malloc(sizeof *bench->maps);
    bench->keys = calloc(HR_BENCH_KEYS, sizeof *bench->keys);
    snprintf(text, sizeof text, "/url=%s", url);
    if (!bench->maps || !bench->keys) {
        return -ENOMEM;
    }
    if (hr_maps_parse(text, bench->maps, &maps_error) < 0 || bench->maps->count != 1) {
        const char *why = strstr(maps_error.message, "`): "); /* what is in front is not the caller's */
        snprintf(bench->message, sizeof bench->message, "%.100s: %s", url[0] ? url : "''",
                 why ? why + strlen("`): ") : maps_error.message);
        return -EINVAL;
    }
    struct hr_settings_sources sources = {.envp = environ};
    char message[HR_SETTINGS_MESSAGE_BYTES] = "";
    if (hr_settings_load(&sources, message, &bench->settings) < 0) {
        snprintf(bench->message, sizeof bench->message, "%s", message);
        return -EINVAL;
    }
    struct hr_http_options http = {
        .threads = 1, .max_connections = connections, .user_agent = "headrace/" HR_VERSION};
    int error = hr_loop_new(&bench->loop);
    if (error == 0) {
        error = hr_http_new(&http, bench->loop, &bench->http);
    }
    struct hr_stores_options stores = {
        .loop = bench->loop,
        .http = bench->http,
        .timeout_ms = (unsigned)hr_settings_seconds(bench->settings, HR_SETTING_TIMEOUT_S) * 1000};
    if (error == 0) {
        error = hr_stores_new(&stores, &bench->stores);
    }
    const struct hr_map *map = &bench->maps->map[0];
    const char *endpoint = hr_settings_map_text(bench->settings, map, HR_SETTING_ENDPOINT);
    struct hr_store_options store = {
        .url = map->url,
        .endpoint = endpoint[0] ? endpoint : NULL,
        .requester_pays = hr_settings_map_bool(bench->settings, map, HR_SETTING_REQUESTER_PAYS),
        .customer_key_file = hr_settings_map_text(bench->settings, map, HR_SETTING_CUSTOMER_KEY_FILE),
        .env = process_env};
    return error < 0 ? error : hr_store_new(bench->stores, &store, bench->message, &bench->store);
}

static void close_bench(struct bench *bench)
{
    hr_store_unref(bench->store);
    if (bench->http) {
        hr_http_free(bench->http);
    }
    hr_stores_free(bench->stores);
    hr_loop_free(bench->loop);
    for (unsigned i = 0; i < bench->key_count; i++) {
        free(bench->keys[i].key);
    }
    free(bench->keys);
    free(bench->maps);
    hr_settings_free(bench->settings);
}

/* "64,256" -> numbers; how many, 0 when malformed. */
static unsigned parse_steps(const char *text, unsigned steps[HR_BENCH_STEPS])
{
    unsigned count = 0;
    while (*text && count < HR_BENCH_STEPS) {
        char *end;
        long value = strtol(text, &end, 10);
        if (end == text || value < 1 || value > 4096 || (*end && *end != ',')) {
            return 0;
        }
        steps[count++] = (unsigned)value;
        text = *end ? end + 1 : end;
    }
    return *text ? 0 : count;
}

int hr_cmd_bench(int argc, char **argv)
{
    unsigned steps[HR_BENCH_STEPS] = {64, 256}, step_count = 2, most = 0;
    struct bench bench = {.want = HR_BENCH_REQUESTS};
    bool as_json = false;
    const char *url = NULL;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            as_json = true;
        } else if (strcmp(argv[i], "--connections") == 0 && i + 1 < argc) {
            step_count = parse_steps(argv[++i], steps);
        } else if (strcmp(argv[i], "--requests") == 0 && i + 1 < argc) {
            long value = strtol(argv[++i], NULL, 10);
            bench.want = value > 0 && value <= 10000000 ? (unsigned)value : 0;
        } else if (!url && argv[i][0] != '-') {
            url = argv[i];
        } else {
            return hr_usage("bench");
        }
    }
    if (!url || step_count == 0 || bench.want == 0) {
        return hr_usage("bench");
    }
    for (unsigned i = 0; i < step_count; i++) {
        most = steps[i] > most ? steps[i] : most;
    }
    int error = open_bench(&bench, url, most);
    if (error == 0) {
        bench.quiet = (struct hr_timer)HR_TIMER_INIT(still_quiet, &bench);
        (void)hr_loop_arm(bench.loop, &bench.quiet, HR_BENCH_QUIET_MS);
        next_page(&bench, NULL);
        (void)hr_loop_run(bench.loop);
        error = bench.error;
    }
    if (error == 0 && bench.key_count == 0) {
        error = -ENOENT;
        snprintf(bench.message, sizeof bench.message, "no objects with bytes under %.200s", url);
    }
    json_t *results = json_array();
    for (unsigned i = 0; i < step_count && error == 0; i++) {
        step(&bench, steps[i], as_json, results);
        error = bench.failed ? -EIO : 0;
    }
    if (as_json && error == 0) {
        json_dumpf(results, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
        putchar('\n');
    } else if (error < 0) {
        hr_complain("%s", bench.message[0] ? bench.message : strerror(-error));
    }
    json_decref(results);
    close_bench(&bench);
    return error < 0 ? HR_EXIT_FAILED : 0;
}
