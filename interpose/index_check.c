/* Every byte of an index that came from a disk. */
#include "interpose/index.h"

#include <errno.h>
#include <string.h>

#include "interpose/index_parts.h"

#define STOP_EVERY 4096u /* entries that are checked between two looks at the word: a fraction of a ms */

static bool name_ok(const struct hr_index *index, const struct hr_entry *entry)
{
    size_t len;
    const char *name = hr_index_name_of(index, entry, &len);
    bool dots = len > 0 && name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.'));

    return len > 0 && !dots && memchr(name, '/', len) == NULL && memchr(name, '\0', len) == NULL;
}

static bool etag_ok(const struct hr_index *index, const struct hr_entry *entry)
{
    uint64_t offset;
    uint32_t len;
    uint32_t parts;

    if (entry->etag_kind == HR_ETAG_PARTS) {
        return hr_index_etag_parts(index, entry, &parts) && parts > 0;
    }
    if (entry->etag_kind != HR_ETAG_TEXT) {
        return entry->etag_kind == HR_ETAG_NONE || entry->etag_kind == HR_ETAG_MD5 ||
               (entry->etag_kind == HR_ETAG_UNKNOWN && entry->kind == HR_KIND_FILE && entry->size == 0);
    }
    hr_index_etag_text(entry, &offset, &len);
    return len <= HR_INDEX_ETAG_MAX && hr_index_text_holds(index, offset, len);
}

/* Findable: met by the probes, or behind a full run of them (then the binary search has it). */
static bool hashed(const struct hr_index *index, uint32_t dir, uint32_t number)
{
    size_t len;
    const char *name = hr_index_name_of(index, &index->entries[number], &len);
    uint64_t slots = index->names->hash_slots;
    uint64_t at = hr_index_slot(hr_index_hash(dir, name, len), slots);

    for (unsigned probe = 0; probe < HR_INDEX_PROBES_MAX; probe++) {
        uint32_t met = index->hash[at];
        if (met == number || met == 0) {
            return met == number;
        }
        at = at + 1 < slots ? at + 1 : 0;
    }
    return true;
}

struct totals {
    uint64_t files;
    uint64_t dirs;
    uint64_t bytes;
    uint64_t unknown;
};

static bool child_ok(const struct hr_index *index, uint32_t dir, uint32_t number, struct totals *totals)
{
    const struct hr_entry *entry = &index->entries[number];

    if (!name_ok(index, entry) || !etag_ok(index, entry) || !hashed(index, dir, number)) {
        return false;
    }
    if (entry->kind == HR_KIND_FILE) {
        if (entry->size > INT64_MAX) {
            return false;
        }
        totals->files++;
        totals->unknown += entry->etag_kind == HR_ETAG_UNKNOWN;
        totals->bytes = totals->bytes > UINT64_MAX - entry->size ? UINT64_MAX : totals->bytes + entry->size;
        return true;
    }
    /* A child directory has a larger number than its parent: no cycles; and it points back: one entry each.
     */
    totals->dirs++;
    return entry->kind == HR_KIND_DIR && entry->size > dir && entry->size < index->names->dir_count &&
           index->dirs[entry->size].entry == number && index->dirs[entry->size].parent == dir;
}

/* The caller takes no interest any more. */
static bool stopped(const _Atomic bool *stop)
{
    return stop != NULL && atomic_load_explicit(stop, memory_order_relaxed);
}

static bool dir_ok(const struct hr_index *index, uint32_t number, uint64_t first, struct totals *totals,
                   const _Atomic bool *stop)
{
    const struct hr_dir *dir = &index->dirs[number];

    if (dir->first != first || dir->count > index->names->entry_count - first) {
        return false;
    }
    for (uint32_t n = 0; n < dir->count; n++) {
        const struct hr_entry *entry = &index->entries[dir->first + n];
        if (!child_ok(index, number, dir->first + n, totals) ||
            (n % STOP_EVERY == STOP_EVERY - 1 && stopped(stop))) {
            return false;
        }
        size_t len;
        size_t last_len;
        const char *name = hr_index_name_of(index, entry, &len);
        const char *last = hr_index_name_of(index, entry - (n > 0), &last_len);
        if (n > 0 && hr_index_compare_names(last, last_len, name, len) >= 0) {
            return false;
        }
    }
    return true;
}

int hr_index_check(const struct hr_index *index, const _Atomic bool *stop)
{
    const struct hr_names *names = index->names;
    const struct hr_entry *root = &index->entries[0];
    struct totals totals = {.dirs = 1};
    uint64_t next = 1;

    if (root->kind != HR_KIND_DIR || root->size != 0 || root->name_len != 0 ||
        root->etag_kind != HR_ETAG_NONE || hr_index_name_offset(root) > names->text_bytes ||
        index->dirs[0].entry != 0 || index->dirs[0].parent != 0) {
        return -EBADMSG;
    }
    for (uint32_t dir = 0; dir < names->dir_count; dir++) {
        if (dir % STOP_EVERY == STOP_EVERY - 1 && stopped(stop)) {
            return -ECANCELED;
        }
        if (!dir_ok(index, dir, next, &totals, stop)) {
            return stopped(stop) ? -ECANCELED : -EBADMSG;
        }
        next += index->dirs[dir].count;
    }
    if (next != names->entry_count || totals.dirs != names->dir_count || totals.files != names->file_count ||
        totals.bytes != names->object_bytes || totals.unknown != names->unknown_count) {
        return -EBADMSG;
    }
    for (uint64_t slot = 0; slot < names->hash_slots; slot++) {
        if (index->hash[slot] >= names->entry_count) {
            return -EBADMSG;
        }
    }
    return 0;
}
