#include "fetch/store/etag.h"

#include <string.h>

#define MD5_DIGITS 32

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

void hr_etag_trim(const char **text, size_t *len)
{
    const char *start = *text;
    const char *end = start + *len;

    while (start < end && is_blank(*start)) {
        start++;
    }
    while (end > start && is_blank(end[-1])) {
        end--;
    }
    if (end - start >= 2 && start[0] == 'W' && start[1] == '/') {
        start += 2;
    }
    if (end - start >= 2 && start[0] == '"' && end[-1] == '"') {
        start++;
        end--;
    }
    *text = start;
    *len = (size_t)(end - start);
}

bool hr_etag_usable(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f || text[i] == '"') {
            return false;
        }
    }
    return len > 0 && len < HR_ETAG_BYTES;
}

void hr_etag_copy(const char *header, char ret[HR_ETAG_BYTES])
{
    const char *text = header != NULL ? header : "";
    size_t len = strlen(text);

    hr_etag_trim(&text, &len);
    if (!hr_etag_usable(text, len)) {
        len = 0;
    }
    memcpy(ret, text, len);
    ret[len] = '\0';
}

bool hr_etag_equal(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static bool is_hex_digit(char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

bool hr_etag_looks_md5(const char *etag)
{
    size_t len = 0;

    while (len <= MD5_DIGITS && is_hex_digit(etag[len])) {
        len++;
    }
    return len == MD5_DIGITS && etag[len] == '\0';
}
