/* The pure part of path matching: canonical form and "which map". What depends on descriptors and the working
 * directory is place.c. */
#include "interpose/path.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "interpose/inner.h"

/* What the hot path looks at: longest path first, 16 bytes a map (a struct hr_map is kilobytes). */
static struct {
    const char *path;
    uint32_t len;
    uint32_t map;
} roots[HR_MAPS_MAX];
static unsigned root_count;
static struct {
    const char *path;
    uint32_t len;
} links[HR_LINKS_MAX];
static unsigned link_count;
uint8_t hr_path_first[256];

void hr_path_init(const struct hr_maps *maps)
{
    memset(hr_path_first, 0, sizeof(hr_path_first));
    hr_path_first['\0'] = hr_path_first['/'] = hr_path_first['.'] = 1;
    for (unsigned i = 0; i < maps->count; i++) {
        unsigned map = maps->by_length[i];
        roots[i].path = maps->map[map].path;
        roots[i].len = maps->map[map].path_len;
        roots[i].map = map;
        hr_path_first[(unsigned char)roots[i].path[1]] = 1;
    }
    root_count = maps->count;
    link_count = 0;
}

bool hr_path_add_link(const char *path, size_t len)
{
    if (link_count == HR_LINKS_MAX || len < 2 || len >= HR_PLACE_MAX) {
        return false;
    }
    unsigned at = link_count++;
    for (; at > 0 && links[at - 1].len < len; at--) {
        links[at] = links[at - 1];
    }
    links[at].path = path;
    links[at].len = (uint32_t)len;
    hr_path_first[(unsigned char)path[1]] = 1;
    return true;
}

/* path is not empty. */
static inline bool may_start_root(const char *path)
{
    return path[0] == '/' && hr_path_first[(unsigned char)path[1]];
}

bool hr_path_under(const char *path, unsigned *ret_map, uint32_t *ret_len)
{
    if (HR_LIKELY(!may_start_root(path))) {
        return false;
    }
    for (unsigned i = 0; i < root_count; i++) {
        uint32_t len = roots[i].len;
        if (strncmp(path, roots[i].path, len) == 0 && (path[len] == '/' || path[len] == '\0')) {
            *ret_map = roots[i].map;
            *ret_len = len;
            return true;
        }
    }
    return false;
}

bool hr_path_linked(const char *path, uint32_t *ret_len)
{
    for (unsigned i = 0; i < link_count; i++) {
        uint32_t len = links[i].len;
        if (strncmp(path, links[i].path, len) == 0 && (path[len] == '/' || path[len] == '\0')) {
            *ret_len = len;
            return true;
        }
    }
    return false;
}

bool hr_path_above_link(const char *path, size_t len)
{
    for (unsigned i = 0; i < link_count; i++) {
        if (len < links[i].len && memcmp(path, links[i].path, len) == 0 &&
            (len == 1 || links[i].path[len] == '/')) {
            return true;
        }
    }
    return false;
}

bool hr_path_above(const char *path, size_t len)
{
    for (unsigned i = 0; i < root_count; i++) {
        if (len < roots[i].len && memcmp(path, roots[i].path, len) == 0 &&
            (len == 1 || roots[i].path[len] == '/')) {
            return true;
        }
    }
    return false;
}

/* Of the path, "/" at its end allowed. */
static bool is_above(const char *path, const char *root, uint32_t root_len)
{
    uint32_t at = 0;
    while (at < root_len && path[at] == root[at]) {
        at++;
    }
    return at > 0 && at < root_len && path[at] == '\0' && (root[at] == '/' || root[at - 1] == '/');
}

bool hr_path_above_looked(const char *path)
{
    for (unsigned i = 0; i < root_count; i++) {
        if (is_above(path, roots[i].path, roots[i].len)) {
            return true;
        }
    }
    for (unsigned i = 0; i < link_count; i++) {
        if (is_above(path, links[i].path, links[i].len)) {
            return true;
        }
    }
    return false;
}

static bool continues(const char *root, uint32_t root_len, const char *base, size_t base_len, char next)
{
    /* "/" is the one base that ends in its own separator. */
    size_t skip = base_len == 1 ? 1 : base_len + 1;
    return skip <= root_len && memcmp(base, root, base_len) == 0 && root[skip - 1] == '/' &&
           root[skip] == next;
}

bool hr_path_above_then(const char *base, size_t base_len, const char *name)
{
    for (unsigned i = 0; i < root_count; i++) {
        if (continues(roots[i].path, roots[i].len, base, base_len, name[0])) {
            return true;
        }
    }
    for (unsigned i = 0; i < link_count; i++) {
        if (continues(links[i].path, links[i].len, base, base_len, name[0])) {
            return true;
        }
    }
    return false;
}

/* True where text, which begins with a dot, is a "." or ".." component. */
static bool odd_component(const char *text)
{
    text++;
    if (*text == '.') {
        text++;
    }
    return *text == '/' || *text == '\0';
}

