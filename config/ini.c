#include "config/ini.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

struct ini {
    hr_ini_fn fn;
    void *owner;
    char section[HR_INI_NAME_MAX + 1];
    char key[HR_INI_NAME_MAX + 1]; /* the last one that stands for itself; "" at the start of a section */
    size_t key_len;
    size_t key_indent;  /* bytes of blanks before it */
    bool key_is_parent; /* it has no value: deeper lines belong to it */
};

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r';
}

static size_t trimmed_len(const char *text, size_t len)
{
    while (len > 0 && is_blank(text[len - 1])) {
        len--;
    }
    return len;
}

static const char *skip_blanks(const char *text)
{
    while (is_blank(*text)) {
        text++;
    }
    return text;
}

static bool is_comment(char byte)
{
    return byte == '#' || byte == ';';
}

/* Cuts a comment that stands after a blank. */
static size_t without_comment(const char *text)
{
    size_t len = 0;
    for (; text[len]; len++) {
        if (is_comment(text[len]) && len > 0 && is_blank(text[len - 1])) {
            break;
        }
    }
    return trimmed_len(text, len);
}

static const char *read_section(struct ini *ini, const char *text)
{
    const char *end = strchr(text, ']');
    if (!end) {
        return "'[' without ']'";
    }
    const char *after = skip_blanks(end + 1);
    if (*after && !is_comment(*after)) {
        return "text after ']'";
    }
    const char *name = skip_blanks(text + 1);
    size_t len = name < end ? trimmed_len(name, (size_t)(end - name)) : 0;
    if (len == 0) {
        return "a section without a name";
    }
    if (len > HR_INI_NAME_MAX) {
        return "the section's name is too long";
    }
    memcpy(ini->section, name, len);
    ini->section[len] = '\0';
    ini->key_len = 0;
    ini->key_is_parent = false;
    return NULL;
}

/* `line` is terminated, and the value is terminated in place. */
static int read_pair(struct ini *ini, char *line, unsigned number, struct hr_ini_error *error)
{
    const char *text = skip_blanks(line);
    size_t indent = (size_t)(text - line);
    const char *equals = strchr(text, '=');
    bool deeper = ini->key_len > 0 && indent > ini->key_indent;
    char joined[HR_INI_NAME_MAX + 1];
    size_t start = 0;
    if (deeper && !ini->key_is_parent) {
        error->message = "indented deeper than the line above, which has a value of its own";
        return -EBADMSG;
    }
    if (!equals) {
        error->message = "no '='; write name = value";
        return -EBADMSG;
    }
    size_t len = trimmed_len(text, (size_t)(equals - text));
    if (len == 0) {
        error->message = "no name before '='";
        return -EBADMSG;
    }
    if (deeper) {
        memcpy(joined, ini->key, ini->key_len);
        joined[ini->key_len] = '.';
        start = ini->key_len + 1;
    }
    if (start + len > HR_INI_NAME_MAX) {
        error->message = "the name is too long";
        return -EBADMSG;
    }
    memcpy(joined + start, text, len);
    joined[start + len] = '\0';

    char *value = line + (equals - line) + 1;
    value[without_comment(value)] = '\0';
    const char *value_text = skip_blanks(value);
    if (!deeper) {
        memcpy(ini->key, joined, len + 1);
        ini->key_len = len;
        ini->key_indent = indent;
        ini->key_is_parent = *value_text == '\0';
    }
    return ini->fn(ini->owner, ini->section, joined, value_text, number);
}

static int read_line(struct ini *ini, char *line, unsigned number, struct hr_ini_error *error)
{
    const char *text = skip_blanks(line);
    if (*text == '\0' || is_comment(*text)) {
        return 0;
    }
    if (*text == '[') {
        error->message = read_section(ini, text);
        return error->message ? -EBADMSG : 0;
    }
    return read_pair(ini, line, number, error);
}

int hr_ini_parse(const char *text, size_t len, hr_ini_fn fn, void *owner, struct hr_ini_error *ret_error)
{
    struct ini ini = {.fn = fn, .owner = owner};
    char line[HR_INI_LINE_MAX + 1];
    unsigned number = 0;
    size_t at = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (at < len) {
        struct hr_ini_error error = {.line = ++number};
        const char *end = memchr(text + at, '\n', len - at);
        size_t line_len = end ? (size_t)(end - text) - at : len - at;
        int result = 0;
        if (line_len > HR_INI_LINE_MAX) {
            error.message = "the line is too long";
            result = -EBADMSG;
        } else if (memchr(text + at, '\0', line_len)) {
            error.message = "a zero byte; this is not a text file";
            result = -EBADMSG;
        } else {
            memcpy(line, text + at, line_len);
            line[line_len] = '\0';
            result = read_line(&ini, line, number, &error);
        }
        if (result != 0) {
            if (ret_error) {
                *ret_error = error;
            }
            return result;
        }
        at += line_len + 1;
    }
    return 0;
}
