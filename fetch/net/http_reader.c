/* Where the parts of an answer begin and end: lines, counted bodies, chunks. Nothing is trusted: what is not
 * HTTP/1.x, announces two lengths or a coding that nobody asked for ends the request. */
#include "fetch/net/http_impl.h"

#include <errno.h>
#include <string.h>

#define LINE_MAX_BYTES (64 * 1024)  /* servers commonly stop at 8 to 16 KiB */
#define HEAD_MAX_BYTES (256 * 1024) /* of all lines, interim answers and trailers included */
#define CHUNK_LINE_MAX_BYTES 4096   /* a size and extensions; as many lines as the body has chunks */
#define CHUNK_DIGITS_MAX 15         /* so that a size fits */

static int refuse(struct hr_http_impl *impl, const char *why)
{
    impl->verdict = -EPROTO;
    impl->why = why;
    return -EPROTO;
}

void hr_http_reader_reset(struct hr_http_impl *impl)
{
    struct hr_buf line = impl->reader.line;
    line.ceiling = LINE_MAX_BYTES;
    hr_buf_reset(&line);
    impl->reader = (struct hr_http_reader){.line = line};
    impl->verdict = 0;
    impl->why = "";
    impl->cut = false;
    impl->answer_begun = false;
    hr_http_answer_reset(impl);
}

static void done(struct hr_http_impl *impl, bool keeps)
{
    struct hr_http_reader *reader = &impl->reader;
    reader->part = HR_PART_DONE;
    reader->keeps = keeps && !reader->says_close && (!reader->is_old || reader->says_keep);
}

/* Behind the headers: how does the body end? */
static int begin_body(struct hr_http_impl *impl)
{
    struct hr_http_reader *reader = &impl->reader;
    struct hr_http_request *request = &impl->request;
    unsigned status = request->status;
    if (status < 200) {
        reader->part = HR_PART_STATUS; /* an interim answer: the other one follows */
        return status == 101 ? refuse(impl, "the server changes to another protocol") : 0;
    }
    if (request->method == HR_HTTP_HEAD || status == 204 || status == 304) {
        done(impl, true);
    } else if (reader->chunked) {
        request->content_length = -1;
        reader->part = HR_PART_CHUNK_SIZE;
    } else if (request->content_length < 0) {
        reader->part = HR_PART_UNTIL_END;
    } else if (request->content_length == 0) {
        done(impl, true);
    } else {
        reader->part = HR_PART_COUNTED;
        reader->left = (uint64_t)request->content_length;
        hr_http_answer_announced(impl);
        return hr_http_answer_body(impl, "", 0);
    }
    return 0;
}

static int chunk_size(struct hr_http_impl *impl, const char *line, size_t len)
{
    struct hr_http_reader *reader = &impl->reader;
    uint64_t size = 0;
    size_t digits = 0;
    for (; digits < len; digits++) {
        char c = line[digits];
        unsigned value = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                                : 16;
        if (value == 16) {
            break;
        }
        size = digits < CHUNK_DIGITS_MAX ? size << 4 | value : UINT64_MAX;
    }
    bool ends_well = digits == len || line[digits] == ';' || line[digits] == ' ' || line[digits] == '\t';
    if (digits == 0 || size == UINT64_MAX || !ends_well) {
        return refuse(impl, "a chunk has no size");
    }
    reader->left = size;
    reader->part = size > 0 ? HR_PART_CHUNK : HR_PART_TRAILERS;
    return 0;
}

static int take_line(struct hr_http_impl *impl, const char *line, size_t len)
{
    struct hr_http_reader *reader = &impl->reader;
    int r = 0;
    while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == '\r')) {
        len--;
    }
    switch (reader->part) {
    case HR_PART_STATUS:
        r = hr_http_answer_status(impl, line, len);
        reader->part = HR_PART_FIELDS;
        return r;
    case HR_PART_FIELDS:
        return len > 0 ? hr_http_answer_field(impl, line, len) : begin_body(impl);
    case HR_PART_CHUNK_SIZE:
        return chunk_size(impl, line, len);
    case HR_PART_CHUNK_END:
        reader->part = HR_PART_CHUNK_SIZE;
        return len == 0 ? 0 : refuse(impl, "a chunk is longer than its size");
    default: /* trailers change nothing of what was announced */
        if (len == 0) {
            done(impl, true);
        }
        return 0;
    }
}