/* One aligned block of the text as bit masks, the first byte lowest; LANE bits stand for a byte. */
struct block {
    uint64_t end, slash, dot;
};
#if defined(__SSE2__)
#define BLOCK_BYTES 16
#define LANE 1
static inline __attribute__((no_sanitize_address)) struct block read_block(const char *at)
{
    __m128i bytes = *(const __m128i *)at;
    return (struct block){
        .end = (uint64_t)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_setzero_si128())),
        .slash = (uint64_t)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('/'))),
        .dot = (uint64_t)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('.'))),
    };
}
#else
#define BLOCK_BYTES 8
#define LANE 8
/* 0x80 in every byte of `word` that is zero, exactly. */
static inline uint64_t zero_bytes(uint64_t word)
{
    const uint64_t lows = 0x7f7f7f7f7f7f7f7full;
    return ~(((word & lows) + lows) | word | lows);
}
static inline __attribute__((no_sanitize_address)) struct block read_block(const char *at)
{
    const uint64_t ones = 0x0101010101010101ull;
    uint64_t word = *(const uint64_t __attribute__((may_alias)) *)at;
    return (struct block){.end = zero_bytes(word),
                          .slash = zero_bytes(word ^ ('/' * ones)),
                          .dot = zero_bytes(word ^ ('.' * ones))};
}
#endif

/* Reads whole aligned blocks, never past the page that holds the terminator; bytes in front of the text are
 * shifted out, those behind it come after its end. */
__attribute__((no_sanitize_address)) bool hr_path_is_odd(const char *path)
{
    unsigned skip = (unsigned)((uintptr_t)path % BLOCK_BYTES);
    const char *at = path;
    uint64_t carry = 0;
    for (;; at += BLOCK_BYTES - skip, skip = 0) {
        struct block block = read_block(at - skip);
        uint64_t slash = block.slash >> (skip * LANE);
        uint64_t stops = (block.end | block.dot) >> (skip * LANE) | (slash & (slash << LANE | carry));
        for (; stops; stops &= stops - 1) {
            const char *stop = at + (unsigned)__builtin_ctzll(stops) / LANE;
            if (*stop != '.') {
                return *stop == '/'; /* the second of two */
            }
            if ((stop == path || stop[-1] == '/') && odd_component(stop)) {
                return true;
            }
        }
        carry = slash >> (BLOCK_BYTES - 1 - skip) * LANE;
    }
}

/* Bits of the bytes of one block that end the text or are a dot. */
static inline __attribute__((no_sanitize_address)) uint64_t read_stops(const char *at)
{
#if defined(__SSE2__)
    __m128i bytes = *(const __m128i *)at;
    __m128i other = _mm_xor_si128(bytes, _mm_set1_epi8('.'));
    return (uint64_t)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(bytes, other), _mm_setzero_si128()));
#else
    struct block block = read_block(at);
    return block.end | block.dot;
#endif
}

/* As hr_path_is_odd reads, but looks for two dots only. */
__attribute__((no_sanitize_address)) bool hr_path_climbs(const char *path)
{
    unsigned skip = (unsigned)((uintptr_t)path % BLOCK_BYTES);
    const char *at = path;
    uint64_t stops = read_stops(at - skip) >> (skip * LANE);
    for (;;) {
        for (; stops; stops &= stops - 1) {
            const char *stop = at + (unsigned)__builtin_ctzll(stops) / LANE;
            if (*stop == '\0') {
                return false;
            }
            if (HR_UNLIKELY(stop[1] == '.')) {
                return hr_path_is_odd(path);
            }
        }
        at += BLOCK_BYTES - skip;
        skip = 0;
        stops = read_stops(at);
    }
}

int hr_path_join(const char *base, size_t base_len, const char *path, char *out, size_t room,
                 bool *ret_must_be_dir)
{
    /* `len` bytes of out are a canonical path without trailing slash; 0 is the root. */
    size_t len = 0;
    bool must_be_dir = false;

    if (path[0] != '/') {
        if (base_len >= room) {
            return -ENAMETOOLONG;
        }
        if (base != out) {
            memcpy(out, base, base_len);
        }
        len = base_len == 1 ? 0 : base_len;
    }
    while (*path) {
        size_t part = 0;
        while (path[part] && path[part] != '/') {
            part++;
        }
        must_be_dir = true;
        if (part == 2 && path[0] == '.' && path[1] == '.') {
            while (len > 0 && out[--len] != '/') {
            }
        } else if (part > 0 && !(part == 1 && path[0] == '.')) {
            must_be_dir = path[part] == '/';
            if (part + 1 >= room - len) {
                return -ENAMETOOLONG;
            }
            out[len] = '/';
            memcpy(out + len + 1, path, part);
            len += part + 1;
        }
        path += part;
        while (*path == '/') {
            path++;
        }
    }
    if (len == 0) {
        if (room < 2) {
            return -ENAMETOOLONG;
        }
        out[len++] = '/';
    }
    out[len] = '\0';
    *ret_must_be_dir = must_be_dir;
    return (int)len;
}
