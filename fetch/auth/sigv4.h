/* AWS Signature Version 4 in the Authorization header, as S3 wants it: path and query are signed as they are
 * sent (encoded once, never normalised), the query sorted.
 *
 * Pure functions over the caller's data, but for a signer: it keeps the day's signing key, what the second's
 * signatures begin with and the memory of the last canonical request, and is used by one thread (a store's
 * signs on the main loop). */
#ifndef HR_AUTH_SIGV4_H
#define HR_AUTH_SIGV4_H

#include <stdint.h>

#include "fetch/auth/credentials.h"
#include "fetch/base/buf.h"

#define HR_SIGV4_HEADERS_MAX 24 /* as many as a request of net has at most */
#define HR_SIGV4_UNSIGNED "UNSIGNED-PAYLOAD"
#define HR_SIGV4_EMPTY_HASH "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define HR_SIGV4_DATE_BYTES 17 /* "20130524T000000Z" and its '\0' */

struct hr_sigv4_header {
    const char *name;  /* lower case */
    const char *value; /* as sent; outer blanks and runs of blanks are folded for signing */
};

struct hr_sigv4_request {
    const char *method;
    const char *path;  /* percent-encoded as sent, up to its end or a '?'; "" is "/" */
    const char *query; /* percent-encoded as sent, without '?', any order; "" or NULL: none */
    /* All that are to be signed: host, x-amz-date, x-amz-content-sha256, x-amz-security-token, ... Any order.
     */
    struct hr_sigv4_header headers[HR_SIGV4_HEADERS_MAX];
    unsigned header_count;
    const char *payload_hash; /* hex SHA-256, or HR_SIGV4_UNSIGNED */
    const char *date;         /* the x-amz-date value */
    const char *region;
    const char *service;
};

struct hr_sigv4_signer; /* the cached signing key: by secret, time, region and service */
int hr_sigv4_signer_new(struct hr_sigv4_signer **ret);
void hr_sigv4_signer_free(struct hr_sigv4_signer *signer); /* zeroes it; accepts NULL */

/* UTC basic format of a wall-clock second. */
void hr_sigv4_date(int64_t unix_s, char ret[HR_SIGV4_DATE_BYTES]);

/* Appends to `out`. 0, -EINVAL (no room for the headers, bad date), -ENOMEM, -EFBIG, -EIO (OpenSSL). */
int hr_sigv4_canonical(const struct hr_sigv4_request *request, struct hr_buf *out);
/* The Authorization header's value. */
int hr_sigv4_sign(struct hr_sigv4_signer *signer, const struct hr_credentials *credentials,
                  const struct hr_sigv4_request *request, struct hr_buf *out);

#endif
