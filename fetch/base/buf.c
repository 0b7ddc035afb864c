#include "fetch/base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/base/block.h"

/* First size of a buffer that grows by small pieces, bytes; below it doubling would only cost reallocs. */
#define FIRST_CAP_BYTES 64

void hr_buf_init(struct hr_buf *buf, size_t ceiling_bytes)
{
    *buf = (struct hr_buf)HR_BUF_INIT(ceiling_bytes);
}

void hr_buf_release(struct hr_buf *buf)
{
    if (buf->is_block) {
        hr_block_give(buf->data);
    } else {
        free(buf->data);
    }
    hr_buf_init(buf, buf->ceiling);
}

void hr_buf_reset(struct hr_buf *buf)
{
    buf->len = 0;
    if (buf->data) {
        buf->data[0] = '\0';
    }
}

static char *resize(struct hr_buf *buf, size_t bytes)
{
    if (!buf->is_block) {
        return realloc(buf->data, bytes);
    }
    char *data = malloc(bytes);
    if (data) {
        memcpy(data, buf->data, buf->len + 1);
        hr_block_give(buf->data);
        buf->is_block = false;
    }
    return data;
}

/* A first reservation is taken exactly (a known size must not cost twice its memory); later ones double. */
int hr_buf_reserve(struct hr_buf *buf, size_t more_bytes)
{
    if (buf->len > buf->ceiling || more_bytes > buf->ceiling - buf->len) {
        return -EFBIG;
    }
    size_t need = buf->len + more_bytes;
    if (buf->data && need <= buf->cap) {
        return 0;
    }
    size_t want = need;
    if (buf->data && buf->cap <= buf->ceiling / 2 && buf->cap * 2 > need) {
        want = buf->cap * 2;
    } else if (buf->data && buf->cap > buf->ceiling / 2) {
        want = buf->ceiling;
    }
    if (want == SIZE_MAX) {
        return -ENOMEM;
    }
    char *data = resize(buf, want + 1);
    if (!data && want > need) {
        want = need;
        data = resize(buf, want + 1);
    }
    if (!data) {
        return -ENOMEM;
    }
    buf->data = data;
    buf->cap = want;
    buf->data[buf->len] = '\0';
    return 0;
}

int hr_buf_reserve_body(struct hr_buf *buf, size_t bytes)
{
    bool fits =
        !buf->data && bytes >= HR_BLOCK_LEAST_BYTES && bytes <= HR_BLOCK_BYTES && bytes <= buf->ceiling;
    char *block = fits ? hr_block_take() : NULL;
    if (!block) {
        return hr_buf_reserve(buf, bytes);
    }
    buf->data = block;
    buf->cap = bytes;
    buf->is_block = true;
    buf->data[0] = '\0';
    return 0;
}

/* Growth by small pieces starts with a useful size instead of the first piece's. */
static int reserve_piece(struct hr_buf *buf, size_t len)
{
    if (!buf->data && len < FIRST_CAP_BYTES && buf->ceiling >= FIRST_CAP_BYTES) {
        return hr_buf_reserve(buf, FIRST_CAP_BYTES);
    }
    return hr_buf_reserve(buf, len);
}

int hr_buf_append(struct hr_buf *buf, const void *bytes, size_t len)
{
    bool fits = buf->data && len <= buf->cap - buf->len && buf->len + len <= buf->ceiling;
    int r = fits ? 0 : reserve_piece(buf, len);
    if (r < 0) {
        return r;
    }
    if (len > 0) {
        memcpy(buf->data + buf->len, bytes, len);
    }
    buf->len += len;
    buf->data[buf->len] = '\0';
    return 0;
}

int hr_buf_split(struct hr_buf *buf, size_t at, struct hr_buf *rest)
{
    int r = hr_buf_append(rest, buf->data ? buf->data + at : "", buf->len - at);
    if (r < 0) {
        return r;
    }
    buf->len = at;
    char *data = buf->data ? resize(buf, at + 1) : NULL;
    if (data) { /* else it keeps room that it does not need */
        buf->data = data;
        buf->cap = at;
    }
    if (buf->data) {
        buf->data[at] = '\0';
    }
    return 0;
}

int hr_buf_puts(struct hr_buf *buf, const char *text)
{
    return hr_buf_append(buf, text, strlen(text));
}

__attribute__((format(printf, 2, 0))) static int append_format(struct hr_buf *buf, const char *format,
                                                               va_list args)
{
    va_list measure;
    va_copy(measure, args);
    int len = vsnprintf(NULL, 0, format, measure);
    va_end(measure);
    if (len < 0) {
        return -EINVAL;
    }
    int r = reserve_piece(buf, (size_t)len);
    if (r < 0) {
        return r;
    }
    (void)vsnprintf(buf->data + buf->len, (size_t)len + 1, format, args);
    buf->len += (size_t)len;
    return 0;
}

int hr_buf_printf(struct hr_buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int r = append_format(buf, format, args);
    va_end(args);
    return r;
}
