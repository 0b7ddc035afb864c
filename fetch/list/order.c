/* Keys of a builder into the order of the file: sorted by directory, doubles and shadowed ones out. */
#include "fetch/list/builder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/base/cleanup.h"

/* ---- comparing ---- */

static int compare_names(const struct hr_index_builder *builder, uint32_t a, uint32_t b)
{
    const struct hr_entry *left = &builder->entries[a];
    const struct hr_entry *right = &builder->entries[b];
    size_t len = left->name_len < right->name_len ? left->name_len : right->name_len;

    int order =
        memcmp(builder->text + hr_build_name_offset(left), builder->text + hr_build_name_offset(right), len);
    return order != 0 ? order : (int)left->name_len - (int)right->name_len;
}

/* By name; of one name a file before the directory, the older file before the newer. Never equal. */
static int compare(const struct hr_index_builder *builder, uint32_t a, uint32_t b)
{
    int order = compare_names(builder, a, b);
    if (order != 0) {
        return order;
    }
    order = (int)builder->entries[a].kind - (int)builder->entries[b].kind;
    return order != 0 ? order : (a > b) - (a < b);
}

_Static_assert((int)HR_KIND_FILE < (int)HR_KIND_DIR, "the directory is the last of its name");

static int compare_fn(const void *a, const void *b, void *builder)
{
    return compare(builder, *(const uint32_t *)a, *(const uint32_t *)b);
}

/* ---- sorting one directory ---- */

/* A listing comes in pages that are sorted, from one lane in order or from many lanes in pieces: long runs,
 * mostly one behind the other. */
struct run {
    uint32_t *at;
    size_t len;
};

struct run_owner {
    const struct hr_index_builder *builder;
};

static int compare_runs_fn(const void *a, const void *b, void *owner)
{
    const struct run *left = a;
    const struct run *right = b;
    return compare(((const struct run_owner *)owner)->builder, left->at[0], right->at[0]);
}

/* Start of the run behind the one that starts at `from`. */
static size_t run_end(const struct hr_index_builder *builder, const uint32_t *numbers, size_t from,
                      size_t count)
{
    size_t end = from + 1;
    while (end < count && compare(builder, numbers[end - 1], numbers[end]) < 0) {
        end++;
    }
    return end;
}

static void merge(const struct hr_index_builder *builder, const struct run *a, const struct run *b,
                  uint32_t *to)
{
    size_t i = 0;
    size_t j = 0;

    if (compare(builder, a->at[a->len - 1], b->at[0]) > 0) {
        while (i < a->len && j < b->len) {
            *to++ = compare(builder, a->at[i], b->at[j]) < 0 ? a->at[i++] : b->at[j++];
        }
    }
    memcpy(to, a->at + i, (a->len - i) * sizeof(*to));
    memcpy(to + (a->len - i), b->at + j, (b->len - j) * sizeof(*to));
}

/* Neighbours become one, until one is left. Leaves it in numbers; spare has as much room. */
static void merge_all(const struct hr_index_builder *builder, struct run *runs, size_t run_count,
                      uint32_t *numbers, uint32_t *spare, size_t count)
{
    uint32_t *from = numbers;
    uint32_t *to = spare;

    while (run_count > 1) {
        size_t merged = 0;
        uint32_t *end = to;
        for (size_t i = 0; i < run_count; i += 2) {
            struct run none = {.at = NULL};
            const struct run *next = i + 1 < run_count ? &runs[i + 1] : &none;
            struct run joined = {end, runs[i].len + next->len};
            if (next->len > 0) {
                merge(builder, &runs[i], next, end);
            } else {
                memcpy(end, runs[i].at, runs[i].len * sizeof(*end));
            }
            end += joined.len;
            runs[merged++] = joined;
        }
        run_count = merged;
        uint32_t *old = from;
        from = to;
        to = old;
    }
    if (from != numbers) {
        memcpy(numbers, from, count * sizeof(*numbers));
    }
}

/* Puts the runs in order of their first names, in spare, and joins those that follow one another. */
static size_t line_up(const struct hr_index_builder *builder, struct run *runs, size_t run_count,
                      uint32_t *spare)
{
    struct run_owner owner = {builder};
    uint32_t *end = spare;
    size_t lined = 0;

    qsort_r(runs, run_count, sizeof(*runs), compare_runs_fn, &owner);
    for (size_t i = 0; i < run_count; i++) {
        struct run moved = {end, runs[i].len};
        memcpy(end, runs[i].at, moved.len * sizeof(*end));
        if (lined > 0 && compare(builder, end[-1], end[0]) < 0) {
            runs[lined - 1].len += moved.len;
        } else {
            runs[lined++] = moved;
        }
        end += moved.len;
    }
    return lined;
}

static int sort_runs(struct hr_index_builder *builder, uint32_t *numbers, size_t count, size_t run_count)
{
    hr_cleanup_free struct run *runs = calloc(run_count, sizeof(*runs));
    hr_cleanup_free uint32_t *spare = calloc(count, sizeof(*spare));
    size_t found = 0;

    if (runs == NULL || spare == NULL) {
        return -ENOMEM;
    }
    for (size_t from = 0; from < count;) {
        size_t end = run_end(builder, numbers, from, count);
        runs[found++] = (struct run){numbers + from, end - from};
        from = end;
    }
    found = line_up(builder, runs, found, spare);
    memcpy(numbers, spare, count * sizeof(*numbers));
    for (size_t i = 0; i < found; i++) {
        runs[i].at = numbers + (runs[i].at - spare);
    }
    merge_all(builder, runs, found, numbers, spare, count);
    return 0;
}

