/* What is made of each answer to a call: asked again, signed anew, followed, refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/store/calls.h"

#define STEPS(...)                                                                                           \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }
#define STEP(head, body)                                                                                     \
    {                                                                                                        \
        head, body, 0                                                                                        \
    }
#define CUT_STEP(head, body, announced)                                                                      \
    {                                                                                                        \
        head, body, announced                                                                                \
    }
#define PART_STEP(headers, body)                                                                             \
    {                                                                                                        \
        "206 Partial Content\r\nETag: \"e1\"\r\n" headers, body, 0                                           \
    }
#define HTML "Content-Type: text/html\r\n"
#define FILE_TIME "Last-Modified: Sat, 21 Nov 2026 10:00:00 GMT\r\n"
#define MD5_TAG "\"d41d8cd98f00b204e9800998ecf8427e\""
#define PARTS_TAG "\"d41d8cd98f00b204e9800998ecf8427e-12\""
/* An object's own metadata, sent before the range. */
#define META_8(n)                                                                                            \
    "x-amz-meta-" n "0: v\r\nx-amz-meta-" n "1: v\r\nx-amz-meta-" n "2: v\r\nx-amz-meta-" n "3: v\r\n"       \
    "x-amz-meta-" n "4: v\r\nx-amz-meta-" n "5: v\r\nx-amz-meta-" n "6: v\r\nx-amz-meta-" n "7: v\r\n"
#define META META_8("a") META_8("b") META_8("c") META_8("d")
#define PAGE(inner) "<ListBucketResult>" inner "</ListBucketResult>"
#define KEY_A "<Contents><Key>p/a</Key><Size>3</Size></Contents>"

struct scenario {
    const char *name;
    bool list; /* else a GET */
    struct script_step steps[SCRIPT_STEPS_MAX];
    /* the call */
    uint64_t first, bytes; /* range */
    uint64_t expected;     /* size; 0: not known */
    const char *if_match, *known_etag;
    /* the outcome */
    int error;
    unsigned asked;
    const char *body;       /* GET without error */
    uint64_t object_bytes;  /* 0: the body's, if there is one */
    const char *in_message; /* part of the message */
    const char *last_asked; /* part of the last request */
    uint32_t rows;          /* LIST */
};

