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
/* What a GET's canonical request comes to, 300 to 600 bytes without a session token, and is kept for the
 * next. */
#define CANONICAL_LIKELY_BYTES 1024
#define REGION_BYTES 64
#define SERVICE_BYTES 32
#define SCOPE_BYTES (DAY_BYTES + REGION_BYTES + SERVICE_BYTES + 16)
#define SCHEME "AWS4-HMAC-SHA256"

struct hr_sigv4_signer {
    struct hr_hmac *key; /* of the day, begun with the lines that the second's signatures have in common */
    char *secret;        /* what `key` was derived from; NULL: nothing cached */
    char date[HR_SIGV4_DATE_BYTES]; /* the second; "": not begun */
    char region[REGION_BYTES];
    char service[SERVICE_BYTES];
    char scope[SCOPE_BYTES]; /* "20130524/us-east-1/s3/aws4_request" */
    struct hr_digest_ctx *sha256;
    struct hr_buf canonical; /* memory for one, empty between requests */
};

int hr_sigv4_signer_new(struct hr_sigv4_signer **ret)
{
    struct hr_sigv4_signer *signer = calloc(1, sizeof(*signer));
    int r = signer != NULL ? hr_digest_new(HR_DIGEST_SHA256, &signer->sha256) : -ENOMEM;

    if (r < 0) {
        free(signer);
        return r;
    }
    hr_buf_init(&signer->canonical, CANONICAL_MAX_BYTES);
    *ret = signer;
    return 0;
}

