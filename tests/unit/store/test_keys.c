/* Calls whose credentials come from elsewhere: they wait for them, share one asking, and end well when there
 * are none, when they are cancelled and when the family ends. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fetch/store/internal.h"
#include "tests/unit/store/script_server.h"

#define CALLS 3

struct bed {
    struct script agent, s3;
    char agent_url[64], s3_url[64];
    struct hr_loop *loop;
    struct hr_http *http;
    struct hr_stores *stores;
    struct hr_store *store;
    struct hr_call *calls[CALLS];
    unsigned pending;
};

static const char *from_bed(void *owner, const char *name)
{
    struct bed *bed = owner;

    if (strcmp(name, "AWS_CONTAINER_CREDENTIALS_FULL_URI") == 0) {
        return bed->agent_url;
    }
    return strcmp(name, "AWS_ENDPOINT_URL_S3") == 0 ? bed->s3_url : NULL;
}

#define KEYS                                                                                                 \
    "{\"AccessKeyId\":\"ASIA1\",\"SecretAccessKey\":\"s\",\"Token\":\"tok\",\"Expiration\":"                 \
    "\"2199-01-01T00:00:00Z\"}"

static struct bed *open_bed(const char *agent_status, const char *agent_body)
{
    struct bed *bed = calloc(1, sizeof(*bed));
    struct hr_http_options http = {.threads = 1, .max_connections = 4, .user_agent = "test"};
    char message[256] = "";

    assert_non_null(bed);
    bed->agent.steps[0] = (struct script_step){agent_status, agent_body, 0};
    bed->s3.steps[0] = (struct script_step){"200 OK\r\nETag: \"e\"\r\n", "hello", 0};
    bed->agent.step_count = bed->s3.step_count = 1;
    assert_int_equal(script_start(&bed->agent), 0);
    assert_int_equal(script_start(&bed->s3), 0);
    (void)snprintf(bed->agent_url, sizeof(bed->agent_url), "http://127.0.0.1:%u/keys", bed->agent.port);
    (void)snprintf(bed->s3_url, sizeof(bed->s3_url), "http://127.0.0.1:%u", bed->s3.port);
    assert_int_equal(hr_loop_new(&bed->loop), 0);
    assert_int_equal(hr_http_new(&http, bed->loop, &bed->http), 0);
    struct hr_stores_options stores = {.loop = bed->loop, .http = bed->http, .timeout_ms = 5000};
    assert_int_equal(hr_stores_new(&stores, &bed->stores), 0);
    struct hr_store_options store = {.url = "s3://bkt/", .env = from_bed, .env_owner = bed};
    if (hr_store_new(bed->stores, &store, message, &bed->store) < 0) {
        fail_msg("%s", message);
    }
    return bed;
}

static void on_done(struct hr_call *call)
{
    struct bed *bed = call->owner;

    if (--bed->pending == 0) {
        hr_loop_stop(bed->loop);
    }
}

static void start_calls(struct bed *bed)
{
    for (unsigned i = 0; i < CALLS; i++) {
        bed->calls[i] = hr_call_new(HR_CALL_GET, bed->store, "k", 1);
        bed->calls[i]->done = on_done;
        bed->calls[i]->owner = bed;
        bed->calls[i]->expected_bytes = 5;
        bed->pending++;
        assert_int_equal(hr_call_start(bed->calls[i]), 0);
    }
}

/* Twice is no harm: ends may come before the case's own end. */
static void end_family(struct bed *bed)
{
    hr_http_free(bed->http);
    hr_stores_free(bed->stores);
    bed->http = NULL;
    bed->stores = NULL;
}

static void close_bed(struct bed *bed)
{
    end_family(bed);
    for (unsigned i = 0; i < CALLS; i++) {
        hr_call_free(bed->calls[i]);
    }
    hr_store_unref(bed->store);
    hr_loop_free(bed->loop);
    free(bed);
}

static void stop_servers(struct bed *bed)
{
    script_stop(&bed->agent);
    script_stop(&bed->s3);
}

