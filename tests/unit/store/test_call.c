/* The life of a call against a scripted server: what is retried, re-signed, followed, refused. */
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

#include "fetch/base/clock.h"
#include "fetch/store/store.h"
#include "tests/unit/store/script_server.h"

static struct hr_loop *loop;
static struct hr_http *http;
static struct hr_stores *stores;
static char endpoint[64];
static char credentials_file[64];
static unsigned pending;

struct variable {
    const char *name, *value;
};

static const char *from_table(void *owner, const char *name)
{
    for (const struct variable *v = owner; v->name != NULL; v++) {
        if (strcmp(v->name, name) == 0) {
            return v->value;
        }
    }
    return NULL;
}

static struct variable keys_env[] = {{"AWS_ACCESS_KEY_ID", "AKTEST"},
                                     {"AWS_SECRET_ACCESS_KEY", "secret"},
                                     {"AWS_ENDPOINT_URL", endpoint},
                                     {NULL, NULL}};
static struct variable file_env[] = {
    {"AWS_SHARED_CREDENTIALS_FILE", credentials_file}, {"AWS_ENDPOINT_URL", endpoint}, {NULL, NULL}};

static void open_stores(unsigned timeout_ms)
{
    struct hr_http_options http_options = {.threads = 1, .max_connections = 16, .user_agent = "test"};
    assert_int_equal(hr_loop_new(&loop), 0);
    assert_int_equal(hr_http_new(&http_options, loop, &http), 0);
    struct hr_stores_options options = {.loop = loop, .http = http, .timeout_ms = timeout_ms};
    assert_int_equal(hr_stores_new(&options, &stores), 0);
}

static void close_stores(void)
{
    hr_http_free(http);
    hr_stores_free(stores);
    hr_loop_free(loop);
}

static struct hr_store *open_store(struct variable *env, unsigned port)
{
    struct hr_store *store = NULL;
    char message[256] = "";
    struct hr_store_options options = {.url = "s3://bkt/", .env = from_table, .env_owner = env};
    (void)snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%u", port);
    if (hr_store_new(stores, &options, message, &store) != 0) {
        fail_msg("%s", message);
    }
    return store;
}

static void count_down(struct hr_call *call)
{
    (void)call;
    if (--pending == 0) {
        hr_loop_stop(loop);
    }
}

static void run_call(struct hr_call *call)
{
    call->done = count_down;
    pending = 1;
    assert_int_equal(hr_call_start(call), 0);
    assert_int_equal(hr_loop_run(loop), 0);
    assert_int_equal(pending, 0);
}

#define XML_ERROR(code) "<?xml version=\"1.0\"?><Error><Code>" code "</Code><Message>m</Message></Error>"
#define ERROR_STEP(status, code)                                                                             \
    {                                                                                                        \
        status "\r\n", XML_ERROR(code), 0                                                                    \
    }
#define BODY_STEP(headers, body)                                                                             \
    {                                                                                                        \
        "200 OK\r\nETag: \"e1\"\r\n" headers, body, 0                                                        \
    }
#define PART_STEP(headers, body)                                                                             \
    {                                                                                                        \
        "206 Partial Content\r\nETag: \"e1\"\r\n" headers, body, 0                                           \
    }
#define PAGE(inner) "<ListBucketResult>" inner "</ListBucketResult>"
#define KEY_A "<Contents><Key>p/a</Key><Size>3</Size></Contents>"
#define MD5 "5d41402abc4b2a76b9719d911017c592"

struct scenario {
    const char *name;
    enum hr_call_kind kind;
    struct script_step steps[SCRIPT_STEPS_MAX];
    /* the call */
    uint64_t first, bytes; /* range */
    uint64_t expected;     /* size; 0: not known */
    const char *if_match;
    /* the outcome */
    int error;
    unsigned asked;
    const char *body;       /* GET without error */
    uint64_t object_bytes;  /* checked when not 0 */
    const char *in_message; /* part of the message */
    const char *last_asked; /* part of the last request */
    uint32_t rows;          /* LIST */
};

#define GET HR_CALL_GET
#define LST HR_CALL_LIST

