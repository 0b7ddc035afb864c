/* Which store: bucket, endpoint, addressing, region, identity, and the URL and headers that come of it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fetch/store/internal.h"
#include "tests/unit/store/variables.h"

static char config_path[64];

#define CONFIG                                                                                               \
    "[profile here]\nregion=eu-north-1\nendpoint_url=http://profile:1\nservices=s\n"                         \
    "[services s]\ns3 =\n  endpoint_url = http://service:2\n"                                                \
    "[profile virtual]\ns3 =\n  addressing_style = virtual\n"                                                \
    "[profile path]\ns3 =\n  addressing_style = path\n"                                                      \
    "[profile odd]\ns3 =\n  addressing_style = sideways\n"

#define KEYS                                                                                                 \
    {"AWS_ACCESS_KEY_ID", "AK"},                                                                             \
    {                                                                                                        \
        "AWS_SECRET_ACCESS_KEY", "s"                                                                         \
    }
#define PROFILE(name)                                                                                        \
    {"AWS_CONFIG_FILE", config_path},                                                                        \
    {                                                                                                        \
        "AWS_PROFILE", name                                                                                  \
    }

static const struct {
    const char *url;
    const char *option;
    struct variable env[7];
    int error;
    const char *expected; /* error: part of the message; else the URL of a GET of "k" */
    const char *endpoint, *identity;
} rows[] = {
    {"s3://bkt/x/y",
     NULL,
     {KEYS},
     0,
     "https://bkt.s3.us-east-1.amazonaws.com/k",
     "https://s3.us-east-1.amazonaws.com",
     "key:AK"},
    {"s3://bkt",
     NULL,
     {{"AWS_REGION", "eu-west-1"}, {"AWS_DEFAULT_REGION", "no"}},
     0,
     "https://bkt.s3.eu-west-1.amazonaws.com/k",
     "https://s3.eu-west-1.amazonaws.com",
     "anonymous"},
    {"s3://bkt",
     NULL,
     {{"AWS_REGION", ""}, {"AWS_DEFAULT_REGION", "eu-west-2"}},
     0,
     "https://bkt.s3.eu-west-2.amazonaws.com/k",
     NULL,
     NULL},
    {"s3://my.bkt/", NULL, {KEYS}, 0, "https://s3.us-east-1.amazonaws.com/my.bkt/k", NULL, NULL},
    {"s3://My_Bkt/", NULL, {KEYS}, 0, "https://s3.us-east-1.amazonaws.com/My_Bkt/k", NULL, NULL},
    {"s3://bkt",
     "http://127.0.0.1:9000/",
     {KEYS, {"AWS_ENDPOINT_URL_S3", "http://no"}},
     0,
     "http://127.0.0.1:9000/bkt/k",
     "http://127.0.0.1:9000",
     NULL},
    {"s3://bkt",
     "",
     {KEYS, {"AWS_ENDPOINT_URL_S3", "http://a:1/s3"}, {"AWS_ENDPOINT_URL", "http://no"}},
     0,
     "http://a:1/s3/bkt/k",
     "http://a:1/s3",
     NULL},
    {"s3://bkt", NULL, {KEYS, {"AWS_ENDPOINT_URL", "https://b"}}, 0, "https://b/bkt/k", "https://b", NULL},
    {"s3://bkt",
     NULL,
     {KEYS, {"AWS_ENDPOINT_URL", "https://b"}, {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true"}},
     0,
     "https://bkt.s3.us-east-1.amazonaws.com/k",
     NULL,
     NULL},
    {"s3://bkt", NULL, {KEYS, PROFILE("here")}, 0, "http://service:2/bkt/k", NULL, NULL},
    {"s3://bkt",
     NULL,
     {KEYS, {"AWS_ENDPOINT_URL", "http://c"}, PROFILE("virtual")},
     0,
     "http://bkt.c/k",
     "http://c",
     NULL},
    {"s3://bkt", NULL, {KEYS, PROFILE("path")}, 0, "https://s3.us-east-1.amazonaws.com/bkt/k", NULL, NULL},
    {"s3://bkt",
     "https://s3.eu-west-1.amazonaws.com",
     {KEYS},
     0,
     "https://bkt.s3.eu-west-1.amazonaws.com/k",
     NULL,
     NULL},
    {"s3://bkt", NULL, {KEYS, PROFILE("odd")}, -EINVAL, "addressing_style sideways", NULL, NULL},
    {"s3://bkt", NULL, {PROFILE("none")}, -ENOENT, "AWS_PROFILE=none", NULL, NULL},
    {"gs://bkt/x", NULL, {KEYS}, -EINVAL, "unknown scheme", NULL, NULL},
    {"bkt/x", NULL, {KEYS}, -EINVAL, "unknown scheme", NULL, NULL},
    {"s3:///x", NULL, {KEYS}, -EINVAL, "bucket is missing", NULL, NULL},
    {"s3://", NULL, {KEYS}, -EINVAL, "bucket is missing", NULL, NULL},
    {"s3://b%2fk/", NULL, {KEYS}, -EINVAL, "not a bucket name", NULL, NULL},
    {"s3://b\nk/", NULL, {KEYS}, -EINVAL, "not a bucket name", NULL, NULL},
    {"s3://bkt", "127.0.0.1:9000", {KEYS}, -EINVAL, "must start with http", NULL, NULL},
    {"s3://bkt", NULL, {KEYS, {"AWS_ENDPOINT_URL", "http://u:p@h"}}, -EINVAL, "AWS_ENDPOINT_URL", NULL, NULL},
    {"s3://bkt", NULL, {KEYS, {"AWS_REGION", "a b"}}, -EINVAL, "region a b", NULL, NULL},
    {"s3://bkt",
     NULL,
     {KEYS, {"AWS_CA_BUNDLE", "/nonexistent.pem"}},
     -EINVAL,
     "/nonexistent.pem",
     NULL,
     NULL},
    {"s3://bkt", "http://h", {KEYS, {"AWS_CA_BUNDLE", "/nonexistent.pem"}}, 0, "http://h/bkt/k", NULL, NULL},
};

static struct hr_stores *stores;

static int set_up(void **state)
{
    (void)state;
    struct hr_stores_options options = {.timeout_ms = 1000};
    FILE *file;
    (void)snprintf(config_path, sizeof(config_path), "/tmp/headrace-s3-%d", (int)getpid());
    file = fopen(config_path, "w");
    if (file == NULL || fputs(CONFIG, file) < 0 || fclose(file) != 0) {
        return -1;
    }
    return hr_stores_new(&options, &stores);
}

static int tear_down(void **state)
{
    (void)state;
    hr_stores_free(stores);
    return unlink(config_path);
}

static struct hr_store *make(const char *url, const char *option, const struct variable *env)
{
    struct hr_store_options options = {
        .url = url, .endpoint = option, .env = from_table, .env_owner = (void *)env};
    struct hr_store *store = NULL;
    char message[256] = "";
    if (hr_store_new(stores, &options, message, &store) != 0) {
        fail_msg("%s: %s", url, message);
    }
    return store;
}

static const char *header(const struct hr_http_request *request, const char *name)
{
    for (unsigned i = 0; i < request->header_count; i++) {
        if (strcmp(request->headers[i].name, name) == 0) {
            return request->headers[i].value;
        }
    }
    return NULL;
}

static struct hr_http_request *request_of(struct hr_store *store, const struct hr_call *call)
{
    struct hr_http_request *request = NULL;
    assert_int_equal(hr_s3_request_new(store, call, NULL, &request), 0);
    return request;
}

static void stores_are_chosen(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hr_store_options options = {.url = rows[i].url,
                                           .endpoint = rows[i].option,
                                           .env = from_table,
                                           .env_owner = (void *)rows[i].env};
        struct hr_store *store = NULL;
        char message[256] = "";
        int r = hr_store_new(stores, &options, message, &store);
        if (r != rows[i].error) {
            fail_msg("row %zu: %d %s", i, r, message);
        }
        if (r < 0) {
            if (strstr(message, rows[i].expected) == NULL) {
                fail_msg("row %zu: %s", i, message);
            }
            continue;
        }
        struct hr_call *call = hr_call_new(HR_CALL_GET, store, "k", 1);
        struct hr_http_request *request = request_of(store, call);
        assert_string_equal(request->url, rows[i].expected);
        assert_string_equal(hr_store_bucket(store)[0] != '\0' ? "set" : "", "set");
        if (rows[i].endpoint != NULL) {
            assert_string_equal(hr_store_endpoint(store), rows[i].endpoint);
        }
        if (rows[i].identity != NULL) {
            assert_string_equal(hr_store_identity(store), rows[i].identity);
        }
        hr_http_request_free(request);
        hr_call_free(call);
        hr_store_unref(store);
    }
}

static void keys_of_any_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *key, *path;
    } keys[] = {
        {"a b+c%20&<d>", "/bkt/a%20b%2Bc%2520%26%3Cd%3E"},
        {"../x/./y//z", "/bkt/../x/./y//z"},
        {"\x01\x7f", "/bkt/%01%7F"},
        {"\xc3\xbc\xff", "/bkt/%C3%BC%FF"},
        {"?#;", "/bkt/%3F%23%3B"},
        {"/lead", "/bkt//lead"},
    };
    struct variable env[] = {KEYS, {NULL, NULL}};
    struct hr_store *store = make("s3://bkt", "http://h:1", env);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        struct hr_call *call = hr_call_new(HR_CALL_GET, store, keys[i].key, (uint32_t)strlen(keys[i].key));
        struct hr_http_request *request = request_of(store, call);
        assert_string_equal(request->url + strlen("http://h:1"), keys[i].path);
        hr_http_request_free(request);
        hr_call_free(call);
    }
    hr_store_unref(store);
}

