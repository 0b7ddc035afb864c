/* The answer as it arrives: status line, the headers worth keeping, the body within its bounds. */
#include "fetch/net/http_impl.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <utlist.h>

#include "fetch/base/clock.h"

#define ANSWER_TEXT_FIRST_BYTES 768          /* S3's headers need about 600 */
#define ANSWER_TEXT_MAX_BYTES (32 * 1024)    /* of kept headers; servers commonly stop at 8 to 16 KiB */
#define ERROR_DOCUMENT_BYTES ((size_t)65536) /* kept of an answer that is not 2xx */
#define LONGER "the answer is longer than expected"
#define NAME_MAX_BYTES 64 /* longer header names are none of ours */

struct word {
    const char *text;
    size_t len;
};
#define WORD(text)                                                                                           \
    {                                                                                                        \
        text, sizeof(text) - 1                                                                               \
    }

static bool is_word(const char *name, size_t len, const struct word *word)
{
    return len == word->len && memcmp(name, word->text, len) == 0;
}

static bool is_kept(const char *name, size_t len)
{
    /* The commonest first. Those behind location are other families' request and version ids: an object store
     * answered. Not every x-amz-*: an object's own metadata may be dozens of headers, and are sent before the
     * answer's range. */
    static const struct word kept[] = {WORD("date"),
                                       WORD("content-length"),
                                       WORD("content-type"),
                                       WORD("last-modified"),
                                       WORD("etag"),
                                       WORD("server"),
                                       WORD("accept-ranges"),
                                       WORD("connection"),
                                       WORD("content-range"),
                                       WORD("transfer-encoding"),
                                       WORD("x-amz-request-id"),
                                       WORD("x-amz-id-2"),
                                       WORD("x-amz-bucket-region"),
                                       WORD("x-amz-retry-after"),
                                       WORD("retry-after"),
                                       WORD("content-encoding"),
                                       WORD("x-goog-stored-content-encoding"),
                                       WORD("location"),
                                       WORD("x-goog-generation"),
                                       WORD("x-guploader-uploadid"),
                                       WORD("x-ms-request-id"),
                                       WORD("x-oss-request-id"),
                                       WORD("x-cos-request-id"),
                                       WORD("x-obs-request-id")};
    static const struct word families[] = {WORD("x-amz-checksum-"), WORD("x-amz-server-side-encryption")};
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        if (is_word(name, len, &kept[i])) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        if (len >= families[i].len && memcmp(name, families[i].text, families[i].len) == 0) {
            return true;
        }
    }
    return false;
}

/* The request ends with `error`; `why` is for people. */
static int refuse(struct hr_http_impl *impl, int error, const char *why)
{
    impl->verdict = error;
    impl->why = why;
    return error;
}