static const struct scenario scenarios[] = {
    {"plain",
     GET,
     {BODY_STEP("", "hello")},
     0,
     0,
     5,
     NULL,
     0,
     1,
     "hello",
     5,
     NULL,
     "GET /bkt/p/k HTTP/1.1",
     0},
    {"if-match is sent",
     GET,
     {BODY_STEP("", "hello")},
     0,
     0,
     0,
     "e1",
     0,
     1,
     "hello",
     5,
     NULL,
     "if-match: \"e1\"",
     0},
    {"throttled, then not",
     GET,
     {ERROR_STEP("503 Slow", "SlowDown"), {"429 X\r\n", NULL, 0}, BODY_STEP("", "hello")},
     0,
     0,
     0,
     NULL,
     0,
     3,
     "hello",
     5,
     NULL,
     NULL,
     0},
    {"server error, then not",
     GET,
     {ERROR_STEP("500 X", "InternalError"), {"502 X\r\n", "<html>", 0}, BODY_STEP("", "hello")},
     0,
     0,
     0,
     NULL,
     0,
     3,
     "hello",
     5,
     NULL,
     NULL,
     0},
    {"connection closed, then not",
     GET,
     {{NULL, NULL, 0}, BODY_STEP("", "hello")},
     0,
     0,
     0,
     NULL,
     0,
     2,
     "hello",
     5,
     NULL,
     NULL,
     0},
    {"cut body, then whole",
     GET,
     {{"200 OK\r\nETag: \"e1\"\r\n", "hel", 5}, BODY_STEP("", "hello")},
     0,
     0,
     5,
     NULL,
     0,
     2,
     "hello",
     5,
     NULL,
     NULL,
     0},
    {"cut body without a length, size not known",
     GET,
     {{"200 OK\r\nETag: \"e1\"\r\n", "hel", -1}, BODY_STEP("", "hello")},
     0,
     8,
     0,
     NULL,
     0,
     2,
     "hello",
     5,
     NULL,
     NULL,
     0},
    {"chunks, size not known",
     GET,
     {{"200 OK\r\nETag: \"e1\"\r\nTransfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n", -1}},
     0,
     8,
     0,
     NULL,
     0,
     1,
     "hello",
     5,
     NULL,
     NULL,
     0},
    {"cut body without a length",
     GET,
     {{"200 OK\r\nETag: \"e1\"\r\n", "hel", -1}, BODY_STEP("", "hello")},
     0,
     0,
     5,
     NULL,
     0,
     2,
     "hello",
     5,
     NULL,
     NULL,
     0},
    {"region in the header",
     GET,
     {{"301 Moved\r\nx-amz-bucket-region: eu-west-1\r\n", XML_ERROR("PermanentRedirect"), 0},
      BODY_STEP("", "hello")},
     0,
     0,
     0,
     NULL,
     0,
     2,
     "hello",
     5,
     NULL,
     "/eu-west-1/s3/aws4_request",
     0},
    {"region in the document",
     GET,
     {{"400 X\r\n", "<Error><Code>AuthorizationHeaderMalformed</Code><Region>ap-south-1</Region></Error>", 0},
      BODY_STEP("", "hello")},
     0,
     0,
     0,
     NULL,
     0,
     2,
     "hello",
     5,
     NULL,
     "/ap-south-1/s3/aws4_request",
     0},
    {"region that never fits",
     GET,
     {{"301 Moved\r\nx-amz-bucket-region: eu-west-1\r\n", NULL, 0}},
     0,
     0,
     0,
     NULL,
     -EIO,
     2,
     NULL,
     0,
     "301",
     NULL,
     0},
    {"moved without a word",
     GET,
     {{"301 Moved\r\n", NULL, 0}},
     0,
     0,
     0,
     NULL,
     -EIO,
     1,
     NULL,
     0,
     "region",
     NULL,
     0},
    {"clocks differ",
     GET,
     {{"403 X\r\nDate: Tue, 01 Jan 2030 00:00:30 GMT\r\n", XML_ERROR("RequestTimeTooSkewed"), 0},
      BODY_STEP("", "hello")},
     0,
     0,
     0,
     NULL,
     0,
     2,
     "hello",
     5,
     NULL,
     "x-amz-date: 20300101T0000",
     0},
    {"clocks differ without a date",
     GET,
     {ERROR_STEP("403 X", "RequestTimeTooSkewed")},
     0,
     0,
     0,
     NULL,
     -EACCES,
     1,
     NULL,
     0,
     "clocks",
     NULL,
     0},
    {"redirect followed",
     GET,
     {{"307 X\r\nLocation: http://127.0.0.1:@PORT/t/k?pid=1&utm=2\r\n", NULL, 0}, BODY_STEP("", "hello")},
     0,
     0,
     0,
     NULL,
     0,
     2,
     "hello",
     5,
     NULL,
     "GET /t/k?pid=1&utm=2 HTTP/1.1",
     0},
    {"redirect, relative",
     GET,
     {{"302 X\r\nLocation: /t/k\r\n", NULL, 0}, BODY_STEP("", "hello")},
     0,
     0,
     0,
     NULL,
     0,
     2,
     "hello",
     5,
     NULL,
     "GET /t/k HTTP/1.1",
     0},
    {"redirect, then busy: from the start again",
     GET,
     {{"307 X\r\nLocation: /t/k\r\n", NULL, 0},
      {"500 X\r\n", NULL, 0},
      {"307 X\r\nLocation: /u/k\r\n", NULL, 0},
      BODY_STEP("", "hello")},
     0,
     0,
     0,
     NULL,
     0,
     4,
     "hello",
     5,
     NULL,
     "GET /u/k HTTP/1.1",
     0},
    {"redirects without end",
     GET,
     {{"307 X\r\nLocation: /t/k\r\n", NULL, 0}},
     0,
     0,
     0,
     NULL,
     -EIO,
     4,
     NULL,
     0,
     "307",
     NULL,
     0},
    {"redirect to another scheme",
     GET,
     {{"301 X\r\nLocation: file:///etc/passwd\r\n", NULL, 0}},
     0,
     0,
     0,
     NULL,
     -EIO,
     1,
     NULL,
     0,
     "301",
     NULL,
     0},
    {"not there",
     GET,
     {ERROR_STEP("404 X", "NoSuchKey")},
     0,
     0,
     0,
     NULL,
     -ENOENT,
     1,
     NULL,
     0,
     "s3://bkt/p/k",
     NULL,
     0},
    {"denied",
     GET,
     {ERROR_STEP("403 X", "AccessDenied")},
     0,
     0,
     0,
     NULL,
     -EACCES,
     1,
     NULL,
     0,
     "as key:AKTEST",
     NULL,
     0},
    {"denied by a proxy",
     GET,
     {{"403 X\r\n", "<html>", 0}},
     0,
     0,
     0,
     NULL,
     -EACCES,
     1,
     NULL,
     0,
     "403",
     NULL,
     0},
    {"wrong secret",
     GET,
     {ERROR_STEP("403 X", "SignatureDoesNotMatch")},
     0,
     0,
     0,
     NULL,
     -EACCES,
     1,
     NULL,
     0,
     "secret access key",
     NULL,
     0},
    {"unknown key",
     GET,
     {ERROR_STEP("403 X", "InvalidAccessKeyId")},
     0,
     0,
     0,
     NULL,
     -EACCES,
     1,
     NULL,
     0,
     "access key",
     NULL,
     0},
    {"other version by status",
     GET,
     {ERROR_STEP("412 X", "PreconditionFailed")},
     0,
     0,
     0,
     "e1",
     -ESTALE,
     1,
     NULL,
     0,
     "changed",
     NULL,
     0},
    {"other version by ETag",
     GET,
     {BODY_STEP("", "hello")},
     0,
     0,
     0,
     "e0",
     -ESTALE,
     1,
     NULL,
     0,
     "changed",
     NULL,
     0},
    {"version not said",
     GET,
     {{"200 OK\r\n", "hello", 0}},
     0,
     0,
     0,
     "e1",
     -EIO,
     5,
     NULL,
     0,
     "no ETag",
     NULL,
     0},
    {"other size", GET, {BODY_STEP("", "hello")}, 0, 0, 4, NULL, -EMSGSIZE, 1, NULL, 0, "longer", NULL, 0},
    {"smaller size",
     GET,
     {BODY_STEP("", "hello")},
     0,
     0,
     9,
     NULL,
     -EMSGSIZE,
     1,
     NULL,
     0,
     "expected 9",
     NULL,
     0},
    {"a part for the whole",
     GET,
     {PART_STEP("Content-Range: bytes 0-4/9\r\n", "hello")},
     0,
     0,
     0,
     NULL,
     -EIO,
     5,
     NULL,
     0,
     "part",
     NULL,
     0},
    {"range",
     GET,
     {PART_STEP("Content-Range: bytes 2-6/100\r\n", "hello")},
     2,
     5,
     5,
     NULL,
     0,
     1,
     "hello",
     100,
     NULL,
     "range: bytes=2-6",
     0},
    {"range at the end",
     GET,
     {PART_STEP("Content-Range: bytes 95-99/100\r\n", "hello")},
     95,
     50,
     0,
     NULL,
     0,
     1,
     "hello",
     100,
     NULL,
     "range: bytes=95-144",
     0},
    {"range as 200 with Content-Range",
     GET,
     {BODY_STEP("Content-Range: bytes 2-6/100\r\n", "hello")},
     2,
     5,
     0,
     NULL,
     0,
     1,
     "hello",
     100,
     NULL,
     NULL,
     0},
    {"range ignored, whole object fits",
     GET,
     {BODY_STEP("", "hello")},
     0,
     50,
     0,
     NULL,
     0,
     1,
     "hello",
     5,
     NULL,
     NULL,
     0},
    {"range ignored",
     GET,
     {BODY_STEP("", "hello")},
     2,
     5,
     0,
     NULL,
     -EIO,
     1,
     NULL,
     0,
     "ignores ranges",
     NULL,
     0},
    {"range ignored, too long",
     GET,
     {BODY_STEP("", "hello hello")},
     0,
     5,
     0,
     NULL,
     -EIO,
     1,
     NULL,
     0,
     "ignores ranges",
     NULL,
     0},
    {"range without Content-Range, then with",
     GET,
     {PART_STEP("", "hello"), PART_STEP("Content-Range: bytes 2-6/100\r\n", "hello")},
     2,
     5,
     0,
     NULL,
     0,
     2,
     "hello",
     100,
     NULL,
     NULL,
     0},
    {"another range",
     GET,
     {PART_STEP("Content-Range: bytes 3-7/100\r\n", "hello")},
     2,
     5,
     0,
     NULL,
     -EIO,
     5,
     NULL,
     0,
     "not the range",
     NULL,
     0},
    {"range shorter than it could be",
     GET,
     {PART_STEP("Content-Range: bytes 2-5/100\r\n", "hell")},
     2,
     5,
     0,
     NULL,
     -EIO,
     5,
     NULL,
     0,
     "shorter",
     NULL,
     0},
    {"range of another version",
     GET,
     {PART_STEP("Content-Range: bytes 2-6/100\r\n", "hello")},
     2,
     5,
     0,
     "e2",
     -ESTALE,
     1,
     NULL,
     0,
     "changed",
     NULL,
     0},
    {"range behind the end",
     GET,
     {{"416 X\r\nContent-Range: bytes */100\r\n", XML_ERROR("InvalidRange"), 0}},
     200,
     5,
     5,
     NULL,
     -EMSGSIZE,
     1,
     NULL,
     100,
     "416",
     NULL,
     0},
    {"list",
     LST,
     {{"200 OK\r\n", PAGE(KEY_A), 0}},
     0,
     0,
     0,
     NULL,
     0,
     1,
     NULL,
     0,
     NULL,
     "GET /bkt/?list-type=2&encoding-type=url&delimiter=%2F&max-keys=7&prefix=p%2F&start-after=p%2Fa%20b%2B "
     "HTTP/1.1",
     1},
    {"list, success that is an error",
     LST,
     {{"200 OK\r\n", XML_ERROR("InternalError"), 0}, {"200 OK\r\n", PAGE(KEY_A), 0}},
     0,
     0,
     0,
     NULL,
     0,
     2,
     NULL,
     0,
     NULL,
     NULL,
     1},
    {"list, success that is a refusal",
     LST,
     {{"200 OK\r\n", XML_ERROR("AccessDenied"), 0}},
     0,
     0,
     0,
     NULL,
     -EACCES,
     1,
     NULL,
     0,
     "AccessDenied",
     NULL,
     0},
    {"list, broken once",
     LST,
     {{"200 OK\r\n", "<ListBucketResult><Contents>", 0}, {"200 OK\r\n", PAGE(KEY_A), 0}},
     0,
     0,
     0,
     NULL,
     0,
     2,
     NULL,
     0,
     NULL,
     NULL,
     1},
    {"list, always broken",
     LST,
     {{"200 OK\r\n", "<ListBucketResult><Contents>", 0}},
     0,
     0,
     0,
     NULL,
     -EIO,
     5,
     NULL,
     0,
     "listing is broken",
     NULL,
     0},
    {"list outside the prefix",
     LST,
     {{"200 OK\r\n", PAGE("<Contents><Key>q/a</Key><Size>3</Size></Contents>"), 0}},
     0,
     0,
     0,
     NULL,
     -EIO,
     1,
     NULL,
     0,
     "outside the prefix",
     NULL,
     0},
    {"list, no such bucket",
     LST,
     {ERROR_STEP("404 X", "NoSuchBucket")},
     0,
     0,
     0,
     NULL,
     -EIO,
     1,
     NULL,
     0,
     "bucket",
     NULL,
     0},
};

