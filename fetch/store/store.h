/* A store: one endpoint + bucket as one identity sees it. Calls are logical operations (one page of a
 * listing, one object, one range of one): signed, sent, judged, retried, redirected and re-signed until they
 * have a result.
 *
 * Everything here runs on the owner's loop thread. Libraries never log: a call's outcome is its error and
 * message. */
#ifndef HR_STORE_STORE_H
#define HR_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "fetch/auth/env.h"
#include "fetch/base/buf.h"
#include "fetch/net/http.h"
#include "fetch/net/loop.h"

struct hr_store;
struct hr_stores; /* the family: http transport, loop, retry budgets, counters */

struct hr_stores_options {
    struct hr_loop *loop;
    struct hr_http *http;
    unsigned timeout_ms;  /* budget of one call over all its retries (setting timeout_s) */
    bool hedges;          /* second requests for slow answers (hedge.h) */
    unsigned connections; /* no endpoint's width (width.h) grows beyond it; 0: no such limit */
};
/* 0 or -ENOMEM. */
int hr_stores_new(const struct hr_stores_options *options, struct hr_stores **ret);
/* fn: a request has ended that belongs to no call any more, so there is room for another (width.h). */
void hr_stores_on_room(struct hr_stores *stores, void (*fn)(void *owner), void *owner);
/* fn: a call of this store has been failing for a while and is still tried, for up to left_ms more. message:
 * as a call's; valid inside. */
void hr_stores_on_trouble(struct hr_stores *stores,
                          void (*fn)(void *owner, const struct hr_store *store, const char *message,
                                     int64_t left_ms),
                          void *owner);
/* Calls that wait come back with -ECANCELED before this returns. No request may be in flight any more: free
 * the http transport first. Stores that are still held live on, but start nothing. Accepts NULL. */
void hr_stores_free(struct hr_stores *stores);

struct hr_store_options {
    const char *url; /* "s3://bucket/..." : scheme and bucket are used here */
    const char
        *endpoint; /* map option endpoint=, or NULL: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, profile, AWS */
    bool requester_pays;
    const char *customer_key_file; /* SSE-C: customer_key.h; NULL or "": none. Read here, over https only
                                      (http to this machine is allowed) */
    hr_env_fn env;                 /* used during hr_store_new only; what is needed later is copied */
    void *env_owner;
};
/* 0; -EINVAL: unknown scheme, missing bucket, bad endpoint, a customer_key_file or AWS_CA_BUNDLE that is of
 * no use; what hr_chain_new says of the credentials; -ENOMEM. ret_message (256 bytes) gets one line: what,
 * where, what to do. */
int hr_store_new(struct hr_stores *stores, const struct hr_store_options *options, char ret_message[256],
                 struct hr_store **ret);
void hr_store_ref(struct hr_store *store);
void hr_store_unref(struct hr_store *store); /* accepts NULL; calls in flight hold references */

/* Endpoint as used ("http://127.0.0.1:9000", "https://s3.us-east-1.amazonaws.com"), bucket, and who is
 * asking: "key:AKID", "profile:NAME", "anonymous". Never a secret. Valid as long as the store. */
const char *hr_store_endpoint(const struct hr_store *store);
const char *hr_store_bucket(const struct hr_store *store);
const char *hr_store_identity(const struct hr_store *store);
bool hr_store_same_key(const struct hr_store *a, const struct hr_store *b); /* customer_key_file's */
/* Takes over fresher credentials from another environment of the same identity; waiting calls use them. */
void hr_store_refresh(struct hr_store *store, hr_env_fn env, void *env_owner);

struct hr_listed {
    const char
        *key; /* decoded, any byte but '\0'; not terminated by more than the '\0' after key_len bytes */
    uint32_t key_len;
    uint64_t size;
    int64_t mtime_ns;
    const char *etag; /* without quotes; "" when the store gave none */
};

enum hr_call_kind { HR_CALL_LIST, HR_CALL_GET, HR_CALL_HEAD };

/* What the headers of an answer say whose body is still on its way. */
struct hr_call_begun {
    char etag[136]; /* never "" */
    uint64_t object_bytes;
    int64_t mtime_ns; /* 0: not sent */
};

struct hr_call {
    /* Set by the caller. */
    enum hr_call_kind kind;
    struct hr_store *store; /* the call takes its own reference while it runs */
    bool awaited; /* a program waits for it: short waits between tries (retry.h). Later: hr_call_hurry */
    char *key;    /* GET: the object's key. LIST: the prefix. Owned by the call (malloc) */
    uint32_t key_len;
    /* LIST */
    char *start_after; /* malloc, may be NULL */
    uint32_t start_after_len;
    char *token;           /* continuation token, malloc, may be NULL; wins over start_after */
    const char *delimiter; /* "/" or NULL; static */
    unsigned max_keys;     /* 0: the store's default (1000) */
    /* GET */
    uint64_t range_first, range_bytes; /* range_bytes 0: the whole object, no Range header */
    uint64_t expected_bytes; /* whole object or range when the size is known; UINT64_MAX: not known */
    char *if_match;          /* ETag without quotes, malloc, NULL: no condition */
    const char
        *known_etag;       /* not sent; NULL or the caller's, until done: expected_bytes is of this version */
    size_t body_max_bytes; /* a longer answer is an error. 0: expected_bytes or range_bytes, else 64 MiB */

