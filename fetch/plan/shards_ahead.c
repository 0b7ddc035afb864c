/* Names of shards, and what is brought of those that will be opened. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/base/clock.h"
#include "fetch/plan/families.h"
#include "fetch/plan/names.h"
#include "fetch/plan/shards.h"

#define HR_NAMES_AFTER 2      /* begun: what lies beside them is worth a request */
#define HR_ROW_KEPT 8         /* of those opened, when names behind them are learned */
#define HR_EXPECTED_MS 300000 /* not opened for so long: it will not be */
#define HR_EXPECTED_SHARE 4   /* they fill at most this part of the cache */
#define HR_EXPECTED_BITS 5    /* of a ticket: which one; the rest: its turn */

/* ---- names ---- */

struct asking { /* for names; the family may be another's by then */
    struct hr_plan_tree *tree;
    uint64_t family;
    uint64_t after; /* the face that is read now, and what its window has left */
    unsigned ahead, cells;
    int64_t asked_ms;
};

static void names_told(struct hr_call *call)
{
    struct asking *asking = call->owner;
    struct hr_plan *plan = asking->tree->plan;
    struct hr_family *family = plan->ending ? NULL : hr_family_find(plan, asking->family);
    if (family && family->lowest && call->error == 0) {
        hr_siblings_free(&family->names);
        if (hr_siblings_listed(asking->tree, family->lowest, (uint32_t)strlen(family->lowest), call,
                               &family->names) == 0) {
            family->told_to = asking->tree;
            family->told_ms = asking->asked_ms;
            hr_family_named(plan, family);
            hr_shard_ahead(asking->tree, asking->after, asking->ahead, asking->cells);
            hr_plan_pump(plan);
        }
    }
    free(asking);
    hr_call_free(call);
}

static void learn_names(struct hr_plan_tree *tree, struct hr_family *family, uint64_t after, unsigned ahead,
                        unsigned cells)
{
    uint32_t len = family->lowest ? (uint32_t)strlen(family->lowest) : 0;
    if (family->asked || !len || family->begun_count < HR_NAMES_AFTER) {
        return;
    }
    family->asked = true;
    if (tree->index.names) {
        hr_siblings_free(&family->names);
        family->told_to = NULL;
        if (hr_siblings_indexed(tree, family->lowest, len, &family->names) == 0) {
            hr_family_named(tree->plan, family);
        }
        return;
    }
    struct asking *asking = malloc(sizeof *asking);
    if (asking) {
        *asking = (struct asking){.tree = tree,
                                  .family = family->id,
                                  .after = after,
                                  .ahead = ahead,
                                  .cells = cells,
                                  .asked_ms = hr_clock_ms()};
        if (hr_siblings_list(tree, family->lowest, len, names_told, asking) < 0) {
            free(asking);
        }
    }
}

/* The row has come to the end of the names that are known: those behind it, and enough of it to go on with.
 */
static void learn_more(struct hr_family *family, const struct hr_row *row)
{
    uint32_t from = row->last;
    for (unsigned kept = 0; from > 0 && kept < HR_ROW_KEPT; from--) {
        kept += family->names.list[from - 1].opened;
    }
    char *lowest = family->names.more && from > 0 ? strdup(family->names.list[from].key) : NULL;
    if (lowest) {
        free(family->lowest);
        family->lowest = lowest;
        family->asked = false; /* at the next look */
    }
}

bool hr_shard_told(struct hr_plan_tree *tree, const char *path, uint32_t path_len, struct hr_name *ret)
{
    char key[2 * HR_KEY_MAX];
    if (!tree->plan->shards || hr_overlay_find(tree, path, path_len)) {
        return false; /* that tells, or it is doubted */
    }
    uint32_t key_len = hr_tree_key(tree, path, path_len, key);
    struct hr_family *family = hr_family_by_key(tree->plan, &tree->source, key, key_len);
    if (!family || family->told_to != tree || hr_tree_until_ms(tree, family->told_ms) <= hr_clock_ms()) {
        return false;
    }
    const struct hr_sibling *one = hr_family_sibling(family, hr_sibling_name(key, key_len));
    if (!one || one->key_len != key_len || memcmp(one->key, key, key_len) != 0) {
        return false;
    }
    *ret = (struct hr_name){.kind = HR_KIND_FILE, .size = one->size, .mtime_ns = one->mtime_ns};
    snprintf(ret->etag, sizeof ret->etag, "%s", one->etag);
    return true;
}

/* ---- ahead ---- */

/* What they have in the cache, or on its way there. */
static uint64_t expected_bytes(const struct hr_plan *plan)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < HR_EXPECTED; i++) {
        bytes += plan->shards->expected[i].brought * (uint64_t)HR_CELL_BYTES;
    }
    return bytes;
}

static bool has_room(const struct hr_plan *plan)
{
    struct hr_cache_stats cache;
    hr_cache_stats(plan->cache, &cache);
    return expected_bytes(plan) + HR_CELL_BYTES <= cache.budget_bytes / HR_EXPECTED_SHARE;
}

/* A cell of it that is queued has come nearer. */
static void come_nearer(const struct hr_expected *expected, unsigned number)
{
    struct hr_want *want = hr_want_cell(expected->tree, expected->face_id, number * (uint64_t)HR_CELL_BYTES);
    hr_lane_near(want, expected->ahead + number + 1);
}