/* Up to the line's end, or all there is of it. */
static int take_lines(struct hr_http_impl *impl, const char *bytes, size_t len, size_t *ret_used)
{
    struct hr_http_reader *reader = &impl->reader;
    const char *end = memchr(bytes, '\n', len);
    size_t used = end ? (size_t)(end + 1 - bytes) : len;
    bool is_chunks = reader->part == HR_PART_CHUNK_SIZE || reader->part == HR_PART_CHUNK_END;
    *ret_used = used;
    reader->head_bytes += is_chunks ? 0 : used;
    if (reader->head_bytes > HEAD_MAX_BYTES ||
        used + reader->line.len > (is_chunks ? CHUNK_LINE_MAX_BYTES : LINE_MAX_BYTES)) {
        return refuse(impl, "the answer's headers are too long");
    }
    if (end && reader->line.len == 0) {
        return take_line(impl, bytes, used);
    }
    if (hr_buf_append(&reader->line, bytes, used) < 0) {
        impl->verdict = -ENOMEM;
        impl->why = "no memory for the answer";
        return -ENOMEM;
    }
    if (!end) {
        /* What cannot become a status line need not come to its end. */
        size_t known = reader->line.len < 5 ? reader->line.len : 5;
        bool is_odd = reader->part == HR_PART_STATUS && memcmp(reader->line.data, "HTTP/", known) != 0;
        return is_odd ? refuse(impl, "the answer is not HTTP") : 0;
    }
    int r = take_line(impl, reader->line.data, reader->line.len);
    hr_buf_reset(&reader->line);
    return r;
}

/* So much of the body, or of a chunk, has been put away. */
static void counted(struct hr_http_impl *impl, size_t len)
{
    struct hr_http_reader *reader = &impl->reader;
    reader->left -= len;
    if (reader->left == 0 && reader->part == HR_PART_COUNTED) {
        done(impl, true);
    } else if (reader->left == 0) {
        reader->part = HR_PART_CHUNK_END;
    }
}

static int take_body(struct hr_http_impl *impl, const char *bytes, size_t len, size_t *ret_used)
{
    struct hr_http_reader *reader = &impl->reader;
    size_t used = len;
    if (reader->part != HR_PART_UNTIL_END && used > reader->left) {
        used = (size_t)reader->left;
    }
    *ret_used = used;
    int r = hr_http_answer_body(impl, bytes, used);
    if (r < 0) {
        return r;
    }
    if (impl->cut) {
        done(impl, false);
    } else if (reader->part != HR_PART_UNTIL_END) {
        counted(impl, used);
    }
    return 0;
}

int hr_http_reader_take(struct hr_http_impl *impl, const char *bytes, size_t len, size_t *ret_used)
{
    struct hr_http_reader *reader = &impl->reader;
    size_t at = 0;
    int r = 0;
    while (at < len && r == 0 && reader->part != HR_PART_DONE) {
        bool in_body = reader->part == HR_PART_COUNTED || reader->part == HR_PART_UNTIL_END ||
                       reader->part == HR_PART_CHUNK;
        size_t used = 0;
        r = in_body ? take_body(impl, bytes + at, len - at, &used)
                    : take_lines(impl, bytes + at, len - at, &used);
        at += used;
    }
    *ret_used = at;
    return r;
}

size_t hr_http_reader_room(struct hr_http_impl *impl, char **ret_at)
{
    struct hr_http_request *request = &impl->request;
    struct hr_buf *body = &request->body;
    bool wanted = request->status >= 200 && request->status < 300;
    if (impl->reader.part != HR_PART_COUNTED || !wanted) {
        return 0;
    }
    size_t room = body->cap - body->len;
    *ret_at = body->data + body->len;
    return impl->reader.left < room ? (size_t)impl->reader.left : room;
}

void hr_http_reader_came(struct hr_http_impl *impl, size_t len)
{
    struct hr_buf *body = &impl->request.body;
    body->len += len;
    body->data[body->len] = '\0';
    counted(impl, len);
}

int hr_http_reader_end(struct hr_http_impl *impl)
{
    if (impl->reader.part == HR_PART_UNTIL_END) {
        done(impl, false);
        return 0;
    }
    return -ECONNRESET;
}
