/* Bytes of large objects: which range answers a read, whether it is in the cache, and what is brought along.
 *
 * Ranges lie on the grid of cells. Reading on takes whole cells; a jump takes the pages it names, until a
 * cell has been asked for in so many pieces that all of it is cheaper; the end of an object, where archives
 * and columns keep their directories, is taken as it is. */
#include "fetch/plan/inner.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fetch/base/clock.h"
#include "fetch/base/least.h"
#include "fetch/plan/gaps.h"
#include "fetch/plan/shards.h"

#define HR_PIECE_BYTES (64u << 10)        /* the least that is asked for: latency outweighs it */
#define HR_TAIL_BYTES (1u << 20)          /* footers and central directories are in here */
#define HR_DENSE_SHARE 2                  /* of a cell is there or on its way: the rest comes, too */
#define HR_DENSE_PIECES 4                 /* side by side */
#define HR_SHARD_BYTES (128u << 20)       /* shards of samples are made of 64 MiB or so... */
#define HR_SHARD_PIECES 4                 /* ...and read in many pieces... */
#define HR_SHARD_PIECE_BYTES (256u << 10) /* ...that are small */
#define HR_WHOLE_CELLS 2                  /* objects of so many cells are not worth pieces */
/* A connection of a cloud carries some 90 MB/s, so a cell takes 93 ms more than its first byte. Of who begins
 * the first cells that are not there come on several; those behind them are in time as they are. */
#define HR_START_CELLS 2
#define HR_START_PARTS 4
#define HR_START_SHARE 4 /* while less than this part of `connections` is in flight or queued */

/* One read, checked. */
struct asked {
    struct hr_plan *plan;
    const struct hr_reader *reader;
    const struct hr_cached *face;
    struct hr_plan_tree *tree; /* fetches what is missing; NULL: nobody can */
    struct hr_segment_ask ask; /* bytes cut at the object's end, a tail's reach there */
};

static uint64_t page_down(uint64_t bytes)
{
    return bytes - bytes % HR_PAGE_BYTES;
}

static struct hr_range cell_of(const struct hr_cached *face, uint64_t offset)
{
    uint64_t first = offset - offset % HR_CELL_BYTES;
    uint64_t left = face->size - first;
    return (struct hr_range){first, left < HR_CELL_BYTES ? left : HR_CELL_BYTES};
}

static bool serves(const struct hr_plan_tree *tree, const struct hr_cached *face)
{
    uint32_t prefix_len = tree->shared->prefix_len;
    return hr_tree_has_source(tree, face->source) && face->key_len > prefix_len &&
           memcmp(tree->shared->prefix, hr_cached_key(face), prefix_len) == 0;
}

/* Whose credentials ask: the job's own tree of the object, else any of its bucket. */
static struct hr_plan_tree *tree_for(struct hr_plan *plan, const struct hr_reader *reader,
                                     const struct hr_cached *face)
{
    struct hr_plan_tree *tree = hr_tree_get(plan, reader->tree);
    if (tree && serves(tree, face)) {
        return tree;
    }
    const struct hr_context *context =
        reader->context < HR_CONTEXTS_MAX ? &plan->options.control->contexts[reader->context] : NULL;
    if (context && atomic_load_explicit(&context->ready, memory_order_acquire)) {
        for (uint32_t i = 0; i < context->map_count && i < HR_CONTEXT_MAPS_MAX; i++) {
            tree = hr_tree_get(plan, context->tree[i]);
            if (tree && serves(tree, face)) {
                return tree;
            }
        }
    }
    for (uint32_t i = 0; i < plan->tree_count; i++) {
        tree = plan->trees[i];
        if (hr_tree_has_source(tree, face->source)) {
            return tree;
        }
    }
    return NULL;
}

