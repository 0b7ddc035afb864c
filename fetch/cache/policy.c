/* In an epoch over N objects each is used once. What was used in this epoch is needed no sooner than in the
 * next; what was not is needed in this one. So the best victim is what was used last, and which set is kept
 * makes no difference as long as it stays: hits are its share of N, where recency's are half its square.
 *
 * Which way is right is learned by its failures. Recency is left when objects come again, or when nearly none
 * had by the time that the cache was full: so far it is an epoch, or a scan that nothing is lost by. Keeping
 * is left when recency, in the shadow, has had clearly more hits, or when objects come again while the kept
 * set is idle; then recency fills the cache anew. What is dead in a kept set that lives shows by its age in
 * laps. */
#include "fetch/cache/policy.h"

#include <stddef.h>

#include "fetch/cache/shadow.h"

#define PAGE_BYTES 4096u     /* what a file takes at least; sizes are counted in pages */
#define PASSING_PARTS 64     /* one in so many pages is left to what passes: a moment for late openers */
#define PASSING_COUNT 4      /* and so many objects, if they are large... */
#define PASSING_MOST_PARTS 4 /* ...up to this part */
#define AWAITED_EIGHTHS 5    /* look-ahead asks for no more than half of the cache before it is used */
#define RECURRING_COUNT 8    /* objects that come again before that is more than chance... */
#define RECURRING_PARTS 32   /* ...and this part of the cache */
#define FIRST_PARTS 4        /* of the cache were used when it is full, for a first set to be kept */
#define LEAD_PARTS 8         /* of the cache: far above what chance gives in a shuffled epoch */
#define STALE_PARTS 4        /* of the cache came again while the kept set was idle: it goes... */
#define EPOCH_PARTS 4        /* ...or this part of an epoch, where that is more */
#define GAP_MEMORY 64        /* objects */
#define STALE_RESET 8        /* one object that came again while the set was used makes up for so many */
#define IDLE_PARTS 16        /* of the kept set: fewer hits between two uses of an object are none */
#define BETTER_PARTS 64      /* recency must be better by one in so many hits */
#define PATIENCE_MAX 64      /* caches full of arrivals before the next try */
/* Of the cache admitted with no use of what came unasked, while that is most of it. */
#define UNASKED_PARTS 8

void hr_policy_list_init(struct hr_policy_list *list)
{
    list->ends.older = &list->ends;
    list->ends.newer = &list->ends;
}

void hr_policy_list_add(struct hr_policy_list *list, struct hr_policy_node *node)
{
    node->newer = &list->ends;
    node->older = list->ends.older;
    node->older->newer = node;
    list->ends.older = node;
}

static void add_oldest(struct hr_policy_list *list, struct hr_policy_node *node)
{
    node->older = &list->ends;
    node->newer = list->ends.newer;
    node->newer->older = node;
    list->ends.newer = node;
}

void hr_policy_list_remove(struct hr_policy_node *node)
{
    node->older->newer = node->newer;
    node->newer->older = node->older;
    node->older = NULL;
    node->newer = NULL;
}

struct hr_policy_node *hr_policy_list_oldest(const struct hr_policy_list *list)
{
    return list->ends.newer == &list->ends ? NULL : list->ends.newer;
}

static struct hr_policy_node *newest(const struct hr_policy_list *list)
{
    return list->ends.older == &list->ends ? NULL : list->ends.older;
}

void hr_policy_init(struct hr_policy *policy)
{
    *policy = (struct hr_policy){.patience = 1};
    for (unsigned i = 0; i < HR_POLICY_PLACES; i++) {
        hr_policy_list_init(&policy->lists[i]);
    }
    policy->shadow = hr_shadow_new(); /* without one: recency for ever */
}

void hr_policy_release(struct hr_policy *policy)
{
    hr_shadow_free(policy->shadow);
    policy->shadow = NULL;
}

static void leave(struct hr_policy *policy, struct hr_policy_node *node)
{
    hr_policy_list_remove(node);
    policy->pages[node->list] -= node->pages;
    policy->passing_count -= node->list == HR_POLICY_PASSING;
}

static void enter(struct hr_policy *policy, struct hr_policy_node *node, enum hr_policy_place place)
{
    node->list = place;
    node->stamp = policy->clock;
    policy->pages[place] += node->pages;
    policy->passing_count += place == HR_POLICY_PASSING;
    hr_policy_list_add(&policy->lists[place], node);
}

void hr_policy_forget(struct hr_policy *policy, struct hr_policy_node *node)
{
    leave(policy, node);
}

