/* Digests: OpenSSL's for the cryptographic ones, our own tables or CPU instructions for the CRCs.
 * Any thread; no global lock on the hot path (EVP objects are fetched once, contexts are per call or per
 * thread). */
#ifndef HR_BASE_DIGEST_H
#define HR_BASE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HR_MD5_BYTES 16
#define HR_SHA1_BYTES 20
#define HR_SHA256_BYTES 32

enum hr_digest_kind { HR_DIGEST_MD5, HR_DIGEST_SHA1, HR_DIGEST_SHA256, HR_DIGEST_KIND_COUNT };

/* Whether all that OpenSSL is configured to have are there: 0, or -ENOMEM, which stays: what OpenSSL could
 * not load at its first try it does not always load later. */
int hr_digests_ready(void);
/* False: OpenSSL has none, as some FIPS configurations have no MD5; all that asks for it is -EIO then. */
bool hr_digest_there(enum hr_digest_kind kind);

/* One-shot; 0 or -EIO (OpenSSL refused). `ret` has the digest's length. */
int hr_digest(enum hr_digest_kind kind, const void *bytes, size_t len, uint8_t *ret);

/* Incremental, for objects that arrive in parts. new/free; update and final return 0 or -EIO. */
struct hr_digest_ctx;
int hr_digest_new(enum hr_digest_kind kind, struct hr_digest_ctx **ret);
int hr_digest_update(struct hr_digest_ctx *ctx, const void *bytes, size_t len);
int hr_digest_final(struct hr_digest_ctx *ctx, uint8_t *ret);
int hr_digest_restart(struct hr_digest_ctx *ctx); /* after final, for the next message; 0 or -EIO */
void hr_digest_free(struct hr_digest_ctx *ctx);   /* accepts NULL */

/* 0, -EIO, -ENOMEM. */
int hr_hmac_sha256(const void *key, size_t key_len, const void *bytes, size_t len,
                   uint8_t ret[HR_SHA256_BYTES]);

/* HMAC-SHA256 with one key many times: what the key alone makes of it is computed once. Not by two threads at
 * a time. */
struct hr_hmac;
int hr_hmac_new(const void *key, size_t key_len, struct hr_hmac **ret); /* 0, -EIO, -ENOMEM */
/* Every message from now on begins with these bytes (at first with none), which are not given to sign again.
 * 0 or -EIO. */
int hr_hmac_begin(struct hr_hmac *hmac, const void *bytes, size_t len);
int hr_hmac_sign(struct hr_hmac *hmac, const void *rest, size_t len, uint8_t ret[HR_SHA256_BYTES]);
void hr_hmac_free(struct hr_hmac *hmac); /* accepts NULL */

/* CRCs as S3's x-amz-checksum-* define them; start with crc = 0, feed parts in order. */
uint32_t hr_crc32(uint32_t crc, const void *bytes, size_t len);     /* ISO-HDLC (zlib) */
uint32_t hr_crc32c(uint32_t crc, const void *bytes, size_t len);    /* Castagnoli */
uint64_t hr_crc64nvme(uint64_t crc, const void *bytes, size_t len); /* "rocksoft" polynomial, reflected */

#endif