/* Pages from `first` on, `bytes` of them or HR_PIECE_BYTES, inside the cell. */
static struct hr_range piece(const struct hr_cached *face, uint64_t offset, uint64_t bytes)
{
    struct hr_range cell = cell_of(face, offset);
    uint64_t cell_end = cell.first + cell.bytes;
    uint64_t first = page_down(offset);
    uint64_t end = bytes < cell_end - offset ? page_down(offset + bytes + HR_PAGE_BYTES - 1) : cell_end;
    end = end < first + HR_PIECE_BYTES ? first + HR_PIECE_BYTES : end;
    if (end > cell_end) {
        end = cell_end;
    }
    if (end - first < HR_PIECE_BYTES) {
        uint64_t start = end > HR_PIECE_BYTES ? page_down(end - HR_PIECE_BYTES) : 0;
        first = start > cell.first ? start : cell.first;
    }
    return (struct hr_range){first, end - first};
}

struct pieces {
    unsigned count;
    uint64_t bytes;
};

/* Of a cell: there or on their way. */
static void add_pieces(const struct asked *asked, uint64_t offset, struct pieces *sum)
{
    unsigned count = 0;
    uint64_t bytes = 0;
    hr_cache_cell(asked->plan->cache, asked->face->file_id, offset, &count, &bytes);
    sum->count += count;
    sum->bytes += bytes;
    for (const struct hr_want *want = hr_want_cell(asked->tree, asked->face->file_id, offset); want;
         want = want->cell_next) {
        sum->count++;
        sum->bytes += want->size;
    }
}

/* Most of the cell was read, or it is read in one direction, as backwards: the rest costs less than asking
 * for it piece by piece. Pieces here and there stay exact, also where two of them meet. */
static bool is_dense(const struct asked *asked, struct hr_range next)
{
    struct pieces cell = {0};
    add_pieces(asked, asked->ask.offset, &cell);
    unsigned row =
        hr_cache_row(asked->plan->cache, asked->face->file_id, next.first, next.first + next.bytes);
    return cell.bytes * HR_DENSE_SHARE >= cell_of(asked->face, asked->ask.offset).bytes ||
           row >= HR_DENSE_PIECES;
}

/* Samples out of a shard, here and there: whole cells, and soon all of it. */
static bool is_shard(const struct asked *asked)
{
    const struct hr_cached *face = asked->face;
    struct pieces small = {0};
    if (face->size > HR_SHARD_BYTES || asked->ask.bytes > HR_SHARD_PIECE_BYTES) {
        return false;
    }
    for (uint64_t at = 0; at < face->size; at += HR_CELL_BYTES) {
        struct pieces cell = {0};
        add_pieces(asked, at, &cell);
        small.count += cell.bytes < cell_of(face, at).bytes ? cell.count : 0;
        small.bytes += cell.bytes < cell_of(face, at).bytes ? cell.bytes : 0;
    }
    return small.count >= HR_SHARD_PIECES && small.bytes <= (uint64_t)small.count * HR_SHARD_PIECE_BYTES;
}

/* What is asked for at once; *ret_rest: where what lacks comes, too, which nobody waits for yet. */
static struct hr_range range_for(const struct asked *asked, const struct hr_pattern *pattern,
                                 struct hr_range *ret_rest)
{
    const struct hr_cached *face = asked->face;
    uint64_t offset = asked->ask.offset;
    struct hr_range cell = cell_of(face, offset);
    *ret_rest = (struct hr_range){0};
    if (pattern->exact) {
        return piece(face, offset, asked->ask.bytes);
    }
    if (!pattern->cells && face->size > HR_WHOLE_CELLS * (uint64_t)HR_CELL_BYTES) {
        struct hr_range next = piece(face, offset, hr_most(pattern->piece_bytes, pattern->run_bytes));
        if (face->size - offset <= HR_TAIL_BYTES) {
            return piece(face, offset, asked->ask.bytes);
        }
        if (!is_dense(asked, next) && !is_shard(asked)) {
            return next;
        }
    }
    struct hr_range gap = hr_gap_around(asked->tree, face, cell, offset);
    *ret_rest = cell;
    if (pattern->cells) { /* who reads on has no use for what lies before it */
        uint64_t end = gap.first + gap.bytes;
        *ret_rest = (struct hr_range){end, cell.first + cell.bytes - end};
    }
    return gap;
}

