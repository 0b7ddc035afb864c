/* One growable byte buffer with a hard ceiling.
 *
 * Invariants: len <= cap <= ceiling; data[len] is always '\0' when data is not NULL (so text may be used as a
 * C string). On failure the buffer is unchanged. Not thread-safe; owned by whoever holds the struct. */
#ifndef HR_BASE_BUF_H
#define HR_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct hr_buf {
    char *data;
    size_t len;
    size_t cap;     /* bytes that fit without growing, the terminator not counted */
    size_t ceiling; /* never grows beyond this many bytes */
    bool is_block;  /* data is one of block.h's */
};

#define HR_BUF_INIT(max_bytes)                                                                               \
    {                                                                                                        \
        .ceiling = (max_bytes)                                                                               \
    }

void hr_buf_init(struct hr_buf *buf, size_t ceiling_bytes);
void hr_buf_release(struct hr_buf *buf); /* frees; the buffer is empty and usable again */
void hr_buf_reset(struct hr_buf *buf);   /* len = 0, keeps the memory */
/* 0, -ENOMEM, or -EFBIG when the ceiling would be passed. */
int hr_buf_reserve(struct hr_buf *buf, size_t more_bytes);
/* The same for an empty buffer that will hold so many bytes, out of memory that goes round where they fill
 * it. */
int hr_buf_reserve_body(struct hr_buf *buf, size_t bytes);
int hr_buf_append(struct hr_buf *buf, const void *bytes, size_t len);
/* What lies behind `at` is the empty buffer's, in memory of its own. 0; -ENOMEM, -EFBIG: nothing is changed.
 * at <= len. */
int hr_buf_split(struct hr_buf *buf, size_t at, struct hr_buf *rest);
int hr_buf_puts(struct hr_buf *buf, const char *text);
int hr_buf_printf(struct hr_buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
