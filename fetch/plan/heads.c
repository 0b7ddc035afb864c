/* Heads: of large objects that a loader announced, the first cell is brought before they are opened, and the
 * end where programs have been seen to read that. The rest is the window's, once somebody reads. */
#include "fetch/plan/inner.h"

#include <stdlib.h>
#include <string.h>

#define HR_HEADS_MAX 64   /* brought and not read; loaders announce two batches a worker */
#define HR_HEADS_SHARE 8  /* they fill at most this part of the cache... */
#define HR_HEADS_KEEP 64  /* ...and beside a kept set, whose room they take, this... */
#define HR_HEADS_LEAST 4  /* ...but so many cells */
#define HR_TAILS_NEEDED 2 /* objects whose end was asked for before it was there */

struct head {
    struct hr_plan_tree *tree; /* NULL: free */
    uint32_t gen, entry;
    uint64_t bytes;
    uint64_t face_id; /* 0: it is not there yet */
};

struct hr_heads {
    struct head places[HR_HEADS_MAX];
    unsigned next; /* place to be looked at first */
};

static bool is_ahead(const struct head *head)
{
    const struct hr_names *names = head->tree ? head->tree->index.names : NULL;
    return names && names->gen == head->gen && head->tree->marks[head->entry] & HR_ENTRY_ANNOUNCED;
}

static struct hr_heads *heads_of(struct hr_plan *plan)
{
    if (!plan->heads) {
        plan->heads = calloc(1, sizeof *plan->heads);
    }
    return plan->heads;
}

void hr_heads_free(struct hr_plan *plan)
{
    free(plan->heads);
    plan->heads = NULL;
}

static uint64_t most_bytes(const struct hr_plan *plan)
{
    struct hr_cache_stats cache;
    hr_cache_stats(plan->cache, &cache);
    uint64_t most = cache.budget_bytes / (cache.keeps_set ? HR_HEADS_KEEP : HR_HEADS_SHARE);
    uint64_t least = HR_HEADS_LEAST * (uint64_t)HR_CELL_BYTES;
    return most < least ? least : most;
}

/* A place for one more, or NULL. */
static struct head *place_for(struct hr_plan *plan, uint64_t bytes)
{
    struct hr_heads *heads = heads_of(plan);
    struct head *place = NULL;
    uint64_t ahead = 0;
    for (unsigned i = 0; heads && i < HR_HEADS_MAX; i++) {
        struct head *head = &heads->places[(heads->next + i) % HR_HEADS_MAX];
        bool there = is_ahead(head);
        ahead += there ? head->bytes : 0;
        if (!there && (!place || (place->tree && !head->tree))) {
            place = head; /* a free one, else the oldest whose object was opened */
        }
    }
    return place && (ahead == 0 || ahead + bytes <= most_bytes(plan)) ? place : NULL;
}

static bool is_coming(const struct hr_plan_tree *tree, const struct hr_cached *face, uint64_t first,
                      uint64_t bytes)
{
    const struct hr_cached *there = hr_cache_segment(tree->plan->cache, face->file_id, first);
    if (there && hr_cached_offset(there) + there->size >= first + bytes) {
        hr_cache_announced(tree->plan->cache, there->file_id);
        return true;
    }
    return false;
}

static bool bring(struct hr_plan_tree *tree, const struct hr_cached *face, uint64_t first, uint64_t bytes)
{
    return !is_coming(tree, face, first, bytes) &&
           hr_want_add_range(tree, face, HR_WANT_SEGMENT, HR_REASON_LOOKAHEAD, first, bytes);
}

/* The end of the object, inside its last cell. */
static bool bring_tail(struct hr_plan_tree *tree, const struct hr_cached *face)
{
    uint64_t cell = (face->size - 1) / HR_CELL_BYTES * HR_CELL_BYTES;
    uint64_t first = face->size > tree->tail_bytes ? face->size - tree->tail_bytes : 0;
    first -= first % HR_PAGE_BYTES;
    first = first > cell ? first : cell;
    return tree->tails_missed >= HR_TAILS_NEEDED && cell > 0 && bring(tree, face, first, face->size - first);
}

