#include "fetch/store/judge.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/base/text.h"
#include "fetch/store/etag.h"
#include "fetch/store/proofs.h"
#include "fetch/store/s3_xml.h"
#include "fetch/store/web_page.h"

#define RETRY_AFTER_MAX_S 3600 /* more is as good as "not now"; keeps the arithmetic small */

static void judged(struct hr_judged *ret, enum hr_action action, int error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void judged(struct hr_judged *ret, enum hr_action action, int error, const char *format, ...)
{
    va_list args;

    ret->verdict = (struct hr_verdict){action, error, ""};
    va_start(args, format);
    (void)vsnprintf(ret->text, sizeof(ret->text), format, args);
    va_end(args);
}

static int take_number(const char **text, uint64_t *ret)
{
    const char *p = *text;
    uint64_t value = 0;

    if (*p < '0' || *p > '9') {
        return -EINVAL;
    }
    for (; *p >= '0' && *p <= '9'; p++) {
        if (value > (UINT64_MAX - 9) / 10) {
            return -EINVAL;
        }
        value = value * 10 + (uint64_t)(*p - '0');
    }
    *text = p;
    *ret = value;
    return 0;
}

int hr_content_range_parse(const char *text, struct hr_content_range *ret)
{
    struct hr_content_range range = {UINT64_MAX, UINT64_MAX, UINT64_MAX};

    if (strncmp(text, "bytes ", 6) != 0) {
        return -EINVAL;
    }
    text += 6;
    if (*text == '*') {
        text++;
    } else {
        if (take_number(&text, &range.first) < 0 || *text++ != '-' || take_number(&text, &range.last) < 0 ||
            range.last < range.first || range.last == UINT64_MAX) {
            return -EINVAL;
        }
    }
    if (*text++ != '/') {
        return -EINVAL;
    }
    if (*text == '*') {
        text++;
    } else if (take_number(&text, &range.total) < 0 ||
               (range.first != UINT64_MAX && range.total <= range.last)) {
        return -EINVAL;
    }
    if (*text != '\0') {
        return -EINVAL;
    }
    *ret = range;
    return 0;
}

static void take_dates(const struct hr_http_request *request, struct hr_judged *ret)
{
    const char *date = hr_http_answer(request, "date");
    const char *after = hr_http_answer(request, "retry-after");
    const char *after_ms = hr_http_answer(request, "x-amz-retry-after");
    int64_t ns = 0;
    uint64_t value = 0;

    if (date != NULL && hr_date_http(date, strlen(date), &ns) == 0) {
        ret->server_ms = ns / 1000000;
    }
    if (after_ms != NULL && take_number(&after_ms, &value) == 0 && value <= RETRY_AFTER_MAX_S * 1000) {
        ret->retry_after_ms = (int64_t)value;
    } else if (after != NULL && take_number(&after, &value) == 0 && value <= RETRY_AFTER_MAX_S) {
        ret->retry_after_ms = (int64_t)value * 1000;
    }
}

static void take_region(const struct hr_http_request *request, const struct hr_s3_error *error,
                        struct hr_judged *ret)
{
    const char *header = hr_http_answer(request, "x-amz-bucket-region");
    const char *region = header != NULL ? header : error->region;

    if (hr_region_valid(region)) {
        (void)snprintf(ret->region, sizeof(ret->region), "%s", region);
    }
}

/* Header values are outside text: cut, control bytes out. */
static void copy_id(const char *text, char *ret, size_t size)
{
    size_t used = 0;

    for (; text != NULL && *text != '\0' && used + 1 < size; text++) {
        if (*text > ' ' && *text < 0x7f) {
            ret[used++] = *text;
        }
    }
    ret[used] = '\0';
}

static void describe(const struct hr_http_request *request, const struct hr_s3_error *error,
                     struct hr_judged *ret)
{
    char id[40] = "";

    copy_id(hr_http_answer(request, "x-amz-request-id"), id, sizeof(id));
    if (id[0] == '\0') {
        copy_id(error->request_id, id, sizeof(id));
    }
    (void)snprintf(ret->text, sizeof(ret->text), "%u%s%s%s%.60s%s%s%s%s%s", request->status,
                   error->code[0] ? " " : "", error->code, error->message[0] ? ": " : "", error->message,
                   error->storage_class[0] ? ", class " : "", error->storage_class, id[0] ? " (request " : "",
                   id, id[0] ? ")" : "");
}

/* A GET of an SSE-C object without its key gets the Code of any bad request: S3 says InvalidRequest,
 * SeaweedFS InvalidArgument. */
static bool wants_customer_key(const struct hr_s3_error *error)
{
    return (strcmp(error->code, "InvalidRequest") == 0 || strcmp(error->code, "InvalidArgument") == 0) &&
           strcasestr(error->message, "server side encryption") != NULL;
}

static void judge_failure(struct hr_call *call, struct hr_http_request *request, struct hr_judged *ret)
{
    struct hr_s3_error error = {0};
    struct hr_content_range range;
    const char *content_range = hr_http_answer(request, "content-range");

    if (request->body.len > 0) {
        hr_s3_parse_error(request->body.data, request->body.len, &error);
    }
    take_region(request, &error, ret);
    ret->verdict = hr_errors_http(request->status, error.code, hr_http_answer(request, "location") != NULL);
    call->refused_alone = strcmp(error.code, "InvalidObjectState") == 0;
    if (strcasestr(error.message, "between the request time and the server") != NULL) {
        /* rclone says AccessDenied of it. */
        ret->verdict = hr_errors_http(request->status, "RequestTimeTooSkewed", false);
    }
    if (wants_customer_key(&error)) {
        ret->verdict = (struct hr_verdict){HR_ACTION_FAIL, -EACCES,
                                           "it is encrypted with a key of its owner: set customer_key_file"};
        call->refused_alone = true;
    }
    if (call->kind == HR_CALL_HEAD && request->status == 400) {
        ret->verdict =
            (struct hr_verdict){HR_ACTION_FAIL, -EACCES, ""}; /* an expired token, without its Code */
    }
    if (strcmp(error.code, "AccessDenied") == 0 && strstr(error.message, "kms:") != NULL) {
        call->refused_alone = true; /* it is there, and its key may not be used */
    }
    if (error.code[0] == '\0' && call->kind != HR_CALL_HEAD && request->status < 500 &&
        ret->verdict.hint[0] == '\0') {
        ret->verdict.hint = "that is no answer of S3: check the endpoint";
    }
    if (call->kind == HR_CALL_LIST && error.code[0] == '\0' && ret->verdict.error == -ENOENT) {
        ret->verdict.error = -EIO; /* no bucket is told of, so nothing is known of its names */
    }
    call->denied =
        ret->verdict.action == HR_ACTION_FAIL && ret->verdict.error == -EACCES && !call->refused_alone;
    describe(request, &error, ret);
    if (request->status == 416 && content_range != NULL &&
        hr_content_range_parse(content_range, &range) == 0 && range.total != UINT64_MAX) {
        call->object_bytes = range.total;
    }
}

static bool inside_prefix(const struct hr_call *call, const struct hr_listed *items, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (items[i].key_len < call->key_len || memcmp(items[i].key, call->key, call->key_len) != 0) {
            return false;
        }
    }
    return true;
}

