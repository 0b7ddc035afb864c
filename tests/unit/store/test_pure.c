/* The pure parts: URLs, ETags, quirks, the error table, waits, Content-Range. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fetch/store/endpoint.h"
#include "fetch/store/errors.h"
#include "fetch/store/etag.h"
#include "fetch/store/judge.h"
#include "fetch/store/quirks.h"
#include "fetch/store/retry.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static const struct {
    const char *url;
    const char *printed; /* NULL: refused */
    const char *host;
    bool aws;
} endpoints[] = {
    {"http://127.0.0.1:9000", "http://127.0.0.1:9000", "127.0.0.1:9000", false},
    {"http://127.0.0.1:9000/", "http://127.0.0.1:9000", "127.0.0.1:9000", false},
    {"https://Store.Example:443/s3//", "https://store.example/s3", "store.example", false},
    {"http://host:80", "http://host", "host", false},
    {"https://host:80", "https://host:80", "host:80", false},
    {"http://[::1]:9000", "http://[::1]:9000", "[::1]:9000", false},
    {"http://[fe80::1]", "http://[fe80::1]", "[fe80::1]", false},
    {"https://s3.eu-west-1.amazonaws.com", "https://s3.eu-west-1.amazonaws.com", "s3.eu-west-1.amazonaws.com",
     true},
    {"https://s3.amazonaws.com", "https://s3.amazonaws.com", "s3.amazonaws.com", true},
    {"https://s3.cn-north-1.amazonaws.com.cn", "https://s3.cn-north-1.amazonaws.com.cn",
     "s3.cn-north-1.amazonaws.com.cn", true},
    {"https://s3.dualstack.eu-west-1.amazonaws.com", "https://s3.dualstack.eu-west-1.amazonaws.com",
     "s3.dualstack.eu-west-1.amazonaws.com", false},
    {"https://s3.evil.com", "https://s3.evil.com", "s3.evil.com", false},
    {"ftp://host", NULL, NULL, false},
    {"host:9000", NULL, NULL, false},
    {"", NULL, NULL, false},
    {"http://", NULL, NULL, false},
    {"http:///path", NULL, NULL, false},
    {"http://user:pw@host", NULL, NULL, false},
    {"http://host:0", NULL, NULL, false},
    {"http://host:65536", NULL, NULL, false},
    {"http://host:12x", NULL, NULL, false},
    {"http://host:", NULL, NULL, false},
    {"http://ho st", NULL, NULL, false},
    {"http://host/a b", NULL, NULL, false},
    {"http://host\r\nx: y", NULL, NULL, false},
    {"http://host?x=y", NULL, NULL, false},
    {"http://host/#x", NULL, NULL, false},
    {"http://h\xc3\xb6st", NULL, NULL, false},
    {"http://[::1", NULL, NULL, false},
};

static void endpoints_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(endpoints); i++) {
        struct hr_endpoint endpoint;
        char text[HR_ENDPOINT_BYTES], host[HR_ENDPOINT_BYTES];
        const char *why = NULL;
        int r = hr_endpoint_parse(endpoints[i].url, &endpoint, &why);
        if (endpoints[i].printed == NULL) {
            if (r != -EINVAL || why == NULL) {
                fail_msg("%s: %d", endpoints[i].url, r);
            }
            continue;
        }
        if (r != 0) {
            fail_msg("%s: %s", endpoints[i].url, why);
        }
        hr_endpoint_print(&endpoint, text);
        hr_endpoint_host(&endpoint, host);
        assert_string_equal(text, endpoints[i].printed);
        assert_string_equal(host, endpoints[i].host);
        assert_int_equal(hr_endpoint_is_aws(&endpoint), endpoints[i].aws);
    }
}

static void private_endpoints(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        bool is_private;
    } rows[] = {
        {"https://h", true},          {"http://localhost:9", true}, {"http://127.0.0.1", true},
        {"http://127.9.9.9:9", true}, {"http://[::1]:9", true},     {"http://h", false},
        {"http://127.h", false},      {"http://0.0.0.0", false},    {"http://128.0.0.1", false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct hr_endpoint made;
        const char *why = NULL;
        assert_int_equal(hr_endpoint_parse(rows[i].url, &made, &why), 0);
        assert_int_equal(hr_endpoint_is_private(&made), rows[i].is_private);
    }
}