/* Is all of it there, or on its way? So many cells ahead. */
static bool is_covered(const struct asked *asked, struct hr_range range, unsigned ahead)
{
    const struct hr_cached *there = hr_cache_segment(asked->plan->cache, asked->face->file_id, range.first);
    if (there && hr_cached_offset(there) + there->size >= range.first + range.bytes) {
        hr_cache_announced(asked->plan->cache, there->file_id); /* it is read next */
        return true;
    }
    struct hr_want *want = hr_want_cell(asked->tree, asked->face->file_id, range.first);
    while (want && !(want->first <= range.first && want->first + want->size >= range.first + range.bytes)) {
        want = want->cell_next;
    }
    hr_lane_near(want, ahead);
    return want != NULL;
}

/* It is asked for in parts, side by side, where there are connections to spare; *cells: for how many that may
 * be done yet. */
static void ask_in_parts(struct hr_plan *plan, struct hr_want *want, unsigned *cells)
{
    bool idle = plan->stats.in_flight + plan->stats.queued < plan->options.connections / HR_START_SHARE;
    bool new = want && want->state == HR_WANT_QUEUED && want->next_offset == 0 && !want->part_bytes;
    if (*cells > 0 && idle && new && want->size == HR_CELL_BYTES) {
        want->part_bytes = HR_CELL_BYTES / HR_START_PARTS;
        plan->stats.cells_in_parts++;
        --*cells;
    }
}

/* What lacks of a range in one cell, so many ahead. */
static void bring(const struct asked *asked, struct hr_range range, unsigned ahead, unsigned *in_parts)
{
    enum hr_reason reason = asked->reader->hint ? HR_REASON_HINT : HR_REASON_WINDOW;
    uint64_t end = range.first + range.bytes;
    struct hr_range gap = hr_gap_next(asked->tree, asked->face, range.first, end);
    while (gap.bytes > 0) {
        struct hr_want *want =
            hr_want_add_range(asked->tree, asked->face, HR_WANT_SEGMENT, reason, gap.first, gap.bytes);
        hr_lane_near(want, ahead);
        ask_in_parts(asked->plan, want, in_parts);
        gap = hr_gap_next(asked->tree, asked->face, gap.first + gap.bytes, end);
    }
}

/* The cells behind the one that was asked for: as far as the read goes, and the reader's window; the first of
 * them in parts, `in_parts` at most. How many cells of that are left at the object's end. */
static unsigned bring_ahead(const struct asked *asked, const struct hr_pattern *pattern, unsigned in_parts)
{
    const struct hr_cached *face = asked->face;
    uint64_t read_end = asked->ask.offset + hr_most(asked->ask.bytes, pattern->run_bytes);
    struct hr_range cell = cell_of(face, asked->ask.offset);
    uint64_t at = cell.first + HR_CELL_BYTES;
    bool far = read_end > at;
    if (!asked->tree || asked->tree->denied > 0 || (!far && pattern->ahead_cells == 0)) {
        return 0;
    }
    unsigned bound = far ? hr_window_bound(asked->plan) : pattern->ahead_cells, i = 0, none = 0;
    for (; i < bound && at < face->size; i++, at += HR_CELL_BYTES) {
        bool whole = i < pattern->ahead_cells || read_end >= at + HR_CELL_BYTES;
        if (!whole && read_end <= at) {
            return 0;
        }
        struct hr_range range = whole ? cell_of(face, at) : piece(face, at, read_end - at);
        if (!is_covered(asked, range, i + 1)) {
            bring(asked, range, i + 1, i < HR_START_CELLS ? &in_parts : &none);
        }
    }
    return pattern->to_end ? bound - i : 0;
}

/* What is left of a window goes into the object that is read next. */
static void go_on_behind(const struct asked *asked, uint64_t face_id, unsigned ahead, unsigned cells)
{
    if (cells > 0) {
        hr_shard_ahead(asked->tree, face_id, ahead, cells);
    }
}

