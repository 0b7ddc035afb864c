#include "fetch/list/filter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A pattern's '**' at most: each may multiply the work by the length of a path. */
#define DEEP_MAX 4

struct pattern {
    char *text;
    size_t len;
    bool whole; /* compared with the path from the root, not with a part */
};

struct patterns {
    struct pattern *items;
    size_t count;
};

struct hr_filter {
    struct patterns include, exclude;
};

/* ---- one pattern against one text ---- */

/* The byte set at p ("[a-z]"), whose end was checked before. Moves *p behind it. */
static bool in_set(const char **p, unsigned char byte)
{
    const char *at = *p + 1;
    bool negated = *at == '!' || *at == '^', found = false;

    at += negated;
    for (bool first = true; first || *at != ']'; first = false) {
        unsigned char low = (unsigned char)(*at == '\\' ? *++at : *at), high = low;
        at++;
        if (at[0] == '-' && at[1] != ']') {
            at++;
            high = (unsigned char)(*at == '\\' ? *++at : *at);
            at++;
        }
        found |= byte >= low && byte <= high;
    }
    *p = at + 1;
    return found != negated && byte != '/';
}

/* The pattern's next element takes this byte. Moves *p behind the element. */
static bool take_one(const char **p, unsigned char byte)
{
    if (**p == '?') {
        ++*p;
        return byte != '/';
    }
    if (**p == '[') {
        return in_set(p, byte);
    }
    if (**p == '\\') {
        ++*p;
    }
    return (unsigned char)*(*p)++ == byte;
}

/* Goes back to the latest '*' while its part lasts, then to the latest '**': an earlier one of a kind never
 * helps. */
static bool match(const char *pattern, const char *end, const char *text, size_t len)
{
    const char *p = pattern, *star = NULL, *deep = NULL;
    size_t at = 0, star_at = 0, deep_at = 0;

    for (;;) {
        if (p + 1 < end && p[0] == '*' && p[1] == '*') {
            p += 2;
            bool part_begins = at == 0 || text[at - 1] == '/';
            if (part_begins && p < end && *p == '/' && match(p + 1, end, text + at, len - at)) {
                return true; /* no directory is one of "any" */
            }
            deep = p;
            deep_at = at;
            star = NULL;
            continue;
        }
        if (p < end && *p == '*') {
            star = ++p;
            star_at = at;
            continue;
        }
        if (p == end && at == len) {
            return true;
        }
        if (p < end && at < len && take_one(&p, (unsigned char)text[at])) {
            at++;
        } else if (star && star_at < len && text[star_at] != '/') {
            p = star;
            at = ++star_at;
        } else if (deep && deep_at < len) {
            p = deep;
            at = ++deep_at;
            star = NULL;
        } else {
            return false;
        }
    }
}

static bool match_one(const struct pattern *pattern, const char *path, size_t len, size_t part)
{
    return pattern->whole ? match(pattern->text, pattern->text + pattern->len, path, len)
                          : match(pattern->text, pattern->text + pattern->len, path + part, len - part);
}

/* The path, or a directory above it. */
static bool matches(const struct patterns *patterns, const char *path, size_t len)
{
    size_t part = 0;

    for (size_t at = 0; at <= len; at++) {
        if (at < len && path[at] != '/') {
            continue;
        }
        for (size_t i = 0; i < patterns->count && at > part; i++) {
            if (match_one(&patterns->items[i], path, at, part)) {
                return true;
            }
        }
        part = at + 1;
    }
    return false;
}

bool hr_filter_admits(const struct hr_filter *filter, const char *path, size_t len)
{
    if (!filter) {
        return true;
    }
    if (len > 0 && path[len - 1] == '/') {
        len--;
    }
    return !matches(&filter->exclude, path, len) &&
           (filter->include.count == 0 || matches(&filter->include, path, len));
}

bool hr_filter_admits_below(const struct hr_filter *filter, const char *dir, size_t len)
{
    return !filter || !matches(&filter->exclude, dir, len);
}

