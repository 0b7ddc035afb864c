/* Requests as their callers make them: memory that is used again shows nothing of the request before, and odd
 * bytes are found wherever they stand. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "harness.h"

#define AT_ONCE 300 /* more than are kept for the next ones */
#define URL_HEAD "http://127.0.0.1/"
#define URL_BYTES 52

static void is_new(const struct hr_http_request *request)
{
    assert_null(request->url);
    assert_null(request->ca_bundle);
    assert_null(request->payload);
    assert_null(request->body.data);
    assert_null(request->done);
    assert_null(request->begun);
    assert_null(request->owner);
    assert_int_equal(request->header_count, 0);
    assert_int_equal(request->answer_count, 0);
    assert_int_equal(request->error, 0);
    assert_int_equal(request->status, 0);
    assert_int_equal(request->content_length, -1);
    assert_string_equal(request->error_text, "");
    assert_null(hr_http_answer(request, "etag"));
}

/* Headers of all lengths: some fit into the request's own memory, some do not. */
static void fill(struct hr_http_request *request, int seed)
{
    char name[32], value[2100];
    request->url = strdup("http://127.0.0.1/");
    request->status = 200;
    request->body_max_bytes = 1;
    for (int i = 0; i < HR_HTTP_HEADERS_MAX; i++) {
        size_t len = (size_t)(seed * 37 + i * 101) % (sizeof(value) - 1);
        (void)snprintf(name, sizeof(name), "x-%d-%d", seed, i);
        memset(value, 'a' + i, len);
        value[len] = '\0';
        assert_int_equal(hr_http_request_header(request, name, value), 0);
    }
    for (int i = 0; i < HR_HTTP_HEADERS_MAX; i++) {
        size_t len = (size_t)(seed * 37 + i * 101) % (sizeof(value) - 1);
        (void)snprintf(name, sizeof(name), "x-%d-%d", seed, i);
        assert_string_equal(request->headers[i].name, name);
        assert_int_equal(strlen(request->headers[i].value), len);
        assert_int_equal(strspn(request->headers[i].value, (char[]){(char)('a' + i), '\0'}), len);
    }
}

static void requests_are_made_anew(void **state)
{
    (void)state;
    static struct hr_http_request *requests[AT_ONCE];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < AT_ONCE; i++) {
            requests[i] = hr_http_request_new();
            is_new(requests[i]);
            fill(requests[i], round * AT_ONCE + i);
        }
        for (int i = 0; i < AT_ONCE; i++) {
            hr_http_request_free(requests[i]);
        }
    }
}

static void odd_bytes_are_found(void **state)
{
    (void)state;
    struct bed bed;
    char url[URL_BYTES + 1];
    bed_open(&bed, NULL, 1, 1);
    struct hr_http_request *request = bed_request(&bed, URL_HEAD);
    free(request->url);
    request->url = url;
    for (size_t at = strlen(URL_HEAD); at < URL_BYTES; at++) {
        for (int c = 1; c < 256; c++) {
            if (c <= ' ' || c >= 0x7f || c == '#' || c == '\\') {
                (void)snprintf(url, sizeof(url), URL_HEAD "%035d", 0);
                url[at] = (char)c;
                assert_int_equal(hr_http_submit(bed.http, request), -EINVAL);
            }
        }
    }
    for (size_t len = 1; len < 40; len++) {
        for (size_t at = 0; at < len; at++) {
            char name[41] = "";
            memset(name, 'n', len);
            name[at] = " :;\n\x7f"[at % 5];
            assert_int_equal(hr_http_request_header(request, name, "v"), -EINVAL);
        }
    }
    assert_int_equal(hr_http_request_header(request, "\xc3\xa9-name-of-more-than-16-bytes", "v"), 0);
    request->url = NULL;
    hr_http_request_free(request);
    bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_made_anew),
        cmocka_unit_test(odd_bytes_are_found),
    };
    return cmocka_run_group_tests_name("net/http_request", tests, NULL, NULL);
}
