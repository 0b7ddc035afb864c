/* An answer's bytes as they come over a connection, from a server that says anything: no crash, bounds kept,
 * what is kept is a list of proper strings, and how the bytes are cut changes nothing of what is read. First
 * bytes: the body's bound, its hint and the method, how the rest is cut. */
#include <errno.h>
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
static int hand(struct hr_http_impl *impl, const char *bytes, size_t len, size_t *ret_used)
{
    char *piece = malloc(len);
    must(piece != NULL);
    memcpy(piece, bytes, len);
    int r = hr_http_reader_take(impl, piece, len, ret_used);
    free(piece);
    must(*ret_used <= len && (r < 0 || *ret_used == len || impl->reader.part == HR_PART_DONE));
    return r;
}

static void check(struct hr_http_impl *impl, int result)
{
    struct hr_http_request *request = &impl->request;
    struct hr_http_reader *reader = &impl->reader;
    must(result == 0 || (impl->verdict == result && impl->why[0] != '\0') || result == -ECONNRESET);
    must(request->answer_count <= HR_HTTP_HEADERS_MAX && request->content_length >= -1);
    for (unsigned i = 0; i < request->answer_count; i++) {
        const char *name = request->answer[i].name, *value = request->answer[i].value;
        const char *end = impl->answer_text.data + impl->answer_text.len;
        must(name[0] != '\0' && name + strlen(name) + 1 == value && value + strlen(value) < end);
        must(strpbrk(value, "\n") == NULL && hr_http_answer(request, name) != NULL);
    }
    bool wanted = request->status / 100 == 2;
    size_t max_bytes = request->body_max_bytes;
    must(request->body.len <= (wanted || max_bytes > 65536 ? max_bytes : 65536));
    if (result == 0) {
        must(reader->part == HR_PART_DONE && request->status >= 200 && request->status <= 999);
        bool has_body = request->method != HR_HTTP_HEAD && request->status != 204 && request->status != 304;
        if (has_body && request->content_length >= 0 && !impl->cut) {
            must(request->body.len == (uint64_t)request->content_length);
        }
        must(has_body || request->body.len == 0);
    }
}

/* All the bytes, then the connection's end. */
static struct hr_http_request *read_all(const uint8_t *data, size_t size, size_t piece_bytes, bool direct,
                                        int *ret_result)
{
    struct hr_http_request *request = hr_http_request_new();
    must(request != NULL);
    struct hr_http_impl *impl = request->impl;
    const char *at = (const char *)data + 3, *end = (const char *)data + size;
    request->method = data[1] & 1 ? HR_HTTP_HEAD : HR_HTTP_GET;
    request->body_max_bytes = data[0] * 4u;
    request->body_hint_bytes = data[1] * 16u;
    hr_http_reader_reset(impl);
    int r = 0;
    while (r == 0 && at < end && impl->reader.part != HR_PART_DONE) {
        size_t len = (size_t)(end - at) < piece_bytes ? (size_t)(end - at) : piece_bytes, used = len;
        char *to;
        size_t room = direct ? hr_http_reader_room(impl, &to) : 0;
        if (room > 0) {
            used = len < room ? len : room;
            memcpy(to, at, used);
            hr_http_reader_came(impl, used);
        } else {
            r = hand(impl, at, len, &used);
        }
        at += used;
    }
    if (r == 0 && impl->reader.part != HR_PART_DONE) {
        r = hr_http_reader_end(impl);
    }
    hr_http_answer_publish(impl);
    check(impl, r);
    *ret_result = r;
    return request;
}

static void must_equal(const struct hr_http_request *a, const struct hr_http_request *b)
{
    must(a->status == b->status && a->content_length == b->content_length && a->body.len == b->body.len &&
         a->answer_count == b->answer_count);
    must(a->body.len == 0 || memcmp(a->body.data, b->body.data, a->body.len) == 0);
    for (unsigned i = 0; i < a->answer_count; i++) {
        must(strcmp(a->answer[i].name, b->answer[i].name) == 0 &&
             strcmp(a->answer[i].value, b->answer[i].value) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3) {
        return 0;
    }
    int whole_result, result;
    struct hr_http_request *whole = read_all(data, size, size, false, &whole_result);
    struct hr_http_request *pieces = read_all(data, size, data[2] / 2 + 1u, data[2] & 1, &result);
    must(result == whole_result);
    if (result == 0) {
        must_equal(whole, pieces);
    }
    hr_http_request_free(whole);
    hr_http_request_free(pieces);
    return 0;
}
