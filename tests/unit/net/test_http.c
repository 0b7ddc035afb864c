/* hr_http against a server that misbehaves: what comes back, on which connection, and in what time. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "harness.h"

static const struct {
    const char *url;
    int error;
    unsigned status;
    size_t body_len;
    int64_t content_length;
} answers[] = {
    {"http://127.0.0.1:PORT/ok/0", 0, 200, 0, 0},
    {"http://127.0.0.1:PORT/ok/1", 0, 200, 1, 1},
    {"http://127.0.0.1:PORT/ok/300000", 0, 200, 300000, 300000},
    {"http://127.0.0.1:PORT/ok/1048576", 0, 200, 1048576, 1048576},
    {"http://127.0.0.1:PORT/chunked/70000", 0, 200, 70000, -1},
    {"http://127.0.0.1:PORT/missing", 0, 404, 0, 0},
    {"http://127.0.0.1:PORT/error/503/300", 0, 503, 300, 300},
    {"http://127.0.0.1:PORT/redirect", 0, 307, 0, 0},
    {"http://127.0.0.1:PORT/then-close", 0, 200, 2, 2},
    {"http://one.test:PORT/ok/10", 0, 200, 10, 10},
    {"HTTP://ONE.test:PORT/ok/10", 0, 200, 10, 10},
    {"http://127.0.0.1:PORT/ok/1048577", -EFBIG, 0, 0, 1048577},
    {"http://127.0.0.1:PORT/chunked/1048577", -EFBIG, 0, 0, -1},
    {"http://127.0.0.1:PORT/truncated", -ECONNRESET, 0, 0, 1000},
    {"http://127.0.0.1:PORT/truncated-chunk", -ECONNRESET, 0, 0, -1},
    {"http://127.0.0.1:PORT/reset", -ECONNRESET, 0, 0, 1000},
    {"http://127.0.0.1:PORT/nothing", -ECONNRESET, 0, 0, -1},
    {"http://127.0.0.1:PORT/garbage", -EPROTO, 0, 0, -1},
    {"http://127.0.0.1:PORT/fields/20/3000", -EPROTO, 0, 0, 0},
    {"https://127.0.0.1:PORT/ok/1", -EPROTO, 0, 0, -1},
    {"http://127.0.0.1:1/ok/1", -ECONNREFUSED, 0, 0, -1},
    {"http://[::1]:1/ok/1", -ECONNREFUSED, 0, 0, -1},
    {"http://dead.test:1/ok/1", -ECONNREFUSED, 0, 0, -1},
    {"http://none.test:PORT/ok/1", -EHOSTUNREACH, 0, 0, -1},
};

static void answers_and_errors(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed, NULL, 1, 8);
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        struct hr_http_request *request = bed_get(&bed, answers[i].url);
        if (request->error != answers[i].error || request->content_length != answers[i].content_length) {
            fail_msg("%s: error %d (%s) length %lld", answers[i].url, request->error, request->error_text,
                     (long long)request->content_length);
        }
        if (answers[i].error == 0) {
            assert_int_equal(request->status, answers[i].status);
            assert_string_equal(request->error_text, "");
            assert_true(request->first_byte_us > 0 && request->total_us >= request->first_byte_us);
            if (answers[i].body_len != 2) { /* "ok" */
                assert_body(request, answers[i].body_len);
            }
        } else {
            char origin[64];
            (void)snprintf(origin, sizeof(origin),
                           "%.*s: ", (int)strcspn(strstr(request->url, "//") + 2, "/"),
                           strstr(request->url, "//") + 2);
            assert_int_equal(strncmp(request->error_text, origin, strlen(origin)), 0);
            assert_true(strlen(request->error_text) > strlen(origin));
        }
        hr_http_request_free(request);
    }
    bed_close(&bed);
}