static const struct scenario scenarios[] = {
    /* Whole objects: what is asked again, and what is the end. */
    {.name = "plain",
     .steps = STEPS(BODY_STEP("", "hello")),
     .expected = 5,
     .asked = 1,
     .body = "hello",
     .last_asked = "GET /bkt/p/k HTTP/1.1"},
    {.name = "if-match is sent",
     .steps = STEPS(BODY_STEP("", "hello")),
     .if_match = "e1",
     .asked = 1,
     .body = "hello",
     .last_asked = "if-match: \"e1\""},
    {.name = "throttled, then not",
     .steps = STEPS(ERROR_STEP("503 Slow", "SlowDown"), STEP("429 X\r\n", NULL), BODY_STEP("", "hello")),
     .asked = 3,
     .body = "hello"},
    {.name = "server error, then not",
     .steps =
         STEPS(ERROR_STEP("500 X", "InternalError"), STEP("502 X\r\n", "<html>"), BODY_STEP("", "hello")),
     .asked = 3,
     .body = "hello"},
    {.name = "connection closed, then not",
     .steps = STEPS(STEP(NULL, NULL), BODY_STEP("", "hello")),
     .asked = 2,
     .body = "hello"},
    {.name = "a web page for whatever is asked",
     .steps = STEPS(STEP("200 OK\r\nContent-Type: text/html\r\n", "<html>log in</html>")),
     .error = -EIO,
     .asked = 1,
     .in_message = "a web page came"},
    {.name = "a web page with a version",
     .steps = STEPS(BODY_STEP("Content-Type: text/html; charset=utf-8\r\n", "<html>log in</html>")),
     .error = -EIO,
     .asked = 1,
     .in_message = "a web page came"},
    {.name = "an object that is a page, by a store that says who it is",
     .steps = STEPS(BODY_STEP("Content-Type: text/html\r\nx-amz-request-id: 1\r\n", "<html>")),
     .asked = 1,
     .body = "<html>"},
    {.name = "an object that is a page, by a store of another family",
     .steps = STEPS(STEP("200 OK\r\n" HTML "X-GUploader-UploadID: A\r\n", "<html>")),
     .asked = 1,
     .body = "<html>"},
    {.name = "an object that is a page, by its digest",
     .steps = STEPS(
         STEP("206 X\r\n" HTML "ETag: " MD5_TAG "\r\n" FILE_TIME "Content-Range: bytes 0-5/6\r\n", "<html>")),
     .bytes = 8,
     .asked = 1,
     .body = "<html>"},
    {.name = "an object that is a page, by the digest of its parts",
     .steps = STEPS(
         STEP("200 OK\r\n" HTML "ETag: " PARTS_TAG "\r\n" FILE_TIME "Accept-Ranges: bytes\r\n", "<html>")),
     .asked = 1,
     .body = "<html>"},
    {.name = "a web page, by a server of files",
     .steps = STEPS(STEP("206 X\r\n" HTML "ETag: \"5f3c2a1b-6\"\r\n" FILE_TIME
                         "Accept-Ranges: bytes\r\nContent-Range: bytes 0-5/6\r\n",
                         "<html>")),
     .bytes = 8,
     .error = -EIO,
     .asked = 1,
     .in_message = "a web page came"},
    {.name = "a web page, digested by the program that made it",
     .steps = STEPS(STEP("200 OK\r\n" HTML "ETag: " MD5_TAG "\r\nAccept-Ranges: bytes\r\n", "<html>")),
     .error = -EIO,
     .asked = 1,
     .in_message = "a web page came"},
    {.name = "a web page with the time of a file, not of its bytes",
     .steps =
         STEPS(STEP("200 OK\r\n" HTML "ETag: " MD5_TAG "\r\n" FILE_TIME "Accept-Ranges: none\r\n", "<html>")),
     .error = -EIO,
     .asked = 1,
     .in_message = "a web page came"},
    {.name = "a web page, digested weakly",
     .steps = STEPS(
         STEP("200 OK\r\n" HTML "ETag: W/" MD5_TAG "\r\n" FILE_TIME "Accept-Ranges: bytes\r\n", "<html>")),
     .error = -EIO,
     .asked = 1,
     .in_message = "a web page came"},
    {.name = "a web page by way of a CDN",
     .steps = STEPS(STEP("200 OK\r\n" HTML FILE_TIME "x-amz-cf-id: A\r\nSet-Cookie: a=b\r\n", "<html>")),
     .error = -EIO,
     .asked = 1,
     .in_message = "a web page came"},
    {.name = "an object that is a page, of the size that was listed",
     .steps = STEPS(BODY_STEP("Content-Type: text/html\r\n", "<html>")),
     .expected = 6,
     .asked = 1,
     .body = "<html>"},
    {.name = "an error that is none of S3",
     .steps = STEPS(STEP("400 X\r\nContent-Type: text/html\r\n", "<html>plain HTTP to an HTTPS port</html>")),
     .error = -EIO,
     .asked = 1,
     .in_message = "400; that is no answer of S3: check the endpoint"},
    {.name = "cut body, then whole",
     .steps = STEPS(CUT_STEP("200 OK\r\nETag: \"e1\"\r\n", "hel", 5), BODY_STEP("", "hello")),
     .expected = 5,
     .asked = 2,
     .body = "hello"},
    {.name = "cut body without a length, size not known",
     .steps = STEPS(CUT_STEP("200 OK\r\nETag: \"e1\"\r\n", "hel", -1), BODY_STEP("", "hello")),
     .bytes = 8,
     .asked = 2,
     .body = "hello"},
    {.name = "chunks, size not known",
     .steps = STEPS(
         CUT_STEP("200 OK\r\nETag: \"e1\"\r\nTransfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n", -1)),
     .bytes = 8,
     .asked = 1,
     .body = "hello"},
    {.name = "cut body without a length",
     .steps = STEPS(CUT_STEP("200 OK\r\nETag: \"e1\"\r\n", "hel", -1), BODY_STEP("", "hello")),
     .expected = 5,
     .asked = 2,
     .body = "hello"},
    {.name = "region in the header",
     .steps = STEPS(STEP("301 Moved\r\nx-amz-bucket-region: eu-west-1\r\n", XML_ERROR("PermanentRedirect")),
                    BODY_STEP("", "hello")),
     .asked = 2,
     .body = "hello",
     .last_asked = "/eu-west-1/s3/aws4_request"},
    {.name = "region in the document",
     .steps =
         STEPS(STEP("400 X\r\n",
                    "<Error><Code>AuthorizationHeaderMalformed</Code><Region>ap-south-1</Region></Error>"),
               BODY_STEP("", "hello")),
     .asked = 2,
     .body = "hello",
     .last_asked = "/ap-south-1/s3/aws4_request"},
    {.name = "region that never fits",
     .steps = STEPS(STEP("301 Moved\r\nx-amz-bucket-region: eu-west-1\r\n", NULL)),
     .error = -EIO,
     .asked = 2,
     .in_message = "301"},
    {.name = "moved without a word",
     .steps = STEPS(STEP("301 Moved\r\n", NULL)),
     .error = -EIO,
     .asked = 1,
     .in_message = "region"},
    {.name = "clocks differ",
     .steps =
         STEPS(STEP("403 X\r\nDate: Tue, 01 Jan 2030 00:00:30 GMT\r\n", XML_ERROR("RequestTimeTooSkewed")),
               BODY_STEP("", "hello")),
     .asked = 2,
     .body = "hello",
     .last_asked = "x-amz-date: 20300101T0000"},
    {.name = "clocks differ, by the message alone",
     .steps = STEPS(
         STEP("400 X\r\nDate: Tue, 01 Jan 2030 00:00:30 GMT\r\n",
              "<Error><Code>AccessDenied</Code><Message>The difference between the request time and the "
              "server's time is too large.</Message></Error>"),
         BODY_STEP("", "hello")),
     .asked = 2,
     .body = "hello",
     .last_asked = "x-amz-date: 20300101T0000"},
    {.name = "clocks differ without a date",
     .steps = STEPS(ERROR_STEP("403 X", "RequestTimeTooSkewed")),
     .error = -EACCES,
     .asked = 1,
     .in_message = "clocks"},
    {.name = "redirect followed",
     .steps = STEPS(STEP("307 X\r\nLocation: http://127.0.0.1:@PORT/t/k?pid=1&utm=2\r\n", NULL),
                    BODY_STEP("", "hello")),
     .asked = 2,
     .body = "hello",
     .last_asked = "GET /t/k?pid=1&utm=2 HTTP/1.1"},
    {.name = "redirect, relative",
     .steps = STEPS(STEP("302 X\r\nLocation: /t/k\r\n", NULL), BODY_STEP("", "hello")),
     .asked = 2,
     .body = "hello",
     .last_asked = "GET /t/k HTTP/1.1"},
    {.name = "redirect, then busy: from the start again",
     .steps = STEPS(STEP("307 X\r\nLocation: /t/k\r\n", NULL), STEP("500 X\r\n", NULL),
                    STEP("307 X\r\nLocation: /u/k\r\n", NULL), BODY_STEP("", "hello")),
     .asked = 4,
     .body = "hello",
     .last_asked = "GET /u/k HTTP/1.1"},
    {.name = "redirects without end",
     .steps = STEPS(STEP("307 X\r\nLocation: /t/k\r\n", NULL)),
     .error = -EIO,
     .asked = 4,
     .in_message = "307"},
    {.name = "redirect to another scheme",
     .steps = STEPS(STEP("301 X\r\nLocation: file:///etc/passwd\r\n", NULL)),
     .error = -EIO,
     .asked = 1,
     .in_message = "301"},
    {.name = "not there",
     .steps = STEPS(ERROR_STEP("404 X", "NoSuchKey")),
     .error = -ENOENT,
     .asked = 1,
     .in_message = "s3://bkt/p/k"},
    {.name = "denied",
     .steps = STEPS(ERROR_STEP("403 X", "AccessDenied")),
     .error = -EACCES,
     .asked = 1,
     .in_message = "as key:AKTEST"},
    {.name = "denied by a proxy",
     .steps = STEPS(STEP("403 X\r\n", "<html>")),
     .error = -EACCES,
     .asked = 1,
     .in_message = "403"},
    {.name = "wrong secret",
     .steps = STEPS(ERROR_STEP("403 X", "SignatureDoesNotMatch")),
     .error = -EACCES,
     .asked = 1,
     .in_message = "secret access key"},
    {.name = "unknown key",
     .steps = STEPS(ERROR_STEP("403 X", "InvalidAccessKeyId")),
     .error = -EACCES,
     .asked = 1,
     .in_message = "access key"},
    {.name = "other version by status",
     .steps = STEPS(ERROR_STEP("412 X", "PreconditionFailed")),
     .if_match = "e1",
     .error = -ESTALE,
     .asked = 1,
     .in_message = "changed"},
    {.name = "other version by ETag",
     .steps = STEPS(BODY_STEP("", "hello")),
     .if_match = "e0",
     .error = -ESTALE,
     .asked = 1,
     .in_message = "changed"},
    {.name = "version not said",
     .steps = STEPS(STEP("200 OK\r\n", "hello")),
     .if_match = "e1",
     .error = -EIO,
     .asked = 5,
     .in_message = "no ETag"},
    {.name = "other size",
     .steps = STEPS(BODY_STEP("", "hello")),
     .expected = 4,
     .error = -EMSGSIZE,
     .asked = 1,
     .in_message = "longer"},
    {.name = "smaller size",
     .steps = STEPS(BODY_STEP("", "hello")),
     .expected = 9,
     .error = -EMSGSIZE,
     .asked = 1,
     .in_message = "expected 9"},
    {.name = "other size, of another version",
     .steps = STEPS(BODY_STEP("", "hello")),
     .expected = 4,
     .known_etag = "e0",
     .error = -EMSGSIZE,
     .asked = 1,
     .in_message = "longer"},
    {.name = "longer, of the version that is known",
     .steps = STEPS(BODY_STEP("", "hello")),
     .expected = 4,
     .known_etag = "e1",
     .error = -EIO,
     .asked = 5,
     .in_message = "the body has 5 bytes, expected 4, and the ETag is the same"},
    {.name = "shorter, of the version that is known, then whole",
     .steps = STEPS(BODY_STEP("", "hell"), BODY_STEP("", "hello")),
     .expected = 5,
     .known_etag = "e1",
     .asked = 2,
     .body = "hello"},
    {.name = "shorter, of the version that is known, packed on the way",
     .steps = STEPS(STEP("200 OK\r\nETag: W/\"e1\"\r\nContent-Encoding: gzip\r\n", "gz")),
     .expected = 5,
     .known_etag = "e1",
     .error = -EIO,
     .asked = 5,
     .in_message = "the ETag is the same (content-encoding: gzip,"},
    {.name = "longer, of the version that is known, unpacked by Google",
     .steps = STEPS(CUT_STEP("200 OK\r\nETag: \"e1\"\r\nx-goog-stored-content-encoding: gzip\r\n"
                             "Transfer-Encoding: chunked\r\n",
                             "5\r\nhello\r\n0\r\n\r\n", -1)),
     .expected = 4,
     .known_etag = "e1",
     .error = -EIO,
     .asked = 5,
     .in_message = "more than 4 bytes, and the ETag is the same (x-goog-stored-content-encoding: gzip,"},
    {.name = "a part for the whole",
     .steps = STEPS(PART_STEP("Content-Range: bytes 0-4/9\r\n", "hello")),
     .error = -EIO,
     .asked = 5,
     .in_message = "part"},
    /* Ranges. */
    {.name = "range",
     .steps = STEPS(PART_STEP("Content-Range: bytes 2-6/100\r\n", "hello")),
     .first = 2,
     .bytes = 5,
     .expected = 5,
     .asked = 1,
     .body = "hello",
     .object_bytes = 100,
     .last_asked = "range: bytes=2-6"},
    {.name = "range at the end",
     .steps = STEPS(PART_STEP("Content-Range: bytes 95-99/100\r\n", "hello")),
     .first = 95,
     .bytes = 50,
     .asked = 1,
     .body = "hello",
     .object_bytes = 100,
     .last_asked = "range: bytes=95-144"},
    {.name = "range of an object with much metadata",
     .steps = STEPS(PART_STEP(META "Content-Range: bytes 2-6/100\r\n", "hello")),
     .first = 2,
     .bytes = 5,
     .asked = 1,
     .body = "hello",
     .object_bytes = 100},
    {.name = "range as 200 with Content-Range",
     .steps = STEPS(BODY_STEP("Content-Range: bytes 2-6/100\r\n", "hello")),
     .first = 2,
     .bytes = 5,
     .asked = 1,
     .body = "hello",
     .object_bytes = 100},
    {.name = "range ignored, whole object fits",
     .steps = STEPS(BODY_STEP("", "hello")),
     .bytes = 50,
     .asked = 1,
     .body = "hello"},
    {.name = "range ignored",
     .steps = STEPS(BODY_STEP("", "hello")),
     .first = 2,
     .bytes = 5,
     .error = -EIO,
     .asked = 1,
     .in_message = "ignores ranges"},
    {.name = "range ignored, too long",
     .steps = STEPS(BODY_STEP("", "hello hello")),
     .bytes = 5,
     .error = -EIO,
     .asked = 1,
     .in_message = "ignores ranges"},
    {.name = "range without Content-Range, then with",
     .steps = STEPS(PART_STEP("", "hello"), PART_STEP("Content-Range: bytes 2-6/100\r\n", "hello")),
     .first = 2,
     .bytes = 5,
     .asked = 2,
     .body = "hello",
     .object_bytes = 100},
    {.name = "another range",
     .steps = STEPS(PART_STEP("Content-Range: bytes 3-7/100\r\n", "hello")),
     .first = 2,
     .bytes = 5,
     .error = -EIO,
     .asked = 5,
     .in_message = "not the range"},
    {.name = "range shorter than it could be",
     .steps = STEPS(PART_STEP("Content-Range: bytes 2-5/100\r\n", "hell")),
     .first = 2,
     .bytes = 5,
     .error = -EIO,
     .asked = 5,
     .in_message = "shorter"},
    {.name = "range shorter than it was in the same version",
     .steps = STEPS(PART_STEP("Content-Range: bytes 2-4/5\r\n", "llo")),
     .first = 2,
     .bytes = 5,
     .expected = 5,
     .if_match = "e1",
     .error = -EIO,
     .asked = 5,
     .in_message = "the range has 3 bytes, expected 5, and the ETag is the same"},
    {.name = "range of another version",
     .steps = STEPS(PART_STEP("Content-Range: bytes 2-6/100\r\n", "hello")),
     .first = 2,
     .bytes = 5,
     .if_match = "e2",
     .error = -ESTALE,
     .asked = 1,
     .in_message = "changed"},
    {.name = "range behind the end",
     .steps = STEPS(STEP("416 X\r\nContent-Range: bytes */100\r\n", XML_ERROR("InvalidRange"))),
     .first = 200,
     .bytes = 5,
     .expected = 5,
     .error = -EMSGSIZE,
     .asked = 1,
     .object_bytes = 100,
     .in_message = "416"},
    /* Listings. */
    {.name = "list",
     .list = true,
     .steps = STEPS(STEP("200 OK\r\n", PAGE(KEY_A))),
     .asked = 1,
     .last_asked =
         "GET "
         "/bkt/?list-type=2&encoding-type=url&delimiter=%2F&max-keys=7&prefix=p%2F&start-after=p%2Fa%20b%2B "
         "HTTP/1.1",
     .rows = 1},
    {.name = "list, success that is an error",
     .list = true,
     .steps = STEPS(STEP("200 OK\r\n", XML_ERROR("InternalError")), STEP("200 OK\r\n", PAGE(KEY_A))),
     .asked = 2,
     .rows = 1},
    {.name = "list, success that is a refusal",
     .list = true,
     .steps = STEPS(STEP("200 OK\r\n", XML_ERROR("AccessDenied"))),
     .error = -EACCES,
     .asked = 1,
     .in_message = "AccessDenied"},
    {.name = "list, broken once",
     .list = true,
     .steps = STEPS(STEP("200 OK\r\n", "<ListBucketResult><Contents>"), STEP("200 OK\r\n", PAGE(KEY_A))),
     .asked = 2,
     .rows = 1},
    {.name = "list, always broken",
     .list = true,
     .steps = STEPS(STEP("200 OK\r\n", "<ListBucketResult><Contents>")),
     .error = -EIO,
     .asked = 5,
     .in_message = "listing is broken"},
    {.name = "list outside the prefix",
     .list = true,
     .steps = STEPS(STEP("200 OK\r\n", PAGE("<Contents><Key>q/a</Key><Size>3</Size></Contents>"))),
     .error = -EIO,
     .asked = 1,
     .in_message = "outside the prefix"},
    {.name = "list, no such bucket",
     .list = true,
     .steps = STEPS(ERROR_STEP("404 X", "NoSuchBucket")),
     .error = -EIO,
     .asked = 1,
     .in_message = "bucket"},
    {.name = "list, by a server of files",
     .list = true,
     .steps = STEPS(STEP("404 X\r\n" HTML, "<html>File not found</html>")),
     .error = -EIO,
     .asked = 1,
     .in_message = "404; that is no answer of S3: check the endpoint"},
};

