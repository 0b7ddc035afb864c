/* Three questions to each map's store, with nothing in between: one LIST, one byte of one object, the time.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fetch/base/clock.h"
#include "fetch/cmd/doctor.h"
#include "fetch/net/http.h"
#include "fetch/net/loop.h"
#include "fetch/store/store.h"

#define HR_DOCTOR_TIMEOUT_MS 5000 /* of one question, its retries included: a person waits */
#define HR_DOCTOR_KEYS 100        /* listed at most, to find one that has bytes */
#define HR_CLOCK_WRONG_S 300      /* stores refuse a signature that is 15 minutes off; cached ones sooner */

struct visit {
    struct hr_doctor *doctor;
    struct hr_loop *loop;
    struct hr_http *http;
    struct hr_stores *stores;
    struct hr_store *store;
    const struct hr_map *map;
    int error;
    bool denied; /* the keys are good, and may not do that */
    char message[256];
    char *key; /* of an object that has bytes */
    uint32_t key_len, listed;
    bool truncated;
    int64_t server_s; /* 0: the server did not tell */
};

static const char *job_env(void *owner, const char *name)
{
    return hr_job_getenv(owner, name);
}

static void keep_outcome(struct visit *visit, struct hr_call *call)
{
    visit->error = call->error;
    visit->denied = call->denied;
    snprintf(visit->message, sizeof visit->message, "%s", call->message);
    hr_call_free(call);
    hr_loop_stop(visit->loop);
}

static void listed(struct hr_call *call)
{
    struct visit *visit = call->owner;
    for (uint32_t i = 0; call->error == 0 && i < call->listed_count && !visit->key; i++) {
        if (call->listed[i].size > 0) {
            visit->key = strndup(call->listed[i].key, call->listed[i].key_len);
            visit->key_len = call->listed[i].key_len;
        }
    }
    visit->listed = call->listed_count;
    visit->truncated = call->truncated;
    keep_outcome(visit, call);
}

static void got(struct hr_call *call)
{
    keep_outcome(call->owner, call);
}

/* Runs the loop until the call has come back; visit->error and message tell. */
static void ask(struct visit *visit, enum hr_call_kind kind, const char *key, uint32_t key_len)
{
    struct hr_call *call = hr_call_new(kind, visit->store, key, key_len);
    visit->error = call ? 0 : -ENOMEM;
    visit->denied = false;
    snprintf(visit->message, sizeof visit->message, "out of memory");
    if (!call) {
        return;
    }
    call->owner = visit;
    call->done = kind == HR_CALL_LIST ? listed : got;
    call->max_keys = HR_DOCTOR_KEYS;
    if (kind == HR_CALL_GET) {
        call->range_bytes = 1;
        call->expected_bytes = 1;
    }
    visit->error = hr_call_start(call);
    if (visit->error < 0) {
        snprintf(visit->message, sizeof visit->message, "%s", strerror(-visit->error));
        hr_call_free(call);
        return;
    }
    (void)hr_loop_run(visit->loop);
}

static void told_time(struct hr_http_request *request)
{
    struct visit *visit = request->owner;
    const char *date = request->error == 0 ? hr_http_answer(request, "date") : NULL;
    struct tm tm = {.tm_isdst = 0};
    if (date && strptime(date, "%a, %d %b %Y %H:%M:%S", &tm)) {
        visit->server_s = timegm(&tm);
    }
    hr_http_request_free(request);
    hr_loop_stop(visit->loop);
}

static void check_clock(struct visit *visit)
{
    struct hr_http_request *request = hr_http_request_new();
    if (!request || asprintf(&request->url, "%s/", hr_store_endpoint(visit->store)) < 0) {
        hr_http_request_free(request);
        return;
    }
    const char *bundle = hr_job_getenv(&visit->doctor->job, "AWS_CA_BUNDLE");
    request->ca_bundle = bundle && *bundle ? strdup(bundle) : NULL;
    request->method = HR_HTTP_GET;
    request->body_max_bytes = 1 << 20;
    request->total_ms = HR_DOCTOR_TIMEOUT_MS;
    request->done = told_time;
    request->owner = visit;
    if (hr_http_submit(visit->http, request) < 0) {
        hr_http_request_free(request);
        return;
    }
    (void)hr_loop_run(visit->loop);
    if (visit->server_s == 0) {
        hr_doctor_say(visit->doctor, HR_FINDING_NOTE, "clock", "the endpoint does not tell its time");
        return;
    }
    long long off_s = (long long)(hr_clock_wall_ns() / 1000000000 - visit->server_s);
    bool wrong = llabs(off_s) > HR_CLOCK_WRONG_S;
    hr_doctor_say(visit->doctor, wrong ? HR_FINDING_WRONG : HR_FINDING_OK, "clock",
                  wrong ? "%lld s ahead of the store's: set this machine's clock"
                        : "within %lld s of the store's",
                  wrong ? off_s : llabs(off_s) + 1);
}

