/* The answer as it arrives: status line, the headers worth keeping, the body within its bounds. */
#include "fetch/net/http_impl.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <utlist.h>

#include "fetch/base/clock.h"

#define ANSWER_TEXT_FIRST_BYTES 768          /* S3's headers need about 600 */
#define ANSWER_TEXT_MAX_BYTES (32 * 1024)    /* of kept headers; servers commonly stop at 8 to 16 KiB */
#define ERROR_DOCUMENT_BYTES ((size_t)65536) /* kept of an answer that is not 2xx */
#define NAME_MAX_BYTES 64                    /* longer header names are none of ours */

static bool is_kept(const char *name)
{
    /* Those behind accept-ranges are other families' request and version ids: an object store answered. */
    static const char *const kept[] = {"etag",
                                       "content-length",
                                       "content-range",
                                       "content-type",
                                       "last-modified",
                                       "date",
                                       "location",
                                       "retry-after",
                                       "connection",
                                       "server",
                                       "transfer-encoding",
                                       "accept-ranges",
                                       "x-goog-generation",
                                       "x-guploader-uploadid",
                                       "x-ms-request-id",
                                       "x-oss-request-id",
                                       "x-cos-request-id",
                                       "x-obs-request-id"};
    if (strncmp(name, "x-amz-", 6) == 0) {
        return true;
    }
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        if (strcmp(name, kept[i]) == 0) {
            return true;
        }
    }
    return false;
}

void hr_http_answer_reset(struct hr_http_impl *impl)
{
    struct hr_http_request *request = &impl->request;
    hr_buf_reset(&impl->answer_text);
    request->answer_count = 0;
    request->content_length = -1;
    request->status = 0;
    impl->answer_headers_done = false;
    impl->answer_published = false;
}

void hr_http_answer_publish(struct hr_http_impl *impl)
{
    for (unsigned i = 0; i < impl->request.answer_count && !impl->answer_published; i++) {
        impl->request.answer[i].name = impl->answer_text.data + impl->answer_at[i].name;
        impl->request.answer[i].value = impl->answer_text.data + impl->answer_at[i].value;
    }
    impl->answer_published = true;
}

/* The final answer's headers are here, and stay as they are. */
static void headers_done(struct hr_http_impl *impl)
{
    const struct hr_http_request *request = &impl->request;
    struct hr_http_thread *thread = impl->thread;
    bool fills = request->status == 206 && request->content_length > 0 &&
                 (uint64_t)request->content_length == request->body_max_bytes;
    if (impl->tells_begun && fills && !impl->is_begun) {
        hr_http_answer_publish(impl);
        impl->is_begun = true;
        DL_APPEND2(thread->begun, impl, begun_prev, begun_next);
    }
}

/* "HTTP/1.1 206 Partial Content": the three digits after the first space; 0 when there are none. */
static unsigned status_of(const char *line, size_t len)
{
    const char *space = memchr(line, ' ', len);
    if (!space || line + len - space < 4) {
        return 0;
    }
    unsigned status = 0;
    for (int i = 1; i <= 3; i++) {
        if (!isdigit((unsigned char)space[i])) {
            return 0;
        }
        status = status * 10 + (unsigned)(space[i] - '0');
    }
    return status;
}

static int64_t length_of(const char *value, size_t len)
{
    int64_t length = 0;
    for (size_t i = 0; i < len; i++) {
        if (!isdigit((unsigned char)value[i]) || length > (INT64_MAX - 9) / 10) {
            return -1;
        }
        length = length * 10 + (value[i] - '0');
    }
    return len > 0 ? length : -1;
}

static int keep(struct hr_http_impl *impl, const char *name, size_t name_len, const char *value,
                size_t value_len)
{
    struct hr_http_request *request = &impl->request;
    struct hr_buf *text = &impl->answer_text;
    if (!text->data) {
        hr_buf_init(text, ANSWER_TEXT_MAX_BYTES);
        int r = hr_buf_reserve(text, ANSWER_TEXT_FIRST_BYTES);
        if (r < 0) {
            return r;
        }
    }
    struct hr_http_answer_at at = {text->len, text->len + name_len + 1};
    int r = hr_buf_append(text, name, name_len + 1);
    if (r == 0) {
        r = hr_buf_append(text, value, value_len);
    }
    if (r == 0) {
        r = hr_buf_append(text, "", 1);
    }
    if (r < 0) {
        return r;
    }
    impl->answer_at[request->answer_count++] = at;
    return 0;
}