static struct hr_call *make_call(const struct scenario *scenario, struct hr_store *store)
{
    bool list = scenario->list;
    struct hr_call *call =
        hr_call_new(list ? HR_CALL_LIST : HR_CALL_GET, store, list ? "p/" : "p/k", list ? 2 : 3);
    assert_non_null(call);
    call->range_first = scenario->first;
    call->range_bytes = scenario->bytes;
    call->expected_bytes = scenario->expected > 0 ? scenario->expected : UINT64_MAX;
    call->if_match = scenario->if_match != NULL ? strdup(scenario->if_match) : NULL;
    call->known_etag = scenario->known_etag;
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
    uint64_t object_bytes = scenario->object_bytes;
    if (object_bytes == 0 && scenario->body != NULL) {
        object_bytes = strlen(scenario->body);
    }
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
    if (object_bytes != 0 && call->object_bytes != object_bytes) {
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

/* A step without a head closes the connection; two of them are the end. */
static unsigned count_steps(const struct script_step *steps)
{
    unsigned count = 0;
    while (count + 1 < SCRIPT_STEPS_MAX && (steps[count].head != NULL || steps[count + 1].head != NULL)) {
        count++;
    }
    return count;
}

static void scenarios_play(void **state)
{
    (void)state;
    static struct script script;
    for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
        const struct scenario *scenario = &scenarios[i];
        play(&script, scenario->steps, count_steps(scenario->steps), false);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scenarios_play),
    };
    return cmocka_run_group_tests_name("store/call_answers", tests, NULL, NULL);
}
