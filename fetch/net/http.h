/* HTTP/1.1 transport: network threads, each with an epoll loop and connections of its own. libcurl opens a
 * connection (TCP, TLS, certificates); the requests and answers on it are ours.
 *
 * A request is submitted from the owner's thread (the loop given at creation) and comes back there, once,
 * through its done callback, whatever happened. There is no retry, redirect or signature here: the layer
 * above decides. Nothing is queued: everything submitted is started at once, so admission is the caller's.
 */
#ifndef HR_NET_HTTP_H
#define HR_NET_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fetch/base/buf.h"
#include "fetch/net/loop.h"

struct hr_http;

struct hr_http_options {
    unsigned threads;         /* >= 1 */
    unsigned max_connections; /* kept open over all threads; not an admission limit */
    const char *user_agent;
};

#define HR_HTTP_HEADERS_MAX 24 /* ours; of an answer the first so many are kept */

struct hr_http_header {
    char *name; /* as sent or received; received ones are lower-cased */
    char *value;
};

enum hr_http_method { HR_HTTP_GET, HR_HTTP_HEAD, HR_HTTP_PUT, HR_HTTP_POST };

struct hr_http_request {
    /* Set by the caller; owned by the request, freed with it. */
    enum hr_http_method method;
    char *url; /* scheme://host[:port]/raw-path?raw-query, sent as it is (PATH_AS_IS) */
    struct hr_http_header headers[HR_HTTP_HEADERS_MAX];
    unsigned header_count;
    char *ca_bundle; /* NULL: the system's */
    char *payload;   /* POST, PUT: text that is sent as it is, zeroed when freed; NULL: nothing */
    /* A longer 2xx body ends the request with -EFBIG. Of any other answer at least 64 KiB are kept, whatever
     * this says, and the rest is cut off with no error. */
    size_t body_max_bytes;
    size_t body_hint_bytes; /* reserved up front when > 0 (known object size) */
    unsigned first_byte_ms; /* no answer line within this time: -ETIMEDOUT. 0: no own limit */
    unsigned total_ms;      /* whole request. 0: only the stall rule (under 1 KiB/s for 10 s), which is of the
                               answer alone where its first byte has a limit */
    void (*done)(struct hr_http_request *request); /* on the owner's loop; may free the request */
    /* May be NULL. On the owner's loop, at most once, before done and not when done is next anyway: a 206 has
     * begun that is as long as body_max_bytes. status, content_length and the answer's headers may be read;
     * the request is not freed from inside. */
    void (*begun)(struct hr_http_request *request);
    void *owner;

    /* Results. */
    int error; /* 0: an HTTP answer is here; else -errno: -ECONNREFUSED, -ETIMEDOUT, -ECONNRESET (also: ended
                  before its announced length), -EHOSTUNREACH (name not resolved), -EPROTO (not HTTP/1.x, TLS
                  refused or not verified), -EFBIG, -ENOMEM, -ECANCELED */
    char error_text[160]; /* one line for people when error != 0; names host and port, no secrets */
    unsigned status;
    struct hr_buf body; /* data is NULL when nothing came; may be taken (copy the struct, zero this one) */
    /* The first HR_HTTP_HEADERS_MAX of etag content-length content-range content-type last-modified date
     * location retry-after connection, and what http_answer.c names beside these. */
    struct hr_http_header answer[HR_HTTP_HEADERS_MAX];
    unsigned answer_count;
    int64_t content_length; /* -1 when not sent */
    uint64_t first_byte_us, total_us;
    uint64_t answer_us; /* from the request on its connection to the first byte; 0: none came */
    bool reused_connection;

    void *impl; /* http.c's */
};

/* 0 or -errno (-EINVAL: no threads): nothing runs. */
int hr_http_new(const struct hr_http_options *options, struct hr_loop *owner_loop, struct hr_http **ret);
/* Owner's thread, not from inside a done callback. Every request in flight comes back with -ECANCELED (or the
 * result that it just got) before this returns; submit refuses meanwhile. Accepts NULL. */
void hr_http_free(struct hr_http *http);

struct hr_http_request *hr_http_request_new(void);          /* zeroed; NULL on ENOMEM */
void hr_http_request_free(struct hr_http_request *request); /* not while in flight; accepts NULL */
/* Copies both. 0, -EINVAL (control bytes, not a name), -ENOSPC, -ENOMEM. */
int hr_http_request_header(struct hr_http_request *request, const char *name, const char *value);
/* Value of a received header (lower-case name), NULL when absent. */
const char *hr_http_answer(const struct hr_http_request *request, const char *name);

/* Owner's thread. 0: done will be called, never from inside this call. -EINVAL (not an http or https URL of
 * printable ASCII, or with a user name), -ECANCELED (http is being freed): not taken, still the caller's. A
 * request that came back may be submitted again; its results are cleared first. */
int hr_http_submit(struct hr_http *http, struct hr_http_request *request);
/* Owner's thread. Before submit: it goes to another address than `other` (in flight) has gone to, when the
 * name has a healthy one. */
void hr_http_request_avoid(struct hr_http_request *request, const struct hr_http_request *other);
/* Owner's thread, while in flight: its answer has begun. */
bool hr_http_answering(const struct hr_http_request *request);
/* Owner's thread, while in flight, for people: "127.0.0.1:9000", where it was last sent to, or the name it
 * goes to. */
void hr_http_asked(const struct hr_http_request *request, char *ret, size_t room);
/* Owner's thread. Asks that it ends soon with -ECANCELED; done is still called, with another result when that
 * was already on its way. */
void hr_http_cancel(struct hr_http *http, struct hr_http_request *request);

struct hr_http_stats {
    uint64_t requests;         /* submitted */
    uint64_t connects, reused; /* connections opened; requests that had one already */
    unsigned in_flight, in_flight_max;
};
/* Owner's thread. */
void hr_http_stats(const struct hr_http *http, struct hr_http_stats *ret);

#endif
