/* Inside of the index builder, between builder.c (keys in), order.c (into the order of the file) and
 * publish.c (out). */
#ifndef HR_LIST_BUILDER_H
#define HR_LIST_BUILDER_H

#include <stddef.h>
#include <stdint.h>

#include "fetch/list/publish.h"
#include "fetch/list/scratch.h"

struct hr_build_dir {
    uint32_t entry;   /* its number in entries; the root has entry 0 */
    int64_t mtime_ns; /* of its marker object; INT64_MIN: none */
};

struct hr_index_builder {
    /* As in the file, but: a directory's size is its number in `dirs`, name and ETag offsets are in `text`,
     * entries are in the order of arrival. */
    struct hr_entry *entries;
    uint32_t *parents; /* number in `dirs` of what holds an entry */
    size_t entry_count;
    char *text;
    size_t text_bytes;
    char *scratch_dir; /* NULL: memory alone */
    /* What those three lie in. */
    struct hr_scratch entry_scratch, parent_scratch, text_scratch;
    struct hr_build_dir *dirs;
    size_t dir_count, dir_room;
    uint32_t *dir_slots; /* (parent, name) -> number in dirs; 0 empty; linear probing, at most half full */
    size_t dir_slot_count;
    uint64_t seed;             /* of that table: names of others' choice */
    char last_dir[HR_KEY_MAX]; /* directory part of the last key, with its slash, and what it is */
    uint32_t last_dir_len;
    uint32_t last_dir_number;
    uint64_t hidden[HR_HIDDEN_COUNT];
    char *examples[HR_HIDDEN_COUNT];
};

static inline uint64_t hr_build_name_offset(const struct hr_entry *entry)
{
    return entry->name_low + ((uint64_t)entry->name_high << 32);
}

/* Counts it; the first of a kind is kept (without memory there is only the count). */
void hr_builder_hide(struct hr_index_builder *builder, enum hr_hidden why, const char *key, size_t key_len);
/* Makes sure of the root directory. 0 or -ENOMEM. */
int hr_builder_root(struct hr_index_builder *builder);
/* Drops the keys, keeps what was hidden. */
void hr_builder_empty(struct hr_index_builder *builder);

/* What is in the file and where. Directories are numbered twice: as they came (builder->dirs), and in the
 * file. */
struct hr_build_order {
    uint32_t *sorted; /* entry numbers of the builder, grouped by parent, each group sorted by name */
    uint64_t *start;  /* by number as it came: its group starts at sorted[start], */
    uint32_t *count;  /* has this many that are in the file, */
    uint32_t *place;  /* and this is its number in the file */
    uint32_t *first;  /* entry number of its first child in the file */
    uint32_t *dirs;   /* by number in the file: number as it came */
    uint64_t seen;    /* entries in the file, the root too */
};

/* Sorts, drops older duplicates and shadowed objects (the latter are hidden), numbers directories so that all
 * that is below one is one range of entries. 0 or -ENOMEM. */
int hr_build_order(struct hr_index_builder *builder, struct hr_build_order *ret);
void hr_build_order_release(struct hr_build_order *order);

#endif