static void bad_requests_are_not_taken(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed, NULL, 1, 1);
    const char *const urls[] = {"",
                                "ftp://127.0.0.1/",
                                "file:///etc/passwd",
                                "http://",
                                "http:///x",
                                "http://user@127.0.0.1/",
                                "http://u:p@127.0.0.1/",
                                "http://127.0.0.1/a b",
                                "http://127.0.0.1/a\r\nX: y",
                                "http://127.0.0.1/#x",
                                "http://127.0.0.1\\x/",
                                "http://127.0.0.1/\xc3\xa9"};
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        struct hr_http_request *request = bed_request(&bed, urls[i]);
        assert_int_equal(hr_http_submit(bed.http, request), -EINVAL);
        hr_http_request_free(request);
    }
    struct hr_http_request *request = hr_http_request_new();
    assert_int_equal(hr_http_submit(bed.http, request), -EINVAL);
    assert_int_equal(hr_http_request_header(request, "x", "a\r\nb: c"), -EINVAL);
    assert_int_equal(hr_http_request_header(request, "x y", "a"), -EINVAL);
    assert_int_equal(hr_http_request_header(request, "", "a"), -EINVAL);
    for (int c = 1; c < 256; c++) { /* one odd byte anywhere in a value of any length */
        for (size_t len = 1; len <= 18; len++) {
            for (size_t at = 0; at < len; at++) {
                char value[19] = "";
                memset(value, 0x80, len);
                value[at] = (char)c;
                struct hr_http_request *one = hr_http_request_new();
                bool control = c < 0x20 || c == 0x7f;
                assert_int_equal(hr_http_request_header(one, "x", value), control ? -EINVAL : 0);
                hr_http_request_free(one);
            }
        }
    }
    for (int i = 0; i < HR_HTTP_HEADERS_MAX; i++) {
        assert_int_equal(hr_http_request_header(request, "x", "a"), 0);
    }
    assert_int_equal(hr_http_request_header(request, "x", "a"), -ENOSPC);
    hr_http_cancel(bed.http, request);
    hr_http_request_free(request);
    hr_http_request_free(NULL);
    bed_close(&bed);
}

/* What goes over the wire is what was asked, nothing added that a signature or a store would trip over. */
static void requests_are_sent_as_given(void **state)
{
    (void)state;
    static const struct {
        enum hr_http_method method;
        const char *line;
    } cases[] = {{HR_HTTP_GET, "GET /echo/a/../%2F//b/./c?list-type=2&x=%20 HTTP/1.1\r\n"},
                 {HR_HTTP_PUT, "PUT /echo/a/../%2F//b/./c?list-type=2&x=%20 HTTP/1.1\r\n"},
                 {HR_HTTP_HEAD, ""},
                 {HR_HTTP_POST, "POST /echo/a/../%2F//b/./c?list-type=2&x=%20 HTTP/1.1\r\n"},
                 {HR_HTTP_GET, "GET /echo/a/../%2F//b/./c?list-type=2&x=%20 HTTP/1.1\r\n"}};
    struct bed bed;
    bed_open(&bed, NULL, 1, 8);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hr_http_request *request =
            bed_request(&bed, "http://one.test:PORT/echo/a/../%2F//b/./c?list-type=2&x=%20");
        request->method = cases[i].method;
        assert_int_equal(hr_http_request_header(request, "X-Amz-Date", "20261121T104100Z"), 0);
        assert_int_equal(hr_http_request_header(request, "x-empty", ""), 0);
        assert_int_equal(hr_http_request_header(request, "Range", "bytes=0-9"), 0);
        bed_submit(&bed, request);
        bed_run(&bed);
        assert_int_equal(request->error, 0);
        assert_int_equal(request->status, 200);
        const char *sent = request->body.data;
        if (cases[i].method == HR_HTTP_HEAD) {
            assert_int_equal(request->body.len, 0);
        } else {
            char host[64];
            (void)snprintf(host, sizeof(host), "\r\nHost: one.test:%d\r\n", bed.server->port);
            assert_int_equal(strncmp(sent, cases[i].line, strlen(cases[i].line)), 0);
            assert_non_null(strstr(sent, host));
            assert_non_null(strstr(sent, "\r\nX-Amz-Date: 20261121T104100Z\r\n"));
            assert_non_null(strstr(sent, "\r\nx-empty:"));
            assert_non_null(strstr(sent, "\r\nRange: bytes=0-9\r\n"));
            assert_non_null(strstr(sent, "\r\nUser-Agent: headrace-test\r\n"));
            bool has_body = cases[i].method == HR_HTTP_PUT || cases[i].method == HR_HTTP_POST;
            assert_int_equal(strcasestr(sent, "\r\nContent-Length: 0\r\n") != NULL, has_body);
            const char *const never[] = {"Expect", "Accept-Encoding", "Content-Type", "Connection", "Proxy"};
            for (size_t k = 0; k < sizeof(never) / sizeof(never[0]); k++) {
                assert_null(strcasestr(sent, never[k]));
            }
        }
        hr_http_request_free(request);
    }
    assert_int_equal(server_accepted(bed.server), 1);
    bed_close(&bed);
}

