/* Where an answer's parts end, however its bytes are cut, and what is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/net/http_impl.h"

#define OK "HTTP/1.1 200 OK\r\n"
#define CHUNKED OK "Transfer-Encoding: chunked\r\n\r\n"
#define NEXT "HTTP/1.1 404 "

enum ending { KEEPS, CLOSES, CUT /* the connection's end ends it */ };

static const struct {
    const char *bytes;
    int error;
    unsigned status;
    const char *body;
    enum ending ending;
    const char *behind; /* not of this answer any more */
} answers[] = {
    {OK "Content-Length: 5\r\n\r\nhello", 0, 200, "hello", KEEPS, ""},
    {OK "Content-Length: 5\r\n\r\nhello" NEXT, 0, 200, "hello", KEEPS, NEXT},
    {OK "Content-Length: 0\r\n\r\n" NEXT, 0, 200, "", KEEPS, NEXT},
    {OK "content-length:\t5 \n\nhello", 0, 200, "hello", KEEPS, ""},
    {OK "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 0, 200, "hello", KEEPS, ""},
    {OK "Content-Length: 5\r\nConnection: close\r\n\r\nhello", 0, 200, "hello", CLOSES, ""},
    {OK "Content-Length: 5\r\nConnection: x, Close\r\n\r\nhello", 0, 200, "hello", CLOSES, ""},
    {OK "Content-Length: 5\r\nConnection: closed\r\n\r\nhello", 0, 200, "hello", KEEPS, ""},
    {"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", 0, 200, "hello", CLOSES, ""},
    {"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 5\r\n\r\nhello", 0, 200, "hello", KEEPS,
     ""},
    {"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", 0, 200, "ok", KEEPS, ""},
    {"HTTP/1.1 204 None\r\n\r\n" NEXT, 0, 204, "", KEEPS, NEXT},
    {"HTTP/1.1 304 Same\r\nContent-Length: 5\r\n\r\n" NEXT, 0, 304, "", KEEPS, NEXT},
    {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nContent-Length: 9\r\n\r\n" OK
     "Content-Length: 2\r\n\r\nok",
     0, 200, "ok", KEEPS, ""},
    {OK "\r\nuntil the end", 0, 200, "until the end", CUT, ""},
    {OK "Transfer-Encoding: identity\r\n\r\nuntil the end", 0, 200, "until the end", CUT, ""},
    {CHUNKED "5\r\nhello\r\n0\r\n\r\n" NEXT, 0, 200, "hello", KEEPS, NEXT},
    {CHUNKED "3;x=y\r\nhel\r\n02 \r\nlo\r\n000\r\nETag: x\r\n\r\n", 0, 200, "hello", KEEPS, ""},
    {CHUNKED "A\nabcdefghij\n0\n\n", 0, 200, "abcdefghij", KEEPS, ""},
    {OK "Content-Length: 3\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 0, 200, "hello",
     KEEPS, ""},
    {"HTTP/1.1 404 None\r\nContent-Length: 4\r\n\r\nnone", 0, 404, "none", KEEPS, ""},

    {"", -ECONNRESET, 0, "", CLOSES, ""},
    {"HTTP/1.1 200 OK\r\nContent-Le", -ECONNRESET, 0, "", CLOSES, ""},
    {OK "Content-Length: 5\r\n\r\nhell", -ECONNRESET, 0, "", CLOSES, ""},
    {CHUNKED "5\r\nhello\r\n", -ECONNRESET, 0, "", CLOSES, ""},
    {CHUNKED "5\r\nhello\r\n0\r\n", -ECONNRESET, 0, "", CLOSES, ""},
    {"HTTP/1.1 100 Continue\r\n\r\n", -ECONNRESET, 0, "", CLOSES, ""},

    {"SSH-2.0-OpenSSH\r\n", -EPROTO, 0, "", CLOSES, ""},
    {"HTTX", -EPROTO, 0, "", CLOSES, ""},
    {"\r\n", -EPROTO, 0, "", CLOSES, ""},
    {"HTTP/2 200\r\n\r\n", -EPROTO, 0, "", CLOSES, ""},
    {"HTTP/1.1 2x0 OK\r\n\r\n", -EPROTO, 0, "", CLOSES, ""},
    {"HTTP/1.1 099 OK\r\n\r\n", -EPROTO, 0, "", CLOSES, ""},
    {"HTTP/1.1 2000 OK\r\n\r\n", -EPROTO, 0, "", CLOSES, ""},
    {"HTTP/1.1 101 Switching\r\n\r\n", -EPROTO, 0, "", CLOSES, ""},
    {OK "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", -EPROTO, 0, "", CLOSES, ""},
    {OK "Content-Length: 5, 5\r\n\r\nhello", -EPROTO, 0, "", CLOSES, ""},
    {OK "Content-Length: -5\r\n\r\nhello", -EPROTO, 0, "", CLOSES, ""},
    {OK "Content-Length: 99999999999999999999\r\n\r\nhello", -EPROTO, 0, "", CLOSES, ""},
    {OK "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", -EPROTO, 0, "", CLOSES, ""},
    {OK "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", -EPROTO, 0, "", CLOSES,
     ""},
    {CHUNKED "x\r\n", -EPROTO, 0, "", CLOSES, ""},
    {CHUNKED "\r\n", -EPROTO, 0, "", CLOSES, ""},
    {CHUNKED "5x\r\nhello\r\n", -EPROTO, 0, "", CLOSES, ""},
    {CHUNKED "10000000000000000\r\nhello\r\n", -EPROTO, 0, "", CLOSES, ""},
    {CHUNKED "4\r\nhello\r\n0\r\n\r\n", -EPROTO, 0, "", CLOSES, ""},
    {OK "Content-Length: 65\r\n\r\n", -EFBIG, 0, "", CLOSES, ""},
    {CHUNKED "41\r\n"
             "01234567890123456789012345678901234567890123456789012345678901234\r\n0\r\n\r\n",
     -EFBIG, 0, "", CLOSES, ""},
};

/* Bodies of at most 64 bytes. What is left of the bytes is returned; *ret_error: the answer's. */
static const char *read_in(struct hr_http_request *request, const char *bytes, size_t piece, bool direct,
                           int *ret_error)
{
    struct hr_http_impl *impl = request->impl;
    const char *end = bytes + strlen(bytes);
    int r = 0;
    request->body_max_bytes = 64;
    hr_http_reader_reset(impl);
    while (r == 0 && bytes < end && impl->reader.part != HR_PART_DONE) {
        size_t len = (size_t)(end - bytes) < piece ? (size_t)(end - bytes) : piece, used = 0;
        char *to;
        size_t room = direct ? hr_http_reader_room(impl, &to) : 0;
        if (room > 0) {
            used = room < len ? room : len;
            memcpy(to, bytes, used);
            hr_http_reader_came(impl, used);
        } else {
            r = hr_http_reader_take(impl, bytes, len, &used);
        }
        bytes += used;
    }
    if (r == 0 && impl->reader.part != HR_PART_DONE) {
        r = hr_http_reader_end(impl);
    }
    *ret_error = r;
    return bytes;
}

static void answers_end_where_they_say(void **state)
{
    (void)state;
    static const size_t pieces[] = {1, 2, 7, 1000};
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        for (size_t p = 0; p < 8; p++) {
            struct hr_http_request *request = hr_http_request_new();
            struct hr_http_impl *impl = request->impl;
            int error;
            const char *behind = read_in(request, answers[i].bytes, pieces[p / 2], p % 2, &error);
            bool keeps = impl->reader.part == HR_PART_DONE && impl->reader.keeps;
            if (error != answers[i].error || keeps != (answers[i].ending == KEEPS)) {
                fail_msg("%s: %d (%s), kept %d", answers[i].bytes, error, impl->why, keeps);
            }
            if (error == 0) {
                assert_int_equal(request->status, answers[i].status);
                assert_string_equal(request->body.data ? request->body.data : "", answers[i].body);
                assert_string_equal(behind, answers[i].behind);
            } else if (error != -ECONNRESET) {
                assert_true(impl->why[0] != '\0' && impl->verdict == error);
            }
            hr_http_request_free(request);
        }
    }
}

