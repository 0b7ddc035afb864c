#include "fetch/list/builder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/base/cleanup.h"
#include "fetch/base/clock.h"

#define ROOM_MIN 64       /* elements of a growing array at first */
#define DIR_SLOTS_MIN 256 /* power of two */
#define MD5_HEX_BYTES 32

/* ---- memory ---- */

/* Room for `more` elements behind `count`: half as much again each time. 0 or -ENOMEM. */
static int grow(void **array, size_t *room, size_t count, size_t more, size_t unit_bytes)
{
    if (more <= *room - count) {
        return 0;
    }
    size_t wanted = *room + *room / 2;
    if (wanted < count + more) {
        wanted = count + more;
    }
    if (wanted < ROOM_MIN) {
        wanted = ROOM_MIN;
    }
    void *grown = reallocarray(*array, wanted, unit_bytes);
    if (grown == NULL) {
        return -ENOMEM;
    }
    *array = grown;
    *room = wanted;
    return 0;
}

static int put_text(struct hr_index_builder *builder, const void *text, size_t len, uint64_t *ret_offset)
{
    int rc = hr_scratch_grow(&builder->text_scratch, builder->text_bytes + len);
    if (rc < 0) {
        return rc;
    }
    builder->text = builder->text_scratch.base;
    if (len > 0) { /* the root has no name, and then there may be no text */
        memcpy(builder->text + builder->text_bytes, text, len);
    }
    *ret_offset = builder->text_bytes;
    builder->text_bytes += len;
    return 0;
}

/* A new entry with its name; the rest is zero. */
static int put_entry(struct hr_index_builder *builder, uint32_t parent, const char *name, size_t name_len,
                     struct hr_entry **ret)
{
    uint64_t offset;

    if (builder->entry_count >= UINT32_MAX - 1 || builder->text_bytes >= (1ull << 40) - HR_KEY_MAX) {
        return -EFBIG;
    }
    int rc = hr_scratch_grow(&builder->entry_scratch, (builder->entry_count + 1) * sizeof(*builder->entries));
    if (rc == 0) {
        rc =
            hr_scratch_grow(&builder->parent_scratch, (builder->entry_count + 1) * sizeof(*builder->parents));
    }
    if (rc < 0) {
        return rc;
    }
    builder->entries = builder->entry_scratch.base;
    builder->parents = builder->parent_scratch.base;
    rc = put_text(builder, name, name_len, &offset);
    if (rc < 0) {
        return rc;
    }
    builder->parents[builder->entry_count] = parent;
    struct hr_entry *entry = &builder->entries[builder->entry_count++];
    *entry = (struct hr_entry){
        .name_low = (uint32_t)offset, .name_high = (uint8_t)(offset >> 32), .name_len = (uint8_t)name_len};
    *ret = entry;
    return 0;
}

int hr_builder_root(struct hr_index_builder *builder)
{
    struct hr_entry *entry;

    if (builder->entry_count > 0) {
        return 0;
    }
    int rc = grow((void **)&builder->dirs, &builder->dir_room, 0, 1, sizeof(*builder->dirs));
    if (rc == 0) {
        rc = put_entry(builder, 0, "", 0, &entry);
    }
    if (rc < 0) {
        return rc;
    }
    entry->kind = HR_KIND_DIR;
    builder->dirs[0] = (struct hr_build_dir){.mtime_ns = INT64_MIN};
    builder->dir_count = 1;
    return 0;
}

int hr_builder_new(struct hr_index_builder **ret)
{
    struct hr_index_builder *builder = calloc(1, sizeof(*builder));
    if (builder == NULL) {
        return -ENOMEM;
    }
    builder->seed = hr_random_u64();
    *ret = builder;
    return 0;
}

int hr_builder_scratch(struct hr_index_builder *builder, const char *dir)
{
    char *copy = strdup(dir);
    if (copy == NULL) {
        return -ENOMEM;
    }
    free(builder->scratch_dir);
    builder->scratch_dir = copy;
    builder->entry_scratch.dir = builder->parent_scratch.dir = builder->text_scratch.dir = copy;
    return 0;
}

void hr_builder_empty(struct hr_index_builder *builder)
{
    hr_scratch_empty(&builder->entry_scratch);
    hr_scratch_empty(&builder->parent_scratch);
    hr_scratch_empty(&builder->text_scratch);
    builder->entries = NULL;
    builder->parents = NULL;
    builder->text = NULL;
    free(hr_steal_pointer(builder->dirs));
    free(hr_steal_pointer(builder->dir_slots));
    builder->entry_count = 0;
    builder->text_bytes = 0;
    builder->dir_count = builder->dir_room = builder->dir_slot_count = 0;
    builder->last_dir_len = builder->last_dir_number = 0;
}

void hr_builder_free(struct hr_index_builder *builder)
{
    if (builder == NULL) {
        return;
    }
    hr_builder_empty(builder);
    free(builder->scratch_dir);
    for (int why = 0; why < HR_HIDDEN_COUNT; why++) {
        free(builder->examples[why]);
    }
    free(builder);
}