static void headers_are_captured(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed, NULL, 1, 8);
    struct hr_http_request *request = bed_get(&bed, "http://127.0.0.1:PORT/headers");
    assert_int_equal(request->error, 0);
    assert_int_equal(request->status, 206);
    assert_string_equal(request->body.data, "hello");
    assert_string_equal(hr_http_answer(request, "etag"),
                        "\"abc\""); /* neither the hint's nor the trailer's */
    assert_string_equal(hr_http_answer(request, "content-range"), "bytes 0-4/10");
    assert_string_equal(hr_http_answer(request, "x-amz-request-id"), "R1");
    assert_string_equal(hr_http_answer(request, "x-amz-checksum-empty"), "");
    assert_string_equal(hr_http_answer(request, "last-modified"), "Sat, 21 Nov 2026 10:41:00 GMT");
    assert_string_equal(hr_http_answer(request, "server"), "Test/1"); /* tells a store's kind */
    assert_string_equal(hr_http_answer(request, "transfer-encoding"),
                        "chunked"); /* tells whether a body has an end */
    assert_null(hr_http_answer(request, "vary"));
    assert_null(hr_http_answer(request, "x-amz-meta-mode"));
    assert_int_equal(request->answer_count, 7);
    hr_http_request_free(request);

    request = bed_get(&bed, "http://127.0.0.1:PORT/fields/100/100"); /* the first ones stay */
    assert_int_equal(request->error, 0);
    assert_int_equal(request->answer_count, HR_HTTP_HEADERS_MAX);
    assert_string_equal(request->answer[0].name, "content-length");
    assert_non_null(hr_http_answer(request, "x-amz-checksum-22"));
    assert_null(hr_http_answer(request, "x-amz-checksum-23"));
    hr_http_request_free(request);
    bed_close(&bed);
}

static void bodies_keep_their_bounds(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed, NULL, 1, 8);
    struct hr_http_request *request = bed_request(&bed, "http://127.0.0.1:PORT/ok/100000");
    request->body_max_bytes = 100000;
    request->body_hint_bytes = 100000;
    bed_submit(&bed, request);
    bed_run(&bed);
    assert_body(request, 100000);
    assert_int_equal(request->body.cap, 100000); /* reserved once, no growth */
    hr_http_request_free(request);

    request =
        bed_request(&bed, "http://127.0.0.1:PORT/error/503/300"); /* an error document is no body too long */
    request->body_max_bytes = 1;
    bed_submit(&bed, request);
    bed_run(&bed);
    assert_body(request, 300);
    assert_int_equal(request->status, 503);
    hr_http_request_free(request);

    request = bed_request(&bed, "http://127.0.0.1:PORT/error/503/1000000");
    request->body_max_bytes = 1;
    bed_submit(&bed, request);
    bed_run(&bed);
    assert_body(request, 65536);
    assert_int_equal(request->status, 503);
    hr_http_request_free(request);
    bed_close(&bed);
}

static void connections_are_reused(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed, NULL, 1, 8);
    struct hr_http_request *request = bed_request(&bed, "http://many.test:PORT/ok/1000");
    for (int i = 0; i < 50; i++) { /* the same request again, too */
        bed_submit(&bed, request);
        bed_run(&bed);
        assert_body(request, 1000);
        assert_int_equal(request->reused_connection, i > 0);
    }
    hr_http_request_free(request);
    struct hr_http_stats stats;
    hr_http_stats(bed.http, &stats);
    assert_true(stats.requests == 50 && stats.connects == 1 && stats.reused == 49);
    assert_true(stats.in_flight == 0 && stats.in_flight_max == 1);
    assert_int_equal(server_accepted(bed.server), 1);
    bed_close(&bed);
}