static void headers_are_signed(void **state)
{
    (void)state;
    struct variable env[] = {KEYS, {"AWS_SESSION_TOKEN", "tok"}, {NULL, NULL}};
    struct hr_store_options options = {.url = "s3://bkt",
                                       .endpoint = "https://h",
                                       .requester_pays = true,
                                       .env = from_table,
                                       .env_owner = env};
    struct hr_store *store = NULL;
    char message[256];
    assert_int_equal(hr_store_new(stores, &options, message, &store), 0);
    struct hr_call *call = hr_call_new(HR_CALL_GET, store, "k", 1);
    call->range_first = 10;
    call->range_bytes = 5;
    call->if_match = strdup("e1");
    struct hr_http_request *request = request_of(store, call);
    assert_string_equal(header(request, "range"), "bytes=10-14");
    assert_string_equal(header(request, "if-match"), "\"e1\"");
    assert_string_equal(header(request, "x-amz-request-payer"), "requester");
    assert_string_equal(header(request, "x-amz-content-sha256"), "UNSIGNED-PAYLOAD");
    assert_string_equal(header(request, "x-amz-security-token"), "tok");
    assert_non_null(strstr(header(request, "authorization"),
                           "SignedHeaders=host;x-amz-checksum-mode;x-amz-content-sha256;x-amz-date;"
                           "x-amz-request-payer;x-amz-security-token,"));
    hr_http_request_free(request);
    /* What cannot stand in a header is refused, not sent. */
    free(call->if_match);
    call->if_match = strdup("e\r\nx: y");
    assert_int_equal(hr_s3_request_new(store, call, NULL, &request), -EINVAL);
    hr_call_free(call);
    call = hr_call_new(HR_CALL_GET, store, "", 0);
    assert_int_equal(hr_s3_request_new(store, call, NULL, &request), -EINVAL);
    hr_call_free(call);
    hr_store_unref(store);
}

