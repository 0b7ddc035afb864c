/* Requests as their callers make them: memory, headers, URL, and what they read of an answer. */
#include "fetch/net/http_impl.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A 1,024-byte key all percent-encoded is 3 KiB; a continuation token is opaque. */
#define URL_MAX_BYTES 65536
/* Requests are made and freed by turns, some hundred at a time, so that a few kept ones serve all; calloc and
 * free of so large a piece take as long as the rest of making a request. */
#define SPARE_MAX 128
/* Of a text that is kept with it: a signed GET and its answer's headers fit. */
#define SPARE_TEXT_BYTES 1024

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct hr_http_impl *spare; /* as new ones but for `next` and memory that texts have */
static unsigned spare_count;

static struct hr_http_impl *take_spare(void)
{
    (void)pthread_mutex_lock(&lock);
    struct hr_http_impl *impl = spare;
    if (impl) {
        spare = impl->next;
        spare_count--;
        impl->next = NULL;
    }
    (void)pthread_mutex_unlock(&lock);
    return impl;
}

/* What headers say may be secret: nothing of a request stays. Memory of some texts does, for the next one. */
static struct hr_buf emptied(struct hr_buf text, bool keep)
{
    if (text.data) {
        explicit_bzero(text.data, text.len);
    }
    if (!keep || text.cap > SPARE_TEXT_BYTES) {
        hr_buf_release(&text);
    } else if (text.data) {
        hr_buf_reset(&text);
    }
    return text;
}

static void give(struct hr_http_impl *impl)
{
    (void)pthread_mutex_lock(&lock);
    bool keep = spare_count < SPARE_MAX;
    spare_count += keep;
    (void)pthread_mutex_unlock(&lock);
    struct hr_buf text = emptied(impl->text, keep), answer_text = emptied(impl->answer_text, keep);
    explicit_bzero(impl->room, impl->room_used);
    if (!keep) {
        free(impl);
        return;
    }
    memset(impl, 0, offsetof(struct hr_http_impl, header_len));
    impl->text = text;
    impl->answer_text = answer_text;
    (void)pthread_mutex_lock(&lock);
    impl->next = spare;
    spare = impl;
    (void)pthread_mutex_unlock(&lock);
}

struct hr_http_request *hr_http_request_new(void)
{
    struct hr_http_impl *impl = take_spare();
    if (!impl) {
        impl = malloc(sizeof(*impl));
        if (!impl) {
            return NULL;
        }
        memset(impl, 0, offsetof(struct hr_http_impl, header_len));
    }
    impl->request.impl = impl;
    impl->request.content_length = -1;
    return &impl->request;
}

static bool is_in_room(const struct hr_http_impl *impl, const char *text)
{
    return (uintptr_t)text - (uintptr_t)impl->room < sizeof(impl->room);
}

void hr_http_request_free(struct hr_http_request *request)
{
    if (!request) {
        return;
    }
    struct hr_http_impl *impl = request->impl;
    for (unsigned i = 0; i < request->header_count; i++) {
        if (!is_in_room(impl, request->headers[i].name)) {
            free(request->headers[i].name); /* and its value with it */
        }
    }
    free(request->url);
    free(request->ca_bundle);
    if (request->payload) {
        explicit_bzero(request->payload, strlen(request->payload));
        free(request->payload);
    }
    hr_buf_release(&request->body);
    hr_buf_release(&impl->reader.line);
    give(impl);
}

/* Sixteen bytes at a time, by the compiler's vectors: each request has some 400 of them that are looked at.
 */
typedef uint8_t vector __attribute__((vector_size(16)));
typedef int8_t verdicts __attribute__((vector_size(16))); /* -1 where it is so */

static bool has_any(verdicts found)
{
    uint64_t halves[2];
    memcpy(halves, &found, sizeof(halves));
    return (halves[0] | halves[1]) != 0;
}

static verdicts control_bytes(vector c)
{
    return (verdicts)((c < ' ') | (c == 0x7f));
}

/* What a header's name cannot have. */
static verdicts no_name_bytes(vector c)
{
    return (verdicts)((c <= ' ') | (c == 0x7f) | (c == ':') | (c == ';'));
}

/* What a request line cannot carry. */
static verdicts no_url_bytes(vector c)
{
    return (verdicts)((c <= ' ') | (c >= 0x7f) | (c == '#') | (c == '\\'));
}

/* Whether any byte is `bad`; the last sixteen are looked at whole, so that some are looked at twice. */
static inline __attribute__((always_inline)) bool has_bytes(const char *text, size_t len,
                                                            verdicts (*bad)(vector))
{
    char few[sizeof(vector)];
    verdicts found = {0};
    vector c;
    if (len < sizeof(c)) {
        memset(few, 'a', sizeof(few)); /* which is good anywhere */
        memcpy(few, text, len);
        memcpy(&c, few, sizeof(c));
        return has_any(bad(c));
    }
    for (size_t at = 0; at + sizeof(c) <= len; at += sizeof(c)) {
        memcpy(&c, text + at, sizeof(c));
        found |= bad(c);
    }
    memcpy(&c, text + len - sizeof(c), sizeof(c));
    return has_any(found | bad(c));
}

