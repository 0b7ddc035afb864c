/* What an answer proves: the object's size and version, the checksums its body must have, and whether a later
 * part belongs to it. */
#include "fetch/plan/inner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/store/etag.h"

static bool md5_is_off(const struct hr_plan *plan, const struct hr_plan_tree *tree)
{
    struct hr_md5_off *off = NULL;
    HASH_FIND(hh, plan->md5_off, &tree->source, sizeof tree->source, off);
    return off != NULL;
}

void hr_proof_md5_off(struct hr_plan_tree *tree)
{
    struct hr_plan *plan = tree->plan;
    struct hr_md5_off *off = md5_is_off(plan, tree) ? NULL : calloc(1, sizeof *off);
    if (!off) {
        return; /* known already; or no memory: the next object finds it out again */
    }
    off->source = tree->source;
    HASH_ADD(hh, plan->md5_off, source, sizeof off->source, off);
    if (!off->hh.tbl) {
        free(off);
        return;
    }
    plan->stats.md5_off++;
    hr_log(HR_LOG_WARNING,
           "bucket=%s: an ETag of 32 hex digits is not the MD5 of its object (encrypted by the store?); "
           "MD5 is not checked there any more",
           hr_store_bucket(tree->store));
}

static void expect_md5(struct hr_want *want)
{
    want->verify.md5 = true;
    memcpy(want->verify.md5_hex, want->etag, sizeof want->verify.md5_hex - 1);
    want->verify.md5_hex[sizeof want->verify.md5_hex - 1] = '\0';
}

void hr_proof_assume(struct hr_want *want)
{
    struct hr_plan_tree *tree = want->tree;
    if (hr_etag_looks_md5(want->etag) && tree->md5_is_etag && !md5_is_off(want->plan, tree)) {
        expect_md5(want);
    }
}

int hr_proof_learn(struct hr_want *want, const struct hr_call *call)
{
    if (want->etag[0] && call->etag[0] && strcmp(want->etag, call->etag) != 0) {
        return -ESTALE;
    }
    bool size_told = call->object_bytes > 0 || call->body.len == 0;
    uint64_t object_bytes = want->kind == HR_WANT_SEGMENT ? want->object_bytes : want->size;
    if (want->size != HR_UNKNOWN_BYTES && size_told && call->object_bytes != object_bytes) {
        return want->etag[0] && call->etag[0] ? -EBADMSG : -ESTALE;
    }
    if (want->size == HR_UNKNOWN_BYTES && (!size_told || call->object_bytes < call->body.len)) {
        return -EIO;
    }
    if (want->size == HR_UNKNOWN_BYTES) {
        want->size = call->object_bytes;
        want->next_offset = call->body.len;
    }
    if (!want->etag[0]) {
        snprintf(want->etag, sizeof want->etag, "%s", call->etag);
    }
    if (want->mtime_ns == 0) {
        want->mtime_ns = call->mtime_ns;
    }
    if (hr_etag_looks_md5(want->etag)) {
        want->tree->md5_is_etag = call->md5_is_etag;
    }
    want->learned = want->answered = true;
    if (want->kind == HR_WANT_SEGMENT && want->size != want->object_bytes) {
        return 0; /* checksums are of whole objects */
    }
    want->verify.md5 = false;
    if (call->md5_is_etag && !want->md5_doubted && !md5_is_off(want->plan, want->tree)) {
        expect_md5(want);
    }
    want->verify.crc_kind = call->crc_kind;
    want->verify.crc = call->crc;
    memcpy(want->verify.sha, call->sha256, sizeof want->verify.sha);
    return 0;
}

/* Is a later part of the version that the first one was? A store without ETags is taken by size and time. */
int hr_proof_same(const struct hr_want *want, const struct hr_call *call)
{
    if (call->etag[0] && want->etag[0]) {
        return strcmp(want->etag, call->etag) == 0 ? 0 : -ESTALE;
    }
    bool other =
        (call->object_bytes > 0 && call->object_bytes != want->size) ||
        (call->mtime_ns && want->mtime_ns && call->mtime_ns / 1000000000 != want->mtime_ns / 1000000000);
    return other ? -ESTALE : 0;
}
