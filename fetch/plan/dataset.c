#include "fetch/plan/dataset.h"

#include "fetch/plan/ranks.h"

struct hr_dataset hr_dataset_of_table(struct hr_table *table)
{
    return (struct hr_dataset){.tree = table->tree, .gen = table->gen, .table = table, .table_id = table->id};
}

bool hr_dataset_is(const struct hr_dataset *one, const struct hr_dataset *other)
{
    return one->tree == other->tree && one->gen == other->gen && one->base == other->base &&
           one->table == other->table && one->table_id == other->table_id;
}

bool hr_dataset_is_current(const struct hr_dataset *data)
{
    const struct hr_names *names = data->tree->index.names;
    return names && names->gen == data->gen && data->tree->ranks &&
           (!data->table || data->table->id == data->table_id);
}

uint32_t hr_dataset_size(const struct hr_dataset *data)
{
    return data->table ? data->table->extent : 0;
}

unsigned hr_dataset_files(const struct hr_dataset *data)
{
    return data->table ? data->table->files : 1;
}

uint32_t hr_dataset_entry(const struct hr_dataset *data, uint32_t index, unsigned file)
{
    if (data->table) {
        return hr_table_entry(data->table, index, file);
    }
    uint64_t rank = data->base + index;
    return rank < hr_ranks_count(data->tree->ranks) ? hr_ranks_entry(data->tree->ranks, rank) : HR_TABLE_NONE;
}

bool hr_dataset_invert(const struct hr_dataset *data)
{
    return !data->table || hr_table_invert(data->table);
}

uint32_t hr_dataset_index(const struct hr_dataset *data, uint32_t entry)
{
    if (data->table) {
        return hr_table_index(data->table, entry);
    }
    uint64_t rank = hr_ranks_of(data->tree->ranks, entry);
    return rank < data->base ? HR_TABLE_NONE : (uint32_t)(rank - data->base);
}