uint64_t hr_builder_count(const struct hr_index_builder *builder)
{
    return builder->entry_count - builder->dir_count;
}

/* ---- keys that are no paths ---- */

void hr_builder_hide(struct hr_index_builder *builder, enum hr_hidden why, const char *key, size_t key_len)
{
    if (builder->hidden[why]++ == 0) {
        builder->examples[why] = strndup(key, key_len < HR_KEY_MAX ? key_len : HR_KEY_MAX);
    }
}

uint64_t hr_builder_hidden(const struct hr_index_builder *builder, enum hr_hidden why,
                           const char **ret_example)
{
    *ret_example = builder->examples[why];
    return builder->hidden[why];
}

/* HR_HIDDEN_COUNT: a good name. */
static enum hr_hidden part_fault(const char *part, size_t len)
{
    if (len == 0) {
        return HR_HIDDEN_EMPTY_PART;
    }
    if (part[0] == '.' && (len == 1 || (len == 2 && part[1] == '.'))) {
        return HR_HIDDEN_DOT_PART;
    }
    return len > HR_NAME_BYTES_MAX ? HR_HIDDEN_LONG_PART : HR_HIDDEN_COUNT;
}

/* The directory part of a key, "" or with its last slash. */
static enum hr_hidden dir_fault(const char *dir, size_t dir_len)
{
    enum hr_hidden fault = HR_HIDDEN_COUNT;

    for (size_t at = 0; at < dir_len && fault == HR_HIDDEN_COUNT;) {
        const char *slash = memchr(dir + at, '/', dir_len - at);
        size_t len = (size_t)(slash - dir) - at;
        fault = part_fault(dir + at, len);
        at += len + 1;
    }
    return fault;
}

/* ---- directories ---- */

static size_t dir_slot(const struct hr_index_builder *builder, uint32_t parent, const char *name, size_t len)
{
    return hr_index_hash_seeded(hr_mix64(builder->seed + parent), name, len) & (builder->dir_slot_count - 1);
}

/* Twice the slots, every directory hashed again. */
static int widen_dir_slots(struct hr_index_builder *builder)
{
    size_t slot_count = builder->dir_slot_count ? builder->dir_slot_count * 2 : DIR_SLOTS_MIN;
    uint32_t *slots = calloc(slot_count, sizeof(*slots));
    if (slots == NULL) {
        return -ENOMEM;
    }
    free(builder->dir_slots);
    builder->dir_slots = slots;
    builder->dir_slot_count = slot_count;
    for (uint32_t number = 1; number < builder->dir_count; number++) {
        const struct hr_entry *entry = &builder->entries[builder->dirs[number].entry];
        size_t at = dir_slot(builder, builder->parents[builder->dirs[number].entry],
                             builder->text + hr_build_name_offset(entry), entry->name_len);
        while (slots[at] != 0) {
            at = (at + 1) & (slot_count - 1);
        }
        slots[at] = number;
    }
    return 0;
}

static int put_dir(struct hr_index_builder *builder, uint32_t parent, const char *name, size_t len,
                   size_t slot)
{
    struct hr_entry *entry;

    int rc = grow((void **)&builder->dirs, &builder->dir_room, builder->dir_count, 1, sizeof(*builder->dirs));
    if (rc == 0) {
        rc = put_entry(builder, parent, name, len, &entry);
    }
    if (rc < 0) {
        return rc;
    }
    entry->kind = HR_KIND_DIR;
    entry->size = builder->dir_count;
    builder->dir_slots[slot] = (uint32_t)builder->dir_count;
    builder->dirs[builder->dir_count++] =
        (struct hr_build_dir){.entry = (uint32_t)(builder->entry_count - 1), .mtime_ns = INT64_MIN};
    return 0;
}

/* Finds or makes a child directory. */
static int child_dir(struct hr_index_builder *builder, uint32_t parent, const char *name, size_t len,
                     uint32_t *ret_number)
{
    if (builder->dir_count * 2 >= builder->dir_slot_count) {
        int rc = widen_dir_slots(builder);
        if (rc < 0) {
            return rc;
        }
    }
    size_t at = dir_slot(builder, parent, name, len);
    for (; builder->dir_slots[at] != 0; at = (at + 1) & (builder->dir_slot_count - 1)) {
        uint32_t number = builder->dir_slots[at];
        const struct hr_entry *entry = &builder->entries[builder->dirs[number].entry];
        if (builder->parents[builder->dirs[number].entry] == parent && entry->name_len == len &&
            memcmp(builder->text + hr_build_name_offset(entry), name, len) == 0) {
            *ret_number = number;
            return 0;
        }
    }
    int rc = put_dir(builder, parent, name, len, at);
    if (rc == 0) {
        *ret_number = (uint32_t)(builder->dir_count - 1);
    }
    return rc;
}

