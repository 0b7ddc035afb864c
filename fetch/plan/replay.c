#include "fetch/plan/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "fetch/base/clock.h"
#include "fetch/plan/inner.h"

#define HR_REPLAY_WINDOW 1024   /* steps: how far workers that run side by side are apart, and more */
#define HR_REPLAY_QUEUE 4096    /* wants that wait: there is room for others */
#define HR_REPLAY_SCAN 16384    /* steps looked at in one go: the loop must not stall */
#define HR_REPLAY_SHARE 2       /* what is ahead fills at most this part of the cache */
#define HR_REPLAY_JUMP 4        /* opens in a row elsewhere in the order: that is where the job is */
#define HR_REPLAY_JUDGE 64      /* opens after which it is judged... */
#define HR_REPLAY_MISSES_MAX 48 /* ...and dropped when so many were not where the order has them */

struct step {
    uint32_t tree, entry;
    uint32_t size; /* bytes, at most small_max that counts; UINT32_MAX: not asked for */
    uint8_t ahead; /* asked for, not opened */
    uint8_t opened;
};

/* Where the entries of one tree are in the order. */
struct places {
    uint32_t tree;
    uint32_t count; /* entries */
    uint32_t *at;   /* UINT32_MAX: not in the order */
};

struct hr_replay {
    struct hr_replay *prev, *next;
    struct hr_plan *plan;
    struct step *steps;
    uint32_t count, room;
    struct places places[HR_CONTEXT_MAPS_MAX];
    unsigned place_count;
    uint32_t todo;        /* step that was not asked for */
    uint32_t head;        /* behind the last that was opened in its order */
    uint32_t tail;        /* before are no steps that count as ahead */
    uint64_t ahead_bytes; /* of those */
    uint32_t jump_at;
    unsigned jump_run, judged, misses;
    int64_t last_ms;
    bool started, dropped;
};

int hr_replay_new(struct hr_plan *plan, struct hr_replay **ret)
{
    struct hr_replay *replay = calloc(1, sizeof *replay);
    if (!replay) {
        return -ENOMEM;
    }
    replay->plan = plan;
    replay->last_ms = hr_clock_ms();
    DL_APPEND(plan->replays, replay);
    *ret = replay;
    return 0;
}

static void drop_places(struct hr_replay *replay)
{
    while (replay->place_count > 0) {
        free(replay->places[--replay->place_count].at);
    }
}

void hr_replay_end(struct hr_replay *replay)
{
    DL_DELETE(replay->plan->replays, replay);
    drop_places(replay);
    free(replay->steps);
    free(replay);
}

int64_t hr_replay_last_ms(const struct hr_replay *replay)
{
    return replay->last_ms;
}

int hr_replay_add(struct hr_replay *replay, uint32_t number, const char *path, uint32_t path_len)
{
    struct hr_plan_tree *tree = hr_tree_get(replay->plan, number);
    uint32_t entry;
    if (!tree || replay->started) {
        return -EINVAL;
    }
    if (!tree->index.names) {
        return -EAGAIN;
    }
    if (hr_index_lookup(&tree->index, path, path_len, &entry) < 0 ||
        tree->index.entries[entry].kind != HR_KIND_FILE) {
        replay->plan->stats.replay_unknown++;
        return 0;
    }
    if (replay->count == replay->room) {
        uint32_t room = replay->room ? replay->room * 2 : 1024;
        struct step *grown = room > replay->room ? realloc(replay->steps, room * sizeof *grown) : NULL;
        if (!grown) {
            return -ENOMEM;
        }
        replay->steps = grown;
        replay->room = room;
    }
    replay->steps[replay->count++] = (struct step){.tree = number, .entry = entry};
    return 0;
}

static struct places *places_of(struct hr_replay *replay, uint32_t tree)
{
    for (unsigned i = 0; i < replay->place_count; i++) {
        if (replay->places[i].tree == tree) {
            return &replay->places[i];
        }
    }
    return NULL;
}