static struct head *place_of(struct hr_plan_tree *tree, uint32_t entry)
{
    struct hr_heads *heads = tree->plan->heads;
    for (unsigned i = 0; heads && i < HR_HEADS_MAX; i++) {
        struct head *head = &heads->places[i];
        if (head->tree == tree && head->entry == entry && is_ahead(head)) {
            return head;
        }
    }
    return NULL;
}

static bool bring_all(struct hr_plan_tree *tree, struct head *head, const struct hr_cached *face)
{
    bool comes = bring(tree, face, 0, face->size < HR_CELL_BYTES ? face->size : HR_CELL_BYTES);
    bool tail_comes = bring_tail(tree, face);
    head->face_id = face->file_id;
    tree->plan->stats.heads_ahead += comes;
    tree->plan->stats.tails_ahead += tail_comes;
    return comes || tail_comes;
}

/* The face is there; it may have taken a while. Without it, or with all bytes there, the place is free. */
static void face_there(void *owner, uint32_t entry, const struct hr_answer *answer)
{
    struct hr_plan_tree *tree = owner;
    struct head *head = place_of(tree, entry);
    const struct hr_cached *face =
        answer->error || tree->plan->ending ? NULL : hr_cache_by_id(tree->plan->cache, answer->file_id);
    bool comes = head && face && face->kind == HR_CACHED_FACE && bring_all(tree, head, face);
    if (head && !comes) {
        *head = (struct head){0};
    }
    if (comes) {
        hr_plan_pump(tree->plan);
    }
}

bool hr_head_ahead(struct hr_plan_tree *tree, uint32_t number)
{
    const struct hr_entry *entry = &tree->index.entries[number];
    char path[HR_KEY_MAX + 1], key[2 * HR_KEY_MAX], etag[136];
    int len = hr_index_path(&tree->index, number, path, sizeof path);
    if (tree->denied > 0 || len < 0 || hr_index_etag(&tree->index, number, etag, sizeof etag) < 0 ||
        !hr_face_fits(tree->plan, entry->size, etag)) {
        return true;
    }
    if (place_of(tree, number)) {
        return true;
    }
    uint64_t bytes = (entry->size < HR_CELL_BYTES ? entry->size : HR_CELL_BYTES) +
                     (tree->tails_missed >= HR_TAILS_NEEDED ? tree->tail_bytes : 0);
    struct head *place = place_for(tree->plan, bytes);
    if (!place) {
        return false; /* until something is opened */
    }
    *place = (struct head){.tree = tree, .gen = tree->index.names->gen, .entry = number, .bytes = bytes};
    tree->plan->heads->next = (unsigned)(place - tree->plan->heads->places + 1) % HR_HEADS_MAX;
    struct hr_asker asker = {.fn = face_there, .owner = tree, .ticket = number};
    uint32_t key_len = hr_tree_key(tree, path, (uint32_t)len, key);
    (void)hr_face_want(tree, key, key_len, etag, entry->size, entry->mtime_ns, &asker);
    return true;
}

void hr_head_read(struct hr_plan *plan, uint64_t face_id, bool in_time)
{
    for (unsigned i = 0; plan->heads && i < HR_HEADS_MAX; i++) {
        if (plan->heads->places[i].tree && plan->heads->places[i].face_id == face_id) {
            plan->stats.heads_used += in_time;
            plan->heads->places[i] = (struct head){0};
            plan->ahead_due = true;
            return;
        }
    }
}

void hr_tail_missed(struct hr_plan_tree *tree, uint64_t bytes)
{
    tree->tails_missed++;
    tree->tail_bytes = tree->tail_bytes > bytes ? tree->tail_bytes : bytes;
}