static int sort_group(struct hr_index_builder *builder, uint32_t *numbers, size_t count)
{
    size_t run_count = 0;

    for (size_t from = 0; from < count; run_count++) {
        from = run_end(builder, numbers, from, count);
    }
    if (run_count <= 1) {
        return 0;
    }
    /* Short runs: no order to make use of. */
    if (run_count > count / 4) {
        qsort_r(numbers, count, sizeof(*numbers), compare_fn, builder);
        return 0;
    }
    return sort_runs(builder, numbers, count, run_count);
}

/* ---- grouping ---- */

static void hide_shadowed(struct hr_index_builder *builder, uint32_t number)
{
    char path[HR_KEY_MAX];
    size_t at = sizeof(path);

    /* It came as a key, so it fits. */
    for (uint32_t n = number; n != 0; n = builder->dirs[builder->parents[n]].entry) {
        const struct hr_entry *entry = &builder->entries[n];
        if (n != number) {
            path[--at] = '/';
        }
        at -= entry->name_len;
        memcpy(path + at, builder->text + hr_build_name_offset(entry), entry->name_len);
    }
    hr_builder_hide(builder, HR_HIDDEN_SHADOWED, path + at, sizeof(path) - at);
}

/* One entry a name stays: the directory, else the newest. */
static uint32_t drop_doubles(struct hr_index_builder *builder, uint32_t *numbers, uint32_t count)
{
    uint32_t kept = 0;

    for (uint32_t from = 0; from < count;) {
        uint32_t last = from;
        while (last + 1 < count && compare_names(builder, numbers[from], numbers[last + 1]) == 0) {
            last++;
        }
        if (last > from && builder->entries[numbers[last]].kind == HR_KIND_DIR) {
            hide_shadowed(builder, numbers[from]);
        }
        numbers[kept++] = numbers[last];
        from = last + 1;
    }
    return kept;
}

/* Counting sort by parent; within a group in order of arrival. The root is nobody's child. */
static void group(const struct hr_index_builder *builder, struct hr_build_order *order)
{
    uint64_t next = 0;

    for (size_t n = 1; n < builder->entry_count; n++) {
        order->count[builder->parents[n]]++;
    }
    for (size_t dir = 0; dir < builder->dir_count; dir++) {
        order->start[dir] = next;
        next += order->count[dir];
        order->count[dir] = 0;
    }
    for (size_t n = 1; n < builder->entry_count; n++) {
        uint32_t parent = builder->parents[n];
        order->sorted[order->start[parent] + order->count[parent]++] = (uint32_t)n;
    }
}

/* ---- numbering ---- */

/* Depth first: a directory takes its children's numbers in one piece, then its child directories come one
 * after the other, each with all that is below it. */
static void number_dirs(const struct hr_index_builder *builder, struct hr_build_order *order, uint32_t *stack)
{
    size_t depth = 0;
    uint32_t place = 0;
    uint64_t next = 1;

    stack[depth++] = 0;
    while (depth > 0) {
        uint32_t dir = stack[--depth];
        order->dirs[place] = dir;
        order->place[dir] = place++;
        order->first[dir] = (uint32_t)next;
        next += order->count[dir];
        for (uint32_t n = order->count[dir]; n-- > 0;) {
            const struct hr_entry *child = &builder->entries[order->sorted[order->start[dir] + n]];
            if (child->kind == HR_KIND_DIR) {
                stack[depth++] = (uint32_t)child->size;
            }
        }
    }
    order->seen = next;
}

void hr_build_order_release(struct hr_build_order *order)
{
    free(order->sorted);
    free(order->start);
    free(order->count);
    free(order->place);
    free(order->first);
    free(order->dirs);
    *order = (struct hr_build_order){.seen = 0};
}

int hr_build_order(struct hr_index_builder *builder, struct hr_build_order *ret)
{
    size_t dirs = builder->dir_count;
    hr_cleanup(hr_build_order_release) struct hr_build_order order = {
        .sorted = calloc(builder->entry_count, sizeof(uint32_t)),
        .start = calloc(dirs, sizeof(uint64_t)),
        .count = calloc(dirs, sizeof(uint32_t)),
        .place = calloc(dirs, sizeof(uint32_t)),
        .first = calloc(dirs, sizeof(uint32_t)),
        .dirs = calloc(dirs, sizeof(uint32_t)),
    };
    hr_cleanup_free uint32_t *stack = calloc(dirs, sizeof(*stack));

    if (order.sorted == NULL || order.start == NULL || order.count == NULL || order.place == NULL ||
        order.first == NULL || order.dirs == NULL || stack == NULL) {
        return -ENOMEM;
    }
    group(builder, &order);
    for (size_t dir = 0; dir < dirs; dir++) {
        uint32_t *numbers = order.sorted + order.start[dir];
        int rc = sort_group(builder, numbers, order.count[dir]);
        if (rc < 0) {
            return rc;
        }
        order.count[dir] = drop_doubles(builder, numbers, order.count[dir]);
    }
    number_dirs(builder, &order, stack);
    *ret = order;
    order = (struct hr_build_order){.seen = 0};
    return 0;
}