static void regions_make_hosts(void **state)
{
    (void)state;
    struct hr_endpoint endpoint;
    assert_int_equal(hr_endpoint_aws("eu-central-2", &endpoint), 0);
    assert_string_equal(endpoint.host, "s3.eu-central-2.amazonaws.com");
    assert_int_equal(hr_endpoint_aws("cn-north-1", &endpoint), 0);
    assert_string_equal(endpoint.host, "s3.cn-north-1.amazonaws.com.cn");
    assert_int_equal(hr_endpoint_aws("evil.com/", &endpoint), -EINVAL);
    assert_int_equal(hr_endpoint_aws("", &endpoint), -EINVAL);
}

static void buckets(void **state)
{
    (void)state;
    assert_true(hr_bucket_is_host("my-bucket1"));
    assert_false(hr_bucket_is_host("my.bucket"));
    assert_false(hr_bucket_is_host("My-bucket"));
    assert_false(hr_bucket_is_host("ab"));
    assert_false(hr_bucket_is_host("-abc"));
    assert_true(hr_bucket_valid("My_bucket.x", 11));
    assert_false(hr_bucket_valid("..", 2));
    assert_false(hr_bucket_valid("a/b", 3));
    assert_false(hr_bucket_valid("", 0));
    assert_false(hr_bucket_valid("a%2f", 4));
}

static const struct {
    const char *asked, *location, *target; /* target NULL: refused */
} redirects[] = {
    {"http://proxy:51080/s3/b/k", "http://target:51081/s3/b/k?pid=p1&utm=12",
     "http://target:51081/s3/b/k?pid=p1&utm=12"},
    {"http://proxy:51080/s3/b/k", "/other/k?x=1", "http://proxy:51080/other/k?x=1"},
    {"http://proxy/b/k", "https://target", "https://target/"},
    {"http://proxy/b/k", "http://target?x=1", "http://target/?x=1"},
    {"https://proxy/b/k", "http://target/b/k", NULL},
    {"https://proxy/b/k", "//target/b/k", NULL},
    {"http://proxy/b/k", "file:///etc/passwd", NULL},
    {"http://proxy/b/k", "k2", NULL},
    {"http://proxy/b/k", "http://tar get/", NULL},
    {"http://proxy/b/k", "http://user@target/", NULL},
    {"http://proxy/b/k", "/t#x", NULL},
    {"http://proxy/b/k", "", NULL},
};

static void redirects_resolve(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(redirects); i++) {
        struct hr_buf out = HR_BUF_INIT(4096);
        int r = hr_redirect_resolve(redirects[i].asked, redirects[i].location, &out);
        if (redirects[i].target == NULL) {
            assert_int_equal(r, -EINVAL);
        } else {
            assert_int_equal(r, 0);
            assert_string_equal(out.data, redirects[i].target);
        }
        hr_buf_release(&out);
    }
}

static const struct {
    const char *header, *etag;
    bool md5;
} etags[] = {
    {"\"5d41402abc4b2a76b9719d911017c592\"", "5d41402abc4b2a76b9719d911017c592", true},
    {"5D41402ABC4B2A76B9719D911017C592", "5D41402ABC4B2A76B9719D911017C592", true},
    {" W/\"abc\" ", "abc", false},
    {"\"5d41402abc4b2a76b9719d911017c592-3\"", "5d41402abc4b2a76b9719d911017c592-3", false},
    {"\"v1-abc\"", "v1-abc", false},
    {"\"\"", "", false},
    {"\"", "", false},
    {"\"a\"b\"", "", false},
    {"a\r\nb", "", false},
    {NULL, "", false},
};

static void etags_are_bare(void **state)
{
    (void)state;
    char bare[HR_ETAG_BYTES], large[400];
    for (size_t i = 0; i < COUNT(etags); i++) {
        hr_etag_copy(etags[i].header, bare);
        assert_string_equal(bare, etags[i].etag);
        assert_int_equal(hr_etag_looks_md5(bare), etags[i].md5);
    }
    memset(large, 'x', sizeof(large) - 1);
    large[sizeof(large) - 1] = '\0';
    hr_etag_copy(large, bare);
    assert_string_equal(bare, "");
}

