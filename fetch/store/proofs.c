#include "fetch/store/proofs.h"

#include <string.h>
#include <strings.h>

#include "fetch/base/digest.h"
#include "fetch/base/text.h"
#include "fetch/store/etag.h"

static bool take_crc(const char *value, size_t bytes, uint64_t *ret)
{
    uint8_t raw[8];
    size_t len = sizeof(raw);
    uint64_t crc = 0;

    if (value == NULL || hr_base64_decode(value, strlen(value), raw, &len) < 0 || len != bytes) {
        return false;
    }
    for (size_t i = 0; i < bytes; i++) {
        crc = crc << 8 | raw[i];
    }
    *ret = crc;
    return true;
}

static bool take_hash(const char *value, size_t bytes, uint8_t ret[32])
{
    uint8_t raw[33];
    size_t len = sizeof(raw);

    if (value == NULL || hr_base64_decode(value, strlen(value), raw, &len) < 0 || len != bytes) {
        return false;
    }
    memset(ret, 0, 32);
    memcpy(ret, raw, bytes);
    return true;
}

/* Most answers have none of such a family of headers, and are spared the looks for each. */
static bool has_some(const struct hr_http_request *request, const char *family)
{
    size_t len = strlen(family);

    for (unsigned i = 0; i < request->answer_count; i++) {
        if (request->answer[i].name[0] == family[0] && strncmp(request->answer[i].name, family, len) == 0) {
            return true;
        }
    }
    return false;
}

/* The cheapest to compute first. Composite values ("...-3") are no base64 of the right length. */
static void take_checksum(struct hr_call *call, const struct hr_http_request *request, bool whole)
{
    call->crc_kind = HR_CRC_NONE;
    if (!has_some(request, "x-amz-checksum-")) {
        return;
    }
    const char *type = hr_http_answer(request, "x-amz-checksum-type");

    if (type != NULL && strcasecmp(type, "FULL_OBJECT") != 0) {
        return;
    }
    /* An answer to a range may carry a part's checksum, unless it says that it is the object's. */
    if (!whole && type == NULL) {
        return;
    }
    if (take_crc(hr_http_answer(request, "x-amz-checksum-crc64nvme"), 8, &call->crc)) {
        call->crc_kind = HR_CRC_CRC64NVME;
    } else if (take_crc(hr_http_answer(request, "x-amz-checksum-crc32c"), 4, &call->crc)) {
        call->crc_kind = HR_CRC_CRC32C;
    } else if (take_crc(hr_http_answer(request, "x-amz-checksum-crc32"), 4, &call->crc)) {
        call->crc_kind = HR_CRC_CRC32;
    } else if (take_hash(hr_http_answer(request, "x-amz-checksum-sha256"), 32, call->sha256)) {
        call->crc_kind = HR_CRC_SHA256;
    } else if (take_hash(hr_http_answer(request, "x-amz-checksum-sha1"), 20, call->sha256)) {
        call->crc_kind = HR_CRC_SHA1;
    }
}

static bool encrypted_etag(const struct hr_http_request *request)
{
    if (!has_some(request, "x-amz-server-side-encryption")) {
        return false;
    }
    const char *method = hr_http_answer(request, "x-amz-server-side-encryption");

    return (method != NULL && strncmp(method, "aws:kms", 7) == 0) ||
           hr_http_answer(request, "x-amz-server-side-encryption-aws-kms-key-id") != NULL ||
           hr_http_answer(request, "x-amz-server-side-encryption-customer-algorithm") != NULL;
}

void hr_proofs_take(struct hr_call *call, const struct hr_http_request *request, const struct hr_quirk *quirk,
                    bool whole)
{
    call->md5_is_etag = quirk->md5_etags && hr_etag_looks_md5(call->etag) && !encrypted_etag(request) &&
                        hr_digest_there(HR_DIGEST_MD5);
    take_checksum(call, request, whole);
}