/* Other tools of this machine may reach the store by one. */
static void note_proxy(const struct visit *visit)
{
    static const char *const names[] = {"https_proxy", "HTTPS_PROXY", "http_proxy", "all_proxy", "ALL_PROXY"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value && *value) {
            hr_doctor_say(visit->doctor, HR_FINDING_NOTE, "proxy",
                          "%s is set, but proxies are not used: the endpoint must be reached directly",
                          names[i]);
            return;
        }
    }
}

/* The store's messages say which: an endpoint that does not answer is no missing permission. */
static void check_names(struct visit *visit)
{
    struct hr_doctor *doctor = visit->doctor;
    ask(visit, HR_CALL_LIST, visit->map->prefix, visit->map->prefix_len);
    if (visit->error == -EACCES) {
        hr_doctor_say(doctor, HR_FINDING_WRONG, "list", "%s%s", visit->message,
                      visit->denied ? "; the identity needs s3:ListBucket on the bucket and s3:GetObject on "
                                      "its objects"
                                    : "");
    } else if (visit->error < 0) {
        hr_doctor_say(doctor, HR_FINDING_WRONG, "endpoint", "%s", visit->message);
        note_proxy(visit);
    } else {
        hr_doctor_say(doctor, HR_FINDING_OK, "endpoint", "%s answers", hr_store_endpoint(visit->store));
        hr_doctor_say(doctor, visit->listed ? HR_FINDING_OK : HR_FINDING_NOTE, "list",
                      visit->listed ? "%s: %u names%s"
                                    : "%s holds no object: is the prefix right? (%u names%s)",
                      visit->map->url, visit->listed, visit->truncated ? " and more" : "");
    }
}

static void check_bytes(struct visit *visit)
{
    if (!visit->key) {
        hr_doctor_say(visit->doctor, HR_FINDING_NOTE, "get", "not tried: no object is known");
        return;
    }
    ask(visit, HR_CALL_GET, visit->key, visit->key_len);
    if (visit->error < 0) {
        hr_doctor_say(visit->doctor, HR_FINDING_WRONG, "get", "%s%s", visit->message,
                      visit->denied ? "; the identity needs s3:GetObject on the objects" : "");
    } else {
        hr_doctor_say(visit->doctor, HR_FINDING_OK, "get", "a byte of %.200s", visit->key);
    }
}

static int open_store(struct visit *visit)
{
    struct hr_http_options http = {.threads = 1, .max_connections = 4, .user_agent = "headrace/" HR_VERSION};
    int error = hr_loop_new(&visit->loop);
    if (error == 0) {
        error = hr_http_new(&http, visit->loop, &visit->http);
    }
    struct hr_stores_options stores = {
        .loop = visit->loop, .http = visit->http, .timeout_ms = HR_DOCTOR_TIMEOUT_MS};
    if (error == 0) {
        error = hr_stores_new(&stores, &visit->stores);
    }
    const struct hr_settings *settings = visit->doctor->job.settings;
    const char *endpoint = hr_settings_map_text(settings, visit->map, HR_SETTING_ENDPOINT);
    const char *key_file = hr_settings_map_text(settings, visit->map, HR_SETTING_CUSTOMER_KEY_FILE);
    struct hr_store_options store = {
        .url = visit->map->url,
        .endpoint = endpoint[0] ? endpoint : NULL,
        .requester_pays = hr_settings_map_bool(settings, visit->map, HR_SETTING_REQUESTER_PAYS),
        .customer_key_file = key_file,
        .env = job_env,
        .env_owner = &visit->doctor->job,
    };
    return error < 0 ? error : hr_store_new(visit->stores, &store, visit->message, &visit->store);
}

static void close_store(struct visit *visit)
{
    free(visit->key);
    hr_store_unref(visit->store);
    hr_http_free(visit->http);
    hr_stores_free(visit->stores);
    hr_loop_free(visit->loop);
}

void hr_doctor_stores(struct hr_doctor *doctor)
{
    for (unsigned i = 0; i < doctor->job.maps->count; i++) {
        struct visit visit = {.doctor = doctor, .map = &doctor->job.maps->map[i]};
        int error = open_store(&visit);
        hr_doctor_say(doctor, HR_FINDING_OK, "map", "%s = %s", visit.map->path, visit.map->url);
        if (error < 0) {
            hr_doctor_say(doctor, HR_FINDING_WRONG, "credentials", "%s",
                          visit.message[0] ? visit.message : strerror(-error));
        } else {
            hr_doctor_say(doctor, HR_FINDING_OK, "credentials", "%s", hr_store_identity(visit.store));
            check_names(&visit);
            check_bytes(&visit);
            check_clock(&visit);
        }
        close_store(&visit);
    }
}