static char *header_room(struct hr_http_impl *impl, size_t bytes)
{
    char *room = impl->room + impl->room_used;
    if (bytes > sizeof(impl->room) - impl->room_used) {
        return malloc(bytes);
    }
    impl->room_used += (unsigned)bytes;
    return room;
}

int hr_http_request_header(struct hr_http_request *request, const char *name, const char *value)
{
    struct hr_http_impl *impl = request->impl;
    size_t name_len = strlen(name), value_len = strlen(value);
    if (name_len == 0 || has_bytes(name, name_len, no_name_bytes) ||
        has_bytes(value, value_len, control_bytes)) {
        return -EINVAL;
    }
    if (request->header_count == HR_HTTP_HEADERS_MAX) {
        return -ENOSPC;
    }
    char *both = header_room(impl, name_len + value_len + 2);
    if (!both) {
        return -ENOMEM;
    }
    memcpy(both, name, name_len + 1);
    memcpy(both + name_len + 1, value, value_len + 1);
    impl->header_len[request->header_count] = (struct hr_http_header_len){name_len, value_len};
    request->headers[request->header_count++] = (struct hr_http_header){both, both + name_len + 1};
    return 0;
}

const char *hr_http_answer(const struct hr_http_request *request, const char *name)
{
    for (unsigned i = 0; i < request->answer_count; i++) {
        const char *sent = request->answer[i].name;
        if (sent[0] == name[0] && strcmp(sent, name) == 0) {
            return request->answer[i].value;
        }
    }
    return NULL;
}

/* Without the scheme's own port: that is what servers, and signatures, expect. */
static size_t sent_len(const char *origin, size_t len, bool is_tls)
{
    size_t at = len;
    while (at > 0 && isdigit((unsigned char)origin[at - 1])) {
        at--;
    }
    bool has_port = at > 0 && at < len && origin[at - 1] == ':';
    return has_port && strtoul(origin + at, NULL, 10) == (is_tls ? 443 : 80) ? at - 1 : len;
}

/* Scheme, host and port, which most requests have in common with the one before. */
static int read_origin(struct hr_http_origin *origin, const char *url)
{
    size_t scheme_len = strncasecmp(url, "https://", 8) == 0  ? 8
                        : strncasecmp(url, "http://", 7) == 0 ? 7
                                                              : 0;
    if (scheme_len == 0) {
        return -EINVAL;
    }
    const char *at = url + scheme_len;
    size_t len = strcspn(at, "/?");
    const char *colon = at[0] == '[' ? NULL : memchr(at, ':', len);
    size_t host_len = colon ? (size_t)(colon - at) : len;
    if (memchr(at, '@', len) || host_len == 0 || host_len >= sizeof(origin->host) ||
        len > HR_HTTP_ORIGIN_BYTES) {
        return -EINVAL;
    }
    memcpy(origin->url, url, scheme_len + len);
    origin->url[scheme_len + len] = '\0';
    origin->scheme_len = scheme_len;
    origin->len = len;
    origin->sent_len = sent_len(at, len, scheme_len == 8);
    for (size_t i = 0; i < host_len; i++) {
        origin->host[i] = (char)tolower((unsigned char)at[i]);
    }
    origin->host[host_len] = '\0';
    struct in_addr v4;
    if (at[0] == '[' || inet_pton(AF_INET, origin->host, &v4) == 1) {
        origin->host[0] = '\0';
    }
    return 0;
}

static bool is_origin_of(const struct hr_http_origin *origin, const char *url)
{
    size_t len = origin->scheme_len + origin->len;
    char next = '\0';
    if (len == 0 || strncmp(url, origin->url, len) != 0) {
        return false;
    }
    next = url[len];
    return next == '/' || next == '?' || next == '\0';
}

int hr_http_read_url(struct hr_http *http, struct hr_http_impl *impl)
{
    struct hr_http_origin *origin = &http->origin;
    const char *url = impl->request.url;
    size_t len = url ? strlen(url) : 0;
    if (len == 0 || len > URL_MAX_BYTES || has_bytes(url, len, no_url_bytes)) {
        return -EINVAL;
    }
    if (!is_origin_of(origin, url)) {
        struct hr_http_origin made = {0};
        int r = read_origin(&made, url);
        if (r < 0) {
            return r;
        }
        *origin = made;
    }
    memcpy(impl->host, origin->host, sizeof(impl->host));
    impl->is_tls = origin->scheme_len == 8;
    impl->origin = url + origin->scheme_len;
    impl->origin_len = (int)origin->len;
    impl->host_len = (int)origin->sent_len;
    return 0;
}