static void calls_wait_for_one_asking(void **state)
{
    struct bed *bed = open_bed("200 OK\r\n", KEYS);

    (void)state;
    assert_non_null(strstr(hr_store_identity(bed->store), "container:http://127.0.0.1:"));
    start_calls(bed);
    assert_int_equal(hr_loop_run(bed->loop), 0);
    stop_servers(bed);
    for (unsigned i = 0; i < CALLS; i++) {
        assert_int_equal(bed->calls[i]->error, 0);
        assert_int_equal(bed->calls[i]->retries, 0);
        assert_non_null(strstr(bed->s3.log[i], "Credential=ASIA1/"));
        assert_non_null(strstr(bed->s3.log[i], "x-amz-security-token: tok\r\n"));
    }
    assert_int_equal(bed->agent.asked, 1);
    assert_int_equal(bed->s3.asked, CALLS);
    close_bed(bed);
}

static void no_credentials_no_request(void **state)
{
    struct bed *bed =
        open_bed("403 Forbidden\r\n", "{\"code\":\"AccessDenied\",\"message\":\"no such pod\"}");

    (void)state;
    start_calls(bed);
    assert_int_equal(hr_loop_run(bed->loop), 0);
    stop_servers(bed);
    for (unsigned i = 0; i < CALLS; i++) {
        assert_int_equal(bed->calls[i]->error, -EACCES);
        assert_non_null(strstr(bed->calls[i]->message, "status 403 AccessDenied no such pod"));
        assert_null(strstr(bed->calls[i]->message, "no credentials were found"));
    }
    assert_int_equal(bed->agent.asked, 1);
    assert_int_equal(bed->s3.asked, 0);
    close_bed(bed);
}

/* The others end well, and it was never sent. */
static void check_second_cancelled(struct bed *bed)
{
    assert_int_equal(hr_loop_run(bed->loop), 0);
    stop_servers(bed);
    assert_int_equal(bed->calls[0]->error, 0);
    assert_int_equal(bed->calls[1]->error, -ECANCELED);
    assert_int_equal(bed->calls[2]->error, 0);
    assert_int_equal(bed->s3.asked, CALLS - 1);
    close_bed(bed);
}

static void cancelled_while_they_wait(void **state)
{
    struct bed *bed = open_bed("200 OK\r\n", KEYS);

    (void)state;
    start_calls(bed);
    hr_call_cancel(bed->calls[1]);
    check_second_cancelled(bed);
}

struct canceller {
    struct hr_keeper_wait wait;
    struct bed *bed;
};

static void cancel_second(void *owner)
{
    struct canceller *canceller = owner;

    hr_call_cancel(canceller->bed->calls[1]);
}

/* Who was woken before them cancels one of those who are woken next. */
static void cancelled_as_the_keys_come(void **state)
{
    struct bed *bed = open_bed("200 OK\r\n", KEYS);
    struct canceller canceller = {.bed = bed};

    (void)state;
    canceller.wait = (struct hr_keeper_wait){.fn = cancel_second, .owner = &canceller};
    assert_int_equal(hr_keeper_wait(bed->store->keeper, &canceller.wait), 0);
    start_calls(bed);
    check_second_cancelled(bed);
}

static void family_ends_while_they_wait(void **state)
{
    struct bed *bed = open_bed(NULL, NULL);

    (void)state;
    start_calls(bed);
    end_family(bed);
    stop_servers(bed);
    assert_int_equal(bed->pending, 0);
    for (unsigned i = 0; i < CALLS; i++) {
        assert_int_equal(bed->calls[i]->error, -ECANCELED);
    }
    assert_int_equal(bed->s3.asked, 0);
    close_bed(bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_wait_for_one_asking),   cmocka_unit_test(no_credentials_no_request),
        cmocka_unit_test(cancelled_while_they_wait),   cmocka_unit_test(cancelled_as_the_keys_come),
        cmocka_unit_test(family_ends_while_they_wait),
    };
    return cmocka_run_group_tests_name("keys", tests, NULL, NULL);
}
