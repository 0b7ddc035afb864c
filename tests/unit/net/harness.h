/* Requests run to their end on a loop of the test's own, with a watchdog. Names are ours: getaddrinfo is
 * replaced (names.h). Included by one file only. */
#ifndef HR_TEST_HARNESS_H
#define HR_TEST_HARNESS_H

#include "fetch/base/clock.h"
#include "fetch/net/http.h"
#include "fetch/net/loop.h"
#include "names.h"
#include "server.h"

#define WATCHDOG_MS 60000

struct bed {
    struct server *server;
    struct hr_loop *loop;
    struct hr_http *http;
    unsigned pending;
    struct hr_timer watchdog;
};

static inline void bed_bites(void *owner)
{
    (void)owner;
    (void)fprintf(stderr, "watchdog: requests never came back\n");
    abort();
}

static inline void bed_open(struct bed *bed, SSL_CTX *tls, unsigned threads, unsigned connections)
{
    memset(bed, 0, sizeof(*bed));
    bed->server = server_start(tls);
    assert_int_equal(hr_loop_new(&bed->loop), 0);
    struct hr_http_options options = {
        .threads = threads, .max_connections = connections, .user_agent = "headrace-test"};
    assert_int_equal(hr_http_new(&options, bed->loop, &bed->http), 0);
    bed->watchdog = (struct hr_timer)HR_TIMER_INIT(bed_bites, bed);
}

static inline void bed_close(struct bed *bed)
{
    hr_http_free(bed->http);
    hr_loop_free(bed->loop);
    server_stop(bed->server);
}

static inline void bed_done(struct hr_http_request *request)
{
    struct bed *bed = request->owner;
    if (--bed->pending == 0) {
        hr_loop_stop(bed->loop);
    }
}

/* "PORT" in the URL is the server's. */
static inline struct hr_http_request *bed_request(struct bed *bed, const char *url)
{
    struct hr_http_request *request = hr_http_request_new();
    assert_non_null(request);
    const char *port = strstr(url, "PORT");
    if (port) {
        assert_true(
            asprintf(&request->url, "%.*s%d%s", (int)(port - url), url, bed->server->port, port + 4) >= 0);
    } else {
        request->url = strdup(url);
    }
    request->body_max_bytes = 1 << 20;
    request->done = bed_done;
    request->owner = bed;
    return request;
}

static inline void bed_submit(struct bed *bed, struct hr_http_request *request)
{
    assert_int_equal(hr_http_submit(bed->http, request), 0);
    bed->pending++;
}

static inline void bed_run(struct bed *bed)
{
    assert_int_equal(hr_loop_arm(bed->loop, &bed->watchdog, WATCHDOG_MS), 0);
    assert_int_equal(hr_loop_run(bed->loop), 0);
    hr_loop_disarm(bed->loop, &bed->watchdog);
    assert_int_equal(bed->pending, 0);
}

static inline struct hr_http_request *bed_get(struct bed *bed, const char *url)
{
    struct hr_http_request *request = bed_request(bed, url);
    bed_submit(bed, request);
    bed_run(bed);
    return request;
}

static inline void assert_body(const struct hr_http_request *request, size_t len)
{
    assert_int_equal(request->error, 0);
    assert_int_equal(request->body.len, len);
    for (size_t i = 0; i < len; i++) {
        if (request->body.data[i] != body_byte(i)) {
            fail_msg("byte %zu differs", i);
        }
    }
}

#endif