static void judge_list(struct hr_call *call, struct hr_http_request *request, struct hr_judged *ret)
{
    struct hr_s3_page page = {0};
    struct hr_s3_error error = {0};
    const char *why = "";
    int r = hr_s3_parse_list(request->body.data != NULL ? request->body.data : "", request->body.len, &page,
                             &error, &why);

    if (r == -EREMOTEIO) {
        take_region(request, &error, ret);
        ret->verdict = hr_errors_in_success(error.code);
        describe(request, &error, ret);
        return;
    }
    if (r < 0) {
        judged(ret, r == -ENOMEM ? HR_ACTION_RETRY : HR_ACTION_FEW, r == -ENOMEM ? -ENOMEM : -EIO,
               "the listing is broken: %s", why);
        return;
    }
    if (!inside_prefix(call, page.listed, page.listed_count) ||
        !inside_prefix(call, page.prefixes, page.prefix_count)) {
        hr_s3_page_release(&page);
        judged(ret, HR_ACTION_FAIL, -EIO, "the listing has names outside the prefix that was asked for");
        return;
    }
    call->listed = page.listed;
    call->listed_count = page.listed_count;
    call->prefixes = page.prefixes;
    call->prefix_count = page.prefix_count;
    call->next_token = page.next_token;
    call->truncated = page.truncated;
    call->arena = page.arena;
}