static void bring(struct hr_expected *expected)
{
    struct hr_plan_tree *tree = expected->tree;
    struct hr_plan *plan = tree->plan;
    const struct hr_cached *face = hr_family_face(plan, expected->face_id);
    for (unsigned i = 0; face && i < expected->brought; i++) {
        come_nearer(expected, i);
    }
    while (face && expected->brought < expected->wanted && has_room(plan)) {
        uint64_t first = expected->brought * (uint64_t)HR_CELL_BYTES;
        if (first >= face->size) {
            return;
        }
        uint64_t left = face->size - first, bytes = left < HR_CELL_BYTES ? left : HR_CELL_BYTES;
        const struct hr_cached *there = hr_cache_segment(plan->cache, face->file_id, first);
        if (there && hr_cached_offset(there) + there->size >= first + bytes) {
            hr_cache_announced(plan->cache, there->file_id);
        } else if (!hr_want_add_range(tree, face, HR_WANT_SEGMENT, HR_REASON_WINDOW, first, bytes)) {
            return;
        }
        come_nearer(expected, expected->brought);
        plan->stats.shards_ahead += expected->brought == 0;
        expected->brought++;
    }
}

/* Programs that open it by name need not ask the store what it is. */
static void remember(struct hr_plan_tree *tree, const struct hr_cached *face)
{
    uint32_t prefix_len = tree->shared->prefix_len;
    if (face->key_len <= prefix_len ||
        !hr_tree_unlisted(tree, hr_cached_key(face) + prefix_len, face->key_len - prefix_len)) {
        return;
    }
    struct hr_overlay *overlay =
        hr_overlay_put(tree, hr_cached_key(face) + prefix_len, face->key_len - prefix_len);
    if (overlay) {
        overlay->error = 0;
        overlay->kind = HR_KIND_FILE;
        overlay->size = face->size;
        overlay->mtime_ns = face->mtime_ns;
        overlay->file_id = 0;
        snprintf(overlay->etag, sizeof overlay->etag, "%s", hr_cached_etag(face));
    }
}

static void face_there(void *owner, uint32_t ticket, const struct hr_answer *answer)
{
    struct hr_plan *plan = owner;
    struct hr_expected *expected = &plan->shards->expected[ticket % HR_EXPECTED];
    if (plan->ending || !expected->taken || expected->turn != ticket >> HR_EXPECTED_BITS) {
        return;
    }
    const struct hr_cached *face = answer->error ? NULL : hr_family_face(plan, answer->file_id);
    if (!face) {
        expected->wanted = 0; /* all of it is there, or it cannot be had: nothing is left to do */
        return;
    }
    expected->face_id = face->file_id;
    remember(expected->tree, face);
    bring(expected);
    hr_plan_pump(plan);
}

static struct hr_expected *free_place(struct hr_plan *plan)
{
    for (unsigned i = 0; i < HR_EXPECTED; i++) {
        struct hr_expected *expected = &plan->shards->expected[i];
        if (expected->taken && hr_clock_ms() - expected->since_ms > HR_EXPECTED_MS) {
            hr_family_drop(expected);
        }
        if (!expected->taken) {
            return expected;
        }
    }
    return NULL;
}

static const struct hr_sibling *next_of(struct hr_plan_tree *tree, struct hr_family *family)
{
    struct hr_row row = hr_family_row(family);
    if (!hr_family_fits(family, &row)) {
        return NULL;
    }
    for (uint64_t i = row.first; i < family->names.count; i += row.step) {
        struct hr_sibling *one = &family->names.list[i];
        if (!one->opened && !hr_family_expected(tree->plan, family->id, one->name)) {
            return one;
        }
    }
    learn_more(family, &row);
    return NULL;
}

static struct hr_expected *expect(struct hr_plan_tree *tree, struct hr_family *family, uint64_t after)
{
    struct hr_plan *plan = tree->plan;
    const struct hr_sibling *next = next_of(tree, family);
    struct hr_expected *expected = next ? free_place(plan) : NULL;
    if (!expected || next->key_len <= tree->shared->prefix_len) {
        return NULL;
    }
    *expected = (struct hr_expected){.taken = true,
                                     .turn = expected->turn,
                                     .tree = tree,
                                     .family = family->id,
                                     .name = next->name,
                                     .after = after,
                                     .since_ms = hr_clock_ms()};
    return expected;
}

void hr_shard_ahead(struct hr_plan_tree *tree, uint64_t face_id, unsigned ahead, unsigned cells)
{
    struct hr_plan *plan = tree->plan;
    const struct hr_cached *face = hr_family_face(plan, face_id);
    struct hr_family *family = face ? hr_family_of(plan, face) : NULL;
    struct hr_expected *expected = NULL;
    if (!family || !tree->settings.prefetch) {
        return;
    }
    learn_names(tree, family, face_id, ahead, cells);
    for (unsigned i = 0; i < HR_EXPECTED && !expected; i++) {
        struct hr_expected *one = &plan->shards->expected[i];
        expected = one->taken && one->after == face_id ? one : NULL;
    }
    if (expected) {
        expected->ahead = ahead;
        expected->wanted = cells > expected->wanted ? cells : expected->wanted;
        bring(expected);
        return;
    }
    expected = has_room(plan) ? expect(tree, family, face_id) : NULL;
    if (expected) {
        const struct hr_sibling *next = hr_family_sibling(family, expected->name);
        uint32_t ticket = expected->turn << HR_EXPECTED_BITS | (uint32_t)(expected - plan->shards->expected);
        struct hr_asker asker = {.fn = face_there, .owner = plan, .ticket = ticket};
        expected->ahead = ahead;
        expected->wanted = cells;
        (void)hr_face_want(tree, next->key, next->key_len, next->etag, next->size, next->mtime_ns, &asker);
    }
}