static struct hr_call *make_call(const struct scenario *scenario, struct hr_store *store)
{
    bool list = scenario->kind == HR_CALL_LIST;
    struct hr_call *call = hr_call_new(scenario->kind, store, list ? "p/" : "p/k", list ? 2 : 3);
    assert_non_null(call);
    call->range_first = scenario->first;
    call->range_bytes = scenario->bytes;
    call->expected_bytes = scenario->expected > 0 ? scenario->expected : UINT64_MAX;
    call->if_match = scenario->if_match != NULL ? strdup(scenario->if_match) : NULL;
    if (list) {
        call->delimiter = "/";
        call->max_keys = 7;
        call->start_after = strdup("p/a b+");
        call->start_after_len = 6;
    }
    return call;
}

static void check_outcome(const struct scenario *scenario, const struct hr_call *call,
                          const struct script *script)
{
    const char *last = script->log[(script->asked - 1) % SCRIPT_LOG_MAX];
    if (call->error != scenario->error || script->asked != scenario->asked) {
        fail_msg("%s: error %d (%s), %u requests", scenario->name, call->error, call->message, script->asked);
    }
    if (call->retries != scenario->asked - 1) {
        fail_msg("%s: %u retries", scenario->name, call->retries);
    }
    if (scenario->in_message != NULL && strstr(call->message, scenario->in_message) == NULL) {
        fail_msg("%s: message %s", scenario->name, call->message);
    }
    if (call->error != 0 &&
        (strstr(call->message, endpoint) == NULL || strstr(call->message, "secret\"") != NULL)) {
        fail_msg("%s: message %s", scenario->name, call->message);
    }
    if (scenario->last_asked != NULL && strstr(last, scenario->last_asked) == NULL) {
        fail_msg("%s: asked\n%s", scenario->name, last);
    }
    if (scenario->object_bytes != 0 && call->object_bytes != scenario->object_bytes) {
        fail_msg("%s: object of %llu bytes", scenario->name, (unsigned long long)call->object_bytes);
    }
    if (scenario->body != NULL && (call->body.len != strlen(scenario->body) ||
                                   memcmp(call->body.data, scenario->body, call->body.len) != 0)) {
        fail_msg("%s: body of %zu bytes", scenario->name, call->body.len);
    }
    assert_int_equal(call->listed_count, scenario->rows);
    if (scenario->rows > 0) {
        assert_string_equal(call->listed[0].key, "p/a");
    }
}