/* "Name: value" without its line end. */
static int take_field(struct hr_http_impl *impl, const char *line, size_t len)
{
    struct hr_http_request *request = &impl->request;
    const char *colon = memchr(line, ':', len);
    size_t name_len = colon ? (size_t)(colon - line) : 0;
    if (name_len == 0 || name_len >= NAME_MAX_BYTES || memchr(line, '\0', len)) {
        return 0;
    }
    char name[NAME_MAX_BYTES];
    for (size_t i = 0; i < name_len; i++) {
        name[i] = (char)tolower((unsigned char)line[i]);
    }
    name[name_len] = '\0';
    if (!is_kept(name)) {
        return 0;
    }
    const char *value = colon + 1;
    size_t value_len = len - name_len - 1;
    while (value_len > 0 && (*value == ' ' || *value == '\t')) {
        value++;
        value_len--;
    }
    while (value_len > 0 && (value[value_len - 1] == ' ' || value[value_len - 1] == '\t')) {
        value_len--;
    }
    if (strcmp(name, "content-length") == 0) {
        request->content_length = length_of(value, value_len);
    }
    return request->answer_count < HR_HTTP_HEADERS_MAX ? keep(impl, name, name_len, value, value_len) : 0;
}

/* One line at a time, the empty one at the end included. Interim answers (1xx) come first and are forgotten;
 * lines after the final answer's empty one are trailers, which must not change what was announced. */
size_t hr_http_on_header(char *line, size_t size, size_t count, void *arg)
{
    struct hr_http_impl *impl = arg;
    size_t len = size * count;
    size_t text_len = len;
    while (text_len > 0 && (line[text_len - 1] == '\n' || line[text_len - 1] == '\r')) {
        text_len--;
    }
    if (!impl->answer_begun) {
        impl->answer_begun = true;
        atomic_store_explicit(&impl->answering, true, memory_order_relaxed);
        impl->request.first_byte_us = (uint64_t)(hr_clock_us() - impl->start_us);
    }
    unsigned status = impl->request.status;
    if (text_len >= 5 && memcmp(line, "HTTP/", 5) == 0 && (status < 200 || !impl->answer_headers_done)) {
        hr_http_answer_reset(impl);
        impl->request.status = status_of(line, text_len);
    } else if (text_len == 0) {
        impl->answer_headers_done = true;
        headers_done(impl);
    } else if (!impl->answer_headers_done) {
        int r = take_field(impl, line, text_len);
        if (r < 0) {
            impl->verdict = r == -EFBIG ? -EPROTO : r;
            return 0;
        }
    }
    return len;
}

size_t hr_http_on_body(char *bytes, size_t size, size_t count, void *arg)
{
    struct hr_http_impl *impl = arg;
    struct hr_http_request *request = &impl->request;
    struct hr_buf *body = &request->body;
    size_t len = size * count;
    bool wanted = request->status >= 200 && request->status < 300;
    size_t max_bytes = request->body_max_bytes;
    if (!wanted && max_bytes < ERROR_DOCUMENT_BYTES) {
        max_bytes = ERROR_DOCUMENT_BYTES;
    }
    body->ceiling = max_bytes;
    if (wanted && request->content_length > 0 && (uint64_t)request->content_length > max_bytes) {
        impl->verdict = -EFBIG; /* said so beforehand: spares the transfer */
        return 0;
    }
    if (!body->data) {
        uint64_t hint = wanted ? request->body_hint_bytes : 0;
        if (request->content_length > 0) {
            hint = (uint64_t)request->content_length;
        }
        hint = hint < max_bytes ? hint : max_bytes;
        int r = hr_buf_reserve_body(body, hint > len ? (size_t)hint : len < max_bytes ? len : max_bytes);
        if (r < 0) {
            impl->verdict = r;
            return 0;
        }
    }
    if (!wanted && len > max_bytes - body->len) {
        (void)hr_buf_append(body, bytes, max_bytes - body->len);
        impl->cut = true;
        return 0;
    }
    int r = hr_buf_append(body, bytes, len);
    if (r < 0) {
        impl->verdict = r;
        return 0;
    }
    return len;
}
