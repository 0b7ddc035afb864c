#include "fetch/base/digest.h"

#include <errno.h>
#include <limits.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/opensslv.h>
#include <pthread.h>
#include <stdlib.h>

#include "fetch/base/cleanup.h"

static const EVP_MD *digests[HR_DIGEST_KIND_COUNT];
static pthread_once_t digests_once = PTHREAD_ONCE_INIT;

/* OpenSSL 3 looks a digest up by name on every use of EVP_sha256(), which costs as much as hashing 300 bytes.
 */
static void fetch_digests(void)
{
#if OPENSSL_VERSION_NUMBER >= 0x30000000L
    static const char *const names[HR_DIGEST_KIND_COUNT] = {"MD5", "SHA1", "SHA256"};
    for (int i = 0; i < HR_DIGEST_KIND_COUNT; i++) {
        digests[i] = EVP_MD_fetch(NULL, names[i], NULL);
    }
#else
    digests[HR_DIGEST_MD5] = EVP_md5();
    digests[HR_DIGEST_SHA1] = EVP_sha1();
    digests[HR_DIGEST_SHA256] = EVP_sha256();
#endif
}

static const EVP_MD *digest_of(enum hr_digest_kind kind)
{
    (void)pthread_once(&digests_once, fetch_digests);
    return digests[kind];
}

int hr_digest(enum hr_digest_kind kind, const void *bytes, size_t len, uint8_t *ret)
{
    const EVP_MD *md = digest_of(kind);
    if (!md || EVP_Digest(bytes, len, ret, NULL, md, NULL) != 1) {
        return -EIO;
    }
    return 0;
}

struct hr_digest_ctx {
    EVP_MD_CTX *evp;
};

int hr_digest_new(enum hr_digest_kind kind, struct hr_digest_ctx **ret)
{
    const EVP_MD *md = digest_of(kind);
    if (!md) {
        return -EIO;
    }
    struct hr_digest_ctx *ctx = calloc(1, sizeof(*ctx));
    if (!ctx) {
        return -ENOMEM;
    }
    ctx->evp = EVP_MD_CTX_new();
    if (!ctx->evp || EVP_DigestInit_ex(ctx->evp, md, NULL) != 1) {
        int r = ctx->evp ? -EIO : -ENOMEM;
        hr_digest_free(ctx);
        return r;
    }
    *ret = ctx;
    return 0;
}

int hr_digest_update(struct hr_digest_ctx *ctx, const void *bytes, size_t len)
{
    return EVP_DigestUpdate(ctx->evp, bytes, len) == 1 ? 0 : -EIO;
}

int hr_digest_final(struct hr_digest_ctx *ctx, uint8_t *ret)
{
    return EVP_DigestFinal_ex(ctx->evp, ret, NULL) == 1 ? 0 : -EIO;
}

void hr_digest_free(struct hr_digest_ctx *ctx)
{
    if (ctx) {
        EVP_MD_CTX_free(ctx->evp);
        free(ctx);
    }
}

int hr_hmac_sha256(const void *key, size_t key_len, const void *bytes, size_t len,
                   uint8_t ret[HR_SHA256_BYTES])
{
    const EVP_MD *md = digest_of(HR_DIGEST_SHA256);
    if (!md || key_len > INT_MAX || !HMAC(md, key, (int)key_len, bytes, len, ret, NULL)) {
        return -EIO;
    }
    return 0;
}
