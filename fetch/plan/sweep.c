/* The sweep: once a program reads, the rest of the map in listing order behind it, never so far ahead that a
 * program which wanted a few files pays for all of them. Objects above small_max are left out, here and in
 * look-ahead: nobody knows which part of them is wanted (window.c knows when they are read). */
#include "fetch/plan/inner.h"

#include <errno.h>
#include <utlist.h>

#include "fetch/base/clock.h"
#include "fetch/plan/replay.h"
#include "fetch/store/width.h"

#define HR_SWEEP_AFTER_OPENS 16 /* fewer distinct opens are a look around, not an epoch */
/* ...but so many in no order of the listing's are how an epoch begins, which each round trip before the sweep
 * makes longer: it may be worth this much. */
#define HR_SWEEP_SHUFFLED_OPENS 5
#define HR_SWEEP_SHUFFLED_BYTES (64ull << 20)
#define HR_SWEEP_AHEAD_BYTES (1ull << 30) /* egress: this much... */
#define HR_SWEEP_AHEAD_FACTOR 4           /* ...and so many times what was asked for */
/* Announced objects fill at most this part of the cache before they are used. */
#define HR_ANNOUNCED_SHARE 2
/* What is announced where not all fits: from this part of the cache, as programs wait for it, to that part of
 * the data, which is so many hits less an epoch, but never above the last part of the cache. 6,400 x 110 KB,
 * 4 workers, 30 ms away, a tenth cached: 1,250 files/s; with a 32nd of the cache 500. */
#define HR_KEEP_LEAST 64
#define HR_KEEP_COST 128
#define HR_KEEP_MOST 4
#define HR_KEEP_OBJECTS 4
#define HR_KEEP_EASE 16        /* so many that came in time make up for one that did not */
#define HR_AHEAD_LOOK_MS 4     /* between two looks at what was opened, while there is no room... */
#define HR_AHEAD_LOOKS 50      /* ...until so many found nothing; then the heartbeat looks */
#define HR_PARTIAL_SHARE 2     /* of the cache, for the sweep of a map that does not fit into it */
#define HR_SWEEP_SCAN 65536    /* entries looked at in one go, a millisecond: the loop must not stall */
#define HR_SWEEP_PAUSE_MS 5000 /* after a failure: a store in trouble is left to those who wait */

static bool is_large(const struct hr_plan_tree *tree, const struct hr_entry *entry)
{
    return entry->size > tree->plan->options.small_max_bytes;
}

static void ease(struct hr_plan *plan, uint64_t size)
{
    uint64_t less = size / HR_KEEP_EASE;
    plan->ahead_room_bytes -= less < plan->ahead_room_bytes ? less : plan->ahead_room_bytes;
}

void hr_sweep_unmark(struct hr_plan_tree *tree, uint32_t entry)
{
    uint64_t size = tree->index.entries[entry].size;
    if (tree->marks[entry] & HR_ENTRY_GUESSED) {
        tree->guessed_bytes -= size < tree->guessed_bytes ? size : tree->guessed_bytes;
    }
    tree->marks[entry] &= (uint8_t) ~(HR_ENTRY_SWEPT | HR_ENTRY_GUESSED);
}

void hr_sweep_used(struct hr_plan_tree *tree, uint32_t entry)
{
    uint8_t *mark = &tree->marks[entry];
    const struct hr_entry *known = &tree->index.entries[entry];
    uint64_t size = known->size;
    if (*mark & HR_ENTRY_SWEPT) {
        tree->swept_used_bytes += size;
        tree->plan->stats.swept_used++;
        tree->plan->stats.swept_used_bytes += size;
        ease(tree->plan, size);
        hr_sweep_unmark(tree, entry);
    }
    if (*mark & HR_ENTRY_USED) {
        return;
    }
    tree->opens++;
    tree->demanded_bytes += is_large(tree, known) ? 0 : size; /* of those: what is read (outcome.c) */
    *mark |= HR_ENTRY_USED;
}

void hr_sweep_failed(struct hr_want *want, int error)
{
    struct hr_plan_tree *tree = want->tree;
    uint32_t entry;
    if (hr_tree_entry_of(tree, want->key, want->key_len, &entry)) {
        hr_sweep_unmark(tree, entry);
    }
    tree->swept_bytes -= want->size < tree->swept_bytes ? want->size : tree->swept_bytes;
    tree->sweep_done |= error == -ENOSPC;
    tree->sweep_after_ms = hr_clock_ms() + (error == -ENOENT || error == -ESTALE ? 0 : HR_SWEEP_PAUSE_MS);
}