static void quirks_match(void **state)
{
    (void)state;
    assert_string_equal(hr_quirk_by_host("b.s3.eu-west-1.amazonaws.com")->name, "aws");
    assert_false(hr_quirk_by_host("b--x.s3express-use1-az4.us-east-1.amazonaws.com")->md5_etags);
    assert_false(hr_quirk_by_host("storage.googleapis.com")->checksum_mode);
    assert_ptr_equal(hr_quirk_by_host("127.0.0.1"), hr_quirk_unknown());
    assert_true(hr_quirk_unknown()->md5_etags);
    assert_true(hr_quirk_unknown()->checksum_mode);
    assert_string_equal(hr_quirk_by_server("MinIO")->name, "minio");
    assert_string_equal(hr_quirk_by_server("SeaweedFS 30GB 4.48")->name, "seaweedfs");
    assert_ptr_equal(hr_quirk_by_server("nginx"), hr_quirk_unknown());
}

static const struct {
    unsigned status;
    const char *code;
    bool location;
    enum hr_action action;
    int error;
} answers[] = {
    {503, "SlowDown", false, HR_ACTION_THROTTLED, -EIO},
    {503, "", false, HR_ACTION_THROTTLED, -EIO},
    {429, "", false, HR_ACTION_THROTTLED, -EIO},
    {400, "SlowDown", false, HR_ACTION_THROTTLED, -EIO},
    {500, "InternalError", false, HR_ACTION_RETRY, -EIO},
    {500, "", false, HR_ACTION_RETRY, -EIO},
    {502, "", false, HR_ACTION_RETRY, -EIO},
    {504, "", false, HR_ACTION_RETRY, -EIO},
    {599, "", false, HR_ACTION_RETRY, -EIO},
    {501, "NotImplemented", false, HR_ACTION_FAIL, -EIO},
    {400, "RequestTimeout", false, HR_ACTION_RETRY, -EIO},
    {400, "BadDigest", false, HR_ACTION_RETRY, -EIO},
    {403, "RequestTimeTooSkewed", false, HR_ACTION_CLOCK, -EACCES},
    {400, "ExpiredToken", false, HR_ACTION_CREDENTIALS, -EACCES},
    {403, "InvalidAccessKeyId", false, HR_ACTION_CREDENTIALS, -EACCES},
    {404, "XAdminUserNotFound", false, HR_ACTION_CREDENTIALS, -EACCES},
    {403, "SignatureDoesNotMatch", false, HR_ACTION_CREDENTIALS, -EACCES},
    {301, "PermanentRedirect", false, HR_ACTION_REGION, -EIO},
    {301, "", false, HR_ACTION_REGION, -EIO},
    {307, "TemporaryRedirect", true, HR_ACTION_REDIRECT, -EIO},
    {301, "", true, HR_ACTION_REDIRECT, -EIO},
    {400, "AuthorizationHeaderMalformed", false, HR_ACTION_REGION, -EIO},
    {400, "IllegalLocationConstraintException", false, HR_ACTION_REGION, -EIO},
    {404, "NoSuchKey", false, HR_ACTION_FAIL, -ENOENT},
    {404, "NoSuchBucket", false, HR_ACTION_FAIL, -EIO},
    {404, "", false, HR_ACTION_FAIL, -ENOENT},
    {403, "AccessDenied", false, HR_ACTION_FAIL, -EACCES},
    {403, "", false, HR_ACTION_FAIL, -EACCES},
    {401, "", false, HR_ACTION_FAIL, -EACCES},
    {403, "InvalidObjectState", false, HR_ACTION_FAIL, -EACCES},
    {412, "PreconditionFailed", false, HR_ACTION_FAIL, -ESTALE},
    {412, "", false, HR_ACTION_FAIL, -ESTALE},
    {416, "InvalidRange", false, HR_ACTION_FAIL, -EMSGSIZE},
    {400, "", false, HR_ACTION_FAIL, -EIO},
    {204, "", false, HR_ACTION_FAIL, -EIO},
};

static void answers_have_verdicts(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(answers); i++) {
        struct hr_verdict verdict = hr_errors_http(answers[i].status, answers[i].code, answers[i].location);
        if (verdict.action != answers[i].action || verdict.error != answers[i].error ||
            verdict.hint == NULL) {
            fail_msg("%u %s: action %d error %d", answers[i].status, answers[i].code, verdict.action,
                     verdict.error);
        }
        /* A failure that time can heal never looks like a missing object. */
        if (verdict.action == HR_ACTION_RETRY || verdict.action == HR_ACTION_THROTTLED) {
            assert_int_equal(verdict.error, -EIO);
        }
    }
    assert_int_equal(hr_errors_in_success("InternalError").action, HR_ACTION_RETRY);
    assert_int_equal(hr_errors_in_success("Whatever").action, HR_ACTION_FEW);
    assert_int_equal(hr_errors_in_success("AccessDenied").error, -EACCES);
}

