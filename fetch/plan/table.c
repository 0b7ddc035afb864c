#include "fetch/plan/table.h"

#include <stdlib.h>
#include <string.h>

#define PLACES_LEAST 1024             /* 4 KiB to begin with */
#define INVERT_ENTRIES_MAX (4u << 20) /* 16 MiB; ours: of a larger tree the policy alone says what stays */
#define MERGE_WRONG 64 /* one place in so many may be another file in two tables of one data set */

bool hr_table_is_current(const struct hr_table *table)
{
    const struct hr_names *names = table->tree ? table->tree->index.names : NULL;
    return names && names->gen == table->gen;
}

uint32_t hr_table_entry(const struct hr_table *table, uint32_t index, uint32_t file)
{
    uint64_t place = (uint64_t)index * table->files + file;
    return place < table->room && table->entries[place] ? table->entries[place] - 1 : HR_TABLE_NONE;
}

/* calloc leaves what nobody writes to the kernel. */
static bool grow(struct hr_table *table, uint64_t place, uint64_t places_max)
{
    uint64_t room = table->room ? table->room : PLACES_LEAST;
    while (room <= place) {
        room *= 2;
    }
    room = room > places_max ? places_max : room;
    uint32_t *entries = place < room ? calloc(room, sizeof *entries) : NULL;
    if (!entries) {
        return false;
    }
    if (table->room) {
        memcpy(entries, table->entries, table->room * sizeof *entries);
    }
    free(table->entries);
    table->entries = entries;
    table->room = room;
    return true;
}

/* value: its index + 1, or 0 */
static void set_index(struct hr_table *table, uint32_t entry, uint64_t value)
{
    if (entry < table->indices_room) {
        table->indices[entry] = (uint32_t)value;
    }
}

static void drop_indices(struct hr_table *table)
{
    free(table->indices);
    table->indices = NULL;
    table->indices_room = 0;
}

bool hr_table_invert(struct hr_table *table)
{
    uint32_t room = table->tree->index.names->entry_count;
    if (table->indices || table->files != 1 || room > INVERT_ENTRIES_MAX ||
        !(table->indices = calloc(room, sizeof *table->indices))) {
        return table->indices;
    }
    table->indices_room = room;
    for (uint64_t place = 0; place < table->room; place++) {
        if (table->entries[place]) {
            set_index(table, table->entries[place] - 1, place + 1);
        }
    }
    return true;
}

uint32_t hr_table_index(const struct hr_table *table, uint32_t entry)
{
    return entry < table->indices_room && table->indices[entry] ? table->indices[entry] - 1 : HR_TABLE_NONE;
}

static void learn_place(struct hr_table *table, uint64_t place, uint32_t entry)
{
    uint32_t *known = &table->entries[place];
    if (*known == 0) {
        *known = entry + 1;
        table->known++;
        set_index(table, entry, place + 1);
    } else if (*known == entry + 1) {
        table->agreed++;
    } else {
        set_index(table, *known - 1, 0);
        *known = 0;
        table->known--;
        table->differed++;
    }
}

void hr_table_learn(struct hr_table *table, const struct hr_told *told, uint64_t places_max)
{
    for (uint32_t i = 0; i < told->count; i++) {
        uint64_t first = (uint64_t)told->indices[i] * table->files, last = first + table->files - 1;
        table->extent = told->indices[i] < table->extent ? table->extent : told->indices[i] + 1;
        if (last >= table->room && !grow(table, last, places_max)) {
            continue;
        }
        for (uint32_t file = 0; file < table->files; file++) {
            learn_place(table, first + file, told->opens[i * table->files + file]);
        }
    }
}

bool hr_table_merge(struct hr_table *into, struct hr_table *from)
{
    uint64_t both = into->room < from->room ? into->room : from->room, same = 0, other = 0;
    if (into->tree != from->tree || into->gen != from->gen || into->files != from->files) {
        return false;
    }
    for (uint64_t i = 0; i < both; i++) {
        bool known = into->entries[i] && from->entries[i];
        same += known && into->entries[i] == from->entries[i];
        other += known && into->entries[i] != from->entries[i];
    }
    if (other * MERGE_WRONG > same) {
        return false;
    }
    struct hr_table *longer = into->room < from->room ? from : into;
    const struct hr_table *shorter = longer == into ? from : into;
    for (uint64_t i = 0; i < both; i++) {
        longer->known += !longer->entries[i] && shorter->entries[i];
        longer->entries[i] = longer->entries[i] ? longer->entries[i] : shorter->entries[i];
    }
    into->extent = into->extent < from->extent ? from->extent : into->extent;
    drop_indices(into); /* made anew when they are asked for */
    if (longer == from) {
        uint32_t *entries = into->entries;
        into->entries = from->entries;
        into->room = from->room;
        into->known = from->known;
        from->entries = entries;
    }
    hr_table_free(from);
    return true;
}

void hr_table_free(struct hr_table *table)
{
    free(table->entries);
    drop_indices(table);
    *table = (struct hr_table){0};
}