static void answer_with(struct hr_plan *plan, const struct hr_asker *asker, const struct hr_cached *cached)
{
    hr_cache_handed(plan->cache, cached->file_id);
    struct hr_answer answer = {
        .kind = HR_KIND_FILE,
        .size = cached->size,
        .mtime_ns = cached->mtime_ns,
        .file_id = cached->file_id,
        .offset = cached->kind == HR_CACHED_SEGMENT ? hr_cached_offset(cached) : 0,
    };
    asker->fn(asker->owner, asker->ticket, &answer);
}

/* The one that holds the offset, its file checked; NULL: there is none. */
static const struct hr_cached *segment_there(const struct asked *asked)
{
    struct hr_cache *cache = asked->plan->cache;
    const struct hr_cached *there;
    while ((there = hr_cache_segment(cache, asked->face->file_id, asked->ask.offset)) &&
           !hr_open_file_is_there(asked->plan, there)) {
        hr_cache_drop(cache, there->file_id);
    }
    return there;
}

/* Nobody may ask for what is missing. */
static bool is_refused(const struct asked *asked, const struct hr_asker *asker)
{
    if (!asked->tree || hr_tree_denied(asked->tree)) {
        hr_answer_error(asker, asked->tree ? -EACCES : -EIO);
        return true;
    }
    return false;
}

static void wait_for(struct hr_want *want, const struct hr_asker *asker)
{
    if (!want) {
        hr_answer_error(asker, -ENOMEM);
        return;
    }
    if (!want->asked_us) {
        want->asked_us = hr_clock_us();
    }
    hr_waiters_add(&want->waiters, asker);
}

/* A jump to the end, where it was not there: the end of the next one may be brought along. */
static void note_tail(const struct asked *asked, const struct hr_pattern *pattern)
{
    uint64_t left = asked->face->size - asked->ask.offset;
    if (!asked->reader->hint && !pattern->cells && left <= HR_TAIL_BYTES &&
        asked->face->size > HR_WHOLE_CELLS * (uint64_t)HR_CELL_BYTES) {
        hr_tail_missed(asked->tree, left);
    }
}

static void ask_segment(const struct asked *asked, const struct hr_asker *asker)
{
    struct hr_plan *plan = asked->plan;
    uint64_t face_id = asked->face->file_id, offset = asked->ask.offset;
    unsigned left = (unsigned)((asked->face->size - 1) / HR_CELL_BYTES - offset / HR_CELL_BYTES);
    struct hr_pattern pattern;
    hr_window_note(plan, asked->reader, &asked->ask, &pattern);
    unsigned in_parts = pattern.begins && !asked->reader->hint ? HR_START_CELLS : 0;
    const struct hr_cached *there = segment_there(asked);
    if (there) {
        if (!asked->reader->hint) {
            hr_head_read(plan, face_id, true);
            plan->stats.segment_hits++;
            hr_tree_file_used(plan, there->file_id);
        }
        hr_cache_touch(plan->cache, there->file_id);
        hr_window_served(plan, asked->reader, face_id, hr_cached_offset(there) + there->size);
        unsigned beyond = bring_ahead(asked, &pattern, in_parts);
        answer_with(plan, asker, there); /* nothing was started yet: it is still there */
        go_on_behind(asked, face_id, left, beyond);
        hr_plan_pump(plan);
        return;
    }
    if (is_refused(asked, asker)) {
        return;
    }
    enum hr_reason reason = asked->reader->hint ? HR_REASON_HINT : HR_REASON_DEMAND;
    plan->stats.segment_misses += !asked->reader->hint;
    struct hr_want *want = hr_want_cell(asked->tree, face_id, offset);
    while (want && (offset < want->first || offset >= want->first + want->size)) {
        want = want->cell_next;
    }
    if (!asked->reader->hint) {
        hr_head_read(plan, face_id, want != NULL);
    }
    if (want) {
        hr_want_promote(want, reason);
    } else {
        note_tail(asked, &pattern);
        struct hr_range rest, range = range_for(asked, &pattern, &rest);
        want = hr_want_add_range(asked->tree, asked->face, HR_WANT_SEGMENT, reason, range.first, range.bytes);
        ask_in_parts(plan, want, &in_parts);
        bring(asked, rest, 0, &in_parts);
    }
    if (want) {
        hr_window_served(plan, asked->reader, face_id, want->first + want->size);
    }
    if (!asked->reader->hint || !want) {
        wait_for(want, asker);
    }
    go_on_behind(asked, face_id, left, bring_ahead(asked, &pattern, in_parts));
    hr_plan_pump(plan);
}

