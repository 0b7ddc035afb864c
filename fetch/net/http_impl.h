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

struct hr_http_easy {
    CURL *curl;
    enum hr_http_method method; /* as last set */
    bool has_ca_bundle;         /* differs from the defaults */
    struct hr_http_easy *next;  /* in the pool */
};

struct hr_http_answer_at {
    size_t name, value; /* offsets into answer_text, which moves while it grows */
};

struct hr_http_impl {
    struct hr_http_request request; /* first: the caller's half */
    struct hr_http_impl *prev, *next;
    struct hr_http_thread *thread;
    atomic_bool cancel; /* set by the owner at any time, read by the thread */

    char host[HR_HTTP_HOST_BYTES]; /* lower case; "" when the URL has an address: then nothing is pinned */
    const char *origin;            /* "host:port" inside request.url */
    int origin_len;
    bool is_tls;

    struct hr_timer deadline;
    int64_t start_us; /* submitted */
    bool waits_for_name;
    struct hr_address *address;               /* counted in flight while not NULL */
    _Atomic(const struct hr_address *) asked; /* the last one, for the owner to compare */
    const struct hr_address *other;           /* not this one, set by the owner before submit */
    atomic_bool answering;                    /* answer_begun, for the owner */
    unsigned addresses_tried;
    bool fresh; /* a reused connection turned out dead: the next try opens one */
    unsigned connects;

    struct hr_http_easy *easy;
    struct hr_buf header_text; /* "Name: value" lines that header_nodes point to */
    struct curl_slist header_nodes[HR_HTTP_HEADERS_MAX + 2];
    char pin[64]; /* CURLOPT_CONNECT_TO's text, an address of at most 45 bytes */
    struct curl_slist pin_node;
    char curl_error[CURL_ERROR_SIZE];

    int verdict; /* -errno decided inside a callback; curl only knows that it failed */
    bool cut;    /* an error document's end was left out */
    bool answer_begun, answer_headers_done;
    struct hr_buf answer_text;
    struct hr_http_answer_at answer_at[HR_HTTP_HEADERS_MAX];
    bool answer_published;
    bool tells_begun; /* request.begun is set, which is the owner's to change */
    bool is_begun;    /* on thread->begun */
    struct hr_http_impl *begun_prev, *begun_next;
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
    struct hr_http_easy *pool;
    unsigned pool_count, pool_max;
};

struct hr_http {
    struct hr_loop *loop; /* the owner's */
    struct hr_resolver *resolver;
    char *user_agent;
    bool closing;
    unsigned thread_count;
    struct hr_http_thread *threads;
    struct hr_http_stats stats; /* owner's thread */

    int done_fd;
    pthread_mutex_t lock;
    struct hr_http_impl *finished, *begun;
};

/* http_answer.c: libcurl's callbacks for the answer. */
size_t hr_http_on_header(char *line, size_t size, size_t count, void *impl);
size_t hr_http_on_body(char *bytes, size_t size, size_t count, void *impl);
void hr_http_answer_reset(struct hr_http_impl *impl);
void hr_http_answer_publish(struct hr_http_impl *impl); /* offsets -> request.answer */

/* http_easy.c: libcurl's easy handles. */
struct hr_http_easy *hr_http_easy_new(struct hr_http_thread *thread); /* NULL: no memory */
void hr_http_easy_free(struct hr_http_easy *easy);   /* accepts NULL; not while added to a multi handle */
int hr_http_easy_prepare(struct hr_http_impl *impl); /* 0 or -ENOMEM */
int hr_http_errno(CURLcode code, const struct hr_http_impl *impl); /* 0 or -errno */

/* http_multi.c: libcurl's multi handle. Failures inside its callbacks set thread->broken. */
CURLM *hr_http_multi_new(struct hr_http_thread *thread); /* NULL: no memory */
void hr_http_multi_drop(
    struct hr_http_thread *thread);     /* with the pool; nothing may be added to it any more */
void hr_http_multi_timer(void *thread); /* for thread->curl_timer */

/* http_thread.c: the network threads. */
int hr_http_thread_start(struct hr_http_thread *thread, struct hr_http *http, unsigned connections);
void hr_http_thread_wake(void *thread);
void hr_http_thread_stop(
    struct hr_http_thread *thread); /* everything it had is on http->finished afterwards */
void hr_http_thread_free(struct hr_http_thread *thread);

#endif