static int add_places(struct hr_replay *replay, uint32_t tree, const struct hr_index *index)
{
    struct places places = {.tree = tree, .count = (uint32_t)index->names->entry_count};
    places.at = replay->place_count < HR_CONTEXT_MAPS_MAX ? malloc(places.count * sizeof *places.at) : NULL;
    if (!places.at) {
        return -ENOMEM;
    }
    memset(places.at, 0xff, places.count * sizeof *places.at);
    replay->places[replay->place_count++] = places;
    return 0;
}

/* One step's place and size, by the index that it is of. */
static void place(struct hr_replay *replay, uint32_t number, const struct hr_index *index)
{
    struct step *step = &replay->steps[number];
    uint64_t size = index->entries[step->entry].size;
    step->size = size > replay->plan->options.small_max_bytes ? UINT32_MAX : (uint32_t)size;
    places_of(replay, step->tree)->at[step->entry] = number;
}

int hr_replay_start(struct hr_replay *replay)
{
    int error = 0;
    for (uint32_t i = 0; i < replay->count && error == 0; i++) {
        uint32_t number = replay->steps[i].tree;
        const struct hr_index *index = &hr_tree_get(replay->plan, number)->index;
        error = places_of(replay, number) ? 0 : add_places(replay, number, index);
        if (error == 0) {
            place(replay, i, index);
        }
    }
    replay->started = error == 0;
    replay->plan->stats.replay_steps += error == 0 ? replay->count : 0;
    hr_replay_advance(replay->plan);
    hr_plan_pump(replay->plan);
    return error;
}

void hr_replay_relist(struct hr_plan_tree *tree, const struct hr_index *fresh)
{
    struct hr_replay *replay;
    DL_FOREACH(tree->plan->replays, replay)
    {
        struct places *places = places_of(replay, tree->number);
        uint32_t *at = places ? realloc(places->at, fresh->names->entry_count * sizeof *at) : NULL;
        if (at) {
            places->at = at;
            places->count = (uint32_t)fresh->names->entry_count;
            memset(at, 0xff, places->count * sizeof *at);
        }
        for (uint32_t i = 0; i < replay->count; i++) {
            struct step *step = &replay->steps[i];
            char path[HR_KEY_MAX + 1];
            int len =
                step->tree == tree->number ? hr_index_path(&tree->index, step->entry, path, sizeof path) : -1;
            if (step->tree != tree->number) {
                continue;
            }
            uint32_t entry = 0;
            bool known = len >= 0 && hr_index_lookup(fresh, path, (size_t)len, &entry) == 0 &&
                         fresh->entries[entry].kind == HR_KIND_FILE;
            step->entry = known ? entry : 0; /* the root: no file, never opened */
            if (known && at) {
                at[entry] = i;
            }
            if (!known) {
                step->opened = 1;
            }
        }
        replay->dropped |= places && !at;
    }
}

bool hr_replay_leads(const struct hr_plan_tree *tree)
{
    struct hr_replay *replay;
    DL_FOREACH(tree->plan->replays, replay)
    {
        if (!replay->dropped && places_of(replay, tree->number)) {
            return true;
        }
    }
    return false;
}

/* ---- where the job is ---- */

static void no_more_ahead(struct hr_replay *replay, struct step *step)
{
    replay->ahead_bytes -= step->ahead ? step->size : 0;
    step->ahead = 0;
}

/* Steps that the job left out count no more. */
static void move_tail(struct hr_replay *replay)
{
    while (replay->tail + HR_REPLAY_WINDOW < replay->head) {
        no_more_ahead(replay, &replay->steps[replay->tail++]);
    }
}

static bool is_near(uint32_t a, uint32_t b)
{
    return (a > b ? a - b : b - a) <= HR_REPLAY_WINDOW;
}

