#include "fetch/plan/tables.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "fetch/plan/iterations.h"
#include "fetch/plan/table.h"

#define TOLD_INDICES_MAX 65536u  /* of batches that are learned from; the oldest go first */
#define PLACES_MAX (16ull << 20) /* of all jobs' tables together, 4 bytes each */
/* More indices than files of the tree are hardly a data set; a small tree says less. */
#define PLACES_A_FILE 4
#define PLACES_LEAST 65536
#define AGREE_LEAST 2   /* opens in a row that chance hardly explains... */
#define AGREE_FACTOR 4  /* ...and so many for each that is another file: notes get lost */
#define MERGE_FACTOR 16 /* for what is not undone */
#define DENY_LEAST 16   /* places that are known... */
#define DENY_FACTOR 8   /* ...of which so few are what a base would have: a sample has four files at most */
#define DIFFER_MAX 32   /* places that came to be another file, before a table is doubted... */
#define DIFFER_FACTOR 4 /* ...and one for so many that came again as they were */

struct hr_tables {
    struct hr_table tables[HR_TABLES_MAX];
    struct hr_iterations iterations;
    uint64_t last_table_id, clock;
    struct hr_told *told; /* oldest first */
    uint32_t told_indices;
};

static void told_free(struct hr_tables *tables, struct hr_told *told)
{
    DL_DELETE(tables->told, told);
    tables->told_indices -= told->count;
    free(told);
}

static void table_drop(struct hr_tables *tables, unsigned t)
{
    hr_table_free(&tables->tables[t]);
    for (unsigned i = 0; i < HR_ITERATIONS_MAX; i++) {
        struct hr_iteration *iteration = &tables->iterations.all[i];
        iteration->table = iteration->table == (int)t ? -1 : iteration->table;
        iteration->right[t] = iteration->wrong[t] = 0;
    }
}

/* Those of listings before the present one. */
static void drop_old(struct hr_tables *tables)
{
    for (unsigned t = 0; t < HR_TABLES_MAX; t++) {
        if (tables->tables[t].tree && !hr_table_is_current(&tables->tables[t])) {
            table_drop(tables, t);
        }
    }
}

void hr_tables_free(struct hr_guide *guide)
{
    struct hr_tables *tables = guide->tables;
    while (tables && tables->told) {
        told_free(tables, tables->told);
    }
    for (unsigned t = 0; tables && t < HR_TABLES_MAX; t++) {
        hr_table_free(&tables->tables[t]);
    }
    free(tables);
    guide->tables = NULL;
}

bool hr_tables_ask(const struct hr_guide *guide)
{
    const struct hr_tables *tables = guide->tables;
    bool some = false;
    for (unsigned t = 0; tables && t < HR_TABLES_MAX; t++) {
        some |= tables->tables[t].tree != NULL;
    }
    return some && tables->told;
}

uint64_t hr_tables_indices(const struct hr_guide *guide)
{
    uint64_t count = 0;
    for (unsigned t = 0; guide->tables && t < HR_TABLES_MAX; t++) {
        const struct hr_table *table = &guide->tables->tables[t];
        count += table->tree ? table->known / table->files : 0;
    }
    return count;
}

/* ---- which table ---- */

static bool agrees(const struct hr_iteration *iteration, unsigned t, unsigned factor)
{
    return iteration->right[t] >= AGREE_LEAST && iteration->right[t] >= factor * iteration->wrong[t];
}

/* Another epoch goes by it. */
static void confirm(struct hr_plan *plan, const struct hr_guide *guide, struct hr_table *table)
{
    if (!table->confirmed) {
        table->confirmed = true;
        plan->stats.lookahead_learned++;
        hr_log(HR_LOG_INFO,
               "look-ahead: indices of job %u are rows of a table of %u files, %u a sample, in bucket=%s "
               "prefix=%s",
               guide->context, table->known, table->files, hr_store_bucket(table->tree->store),
               table->tree->shared->prefix);
    }
}

static bool adopt(struct hr_plan *plan, struct hr_guide *guide, struct hr_iteration *iteration)
{
    struct hr_tables *tables = guide->tables;
    for (unsigned t = 0; t < HR_TABLES_MAX && iteration->table < 0; t++) {
        if (tables->tables[t].tree && agrees(iteration, t, AGREE_FACTOR)) {
            iteration->table = (int)t;
            iteration->own = false;
            guide->adopted = true;
            confirm(plan, guide, &tables->tables[t]);
        }
    }
    return iteration->table >= 0;
}