static void scenarios_play(void **state)
{
    (void)state;
    static struct script script;
    for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
        const struct scenario *scenario = &scenarios[i];
        memset(&script, 0, sizeof(script));
        memcpy(script.steps, scenario->steps, sizeof(script.steps));
        while (script.step_count < SCRIPT_STEPS_MAX &&
               (scenario->steps[script.step_count].head != NULL ||
                scenario->steps[script.step_count + 1].head != NULL)) {
            script.step_count++;
        }
        assert_int_equal(script_start(&script), 0);
        open_stores(20000);
        struct hr_store *store = open_store(keys_env, script.port);
        struct hr_call *call = make_call(scenario, store);
        run_call(call);
        script_stop(&script);
        check_outcome(scenario, call, &script);
        hr_call_free(call);
        hr_store_unref(store);
        close_stores();
    }
}

static void play(struct script *script, const struct script_step *steps, unsigned count, bool again)
{
    memset(script, 0, sizeof(*script));
    memcpy(script->steps, steps, count * sizeof(*steps));
    script->step_count = count;
    script->loop = again;
    assert_int_equal(script_start(script), 0);
}

static void checksums_and_md5(void **state)
{
    (void)state;
    static const struct {
        const char *headers;
        uint64_t first, bytes;
        uint32_t kind;
        uint64_t crc;
        bool md5;
    } rows[] = {
        {"200 OK\r\nETag: \"" MD5 "\"\r\n", 0, 0, HR_CRC_NONE, 0, true},
        {"200 OK\r\nETag: \"" MD5 "-2\"\r\n", 0, 0, HR_CRC_NONE, 0, false},
        {"200 OK\r\nETag: \"" MD5 "\"\r\nx-amz-server-side-encryption: AES256\r\n", 0, 0, HR_CRC_NONE, 0,
         true},
        {"200 OK\r\nETag: \"" MD5 "\"\r\nx-amz-server-side-encryption: aws:kms\r\n", 0, 0, HR_CRC_NONE, 0,
         false},
        {"200 OK\r\nETag: \"" MD5 "\"\r\nx-amz-server-side-encryption: aws:kms:dsse\r\n", 0, 0, HR_CRC_NONE,
         0, false},
        {"200 OK\r\nETag: \"" MD5 "\"\r\nx-amz-server-side-encryption-customer-algorithm: AES256\r\n", 0, 0,
         HR_CRC_NONE, 0, false},
        {"200 OK\r\nx-amz-checksum-crc32c: mnG7TA==\r\n", 0, 0, HR_CRC_CRC32C, 0x9a71bb4c, false},
        {"200 OK\r\nx-amz-checksum-crc32: NhCmhg==\r\nx-amz-checksum-type: FULL_OBJECT\r\n", 0, 0,
         HR_CRC_CRC32, 0x3610a686, false},
        {"200 OK\r\nx-amz-checksum-crc32: NhCmhg==-2\r\n", 0, 0, HR_CRC_NONE, 0, false},
        {"200 OK\r\nx-amz-checksum-crc32: NhCmhg==\r\nx-amz-checksum-type: COMPOSITE\r\n", 0, 0, HR_CRC_NONE,
         0, false},
        {"200 OK\r\nx-amz-checksum-crc32: NhCm\r\n", 0, 0, HR_CRC_NONE, 0, false},
        {"200 OK\r\nx-amz-checksum-crc64nvme: AQIDBAUGBwg=\r\n", 0, 0, HR_CRC_CRC64NVME, 0x0102030405060708,
         false},
        {"200 OK\r\nx-amz-checksum-sha256: LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=\r\n", 0, 0,
         HR_CRC_SHA256, 0, false},
        {"200 OK\r\nx-amz-checksum-sha1: qvTGHdzF6KLavt4PO0gs2a6pQ00=\r\n", 0, 0, HR_CRC_SHA1, 0, false},
        {"206 X\r\nContent-Range: bytes 2-6/9\r\nx-amz-checksum-crc32: NhCmhg==\r\n", 2, 5, HR_CRC_NONE, 0,
         false},
        {"206 X\r\nContent-Range: bytes 0-4/5\r\nx-amz-checksum-crc32: NhCmhg==\r\n", 0, 5, HR_CRC_CRC32,
         0x3610a686, false},
        {"206 X\r\nContent-Range: bytes 2-6/9\r\nx-amz-checksum-crc32: NhCmhg==\r\nx-amz-checksum-type: "
         "FULL_OBJECT\r\n",
         2, 5, HR_CRC_CRC32, 0x3610a686, false},
    };
    static struct script script;
    open_stores(5000);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct script_step step = {rows[i].headers, "hello", 0};
        play(&script, &step, 1, false);
        struct hr_store *store = open_store(keys_env, script.port);
        struct hr_call *call = hr_call_new(HR_CALL_GET, store, "k", 1);
        call->range_first = rows[i].first;
        call->range_bytes = rows[i].bytes;
        run_call(call);
        script_stop(&script);
        if (call->error != 0 || call->crc_kind != rows[i].kind || call->md5_is_etag != rows[i].md5 ||
            (rows[i].crc != 0 && call->crc != rows[i].crc)) {
            fail_msg("%s: %s kind %u crc %llx md5 %d", rows[i].headers, call->message, call->crc_kind,
                     (unsigned long long)call->crc, call->md5_is_etag);
        }
        if (rows[i].kind == HR_CRC_SHA256) {
            assert_int_equal(call->sha256[0], 0x2c);
            assert_int_equal(call->sha256[31], 0x24);
        }
        if (rows[i].kind == HR_CRC_SHA1) {
            assert_int_equal(call->sha256[0], 0xaa);
            assert_int_equal(call->sha256[19], 0x4d);
        }
        assert_non_null(strstr(script.log[0], "x-amz-checksum-mode: ENABLED"));
        assert_non_null(strstr(script.log[0], ";x-amz-checksum-mode;"));
        hr_call_free(call);
        hr_store_unref(store);
    }
    close_stores();
}