/* ---- making ---- */

/* The ']' that ends the set at `at`, or NULL. */
static const char *set_end(const char *at, const char *stop)
{
    at++;
    at += at < stop && (*at == '!' || *at == '^');
    at += at < stop && *at == '\\';
    for (at++; at < stop; at++) { /* the first byte of a set may be ']' itself */
        if (*at == '\\') {
            at++;
        } else if (*at == ']') {
            return at;
        }
    }
    return NULL;
}

static int refuse(const char *name, const char *text, const char *why, char message[256])
{
    (void)snprintf(message, 256, "%s=%.120s: %s", name, text, why);
    return -EINVAL;
}

/* At the next ',' that is not taken as it is, or at the end. */
static int pattern_end(const char *name, const char *text, const char *all, const char **ret_end,
                       char message[256])
{
    const char *end = text, *stop = text + strlen(text);
    unsigned deep = 0;

    for (; end < stop && *end != ','; end++) {
        if (*end == '\\') {
            if (++end == stop) {
                return refuse(name, all, "nothing follows the '\\' at its end", message);
            }
        } else if (*end == '[') {
            end = set_end(end, stop);
            if (!end) {
                return refuse(name, all, "a '[' without its ']'", message);
            }
        } else if (end[0] == '*' && end[1] == '*') {
            end++;
            if (++deep > DEEP_MAX) {
                return refuse(name, all, "more than four '**' in one pattern", message);
            }
        }
    }
    *ret_end = end;
    return 0;
}

static int add(struct patterns *patterns, const char *text, size_t len)
{
    struct pattern *grown = reallocarray(patterns->items, patterns->count + 1, sizeof *grown);

    if (!grown) {
        return -ENOMEM;
    }
    patterns->items = grown;
    struct pattern pattern = {.whole = memchr(text, '/', len) != NULL};
    if (text[0] == '/') {
        text++;
        len--;
    }
    if (len > 0 && text[len - 1] == '/') {
        len--;
    }
    pattern.text = strndup(text, len);
    pattern.len = len;
    if (!pattern.text) {
        return -ENOMEM;
    }
    patterns->items[patterns->count++] = pattern;
    return 0;
}

static int read_patterns(struct patterns *patterns, const char *name, const char *text, char message[256])
{
    const char *at = text, *end;

    while (at && *at) {
        int error = pattern_end(name, at, text, &end, message);
        size_t len = error ? 0 : (size_t)(end - at);

        if (!error && (len == 0 || (len == 1 && at[0] == '/'))) {
            error = refuse(name, text, "a pattern is empty", message);
        }
        if (!error) {
            error = add(patterns, at, len);
            if (error < 0) {
                (void)snprintf(message, 256, "out of memory");
            }
        }
        if (error < 0) {
            return error;
        }
        at = *end ? end + 1 : end;
    }
    return 0;
}

static void release(struct patterns *patterns)
{
    for (size_t i = 0; i < patterns->count; i++) {
        free(patterns->items[i].text);
    }
    free(patterns->items);
}

void hr_filter_free(struct hr_filter *filter)
{
    if (filter) {
        release(&filter->include);
        release(&filter->exclude);
        free(filter);
    }
}

int hr_filter_new(const char *include, const char *exclude, struct hr_filter **ret, char ret_message[256])
{
    if ((!include || !include[0]) && (!exclude || !exclude[0])) {
        *ret = NULL;
        return 0;
    }
    struct hr_filter *filter = calloc(1, sizeof *filter);
    if (!filter) {
        (void)snprintf(ret_message, 256, "out of memory");
        return -ENOMEM;
    }
    int error = read_patterns(&filter->include, "include", include, ret_message);
    if (error == 0) {
        error = read_patterns(&filter->exclude, "exclude", exclude, ret_message);
    }
    if (error < 0) {
        hr_filter_free(filter);
        return error;
    }
    *ret = filter;
    return 0;
}
