#include "fetch/plan/families.h"

#include <stdlib.h>
#include <string.h>

#include "fetch/base/clock.h"

#define HR_FIT_OPENS 3      /* in a row of equal steps... */
#define HR_FIT_NEIGHBOURS 2 /* ...or these, side by side, the first read whole... */
#define HR_FIT_AGAIN 6      /* ...and after HR_WRONG_MOST of them were broken off */
#define HR_WRONG_MOST 2

static uint64_t family_id(const struct hr_source_id *source, const char *key, uint32_t key_len)
{
    uint32_t len;
    const char *suffix = hr_sibling_suffix(key, key_len, &len);
    uint64_t hash = hr_index_hash_seeded(0, (const char *)source, sizeof *source);
    hash = hr_index_hash_seeded(hash, key, hr_sibling_folder(key, key_len));
    hash = hr_index_hash_seeded(hash, suffix, len);
    return hash ? hash : 1;
}

void hr_family_forget(struct hr_family *family)
{
    hr_siblings_free(&family->names);
    free(family->lowest);
    *family = (struct hr_family){0};
}

struct hr_family *hr_family_find(struct hr_plan *plan, uint64_t id)
{
    for (unsigned i = 0; plan->shards && i < HR_FAMILIES; i++) {
        if (plan->shards->families[i].id == id) {
            return &plan->shards->families[i];
        }
    }
    return NULL;
}

struct hr_family *hr_family_by_key(struct hr_plan *plan, const struct hr_source_id *source, const char *key,
                                   uint32_t key_len)
{
    return hr_family_find(plan, family_id(source, key, key_len));
}

struct hr_family *hr_family_of(struct hr_plan *plan, const struct hr_cached *face)
{
    return hr_family_by_key(plan, face->source, hr_cached_key(face), face->key_len);
}

struct hr_family *hr_family_make(struct hr_plan *plan, const struct hr_cached *face)
{
    uint64_t id = family_id(face->source, hr_cached_key(face), face->key_len);
    if (!plan->shards) {
        plan->shards = calloc(1, sizeof *plan->shards);
    }
    struct hr_family *family = plan->shards ? hr_family_find(plan, id) : NULL;
    if (plan->shards && !family) {
        family = &plan->shards->families[0];
        for (unsigned i = 1; i < HR_FAMILIES; i++) {
            struct hr_family *other = &plan->shards->families[i];
            family = other->used_ms < family->used_ms ? other : family;
        }
        hr_family_forget(family);
        family->id = id;
    }
    if (family) {
        family->used_ms = hr_clock_ms();
    }
    return family;
}

const struct hr_cached *hr_family_face(struct hr_plan *plan, uint64_t face_id)
{
    const struct hr_cached *face = hr_cache_by_id(plan->cache, face_id);
    return face && face->kind == HR_CACHED_FACE ? face : NULL;
}

struct hr_sibling *hr_family_sibling(struct hr_family *family, uint64_t name)
{
    for (uint32_t i = 0; i < family->names.count; i++) {
        if (family->names.list[i].name == name) {
            return &family->names.list[i];
        }
    }
    return NULL;
}

unsigned hr_family_begun_at(const struct hr_family *family, uint64_t name)
{
    unsigned kept = family->begun_count < HR_BEGUN_KEPT ? family->begun_count : HR_BEGUN_KEPT;
    for (unsigned i = 0; i < kept; i++) {
        if (family->begun[i] == name) {
            return i;
        }
    }
    return HR_BEGUN_KEPT;
}

/* ---- the order of opens ---- */

static uint32_t common(uint32_t a, uint32_t b)
{
    while (b) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

struct hr_row hr_family_row(const struct hr_family *family)
{
    struct hr_row row = {0};
    for (uint32_t i = 0; i < family->names.count; i++) {
        const struct hr_sibling *one = &family->names.list[i];
        if (one->opened) {
            row.first = row.opened ? row.first : i;
            row.step = common(row.step, i - row.last) * (row.opened > 0);
            row.last = i;
            row.opened++;
            row.reading += !one->read_whole;
        }
    }
    return row;
}

/* Equal steps, with no more left out than there are others who may come to that. */
static bool is_row(const struct hr_family *family, const struct hr_row *row)
{
    if (row->opened < 2 || row->step == 0) {
        return row->opened < 2;
    }
    uint32_t left_out = (row->last - row->first) / row->step + 1 - row->opened;
    return left_out == 0 || left_out < family->reading_most;
}

bool hr_family_fits(const struct hr_family *family, const struct hr_row *row)
{
    unsigned needed = family->wrong >= HR_WRONG_MOST ? HR_FIT_AGAIN : HR_FIT_OPENS;
    bool neighbours = family->wrong == 0 && row->opened == HR_FIT_NEIGHBOURS && row->step == 1 &&
                      family->names.list[row->first].read_whole;
    return is_row(family, row) && (row->opened >= needed || neighbours);
}

void hr_family_drop(struct hr_expected *expected)
{
    *expected = (struct hr_expected){.turn = expected->turn + 1};
}

static void start_anew(struct hr_plan *plan, struct hr_family *family)
{
    family->reading_most = 0;
    for (uint32_t i = 0; i < family->names.count; i++) {
        family->names.list[i].opened = family->names.list[i].read_whole = false;
    }
    for (unsigned i = 0; i < HR_EXPECTED; i++) {
        struct hr_expected *expected = &plan->shards->expected[i];
        if (expected->taken && expected->family == family->id) {
            hr_family_drop(expected);
        }
    }
}

void hr_family_opened(struct hr_plan *plan, struct hr_family *family, struct hr_sibling *sibling)
{
    struct hr_row before = hr_family_row(family);
    if (sibling->opened && before.reading > 0) {
        return; /* by one more program */
    }
    bool fitted = hr_family_fits(family, &before);
    if (sibling->opened) {
        start_anew(plan, family); /* the next epoch */
        fitted = false;
    }
    sibling->opened = true;
    struct hr_row after = hr_family_row(family);
    family->reading_most = after.reading > family->reading_most ? after.reading : family->reading_most;
    if (!is_row(family, &after)) {
        family->wrong += fitted;
        plan->stats.shards_wrong += fitted;
        start_anew(plan, family);
        sibling->opened = true;
    }
}

struct hr_expected *hr_family_expected(struct hr_plan *plan, uint64_t family, uint64_t name)
{
    for (unsigned i = 0; i < HR_EXPECTED; i++) {
        struct hr_expected *expected = &plan->shards->expected[i];
        if (expected->taken && expected->family == family && expected->name == name) {
            return expected;
        }
    }
    return NULL;
}

void hr_family_named(struct hr_plan *plan, struct hr_family *family)
{
    for (uint32_t i = 0; i < family->names.count; i++) {
        struct hr_sibling *one = &family->names.list[i];
        unsigned at = hr_family_begun_at(family, one->name);
        one->opened = at < HR_BEGUN_KEPT;
        one->read_whole = one->opened && family->whole[at];
    }
    struct hr_row row = hr_family_row(family);
    family->reading_most = row.reading;
    if (!is_row(family, &row)) {
        start_anew(plan, family);
    }
}
