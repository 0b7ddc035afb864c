#include "interpose/index.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "interpose/index_parts.h"
#include "interpose/tiny.h"

#define SECTION_ALIGN_BYTES 64u /* a cache line, as abi.h has it */
#define MD5_HEX_BYTES 32u

/* ---- adopting a mapping ---- */

static bool section_fits(uint64_t offset, uint64_t count, uint64_t unit_bytes, uint64_t file_bytes)
{
    return offset % SECTION_ALIGN_BYTES == 0 && offset >= sizeof(struct hr_names) && offset <= file_bytes &&
           count <= (file_bytes - offset) / unit_bytes;
}

int hr_index_adopt(struct hr_index *ret, const void *base, uint64_t bytes)
{
    const struct hr_names *names = base;

    if ((uintptr_t)base % _Alignof(struct hr_names) != 0 || bytes < sizeof(*names) ||
        names->magic != HR_MAGIC_NAMES || names->abi_version != HR_ABI_VERSION || names->file_bytes > bytes) {
        return -EBADMSG;
    }
    if (names->entry_count == 0 || names->entry_count > UINT32_MAX || names->dir_count == 0 ||
        names->dir_count > names->entry_count || names->hash_slots == 0) {
        return -EBADMSG;
    }
    if (!section_fits(names->entries_offset, names->entry_count, sizeof(struct hr_entry),
                      names->file_bytes) ||
        !section_fits(names->dirs_offset, names->dir_count, sizeof(struct hr_dir), names->file_bytes) ||
        !section_fits(names->hash_offset, names->hash_slots, sizeof(uint32_t), names->file_bytes) ||
        !section_fits(names->text_offset, names->text_bytes, 1, names->file_bytes)) {
        return -EBADMSG;
    }
    const char *start = base;
    ret->names = names;
    ret->entries = (const struct hr_entry *)(const void *)(start + names->entries_offset);
    ret->dirs = (const struct hr_dir *)(const void *)(start + names->dirs_offset);
    ret->hash = (const uint32_t *)(const void *)(start + names->hash_offset);
    ret->text = start + names->text_offset;
    return 0;
}

/* ---- names ---- */