/* What the batch's opens that were not compared yet say of each table. */
static void compare(struct hr_tables *tables, struct hr_iteration *iteration, struct hr_told *told)
{
    for (; told->compared < told->opened; told->compared++) {
        uint32_t at = told->compared;
        for (unsigned t = 0; t < HR_TABLES_MAX; t++) {
            const struct hr_table *table = &tables->tables[t];
            if (table->tree != told->tree || table->gen != told->gen || at / table->files >= told->count) {
                continue;
            }
            uint32_t entry = hr_table_entry(table, told->indices[at / table->files], at % table->files);
            iteration->right[t] += entry == told->opens[at];
            iteration->wrong[t] += entry != HR_TABLE_NONE && entry != told->opens[at];
        }
    }
}

/* Two ranks' tables, or those of two epochs that were left early, turn out to be one. */
static void merge(struct hr_plan *plan, struct hr_guide *guide, struct hr_iteration *iteration)
{
    struct hr_tables *tables = guide->tables;
    for (unsigned t = 0; t < HR_TABLES_MAX; t++) {
        int from = iteration->table;
        if ((int)t == from || !tables->tables[t].tree || !agrees(iteration, t, MERGE_FACTOR) ||
            !hr_table_merge(&tables->tables[t], &tables->tables[from])) {
            continue;
        }
        confirm(plan, guide, &tables->tables[t]);
        for (unsigned i = 0; i < HR_ITERATIONS_MAX; i++) {
            struct hr_iteration *one = &tables->iterations.all[i];
            one->own &= one->table != from;
            one->table = one->table == from ? (int)t : one->table;
            one->right[from] = one->wrong[from] = 0;
        }
    }
}

static int new_table(struct hr_tables *tables, const struct hr_told *told)
{
    unsigned place = 0;
    for (unsigned t = 0; t < HR_TABLES_MAX && tables->tables[place].tree; t++) {
        const struct hr_table *one = &tables->tables[t], *least = &tables->tables[place];
        bool sooner = one->confirmed != least->confirmed ? !one->confirmed : one->used_at < least->used_at;
        place = !one->tree || sooner ? t : place;
    }
    table_drop(tables, place);
    tables->tables[place] = (struct hr_table){.id = ++tables->last_table_id,
                                              .tree = told->tree,
                                              .gen = told->gen,
                                              .files = told->opened / told->count};
    return (int)place;
}

/* ---- learning ---- */

static uint64_t places_max(const struct hr_plan *plan, const struct hr_table *table)
{
    uint64_t most = (uint64_t)PLACES_A_FILE * table->tree->index.names->file_count + PLACES_LEAST;
    uint64_t others = 0;
    const struct hr_guide *guide, *next;
    HASH_ITER(hh, plan->guides, guide, next)
    {
        for (unsigned t = 0; guide->tables && t < HR_TABLES_MAX; t++) {
            others += &guide->tables->tables[t] != table ? guide->tables->tables[t].room : 0;
        }
    }
    uint64_t left = others < PLACES_MAX ? PLACES_MAX - others : 0;
    return most < left ? most : left;
}

static void learn(struct hr_plan *plan, struct hr_tables *tables, struct hr_iteration *iteration,
                  const struct hr_told *told)
{
    unsigned t = (unsigned)iteration->table;
    struct hr_table *table = &tables->tables[t];
    if (table->tree != told->tree || table->gen != told->gen ||
        table->files * told->count != told->opened) { /* one was read twice, or left out */
        return;
    }
    if (!iteration->own && iteration->wrong[t] > iteration->right[t]) {
        iteration->table = -1; /* it only seemed to be this one */
        return;
    }
    table->used_at = ++tables->clock;
    hr_table_learn(table, told, places_max(plan, table));
    if (table->differed > DIFFER_MAX && table->differed * DIFFER_FACTOR > table->agreed) {
        plan->stats.lookahead_dropped++;
        table_drop(tables, t);
    }
}

/* What waits to be understood does so in vain, and what was announced and not opened is not needed. */
static void set_over(struct hr_guide *guide, const struct hr_told *told)
{
    struct batch *batch;
    DL_FOREACH(guide->batches, batch)
    {
        batch->is_over |= batch->stream == told->stream && batch->number == told->number;
    }
}