static void budget_ends_with_eio(void **state)
{
    (void)state;
    static struct script script;
    struct script_step step = {"503 X\r\n", NULL, 0};
    play(&script, &step, 1, false);
    open_stores(1200);
    struct hr_store *store = open_store(keys_env, script.port);
    struct hr_call *call = hr_call_new(HR_CALL_GET, store, "k", 1);
    int64_t start_ms = hr_clock_ms();
    run_call(call);
    int64_t took_ms = hr_clock_ms() - start_ms;
    script_stop(&script);
    assert_int_equal(call->error, -EIO);
    assert_in_range(took_ms, 900, 4000);
    assert_in_range(script.asked, 3, 30);
    assert_non_null(strstr(call->message, "503"));
    struct hr_store_stats stats;
    hr_stores_stats(stores, &stats);
    assert_int_equal(stats.requests_get, script.asked);
    assert_int_equal(stats.retries, script.asked - 1);
    assert_int_equal(stats.throttled, script.asked);
    assert_int_equal(stats.errors, 1);
    assert_int_equal(stats.in_flight, 0);
    hr_call_free(call);
    hr_store_unref(store);
    close_stores();
}

static void nobody_listens(void **state)
{
    (void)state;
    static struct script script;
    struct script_step step = {"200 OK\r\n", "x", 0};
    play(&script, &step, 1, false);
    script_stop(&script);
    open_stores(400);
    struct hr_store *store = open_store(keys_env, script.port);
    struct hr_call *call = hr_call_new(HR_CALL_GET, store, "k", 1);
    run_call(call);
    assert_int_equal(call->error, -EIO);
    assert_non_null(strstr(call->message, endpoint));
    assert_non_null(strstr(call->message, "check the endpoint"));
    assert_true(call->retries > 0);
    hr_call_free(call);
    hr_store_unref(store);
    close_stores();
}