    /* GET of a range, may be NULL. On the loop: an answer has begun which is all of the range, of an object
     * that is longer. Its body may still fail, and another answer begin. if_match may be set from inside, for
     * requests that follow; the call is not freed. */
    void (*begun)(struct hr_call *call, const struct hr_call_begun *begun);
    void (*done)(struct hr_call *call); /* once; on the loop; may free the call with hr_call_free */
    void *owner;

    /* Results: valid in done. */
    int error;         /* 0 or -errno after the retry budget: the table in errors.c (ENOENT EACCES EIO ESTALE
                          ...); -ECANCELED; -EMSGSIZE when a 416 or 200 shows another size than expected
                          (-EIO, where it shows the ETag of that size) */
    char message[256]; /* one line for people when error != 0: what, endpoint/bucket/key, code, request id; no
                          secret */
    bool refused_alone; /* the refusal is this object's (archived, encrypted), not the credentials' */
    bool denied; /* these credentials are good, this request is not allowed; without the permission to list,
                    S3 says so of a key that is missing, too */
    unsigned retries;   /* requests sent beyond the first one that counted */
    unsigned throttled; /* answers among them that said so */
    /* GET, HEAD (no body) */
    struct hr_buf body;    /* taken by hr_buf stealing (copy the struct, zero this one) */
    char etag[136];        /* without quotes, "" when not sent */
    uint64_t object_bytes; /* the object's whole size (Content-Range, or body length of a whole GET) */
    int64_t mtime_ns;      /* Last-Modified, 0 when not sent */
    bool md5_is_etag;   /* store quirk + no KMS/SSE-C header + 32 hex digits, and OpenSSL has MD5: that of the
                           whole object (of all ranges put together) must be the ETag */
    uint32_t crc_kind;  /* enum hr_crc_kind: whole-object checksum the store sent, 0 none */
    uint64_t crc;       /* CRC32/CRC32C/CRC64NVME value */
    uint8_t sha256[32]; /* when crc_kind is HR_CRC_SHA256; with HR_CRC_SHA1 its 20 bytes come first */
    /* LIST */
    struct hr_listed *listed; /* listed[listed_count], in the order of the answer; strings live in `arena` */
    uint32_t listed_count;
    struct hr_listed *prefixes; /* CommonPrefixes: key only */
    uint32_t prefix_count;
    char *next_token; /* NULL: not given */
    bool truncated;
    struct hr_buf arena;

    void *impl;
};

enum hr_crc_kind { HR_CRC_NONE, HR_CRC_CRC32, HR_CRC_CRC32C, HR_CRC_CRC64NVME, HR_CRC_SHA1, HR_CRC_SHA256 };

struct hr_call *hr_call_new(enum hr_call_kind kind, struct hr_store *store, const char *key,
                            uint32_t key_len);
void hr_call_free(struct hr_call *call); /* accepts NULL; not while it runs */
/* Starts it. 0: done will come (never from inside this call). Not started: -EBUSY (it runs), -ECANCELED (the
 * family ends), -EINVAL (a key or ETag that cannot be sent), -ENOMEM, -EIO. */
int hr_call_start(struct hr_call *call);
/* A program waits for it from now on; the wait before the next try becomes as short as if it always had. */
void hr_call_hurry(struct hr_call *call);
void hr_call_cancel(
    struct hr_call *call); /* done comes soon with -ECANCELED unless it was already on its way */

struct hr_store_stats {
    uint64_t requests_get, requests_list, requests_head, retries, throttled, errors, bytes_fetched;
    uint64_t hedges, hedges_won; /* second requests, among the GETs; those that answered first */
    unsigned in_flight, in_flight_max;
};
void hr_stores_stats(const struct hr_stores *stores, struct hr_store_stats *ret);

/* How many calls its endpoint should get at a time: asked before calls are started, shared by all stores of
 * the endpoint, valid as long as one of them. */
struct hr_width;
const struct hr_width *hr_store_width(const struct hr_store *store);

struct hr_endpoint_stats {
    const char *endpoint; /* valid until a store ends */
    unsigned width, calls;
    uint64_t grown, cuts, throttled, hedges, hedges_won;
};
/* The n-th endpoint; false: there are fewer. */
bool hr_stores_endpoint(const struct hr_stores *stores, unsigned n, struct hr_endpoint_stats *ret);

#endif
