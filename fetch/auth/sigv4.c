#include "fetch/auth/sigv4.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fetch/base/cleanup.h"
#include "fetch/base/digest.h"
#include "fetch/base/text.h"

/* Parameters of one query: a listing has seven; redirected ones may bring a few of their own. */
#define QUERY_PARTS_MAX 64
/* A key of 1024 bytes encodes to 3072; a session token runs to 4 KiB; a listing carries two keys and a token.
 */
#define CANONICAL_MAX_BYTES (256 * 1024)
#define DAY_BYTES 8 /* "20130524" */
/* What the texts of a GET come to, so that their buffers are made once: a canonical request has 300 to 600
 * bytes, what is signed 150, the header's value 250 and the names of its headers. */
#define CANONICAL_LIKELY_BYTES 1024
#define TEXT_LIKELY_BYTES 256
#define HEADER_LIKELY_BYTES 512

struct hr_sigv4_signer {
    struct hr_hmac *key; /* of the day */
    char *secret;        /* what `key` was derived from; NULL: nothing cached */
    char day[DAY_BYTES + 1];
    char region[64];
    char service[32];
};

int hr_sigv4_signer_new(struct hr_sigv4_signer **ret)
{
    struct hr_sigv4_signer *signer = calloc(1, sizeof(*signer));

    if (signer == NULL) {
        return -ENOMEM;
    }
    *ret = signer;
    return 0;
}

void hr_sigv4_signer_free(struct hr_sigv4_signer *signer)
{
    if (signer != NULL) {
        hr_secret_free(signer->secret);
        hr_hmac_free(signer->key);
        free(signer);
    }
}

void hr_sigv4_date(int64_t unix_s, char ret[HR_SIGV4_DATE_BYTES])
{
    time_t seconds = (time_t)unix_s;
    struct tm parts = {0};

    (void)gmtime_r(&seconds, &parts);
    if (strftime(ret, HR_SIGV4_DATE_BYTES, "%Y%m%dT%H%M%SZ", &parts) == 0) {
        ret[0] = '\0';
    }
}

static int sorted_headers(const struct hr_sigv4_request *request, struct hr_sigv4_header *ret_sorted)
{
    if (request->header_count == 0 || request->header_count > HR_SIGV4_HEADERS_MAX) {
        return -EINVAL;
    }
    for (unsigned i = 0; i < request->header_count; i++) { /* a handful, and nearly sorted */
        unsigned at = i;

        for (; at > 0 && strcmp(ret_sorted[at - 1].name, request->headers[i].name) > 0; at--) {
            ret_sorted[at] = ret_sorted[at - 1];
        }
        ret_sorted[at] = request->headers[i];
    }
    return 0;
}

/* One text after the other; the list ends with NULL. */
static int append_all(struct hr_buf *out, const char *const *texts)
{
    int r = 0;

    for (; *texts != NULL && r == 0; texts++) {
        r = hr_buf_puts(out, *texts);
    }
    return r;
}

#define APPEND(out, ...) append_all(out, (const char *const[]){__VA_ARGS__, NULL})

/* Outer blanks are dropped, inner runs become one: both ends must agree on what proxies may change. */
static int append_folded(const char *value, struct hr_buf *out)
{
    const char *word = value + strspn(value, " \t");
    int r = 0;

    while (*word != '\0' && r == 0) {
        size_t len = strcspn(word, " \t");
        const char *next = word + len + strspn(word + len, " \t");

        r = hr_buf_append(out, word, len);
        if (r == 0 && *next != '\0') {
            r = hr_buf_append(out, " ", 1);
        }
        word = next;
    }
    return r;
}

struct query_part {
    const char *text;
    size_t len;
    size_t name_len;
};

static int compare_text(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);

    if (order != 0) {
        return order;
    }
    return (a_len > b_len) - (a_len < b_len);
}

static int compare_parts(const void *a, const void *b)
{
    const struct query_part *left = a;
    const struct query_part *right = b;
    int order = compare_text(left->text, left->name_len, right->text, right->name_len);

    return order != 0 ? order : compare_text(left->text, left->len, right->text, right->len);
}

