/* How the text of a setting becomes a value, by its row of settings.def. Inline, because both the preloaded
 * object (options of maps) and the programs (settings) need it: never allocates, no stdio, no locale. Pure;
 * any thread. */
#ifndef HR_CONFIG_VALUE_H
#define HR_CONFIG_VALUE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "config/say.h"

enum hr_value_type {
    HR_VALUE_BOOL,
    HR_VALUE_BYTES,
    HR_VALUE_SPACE,
    HR_VALUE_COUNT,
    HR_VALUE_SECONDS,
    HR_VALUE_ENUM,
    HR_VALUE_CHOICE,
    HR_VALUE_TEXT,
    HR_VALUE_URL,
    HR_VALUE_PATH,
};

enum hr_value_scope { HR_VALUE_GLOBAL, HR_VALUE_MAP };

#define HR_VALUE_TEXT_MAX 4095   /* bytes: PATH_MAX without its terminator */
#define HR_VALUE_CHOICE_PATH 255 /* number of a CHOICE that is a path: behind all words */

struct hr_value_rule {
    const char *name;
    const char *words;
    uint64_t min, max; /* max 0: none */
    uint8_t type;      /* enum hr_value_type */
    uint8_t scope;     /* enum hr_value_scope */
};

struct hr_value {
    int64_t
        number; /* BOOL 0|1; BYTES, SPACE bytes; COUNT 0 for auto; SECONDS; ENUM, CHOICE the word's place */
    unsigned percent; /* SPACE: 1..100 when it was given so, else 0 */
};

static inline bool hr_value_is(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && memcmp(text, word, len) == 0;
}

/* Finds text among "a|b|!c": its place among the words without '!', -EOPNOTSUPP for one with it, -ENOENT. */
static inline int hr_value_word(const char *words, const char *text, size_t len)
{
    int place = 0;
    while (*words) {
        const char *end = strchr(words, '|');
        size_t word_len = end ? (size_t)(end - words) : strlen(words);
        bool refused = *words == '!';
        const char *word = words + refused;
        if (word_len - refused == len && memcmp(word, text, len) == 0) {
            return refused ? -EOPNOTSUPP : place;
        }
        place += !refused;
        words += word_len + (end != NULL);
    }
    return -ENOENT;
}

/* Decimal digits at the start of text: how many; 0 when none or when the number does not fit in an int64_t.
 */
static inline size_t hr_value_digits(const char *text, size_t len, uint64_t *ret_number)
{
    uint64_t number = 0;
    size_t i = 0;
    for (; i < len && text[i] >= '0' && text[i] <= '9'; i++) {
        unsigned digit = (unsigned)(text[i] - '0');
        if (number > ((uint64_t)INT64_MAX - digit) / 10) {
            return 0;
        }
        number = number * 10 + digit;
    }
    if (i > 0) {
        *ret_number = number;
    }
    return i;
}

/* "64M", "64MiB", "64m", "67108864" -> bytes; 0 or -EINVAL. */
static inline int hr_value_size(const char *text, size_t len, uint64_t *ret_bytes)
{
    uint64_t number = 0;
    size_t digits = hr_value_digits(text, len, &number);
    if (digits == 0) {
        return -EINVAL;
    }
    unsigned shift = 0;
    if (digits < len) {
        switch (text[digits] | 0x20) {
        case 'k':
            shift = 10;
            break;
        case 'm':
            shift = 20;
            break;
        case 'g':
            shift = 30;
            break;
        case 't':
            shift = 40;
            break;
        default:
            return -EINVAL;
        }
        size_t unit_len = len - digits - 1;
        if (unit_len != 0 && !hr_value_is(text + digits + 1, unit_len, "iB")) {
            return -EINVAL;
        }
    }
    if (number > (uint64_t)INT64_MAX >> shift) {
        return -EINVAL;
    }
    *ret_bytes = number << shift;
    return 0;
}

static inline int hr_value_in_bounds(const struct hr_value_rule *rule, uint64_t number, struct hr_value *ret)
{
    if (number < rule->min || (rule->max > 0 && number > rule->max)) {
        return -ERANGE;
    }
    *ret = (struct hr_value){.number = (int64_t)number};
    return 0;
}

