/* Strings, numbers, the clock and one-line messages without libc's heap, stdio or locale. Async-signal-safe;
 * errno is never touched. */
#ifndef HR_TINY_H
#define HR_TINY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* memcmp(a, b, len) == 0 of short texts: no call, eight bytes at a time. */
static inline bool hr_same_bytes(const char *a, const char *b, size_t len)
{
    uint64_t one;
    uint64_t other;
    if (len < sizeof(one)) {
        uint32_t half;
        uint32_t other_half;
        if (len < sizeof(half)) {
            return len == 0 || (a[0] == b[0] && a[len / 2] == b[len / 2] && a[len - 1] == b[len - 1]);
        }
        memcpy(&half, a, sizeof(half));
        memcpy(&other_half, b, sizeof(other_half));
        if (half != other_half) {
            return false;
        }
        memcpy(&half, a + len - sizeof(half), sizeof(half));
        memcpy(&other_half, b + len - sizeof(other_half), sizeof(other_half));
        return half == other_half;
    }
    size_t last = len - sizeof(one);
    for (size_t at = 0; at < last; at += sizeof(one)) {
        memcpy(&one, a + at, sizeof(one));
        memcpy(&other, b + at, sizeof(other));
        if (one != other) {
            return false;
        }
    }
    /* It overlaps the one before it. */
    memcpy(&one, a + last, sizeof(one));
    memcpy(&other, b + last, sizeof(other));
    return one == other;
}

/* Text that grows in the caller's buffer; what does not fit is remembered, not written. */
struct hr_out {
    char *text;
    size_t len;  /* without the terminator */
    size_t room; /* with it */
    bool full;
};

void hr_out_init(struct hr_out *out, char *buffer, size_t room);
void hr_out_bytes(struct hr_out *out, const char *bytes, size_t len);
void hr_out_text(struct hr_out *out, const char *text);
/* All digits of a number, lower case, not terminated. */
#define HR_HEX_DIGITS 16
void hr_hex16(uint64_t value, char ret_text[HR_HEX_DIGITS]);
void hr_out_hex(struct hr_out *out, uint64_t value, unsigned digits); /* lower case, zero-padded */
void hr_out_decimal(struct hr_out *out, uint64_t value);
/* Length, or -ENAMETOOLONG when something did not fit. Always terminated. */
int hr_out_done(const struct hr_out *out);

/* Copies what a writer may be changing meanwhile; the caller checks a sequence word before and after. Later
 * loads stay behind it. `from` is aligned to 4. */
void hr_copy_shared(void *to, const void *from, size_t bytes);

/* Exactly `digits` lower-case hex digits? */
bool hr_hex_parse(const char *text, unsigned digits, uint64_t *ret);

/* Value of an environment variable; NULL when it is not set. (Programs such as bash bring a getenv of their
 * own.) */
const char *hr_env(const char *name);

/* CLOCK_MONOTONIC in milliseconds, by a raw call: a faked clock would make a living daemon look dead. */
uint64_t hr_now_ms(void);
void hr_sleep_ms(unsigned ms); /* returns early when a signal handler ran */

/* "headrace: " + the parts + newline to descriptor 2 in one write; control bytes become '?'. The list ends in
 * NULL. */
void hr_say(const char *part, ...) __attribute__((sentinel));
/* What hr_say does when descriptor 2 was closed at the start (it may be a data file by now): nothing. */
void hr_say_init(void);

#endif
