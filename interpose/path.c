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
    uint16_t map;
    char first[2]; /* behind the slash; the second one is as the first where there is no other */
} roots[HR_MAPS_MAX];
static unsigned root_count;
static struct {
    const char *path;
    uint32_t len;
} links[HR_LINKS_MAX];
static unsigned link_count;
uint8_t hr_path_first[256];
bool hr_path_nested[HR_MAPS_MAX];

/* Does another root lie below this one? Longer ones come first. */
static bool has_deeper(unsigned root)
{
    for (unsigned i = 0; i < root; i++) {
        if (roots[i].len > roots[root].len && roots[i].path[roots[root].len] == '/' &&
            memcmp(roots[i].path, roots[root].path, roots[root].len) == 0) {
            return true;
        }
    }
    return false;
}

void hr_path_init(const struct hr_maps *maps)
{
    memset(hr_path_first, 0, sizeof(hr_path_first));
    hr_path_first['\0'] = hr_path_first['/'] = hr_path_first['.'] = 1;
    for (unsigned i = 0; i < maps->count; i++) {
        unsigned map = maps->by_length[i];
        roots[i].path = maps->map[map].path;
        roots[i].len = maps->map[map].path_len;
        roots[i].map = (uint16_t)map;
        roots[i].first[0] = roots[i].path[1];
        roots[i].first[1] = roots[i].path[roots[i].len > 2 ? 2 : 1];
        hr_path_first[(unsigned char)roots[i].path[1]] = 1;
    }
    root_count = maps->count;
    link_count = 0;
    for (unsigned i = 0; i < root_count; i++) {
        hr_path_nested[roots[i].map] = has_deeper(i);
    }
}

void hr_path_through_proc(void)
{
    /* Written once: every thread's every open reads the line. */
    if (!hr_path_first['p'] || !hr_path_first['d']) {
        __atomic_store_n(&hr_path_first['p'], 1, __ATOMIC_RELAXED);
        __atomic_store_n(&hr_path_first['d'], 1, __ATOMIC_RELAXED);
    }
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

/* path begins with a slash. Two bytes spare most calls of strncmp. */
static inline bool under(const char *path, unsigned *ret_map, uint32_t *ret_len)
{
    for (unsigned i = 0; i < root_count; i++) {
        uint32_t len = roots[i].len;
        if (path[1] == roots[i].first[0] && path[len > 2 ? 2 : 1] == roots[i].first[1] &&
            strncmp(path, roots[i].path, len) == 0 && (path[len] == '/' || path[len] == '\0')) {
            *ret_map = roots[i].map;
            *ret_len = len;
            return true;
        }
    }
    return false;
}

bool hr_path_under(const char *path, unsigned *ret_map, uint32_t *ret_len)
{
    return HR_UNLIKELY(hr_path_begins(path)) && under(path, ret_map, ret_len);
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

/* One aligned block of the text as bit masks, the first byte lowest; LANE bits stand for a byte. */
struct block {
    uint64_t end, slash, dot_or_slash;
};
#if defined(__SSE2__)
#define BLOCK_BYTES 16
#define LANE 1
static inline __attribute__((no_sanitize_address)) struct block read_block(const char *at)
{
    __m128i bytes = *(const __m128i *)at;
    const __m128i slash = _mm_set1_epi8('/');
    return (struct block){
        .end = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_setzero_si128())),
        .slash = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, slash)),
        /* '.' is '/' without its lowest bit */
        .dot_or_slash =
            (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_or_si128(bytes, _mm_set1_epi8(1)), slash)),
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
                          .dot_or_slash = zero_bytes((word | ones) ^ ('/' * ones))};
}
#endif

/* From a component's start on, where a name begins with a dot. True: odd. */
static HR_NOINLINE bool scan_slowly(const char *at, const char **ret_end)
{
    for (;; at++) {
        const char *start = at;
        while (*at && *at != '/') {
            at++;
        }
        size_t len = (size_t)(at - start);
        if ((len == 0 && *at) || (len == 1 && start[0] == '.') ||
            (len == 2 && start[0] == '.' && start[1] == '.')) {
            return true;
        }
        if (*at == '\0') {
            *ret_end = at;
            return false;
        }
    }
}

/* Reads whole aligned blocks, never past the page that holds the terminator; bytes in front of the text are
 * shifted out, those behind it come after its end. What follows a slash stops it: another one, a dot, or
 * nothing. *ret_end is set where the path is not odd. */
static inline __attribute__((no_sanitize_address)) bool scan(const char *path, const char **ret_end)
{
    unsigned skip = (unsigned)((uintptr_t)path % BLOCK_BYTES);
    const char *at = path;
    struct block block = read_block(path - skip);
    block.end >>= skip * LANE;
    block.slash >>= skip * LANE;
    block.dot_or_slash >>= skip * LANE;
    bool after_slash = path[0] != '/'; /* a first component may be a dot */
    uint64_t stops;
    for (;;) {
        uint64_t carry = (uint64_t)after_slash << (LANE - 1);
        stops = block.end | (block.dot_or_slash & (block.slash << LANE | carry));
        if (stops) {
            break;
        }
        at += BLOCK_BYTES - skip;
        skip = 0;
        block = read_block(at);
        after_slash = at[-1] == '/';
    }
    const char *stop = at + (unsigned)__builtin_ctzll(stops) / LANE;
    if (HR_UNLIKELY(*stop)) {
        return *stop == '/' || scan_slowly(stop, ret_end);
    }
    *ret_end = stop;
    return false;
}

/* Not a part of hr_path_climbs: that is every path's. */
HR_NOINLINE bool hr_path_is_odd(const char *path)
{
    const char *end;
    return scan(path, &end);
}

enum hr_path_look hr_path_plain(const char *path, struct hr_plain *ret)
{
    const char *end;
    uint32_t root;
    if (HR_UNLIKELY(!under(path, &ret->map, &root))) {
        return scan(path, &end) ? HR_PATH_ODD : HR_PATH_ELSEWHERE;
    }
    /* The root itself is canonical. */
    const char *rest = path + root;
    if (scan(rest, &end)) {
        return HR_PATH_ODD;
    }
    bool slash = end > rest && end[-1] == '/';
    end -= slash;
    ret->len = (uint32_t)(end - path);
    ret->rel = root + (end > rest);
    ret->must_be_dir = slash;
    return end - path < HR_PLACE_MAX ? HR_PATH_OURS : HR_PATH_ODD;
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
    return block.end | (block.dot_or_slash & ~block.slash);
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
