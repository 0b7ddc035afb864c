/* What the files of http share; nobody else includes this.
 *
 * A request is on one list at a time: its thread's inbox (thread->lock), its thread's running list (that
 * thread only), the finished list (http->lock). The request's fields belong to whoever owns the list it is
 * on. Beside that it may be on the lists of those whose answer has begun: then its headers are the loop's to
 * read, and nobody writes them any more. */
#ifndef HR_NET_HTTP_IMPL_H
#define HR_NET_HTTP_IMPL_H

#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fetch/base/buf.h"
#include "fetch/net/http.h"
#include "fetch/net/loop.h"
#include "fetch/net/resolve.h"

/* DNS names have at most 253 bytes. */
#define HR_HTTP_HOST_BYTES 256
#define HR_HTTP_ORIGIN_BYTES (HR_HTTP_HOST_BYTES + 6) /* host:port */

/* A connection: libcurl opens it (TCP, TLS, certificates), and what HTTP says over it is ours. It carries one
 * request at a time; idle, it is on its thread's list. */
struct hr_http_conn {
    CURL *curl; /* in the thread's multi handle from the connecting to the close */
    struct hr_http_thread *thread;
    struct hr_http_impl *impl; /* whose request it carries; NULL: idle */
    struct hr_http_conn *prev, *next;
    int fd;             /* -1 until it is connected */
    int opening_fd;     /* what libcurl watches to open it; -1: nothing */
    bool is_added;      /* to the multi handle */
    bool writes;        /* watched for room to send, too */
    bool had_ca_bundle; /* the handle differs from the defaults */
    /* What a request must have in common with it. */
    char origin[HR_HTTP_ORIGIN_BYTES]; /* as in the URL, not terminated */
    int origin_len;
    bool is_tls;
    const struct hr_address *address; /* compared only */
    char *ca_bundle;                  /* NULL: libcurl's */
    int64_t made_ms, idle_since_ms;
    char pin[64]; /* CURLOPT_CONNECT_TO's text, an address of at most 45 bytes */
    struct curl_slist pin_node;
    char curl_error[CURL_ERROR_SIZE];
};

/* Headers of a signed GET come to 400 bytes; a session token's 1 to 2 KiB are allocated. */
#define HR_HTTP_ROOM_BYTES 640

struct hr_http_header_len {
    size_t name, value;
};

/* Of the request before, which most have in common. */
struct hr_http_origin {
    char url[8 + HR_HTTP_ORIGIN_BYTES + 1]; /* "http://host:port" as its URL had it */
    size_t scheme_len, len;                 /* with "://"; host and port. 0: none yet */
    size_t sent_len;                        /* of host and port without the scheme's own port */
    char host[HR_HTTP_HOST_BYTES];          /* as in hr_http_impl */
};

struct hr_http_answer_at {
    size_t name, value; /* offsets into answer_text, which moves while it grows */
};

/* Where an answer's reader stands. */
enum hr_http_part {
    HR_PART_STATUS,     /* before the status line */
    HR_PART_FIELDS,     /* header lines */
    HR_PART_COUNTED,    /* a body of known length */
    HR_PART_UNTIL_END,  /* a body that the connection's end ends */
    HR_PART_CHUNK_SIZE, /* before a chunk */
    HR_PART_CHUNK,      /* in it */
    HR_PART_CHUNK_END,  /* its line end */
    HR_PART_TRAILERS,   /* behind the last one */
    HR_PART_DONE,
};

struct hr_http_reader {
    enum hr_http_part part;
    uint64_t left;                               /* bytes of the body or of the chunk */
    size_t head_bytes;                           /* of status, headers and trailers so far */
    struct hr_buf line;                          /* the begin of a line whose end has not come */
    bool chunked, says_close, says_keep, is_old; /* is_old: HTTP/1.0 */
    bool keeps;                                  /* once done: the connection may carry another request */
};

struct hr_http_impl {
    struct hr_http_request request; /* first: the caller's half */
    struct hr_http_impl *prev, *next;
    struct hr_http_thread *thread;
    atomic_bool cancel; /* set by the owner at any time, read by the thread */

    char host[HR_HTTP_HOST_BYTES]; /* lower case; "" when the URL has an address: then nothing is pinned */
    const char *origin;            /* "host:port" inside request.url */
    int origin_len;
    int host_len; /* of it, what the Host header says */
    bool is_tls;

    struct hr_timer deadline;
    int64_t start_us; /* submitted */
    int64_t sent_us;  /* on its connection; 0: not yet */
    bool waits_for_name, finished;
    struct hr_address *address;               /* counted in flight while not NULL */
    _Atomic(const struct hr_address *) asked; /* the last one, for the owner to compare */
    const struct hr_address *other;           /* not this one, set by the owner before submit */
    atomic_bool answering;                    /* answer_begun, for the owner */
    unsigned addresses_tried;
    bool fresh; /* a reused connection turned out dead: the next try opens one */
    unsigned connects;

    struct hr_http_conn *conn;
    bool unreachable;   /* TCP or TLS did not come up */
    struct hr_buf text; /* the request as it is sent */
    size_t text_sent;
    int64_t stall_due_us; /* by then so much more must have come than at the last look */
    uint64_t came_bytes, stall_bytes;

    int verdict;     /* -errno of an answer that is not taken */
    const char *why; /* of it, for people */
    bool cut;        /* an error document's end was left out */
    bool answer_begun;
    struct hr_http_reader reader;
    struct hr_buf answer_text;
    bool answer_published;
    bool tells_begun; /* request.begun is set, which is the owner's to change */
    bool is_begun;    /* on thread->begun */
    struct hr_http_impl *begun_prev, *begun_next;