/* The job goes on somewhere else in the order. */
static void jump(struct hr_replay *replay, uint32_t at)
{
    replay->jump_run = is_near(at, replay->jump_at) ? replay->jump_run + 1 : 1;
    replay->jump_at = at;
    if (replay->jump_run < HR_REPLAY_JUMP || at < replay->head) {
        return;
    }
    replay->plan->stats.replay_jumps++;
    while (replay->tail < replay->todo) {
        no_more_ahead(replay, &replay->steps[replay->tail++]);
    }
    replay->head = at + 1;
    replay->tail = replay->todo = at > replay->todo ? at : replay->todo;
    replay->jump_run = replay->misses = 0;
}

static void judge(struct hr_replay *replay, bool hit)
{
    struct hr_plan_stats *stats = &replay->plan->stats;
    stats->replay_misses += !hit;
    replay->misses += !hit;
    if (++replay->judged < HR_REPLAY_JUDGE) {
        return;
    }
    if (replay->misses >= HR_REPLAY_MISSES_MAX) {
        replay->dropped = true;
        stats->replay_dropped++;
        hr_log(HR_LOG_INFO, "replay: the job opens other things than the order has: dropped");
    }
    replay->judged = replay->misses = 0;
}

static void opened(struct hr_replay *replay, const struct places *places, uint32_t entry)
{
    uint32_t at = entry < places->count ? places->at[entry] : UINT32_MAX;
    struct step *step = at < replay->count ? &replay->steps[at] : NULL;
    replay->last_ms = hr_clock_ms();
    if (step && step->opened) {
        return; /* again, as in a second epoch: the order has no more to say */
    }
    bool in_order = step && is_near(at, replay->head);
    if (step) {
        step->opened = 1;
        no_more_ahead(replay, step);
    }
    judge(replay, in_order);
    if (in_order) {
        replay->jump_run = 0;
        replay->head = at + 1 > replay->head ? at + 1 : replay->head;
        move_tail(replay);
    } else if (step) {
        jump(replay, at);
    }
}

void hr_replay_opened(struct hr_plan_tree *tree, uint32_t entry)
{
    struct hr_replay *replay;
    DL_FOREACH(tree->plan->replays, replay)
    {
        const struct places *places = places_of(replay, tree->number);
        if (places && !replay->dropped) {
            opened(replay, places, entry);
        }
    }
}

/* ---- ahead of it ---- */

/* False: the bound is reached, this step comes later. */
static bool bring(struct hr_replay *replay, struct step *step, uint64_t most_bytes)
{
    struct hr_plan_tree *tree = hr_tree_get(replay->plan, step->tree);
    if (step->opened || step->size == UINT32_MAX || !tree->settings.prefetch || !tree->index.names) {
        return true;
    }
    if (replay->ahead_bytes + step->size > most_bytes ||
        !hr_sweep_ahead(tree, step->entry, HR_REASON_REPLAY)) {
        return false;
    }
    step->ahead = 1;
    replay->ahead_bytes += step->size;
    replay->plan->stats.replay_ahead++;
    return true;
}

static void advance(struct hr_replay *replay, uint64_t most_bytes)
{
    struct hr_plan *plan = replay->plan;
    for (unsigned i = 0;
         i < HR_REPLAY_SCAN && replay->todo < replay->count && plan->stats.queued < HR_REPLAY_QUEUE; i++) {
        if (!bring(replay, &replay->steps[replay->todo], most_bytes)) {
            return;
        }
        replay->todo++;
    }
}

void hr_replay_advance(struct hr_plan *plan)
{
    struct hr_replay *replay;
    struct hr_cache_stats cache;
    if (!plan->replays || plan->ending) {
        return;
    }
    hr_cache_stats(plan->cache, &cache);
    DL_FOREACH(plan->replays, replay)
    {
        if (replay->started && !replay->dropped) {
            advance(replay, cache.budget_bytes / HR_REPLAY_SHARE);
        }
    }
}