/* Every third answer is 503: every call gets its object, none fails because others used the retry budget up.
 */
static void every_third_throttled(void **state)
{
    (void)state;
    static struct script script;
    enum { CALLS = 60 };
    struct hr_call *calls[CALLS];
    struct script_step steps[] = {BODY_STEP("", "hello"), ERROR_STEP("503 X", "SlowDown"),
                                  BODY_STEP("", "hello")};
    play(&script, steps, 3, true);
    open_stores(60000);
    struct hr_store *store = open_store(keys_env, script.port);
    pending = CALLS;
    for (int i = 0; i < CALLS; i++) {
        calls[i] = hr_call_new(HR_CALL_GET, store, "k", 1);
        calls[i]->done = count_down;
        assert_int_equal(hr_call_start(calls[i]), 0);
    }
    assert_int_equal(hr_loop_run(loop), 0);
    script_stop(&script);
    unsigned retries = 0;
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(calls[i]->error, 0);
        assert_int_equal(calls[i]->body.len, 5);
        retries += calls[i]->retries;
        hr_call_free(calls[i]);
    }
    assert_int_equal(script.asked, CALLS + retries);
    struct hr_store_stats stats;
    hr_stores_stats(stores, &stats);
    assert_int_equal(stats.bytes_fetched, CALLS * 5);
    assert_int_equal(stats.throttled, retries);
    hr_store_unref(store);
    close_stores();
}

