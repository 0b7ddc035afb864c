/* A names file whose bytes are anybody's. The input changes a good file, then everything a reader may do is
 * done to it, checked or not. First byte: which good file, and whether whole bytes follow instead; then
 * records of 7 bytes: where (4), what (2), how. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/list/publish.h"
#include "tests/fuzz/scratch.h"

#define SEEDS 3
#define RECORD_BYTES 7

static struct hr_index good[SEEDS];

static void make_good(void)
{
    static const char *const keys[] = {
        "a", "a/b", "a-b", "c/d/e/f", "c/d/e/g", "c/", "long-name-that-is-hashed/x"};

    scratch_make("/tmp");
    for (unsigned i = 0; i < SEEDS; i++) {
        struct hr_index_builder *builder;
        MUST(hr_builder_new(&builder) == 0);
        for (unsigned k = 0; k < i * sizeof(keys) / sizeof(*keys) / (SEEDS - 1); k++) {
            (void)hr_builder_add(builder, keys[k], (uint32_t)strlen(keys[k]), k, k,
                                 k % 2 ? "\"odd\"" : "d41d8cd98f00b204e9800998ecf8427e-7");
        }
        MUST(hr_builder_publish(builder, scratch, 1, i + 1, 1, &good[i]) == 0);
        hr_builder_free(builder);
    }
}

/* Little by little: set, add, or a 64-bit field to a number near it. */
static void change(uint8_t *file, size_t file_bytes, const uint8_t *record)
{
    uint32_t at;
    uint16_t what;
    uint64_t wide;

    memcpy(&at, record, sizeof(at));
    memcpy(&what, record + sizeof(at), sizeof(what));
    at %= (uint32_t)(file_bytes - sizeof(wide) + 1);
    switch (record[6] % 4) {
    case 0:
        file[at] = (uint8_t)what;
        break;
    case 1:
        file[at] = (uint8_t)(file[at] + (int8_t)what);
        break;
    case 2:
        at &= ~7u;
        memcpy(&wide, file + at, sizeof(wide));
        wide += (uint64_t)(int64_t)(int16_t)what;
        memcpy(file + at, &wide, sizeof(wide));
        break;
    default:
        at &= ~3u;
        memcpy(file + at, &(uint32_t){what}, sizeof(uint32_t));
        break;
    }
}

static void look(const struct hr_index *index, const char *path, size_t len)
{
    uint32_t entry;
    MUST(hr_index_lookup(index, path, len, &entry) != 0 || entry < index->names->entry_count);
}

static void walk(const struct hr_index *index, bool checked)
{
    char path[HR_KEY_MAX + 1];
    char etag[HR_INDEX_ETAG_MAX + 1];
    uint32_t name_len;

    for (uint32_t entry = 0; entry < index->names->entry_count; entry++) {
        uint32_t children = hr_index_child_count(index, entry);
        const char *name = hr_index_name(index, entry, &name_len);
        for (uint32_t n = 0; n < children; n++) {
            uint32_t child = hr_index_child(index, entry, n);
            (void)hr_index_name(index, child, &name_len);
            MUST(child > entry); /* else a walk would not end */
        }
        name = hr_index_name(index, entry, &name_len);
        (void)hr_index_seek(index, entry, name, name_len);
        MUST(hr_index_etag(index, entry, etag, sizeof(etag)) >= 0 || !checked);
        MUST(hr_index_end(index, entry) <= index->names->entry_count &&
             hr_index_parent(index, entry) < index->names->dir_count);
        int len = hr_index_path(index, entry, path, sizeof(path));
        uint32_t found;
        MUST(!checked || len < 0 || /* what is there is found, and only once */
             (hr_index_lookup(index, path, (size_t)len, &found) == 0 && found == entry));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hr_index index;

    if (good[0].names == NULL) {
        make_good();
    }
    if (size < 1) {
        return 0;
    }
    const struct hr_names *from = good[data[0] % SEEDS].names;
    bool raw = data[0] >= 0xc0;
    size_t bytes = raw ? size - 1 : from->file_bytes;
    uint8_t *file = malloc(bytes > 0 ? bytes : 1);
    if (file == NULL) {
        return 0;
    }
    memcpy(file, raw ? data + 1 : (const uint8_t *)from, bytes);
    for (size_t at = 1; !raw && at + RECORD_BYTES <= size; at += RECORD_BYTES) {
        change(file, bytes, data + at);
    }
    if (hr_index_adopt(&index, file, bytes) == 0) {
        walk(&index, hr_index_check(&index, NULL) == 0);
        look(&index, (const char *)data, size);
        look(&index, "c/d/e/f", 7);
        look(&index, "a/b", 3);
    }
    free(file);
    return 0;
}
