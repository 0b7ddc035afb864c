#include "interpose/index.h"

#include <errno.h>
#include <string.h>

#define SECTION_ALIGN_BYTES 64u
#define MD5_HEX_BYTES 32u

/* ---- adopting a mapping -----------------------------------------------------------------------------------
 */

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
        names->dir_count > names->entry_count || names->hash_slots == 0 ||
        (names->hash_slots & (names->hash_slots - 1)) != 0) {
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

/* ---- names ------------------------------------------------------------------------------------------------
 */

static uint64_t name_offset(const struct hr_entry *entry)
{
    return entry->name_low + ((uint64_t)entry->name_high << 32);
}

static const char *name_of(const struct hr_index *index, const struct hr_entry *entry)
{
    return index->text + name_offset(entry);
}

static int compare_names(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    if (order != 0) {
        return order;
    }
    return a_len < b_len ? -1 : a_len > b_len;
}

static uint64_t fold_product(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t hr_index_hash_seeded(uint64_t seed, const char *name, size_t name_len)
{
    /* Odd constants with mixed bits: 2^64 / golden ratio, and splitmix64's first multiplier. */
    const uint64_t step = 0x9e3779b97f4a7c15ull;
    uint64_t hash = seed ^ (name_len * 0xbf58476d1ce4e5b9ull);
    uint64_t word;

    for (; name_len >= sizeof(word); name += sizeof(word), name_len -= sizeof(word)) {
        memcpy(&word, name, sizeof(word));
        hash = fold_product(hash ^ word, step) + word;
    }
    word = 0;
    for (size_t i = 0; i < name_len; i++) {
        word |= (uint64_t)(unsigned char)name[i] << (8 * i);
    }
    return hr_mix64(fold_product(hash ^ word, step) + word);
}

uint64_t hr_index_hash(uint32_t dir, const char *name, size_t name_len)
{
    return hr_index_hash_seeded(hr_mix64((uint64_t)dir + 1), name, name_len);
}

/* ---- looking up -------------------------------------------------------------------------------------------
 */

/* Number (from 0) of the first child of `dir` whose name is >= name; its count when there is none. */
static uint32_t lower_bound(const struct hr_index *index, const struct hr_dir *dir, const char *name,
                            size_t name_len)
{
    uint32_t low = 0;
    uint32_t high = dir->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct hr_entry *entry = &index->entries[dir->first + middle];
        if (compare_names(name_of(index, entry), entry->name_len, name, name_len) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool entry_is(const struct hr_index *index, uint32_t number, uint32_t dir, const char *name,
                     size_t name_len)
{
    const struct hr_entry *entry = &index->entries[number];
    return entry->parent == dir && entry->name_len == name_len &&
           memcmp(name_of(index, entry), name, name_len) == 0;
}

/* Entry number of a child, or 0 (the root, which is nobody's child). */
static uint32_t find_child(const struct hr_index *index, uint32_t dir, const char *name, size_t name_len)
{
    uint64_t mask = index->names->hash_slots - 1;
    uint64_t at = hr_index_hash(dir, name, name_len);

    if (name_len == 0) {
        return 0;
    }
    for (unsigned probe = 0; probe < HR_INDEX_PROBES_MAX; probe++, at++) {
        uint32_t number = index->hash[at & mask];
        if (number == 0) {
            return 0;
        }
        if (entry_is(index, number, dir, name, name_len)) {
            return number;
        }
    }
    const struct hr_dir *parent = &index->dirs[dir];
    uint32_t n = lower_bound(index, parent, name, name_len);
    return n < parent->count && entry_is(index, parent->first + n, dir, name, name_len) ? parent->first + n
                                                                                        : 0;
}

int hr_index_lookup(const struct hr_index *index, const char *path, size_t path_len, uint32_t *ret_entry)
{
    uint32_t number = 0;
    size_t at = 0;

    while (path_len > 0 && at <= path_len) {
        const struct hr_entry *entry = &index->entries[number];
        if (entry->kind != HR_KIND_DIR) {
            return -ENOTDIR;
        }
        const char *slash = at < path_len ? memchr(path + at, '/', path_len - at) : NULL;
        size_t len = slash ? (size_t)(slash - path) - at : path_len - at;
        if (len > HR_NAME_BYTES_MAX) {
            return -ENAMETOOLONG;
        }
        number = find_child(index, (uint32_t)entry->size, path + at, len);
        if (number == 0) {
            return -ENOENT;
        }
        at += len + 1;
    }
    *ret_entry = number;
    return 0;
}

/* ---- walking ----------------------------------------------------------------------------------------------
 */

static const struct hr_dir *dir_of(const struct hr_index *index, uint32_t number)
{
    if (number >= index->names->entry_count || index->entries[number].kind != HR_KIND_DIR) {
        return NULL;
    }
    return &index->dirs[index->entries[number].size];
}

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

const char *hr_index_name(const struct hr_index *index, uint32_t entry, uint32_t *ret_len)
{
    *ret_len = index->entries[entry].name_len;
    return name_of(index, &index->entries[entry]);
}

int hr_index_path(const struct hr_index *index, uint32_t entry, char *ret_path, size_t room)
{
    size_t len = 0;

    /* Parents have smaller directory numbers, so both walks end; this one also as soon as it cannot fit. */
    for (uint32_t at = entry; at != 0; at = index->dirs[index->entries[at].parent].entry) {
        len += index->entries[at].name_len + (size_t)(at != entry);
        if (len >= room) {
            return -ENAMETOOLONG;
        }
    }
    if (room == 0) {
        return -ENAMETOOLONG;
    }
    size_t end = len;
    ret_path[end] = '\0';
    for (uint32_t at = entry; at != 0; at = index->dirs[index->entries[at].parent].entry) {
        if (at != entry) {
            ret_path[--end] = '/';
        }
        end -= index->entries[at].name_len;
        memcpy(ret_path + end, name_of(index, &index->entries[at]), index->entries[at].name_len);
    }
    return (int)len;
}

/* ---- ETags ------------------------------------------------------------------------------------------------
 */

static void etag_text(const struct hr_entry *entry, uint64_t *ret_offset, uint32_t *ret_len)
{
    memcpy(ret_offset, entry->etag, sizeof(*ret_offset));
    memcpy(ret_len, entry->etag + sizeof(*ret_offset), sizeof(*ret_len));
}

static int put_md5(const struct hr_entry *entry, char *out, size_t room)
{
    char parts[12]; /* '-' and ten digits of a uint32_t, backwards */
    size_t parts_len = 0;
    size_t len = MD5_HEX_BYTES;

    for (uint32_t left = entry->etag_parts; left > 0; left /= 10) {
        parts[parts_len++] = (char)('0' + left % 10);
    }
    if (parts_len > 0) {
        parts[parts_len++] = '-';
    }
    if (len + parts_len >= room) {
        return -ENOSPC;
    }
    for (size_t i = 0; i < sizeof(entry->etag); i++) {
        out[2 * i] = "0123456789abcdef"[entry->etag[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[entry->etag[i] & 15];
    }
    while (parts_len > 0) {
        out[len++] = parts[--parts_len];
    }
    out[len] = '\0';
    return (int)len;
}

int hr_index_etag(const struct hr_index *index, uint32_t entry, char *ret_etag, size_t room)
{
    const struct hr_entry *of = &index->entries[entry];
    uint64_t offset = 0;
    uint32_t len = 0;

    if (of->etag_kind == HR_ETAG_MD5) {
        return put_md5(of, ret_etag, room);
    }
    if (of->etag_kind == HR_ETAG_TEXT) {
        etag_text(of, &offset, &len);
    }
    if (len >= room) {
        return -ENOSPC;
    }
    memcpy(ret_etag, index->text + offset, len);
    ret_etag[len] = '\0';
    return (int)len;
}

/* ---- checking every byte that a later call relies on
 * -------------------------------------------------------- */

static bool text_holds(const struct hr_index *index, uint64_t offset, uint64_t len)
{
    return offset <= index->names->text_bytes && len <= index->names->text_bytes - offset;
}

static bool name_ok(const struct hr_index *index, const struct hr_entry *entry)
{
    if (entry->name_len == 0 || !text_holds(index, name_offset(entry), entry->name_len)) {
        return false;
    }
    const char *name = name_of(index, entry);
    bool dots = name[0] == '.' && (entry->name_len == 1 || (entry->name_len == 2 && name[1] == '.'));
    return !dots && memchr(name, '/', entry->name_len) == NULL && memchr(name, '\0', entry->name_len) == NULL;
}

static bool etag_ok(const struct hr_index *index, const struct hr_entry *entry)
{
    uint64_t offset;
    uint32_t len;

    if (entry->etag_kind != HR_ETAG_TEXT) {
        return entry->etag_kind == HR_ETAG_NONE || entry->etag_kind == HR_ETAG_MD5;
    }
    etag_text(entry, &offset, &len);
    return len <= HR_INDEX_ETAG_MAX && text_holds(index, offset, len);
}

/* Findable: met by the probes, or behind a full run of them (then the binary search has it). */
static bool hashed(const struct hr_index *index, uint32_t number)
{
    const struct hr_entry *entry = &index->entries[number];
    uint64_t mask = index->names->hash_slots - 1;
    uint64_t at = hr_index_hash(entry->parent, name_of(index, entry), entry->name_len);

    for (unsigned probe = 0; probe < HR_INDEX_PROBES_MAX; probe++, at++) {
        uint32_t met = index->hash[at & mask];
        if (met == number || met == 0) {
            return met == number;
        }
    }
    return true;
}

struct totals {
    uint64_t files;
    uint64_t dirs;
    uint64_t bytes;
};

static bool child_ok(const struct hr_index *index, uint32_t dir, uint32_t number, struct totals *totals)
{
    const struct hr_entry *entry = &index->entries[number];

    if (entry->parent != dir || !name_ok(index, entry) || !etag_ok(index, entry)) {
        return false;
    }
    if (entry->kind == HR_KIND_FILE) {
        if (entry->size > INT64_MAX) {
            return false;
        }
        totals->files++;
        totals->bytes = totals->bytes > UINT64_MAX - entry->size ? UINT64_MAX : totals->bytes + entry->size;
        return true;
    }
    /* A child directory has a larger number than its parent: no cycles; and it points back: one entry each.
     */
    totals->dirs++;
    return entry->kind == HR_KIND_DIR && entry->size > dir && entry->size < index->names->dir_count &&
           index->dirs[entry->size].entry == number && index->dirs[entry->size].parent == dir;
}

static bool dir_ok(const struct hr_index *index, uint32_t number, uint64_t first, struct totals *totals)
{
    const struct hr_dir *dir = &index->dirs[number];

    if (dir->first != first || dir->count > index->names->entry_count - first) {
        return false;
    }
    for (uint32_t n = 0; n < dir->count; n++) {
        const struct hr_entry *entry = &index->entries[dir->first + n];
        if (!child_ok(index, number, dir->first + n, totals)) {
            return false;
        }
        if (n > 0 && compare_names(name_of(index, entry - 1), entry[-1].name_len, name_of(index, entry),
                                   entry->name_len) >= 0) {
            return false;
        }
    }
    return true;
}

int hr_index_check(const struct hr_index *index)
{
    const struct hr_names *names = index->names;
    const struct hr_entry *root = &index->entries[0];
    struct totals totals = {.dirs = 1};
    uint64_t next = 1;

    if (root->kind != HR_KIND_DIR || root->size != 0 || root->name_len != 0 || root->parent != 0 ||
        root->etag_kind != HR_ETAG_NONE || name_offset(root) > names->text_bytes ||
        index->dirs[0].entry != 0 || index->dirs[0].parent != 0) {
        return -EBADMSG;
    }
    for (uint32_t dir = 0; dir < names->dir_count; dir++) {
        if (!dir_ok(index, dir, next, &totals)) {
            return -EBADMSG;
        }
        next += index->dirs[dir].count;
    }
    if (next != names->entry_count || totals.dirs != names->dir_count || totals.files != names->file_count ||
        totals.bytes != names->object_bytes) {
        return -EBADMSG;
    }
    for (uint64_t slot = 0; slot < names->hash_slots; slot++) {
        if (index->hash[slot] >= names->entry_count) {
            return -EBADMSG;
        }
    }
    for (uint32_t number = 1; number < names->entry_count; number++) {
        if (!hashed(index, number)) {
            return -EBADMSG;
        }
    }
    return 0;
}