static void transport_has_verdicts(void **state)
{
    (void)state;
    static const int healing[] = {-ECONNREFUSED, -ETIMEDOUT, -ECONNRESET, -EHOSTUNREACH};
    for (size_t i = 0; i < COUNT(healing); i++) {
        assert_int_equal(hr_errors_transport(healing[i]).action, HR_ACTION_RETRY);
        assert_int_equal(hr_errors_transport(healing[i]).error, -EIO);
    }
    assert_int_equal(hr_errors_transport(-EPROTO).action, HR_ACTION_FEW);
    assert_int_equal(hr_errors_transport(-EFBIG).error, -EMSGSIZE);
    assert_int_equal(hr_errors_transport(-ECANCELED).error, -ECANCELED);
}

static void budget_slows_but_never_fails(void **state)
{
    (void)state;
    struct hr_retry_budget budget;
    unsigned taken = 0, retries = 0;
    hr_retry_budget_init(&budget);
    while (hr_retry_take(&budget, false, &taken)) {
        assert_int_equal(taken, 14);
        retries++;
    }
    assert_int_equal(retries, HR_RETRY_TOKENS / 14);
    assert_int_equal(taken, 0);
    assert_true(hr_retry_take(&budget, true, &taken));
    assert_int_equal(taken, 5);
    hr_retry_success(&budget, taken);
    hr_retry_success(&budget, 0);
    assert_int_equal(budget.tokens, HR_RETRY_TOKENS % 14 + 1);
    for (int i = 0; i < 1000; i++) {
        hr_retry_success(&budget, 14);
    }
    assert_int_equal(budget.tokens, HR_RETRY_TOKENS);
}

static const struct {
    struct hr_retry_wait wait; /* attempt, slow, retry_after, left, random, awaited */
    int64_t ms;
} waits[] = {
    {{0, false, -1, 60000, 0.5, false}, 25},      {{1, false, -1, 60000, 0.5, false}, 50},
    {{3, false, -1, 60000, 0.5, false}, 200},     {{30, false, -1, 60000, 0.5, false}, 10000},
    {{0, true, -1, 60000, 0.5, false}, 500},      {{2, true, -1, 60000, 0.25, false}, 1000},
    {{0, false, -1, 60000, 0.0, false}, 0},       {{0, false, 3000, 60000, 0.5, false}, 3000},
    {{0, false, 90000, 60000, 0.5, false}, 5025}, {{9, true, 10, 60000, 0.5, false}, 10000},
    {{9, true, -1, 3000, 0.9, false}, 1500},      {{0, false, -1, 19, 0.5, false}, -1},
    {{0, false, -1, -5, 0.5, false}, -1},         {{9, true, -1, 20, 0.9, false}, 10},
    {{1, true, -1, 60000, 0.5, true}, 1000},      {{2, true, -1, 60000, 0.5, true}, 2000},
    {{9, true, -1, 60000, 0.5, true}, 2000},      {{30, false, -1, 60000, 0.5, true}, 2000},
    {{9, true, 9000, 60000, 0.5, true}, 7000},    {{9, true, -1, 3000, 0.9, true}, 1500},
};

static void waits_grow_with_jitter(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(waits); i++) {
        if (hr_retry_wait_ms(&waits[i].wait) != waits[i].ms) {
            fail_msg("row %zu: %lld", i, (long long)hr_retry_wait_ms(&waits[i].wait));
        }
    }
}

static const struct {
    const char *text;
    int error;
    struct hr_content_range range;
} ranges[] = {
    {"bytes 0-9/100", 0, {0, 9, 100}},
    {"bytes 5-5/6", 0, {5, 5, 6}},
    {"bytes 0-9/*", 0, {0, 9, UINT64_MAX}},
    {"bytes */100", 0, {UINT64_MAX, UINT64_MAX, 100}},
    {"bytes 9-0/100", -EINVAL, {0}},
    {"bytes 0-9/9", -EINVAL, {0}},
    {"bytes 0-9", -EINVAL, {0}},
    {"bytes 0-/9", -EINVAL, {0}},
    {"bytes -9/10", -EINVAL, {0}},
    {"bytes 0-9/100 ", -EINVAL, {0}},
    {"bytes 0-99999999999999999999/*", -EINVAL, {0}},
    {"0-9/100", -EINVAL, {0}},
    {"", -EINVAL, {0}},
};