static uint64_t kept_pages(const struct hr_policy *policy)
{
    return policy->pages[HR_POLICY_KEPT] + policy->pages[HR_POLICY_ANNOUNCED] +
           policy->pages[HR_POLICY_UNASKED];
}

static uint64_t awaited_most(const struct hr_policy *policy)
{
    return policy->awaited_most > policy->awaited_most_before ? policy->awaited_most
                                                              : policy->awaited_most_before;
}

static uint64_t newcomers(const struct hr_policy *policy)
{
    return policy->pages[HR_POLICY_AWAITED] + policy->pages[HR_POLICY_PASSING];
}

/* The most that was awaited at a time, over the last one or two caches full. */
static void note_awaited(struct hr_policy *policy)
{
    uint64_t awaited = policy->pages[HR_POLICY_AWAITED];
    if (policy->clock - policy->awaited_turn > policy->capacity_pages) {
        policy->awaited_most_before = policy->awaited_most;
        policy->awaited_most = 0;
        policy->awaited_turn = policy->clock;
    }
    policy->awaited_most = awaited > policy->awaited_most ? awaited : policy->awaited_most;
}

void hr_policy_admit(struct hr_policy *policy, struct hr_policy_node *node, uint32_t id, uint64_t bytes,
                     enum hr_policy_why why)
{
    node->id = id;
    node->pages = (uint32_t)((bytes + PAGE_BYTES - 1) / PAGE_BYTES);
    node->pages += !node->pages;
    node->fresh = why != HR_POLICY_EARLIER;
    policy->clock += node->pages;
    enter(policy, node, why == HR_POLICY_ASKED ? HR_POLICY_AWAITED : HR_POLICY_UNASKED);
    if (why != HR_POLICY_ASKED) {
        policy->unasked_dead = false;
        policy->unasked_used = policy->clock;
    }
    note_awaited(policy);
}

/* ---- which way ---- */

static void begin_recent(struct hr_policy *policy)
{
    policy->keep = false;
    policy->keep_after = policy->clock + policy->capacity_pages * policy->patience;
    policy->patience = policy->patience < PATIENCE_MAX ? policy->patience * 2 : PATIENCE_MAX;
    policy->recurring_count = 0;
    policy->recurring_pages = 0;
}

static void begin_keep(struct hr_policy *policy)
{
    policy->keep = true;
    policy->lead_pages = 0;
    policy->stale_pages = 0;
    policy->kept_since_pages = ++policy->kept_hit_pages; /* what was used before has a lower mark */
    policy->lap_begun_pages = policy->kept_hit_pages;
    for (unsigned i = 0; i < HR_POLICY_LAPS; i++) {
        policy->laps[i] = 0;
    }
}

static bool recurs(const struct hr_policy *policy)
{
    return policy->recurring_count >= RECURRING_COUNT &&
           policy->recurring_pages >= policy->capacity_pages / RECURRING_PARTS;
}

static void maybe_keep(struct hr_policy *policy)
{
    if (!policy->keep && policy->capacity_pages && policy->clock >= policy->keep_after && recurs(policy)) {
        begin_keep(policy);
    }
}

/* The first time. What was used until then, each object once, is as good as what comes. */
static void keep_first_epoch(struct hr_policy *policy)
{
    uint64_t used = policy->pages[HR_POLICY_KEPT];
    if (policy->shadow && !recurs(policy) && used >= policy->capacity_pages / FIRST_PARTS) {
        begin_keep(policy);
    }
}

/* Of those that are not kept, however useful they are now. */
static bool is_visitor(enum hr_policy_place place)
{
    return place == HR_POLICY_PASSING || place == HR_POLICY_AWAITED || place == HR_POLICY_UNNEEDED;
}

/* An object that is used often counts once a lap: it says nothing about the others. */
static void count_kept_hit(struct hr_policy *policy, const struct hr_policy_node *node)
{
    bool again = node->list != HR_POLICY_ANNOUNCED && policy->laps[0] && node->stamp >= policy->laps[0];
    if (is_visitor(node->list) || again) {
        return;
    }
    policy->kept_hit_pages += node->pages;
    if (policy->kept_hit_pages - policy->lap_begun_pages >= kept_pages(policy) / 4) {
        for (unsigned i = HR_POLICY_LAPS - 1; i > 0; i--) {
            policy->laps[i] = policy->laps[i - 1];
        }
        policy->laps[0] = policy->clock;
        policy->lap_begun_pages = policy->kept_hit_pages;
    }
    if (policy->kept_hit_pages - policy->kept_since_pages > kept_pages(policy)) {
        policy->patience = 1; /* keeping has paid */
    }
}

