#include "fetch/cache/verify.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "fetch/base/cleanup.h"
#include "fetch/base/digest.h"
#include "fetch/base/text.h"
#include "fetch/cache/cache.h"
#include "fetch/store/store.h"

#define READ_BYTES (256u * 1024) /* of a file read back: fits in L2 beside the digest's state */

struct verifier {
    const struct hr_verify *verify;
    struct hr_digest_ctx *md5;
    struct hr_digest_ctx *sha;
    uint64_t crc;
};

static void verifier_release(struct verifier *verifier)
{
    hr_digest_free(verifier->md5);
    hr_digest_free(verifier->sha);
}

static int verifier_start(struct verifier *verifier, const struct hr_verify *verify)
{
    int r = verify->crc_kind > HR_CRC_SHA256 ? -EINVAL : 0;
    verifier->verify = verify;
    if (!r && verify->md5) {
        r = hr_digest_new(HR_DIGEST_MD5, &verifier->md5);
    }
    if (!r && verify->crc_kind == HR_CRC_SHA1) {
        r = hr_digest_new(HR_DIGEST_SHA1, &verifier->sha);
    } else if (!r && verify->crc_kind == HR_CRC_SHA256) {
        r = hr_digest_new(HR_DIGEST_SHA256, &verifier->sha);
    }
    return r;
}

static int verifier_update(struct verifier *verifier, const void *bytes, size_t len)
{
    int r = 0;
    switch (verifier->verify->crc_kind) {
    case HR_CRC_CRC32:
        verifier->crc = hr_crc32((uint32_t)verifier->crc, bytes, len);
        break;
    case HR_CRC_CRC32C:
        verifier->crc = hr_crc32c((uint32_t)verifier->crc, bytes, len);
        break;
    case HR_CRC_CRC64NVME:
        verifier->crc = hr_crc64nvme(verifier->crc, bytes, len);
        break;
    default:
        break;
    }
    if (verifier->sha) {
        r = hr_digest_update(verifier->sha, bytes, len);
    }
    if (!r && verifier->md5) {
        r = hr_digest_update(verifier->md5, bytes, len);
    }
    return r;
}

bool hr_verify_md5(const struct hr_verify *verify, const uint8_t digest[HR_MD5_BYTES], char *ret_md5_hex)
{
    hr_hex_encode(digest, HR_MD5_BYTES, ret_md5_hex);
    return !strcasecmp(ret_md5_hex, verify->md5_hex);
}

static int verifier_end(struct verifier *verifier, char *ret_md5_hex)
{
    const struct hr_verify *verify = verifier->verify;
    bool same = true;
    if (verifier->md5) {
        uint8_t digest[HR_MD5_BYTES];
        int r = hr_digest_final(verifier->md5, digest);
        if (r < 0) {
            return r;
        }
        same = hr_verify_md5(verify, digest, ret_md5_hex);
    }
    if (verifier->sha) {
        uint8_t digest[HR_SHA256_BYTES];
        int r = hr_digest_final(verifier->sha, digest);
        if (r < 0) {
            return r;
        }
        size_t len = verify->crc_kind == HR_CRC_SHA1 ? HR_SHA1_BYTES : HR_SHA256_BYTES;
        same = same && !memcmp(digest, verify->sha, len);
    } else if (verify->crc_kind != HR_CRC_NONE) {
        same = same && verifier->crc == verify->crc;
    }
    return same ? 0 : -EBADMSG;
}

bool hr_verify_wanted(const struct hr_verify *verify)
{
    return verify->md5 || verify->crc_kind != HR_CRC_NONE;
}

int hr_verify_bytes(const struct hr_verify *verify, const void *bytes, size_t len, char *ret_md5_hex)
{
    hr_cleanup(verifier_release) struct verifier verifier = {0};
    int r = verifier_start(&verifier, verify);
    if (!r) {
        r = verifier_update(&verifier, bytes, len);
    }
    return r ? r : verifier_end(&verifier, ret_md5_hex);
}

int hr_verify_file(const struct hr_verify *verify, int fd, uint64_t size, char *ret_md5_hex)
{
    hr_cleanup(verifier_release) struct verifier verifier = {0};
    hr_cleanup_free uint8_t *bytes = malloc(READ_BYTES);
    int r = bytes ? verifier_start(&verifier, verify) : -ENOMEM;
    for (uint64_t at = 0; !r && at < size;) {
        size_t want = size - at < READ_BYTES ? (size_t)(size - at) : READ_BYTES;
        ssize_t got = pread(fd, bytes, want, (off_t)at);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return -EIO;
        }
        at += (uint64_t)got;
        r = verifier_update(&verifier, bytes, (size_t)got);
    }
    return r ? r : verifier_end(&verifier, ret_md5_hex);
}