/* After these nobody knows what the connection's next bytes are. */
static void connections_end_after_some_answers(void **state)
{
    (void)state;
    const char *const urls[] = {"http://127.0.0.1:PORT/says-close", "http://127.0.0.1:PORT/old",
                                "http://127.0.0.1:PORT/surplus"};
    for (size_t u = 0; u < sizeof(urls) / sizeof(urls[0]); u++) {
        struct bed bed;
        bed_open(&bed, NULL, 1, 8);
        for (int i = 0; i < 5; i++) {
            struct hr_http_request *request = bed_get(&bed, urls[u]);
            assert_int_equal(request->error, 0);
            assert_string_equal(request->body.data, "ok");
            hr_http_request_free(request);
        }
        if (server_accepted(bed.server) != 5) {
            fail_msg("%s: %u connections", urls[u], server_accepted(bed.server));
        }
        bed_close(&bed);
    }
}

/* More than a socket takes at once: the rest goes when there is room again. */
static void long_payloads_are_sent(void **state)
{
    (void)state;
    enum { BYTES = 1000 * 1000 };
    struct bed bed;
    bed_open(&bed, NULL, 1, 8);
    for (int round = 0; round < 2; round++) {
        struct hr_http_request *request = bed_request(&bed, "http://127.0.0.1:PORT/sum");
        request->method = round == 0 ? HR_HTTP_POST : HR_HTTP_PUT;
        request->payload = malloc(BYTES + 1);
        assert_non_null(request->payload);
        uint64_t sum = 0;
        for (size_t i = 0; i < BYTES; i++) {
            request->payload[i] = body_byte(i);
            sum += (unsigned char)body_byte(i);
        }
        request->payload[BYTES] = '\0';
        bed_submit(&bed, request);
        bed_run(&bed);
        assert_int_equal(request->error, 0);
        assert_int_equal(strtoull(request->body.data, NULL, 10), sum);
        assert_int_equal(request->reused_connection, round > 0);
        hr_http_request_free(request);
    }
    bed_close(&bed);
}

/* A server may close a kept connection at any moment, also just when the next request is on its way. */
static void closed_idle_connections_do_no_harm(void **state)
{
    (void)state;
    const char *const urls[] = {"http://127.0.0.1:PORT/then-close", "http://127.0.0.1:PORT/once",
                                "http://127.0.0.1:PORT/once-reset"};
    for (size_t u = 0; u < sizeof(urls) / sizeof(urls[0]); u++) {
        struct bed bed;
        bed_open(&bed, NULL, 1, 8);
        for (int i = 0; i < 20; i++) {
            struct hr_http_request *request = bed_get(&bed, urls[u]);
            if (request->error != 0) {
                fail_msg("%s: %s", urls[u], request->error_text);
            }
            assert_string_equal(request->body.data, "ok");
            hr_http_request_free(request);
        }
        bed_close(&bed);
    }
}

static void deadlines(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        unsigned first_byte_ms, total_ms;
        int error;
        int64_t least_ms, most_ms;
        const char *says;
    } cases[] = {
        {"http://127.0.0.1:PORT/silent", 150, 0, -ETIMEDOUT, 150, 900, "no answer within 150 ms"},
        {"http://127.0.0.1:PORT/silent", 0, 120, -ETIMEDOUT, 120, 900, "not finished within 120 ms"},
        {"http://127.0.0.1:PORT/silent", 500, 120, -ETIMEDOUT, 120, 490, "not finished within 120 ms"},
        {"http://127.0.0.1:PORT/stalls", 100, 300, -ETIMEDOUT, 300, 1100, "not finished within 300 ms"},
        {"http://127.0.0.1:PORT/trickle", 100, 250, -ETIMEDOUT, 250, 1100, "not finished within 250 ms"},
        {"http://127.0.0.1:PORT/delay/150", 1000, 2000, 0, 150, 990, ""},
        {"http://slow.test:PORT/ok/1", 1000, 0, 0, 200, 990, ""},
        {"http://late.test:PORT/ok/1", 100, 0, -ETIMEDOUT, 100, 800, "no answer within 100 ms"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bed bed;
        bed_open(&bed, NULL, 1, 8);
        struct hr_http_request *request = bed_request(&bed, cases[i].url);
        request->first_byte_ms = cases[i].first_byte_ms;
        request->total_ms = cases[i].total_ms;
        int64_t before_ms = hr_clock_ms();
        bed_submit(&bed, request);
        bed_run(&bed);
        int64_t took_ms = hr_clock_ms() - before_ms;
        if (request->error != cases[i].error || !strstr(request->error_text, cases[i].says) ||
            took_ms < cases[i].least_ms || took_ms > cases[i].most_ms) {
            fail_msg("case %zu: %d (%s) after %lld ms", i, request->error, request->error_text,
                     (long long)took_ms);
        }
        hr_http_request_free(request);
        bed_close(&bed);
    }
}