/* As many chunks as the body has bytes: their lines are no headers. */
static void small_chunks_are_no_headers(void **state)
{
    (void)state;
    enum { CHUNKS = 100000 };
    struct hr_http_request *request = hr_http_request_new();
    struct hr_http_impl *impl = request->impl;
    size_t used;
    request->body_max_bytes = CHUNKS;
    hr_http_reader_reset(impl);
    assert_int_equal(hr_http_reader_take(impl, CHUNKED, strlen(CHUNKED), &used), 0);
    for (int i = 0; i < CHUNKS; i++) {
        assert_int_equal(hr_http_reader_take(impl, "1\r\nx\r\n", 6, &used), 0);
    }
    assert_int_equal(hr_http_reader_take(impl, "0\r\nETag: x\r\n\r\n", 14, &used), 0);
    assert_true(impl->reader.part == HR_PART_DONE && impl->reader.keeps);
    assert_int_equal(request->body.len, CHUNKS);
    hr_http_request_free(request);
}

static void head_has_no_body(void **state)
{
    (void)state;
    struct hr_http_request *request = hr_http_request_new();
    struct hr_http_impl *impl = request->impl;
    int error;
    request->method = HR_HTTP_HEAD;
    const char *behind = read_in(request, OK "Content-Length: 500\r\n\r\n" NEXT, 1000, true, &error);
    assert_int_equal(error, 0);
    assert_int_equal(request->content_length, 500);
    assert_string_equal(behind, NEXT);
    assert_true(impl->reader.keeps && request->body.len == 0);
    hr_http_request_free(request);
}

/* A server that never comes to an end is not read for ever. */
static void heads_are_bounded(void **state)
{
    (void)state;
    static const char *const begins[] = {"", OK, "HTTP/1.1 100 Continue\r\n\r\n", CHUNKED "0\r\n",
                                         OK "x-amz-a: "};
    static const char *const repeats[] = {"HTTP/1.1 100 Continue\r\n\r\n",
                                          "Vary: x\r\n",
                                          "HTTP/1.1 103 Hints\r\n\r\n",
                                          "Vary: x\r\n",
                                          "endless",
                                          "endless"};
    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
        struct hr_http_request *request = hr_http_request_new();
        struct hr_http_impl *impl = request->impl;
        size_t used, sent = 0;
        hr_http_reader_reset(impl);
        int r = begins[i][0] ? hr_http_reader_take(impl, begins[i], strlen(begins[i]), &used) : 0;
        while (r == 0 && sent < 1 << 20) {
            sent += strlen(repeats[i]);
            r = hr_http_reader_take(impl, repeats[i], strlen(repeats[i]), &used);
        }
        assert_int_equal(r, -EPROTO);
        hr_http_request_free(request);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_end_where_they_say),
        cmocka_unit_test(small_chunks_are_no_headers),
        cmocka_unit_test(head_has_no_body),
        cmocka_unit_test(heads_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