static void ask_whole(const struct asked *asked, const struct hr_asker *asker)
{
    struct hr_plan *plan = asked->plan;
    const struct hr_cached *face = asked->face;
    struct hr_cache_stats cache;
    hr_cache_stats(plan->cache, &cache);
    if (is_refused(asked, asker)) {
        return;
    }
    if (face->size > cache.budget_bytes) {
        char message[HR_MESSAGE_MAX];
        snprintf(message, sizeof message,
                 "%s/%.*s: %llu bytes are needed in one file, more than the cache may hold (cache_size %llu)",
                 hr_store_bucket(asked->tree->store), (int)(face->key_len < 160 ? face->key_len : 160),
                 hr_cached_key(face), (unsigned long long)face->size, (unsigned long long)cache.budget_bytes);
        hr_tree_say(asked->tree, -ENOSPC, message);
        hr_answer_error(asker, -ENOSPC);
        return;
    }
    wait_for(hr_want_add_range(asked->tree, face, HR_WANT_WHOLE, HR_REASON_DEMAND, 0, face->size), asker);
    hr_plan_pump(plan);
}

/* What others read is not given up for one that is done with it. */
static void heed(struct hr_plan *plan, const struct hr_reader *reader, const struct hr_segment_ask *ask)
{
    plan->stats.hints[reader->hint]++;
    if (reader->hint != HR_HINT_DONTNEED) {
        hr_window_advise(plan, reader, ask->face_id);
    } else if (!hr_window_shared(plan, reader, ask->face_id)) {
        plan->stats.hints_unneeded += hr_cache_unneeded(plan->cache, ask->face_id, ask->offset, ask->bytes);
    }
}

void hr_plan_segment(struct hr_plan *plan, const struct hr_reader *reader, const struct hr_segment_ask *ask,
                     bool whole, const struct hr_asker *asker)
{
    if (plan->ending || !plan->cache) {
        hr_answer_error(asker, -ECANCELED);
        return;
    }
    const struct hr_cached *face = hr_cache_by_id(plan->cache, ask->face_id);
    if (!face || face->kind != HR_CACHED_FACE) {
        hr_answer_error(asker, -ESTALE);
        return;
    }
    if ((!whole && ask->offset >= face->size) || ask->bytes == 0) {
        hr_answer_error(asker, -EINVAL);
        return;
    }
    if (reader->hint > HR_HINT_WILLNEED) {
        heed(plan, reader, ask);
        return;
    }
    plan->stats.hints[HR_HINT_WILLNEED] += reader->hint == HR_HINT_WILLNEED;
    struct asked asked = {.plan = plan, .reader = reader, .face = face, .ask = *ask};
    uint64_t left = ask->offset < face->size ? face->size - ask->offset : 0;
    asked.ask.bytes = ask->bytes < left && left > HR_TAIL_BYTES ? ask->bytes : left;
    asked.tree = tree_for(plan, reader, face);
    hr_cache_touch(plan->cache, face->file_id);
    const struct hr_cached *object =
        hr_cache_find(plan->cache, face->source, hr_cached_key(face), face->key_len, hr_cached_etag(face));
    if (object && !hr_open_file_is_there(plan, object)) {
        hr_cache_drop(plan->cache, object->file_id);
        object = NULL;
    }
    if (object) {
        plan->stats.segment_hits++;
        hr_tree_file_used(plan, object->file_id);
        hr_cache_touch(plan->cache, object->file_id);
        answer_with(plan, asker, object);
    } else if (whole) {
        ask_whole(&asked, asker);
    } else {
        ask_segment(&asked, asker);
    }
}
