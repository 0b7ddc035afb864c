#include "fetch/base/digest.h"

#include <errno.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/opensslv.h>
#if OPENSSL_VERSION_NUMBER >= 0x30000000L
#include <openssl/provider.h>
#endif
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/base/cleanup.h"

#define SHA256_BLOCK_BYTES 64
#define HMAC_INNER_PAD 0x36 /* RFC 2104 */
#define HMAC_OUTER_PAD 0x5c

static const EVP_MD *digests[HR_DIGEST_KIND_COUNT];
static pthread_once_t digests_once = PTHREAD_ONCE_INIT;

/* OpenSSL 3 looks a digest up by name on every use of EVP_sha256(), which costs as much as hashing 300 bytes.
 */
static void fetch_digests(void)
{
#if OPENSSL_VERSION_NUMBER >= 0x30000000L
    static const char *const names[HR_DIGEST_KIND_COUNT] = {"MD5", "SHA1", "SHA256"};
    for (int i = 0; i < HR_DIGEST_KIND_COUNT; i++) {
        /* MD5 is a checksum here, which a FIPS configuration has no say in. */
        digests[i] = EVP_MD_fetch(NULL, names[i], i == HR_DIGEST_MD5 ? "-fips" : NULL);
    }
#else
    digests[HR_DIGEST_MD5] = EVP_md5();
    digests[HR_DIGEST_SHA1] = EVP_sha1();
    digests[HR_DIGEST_SHA256] = EVP_sha256();
#endif
    for (int i = 0; i < HR_DIGEST_KIND_COUNT; i++) {
        uint8_t ignored[EVP_MAX_MD_SIZE];
        if (digests[i] && EVP_Digest("", 0, ignored, NULL, digests[i], NULL) != 1) {
            digests[i] = NULL;
        }
    }
}

static const EVP_MD *digest_of(enum hr_digest_kind kind)
{
    (void)pthread_once(&digests_once, fetch_digests);
    return digests[kind];
}

bool hr_digest_there(enum hr_digest_kind kind)
{
    return digest_of(kind) != NULL;
}

/* Whether OpenSSL is without some of them by its configuration. */
static bool is_restricted(void)
{
#if OPENSSL_VERSION_NUMBER >= 0x30000000L
    return EVP_default_properties_is_fips_enabled(NULL) || OSSL_PROVIDER_available(NULL, "fips");
#else
    return false;
#endif
}

int hr_digests_ready(void)
{
    for (int kind = 0; kind < HR_DIGEST_KIND_COUNT; kind++) {
        if (!digest_of(kind) && (kind == HR_DIGEST_SHA256 || !is_restricted())) {
            return -ENOMEM;
        }
    }
    return 0;
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

int hr_digest_restart(struct hr_digest_ctx *ctx)
{
    return EVP_DigestInit_ex(ctx->evp, NULL, NULL) == 1 ? 0 : -EIO;
}

void hr_digest_free(struct hr_digest_ctx *ctx)
{
    if (ctx) {
        EVP_MD_CTX_free(ctx->evp);
        free(ctx);
    }
}

/* The digest's state behind the padded key: RFC 2104's two halves begin there; `begun`: the inner one behind
 * what all messages begin with. */
struct hr_hmac {
    EVP_MD_CTX *inner, *outer, *begun, *work;
};

static EVP_MD_CTX *pad(const EVP_MD *md, const uint8_t key[SHA256_BLOCK_BYTES], uint8_t with)
{
    uint8_t block[SHA256_BLOCK_BYTES];
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    for (size_t i = 0; i < sizeof(block); i++) {
        block[i] = key[i] ^ with;
    }
    if (ctx && (EVP_DigestInit_ex(ctx, md, NULL) != 1 || EVP_DigestUpdate(ctx, block, sizeof(block)) != 1)) {
        EVP_MD_CTX_free(ctx);
        ctx = NULL;
    }
    OPENSSL_cleanse(block, sizeof(block));
    return ctx;
}

int hr_hmac_new(const void *key, size_t key_len, struct hr_hmac **ret)
{
    const EVP_MD *md = digest_of(HR_DIGEST_SHA256);
    uint8_t block[SHA256_BLOCK_BYTES] = {0};
    struct hr_hmac *hmac = calloc(1, sizeof(*hmac));
    if (!md || !hmac) {
        free(hmac);
        return md ? -ENOMEM : -EIO;
    }
    int r = 0;
    if (key_len > sizeof(block)) {
        r = hr_digest(HR_DIGEST_SHA256, key, key_len, block);
    } else if (key_len > 0) {
        memcpy(block, key, key_len);
    }
    hmac->inner = r == 0 ? pad(md, block, HMAC_INNER_PAD) : NULL;
    hmac->outer = r == 0 ? pad(md, block, HMAC_OUTER_PAD) : NULL;
    hmac->begun = EVP_MD_CTX_new();
    hmac->work = EVP_MD_CTX_new();
    OPENSSL_cleanse(block, sizeof(block));
    if (!hmac->inner || !hmac->outer || !hmac->begun || !hmac->work || hr_hmac_begin(hmac, "", 0) < 0) {
        hr_hmac_free(hmac);
        return r < 0 ? r : -ENOMEM;
    }
    *ret = hmac;
    return 0;
}

int hr_hmac_begin(struct hr_hmac *hmac, const void *bytes, size_t len)
{
    bool done =
        EVP_MD_CTX_copy_ex(hmac->begun, hmac->inner) == 1 && EVP_DigestUpdate(hmac->begun, bytes, len) == 1;
    return done ? 0 : -EIO;
}

static bool half(EVP_MD_CTX *work, const EVP_MD_CTX *begun, const void *bytes, size_t len, uint8_t *ret)
{
    return EVP_MD_CTX_copy_ex(work, begun) == 1 && EVP_DigestUpdate(work, bytes, len) == 1 &&
           EVP_DigestFinal_ex(work, ret, NULL) == 1;
}

int hr_hmac_sign(struct hr_hmac *hmac, const void *rest, size_t len, uint8_t ret[HR_SHA256_BYTES])
{
    uint8_t inner[HR_SHA256_BYTES];
    bool done = half(hmac->work, hmac->begun, rest, len, inner) &&
                half(hmac->work, hmac->outer, inner, sizeof(inner), ret);
    return done ? 0 : -EIO;
}

void hr_hmac_free(struct hr_hmac *hmac)
{
    if (hmac) {
        EVP_MD_CTX_free(hmac->inner);
        EVP_MD_CTX_free(hmac->outer);
        EVP_MD_CTX_free(hmac->begun);
        EVP_MD_CTX_free(hmac->work);
        free(hmac);
    }
}

int hr_hmac_sha256(const void *key, size_t key_len, const void *bytes, size_t len,
                   uint8_t ret[HR_SHA256_BYTES])
{
    struct hr_hmac *hmac = NULL;
    int r = hr_hmac_new(key, key_len, &hmac);
    if (r == 0) {
        r = hr_hmac_sign(hmac, bytes, len, ret);
    }
    hr_hmac_free(hmac);
    return r;
}