static void write_credentials(const char *id, const char *token)
{
    FILE *file = fopen(credentials_file, "w");
    assert_non_null(file);
    (void)fprintf(file, "[default]\naws_access_key_id=%s\naws_secret_access_key=s\naws_session_token=%s\n",
                  id, token);
    assert_int_equal(fclose(file), 0);
}

static void expired_token_is_read_again(void **state)
{
    (void)state;
    static struct script script;
    struct script_step steps[] = {ERROR_STEP("400 X", "ExpiredToken"), BODY_STEP("", "hello"),
                                  ERROR_STEP("400 X", "ExpiredToken")};
    (void)snprintf(credentials_file, sizeof(credentials_file), "/tmp/headrace-call-%d", (int)getpid());
    write_credentials("AS1", "tokenone");
    play(&script, steps, 3, false);
    open_stores(5000);
    struct hr_store *store = open_store(file_env, script.port);
    assert_string_equal(hr_store_identity(store), "profile:default");
    write_credentials("AS2", "tokentwo");
    struct hr_call *call = hr_call_new(HR_CALL_GET, store, "k", 1);
    run_call(call);
    assert_int_equal(call->error, 0);
    hr_call_free(call);
    /* Nothing newer to be had: the refusal is final, after one request. */
    call = hr_call_new(HR_CALL_GET, store, "k", 1);
    run_call(call);
    assert_int_equal(call->error, -EACCES);
    assert_non_null(strstr(call->message, "ExpiredToken"));
    assert_null(strstr(call->message, "tokentwo"));
    script_stop(&script);
    assert_int_equal(script.asked, 3);
    assert_non_null(strstr(script.log[0], "x-amz-security-token: tokenone"));
    assert_non_null(strstr(script.log[1], "x-amz-security-token: tokentwo"));
    assert_non_null(strstr(script.log[1], "Credential=AS2/"));
    hr_call_free(call);
    hr_store_unref(store);
    close_stores();
    (void)unlink(credentials_file);
}

