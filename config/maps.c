#include "config/maps.h"

#include <errno.h>
#include <string.h>

#include "config/piece.h"
#include "config/value.h"

/* Help and default stay out of the preloaded object. */
static const struct hr_value_rule rules[] = {
#define HR_SETTING(id, row_name, row_type, row_min, row_max, row_default, row_words, row_scope, row_help)    \
    {.name = row_name,                                                                                       \
     .words = row_words,                                                                                     \
     .min = row_min,                                                                                         \
     .max = row_max,                                                                                         \
     .type = HR_VALUE_##row_type,                                                                            \
     .scope = HR_VALUE_##row_scope},
#include "config/settings.def"
#undef HR_SETTING
};

#define RULE_COUNT (sizeof(rules) / sizeof(rules[0]))

static const struct hr_value_rule *rule_find(const char *name, size_t len)
{
    for (size_t i = 0; i < RULE_COUNT; i++) {
        if (hr_value_is(name, len, rules[i].name)) {
            return &rules[i];
        }
    }
    return NULL;
}

/* In place: no empty and no "." parts, no trailing '/'. ".." is refused: what it means depends on symlinks.
 */
static int make_canonical(char *path, size_t *len, struct hr_say *say)
{
    size_t out = 0;
    for (size_t i = 0; i < *len;) {
        size_t end = i;
        while (end < *len && path[end] != '/') {
            end++;
        }
        size_t part_len = end - i;
        if (part_len == 2 && path[i] == '.' && path[i + 1] == '.') {
            hr_say_text(say, "the path holds '..'; write the path without it");
            return -EINVAL;
        }
        if (part_len > 0 && !(part_len == 1 && path[i] == '.')) {
            path[out++] = '/';
            memmove(path + out, path + i, part_len);
            out += part_len;
        }
        i = end + 1;
    }
    if (out == 0) {
        hr_say_text(say, "'/' itself cannot be mapped; map a directory such as /data");
        return -EINVAL;
    }
    path[out] = '\0';
    *len = out;
    return 0;
}

static int parse_path(struct hr_piece text, struct hr_map *map, struct hr_say *say)
{
    size_t len;
    int error = hr_piece_decode(text, map->path, sizeof(map->path), &len, "the path", say);
    if (error < 0) {
        return error;
    }
    if (len == 0 || map->path[0] != '/') {
        hr_say_text(say, len == 0 ? "there is no path" : "the path is not absolute");
        hr_say_text(say, "; write /PATH=s3://bucket/prefix");
        return -EINVAL;
    }
    error = make_canonical(map->path, &len, say);
    if (error < 0) {
        return error;
    }
    map->path_len = (uint16_t)len;
    return 0;
}

static int parse_scheme(struct hr_piece *url, struct hr_say *say)
{
    struct hr_piece scheme;
    if (!hr_piece_cut(url, ':', &scheme) || url->len < 2 || url->at[0] != '/' || url->at[1] != '/') {
        hr_say_text(say, "the source is not a URL; write s3://bucket/prefix");
        return -EINVAL;
    }
    *url = (struct hr_piece){url->at + 2, url->len - 2};
    if (hr_value_word("s3", scheme.at, scheme.len) == 0) {
        return 0;
    }
    bool later = hr_value_word("gs|az|ais|file", scheme.at, scheme.len) >= 0;
    hr_say_text(say, later ? "" : "unknown scheme ");
    hr_say_quoted(say, scheme.at, scheme.len);
    hr_say_text(say, later ? ":// is not supported yet in this version" : "");
    hr_say_text(say, "; write s3://bucket/prefix (other S3 stores: ?endpoint=http://HOST:PORT)");
    return -EINVAL;
}

static bool is_letter_or_digit(char byte)
{
    char lower = (char)(byte | 0x20);
    return (byte >= '0' && byte <= '9') || (lower >= 'a' && lower <= 'z');
}

static int parse_bucket(struct hr_piece *url, struct hr_map *map, struct hr_say *say)
{
    struct hr_piece bucket;
    size_t len;
    if (!hr_piece_cut(url, '/', &bucket)) {
        bucket = *url;
        *url = (struct hr_piece){url->at + url->len, 0};
    }
    int error = hr_piece_decode(bucket, map->bucket, sizeof(map->bucket), &len, "the bucket", say);
    if (error < 0) {
        return error;
    }
    if (len == 0) {
        hr_say_text(say, "the bucket is missing; write s3://bucket/prefix");
        return -EINVAL;
    }
    for (size_t i = 0; i < len; i++) {
        bool mark = map->bucket[i] == '.' || map->bucket[i] == '-' || map->bucket[i] == '_';
        if (!is_letter_or_digit(map->bucket[i]) && (i == 0 || !mark)) {
            hr_say_text(say, "the bucket ");
            hr_say_quoted(say, map->bucket, len);
            hr_say_text(say, " is not a bucket's name (letters, digits, '.', '-', '_')");
            return -EINVAL;
        }
    }
    map->bucket_len = (uint16_t)len;
    return 0;
}

static int parse_prefix(struct hr_piece text, struct hr_map *map, struct hr_say *say)
{
    size_t len;
    /* One byte less than the room: a '/' may have to be added. */
    int error = hr_piece_decode(text, map->prefix, sizeof(map->prefix) - 1, &len, "the prefix", say);
    if (error < 0) {
        return error;
    }
    if (len > 0 && map->prefix[len - 1] != '/') {
        map->prefix[len++] = '/';
        map->prefix[len] = '\0';
    }
    map->prefix_len = (uint16_t)len;
    return 0;
}

/* HR_MAP_URL_MAX is the longest that can come out. */
static void make_url(struct hr_map *map)
{
    static const char hex[] = "0123456789ABCDEF";
    char *out = map->url;
    memcpy(out, "s3://", 5);
    out += 5;
    memcpy(out, map->bucket, map->bucket_len);
    out += map->bucket_len;
    *out++ = '/';
    for (size_t i = 0; i < map->prefix_len; i++) {
        unsigned char byte = (unsigned char)map->prefix[i];
        if (is_letter_or_digit((char)byte) || strchr("-._~/", byte)) {
            *out++ = (char)byte;
        } else {
            *out++ = '%';
            *out++ = hex[byte >> 4];
            *out++ = hex[byte & 15];
        }
    }
    *out = '\0';
    map->url_len = (uint16_t)(out - map->url);
}

static int option_unknown(const struct hr_value_rule *global, struct hr_piece name, struct hr_say *say)
{
    if (global) {
        hr_say_quoted(say, name.at, name.len);
        hr_say_text(say, " is a setting of the whole daemon, not of a map");
        return -EINVAL;
    }
    hr_say_text(say, "unknown option ");
    hr_say_quoted(say, name.at, name.len);
    hr_say_text(say, "; options:");
    for (size_t i = 0; i < RULE_COUNT; i++) {
        if (rules[i].scope == HR_VALUE_MAP) {
            hr_say_text(say, " ");
            hr_say_text(say, rules[i].name);
        }
    }
    return -EINVAL;
}

static int parse_option(struct hr_piece text, struct hr_map *map, struct hr_say *say)
{
    struct hr_piece name;
    if (!hr_piece_cut(&text, '=', &name)) {
        hr_say_text(say, "option ");
        hr_say_quoted(say, text.at, text.len);
        hr_say_text(say, " has no value; write name=value");
        return -EINVAL;
    }
    const struct hr_value_rule *rule = rule_find(name.at, name.len);
    if (!rule || rule->scope != HR_VALUE_MAP) {
        return option_unknown(rule, name, say);
    }
    if (hr_map_option(map, rule->name).ptr) {
        hr_say_text(say, "option ");
        hr_say_text(say, rule->name);
        hr_say_text(say, " is given twice; keep one");
        return -EINVAL;
    }
    size_t room = sizeof(map->option_text) - map->option_text_len;
    if (map->option_count >= HR_MAP_OPTIONS_MAX || name.len + 2 > room) {
        hr_say_text(say, "too many options, or too long ones");
        return -EINVAL;
    }
    char *name_at = map->option_text + map->option_text_len;
    char *value_at = name_at + name.len + 1;
    size_t value_len;
    memcpy(name_at, name.at, name.len);
    name_at[name.len] = '\0';
    int error = hr_piece_decode(text, value_at, room - name.len - 1, &value_len, rule->name, say);
    if (error < 0) {
        return error;
    }
    struct hr_value value;
    error = hr_value_parse(rule, value_at, value_len, &value);
    if (error < 0) {
        hr_value_say_wrong(rule, value_at, value_len, error, say);
        return -EINVAL;
    }
    map->options[map->option_count++] = (struct hr_map_option){
        .name_at = map->option_text_len,
        .name_len = (uint16_t)name.len,
        .value_at = (uint16_t)(value_at - map->option_text),
        .value_len = (uint16_t)value_len,
    };
    map->option_text_len = (uint16_t)(value_at - map->option_text + value_len + 1);
    return 0;
}

static int parse_options(struct hr_piece rest, struct hr_map *map, struct hr_say *say)
{
    map->option_count = 0;
    map->option_text_len = 0;
    while (rest.len > 0) {
        struct hr_piece one;
        if (!hr_piece_cut(&rest, '&', &one)) {
            one = rest;
            rest.len = 0;
        }
        if (one.len > 0) {
            int error = parse_option(one, map, say);
            if (error < 0) {
                return error;
            }
        }
    }
    return 0;
}

/* Fills ret->map[ret->count] and counts it, when it is good. */
static int parse_map(struct hr_piece text, struct hr_maps *ret, struct hr_say *say)
{
    if (ret->count >= HR_MAPS_MAX) {
        hr_say_text(say, "too many maps; at most ");
        hr_say_number(say, HR_MAPS_MAX);
        return -E2BIG;
    }
    struct hr_map *map = &ret->map[ret->count];
    struct hr_piece path, url, options = {text.at, 0};
    if (!hr_piece_cut(&text, '=', &path)) {
        hr_say_text(say, "there is no '='; write /PATH=s3://bucket/prefix");
        return -EINVAL;
    }
    if (hr_piece_cut(&text, '?', &url)) {
        options = text;
    } else {
        url = text;
    }
    int error = parse_path(path, map, say);
    if (error == 0) {
        error = parse_scheme(&url, say);
    }
    if (error == 0) {
        error = parse_bucket(&url, map, say);
    }
    if (error == 0) {
        error = parse_prefix(url, map, say);
    }
    if (error == 0) {
        error = parse_options(options, map, say);
    }
    if (error < 0) {
        return error;
    }
    for (unsigned i = 0; i < ret->count; i++) {
        if (ret->map[i].path_len == map->path_len &&
            memcmp(ret->map[i].path, map->path, map->path_len) == 0) {
            hr_say_text(say, "another map has the same path; keep one of them");
            return -EINVAL;
        }
    }
    make_url(map);
    ret->count++;
    return 0;
}

static void say_start(struct hr_say *say, unsigned ordinal, struct hr_piece text)
{
    struct hr_piece shown;
    hr_say_text(say, "map ");
    hr_say_number(say, ordinal);
    hr_say_text(say, " (");
    /* Options may hold what is nobody's business. */
    if (!hr_piece_cut(&text, '?', &shown)) {
        shown = text;
    }
    hr_say_quoted(say, shown.at, shown.len);
    hr_say_text(say, "): ");
}

static void sort_by_length(struct hr_maps *maps)
{
    for (unsigned i = 0; i < maps->count; i++) {
        const struct hr_map *map = &maps->map[i];
        unsigned at = i;
        for (; at > 0; at--) {
            const struct hr_map *above = &maps->map[maps->by_length[at - 1]];
            if (above->path_len > map->path_len ||
                (above->path_len == map->path_len && memcmp(above->path, map->path, map->path_len) < 0)) {
                break;
            }
            maps->by_length[at] = maps->by_length[at - 1];
        }
        maps->by_length[at] = (uint8_t)i;
    }
}

/* The next map of the text, trimmed; false at the end. Empty ones (a ';' at the end of a line) do not count.
 */
static bool next_map(const char **text, struct hr_piece *ret)
{
    while (**text) {
        size_t len = strcspn(*text, ";\n");
        struct hr_piece one = hr_piece_trimmed((struct hr_piece){*text, len});
        *text += len + ((*text)[len] != '\0');
        if (one.len > 0) {
            *ret = one;
            return true;
        }
    }
    return false;
}

/* How many were dropped; stops at the first when strict. *ret_first: the first one's errno. */
static unsigned parse(const char *text, bool strict, struct hr_maps *ret, struct hr_maps_error *ret_error,
                      int *ret_first)
{
    const char *rest = text ? text : "";
    unsigned ordinal = 0, dropped = 0;
    struct hr_piece one;
    ret->count = 0;
    while (next_map(&rest, &one)) {
        struct hr_maps_error error;
        struct hr_say say;
        hr_say_init(&say, error.message, sizeof(error.message));
        say_start(&say, ++ordinal, one);
        int result = parse_map(one, ret, &say);
        if (result == 0) {
            continue;
        }
        if (dropped++ == 0) {
            *ret_first = result;
            if (ret_error) {
                error.map = ordinal;
                error.offset = (uint32_t)(one.at - text);
                error.len = (uint32_t)one.len;
                *ret_error = error;
            }
        }
        if (strict) {
            ret->count = 0;
            return dropped;
        }
    }
    sort_by_length(ret);
    return dropped;
}

int hr_maps_parse(const char *text, struct hr_maps *ret, struct hr_maps_error *ret_error)
{
    int first = 0;
    (void)parse(text, true, ret, ret_error, &first);
    return first;
}

unsigned hr_maps_parse_lenient(const char *text, struct hr_maps *ret, struct hr_maps_error *ret_error)
{
    int first = 0;
    return parse(text, false, ret, ret_error, &first);
}

const struct hr_map *hr_maps_find(const struct hr_maps *maps, const char *path, size_t path_len)
{
    for (unsigned i = 0; i < maps->count; i++) {
        const struct hr_map *map = &maps->map[maps->by_length[i]];
        if (path_len >= map->path_len && memcmp(path, map->path, map->path_len) == 0 &&
            (path_len == map->path_len || path[map->path_len] == '/')) {
            return map;
        }
    }
    return NULL;
}

struct hr_span hr_map_option(const struct hr_map *map, const char *name)
{
    for (unsigned i = 0; i < map->option_count; i++) {
        const struct hr_map_option *option = &map->options[i];
        if (hr_value_is(map->option_text + option->name_at, option->name_len, name)) {
            return (struct hr_span){map->option_text + option->value_at, option->value_len};
        }
    }
    return (struct hr_span){NULL, 0};
}

uint64_t hr_map_hash(const struct hr_map *map)
{
    uint64_t hash = hr_fnv1a(HR_FNV_BASIS, map->path, map->path_len);
    hash = hr_fnv1a(hash, "=", 1);
    return hr_fnv1a(hash, map->url, map->url_len);
}