/* True: the body is what the range asked for, and *ret_total is the object's size. */
static bool range_fits(const struct hr_call *call, const struct hr_http_request *request, uint64_t *ret_total,
                       struct hr_judged *ret)
{
    const char *text = hr_http_answer(request, "content-range");
    uint64_t got = request->body.len;
    struct hr_content_range range;

    if (text == NULL && request->status == 200 && call->range_first == 0 && got <= call->range_bytes) {
        *ret_total = got; /* the whole object, and the range covers it */
        return true;
    }
    if (text == NULL && request->status == 200) {
        judged(ret, HR_ACTION_FAIL, -EIO, "the store ignores ranges: whole object sent for bytes from %llu",
               (unsigned long long)call->range_first);
        return false;
    }
    if (text == NULL || hr_content_range_parse(text, &range) < 0 || range.first != call->range_first ||
        range.last - range.first >= call->range_bytes) {
        judged(ret, HR_ACTION_FEW, -EIO, "the answer is not the range that was asked for");
        return false;
    }
    if (got != range.last - range.first + 1) {
        judged(ret, HR_ACTION_RETRY, -EIO, "the body ended early: %llu of %llu bytes",
               (unsigned long long)got, (unsigned long long)(range.last - range.first + 1));
        return false;
    }
    uint64_t want = call->range_bytes;
    if (range.total != UINT64_MAX && range.total - range.first < want) {
        want = range.total - range.first;
    }
    if (got != want) {
        judged(ret, HR_ACTION_FEW, -EIO, "the answer is shorter than the range that was asked for");
        return false;
    }
    *ret_total = range.total != UINT64_MAX ? range.total : 0;
    return true;
}

/* Did the answer say where its body ends? Else a connection that was cut looks like the end. */
static bool is_delimited(const struct hr_http_request *request)
{
    return request->content_length >= 0 || hr_http_answer(request, "transfer-encoding") != NULL;
}

/* How the store or somebody on the way has packed or unpacked the body, as far as the headers say so; room
 * for 100 bytes. Google Cloud Storage unpacks what was stored with Content-Encoding: gzip, and says it in a
 * header of its own. */
static void describe_coding(const struct hr_http_request *request, char ret[100])
{
    static const char *const names[] = {"content-encoding", "x-goog-stored-content-encoding"};

    ret[0] = '\0';
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && ret[0] == '\0'; i++) {
        char coding[20];
        copy_id(hr_http_answer(request, names[i]), coding, sizeof(coding));
        if (coding[0] != '\0' && strcmp(coding, "identity") != 0) {
            (void)snprintf(ret, 100, " (%s: %s, so it was packed or unpacked on the way)", names[i], coding);
        }
    }
}

/* The body is longer or shorter than the object is in the very version that the answer names. */
static bool is_known_version(const struct hr_call *call, const struct hr_http_request *request)
{
    const char *known = call->if_match != NULL ? call->if_match : call->known_etag;
    char etag[HR_ETAG_BYTES];

    hr_etag_copy(hr_http_answer(request, "etag"), etag);
    return known != NULL && known[0] != '\0' && hr_etag_equal(known, etag);
}