void hr_sigv4_signer_free(struct hr_sigv4_signer *signer)
{
    if (signer != NULL) {
        hr_secret_free(signer->secret);
        hr_hmac_free(signer->key);
        hr_digest_free(signer->sha256);
        hr_buf_release(&signer->canonical);
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

struct header {
    const char *name, *value;
    size_t name_len, value_len;
};

/* By name; *ret_bytes: what their names and values come to. */
static int sort_headers(const struct hr_sigv4_request *request, struct header *ret_sorted, size_t *ret_bytes)
{
    size_t bytes = 0;

    if (request->header_count == 0 || request->header_count > HR_SIGV4_HEADERS_MAX) {
        return -EINVAL;
    }
    for (unsigned i = 0; i < request->header_count; i++) { /* a handful, and nearly sorted */
        const struct hr_sigv4_header *header = &request->headers[i];
        unsigned at = i;

        for (; at > 0 && strcmp(ret_sorted[at - 1].name, header->name) > 0; at--) {
            ret_sorted[at] = ret_sorted[at - 1];
        }
        ret_sorted[at] =
            (struct header){header->name, header->value, strlen(header->name), strlen(header->value)};
        bytes += ret_sorted[at].name_len + ret_sorted[at].value_len;
    }
    *ret_bytes = bytes;
    return 0;
}

/* Texts are put together in memory that was reserved for all of them. */
static char *put(char *at, const char *bytes, size_t len)
{
    memcpy(at, bytes, len);
    return at + len;
}

static char *put_text(char *at, const char *text)
{
    return put(at, text, strlen(text));
}

/* Outer blanks are dropped, inner runs become one: both ends must agree on what proxies may change. */
static char *put_folded(char *at, const char *value, size_t len)
{
    const char *word = value;

    if (memchr(value, ' ', len) == NULL && memchr(value, '\t', len) == NULL) {
        return put(at, value, len);
    }
    word += strspn(word, " \t");
    while (*word != '\0') {
        size_t word_len = strcspn(word, " \t");
        const char *next = word + word_len + strspn(word + word_len, " \t");

        at = put(at, word, word_len);
        if (*next != '\0') {
            *at++ = ' ';
        }
        word = next;
    }
    return at;
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

/* Has room for twice the query: a part without a value gets its '='. */
static int put_query(char **at, const char *query)
{
    struct query_part parts[QUERY_PARTS_MAX];
    size_t count = 0;

    for (const char *p = query; *p != '\0';) {
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
        *at = i > 0 ? put(*at, "&", 1) : *at;
        *at = put(*at, parts[i].text, parts[i].len);
        *at = parts[i].name_len == parts[i].len ? put(*at, "=", 1) : *at;
    }
    return 0;
}

static char *put_names(char *at, const struct header *sorted, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        at = i > 0 ? put(at, ";", 1) : at;
        at = put(at, sorted[i].name, sorted[i].name_len);
    }
    return at;
}

/* Appends; `header_bytes` is what sort_headers said. */
static int canonical(const struct hr_sigv4_request *request, const struct header *sorted, size_t header_bytes,
                     struct hr_buf *out)
{
    const char *query = request->query != NULL ? request->query : "";
    size_t method_len = strlen(request->method), hash_len = strlen(request->payload_hash);
    size_t path_len = (size_t)(strchrnul(request->path, '?') - request->path);
    /* The names stand twice; a ':', a ';' and a line's end for each, and the lines' ends beside them. */
    size_t most = method_len + path_len + 2 * strlen(query) + 2 * header_bytes + 3 * request->header_count +
                  hash_len + sizeof("/\n\n\n\n\n\n");
    int r = hr_buf_reserve(out, most);

    if (r < 0) {
        return r;
    }
    char *at = put(out->data + out->len, request->method, method_len);
    *at++ = '\n';
    at = path_len > 0 ? put(at, request->path, path_len) : put(at, "/", 1);
    *at++ = '\n';
    if (*query != '\0') {
        r = put_query(&at, query);
        if (r < 0) {
            out->data[out->len] = '\0';
            return r;
        }
    }
    *at++ = '\n';
    for (unsigned i = 0; i < request->header_count; i++) {
        at = put(at, sorted[i].name, sorted[i].name_len);
        *at++ = ':';
        at = put_folded(at, sorted[i].value, sorted[i].value_len);
        *at++ = '\n';
    }
    *at++ = '\n';
    at = put_names(at, sorted, request->header_count);
    *at++ = '\n';
    at = put(at, request->payload_hash, hash_len);
    *at = '\0';
    out->len = (size_t)(at - out->data);
    return 0;
}

int hr_sigv4_canonical(const struct hr_sigv4_request *request, struct hr_buf *out)
{
    struct header sorted[HR_SIGV4_HEADERS_MAX];
    size_t bytes = 0;
    int r = sort_headers(request, sorted, &bytes);

    return r < 0 ? r : canonical(request, sorted, bytes, out);
}

static bool key_is_cached(const struct hr_sigv4_signer *signer, const struct hr_credentials *credentials,
                          const struct hr_sigv4_request *request)
{
    return signer->secret != NULL && memcmp(signer->scope, request->date, DAY_BYTES) == 0 &&
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
    signer->date[0] = '\0';
    (void)snprintf(signer->region, sizeof(signer->region), "%s", request->region);
    (void)snprintf(signer->service, sizeof(signer->service), "%s", request->service);
    (void)snprintf(signer->scope, sizeof(signer->scope), "%.8s/%s/%s/aws4_request", request->date,
                   request->region, request->service);
    return 0;
}

/* What is signed is four lines, of which only the last, the canonical request's hash, is of one request: the
 * key's state behind the others is kept for the second. */
static int refresh_begin(struct hr_sigv4_signer *signer, const char *date)
{
    char lines[sizeof(SCHEME) + HR_SIGV4_DATE_BYTES + SCOPE_BYTES + 3];
    int len;
    int r;

    if (strcmp(signer->date, date) == 0) {
        return 0;
    }
    len = snprintf(lines, sizeof(lines), SCHEME "\n%s\n%s\n", date, signer->scope);
    signer->date[0] = '\0';
    r = hr_hmac_begin(signer->key, lines, (size_t)len);
    if (r == 0) {
        memcpy(signer->date, date, sizeof(signer->date));
    }
    return r;
}

static int hash_canonical(struct hr_sigv4_signer *signer, const struct hr_sigv4_request *request,
                          const struct header *sorted, size_t header_bytes,
                          char ret_hex[2 * HR_SHA256_BYTES + 1])
{
    struct hr_buf *text = &signer->canonical;
    uint8_t digest[HR_SHA256_BYTES];
    int r = text->data == NULL ? hr_buf_reserve(text, CANONICAL_LIKELY_BYTES) : 0;

    r = r < 0 ? r : canonical(request, sorted, header_bytes, text);
    if (r < 0) {
        return r;
    }
    r = hr_digest_restart(signer->sha256);
    r = r < 0 ? r : hr_digest_update(signer->sha256, text->data, text->len);
    r = r < 0 ? r : hr_digest_final(signer->sha256, digest);
    hr_secret_zero(text->data, text->len); /* session token, customer key */
    hr_buf_reset(text);
    if (text->cap > CANONICAL_LIKELY_BYTES) {
        hr_buf_release(text);
    }
    if (r == 0) {
        hr_hex_encode(digest, sizeof(digest), ret_hex);
    }
    return r;
}

/* No room is asked for the headers' values: a session token may be longer than all the rest. */
static int append_authorization(const struct hr_sigv4_signer *signer, const char *access_key_id,
                                const struct header *sorted, unsigned count, const char *signature,
                                struct hr_buf *out)
{
    static const char credential[] = SCHEME " Credential=", names[] = ", SignedHeaders=",
                      last[] = ", Signature=";
    size_t most = sizeof(credential) + strlen(access_key_id) + 1 + strlen(signer->scope) + sizeof(names) +
                  sizeof(last) + strlen(signature);

    for (unsigned i = 0; i < count; i++) {
        most += sorted[i].name_len + 1;
    }
    int r = hr_buf_reserve(out, most);

    if (r < 0) {
        return r;
    }
    char *at = put(out->data + out->len, credential, sizeof(credential) - 1);
    at = put_text(at, access_key_id);
    *at++ = '/';
    at = put_text(at, signer->scope);
    at = put(at, names, sizeof(names) - 1);
    at = put_names(at, sorted, count);
    at = put(at, last, sizeof(last) - 1);
    at = put_text(at, signature);
    *at = '\0';
    out->len = (size_t)(at - out->data);
    return 0;
}

int hr_sigv4_sign(struct hr_sigv4_signer *signer, const struct hr_credentials *credentials,
                  const struct hr_sigv4_request *request, struct hr_buf *out)
{
    struct header sorted[HR_SIGV4_HEADERS_MAX];
    char hex[2 * HR_SHA256_BYTES + 1];
    uint8_t signature[HR_SHA256_BYTES];
    size_t header_bytes = 0;
    int r;

    if (credentials->access_key_id == NULL || credentials->secret == NULL ||
        strlen(request->date) != HR_SIGV4_DATE_BYTES - 1) {
        return -EINVAL;
    }
    r = sort_headers(request, sorted, &header_bytes);
    r = r < 0 ? r : hash_canonical(signer, request, sorted, header_bytes, hex);
    r = r < 0 ? r : refresh_key(signer, credentials, request);
    r = r < 0 ? r : refresh_begin(signer, request->date);
    r = r < 0 ? r : hr_hmac_sign(signer->key, hex, sizeof(hex) - 1, signature);
    if (r < 0) {
        return r;
    }
    hr_hex_encode(signature, sizeof(signature), hex);
    return append_authorization(signer, credentials->access_key_id, sorted, request->header_count, hex, out);
}