/* Bytes brought or on their way that nobody has opened. */
static uint64_t ahead_bytes(const struct hr_plan_tree *tree)
{
    return tree->swept_bytes > tree->swept_used_bytes ? tree->swept_bytes - tree->swept_used_bytes : 0;
}

/* Those of them that somebody announced: what was guessed and not opened takes none of their room. */
static uint64_t told_bytes(const struct hr_plan_tree *tree)
{
    uint64_t ahead = ahead_bytes(tree);
    return ahead > tree->guessed_bytes ? ahead - tree->guessed_bytes : 0;
}

static bool may_sweep(const struct hr_plan_tree *tree)
{
    return tree->settings.prefetch && tree->index.names && !tree->sweep_done && !tree->sweep_rests &&
           tree->opens >= (tree->shuffled ? HR_SWEEP_SHUFFLED_OPENS : HR_SWEEP_AFTER_OPENS) &&
           tree->denied == 0 && !hr_replay_leads(tree) &&
           (tree->sweep_after_ms == 0 || tree->sweep_after_ms <= hr_clock_ms());
}

/* What all programs have opened and what was brought for them: as long as it fits, what leaves the cache for
 * it is older than all of it. */
static uint64_t footprint_bytes(const struct hr_plan *plan)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < plan->tree_count; i++) {
        bytes += plan->trees[i]->demanded_bytes + ahead_bytes(plan->trees[i]);
    }
    return bytes;
}

static uint64_t ahead_max_bytes(const struct hr_plan_tree *tree)
{
    return HR_SWEEP_AHEAD_BYTES + HR_SWEEP_AHEAD_FACTOR * tree->demanded_bytes;
}

/* An object that nobody waits for yet. NULL: somebody brings it already, or no memory. */
static struct hr_want *bring(struct hr_plan_tree *tree, uint32_t number, enum hr_reason reason)
{
    const struct hr_entry *entry = &tree->index.entries[number];
    char path[HR_KEY_MAX + 1];
    char etag[136];
    int len = hr_index_path(&tree->index, number, path, sizeof path);
    if (len < 0 || hr_index_etag(&tree->index, number, etag, sizeof etag) < 0) {
        return NULL;
    }
    struct hr_want *want = hr_want_find(tree, path, (uint32_t)len);
    if (want) {
        hr_want_promote(want, reason);
        return NULL;
    }
    want = hr_want_add(tree, path, (uint32_t)len, reason, entry->size, entry->mtime_ns, etag);
    if (want) {
        tree->swept_bytes += entry->size;
        tree->marks[number] |= HR_ENTRY_SWEPT;
        if (reason == HR_REASON_SWEEP) {
            tree->marks[number] |= HR_ENTRY_GUESSED;
            tree->guessed_bytes += entry->size;
        }
    }
    return want;
}

static uint64_t data_bytes(const struct hr_plan *plan)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < plan->tree_count; i++) {
        bytes += plan->trees[i]->index.names ? plan->trees[i]->index.names->object_bytes : 0;
    }
    return bytes;
}

/* What is announced takes its room out of the set that is kept, so beside one only as much of it is there as
 * hides the latency: more when programs wait for it all the same, less as it comes in time. */
static uint64_t announced_max_bytes(struct hr_plan *plan, uint64_t size)
{
    struct hr_cache_stats cache;
    hr_cache_stats(plan->cache, &cache);
    uint64_t most = cache.budget_bytes / HR_ANNOUNCED_SHARE;
    uint64_t data = data_bytes(plan);
    if (!cache.keeps_set && (cache.evictions == 0 || data <= cache.budget_bytes)) {
        return most;
    }
    uint64_t high = data / HR_KEEP_COST, highest = cache.budget_bytes / HR_KEEP_MOST;
    uint64_t room = plan->ahead_room_bytes, low = cache.budget_bytes / HR_KEEP_LEAST;
    high = high > highest ? highest : high;
    room = room > high ? high : room;
    room = room < low ? low : room;
    plan->ahead_room_bytes = room;
    room = room < HR_KEEP_OBJECTS * size ? HR_KEEP_OBJECTS * size : room;
    return room < most ? room : most;
}