/* Another version has another ETag, so this is a broken answer. got: UINT64_MAX: more than expected. */
static void judge_length(const struct hr_call *call, const struct hr_http_request *request, uint64_t got,
                         struct hr_judged *ret)
{
    const char *what = call->range_bytes > 0 ? "range" : "body";
    unsigned long long expected = call->expected_bytes;
    char coding[100];

    describe_coding(request, coding);
    if (got == UINT64_MAX) {
        judged(ret, HR_ACTION_FEW, -EIO, "the %s has more than %llu bytes, and the ETag is the same%s", what,
               expected, coding);
    } else {
        judged(ret, HR_ACTION_FEW, -EIO, "the %s has %llu bytes, expected %llu, and the ETag is the same%s",
               what, (unsigned long long)got, expected, coding);
    }
}

static bool size_fits(const struct hr_call *call, const struct hr_http_request *request,
                      struct hr_judged *ret)
{
    uint64_t got = request->body.len;

    if (request->content_length >= 0 && (uint64_t)request->content_length != got) {
        judged(ret, HR_ACTION_RETRY, -EIO, "the body ended early: %llu of %lld bytes",
               (unsigned long long)got, (long long)request->content_length);
        return false;
    }
    if (call->expected_bytes == UINT64_MAX && request->status == 200 && !is_delimited(request)) {
        judged(ret, HR_ACTION_FEW, -EIO, "the answer does not tell where its body ends");
        return false;
    }
    if (call->expected_bytes == UINT64_MAX || got == call->expected_bytes) {
        return true;
    }
    if (is_known_version(call, request)) {
        judge_length(call, request, got, ret);
        return false;
    }
    if (request->content_length < 0 && got < call->expected_bytes) {
        /* Nothing said where it should end, so a cut connection looks like this. */
        judged(ret, HR_ACTION_FEW, -EMSGSIZE, "the body has %llu bytes, expected %llu",
               (unsigned long long)got, (unsigned long long)call->expected_bytes);
        return false;
    }
    judged(ret, HR_ACTION_FAIL, -EMSGSIZE,
           "the object has %llu bytes, expected %llu: it changed in the store", (unsigned long long)got,
           (unsigned long long)call->expected_bytes);
    return false;
}

static bool etag_fits(const struct hr_call *call, const char *etag, struct hr_judged *ret)
{
    if (call->if_match == NULL || hr_etag_equal(call->if_match, etag)) {
        return true;
    }
    if (etag[0] == '\0') {
        judged(ret, HR_ACTION_FEW, -EIO, "the answer has no ETag to tell the object's version by");
    } else {
        judged(ret, HR_ACTION_FAIL, -ESTALE, "the object changed in the store");
    }
    return false;
}

static bool is_web_page(const struct hr_call *call, const struct hr_http_request *request,
                        struct hr_judged *ret)
{
    if (!hr_web_page(call->key, call->key_len, request)) {
        return false;
    }
    judged(ret, HR_ACTION_FAIL, -EIO, "a web page came, no object: check the endpoint and its port");
    return true;
}

static void judge_get(struct hr_call *call, struct hr_http_request *request, const struct hr_quirk *quirk,
                      struct hr_judged *ret)
{
    const char *modified = hr_http_answer(request, "last-modified");
    bool ranged = call->range_bytes > 0;
    uint64_t total = request->body.len;
    char etag[HR_ETAG_BYTES];