    unsigned room_used;
    /* What is from here on is not zeroed for the next request: the counts above say what of it there is. */
    struct hr_http_header_len header_len[HR_HTTP_HEADERS_MAX];
    struct hr_http_answer_at answer_at[HR_HTTP_HEADERS_MAX];
    char room[HR_HTTP_ROOM_BYTES]; /* headers' texts, those that fit */
};

struct hr_http_thread {
    struct hr_http *http;
    pthread_t thread;
    bool started;
    int wake_fd;
    unsigned in_flight; /* owner's thread */
    atomic_bool has_cancels, has_names, stopping;

    struct hr_turn_end wake_later; /* owner's thread */

    pthread_mutex_t lock;
    struct hr_http_impl *inbox;
    unsigned inbox_count;

    /* The thread's own. */
    struct hr_loop *loop;
    CURLM *multi;
    bool broken; /* the multi handle is in an unknown state */
    struct hr_timer curl_timer;
    struct hr_http_impl *running, *finished, *begun;
    struct hr_http_conn *idle;   /* the one used last first */
    struct hr_http_conn *closed; /* handles for the next ones: they remember TLS sessions */
    unsigned conn_count, closed_count, conn_max;
};

struct hr_http {
    struct hr_loop *loop; /* the owner's */
    struct hr_resolver *resolver;
    char *user_agent;
    bool closing;
    unsigned thread_count;
    struct hr_http_thread *threads;
    struct hr_http_stats stats;   /* owner's thread */
    struct hr_http_origin origin; /* owner's thread */

    int done_fd;
    pthread_mutex_t lock;
    struct hr_http_impl *finished, *begun;
};

/* http_request.c. Owner's thread: host, port and scheme of its URL. 0 or -EINVAL as hr_http_submit says. */
int hr_http_read_url(struct hr_http *http, struct hr_http_impl *impl);

/* http_answer.c: what an answer's lines and bytes mean. 0 or -errno, then impl->why is set too. */
void hr_http_answer_reset(struct hr_http_impl *impl);
int hr_http_answer_status(struct hr_http_impl *impl, const char *line, size_t len);
int hr_http_answer_field(struct hr_http_impl *impl, const char *line, size_t len);
/* The final answer's headers are here, and stay as they are. */
void hr_http_answer_announced(struct hr_http_impl *impl);
/* -EFBIG and others; 0 with impl->cut set: no more of it is wanted. len 0: makes room for the body. */
int hr_http_answer_body(struct hr_http_impl *impl, const char *bytes, size_t len);
void hr_http_answer_publish(struct hr_http_impl *impl); /* offsets -> request.answer */

/* http_reader.c: where lines and bodies begin and end. */
void hr_http_reader_reset(struct hr_http_impl *impl);
/* Bytes as they came; *ret_used of them belong to this answer (fewer only when it is done). 0 or -errno. */
int hr_http_reader_take(struct hr_http_impl *impl, const char *bytes, size_t len, size_t *ret_used);
/* Where a body's next bytes may be put without a copy, and how many; 0: by hr_http_reader_take. */
size_t hr_http_reader_room(struct hr_http_impl *impl, char **ret_at);
void hr_http_reader_came(struct hr_http_impl *impl, size_t len); /* so many were put there */
int hr_http_reader_end(struct hr_http_impl *impl); /* the other side closed. 0: the answer is whole */

/* http_text.c: a request as it is sent. */
int hr_http_text(struct hr_http_impl *impl); /* 0 or -ENOMEM */

/* http_easy.c: libcurl's easy handles, one a connection. */
int hr_http_easy_new(struct hr_http_conn *conn);                                      /* 0 or -ENOMEM */
int hr_http_easy_prepare(struct hr_http_conn *conn, const struct hr_http_impl *impl); /* 0 or -ENOMEM */
int hr_http_errno(CURLcode code, const struct hr_http_conn *conn); /* of a connect: 0 or -errno */

/* http_conn.c: connections. */
/* Sends the request on an idle connection or a new one. 0 or -errno: then it has none. Afterwards
 * hr_http_tried says what became of it. */
int hr_http_conn_begin(struct hr_http_impl *impl);
void hr_http_conn_opened(struct hr_http_conn *conn, CURLcode code);
void hr_http_conn_release(struct hr_http_impl *impl, bool keep); /* accepts that it has none */
bool hr_http_conn_opening(const struct hr_http_impl *impl);      /* it waits for TCP or TLS */
void hr_http_conns_drop(struct hr_http_thread *thread);          /* all of them; none carries a request */

/* http_multi.c: libcurl's multi handle. Failures inside its callbacks set thread->broken. */
CURLM *hr_http_multi_new(struct hr_http_thread *thread); /* NULL: no memory */
void hr_http_multi_drop(struct hr_http_thread *thread);  /* with all connections; none carries a request */
void hr_http_multi_timer(void *thread);                  /* for thread->curl_timer */

/* http_thread.c: the network threads. */
/* A try has ended: `error` 0 or -errno, `why` for people. The request has its connection still. */
void hr_http_tried(struct hr_http_impl *impl, int error, const char *why);
/* 0 or -errno: none was started, hr_http_thread_free is due all the same. */
int hr_http_thread_start(struct hr_http_thread *thread, struct hr_http *http, unsigned connections);
void hr_http_thread_wake(void *thread);
void hr_http_thread_stop(
    struct hr_http_thread *thread); /* everything it had is on http->finished afterwards */
void hr_http_thread_free(struct hr_http_thread *thread);

#endif