static inline int hr_value_parse_number(const struct hr_value_rule *rule, const char *text, size_t len,
                                        struct hr_value *ret)
{
    uint64_t number = 0;
    if (hr_value_word(rule->words, text, len) >= 0) {
        int64_t meaning = hr_value_is(text, len, "forever") ? INT64_MAX
                          : hr_value_is(text, len, "start") ? -1
                                                            : 0;
        *ret = (struct hr_value){.number = meaning};
        return 0;
    }
    if (len == 0 || hr_value_digits(text, len, &number) != len) {
        return -EINVAL;
    }
    return hr_value_in_bounds(rule, number, ret);
}

static inline int hr_value_parse_size(const struct hr_value_rule *rule, const char *text, size_t len,
                                      struct hr_value *ret)
{
    uint64_t number = 0;
    if (rule->type == HR_VALUE_SPACE && len > 1 && text[len - 1] == '%') {
        if (hr_value_digits(text, len - 1, &number) != len - 1) {
            return -EINVAL;
        }
        if (number < 1 || number > 100) {
            return -ERANGE;
        }
        *ret = (struct hr_value){.percent = (unsigned)number};
        return 0;
    }
    int error = hr_value_size(text, len, &number);
    return error < 0 ? error : hr_value_in_bounds(rule, number, ret);
}

static inline int hr_value_parse_bool(const char *text, size_t len, struct hr_value *ret)
{
    static const char no[] = "off|no|false|0", yes[] = "on|yes|true|1";
    bool is_yes = hr_value_word(yes, text, len) >= 0;
    if (!is_yes && hr_value_word(no, text, len) < 0) {
        return -EINVAL;
    }
    *ret = (struct hr_value){.number = is_yes};
    return 0;
}

/* A URL goes into requests and messages: no blanks or control bytes that could split a header, no
 * user:password@. */
static inline int hr_value_parse_url(const char *text, size_t len, struct hr_value *ret)
{
    size_t scheme_len = 0;
    if (len > 7 && memcmp(text, "http://", 7) == 0) {
        scheme_len = 7;
    } else if (len > 8 && memcmp(text, "https://", 8) == 0) {
        scheme_len = 8;
    }
    if ((len > 0 && scheme_len == 0) || (len > 0 && text[scheme_len] == '/')) {
        return -EINVAL;
    }
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] <= 0x20 || text[i] == 0x7f || strchr("@?#\"<>\\^`{|}", text[i])) {
            return -EINVAL;
        }
    }
    *ret = (struct hr_value){0};
    return 0;
}

/* 0; -EINVAL wrong form, -ERANGE out of bounds, -EOPNOTSUPP known but not in this version. */
static inline int hr_value_parse(const struct hr_value_rule *rule, const char *text, size_t len,
                                 struct hr_value *ret)
{
    int place;
    if (len > HR_VALUE_TEXT_MAX || memchr(text, '\0', len)) {
        return -EINVAL;
    }
    switch ((enum hr_value_type)rule->type) {
    case HR_VALUE_BOOL:
        return hr_value_parse_bool(text, len, ret);
    case HR_VALUE_BYTES:
    case HR_VALUE_SPACE:
        return hr_value_parse_size(rule, text, len, ret);
    case HR_VALUE_COUNT:
    case HR_VALUE_SECONDS:
        return hr_value_parse_number(rule, text, len, ret);
    case HR_VALUE_ENUM:
    case HR_VALUE_CHOICE:
        if (rule->type == HR_VALUE_CHOICE && len > 1 && text[0] == '/') {
            *ret = (struct hr_value){.number = HR_VALUE_CHOICE_PATH};
            return 0;
        }
        place = hr_value_word(rule->words, text, len);
        if (place < 0) {
            return place == -EOPNOTSUPP ? place : -EINVAL;
        }
        *ret = (struct hr_value){.number = place};
        return 0;
    case HR_VALUE_URL:
        return hr_value_parse_url(text, len, ret);
    case HR_VALUE_PATH:
        if (len > 0 && text[0] != '/') {
            return -EINVAL;
        }
        break;
    case HR_VALUE_TEXT:
        break;
    }
    *ret = (struct hr_value){0};
    return 0;
}

