/* One-line messages in a fixed buffer, for code that may not use stdio: always terminated, cut where the room
 * ends. Pure; any thread. */
#ifndef HR_CONFIG_SAY_H
#define HR_CONFIG_SAY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct hr_say {
    char *text;
    size_t room; /* bytes of text, the terminator included; at least 1 */
    size_t len;
};

#define HR_SAY_QUOTED_MAX 64 /* bytes of outside text that one quotation shows */

static inline void hr_say_init(struct hr_say *say, char *text, size_t room)
{
    say->text = text;
    say->room = room;
    say->len = 0;
    text[0] = '\0';
}

static inline void hr_say_bytes(struct hr_say *say, const char *bytes, size_t len)
{
    size_t left = say->room - 1 - say->len;
    if (len > left) {
        len = left;
    }
    memcpy(say->text + say->len, bytes, len);
    say->len += len;
    say->text[say->len] = '\0';
}

static inline void hr_say_text(struct hr_say *say, const char *text)
{
    hr_say_bytes(say, text, strlen(text));
}

static inline void hr_say_number(struct hr_say *say, uint64_t number)
{
    char digits[20]; /* 2^64 - 1 */
    size_t at = sizeof(digits);
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    hr_say_bytes(say, digits + at, sizeof(digits) - at);
}

/* Outside text: between backticks, control bytes as \xNN so that it cannot forge a line, long text cut. */
static inline void hr_say_quoted(struct hr_say *say, const char *bytes, size_t len)
{
    static const char hex[] = "0123456789abcdef";
    size_t shown = len > HR_SAY_QUOTED_MAX ? HR_SAY_QUOTED_MAX : len;
    hr_say_bytes(say, "`", 1);
    for (size_t i = 0; i < shown; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        if (byte < 0x20 || byte == 0x7f) {
            char escaped[4] = {'\\', 'x', hex[byte >> 4], hex[byte & 15]};
            hr_say_bytes(say, escaped, sizeof(escaped));
        } else {
            hr_say_bytes(say, bytes + i, 1);
        }
    }
    hr_say_text(say, shown < len ? "...`" : "`");
}

#endif
