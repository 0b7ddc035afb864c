/* HEADRACE_MAP: which paths are which objects. `PATH=URL[?option=value&...]`, maps separated by ';' or
 * newline, blanks around a map ignored, %XX for odd characters in every part (a path's '=' ';' '%', a
 * prefix's '?' '%', ...).
 *
 * Part of the preloaded object: never allocates, keeps no state, touches neither errno nor locale, calls only
 * memcmp and its like. Everything parsed lies in the caller's struct hr_maps (about 220 KiB, of which only
 * the first `count` maps are ever touched); it holds offsets and no pointers, so it may be copied or shared.
 * Any thread; a parsed struct is read-only from then on. */
#ifndef HR_CONFIG_MAPS_H
#define HR_CONFIG_MAPS_H

#include <stddef.h>
#include <stdint.h>

#define HR_MAPS_MAX 32         /* ours; tables of a fixed size, since nothing here allocates */
#define HR_MAP_PATH_MAX 1024   /* bytes of a decoded path, without its terminator */
#define HR_MAP_BUCKET_MAX 255  /* bytes; S3's oldest buckets */
#define HR_MAP_PREFIX_MAX 1024 /* bytes: S3's limit of a key */
/* Every byte of a prefix as %XX. */
#define HR_MAP_URL_MAX (5 + HR_MAP_BUCKET_MAX + 1 + 3 * HR_MAP_PREFIX_MAX)
#define HR_MAP_OPTIONS_MAX 16
#define HR_MAP_OPTION_TEXT_MAX 1024 /* bytes of a map's names and values, terminators included */
#define HR_MAPS_MESSAGE_BYTES 256

struct hr_span {
    const char *ptr; /* NULL: not there. Else '\0'-terminated: ptr[len] == '\0' */
    size_t len;
};

struct hr_map_option {
    uint16_t name_at, name_len;   /* in option_text */
    uint16_t value_at, value_len; /* decoded, checked against config/settings.def; terminated */
};

struct hr_map {
    uint16_t path_len, url_len, bucket_len, prefix_len, option_text_len;
    uint8_t option_count;
    char path[HR_MAP_PATH_MAX +
              1]; /* decoded; absolute, no trailing '/', no empty, "." or ".." part; never "/" */
    char bucket[HR_MAP_BUCKET_MAX + 1]; /* letters, digits, '.', '-', '_' */
    char prefix[HR_MAP_PREFIX_MAX + 1]; /* decoded; empty, or ends in '/' */
    char url[HR_MAP_URL_MAX + 1]; /* canonical "s3://bucket/prefix/", percent-encoded, without options: two
                                     spellings of one source have equal urls */
    struct hr_map_option options[HR_MAP_OPTIONS_MAX];
    char option_text[HR_MAP_OPTION_TEXT_MAX];
};

struct hr_maps {
    unsigned count;
    uint8_t by_length[HR_MAPS_MAX]; /* indices into map[]: longest path first (equal lengths: bytewise) */
    struct hr_map map[HR_MAPS_MAX]; /* in the order of the text; two maps never have the same path */
};

struct hr_maps_error {
    unsigned map;                        /* ordinal in the text, from 1 */
    uint32_t offset, len;                /* the map's span in the text */
    char message[HR_MAPS_MESSAGE_BYTES]; /* one line: what, where, what to do; control bytes escaped */
};

/* Strict: every map is good or nothing is returned. NULL and "" are zero maps. 0, -EINVAL (ret_error filled;
 * *ret is then scratch with count 0), -E2BIG (more than HR_MAPS_MAX maps; ret_error filled). ret_error may be
 * NULL. */
int hr_maps_parse(const char *text, struct hr_maps *ret, struct hr_maps_error *ret_error);

/* For a bare preload: keeps the good maps, drops the others. Returns how many were dropped; ret_error (when
 * not 0) tells the first. */
unsigned hr_maps_parse_lenient(const char *text, struct hr_maps *ret, struct hr_maps_error *ret_error);

/* The map with the longest path that is `path` or above it at a '/' boundary; NULL: nobody's. `path` is
 * canonical. */
const struct hr_map *hr_maps_find(const struct hr_maps *maps, const char *path, size_t path_len);

/* The option's value as this map gives it ("endpoint", "mode", ...); ptr NULL when it does not. */
struct hr_span hr_map_option(const struct hr_map *map, const char *name);

/* FNV-1a of 64 bits; goes on from `hash`, which is HR_FNV_BASIS at first. */
#define HR_FNV_BASIS UINT64_C(0xcbf29ce484222325)
static inline uint64_t hr_fnv1a(uint64_t hash, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ (uint8_t)bytes[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* FNV-1a-64 over path, '=', url: names the map's stand-in directories. Options do not count. */
uint64_t hr_map_hash(const struct hr_map *map);

#endif