/* A checked directory part -> its number; made with all above it. Remembered for the next key. */
static int whole_dir(struct hr_index_builder *builder, const char *dir, size_t dir_len)
{
    uint32_t number = 0;

    for (size_t at = 0; at < dir_len;) {
        const char *slash = memchr(dir + at, '/', dir_len - at);
        size_t len = (size_t)(slash - dir) - at;
        int rc = child_dir(builder, number, dir + at, len, &number);
        if (rc < 0) {
            return rc;
        }
        at += len + 1;
    }
    memcpy(builder->last_dir, dir, dir_len);
    builder->last_dir_len = (uint32_t)dir_len;
    builder->last_dir_number = number;
    return 0;
}

/* ---- objects ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "-N", N without leading zeros; "" gives 0. */
static bool parts_of(const char *text, uint32_t *ret)
{
    uint64_t parts = 0;

    if (text[0] == '\0') {
        *ret = 0;
        return true;
    }
    if (text[0] != '-' || text[1] < '1' || text[1] > '9') {
        return false;
    }
    for (const char *digit = text + 1; *digit != '\0'; digit++) {
        if (*digit < '0' || *digit > '9' || (parts = parts * 10 + (uint64_t)(*digit - '0')) > UINT32_MAX) {
            return false;
        }
    }
    *ret = (uint32_t)parts;
    return true;
}

static bool md5_of(const char *etag, size_t len, struct hr_entry *entry, uint32_t *ret_parts)
{
    uint8_t bytes[16];

    if (len < MD5_HEX_BYTES || !parts_of(etag + MD5_HEX_BYTES, ret_parts)) {
        return false;
    }
    for (size_t i = 0; i < sizeof(bytes); i++) {
        int high = hex_digit(etag[2 * i]);
        int low = hex_digit(etag[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    memcpy(entry->etag, bytes, sizeof(bytes));
    return true;
}

const char hr_builder_unknown[] = "";

static int put_etag(struct hr_index_builder *builder, struct hr_entry *entry, const char *etag)
{
    size_t len = etag != NULL ? strlen(etag) : 0;
    uint64_t offset;
    uint32_t parts;

    if (len == 0 || len > HR_INDEX_ETAG_MAX) {
        entry->etag_kind = HR_ETAG_NONE;
        return 0;
    }
    if (md5_of(etag, len, entry, &parts)) {
        entry->etag_kind = parts > 0 ? HR_ETAG_PARTS : HR_ETAG_MD5;
        return parts > 0 ? put_text(builder, &parts, sizeof(parts), &offset) : 0; /* behind the name */
    }
    int rc = put_text(builder, etag, len, &offset);
    if (rc < 0) {
        return rc;
    }
    uint32_t text_len = (uint32_t)len;
    entry->etag_kind = HR_ETAG_TEXT;
    memcpy(entry->etag, &offset, sizeof(offset));
    memcpy(entry->etag + sizeof(offset), &text_len, sizeof(text_len));
    return 0;
}

static int put_file(struct hr_index_builder *builder, const char *name, size_t name_len, uint64_t size,
                    int64_t mtime_ns, const char *etag)
{
    struct hr_entry *entry;

    int rc = put_entry(builder, builder->last_dir_number, name, name_len, &entry);
    if (rc < 0) {
        return rc;
    }
    entry->kind = HR_KIND_FILE;
    if (etag == hr_builder_unknown) {
        entry->etag_kind = HR_ETAG_UNKNOWN;
        entry->mtime_ns = INT64_MIN; /* older than every other: directories take no notice */
        return 0;
    }
    entry->size = size;
    entry->mtime_ns = mtime_ns;
    return put_etag(builder, entry, etag);
}

int hr_builder_add(struct hr_index_builder *builder, const char *key, uint32_t key_len, uint64_t size,
                   int64_t mtime_ns, const char *etag)
{
    if (size > INT64_MAX || memchr(key, '\0', key_len) != NULL) {
        return -EINVAL;
    }
    int rc = hr_builder_root(builder);
    if (rc < 0) {
        return rc;
    }
    if (key_len > HR_KEY_MAX) {
        hr_builder_hide(builder, HR_HIDDEN_LONG_PART, key, key_len);
        return 0;
    }
    const char *slash = memrchr(key, '/', key_len);
    size_t dir_len = slash != NULL ? (size_t)(slash - key) + 1 : 0;
    bool same_dir = dir_len == builder->last_dir_len && memcmp(key, builder->last_dir, dir_len) == 0;
    enum hr_hidden fault = same_dir ? HR_HIDDEN_COUNT : dir_fault(key, dir_len);
    if (fault == HR_HIDDEN_COUNT && dir_len < key_len) {
        fault = part_fault(key + dir_len, key_len - dir_len);
    }
    if (fault != HR_HIDDEN_COUNT) {
        hr_builder_hide(builder, fault, key, key_len);
        return 0;
    }
    rc = same_dir ? 0 : whole_dir(builder, key, dir_len);
    if (rc < 0 || dir_len < key_len) {
        return rc < 0 ? rc : put_file(builder, key + dir_len, key_len - dir_len, size, mtime_ns, etag);
    }
    if (etag == hr_builder_unknown) {
        return 0;
    }
    builder->dirs[builder->last_dir_number].mtime_ns = mtime_ns;
    if (size > 0) {
        hr_builder_hide(builder, HR_HIDDEN_MARKER, key, key_len);
    }
    return 0;
}