static void grow(uint64_t *sum, uint64_t more, uint64_t less)
{
    *sum = *sum + more > less ? *sum + more - less : 0;
}

static void judge_kept(struct hr_policy *policy, const struct hr_shadow_seen *seen, uint64_t pages, bool hit)
{
    uint64_t capacity = policy->capacity_pages;
    uint64_t chance = RECURRING_COUNT * pages; /* few large objects are no evidence */
    /* A set that was all used in one stretch looks idle early in the next epoch, for a sixteenth of it. */
    uint64_t epoch = policy->gap_pages / EPOCH_PARTS;
    uint64_t stale_most = epoch > capacity / STALE_PARTS ? epoch : capacity / STALE_PARTS;
    grow(&policy->lead_pages, seen->recent ? pages : 0, hit ? pages + pages / BETTER_PARTS : 0);
    if (seen->known && !hit) {
        policy->gap_count += policy->gap_count < GAP_MEMORY;
        policy->gap_pages =
            policy->gap_pages - policy->gap_pages / policy->gap_count + seen->gap_pages / policy->gap_count;
    }
    if (seen->known && !hit && seen->mark >= policy->kept_since_pages) {
        bool idle = policy->kept_hit_pages - seen->mark < kept_pages(policy) / IDLE_PARTS;
        grow(&policy->stale_pages, idle ? pages : 0, idle ? 0 : pages * STALE_RESET);
    }
    if (policy->lead_pages > capacity / LEAD_PARTS + chance || policy->stale_pages > stale_most + chance) {
        begin_recent(policy);
    }
}

/* Recency would not have had the room of what is awaited either. */
static uint64_t room_for_used(const struct hr_policy *policy)
{
    uint64_t most = awaited_most(policy);
    return policy->capacity_pages > 2 * most ? policy->capacity_pages - most : policy->capacity_pages / 2;
}

static void learn(struct hr_policy *policy, const struct hr_policy_node *node, bool hit)
{
    struct hr_shadow_seen seen;
    if (!policy->shadow || !hr_shadow_use(policy->shadow, node->id, node->pages, room_for_used(policy),
                                          policy->kept_hit_pages, &seen)) {
        return;
    }
    uint64_t pages = (uint64_t)node->pages << seen.shift;
    if (policy->keep) {
        judge_kept(policy, &seen, pages, hit);
    } else if (seen.known || hit) {
        policy->recurring_pages += pages;
        policy->recurring_count++;
        maybe_keep(policy);
    }
}

/* ---- what happens to an object ---- */

/* Enough passes already, for what is awaited at times too: the kept set has room. */
static bool has_room_to_keep(const struct hr_policy *policy)
{
    uint64_t most = awaited_most(policy);
    uint64_t share = policy->capacity_pages / PASSING_PARTS;
    return policy->passing_count >= PASSING_COUNT && newcomers(policy) > (most > share ? most : share);
}

static void note_unasked(struct hr_policy *policy, enum hr_policy_place place)
{
    if (place == HR_POLICY_UNASKED) {
        policy->unasked_dead = false;
        policy->unasked_used = policy->clock;
    }
}

void hr_policy_used(struct hr_policy *policy, struct hr_policy_node *node)
{
    bool hit = !node->fresh;
    enum hr_policy_place was = node->list;
    policy->uses++;
    policy->hits += hit;
    if (hit) {
        count_kept_hit(policy, node);
    }
    note_unasked(policy, was);
    node->fresh = 0;
    learn(policy, node, hit);
    bool passes = policy->keep && is_visitor(was) && !has_room_to_keep(policy);
    leave(policy, node);
    policy->clock++;
    enter(policy, node, passes ? HR_POLICY_PASSING : HR_POLICY_KEPT);
}

void hr_policy_announced(struct hr_policy *policy, struct hr_policy_node *node)
{
    bool newcomer = is_visitor(node->list);
    note_unasked(policy, node->list);
    leave(policy, node);
    enter(policy, node, newcomer ? HR_POLICY_AWAITED : HR_POLICY_ANNOUNCED);
}

void hr_policy_abandoned(struct hr_policy *policy, struct hr_policy_node *node)
{
    if (node->list == HR_POLICY_AWAITED || node->list == HR_POLICY_ANNOUNCED) {
        bool newcomer = node->list == HR_POLICY_AWAITED;
        leave(policy, node);
        enter(policy, node, newcomer ? HR_POLICY_PASSING : HR_POLICY_KEPT);
    }
}

void hr_policy_unneeded(struct hr_policy *policy, struct hr_policy_node *node)
{
    leave(policy, node);
    enter(policy, node, HR_POLICY_UNNEEDED);
}