void hr_sweep_late(struct hr_plan_tree *tree, uint32_t entry)
{
    if (tree->marks[entry] & HR_ENTRY_ANNOUNCED) {
        tree->plan->stats.lookahead_late++;
        tree->plan->ahead_room_bytes += tree->index.entries[entry].size;
    }
}

bool hr_sweep_keep(struct hr_plan_tree *tree, uint32_t entry)
{
    struct hr_state *state = &tree->states->states[entry];
    bool there = HR_STATE_KIND(atomic_load_explicit(&state->word, memory_order_relaxed)) == HR_STATE_RESIDENT;
    if (there) {
        hr_cache_announced(tree->plan->cache, atomic_load_explicit(&state->file_id, memory_order_relaxed));
    }
    return there;
}

static void look_for_room(void *owner)
{
    struct hr_plan *plan = owner;
    hr_tree_drain_all(plan);
    if (plan->ahead_due) {
        hr_plan_pump(plan);
    } else if (++plan->ahead_idle < HR_AHEAD_LOOKS) {
        (void)hr_loop_arm(plan->options.loop, &plan->ahead_timer, HR_AHEAD_LOOK_MS);
    }
}

/* A small room would be used once a heartbeat, if what is opened in it were only heard of then. */
void hr_sweep_await_room(struct hr_plan *plan)
{
    if (!plan->ahead_timer.fn) {
        plan->ahead_timer = (struct hr_timer)HR_TIMER_INIT(look_for_room, plan);
    }
    if (plan->ahead_timer.heap_index < 0) {
        plan->ahead_idle = 0;
        (void)hr_loop_arm(plan->options.loop, &plan->ahead_timer, HR_AHEAD_LOOK_MS);
    }
}

void hr_sweep_end(struct hr_plan *plan)
{
    if (plan->ahead_timer.fn) {
        hr_loop_disarm(plan->options.loop, &plan->ahead_timer);
    }
}

bool hr_sweep_ahead(struct hr_plan_tree *tree, uint32_t number, enum hr_reason reason)
{
    const struct hr_entry *entry = &tree->index.entries[number];
    uint32_t word = atomic_load_explicit(&tree->states->states[number].word, memory_order_relaxed);
    if (hr_sweep_keep(tree, number) || HR_STATE_KIND(word) != HR_STATE_ABSENT || is_large(tree, entry)) {
        return true;
    }
    if (tree->denied > 0 || (tree->sweep_after_ms > 0 && tree->sweep_after_ms > hr_clock_ms()) ||
        ahead_bytes(tree) + entry->size > ahead_max_bytes(tree) ||
        (reason != HR_REASON_REPLAY && /* which knows better what is ahead of it */
         told_bytes(tree) + entry->size > announced_max_bytes(tree->plan, entry->size))) {
        hr_sweep_await_room(tree->plan);
        return false;
    }
    (void)bring(tree, number, reason);
    return true;
}

void hr_sweep_abandon(struct hr_plan_tree *tree, uint32_t number)
{
    const struct hr_entry *entry = &tree->index.entries[number];
    const struct hr_state *state = &tree->states->states[number];
    bool swept = tree->marks[number] & HR_ENTRY_SWEPT;
    hr_sweep_unmark(tree, number);
    tree->marks[number] &= (uint8_t)~HR_ENTRY_ANNOUNCED;
    if (HR_STATE_KIND(atomic_load_explicit(&state->word, memory_order_relaxed)) == HR_STATE_RESIDENT) {
        hr_cache_abandoned(tree->plan->cache, atomic_load_explicit(&state->file_id, memory_order_relaxed));
    }
    if (!swept) {
        return;
    }
    char path[HR_KEY_MAX + 1];
    int len = hr_index_path(&tree->index, number, path, sizeof path);
    struct hr_want *want = len > 0 ? hr_want_find(tree, path, (uint32_t)len) : NULL;
    if (want && want->reason == HR_REASON_LOOKAHEAD && want->state == HR_WANT_QUEUED && !want->waiters &&
        !want->put && want->calls == 0) {
        hr_want_end(want);
    }
    tree->swept_bytes -= entry->size < tree->swept_bytes ? entry->size : tree->swept_bytes;
    tree->plan->stats.lookahead_abandoned++;
    tree->plan->ahead_due = true;
}