/* Services that put policies and groups into a token make longer ones than Amazon's. */
static void long_tokens_are_sent(void **state)
{
    (void)state;
    static char token[16 * 1024];
    struct variable env[] = {KEYS, {"AWS_SESSION_TOKEN", token}, {NULL, NULL}};
    memset(token, 't', sizeof(token) - 1);
    struct hr_store *store = make("s3://bkt", "http://h", env);
    struct hr_call *call = hr_call_new(HR_CALL_GET, store, "k", 1);
    struct hr_http_request *request = request_of(store, call);
    assert_string_equal(header(request, "x-amz-security-token"), token);
    assert_non_null(strstr(header(request, "authorization"), ";x-amz-security-token, Signature="));
    hr_http_request_free(request);
    hr_call_free(call);
    hr_store_unref(store);
}

static void anonymous_is_unsigned(void **state)
{
    (void)state;
    struct variable env[] = {{"AWS_ACCESS_KEY_ID", ""}, {NULL, NULL}};
    struct hr_store *store = make("s3://bkt", "http://h", env);
    struct hr_call *call = hr_call_new(HR_CALL_LIST, store, "", 0);
    struct hr_http_request *request = request_of(store, call);
    assert_string_equal(request->url, "http://h/bkt/?list-type=2&encoding-type=url&prefix=");
    assert_int_equal(request->header_count, 0);
    hr_http_request_free(request);
    call->token = strdup("t+/=");
    call->start_after = strdup("ignored");
    call->start_after_len = 7;
    request = request_of(store, call);
    assert_non_null(strstr(request->url, "&continuation-token=t%2B%2F%3D"));
    assert_null(strstr(request->url, "start-after"));
    hr_http_request_free(request);
    hr_call_free(call);
    hr_store_unref(store);
}