/* ---- victims ---- */

void hr_policy_full(struct hr_policy *policy, uint64_t capacity_bytes)
{
    bool first = policy->capacity_pages == 0;
    policy->capacity_pages = capacity_bytes / PAGE_BYTES;
    if (first) {
        keep_first_epoch(policy);
    }
    maybe_keep(policy);
}

static uint64_t age_of(const struct hr_policy *policy, const struct hr_policy_node *node)
{
    return policy->clock - node->stamp;
}

static struct hr_policy_node *oldest_of(const struct hr_policy *policy, enum hr_policy_place place)
{
    return hr_policy_list_oldest(&policy->lists[place]);
}

/* Announced, and nobody came: as it was before. */
static void expire_announced(struct hr_policy *policy)
{
    struct hr_policy_node *node = oldest_of(policy, HR_POLICY_ANNOUNCED);
    if (node && age_of(policy, node) > policy->capacity_pages) {
        leave(policy, node);
        node->list = HR_POLICY_KEPT;
        policy->pages[HR_POLICY_KEPT] += node->pages;
        add_oldest(&policy->lists[HR_POLICY_KEPT], node);
    }
}

/* A guess, or an earlier life's set, that nobody uses. */
static struct hr_policy_node *useless(struct hr_policy *policy)
{
    uint64_t patience = policy->pages[HR_POLICY_UNASKED] > policy->capacity_pages / 2
                            ? policy->capacity_pages / UNASKED_PARTS
                            : policy->capacity_pages;
    policy->unasked_dead |= policy->clock - policy->unasked_used > patience;
    return policy->unasked_dead ? oldest_of(policy, HR_POLICY_UNASKED) : NULL;
}

static struct hr_policy_node *older_of(struct hr_policy_node *a, struct hr_policy_node *b)
{
    return !a || (b && b->stamp < a->stamp) ? b : a;
}

/* Nobody came for it, or more is awaited than look-ahead and those who wait can be good for. */
static bool is_late(const struct hr_policy *policy, const struct hr_policy_node *awaited)
{
    return awaited && (age_of(policy, awaited) > policy->capacity_pages ||
                       policy->pages[HR_POLICY_AWAITED] > policy->capacity_pages / 8 * AWAITED_EIGHTHS);
}

static struct hr_policy_node *recent_victim(const struct hr_policy *policy)
{
    struct hr_policy_node *awaited = oldest_of(policy, HR_POLICY_AWAITED);
    struct hr_policy_node *used =
        older_of(oldest_of(policy, HR_POLICY_KEPT), oldest_of(policy, HR_POLICY_PASSING));
    return is_late(policy, awaited) ? older_of(used, awaited) : used;
}

static struct hr_policy_node *keep_victim(const struct hr_policy *policy)
{
    uint64_t capacity = policy->capacity_pages, passing = policy->pages[HR_POLICY_PASSING];
    struct hr_policy_node *awaited = oldest_of(policy, HR_POLICY_AWAITED);
    struct hr_policy_node *kept = oldest_of(policy, HR_POLICY_KEPT);
    if (kept && kept->stamp < policy->laps[HR_POLICY_LAPS - 1]) {
        return kept; /* all others had their turn twice */
    }
    if ((newcomers(policy) > capacity / PASSING_PARTS && policy->passing_count > PASSING_COUNT) ||
        passing > capacity / PASSING_MOST_PARTS) {
        return oldest_of(policy, HR_POLICY_PASSING);
    }
    if (is_late(policy, awaited)) {
        return awaited;
    }
    return newest(&policy->lists[HR_POLICY_KEPT]);
}

struct hr_policy_node *hr_policy_victim(struct hr_policy *policy)
{
    static const enum hr_policy_place last_resorts[] = {HR_POLICY_PASSING, HR_POLICY_AWAITED,
                                                        HR_POLICY_UNASKED, HR_POLICY_ANNOUNCED};
    expire_announced(policy);
    struct hr_policy_node *node = oldest_of(policy, HR_POLICY_UNNEEDED);
    node = node ? node : useless(policy);
    if (!node) {
        node = policy->keep ? keep_victim(policy) : recent_victim(policy);
    }
    for (unsigned i = 0; !node && i < sizeof last_resorts / sizeof *last_resorts; i++) {
        node = oldest_of(policy, last_resorts[i]);
    }
    return node;
}

uint64_t hr_policy_kept_bytes(const struct hr_policy *policy)
{
    return policy->keep ? PAGE_BYTES * kept_pages(policy) : 0;
}