/* Its worker is done with it. True: its queue has no base any more. */
static bool finish(struct hr_plan *plan, struct hr_guide *guide, struct hr_told *told)
{
    struct hr_tables *tables = guide->tables;
    struct hr_iteration *iteration = hr_iteration_find(&tables->iterations, told->iteration);
    const struct hr_names *names = told->tree ? told->tree->index.names : NULL;
    uint32_t files = told->opened / told->count;
    bool untied = hr_bases_told(plan, guide, told);
    if (untied && iteration) {
        compare(tables, iteration, told);
    }
    bool tells = iteration && names && names->gen == told->gen && told->opened % told->count == 0 &&
                 files > 0 && files <= HR_TABLE_FILES_MAX && !hr_stream_has_base(guide, told->stream);
    if (tells) {
        if (!adopt(plan, guide, iteration)) {
            iteration->table = new_table(tables, told);
            iteration->own = true;
        }
        merge(plan, guide, iteration);
        learn(plan, tables, iteration, told);
    }
    told_free(tables, told);
    return untied;
}

/* Those of the queue before that number, or all. The same answer. */
static bool finish_before(struct hr_plan *plan, struct hr_guide *guide, uint64_t stream, uint64_t iteration,
                          uint32_t number)
{
    struct hr_told *told, *next;
    bool untied = false;
    DL_FOREACH_SAFE(guide->tables->told, told, next)
    {
        if (told->stream == stream && (told->iteration != iteration || told->number < number)) {
            if (told->iteration == iteration) {
                set_over(guide, told);
            }
            untied |= finish(plan, guide, told);
        }
    }
    return untied;
}

int hr_tables_opened(struct hr_plan *plan, struct hr_guide *guide, struct hr_plan_tree *tree, uint32_t entry,
                     uint32_t tag)
{
    struct hr_tables *tables = guide->tables;
    struct hr_told *told = NULL;
    if (tables) {
        DL_SEARCH_SCALAR(tables->told, told, tag, tag);
    }
    if (!told) {
        return -ENOENT;
    }
    bool untied = false;
    if (told->opened == 0) {
        told->tree = tree;
        told->gen = tree->index.names->gen;
        untied = finish_before(plan, guide, told->stream, told->iteration, told->number);
    } else if (told->tree != tree || told->gen != tree->index.names->gen || told->opened > told->room ||
               told->opens[told->opened - 1] == entry) {
        return 0; /* a sample's file is often opened twice in a row */
    }
    struct hr_iteration *iteration = hr_iteration_find(&tables->iterations, told->iteration);
    if (told->opened++ == told->room) {
        return 0;
    }
    told->opens[told->opened - 1] = entry;
    if (!iteration || hr_stream_has_base(guide, told->stream)) {
        return untied;
    }
    compare(tables, iteration, told);
    bool adopted = iteration->table < 0 && adopt(plan, guide, iteration);
    if (iteration->table >= 0 && told->opened == tables->tables[iteration->table].files * told->count) {
        set_over(guide, told);
        (void)finish(plan, guide, told); /* the last one of a queue has none behind it */
    }
    return adopted || untied;
}

/* A worker without another batch may have been quicker than the announcement. */
static void take_early(struct hr_plan *plan, struct hr_guide *guide, uint32_t tag)
{
    struct hr_early_open *open;
    while ((open = hr_early_noted(&plan->early, tag))) {
        struct hr_plan_tree *tree = hr_tree_get(plan, open->tree);
        open->done = true;
        if (tree && tree->index.names && tree->index.names->gen == open->gen) {
            (void)hr_tables_opened(plan, guide, tree, open->entry, tag);
        }
    }
}