/* Refused credentials are asked once, not once for each of a million files; new ones are tried at once. */
static void refusal_is_remembered(void **state)
{
    (void)state;
    static struct script script;
    struct script_step steps[] = {ERROR_STEP("403 X", "SignatureDoesNotMatch"), BODY_STEP("", "hello")};
    struct variable right_env[] = {{"AWS_ACCESS_KEY_ID", "AKTEST"},
                                   {"AWS_SECRET_ACCESS_KEY", "right"},
                                   {"AWS_ENDPOINT_URL", endpoint},
                                   {NULL, NULL}};
    play(&script, steps, 2, false);
    open_stores(5000);
    struct hr_store *store = open_store(keys_env, script.port);
    for (int i = 0; i < 3; i++) {
        struct hr_call *call = hr_call_new(HR_CALL_GET, store, "k", 1);
        run_call(call);
        assert_int_equal(call->error, -EACCES);
        assert_non_null(strstr(call->message, "SignatureDoesNotMatch"));
        assert_int_equal(call->retries, 0);
        hr_call_free(call);
    }
    hr_store_refresh(store, from_table, right_env);
    for (int i = 0; i < 2; i++) {
        struct hr_call *call = hr_call_new(HR_CALL_GET, store, "k", 1);
        run_call(call);
        assert_int_equal(call->error, 0);
        hr_call_free(call);
        /* A wrong secret for a key that works, and another identity, change nothing. */
        hr_store_refresh(store, from_table, keys_env);
        right_env[0].value = "AKOTHER";
        hr_store_refresh(store, from_table, right_env);
    }
    script_stop(&script);
    assert_int_equal(script.asked, 3);
    hr_store_unref(store);
    close_stores();
}

static void cancel_while_it_waits(void *owner)
{
    hr_call_cancel(owner);
}

static void calls_are_canceled(void **state)
{
    (void)state;
    static struct script script;
    struct script_step step = {"503 X\r\nRetry-After: 5\r\n", NULL, 0};
    play(&script, &step, 1, false);
    open_stores(60000);
    struct hr_store *store = open_store(keys_env, script.port);
    struct hr_call *waiting = hr_call_new(HR_CALL_GET, store, "k", 1);
    struct hr_call *flying = hr_call_new(HR_CALL_GET, store, "k", 1);
    struct hr_timer timer = HR_TIMER_INIT(cancel_while_it_waits, waiting);
    int64_t start_ms = hr_clock_ms();
    waiting->done = flying->done = count_down;
    pending = 2;
    assert_int_equal(hr_call_start(waiting), 0);
    assert_int_equal(hr_call_start(flying), 0);
    assert_int_equal(hr_call_start(flying), -EBUSY);
    hr_call_cancel(flying);
    assert_int_equal(hr_loop_arm(loop, &timer, 300), 0);
    assert_int_equal(hr_loop_run(loop), 0);
    assert_int_equal(waiting->error, -ECANCELED);
    assert_int_equal(flying->error, -ECANCELED);
    assert_true(hr_clock_ms() - start_ms < 3000);
    script_stop(&script);
    hr_call_free(waiting);
    hr_call_free(flying);
    hr_store_unref(store);
    close_stores();
}

static void family_ends_with_calls_under_way(void **state)
{
    (void)state;
    static struct script script;
    struct script_step step = {"503 X\r\nRetry-After: 5\r\n", NULL, 0};
    play(&script, &step, 1, false);
    open_stores(60000);
    struct hr_store *store = open_store(keys_env, script.port);
    struct hr_call *waiting = hr_call_new(HR_CALL_GET, store, "k", 1);
    struct hr_call *flying = hr_call_new(HR_CALL_GET, store, "k", 1);
    struct hr_timer timer = HR_TIMER_INIT((hr_loop_fn)hr_loop_stop, loop);
    waiting->done = flying->done = count_down;
    pending = 2;
    assert_int_equal(hr_call_start(waiting), 0);
    assert_int_equal(hr_loop_arm(loop, &timer, 300), 0);
    assert_int_equal(hr_loop_run(loop), 0);
    assert_int_equal(hr_call_start(flying), 0);
    assert_int_equal(pending, 2);
    close_stores();
    assert_int_equal(pending, 0);
    assert_int_equal(waiting->error, -ECANCELED);
    assert_int_equal(flying->error, -ECANCELED);
    /* The store outlives its family, and starts nothing. */
    assert_int_equal(hr_call_start(flying), -ECANCELED);
    script_stop(&script);
    hr_call_free(waiting);
    hr_call_free(flying);
    hr_store_unref(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scenarios_play),
        cmocka_unit_test(checksums_and_md5),
        cmocka_unit_test(budget_ends_with_eio),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(every_third_throttled),
        cmocka_unit_test(expired_token_is_read_again),
        cmocka_unit_test(refusal_is_remembered),
        cmocka_unit_test(calls_are_canceled),
        cmocka_unit_test(family_ends_with_calls_under_way),
    };
    return cmocka_run_group_tests_name("store/call", tests, NULL, NULL);
}