static void content_ranges(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(ranges); i++) {
        struct hr_content_range range = {1, 2, 3};
        assert_int_equal(hr_content_range_parse(ranges[i].text, &range), ranges[i].error);
        if (ranges[i].error == 0) {
            assert_memory_equal(&range, &ranges[i].range, sizeof(range));
        } else {
            assert_int_equal(range.first, 1);
        }
    }
}

/* Of bytes 0-9 that were asked for. */
static const struct {
    unsigned status;
    const char *range, *etag, *type, *if_match;
    int64_t content_length;
    bool told;
} begun[] = {
    {206, "bytes 0-9/100", "\"e\"", NULL, NULL, 10, true},
    {206, "bytes 0-9/100", "\"e\"", NULL, "e", 10, true},
    {206, "bytes 0-9/100", "\"e\"", NULL, "f", 10, false},
    {206, "bytes 0-9/100", "\"e\"", "text/html", NULL, 10, false},
    {206, "bytes 0-9/100", NULL, NULL, NULL, 10, false},
    {206, "bytes 0-9/100", "\"e\"", NULL, NULL, -1, false},
    {206, "bytes 0-9/100", "\"e\"", NULL, NULL, 9, false},
    {200, "bytes 0-9/100", "\"e\"", NULL, NULL, 10, false},
    {206, "bytes 0-9/10", "\"e\"", NULL, NULL, 10, false},
    {206, "bytes 0-9/*", "\"e\"", NULL, NULL, 10, false},
    {206, "bytes */10", "\"e\"", NULL, NULL, 10, false},
    {206, "bytes 0-8/100", "\"e\"", NULL, NULL, 10, false},
    {206, "bytes 1-10/100", "\"e\"", NULL, NULL, 10, false},
    {206, "nonsense", "\"e\"", NULL, NULL, 10, false},
    {206, NULL, "\"e\"", NULL, NULL, 10, false},
};

static char *constant(const char *text)
{
    return (char *)(uintptr_t)text;
}

static void give(struct hr_http_request *request, const char *name, const char *value)
{
    if (value) {
        request->answer[request->answer_count++] = (struct hr_http_header){constant(name), constant(value)};
    }
}

static void begun_ranges(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(begun); i++) {
        struct hr_http_request request = {.status = begun[i].status,
                                          .content_length = begun[i].content_length};
        struct hr_call call = {.kind = HR_CALL_GET,
                               .key = constant("k"),
                               .key_len = 1,
                               .range_bytes = 10,
                               .if_match = constant(begun[i].if_match)};
        struct hr_call_begun told = {.object_bytes = 7};
        give(&request, "content-range", begun[i].range);
        give(&request, "etag", begun[i].etag);
        give(&request, "content-type", begun[i].type);
        give(&request, "last-modified", "Sat, 21 Nov 2026 10:00:00 GMT");
        if (hr_judge_begun(&call, &request, &told) != begun[i].told) {
            fail_msg("row %zu", i);
        }
        assert_int_equal(told.object_bytes, begun[i].told ? 100 : 7);
        if (begun[i].told) {
            assert_string_equal(told.etag, "e");
            assert_true(told.mtime_ns > 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(endpoints_are_read),     cmocka_unit_test(private_endpoints),
        cmocka_unit_test(regions_make_hosts),     cmocka_unit_test(buckets),
        cmocka_unit_test(redirects_resolve),      cmocka_unit_test(etags_are_bare),
        cmocka_unit_test(quirks_match),           cmocka_unit_test(answers_have_verdicts),
        cmocka_unit_test(transport_has_verdicts), cmocka_unit_test(budget_slows_but_never_fails),
        cmocka_unit_test(waits_grow_with_jitter), cmocka_unit_test(content_ranges),
        cmocka_unit_test(begun_ranges),
    };
    return cmocka_run_group_tests_name("store/pure", tests, NULL, NULL);
}