static int append_query(const char *query, struct hr_buf *out)
{
    struct query_part parts[QUERY_PARTS_MAX];
    size_t count = 0;

    for (const char *p = query; p != NULL && *p != '\0';) {
        size_t len = strcspn(p, "&");

        if (len > 0) {
            if (count == QUERY_PARTS_MAX) {
                return -EINVAL;
            }
            size_t name_len = strcspn(p, "=&");
            parts[count++] = (struct query_part){p, len, name_len};
        }
        p += len + (p[len] == '&');
    }
    qsort(parts, count, sizeof(parts[0]), compare_parts);
    for (size_t i = 0; i < count; i++) {
        int r = i > 0 ? hr_buf_append(out, "&", 1) : 0;

        if (r == 0) {
            r = hr_buf_append(out, parts[i].text, parts[i].len);
        }
        if (r == 0 && parts[i].name_len == parts[i].len) {
            r = hr_buf_append(out, "=", 1);
        }
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int append_signed_names(const struct hr_sigv4_header *sorted, unsigned count, struct hr_buf *out)
{
    int r = 0;

    for (unsigned i = 0; i < count && r == 0; i++) {
        r = APPEND(out, i > 0 ? ";" : "", sorted[i].name);
    }
    return r;
}

int hr_sigv4_canonical(const struct hr_sigv4_request *request, struct hr_buf *out)
{
    struct hr_sigv4_header sorted[HR_SIGV4_HEADERS_MAX];
    int r = sorted_headers(request, sorted);

    if (r < 0) {
        return r;
    }
    r = APPEND(out, request->method, "\n", request->path[0] != '\0' ? request->path : "/", "\n");
    if (r == 0) {
        r = append_query(request->query, out);
    }
    if (r == 0) {
        r = hr_buf_append(out, "\n", 1);
    }
    for (unsigned i = 0; i < request->header_count && r == 0; i++) {
        r = APPEND(out, sorted[i].name, ":");
        if (r == 0) {
            r = append_folded(sorted[i].value, out);
        }
        if (r == 0) {
            r = hr_buf_append(out, "\n", 1);
        }
    }
    if (r == 0) {
        r = hr_buf_append(out, "\n", 1);
    }
    if (r == 0) {
        r = append_signed_names(sorted, request->header_count, out);
    }
    return r < 0 ? r : APPEND(out, "\n", request->payload_hash);
}

static int append_scope(const struct hr_sigv4_request *request, struct hr_buf *out)
{
    int r = hr_buf_append(out, request->date, DAY_BYTES);

    return r < 0 ? r : APPEND(out, "/", request->region, "/", request->service, "/aws4_request");
}

int hr_sigv4_string_to_sign(const struct hr_sigv4_request *request, struct hr_buf *out)
{
    hr_cleanup(hr_buf_release) struct hr_buf canonical = HR_BUF_INIT(CANONICAL_MAX_BYTES);
    uint8_t digest[HR_SHA256_BYTES];
    char hex[2 * HR_SHA256_BYTES + 1];
    int r;

    if (strlen(request->date) != HR_SIGV4_DATE_BYTES - 1) {
        return -EINVAL;
    }
    r = hr_buf_reserve(&canonical, CANONICAL_LIKELY_BYTES);
    if (r == 0) {
        r = hr_sigv4_canonical(request, &canonical);
    }
    if (r == 0) {
        r = hr_digest(HR_DIGEST_SHA256, canonical.data, canonical.len, digest);
    }
    if (r < 0) {
        return r;
    }
    hr_hex_encode(digest, sizeof(digest), hex);
    r = APPEND(out, "AWS4-HMAC-SHA256\n", request->date, "\n");
    if (r == 0) {
        r = append_scope(request, out);
    }
    return r < 0 ? r : APPEND(out, "\n", hex);
}

static bool key_is_cached(const struct hr_sigv4_signer *signer, const struct hr_credentials *credentials,
                          const struct hr_sigv4_request *request)
{
    return signer->secret != NULL && memcmp(signer->day, request->date, DAY_BYTES) == 0 &&
           strcmp(signer->region, request->region) == 0 && strcmp(signer->service, request->service) == 0 &&
           strcmp(signer->secret, credentials->secret) == 0;
}

static int derive_key(const struct hr_credentials *credentials, const struct hr_sigv4_request *request,
                      struct hr_hmac **ret_key)
{
    hr_cleanup(hr_buf_release) struct hr_buf first = HR_BUF_INIT(CANONICAL_MAX_BYTES);
    const char *parts[] = {request->region, request->service, "aws4_request"};
    uint8_t key[HR_SHA256_BYTES];
    int r = hr_buf_reserve(&first, strlen(credentials->secret) + 4);

    /* Reserved in one piece: growing would leave copies of the secret behind. */
    if (r == 0) {
        r = hr_buf_printf(&first, "AWS4%s", credentials->secret);
    }
    if (r == 0) {
        r = hr_hmac_sha256(first.data, first.len, request->date, DAY_BYTES, key);
    }
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && r == 0; i++) {
        uint8_t next[HR_SHA256_BYTES];

        r = hr_hmac_sha256(key, sizeof(key), parts[i], strlen(parts[i]), next);
        if (r == 0) {
            memcpy(key, next, sizeof(key));
            hr_secret_zero(next, sizeof(next));
        }
    }
    if (r == 0) {
        r = hr_hmac_new(key, sizeof(key), ret_key);
    }
    hr_secret_zero(key, sizeof(key));
    if (first.data != NULL) {
        hr_secret_zero(first.data, first.len);
    }
    return r;
}

static int refresh_key(struct hr_sigv4_signer *signer, const struct hr_credentials *credentials,
                       const struct hr_sigv4_request *request)
{
    char *secret;
    int r;

    if (key_is_cached(signer, credentials, request)) {
        return 0;
    }
    if (strlen(request->region) >= sizeof(signer->region) ||
        strlen(request->service) >= sizeof(signer->service)) {
        return -EINVAL;
    }
    secret = strdup(credentials->secret);
    if (secret == NULL) {
        return -ENOMEM;
    }
    hr_secret_free(signer->secret);
    signer->secret = NULL;
    hr_hmac_free(signer->key);
    signer->key = NULL;
    r = derive_key(credentials, request, &signer->key);
    if (r < 0) {
        hr_secret_free(secret);
        return r;
    }
    signer->secret = secret;
    memcpy(signer->day, request->date, DAY_BYTES);
    (void)snprintf(signer->region, sizeof(signer->region), "%s", request->region);
    (void)snprintf(signer->service, sizeof(signer->service), "%s", request->service);
    return 0;
}

int hr_sigv4_sign(struct hr_sigv4_signer *signer, const struct hr_credentials *credentials,
                  const struct hr_sigv4_request *request, struct hr_buf *out)
{
    hr_cleanup(hr_buf_release) struct hr_buf text = HR_BUF_INIT(CANONICAL_MAX_BYTES);
    struct hr_sigv4_header sorted[HR_SIGV4_HEADERS_MAX];
    uint8_t signature[HR_SHA256_BYTES];
    char hex[2 * HR_SHA256_BYTES + 1];
    int r;

    if (credentials->access_key_id == NULL || credentials->secret == NULL) {
        return -EINVAL;
    }
    r = hr_buf_reserve(&text, TEXT_LIKELY_BYTES);
    if (r == 0) {
        r = hr_sigv4_string_to_sign(request, &text);
    }
    if (r == 0) {
        r = refresh_key(signer, credentials, request);
    }
    if (r == 0) {
        r = hr_hmac_sign(signer->key, text.data, text.len, signature);
    }
    if (r == 0) {
        r = sorted_headers(request, sorted);
    }
    if (r < 0) {
        return r;
    }
    hr_hex_encode(signature, sizeof(signature), hex);
    if (out->ceiling >= HEADER_LIKELY_BYTES && out->len == 0) {
        r = hr_buf_reserve(out, HEADER_LIKELY_BYTES);
    }
    if (r == 0) {
        r = APPEND(out, "AWS4-HMAC-SHA256 Credential=", credentials->access_key_id, "/");
    }
    if (r == 0) {
        r = append_scope(request, out);
    }
    if (r == 0) {
        r = hr_buf_puts(out, ", SignedHeaders=");
    }
    if (r == 0) {
        r = append_signed_names(sorted, request->header_count, out);
    }
    return r < 0 ? r : APPEND(out, ", Signature=", hex);
}
