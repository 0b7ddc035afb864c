/* include= and exclude= with any text: nothing outside a pattern is read, and one pattern without '\' admits
 * what a slow, obvious matcher admits. Input: include NUL exclude NUL path. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/list/filter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SLOW_MAX 48 /* bytes of a pattern and of a path that the slow matcher is asked about */

/* Which bytes the element at *p stands for; moves *p behind it. */
static bool takes(const char **p, unsigned char byte)
{
    const char *at = *p;
    if (*at != '[') {
        (*p)++;
        return *at == '?' ? byte != '/' : (unsigned char)*at == byte;
    }
    bool negated = at[1] == '!' || at[1] == '^', found = false;
    const char *first = at += 1 + negated;
    while (at == first || *at != ']') {
        bool range = at[1] == '-' && at[2] != ']';
        found |= byte >= (unsigned char)at[0] && byte <= (unsigned char)at[range ? 2 : 0];
        at += range ? 3 : 1;
    }
    *p = at + 1;
    return found != negated && byte != '/';
}

static char seen[SLOW_MAX + 1][SLOW_MAX + 1]; /* 1: tried, to no end */

static bool slowly(const char *pattern, const char *p, const char *text, size_t at, size_t len)
{
    if (seen[p - pattern][at]) {
        return false;
    }
    seen[p - pattern][at] = 1;
    if (*p == '\0') {
        return at == len;
    }
    if (p[0] == '*' && p[1] == '*') {
        bool begins = at == 0 || text[at - 1] == '/';
        return (begins && p[2] == '/' && slowly(pattern, p + 3, text, at, len)) ||
               slowly(pattern, p + 2, text, at, len) || (at < len && slowly(pattern, p, text, at + 1, len));
    }
    if (*p == '*') {
        return slowly(pattern, p + 1, text, at, len) ||
               (at < len && text[at] != '/' && slowly(pattern, p, text, at + 1, len));
    }
    return at < len && takes(&p, (unsigned char)text[at]) && slowly(pattern, p, text, at + 1, len);
}

static bool slow_match(const char *pattern, const char *text, size_t len)
{
    memset(seen, 0, sizeof seen);
    return slowly(pattern, pattern, text, 0, len);
}

/* The path or a directory above it, whole or its last part. */
static bool slow_admits(const char *pattern, const char *path, size_t len)
{
    bool whole = strchr(pattern, '/') != NULL;
    size_t part = 0;
    for (size_t at = 0; at <= len; at++) {
        if (at == len || path[at] == '/') {
            if (at > part &&
                (whole ? slow_match(pattern, path, at) : slow_match(pattern, path + part, at - part))) {
                return true;
            }
            part = at + 1;
        }
    }
    return false;
}

static void check(const struct hr_filter *filter, const char *include, const char *exclude, const char *path,
                  size_t len)
{
    bool admits = hr_filter_admits(filter, path, len);
    (void)hr_filter_admits_below(filter, path, len);
    size_t pattern_len = strlen(include);
    if (exclude[0] || !pattern_len || pattern_len > SLOW_MAX || len > SLOW_MAX || strpbrk(include, "\\,") ||
        include[0] == '/' || include[pattern_len - 1] == '/') {
        return;
    }
    if (len > 0 && path[len - 1] == '/') {
        len--; /* a directory's marker */
    }
    if (admits != slow_admits(include, path, len)) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 3), message[256];
    if (!text) {
        return 0;
    }
    memcpy(text, data, size);
    memset(text + size, 0, 3);
    const char *include = text, *exclude = include + strlen(include) + 1;
    const char *rest = exclude <= text + size ? exclude + strlen(exclude) + 1 : exclude;
    size_t len = rest < text + size ? (size_t)(text + size - rest) : 0;
    char *path = malloc(len ? len : 1); /* of exactly its size: reading past it is seen */
    struct hr_filter *filter = NULL;
    int error = path ? hr_filter_new(include, exclude, &filter, message) : -ENOMEM;
    if (error != 0 && error != -EINVAL && error != -ENOMEM) {
        abort();
    }
    if (error == 0) {
        memcpy(path, rest, len);
        check(filter, include, exclude, path, len);
    }
    hr_filter_free(filter);
    free(path);
    free(text);
    return 0;
}
