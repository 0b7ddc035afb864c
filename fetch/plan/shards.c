#include "fetch/plan/shards.h"

#include <stdlib.h>
#include <string.h>

#include "fetch/plan/families.h"

#define HR_DOUBTS 4       /* so many begun in a row and not read on: the next may be left as well */
#define HR_WHOLE_NEEDED 3 /* read to their ends, and half of all that were begun: the next will be */

/* Formats without an index at their end, or of which nearly all readers begin at the start. */
static const char *const streams[] = {"tar", "tgz", "tfrecord", "tfrecords", "gz",  "zst", "zstd",
                                      "bz2", "xz",  "lz4",      "jsonl",     "csv", "tsv", "ndjson"};

static bool is_stream(const char *key, uint32_t key_len)
{
    uint32_t len;
    const char *suffix = hr_sibling_suffix(key, key_len, &len);
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        if (strlen(streams[i]) == len && memcmp(suffix, streams[i], len) == 0) {
            return true;
        }
    }
    return false;
}

static void keep_lowest(struct hr_family *family, const struct hr_cached *face)
{
    if (!family->asked && (!family->lowest || strcmp(hr_cached_key(face), family->lowest) < 0)) {
        char *lowest = strndup(hr_cached_key(face), face->key_len);
        if (lowest) {
            free(family->lowest);
            family->lowest = lowest;
        }
    }
}

static void keep_begun(struct hr_family *family, uint64_t name)
{
    unsigned at = hr_family_begun_at(family, name);
    if (at == HR_BEGUN_KEPT) {
        at = family->begun_count++ % HR_BEGUN_KEPT;
        family->begun[at] = name;
    }
    family->whole[at] = false;
}

void hr_shard_begun(struct hr_plan *plan, uint64_t face_id, struct hr_shard_opening *ret)
{
    const struct hr_cached *face = hr_family_face(plan, face_id);
    struct hr_family *family = face ? hr_family_make(plan, face) : NULL;
    *ret = (struct hr_shard_opening){.trusted = true};
    if (!family) {
        return;
    }
    bool first = family->begun_count == 0;
    ret->trusted = (first ? plan->shards->doubts : family->doubts) < HR_DOUBTS;
    ret->read_whole =
        family->whole_count >= HR_WHOLE_NEEDED && family->whole_count * 2 >= family->begun_count;
    ret->stream = is_stream(hr_cached_key(face), face->key_len);
    uint64_t name = hr_sibling_name(hr_cached_key(face), face->key_len);
    family->doubts++;
    plan->shards->doubts += first;
    keep_begun(family, name);
    keep_lowest(family, face);
    struct hr_expected *expected = hr_family_expected(plan, family->id, name);
    if (expected) {
        plan->stats.shards_used += expected->brought > 0;
        family->wrong = 0;
        hr_family_drop(expected);
    }
    struct hr_sibling *sibling = hr_family_sibling(family, name);
    if (sibling) {
        hr_family_opened(plan, family, sibling);
    }
}

void hr_shard_read_on(struct hr_plan *plan, uint64_t face_id)
{
    const struct hr_cached *face = hr_family_face(plan, face_id);
    struct hr_family *family = face ? hr_family_of(plan, face) : NULL;
    if (family) {
        plan->shards->doubts = family->begun_count == 1 ? 0 : plan->shards->doubts;
        family->doubts = 0;
    }
}

void hr_shard_read_whole(struct hr_plan *plan, uint64_t face_id)
{
    const struct hr_cached *face = hr_family_face(plan, face_id);
    struct hr_family *family = face ? hr_family_of(plan, face) : NULL;
    if (!family) {
        return;
    }
    uint64_t name = hr_sibling_name(hr_cached_key(face), face->key_len);
    struct hr_sibling *sibling = hr_family_sibling(family, name);
    unsigned at = hr_family_begun_at(family, name);
    family->doubts = 0;
    family->whole_count += family->whole_count < family->begun_count;
    if (at < HR_BEGUN_KEPT) {
        family->whole[at] = true;
    }
    if (sibling) {
        sibling->read_whole = true;
    }
}

void hr_shards_free(struct hr_plan *plan)
{
    for (unsigned i = 0; plan->shards && i < HR_FAMILIES; i++) {
        hr_family_forget(&plan->shards->families[i]);
    }
    free(plan->shards);
    plan->shards = NULL;
}