/* A learned region moves AWS' host and the signature, never the endpoint that caches go by. */
static void regions_are_learned(void **state)
{
    (void)state;
    struct variable env[] = {KEYS, {NULL, NULL}};
    struct hr_store *aws = make("s3://bkt", NULL, env);
    struct hr_store *own = make("s3://bkt", "http://h", env);
    struct hr_call *call = hr_call_new(HR_CALL_GET, aws, "k", 1);
    assert_false(hr_store_learn_region(aws, "us-east-1"));
    assert_false(hr_store_learn_region(aws, "evil.com/x"));
    assert_true(hr_store_learn_region(aws, "eu-west-1"));
    assert_true(hr_store_learn_region(own, "eu-west-1"));
    struct hr_http_request *request = request_of(aws, call);
    assert_string_equal(request->url, "https://bkt.s3.eu-west-1.amazonaws.com/k");
    assert_non_null(strstr(header(request, "authorization"), "/eu-west-1/s3/"));
    hr_http_request_free(request);
    assert_string_equal(hr_store_endpoint(aws), "https://s3.us-east-1.amazonaws.com");
    request = request_of(own, call);
    assert_string_equal(request->url, "http://h/bkt/k");
    hr_http_request_free(request);
    hr_call_free(call);
    hr_store_unref(aws);
    hr_store_unref(own);
}

static void servers_are_recognised(void **state)
{
    (void)state;
    struct variable env[] = {KEYS, {NULL, NULL}};
    struct hr_store *store = make("s3://bkt", "http://h", env);
    hr_store_learn_server(store, NULL);
    assert_string_equal(store->quirk->name, "unknown");
    hr_store_learn_server(store, "UploadServer");
    assert_string_equal(store->quirk->name, "gcs");
    struct hr_call *call = hr_call_new(HR_CALL_GET, store, "k", 1);
    struct hr_http_request *request = request_of(store, call);
    assert_null(header(request, "x-amz-checksum-mode"));
    hr_http_request_free(request);
    hr_call_free(call);
    hr_store_unref(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stores_are_chosen),      cmocka_unit_test(keys_of_any_bytes),
        cmocka_unit_test(headers_are_signed),     cmocka_unit_test(long_tokens_are_sent),
        cmocka_unit_test(anonymous_is_unsigned),  cmocka_unit_test(regions_are_learned),
        cmocka_unit_test(servers_are_recognised),
    };
    return cmocka_run_group_tests_name("store/s3", tests, set_up, tear_down);
}