void hr_http_answer_reset(struct hr_http_impl *impl)
{
    struct hr_http_request *request = &impl->request;
    hr_buf_reset(&impl->answer_text);
    request->answer_count = 0;
    request->content_length = -1;
    request->status = 0;
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

void hr_http_answer_announced(struct hr_http_impl *impl)
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

/* "HTTP/1.1 206 Partial Content"; interim answers (1xx) come first and are forgotten. */
int hr_http_answer_status(struct hr_http_impl *impl, const char *line, size_t len)
{
    static const char old[] = "HTTP/1.0 ", now[] = "HTTP/1.1 ";
    struct hr_http_reader *reader = &impl->reader;
    size_t digits = sizeof(now) - 1;
    if (!impl->answer_begun && len >= 5 && memcmp(line, now, 5) == 0) {
        impl->answer_begun = true;
        atomic_store_explicit(&impl->answering, true, memory_order_relaxed);
        impl->request.first_byte_us = (uint64_t)(hr_clock_us() - impl->start_us);
    }
    hr_http_answer_reset(impl);
    reader->chunked = reader->says_close = reader->says_keep = false;
    reader->is_old = len >= digits && memcmp(line, old, digits) == 0;
    if (len < digits + 3 || (!reader->is_old && memcmp(line, now, digits) != 0) ||
        (len > digits + 3 && line[digits + 3] != ' ')) {
        return refuse(impl, -EPROTO, "the answer is not HTTP/1.1");
    }
    unsigned status = 0;
    for (size_t i = digits; i < digits + 3; i++) {
        if (!isdigit((unsigned char)line[i])) {
            return refuse(impl, -EPROTO, "the answer has no status");
        }
        status = status * 10 + (unsigned)(line[i] - '0');
    }
    if (status < 100) {
        return refuse(impl, -EPROTO, "the answer has no status");
    }
    impl->request.status = status;
    return 0;
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
    text->ceiling = ANSWER_TEXT_MAX_BYTES;
    size_t bytes = name_len + value_len + 2;
    int r = text->data ? 0 : hr_buf_reserve(text, ANSWER_TEXT_FIRST_BYTES);
    r = r < 0 || bytes <= text->cap - text->len ? r : hr_buf_reserve(text, bytes);
    if (r < 0) {
        return r == -EFBIG ? refuse(impl, -EPROTO, "the answer's headers are too long")
                           : refuse(impl, r, "no memory for the answer");
    }
    struct hr_http_answer_at at = {text->len, text->len + name_len + 1};
    char *to = text->data + text->len;
    memcpy(to, name, name_len + 1);
    memcpy(to + name_len + 1, value, value_len);
    to[bytes - 1] = '\0';
    text->len += bytes;
    text->data[text->len] = '\0';
    impl->answer_at[request->answer_count++] = at;
    return 0;
}

/* A word of a list: "keep-alive, Close". */
static bool has_word(const char *value, size_t len, const char *word)
{
    size_t word_len = strlen(word);
    while (len > 0) {
        size_t skip = 0;
        while (skip < len && (value[skip] == ',' || value[skip] == ' ' || value[skip] == '\t')) {
            skip++;
        }
        size_t end = skip;
        while (end < len && value[end] != ',' && value[end] != ' ' && value[end] != '\t') {
            end++;
        }
        if (end - skip == word_len && strncasecmp(value + skip, word, word_len) == 0) {
            return true;
        }
        value += end;
        len -= end;
    }
    return false;
}

/* Those that say how the answer goes on. Two lengths, or a coding that was not asked for, leave its end
 * unknown. 0, -errno, or 1: it says nothing. */
static int note(struct hr_http_impl *impl, const char *name, size_t name_len, const char *value, size_t len)
{
    static const struct word length_word = WORD("content-length"), coding_word = WORD("transfer-encoding"),
                             connection_word = WORD("connection");
    struct hr_http_request *request = &impl->request;
    struct hr_http_reader *reader = &impl->reader;
    if (is_word(name, name_len, &length_word)) {
        int64_t length = length_of(value, len);
        if (length < 0 || (request->content_length >= 0 && request->content_length != length)) {
            return refuse(impl, -EPROTO, "the answer's length is not told");
        }
        request->content_length = length;
    } else if (is_word(name, name_len, &coding_word)) {
        bool is_chunked = len == strlen("chunked") && strncasecmp(value, "chunked", len) == 0;
        bool is_none = len == strlen("identity") && strncasecmp(value, "identity", len) == 0;
        if (!is_none && (!is_chunked || reader->chunked)) {
            return refuse(impl, -EPROTO, "the answer's transfer coding is not known");
        }
        reader->chunked = reader->chunked || is_chunked;
        return is_none; /* who looks for it wants to know whether the body has an end */
    } else if (is_word(name, name_len, &connection_word)) {
        reader->says_close = reader->says_close || has_word(value, len, "close");
        reader->says_keep = reader->says_keep || has_word(value, len, "keep-alive");
    }
    return 0;
}

/* ASCII's letters, sixteen bytes at a time: what is behind them has room for that. */
static void lower(char *name, size_t len)
{
    typedef uint8_t vector __attribute__((vector_size(16)));
    for (size_t at = 0; at < len; at += sizeof(vector)) {
        vector c;
        memcpy(&c, name + at, sizeof(c));
        c |= (vector)((c >= 'A') & (c <= 'Z')) & 0x20;
        memcpy(name + at, &c, sizeof(c));
    }
}

/* "Name: value" without its line end. */
int hr_http_answer_field(struct hr_http_impl *impl, const char *line, size_t len)
{
    struct hr_http_request *request = &impl->request;
    const char *colon = memchr(line, ':', len);
    size_t name_len = colon ? (size_t)(colon - line) : 0;
    if (name_len == 0 || name_len >= NAME_MAX_BYTES || memchr(line, '\0', len)) {
        return 0;
    }
    char name[NAME_MAX_BYTES] = "";
    memcpy(name, line, name_len);
    lower(name, name_len);
    if (!is_kept(name, name_len)) {
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
    int r = note(impl, name, name_len, value, value_len);
    if (r != 0) {
        return r < 0 ? r : 0;
    }
    return request->answer_count < HR_HTTP_HEADERS_MAX ? keep(impl, name, name_len, value, value_len) : 0;
}

int hr_http_answer_body(struct hr_http_impl *impl, const char *bytes, size_t len)
{
    struct hr_http_request *request = &impl->request;
    struct hr_buf *body = &request->body;
    bool wanted = request->status >= 200 && request->status < 300;
    size_t max_bytes = request->body_max_bytes;
    if (!wanted && max_bytes < ERROR_DOCUMENT_BYTES) {
        max_bytes = ERROR_DOCUMENT_BYTES;
    }
    body->ceiling = max_bytes;
    if (wanted && request->content_length > 0 && (uint64_t)request->content_length > max_bytes) {
        return refuse(impl, -EFBIG, LONGER); /* said so beforehand: spares the transfer */
    }
    if (!body->data) {
        uint64_t hint = wanted ? request->body_hint_bytes : 0;
        if (request->content_length > 0) {
            hint = (uint64_t)request->content_length;
        }
        hint = hint < max_bytes ? hint : max_bytes;
        if (hr_buf_reserve_body(body, hint > len ? (size_t)hint : len < max_bytes ? len : max_bytes) < 0) {
            return refuse(impl, -ENOMEM, "no memory for the answer");
        }
    }
    if (!wanted && len > max_bytes - body->len) {
        (void)hr_buf_append(body, bytes, max_bytes - body->len);
        impl->cut = true;
        return 0;
    }
    int r = hr_buf_append(body, bytes, len);
    return r == -EFBIG ? refuse(impl, r, LONGER) : r < 0 ? refuse(impl, r, "no memory for the answer") : 0;
}