/* With no deadline of the caller's, the stall rule ends what gives less than 1 KiB/s for 10 s. The wait for
 * an answer has one of its own. */
static void stalled_transfer_ends(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed, NULL, 1, 8);
    const char *const urls[] = {"http://127.0.0.1:PORT/stalls", "http://127.0.0.1:PORT/trickle",
                                "http://127.0.0.1:PORT/silent"};
    struct hr_http_request *requests[3], *late = bed_request(&bed, "http://127.0.0.1:PORT/delay/11000");
    int64_t before_ms = hr_clock_ms();
    late->first_byte_ms = 15000;
    bed_submit(&bed, late);
    for (int i = 0; i < 3; i++) {
        requests[i] = bed_request(&bed, urls[i]);
        bed_submit(&bed, requests[i]);
    }
    bed_run(&bed);
    int64_t took_ms = hr_clock_ms() - before_ms;
    assert_true(took_ms >= 9000 && took_ms < 16000);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(requests[i]->error, -ETIMEDOUT);
        hr_http_request_free(requests[i]);
    }
    assert_int_equal(late->error, 0);
    hr_http_request_free(late);
    bed_close(&bed);
}

static unsigned begun_count;

static void on_begun(struct hr_http_request *request)
{
    struct bed *bed = request->owner;
    begun_count++;
    assert_int_equal(bed->pending, 1);
    assert_int_equal(request->status, 206);
    assert_int_equal(request->content_length, 1000);
    assert_string_equal(hr_http_answer(request, "etag"), "\"b\"");
    hr_http_cancel(bed->http, request);
}

/* The servers keep the bodies to themselves. */
static void begun_answers_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        unsigned told;
    } cases[] = {{"http://127.0.0.1:PORT/begins/206/1000", 1},
                 {"http://127.0.0.1:PORT/begins/206/999", 0},
                 {"http://127.0.0.1:PORT/begins/200/1000", 0},
                 {"http://127.0.0.1:PORT/begins/503/1000", 0}};
    struct bed bed;
    bed_open(&bed, NULL, 1, 8);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hr_http_request *request = bed_request(&bed, cases[i].url);
        request->body_max_bytes = 1000;
        request->begun = on_begun;
        request->total_ms = cases[i].told ? 0 : 200;
        begun_count = 0;
        bed_submit(&bed, request);
        bed_run(&bed);
        assert_int_equal(request->error, cases[i].told ? -ECANCELED : -ETIMEDOUT);
        assert_int_equal(begun_count, cases[i].told);
        hr_http_request_free(request);
    }
    bed_close(&bed);
}

int main(void)
{
    /* What a daemon may find in its environment must decide nothing. */
    (void)setenv("http_proxy", "http://127.0.0.1:1", 1);
    (void)setenv("ALL_PROXY", "http://127.0.0.1:1", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_and_errors),
        cmocka_unit_test(bad_requests_are_not_taken),
        cmocka_unit_test(requests_are_sent_as_given),
        cmocka_unit_test(headers_are_captured),
        cmocka_unit_test(bodies_keep_their_bounds),
        cmocka_unit_test(connections_are_reused),
        cmocka_unit_test(connections_end_after_some_answers),
        cmocka_unit_test(long_payloads_are_sent),
        cmocka_unit_test(closed_idle_connections_do_no_harm),
        cmocka_unit_test(deadlines),
        cmocka_unit_test(stalled_transfer_ends),
        cmocka_unit_test(begun_answers_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