    hr_etag_copy(hr_http_answer(request, "etag"), etag);
    if (call->expected_bytes == UINT64_MAX && is_web_page(call, request, ret)) {
        return;
    }
    if (!etag_fits(call, etag, ret)) {
        return;
    }
    if (!ranged && request->status == 206) {
        judged(ret, HR_ACTION_FEW, -EIO, "a part was sent for the whole object");
        return;
    }
    if (!size_fits(call, request, ret) || (ranged && !range_fits(call, request, &total, ret))) {
        return;
    }
    if (call->body_max_bytes > 0 && request->body.len > call->body_max_bytes) {
        judged(ret, HR_ACTION_FAIL, -EMSGSIZE, "the object is longer than expected");
        return;
    }
    call->body = request->body;
    request->body = (struct hr_buf){0};
    memcpy(call->etag, etag, sizeof(call->etag));
    call->object_bytes = total;
    call->mtime_ns = 0;
    if (modified != NULL) {
        (void)hr_date_http(modified, strlen(modified), &call->mtime_ns);
    }
    hr_proofs_take(call, request, quirk, !ranged || call->body.len == total);
}

bool hr_judge_begun(const struct hr_call *call, const struct hr_http_request *request,
                    struct hr_call_begun *ret)
{
    const char *text = hr_http_answer(request, "content-range");
    const char *modified = hr_http_answer(request, "last-modified");
    struct hr_content_range range;
    struct hr_call_begun begun = {.mtime_ns = 0};

    hr_etag_copy(hr_http_answer(request, "etag"), begun.etag);
    if (request->status != 206 || begun.etag[0] == '\0' || hr_web_page(call->key, call->key_len, request) ||
        (call->if_match != NULL && !hr_etag_equal(call->if_match, begun.etag))) {
        return false;
    }
    if (text == NULL || hr_content_range_parse(text, &range) < 0 || range.first != call->range_first ||
        range.total == UINT64_MAX || range.last - range.first + 1 != call->range_bytes ||
        range.total == range.last + 1 || request->content_length < 0 ||
        (uint64_t)request->content_length != call->range_bytes) {
        return false;
    }
    begun.object_bytes = range.total;
    if (modified != NULL) {
        (void)hr_date_http(modified, strlen(modified), &begun.mtime_ns);
    }
    *ret = begun;
    return true;
}

static void judge_head(struct hr_call *call, const struct hr_http_request *request, struct hr_judged *ret)
{
    const char *modified = hr_http_answer(request, "last-modified");

    if (is_web_page(call, request, ret)) {
        return;
    }
    if (request->content_length < 0) {
        judged(ret, HR_ACTION_FEW, -EIO, "the answer does not tell the object's size");
        return;
    }
    hr_etag_copy(hr_http_answer(request, "etag"), call->etag);
    call->object_bytes = (uint64_t)request->content_length;
    call->mtime_ns = 0;
    if (modified != NULL) {
        (void)hr_date_http(modified, strlen(modified), &call->mtime_ns);
    }
}

void hr_judge(struct hr_call *call, struct hr_http_request *request, const struct hr_quirk *quirk,
              struct hr_judged *ret)
{
    *ret = (struct hr_judged){.retry_after_ms = -1};
    if (request->error == -EFBIG && call->kind == HR_CALL_GET && call->range_bytes > 0) {
        char coding[100];
        describe_coding(request, coding);
        judged(ret, HR_ACTION_FAIL, -EIO,
               "more bytes than the range that was asked for: the store ignores ranges%s", coding);
        return;
    }
    if (request->error == -EFBIG && call->kind == HR_CALL_GET && call->expected_bytes != UINT64_MAX &&
        is_known_version(call, request)) {
        judge_length(call, request,
                     request->content_length < 0 ? UINT64_MAX : (uint64_t)request->content_length, ret);
        return;
    }
    if (request->error != 0) {
        ret->verdict = hr_errors_transport(request->error);
        (void)snprintf(ret->text, sizeof(ret->text), "%s", request->error_text);
        return;
    }
    take_dates(request, ret);
    if (request->status != 200 && request->status != 206) {
        judge_failure(call, request, ret);
    } else if (call->kind == HR_CALL_LIST) {
        judge_list(call, request, ret);
    } else if (call->kind == HR_CALL_HEAD) {
        judge_head(call, request, ret);
    } else {
        judge_get(call, request, quirk, ret);
    }
}
