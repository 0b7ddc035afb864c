/* The answer's headers and body as libcurl hands them over, line by line, from a server that says anything:
 * no crash, bounds kept, and what is kept is a list of proper strings. First bytes: the body's bound, and how
 * the rest is cut. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/net/http_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int truth)
{
    if (!truth) {
        abort();
    }
}

/* One piece in memory of its own, so that a read past its end is seen. */
static size_t hand(size_t (*take)(char *, size_t, size_t, void *), const char *bytes, size_t len, void *impl)
{
    char *piece = malloc(len ? len : 1);
    must(piece != NULL);
    memcpy(piece, bytes, len);
    size_t taken = take(piece, 1, len, impl);
    free(piece);
    return taken;
}

static void check(struct hr_http_impl *impl)
{
    struct hr_http_request *request = &impl->request;
    hr_http_answer_publish(impl);
    must(request->answer_count <= HR_HTTP_HEADERS_MAX && request->content_length >= -1);
    for (unsigned i = 0; i < request->answer_count; i++) {
        const char *name = request->answer[i].name, *value = request->answer[i].value;
        const char *end = impl->answer_text.data + impl->answer_text.len;
        must(name[0] != '\0' && name + strlen(name) + 1 == value && value + strlen(value) < end);
        must(strpbrk(value, "\n") == NULL && hr_http_answer(request, name) != NULL);
    }
    size_t max_bytes = request->body_max_bytes;
    must(request->body.len <= (request->status / 100 == 2 || max_bytes > 65536 ? max_bytes : 65536));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3) {
        return 0;
    }
    struct hr_http_request *request = hr_http_request_new();
    must(request != NULL);
    struct hr_http_impl *impl = request->impl;
    request->body_max_bytes = data[0] * 4u;
    request->body_hint_bytes = data[1] * 16u;
    size_t piece_bytes = data[2] + 1u;
    const char *at = (const char *)data + 3, *end = (const char *)data + size;
    hr_http_answer_reset(impl);
    bool going = true;
    while (going && at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        size_t len = line_end ? (size_t)(line_end + 1 - at) : (size_t)(end - at);
        bool is_empty = len <= 2 && (at[0] == '\r' || at[0] == '\n');
        going = hand(hr_http_on_header, at, len, impl) == len;
        at += len;
        if (is_empty && request->status >= 200) {
            break;
        }
    }
    while (going && at < end) {
        size_t len = (size_t)(end - at) < piece_bytes ? (size_t)(end - at) : piece_bytes;
        going = hand(hr_http_on_body, at, len, impl) == len;
        at += len;
    }
    must(going || impl->verdict < 0 || impl->cut);
    if (going) { /* trailers */
        must(hand(hr_http_on_header, "ETag: x\r\n", 9, impl) == 9 || impl->verdict < 0);
    }
    check(impl);
    hr_http_request_free(request);
    return 0;
}
