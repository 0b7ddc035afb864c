/* Pieces of a text that is being read: cut, trimmed, percent-decoded. For code that may not allocate.
 * Pure; any thread. */
#ifndef HR_CONFIG_PIECE_H
#define HR_CONFIG_PIECE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "config/say.h"

struct hr_piece {
    const char *at;
    size_t len;
};

/* Cuts `rest` at the first of `mark`: the piece before it; rest keeps what follows. False: there is no mark.
 */
static inline bool hr_piece_cut(struct hr_piece *rest, char mark, struct hr_piece *ret_before)
{
    const char *found = rest->len > 0 ? memchr(rest->at, mark, rest->len) : NULL;
    if (!found) {
        return false;
    }
    size_t before_len = (size_t)(found - rest->at);
    *ret_before = (struct hr_piece){rest->at, before_len};
    *rest = (struct hr_piece){found + 1, rest->len - before_len - 1};
    return true;
}

static inline int hr_piece_hex_digit(char digit)
{
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    char lower = (char)(digit | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* %XX -> byte, into out[room] with a terminator; says what is wrong with `what` (a broken escape, a NUL, the
 * length). */
static inline int hr_piece_decode(struct hr_piece text, char *out, size_t room, size_t *ret_len,
                                  const char *what, struct hr_say *say)
{
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        char byte = text.at[i];
        if (byte == '%') {
            int high = i + 2 < text.len ? hr_piece_hex_digit(text.at[i + 1]) : -1;
            int low = i + 2 < text.len ? hr_piece_hex_digit(text.at[i + 2]) : -1;
            if (high < 0 || low < 0) {
                hr_say_text(say, what);
                hr_say_text(say,
                            " has a '%' without two hex digits; write '%25' for the percent sign itself");
                return -EINVAL;
            }
            byte = (char)(high * 16 + low);
            i += 2;
        }
        if (byte == '\0') {
            hr_say_text(say, what);
            hr_say_text(say, " holds a zero byte, which no name can hold");
            return -EINVAL;
        }
        if (len + 1 >= room) {
            hr_say_text(say, what);
            hr_say_text(say, " is too long; at most ");
            hr_say_number(say, room - 1);
            hr_say_text(say, " bytes");
            return -EINVAL;
        }
        out[len++] = byte;
    }
    out[len] = '\0';
    *ret_len = len;
    return 0;
}

static inline bool hr_piece_is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r';
}

static inline struct hr_piece hr_piece_trimmed(struct hr_piece text)
{
    while (text.len > 0 && hr_piece_is_blank(text.at[0])) {
        text = (struct hr_piece){text.at + 1, text.len - 1};
    }
    while (text.len > 0 && hr_piece_is_blank(text.at[text.len - 1])) {
        text.len--;
    }
    return text;
}

#endif