static inline uint64_t fold_product(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Fewer than eight bytes, the first one lowest. */
static uint64_t last_bytes(const char *name, size_t len)
{
    uint64_t word = 0;
    unsigned shift = 0;
    if (len & 4) {
        uint32_t four;
        memcpy(&four, name, sizeof(four));
        word = le32toh(four);
        shift = 32;
        name += 4;
    }
    if (len & 2) {
        uint16_t two;
        memcpy(&two, name, sizeof(two));
        word |= (uint64_t)le16toh(two) << shift;
        shift += 16;
        name += 2;
    }
    /* Not one expression with ?: gcc 13 loads the byte there also when there is none. */
    if (len & 1) {
        word |= (uint64_t)(unsigned char)*name << shift;
    }
    return word;
}

/* rest: what last_bytes says of the bytes behind the last eight. */
static inline uint64_t hash_of(uint64_t seed, const char *name, size_t name_len, uint64_t rest)
{
    /* Odd constants with mixed bits: 2^64 / golden ratio, and splitmix64's first multiplier. */
    const uint64_t step = 0x9e3779b97f4a7c15ull;
    uint64_t hash = seed ^ (name_len * 0xbf58476d1ce4e5b9ull);
    const char *end = name + name_len / sizeof(hash) * sizeof(hash);
    uint64_t word;

    for (; name < end; name += sizeof(word)) {
        memcpy(&word, name, sizeof(word));
        hash = fold_product(hash ^ word, step) + word;
    }
    return hr_mix64(fold_product(hash ^ rest, step) + rest);
}

uint64_t hr_index_hash_seeded(uint64_t seed, const char *name, size_t name_len)
{
    size_t left = name_len % sizeof(uint64_t);
    return hash_of(seed, name, name_len, last_bytes(name + name_len - left, left));
}

static inline uint64_t seed_of(uint32_t dir)
{
    return hr_mix64((uint64_t)dir + 1);
}

uint64_t hr_index_hash(uint32_t dir, const char *name, size_t name_len)
{
    return hr_index_hash_seeded(seed_of(dir), name, name_len);
}

/* ---- directories ---- */

/* The children of entry `number`; NULL: it has none. They have larger numbers, so no walk down meets a
 * directory twice, and no walk up either. */
static inline const struct hr_dir *dir_of(const struct hr_index *index, uint32_t number)
{
    uint64_t entries = index->names->entry_count; /* at most UINT32_MAX */
    const struct hr_entry *entry = &index->entries[number];
    if (number >= entries || entry->kind != HR_KIND_DIR || entry->size >= index->names->dir_count) {
        return NULL;
    }
    const struct hr_dir *dir = &index->dirs[entry->size];
    return dir->first > number && (uint64_t)dir->first + dir->count <= entries ? dir : NULL;
}

const struct hr_dir *hr_index_dir(const struct hr_index *index, uint32_t entry)
{
    return dir_of(index, entry);
}

uint32_t hr_index_parent(const struct hr_index *index, uint32_t entry)
{
    uint32_t low = 0; /* begins at or before the entry, or is the root */
    uint32_t high = (uint32_t)index->names->dir_count;

    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (index->dirs[middle].first <= entry) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Entry number of the directory that holds an entry: smaller than the entry's own. */
static uint32_t above(const struct hr_index *index, uint32_t entry)
{
    uint32_t holder = index->dirs[hr_index_parent(index, entry)].entry;
    return holder < entry ? holder : 0;
}

/* ---- looking up ---- */

/* Number (from 0) of the first child of `dir` whose name is >= name; its count when there is none. */
static uint32_t lower_bound(const struct hr_index *index, const struct hr_dir *dir, const char *name,
                            size_t name_len)
{
    uint32_t low = 0;
    uint32_t high = dir->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        size_t len;
        const char *other = hr_index_name_of(index, &index->entries[dir->first + middle], &len);
        if (hr_index_compare_names(other, len, name, name_len) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* number: of a child of dir. */
static inline bool name_is(const struct hr_index *index, uint32_t number, const char *name, size_t name_len)
{
    size_t len;
    const char *other = hr_index_name_of(index, &index->entries[number], &len);
    return len == name_len && hr_same_bytes(other, name, name_len);
}

/* The same by binary search, where the hash slots do not tell. 0: none. */
static __attribute__((noinline)) uint32_t search_child(const struct hr_index *index, const struct hr_dir *dir,
                                                       const char *name, size_t name_len)
{
    uint32_t n = lower_bound(index, dir, name, name_len);
    return n < dir->count && name_is(index, dir->first + n, name, name_len) ? dir->first + n : 0;
}

/* Entry number of a child, or 0 (the root, which is nobody's child). */
static inline uint32_t find_child(const struct hr_index *index, const struct hr_dir *dir, const char *name,
                                  size_t name_len, uint64_t hash)
{
    const uint32_t *start = index->hash;
    uint64_t slots = index->names->hash_slots;
    const uint32_t *at = start + hr_index_slot(hash, slots);
    uint32_t first = dir->first;
    uint32_t count = dir->count;

    for (unsigned left = HR_INDEX_PROBES_MAX; left > 0; left--) {
        uint32_t met = *at++;
        if (met == 0) {
            return 0;
        }
        /* Of a number below the first the difference is beyond any count. */
        if (met - first < count && name_is(index, met, name, name_len)) {
            return met;
        }
        if (at == start + slots) {
            at = start;
        }
    }
    return search_child(index, dir, name, name_len);
}

/* One component of a path. */
struct component {
    size_t len;
    uint64_t rest; /* for hash_of */
};

/* What is in front of the first slash of `word`, or false: there is none. */
static inline bool cut_at_slash(struct component *part, uint64_t word)
{
    const uint64_t ones = 0x0101010101010101ull;
    uint64_t slashes = word ^ '/' * ones;
    uint64_t met = (slashes - ones) & ~slashes & ones << 7; /* its lowest bit is exact */
    if (met == 0) {
        return false;
    }
    unsigned bits = (unsigned)__builtin_ctzll(met) & ~7u;
    part->len += bits / 8;
    part->rest = word & (((uint64_t)1 << bits) - 1);
    return true;
}

/* The component that begins at `name`; the path goes on for `left` bytes and began `before` bytes ahead. */
static inline struct component component_of(const char *name, size_t left, size_t before)
{
    struct component part = {0};
    uint64_t word;

    for (; left - part.len >= sizeof(word); part.len += sizeof(word)) {
        memcpy(&word, name + part.len, sizeof(word));
        if (cut_at_slash(&part, le64toh(word))) {
            return part;
        }
    }
    size_t few = left - part.len;
    if (few == 0) {
        return part;
    }
    if (left + before >= sizeof(word)) {
        /* The eight bytes that end with the path; zeros come in behind them. */
        memcpy(&word, name + left - sizeof(word), sizeof(word));
        word = le64toh(word) >> (sizeof(word) - few) * 8;
    } else {
        word = last_bytes(name + part.len, few);
    }
    if (!cut_at_slash(&part, word)) {
        part.len = left;
        part.rest = word;
    }
    return part;
}

int hr_index_lookup(const struct hr_index *index, const char *path, size_t path_len, uint32_t *ret_entry)
{
    const char *at = path;
    const char *end = path + path_len;
    uint32_t number = 0;

    while (path_len > 0 && at <= end) {
        const struct hr_dir *dir = dir_of(index, number);
        if (dir == NULL) {
            return -ENOTDIR;
        }
        uint64_t seed = seed_of((uint32_t)index->entries[number].size);
        struct component part = component_of(at, (size_t)(end - at), (size_t)(at - path));
        if (part.len - 1 >= HR_NAME_BYTES_MAX) {
            return part.len == 0 ? -ENOENT : -ENAMETOOLONG;
        }
        number = find_child(index, dir, at, part.len, hash_of(seed, at, part.len, part.rest));
        if (number == 0) {
            return -ENOENT;
        }
        at += part.len + 1;
    }
    *ret_entry = number;
    return 0;
}

/* ---- walking ---- */

uint32_t hr_index_child_count(const struct hr_index *index, uint32_t dir_entry)
{
    const struct hr_dir *dir = dir_of(index, dir_entry);
    return dir ? dir->count : 0;
}

uint32_t hr_index_child(const struct hr_index *index, uint32_t dir_entry, uint32_t n)
{
    const struct hr_dir *dir = dir_of(index, dir_entry);
    return dir && n < dir->count ? dir->first + n : 0;
}

uint32_t hr_index_seek(const struct hr_index *index, uint32_t dir_entry, const char *name, size_t name_len)
{
    const struct hr_dir *dir = dir_of(index, dir_entry);
    return dir ? lower_bound(index, dir, name, name_len) : 0;
}

uint32_t hr_index_end(const struct hr_index *index, uint32_t entry)
{
    const struct hr_dir *dir = dir_of(index, entry);
    uint32_t end = entry < index->names->entry_count ? entry + 1 : (uint32_t)index->names->entry_count;

    while (dir != NULL) {
        const struct hr_dir *last = NULL; /* of its directories, the last with anything in it */
        end = dir->first + dir->count;
        for (uint32_t child = end; child > dir->first && last == NULL; child--) {
            const struct hr_dir *below = dir_of(index, child - 1);
            last = below != NULL && below->count > 0 ? below : NULL;
        }
        dir = last;
    }
    return end;
}

const char *hr_index_name(const struct hr_index *index, uint32_t entry, uint32_t *ret_len)
{
    size_t len;
    const char *name = hr_index_name_of(index, &index->entries[entry], &len);

    *ret_len = (uint32_t)len;
    return name;
}

int hr_index_path(const struct hr_index *index, uint32_t entry, char *ret_path, size_t room)
{
    size_t end = room;

    /* From the end of the room to its start, then moved: the way up is searched once. */
    if (room == 0) {
        return -ENAMETOOLONG;
    }
    ret_path[--end] = '\0';
    for (uint32_t at = entry; at != 0; at = above(index, at)) {
        size_t len;
        const char *name = hr_index_name_of(index, &index->entries[at], &len);
        if (len + (size_t)(at != entry) > end) {
            return -ENAMETOOLONG;
        }
        if (at != entry) {
            ret_path[--end] = '/';
        }
        end -= len;
        memcpy(ret_path + end, name, len);
    }
    memmove(ret_path, ret_path + end, room - end);
    return (int)(room - end - 1);
}

/* ---- ETags ---- */

/* parts 0: no "-N". */
static int put_md5(const struct hr_entry *entry, uint32_t parts, char *out, size_t room)
{
    char text[12]; /* '-' and ten digits of a uint32_t, backwards */
    size_t text_len = 0;
    size_t len = MD5_HEX_BYTES;

    for (uint32_t left = parts; left > 0; left /= 10) {
        text[text_len++] = (char)('0' + left % 10);
    }
    if (text_len > 0) {
        text[text_len++] = '-';
    }
    if (len + text_len >= room) {
        return -ENOSPC;
    }
    for (size_t i = 0; i < sizeof(entry->etag); i++) {
        out[2 * i] = "0123456789abcdef"[entry->etag[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[entry->etag[i] & 15];
    }
    while (text_len > 0) {
        out[len++] = text[--text_len];
    }
    out[len] = '\0';
    return (int)len;
}

int hr_index_etag(const struct hr_index *index, uint32_t entry, char *ret_etag, size_t room)
{
    const struct hr_entry *of = &index->entries[entry];
    uint64_t offset = 0;
    uint32_t len = 0;
    uint32_t parts = 0;

    if (of->etag_kind == HR_ETAG_MD5 ||
        (of->etag_kind == HR_ETAG_PARTS && hr_index_etag_parts(index, of, &parts))) {
        return put_md5(of, parts, ret_etag, room);
    }
    if (of->etag_kind == HR_ETAG_TEXT) {
        hr_index_etag_text(of, &offset, &len);
    }
    if (len >= room) {
        return -ENOSPC;
    }
    if (!hr_index_text_holds(index, offset, len)) {
        offset = len = 0;
    }
    memcpy(ret_etag, index->text + offset, len);
    ret_etag[len] = '\0';
    return (int)len;
}