static inline void hr_value_say_size(struct hr_say *say, uint64_t bytes)
{
    static const char units[] = "\0KMGT";
    unsigned unit = 0;
    while (unit < 4 && bytes > 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    hr_say_number(say, bytes);
    hr_say_bytes(say, units + unit, unit > 0);
}

/* "ro|!rw" -> "ro"; "a|b|c" -> "a, b or c". */
static inline void hr_value_say_words(struct hr_say *say, const char *words)
{
    const char *held = NULL;
    size_t held_len = 0;
    bool any = false;
    while (*words) {
        const char *end = strchr(words, '|');
        size_t len = end ? (size_t)(end - words) : strlen(words);
        if (*words != '!') {
            if (held) {
                hr_say_text(say, any ? ", " : "");
                hr_say_bytes(say, held, held_len);
                any = true;
            }
            held = words;
            held_len = len;
        }
        words += len + (end != NULL);
    }
    if (held) {
        hr_say_text(say, any ? " or " : "");
        hr_say_bytes(say, held, held_len);
    }
}

static inline void hr_value_say_range(const struct hr_value_rule *rule, struct hr_say *say)
{
    bool is_size = rule->type == HR_VALUE_BYTES || rule->type == HR_VALUE_SPACE;
    void (*say_one)(struct hr_say *, uint64_t) = is_size ? hr_value_say_size : hr_say_number;
    hr_say_text(say, is_size ? "a size (K, M, G, T)" : "a number");
    hr_say_text(say, rule->type == HR_VALUE_SECONDS ? " of seconds" : "");
    hr_say_text(say, rule->max > 0 ? " from " : " of at least ");
    say_one(say, rule->min);
    if (rule->max > 0) {
        hr_say_text(say, " to ");
        say_one(say, rule->max);
    }
    if (rule->type == HR_VALUE_SPACE) {
        hr_say_text(say, ", or 1% to 100% of the file system");
    }
    if (*rule->words) {
        hr_say_text(say, ", or ");
        hr_value_say_words(say, rule->words);
    }
}

/* What the row allows: "a number from 1 to 16, or auto". */
static inline void hr_value_say_allowed(const struct hr_value_rule *rule, struct hr_say *say)
{
    switch ((enum hr_value_type)rule->type) {
    case HR_VALUE_BOOL:
        hr_say_text(say, "on or off (yes or no)");
        break;
    case HR_VALUE_BYTES:
    case HR_VALUE_SPACE:
    case HR_VALUE_COUNT:
    case HR_VALUE_SECONDS:
        hr_value_say_range(rule, say);
        break;
    case HR_VALUE_ENUM:
        hr_value_say_words(say, rule->words);
        break;
    case HR_VALUE_CHOICE:
        hr_value_say_words(say, rule->words);
        hr_say_text(say, ", or an absolute path");
        break;
    case HR_VALUE_TEXT:
        hr_say_text(say, "text of at most ");
        hr_say_number(say, HR_VALUE_TEXT_MAX);
        hr_say_text(say, " bytes");
        break;
    case HR_VALUE_URL:
        hr_say_text(say, "http://HOST[:PORT] or https://HOST[:PORT], without user, query or blanks");
        break;
    case HR_VALUE_PATH:
        hr_say_text(say, "an absolute path");
        break;
    }
}

/* "name = `value`: not ...; allowed: ..." for an error of hr_value_parse. A URL that might hold a password is
 * not shown. */
static inline void hr_value_say_wrong(const struct hr_value_rule *rule, const char *text, size_t len,
                                      int error, struct hr_say *say)
{
    hr_say_text(say, rule->name);
    if (rule->type == HR_VALUE_URL && memchr(text, '@', len)) {
        hr_say_text(say, " holds an '@' (user names and passwords do not belong there)");
    } else {
        hr_say_text(say, " = ");
        hr_say_quoted(say, text, len);
        hr_say_text(say, error == -EOPNOTSUPP ? " is not supported yet in this version"
                         : error == -ERANGE   ? " is out of bounds"
                                              : " is not understood");
    }
    hr_say_text(say, "; allowed: ");
    hr_value_say_allowed(rule, say);
}

#endif
