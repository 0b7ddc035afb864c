/* Files whose number was just told to a program. It opens them by name a moment later, and what was used last
 * is often given up first: so an evicted file keeps its name for that moment, or the program would have it
 * fetched again, perhaps for ever. Until then its room is not given up. Where programs note their opens, as
 * many notes as were told end the moment: what passes must not hold the room of what is kept. */
#include "fetch/cache/inside.h"

#define COUNT_MAX 0x3fff /* what handed_count holds */
#define HELD_TICKS 1     /* one to two seconds: a program that waits for a processor on a busy machine */
#define HELD_SHARE 8     /* of cache_size: what is held takes room from others... */
#define HELD_MIN_CELLS 2 /* ...but so much: two readers of large objects in a small cache */

static uint16_t tick_of(const struct hr_cache *cache)
{
    return (uint16_t)(1 + cache->ticks % UINT16_MAX); /* 0: never */
}

static bool is_recent(const struct hr_object *object)
{
    return object->handed_tick &&
           (uint16_t)(tick_of(hr_object_cache(object)) - object->handed_tick) <= HELD_TICKS;
}

static uint64_t most_bytes(const struct hr_cache *cache)
{
    uint64_t share = cache->budget.limit_bytes / HELD_SHARE;
    uint64_t least = HELD_MIN_CELLS * (uint64_t)HR_CELL_BYTES;
    return share > least ? share : least;
}

static void let_go(struct hr_cache *cache, struct hr_object **link)
{
    struct hr_object *object = *link;
    uint64_t charge = hr_object_charge(object);
    *link = object->next_victim;
    cache->held_bytes -= charge;
    object->handed_tick = 0;
    hr_budget_give_up(&cache->budget, charge);
    hr_cache_unlink_later(object);
}

/* Whoever was told of it has had the longest time to open it. */
static void let_go_least_recent(struct hr_cache *cache)
{
    struct hr_object **least = &cache->held;
    for (struct hr_object **link = least; *link; link = &(*link)->next_victim) {
        least = (*link)->policy.stamp < (*least)->policy.stamp ? link : least;
    }
    let_go(cache, least);
}

void hr_cache_handed(struct hr_cache *cache, uint64_t file_id)
{
    struct hr_object *object = hr_table_by_id(cache, file_id);
    if (object) {
        unsigned before = is_recent(object) ? object->handed_count : 0;
        object->handed_count = before < COUNT_MAX ? before + 1 : before;
        object->handed_tick = tick_of(cache);
    }
}

void hr_cache_opened(struct hr_cache *cache, uint64_t file_id)
{
    struct hr_object *object = hr_table_by_id(cache, file_id);
    if (object && object->handed_count > 0 && --object->handed_count == 0) {
        object->handed_tick = 0;
    }
}

bool hr_handed_hold(struct hr_object *object)
{
    struct hr_cache *cache = hr_object_cache(object);
    uint64_t charge = hr_object_charge(object);
    if (!is_recent(object) || cache->closing || charge > most_bytes(cache)) {
        return false;
    }
    hr_budget_hold(&cache->budget, charge);
    object->handed_tick = tick_of(cache);
    object->next_victim = cache->held;
    cache->held = object;
    cache->held_bytes += charge;
    while (cache->held_bytes > most_bytes(cache)) {
        let_go_least_recent(cache);
    }
    return true;
}

void hr_handed_tick(struct hr_cache *cache)
{
    struct hr_object **link = &cache->held;
    while (*link) {
        if (is_recent(*link)) {
            link = &(*link)->next_victim;
        } else {
            let_go(cache, link);
        }
    }
}

bool hr_handed_give_up(struct hr_cache *cache)
{
    if (cache->held) {
        let_go_least_recent(cache);
        return true;
    }
    return false;
}

void hr_handed_end(struct hr_cache *cache)
{
    while (cache->held) {
        let_go(cache, &cache->held);
    }
}