/* Not yet asked for: it is as if the sweep had not come to it. */
static void take_back(struct hr_want *want)
{
    struct hr_plan_tree *tree = want->tree;
    uint32_t entry, count = (uint32_t)tree->index.names->entry_count;
    if (!hr_tree_entry_of(tree, want->key, want->key_len, &entry)) {
        return;
    }
    uint32_t at = (uint32_t)(((uint64_t)entry + count - tree->sweep_first) % count);
    tree->sweep_done &= tree->sweep_cursor < count;
    tree->sweep_cursor = at < tree->sweep_cursor ? at : tree->sweep_cursor;
    tree->swept_bytes -= want->size < tree->swept_bytes ? want->size : tree->swept_bytes;
    hr_sweep_unmark(tree, entry);
    hr_want_end(want);
}

void hr_plan_tree_left(struct hr_plan *plan, uint32_t number)
{
    struct hr_plan_tree *tree = hr_tree_get(plan, number);
    if (!tree || !tree->index.names) {
        return;
    }
    tree->sweep_rests = true;
    struct hr_lane *lane;
    DL_FOREACH(plan->lanes, lane)
    {
        struct hr_want *want, *next;
        DL_FOREACH_SAFE(lane->queue[HR_REASON_SWEEP], want, next)
        {
            if (want->tree == tree && !want->waiters && !want->put && want->calls == 0) {
                take_back(want);
            }
        }
    }
}

void hr_sweep_shuffled(struct hr_plan_tree *tree, uint32_t lowest, uint32_t highest)
{
    const struct hr_index *index = &tree->index;
    tree->shuffled = true;
    if (tree->sweep_cursor == 0) { /* then from the directory that holds all that was opened */
        uint32_t dir = hr_index_parent(index, lowest);
        while (dir != 0 && hr_index_end(index, index->dirs[dir].entry) <= highest) {
            dir = index->dirs[dir].parent < dir ? index->dirs[dir].parent : 0;
        }
        tree->sweep_first = index->dirs[dir].first;
    }
}

static struct hr_want *next_of(struct hr_plan_tree *tree)
{
    struct hr_cache_stats cache;
    hr_cache_stats(tree->plan->cache, &cache);
    uint64_t ahead_max = tree->opens < HR_SWEEP_AFTER_OPENS ? HR_SWEEP_SHUFFLED_BYTES : ahead_max_bytes(tree);
    /* Where not all fits, what was brought stays until it is opened, beside what is opened before. */
    uint64_t room = cache.budget_bytes;
    room = tree->index.names->object_bytes > room ? room / HR_PARTIAL_SHARE : room;
    uint32_t count = (uint32_t)tree->index.names->entry_count;
    for (unsigned scanned = 0; tree->sweep_cursor < count && scanned < HR_SWEEP_SCAN; scanned++) {
        uint32_t number = (uint32_t)(((uint64_t)tree->sweep_first + tree->sweep_cursor) % count);
        const struct hr_entry *entry = &tree->index.entries[number];
        uint32_t word = atomic_load_explicit(&tree->states->states[number].word, memory_order_relaxed);
        if (entry->kind != HR_KIND_FILE || HR_STATE_KIND(word) != HR_STATE_ABSENT || is_large(tree, entry)) {
            tree->sweep_cursor++;
            continue;
        }
        bool egress = ahead_bytes(tree) + entry->size > ahead_max;
        if (egress || footprint_bytes(tree->plan) + entry->size > room) {
            return NULL;
        }
        tree->sweep_cursor++;
        struct hr_want *want = bring(tree, number, HR_REASON_SWEEP);
        if (want) {
            return want;
        }
    }
    tree->sweep_done = tree->sweep_cursor >= count;
    return NULL;
}

struct hr_want *hr_sweep_next(struct hr_plan *plan)
{
    if (plan->tree_count == 0 || hr_pace_holds(plan)) {
        return NULL;
    }
    for (uint32_t i = 0; i < plan->tree_count; i++) {
        struct hr_plan_tree *tree = plan->trees[(plan->sweep_turn + i) % plan->tree_count];
        bool room = hr_width_room(hr_store_width(tree->store), false);
        struct hr_want *want = room && may_sweep(tree) ? next_of(tree) : NULL;
        if (want) {
            plan->sweep_turn = (plan->sweep_turn + i + 1) % plan->tree_count;
            return want;
        }
    }
    return NULL;
}