void hr_tables_announced(struct hr_plan *plan, struct hr_guide *guide, struct stream *stream,
                         const struct batch *batch)
{
    if (!guide->tables && !(guide->tables = calloc(1, sizeof *guide->tables))) {
        return;
    }
    struct hr_tables *tables = guide->tables;
    uint64_t last_id = tables->iterations.last_id;
    struct hr_iteration *iteration = hr_iteration_note(&tables->iterations, stream, batch->number);
    if (tables->iterations.last_id > last_id) { /* it begins */
        drop_old(tables);
    }
    (void)finish_before(plan, guide, stream->id, iteration->id, 0);
    hr_iteration_tie(stream, iteration, batch->number);
    uint32_t room = HR_TABLE_FILES_MAX * batch->count;
    uint32_t tag = hr_batch_tag(batch->number, batch->indices, batch->count);
    struct hr_told *told = stream->base < 0 || !stream->verdict.proven
                               ? malloc(sizeof *told + (batch->count + room) * sizeof told->indices[0])
                               : NULL;
    if (!told) {
        return;
    }
    *told = (struct hr_told){.stream = stream->id,
                             .iteration = iteration->id,
                             .number = batch->number,
                             .tag = tag,
                             .count = batch->count,
                             .room = room,
                             .opens = told->indices + batch->count};
    memcpy(told->indices, batch->indices, batch->count * sizeof told->indices[0]);
    tables->told_indices += told->count;
    DL_APPEND(tables->told, told);
    while (tables->told_indices > TOLD_INDICES_MAX) {
        told_free(tables, tables->told);
    }
    take_early(plan, guide, tag);
}

/* ---- going by it ---- */

bool hr_tables_deny(const struct hr_guide *guide, const struct stream *stream, const struct base *base)
{
    const struct hr_iteration *iteration =
        guide->tables ? hr_iteration_find(&guide->tables->iterations, stream->iteration) : NULL;
    const struct hr_table *table =
        iteration && iteration->table >= 0 ? &guide->tables->tables[iteration->table] : NULL;
    if (!table || table->tree != base->tree || table->gen != base->gen || table->known < DENY_LEAST) {
        return false;
    }
    uint32_t same = 0;
    for (uint64_t place = 0; place < table->room; place++) {
        uint32_t index = (uint32_t)(place / table->files);
        uint32_t entry = hr_table_entry(table, index, (uint32_t)(place % table->files));
        same += entry != HR_TABLE_NONE && hr_ranks_of(base->tree->ranks, entry) == hr_base_rank(base, index);
    }
    return same * DENY_FACTOR < table->known;
}

bool hr_tables_dataset(const struct hr_guide *guide, uint64_t stream, struct hr_dataset *ret,
                       uint32_t *ret_told)
{
    int place = hr_stream_place(guide, stream);
    uint64_t wanted = place < 0 ? 0 : guide->streams[place].iteration;
    const struct hr_iteration *iteration =
        guide->tables ? hr_iteration_find(&guide->tables->iterations, wanted) : NULL;
    struct hr_table *table =
        iteration && iteration->table >= 0 ? &guide->tables->tables[iteration->table] : NULL;
    if (!table || !hr_table_is_current(table) || !hr_base_ranks(table->tree)) {
        return false;
    }
    *ret = hr_dataset_of_table(table);
    *ret_told = iteration->next;
    return true;
}

/* Samples of it that its worker has opened. */
static uint32_t begun(const struct hr_guide *guide, const struct batch *batch, uint32_t files)
{
    const struct hr_told *told;
    DL_FOREACH(guide->tables->told, told)
    {
        if (told->stream == batch->stream && told->number == batch->number) {
            return told->opened / files;
        }
    }
    return 0;
}

struct batch *hr_tables_translate(const struct hr_guide *guide, const struct batch *batch,
                                  const struct hr_dataset *data)
{
    const struct hr_table *table = data->table;
    struct hr_ranks *ranks = table->tree->ranks;
    struct batch *ret = malloc(sizeof *ret + (size_t)batch->count * table->files * sizeof ret->indices[0]);
    if (!ret) {
        return NULL;
    }
    *ret = *batch;
    ret->by_table = true;
    ret->base = (struct base){.tree = table->tree, .gen = table->gen, .stride = 1};
    ret->count = ret->highest = 0;
    uint32_t missing = 0;
    for (uint32_t i = begun(guide, batch, table->files); i < batch->count; i++) {
        for (uint32_t file = 0; file < table->files; file++) {
            uint32_t entry = hr_table_entry(table, batch->indices[i], file);
            if (entry == HR_TABLE_NONE) {
                missing++;
                continue;
            }
            uint32_t rank = (uint32_t)hr_ranks_of(ranks, entry);
            ret->indices[ret->count++] = rank;
            ret->highest = rank > ret->highest ? rank : ret->highest;
        }
    }
    if (ret->count == 0 || ret->count < missing) { /* a base may explain all of it */
        free(ret);
        return NULL;
    }
    return ret;
}
