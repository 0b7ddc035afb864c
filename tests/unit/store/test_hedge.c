/* Second requests for slow answers: when they are worth it, what they may cost, and that an object's bytes
 * come out of one answer. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "fetch/base/clock.h"
#include "fetch/store/hedge.h"
#include "fetch/store/store.h"
#include "fetch/store/width.h"

static void known_after_enough_answers(void **state)
{
    (void)state;
    struct hr_hedging hedging = {0};
    assert_int_equal(hr_hedging_delay_ms(&hedging, 1000), -1);
    for (unsigned i = 0; i < 63; i++) {
        hr_hedging_answered(&hedging, 1000, 40000);
        assert_int_equal(hr_hedging_delay_ms(&hedging, 1000), -1);
    }
    hr_hedging_answered(&hedging, 1000, 400000); /* one in 64 is slow: that is what hedges are for */
    int64_t delay_ms = hr_hedging_delay_ms(&hedging, 1000);
    assert_true(delay_ms >= 80 && delay_ms <= 100);               /* twice the median */
    assert_int_equal(hr_hedging_delay_ms(&hedging, 8 << 20), -1); /* ranges are another class */
    for (unsigned i = 0; i < 512; i++) {
        hr_hedging_answered(&hedging, 1000, 300); /* lately */
    }
    assert_int_equal(hr_hedging_delay_ms(&hedging, 1000), 25);
    for (unsigned i = 0; i < 512; i++) {
        hr_hedging_answered(&hedging, 1000, i % 10 ? 30000 : 200000); /* busy: one in ten is slow */
    }
    delay_ms = hr_hedging_delay_ms(&hedging, 1000);
    assert_true(delay_ms >= 300 && delay_ms <= 380); /* half as much again */
}

static void one_in_fifty(void **state)
{
    (void)state;
    struct hr_hedging hedging = {0};
    unsigned hedges = 0;
    for (unsigned i = 1; i <= 5000; i++) {
        hr_hedging_asked(&hedging);
        hedges += hr_hedging_take(&hedging);
        assert_true(hedges <= i / 50);
    }
    assert_int_equal(hedges, 100);
    for (unsigned i = 0; i < 100000; i++) {
        hr_hedging_asked(&hedging);
    }
    for (hedges = 0; hr_hedging_take(&hedging); hedges++) {
    }
    assert_int_equal(hedges, HR_HEDGE_SAVED); /* quiet hours are not saved up */
}

/* A server that keeps connections, answers each GET by the number of its arrival, and holds some back for as
 * long as the test wants. */

struct held {
    atomic_uint asked, given_up; /* requests; those whose connection the client closed while they were held */
    unsigned held_from, held_count; /* these requests are held back, for ever */
    unsigned busy_from, busy_count; /* these get a 503 */
    bool ranged;                    /* each answer is the first 8 of 100 bytes... */
    atomic_bool gate;               /* ...whose body comes when this is set */
    int fd;
    unsigned port;
    pthread_t acceptor;
    atomic_uint living;
};

struct peer {
    struct held *server;
    int fd;
};

static void answer(struct peer *peer, unsigned number)
{
    struct held *server = peer->server;
    char text[256];
    if (number >= server->held_from && number < server->held_from + server->held_count) {
        struct pollfd gone = {.fd = peer->fd, .events = POLLRDHUP};
        (void)poll(&gone, 1, 30000);
        atomic_fetch_add(&server->given_up, 1);
        return;
    }
    bool busy = number >= server->busy_from && number < server->busy_from + server->busy_count;
    if (server->ranged) {
        int head = snprintf(text, sizeof(text),
                            "HTTP/1.1 206 Part\r\nETag: \"e\"\r\nContent-Length: 8\r\n"
                            "Content-Range: bytes 0-7/100\r\n\r\n");
        (void)send(peer->fd, text, (size_t)head, MSG_NOSIGNAL);
        while (!atomic_load(&server->gate)) {
            (void)usleep(1000);
        }
        (void)snprintf(text, sizeof(text), "%08u", number);
        (void)send(peer->fd, text, 8, MSG_NOSIGNAL);
        return;
    }
    int len = snprintf(text, sizeof(text),
                       busy ? "HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n"
                            : "HTTP/1.1 200 OK\r\nETag: \"e\"\r\nContent-Length: 8\r\n\r\n%08u",
                       number);
    (void)send(peer->fd, text, (size_t)len, MSG_NOSIGNAL);
}

static void *serve_peer(void *arg)
{
    struct peer *peer = arg;
    char request[8192];
    size_t used = 0;
    ssize_t got;
    while ((got = recv(peer->fd, request + used, sizeof(request) - 1 - used, 0)) > 0) {
        used += (size_t)got;
        request[used] = '\0';
        if (strstr(request, "\r\n\r\n")) {
            used = 0;
            answer(peer, atomic_fetch_add(&peer->server->asked, 1));
        }
    }
    (void)close(peer->fd);
    atomic_fetch_sub(&peer->server->living, 1);
    free(peer);
    return NULL;
}

static void *accept_peers(void *arg)
{
    struct held *server = arg;
    int fd;
    while ((fd = accept(server->fd, NULL, NULL)) >= 0) {
        struct peer *peer = malloc(sizeof(*peer));
        pthread_t thread;
        *peer = (struct peer){server, fd};
        atomic_fetch_add(&server->living, 1);
        if (pthread_create(&thread, NULL, serve_peer, peer) != 0) {
            abort();
        }
        (void)pthread_detach(thread);
    }
    return NULL;
}

static void server_open(struct held *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);
    server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(server->fd >= 0);
    assert_int_equal(bind(server->fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(server->fd, 512), 0);
    assert_int_equal(getsockname(server->fd, (struct sockaddr *)&address, &len), 0);
    server->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&server->acceptor, NULL, accept_peers, server), 0);
}

static struct held server;
static struct hr_loop *loop;
static struct hr_http *http;
static struct hr_stores *stores;
static struct hr_store *store;
static unsigned pending;
static char endpoint[64];

static const char *env(void *owner, const char *name)
{
    (void)owner;
    return strcmp(name, "AWS_ACCESS_KEY_ID") == 0       ? "AK"
           : strcmp(name, "AWS_SECRET_ACCESS_KEY") == 0 ? "secret"
           : strcmp(name, "AWS_ENDPOINT_URL") == 0      ? endpoint
                                                        : NULL;
}

static void open_all(bool hedges, unsigned connections)
{
    char message[256] = "";
    server = (struct held){0};
    server_open(&server);
    (void)snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%u", server.port);
    struct hr_http_options http_options = {.threads = 1, .max_connections = 256, .user_agent = "test"};
    assert_int_equal(hr_loop_new(&loop), 0);
    assert_int_equal(hr_http_new(&http_options, loop, &http), 0);
    struct hr_stores_options options = {
        .loop = loop, .http = http, .timeout_ms = 20000, .hedges = hedges, .connections = connections};
    assert_int_equal(hr_stores_new(&options, &stores), 0);
    struct hr_store_options store_options = {.url = "s3://bkt/", .env = env};
    if (hr_store_new(stores, &store_options, message, &store) != 0) {
        fail_msg("%s", message);
    }
}

static void close_server(void)
{
    (void)shutdown(server.fd, SHUT_RDWR);
    (void)pthread_join(server.acceptor, NULL);
    (void)close(server.fd);
    atomic_store(&server.gate, true);
    while (atomic_load(&server.living) > 0) {
        (void)usleep(1000);
    }
}

static void close_all(void)
{
    hr_store_unref(store);
    hr_http_free(http);
    hr_stores_free(stores);
    hr_loop_free(loop);
    close_server();
}

static void count_down(struct hr_call *call)
{
    (void)call;
    if (--pending == 0) {
        hr_loop_stop(loop);
    }
}

static struct hr_call *start(void)
{
    struct hr_call *call = hr_call_new(HR_CALL_GET, store, "k", 1);
    call->expected_bytes = 8;
    call->done = count_down;
    assert_int_equal(hr_call_start(call), 0);
    pending++;
    return call;
}

static struct hr_store_stats stats_now(void)
{
    struct hr_store_stats stats;
    hr_stores_stats(stores, &stats);
    return stats;
}

static void spin(void *owner)
{
    (void)owner;
    hr_loop_stop(loop);
}

/* Runs the loop until nothing is in flight. */
static void drain(void)
{
    int64_t until_ms = hr_clock_ms() + 10000;
    while (stats_now().in_flight > 0 && hr_clock_ms() < until_ms) {
        struct hr_timer timer = HR_TIMER_INIT(spin, NULL);
        assert_int_equal(hr_loop_arm(loop, &timer, 5), 0);
        assert_int_equal(hr_loop_run(loop), 0);
    }
    assert_int_equal(stats_now().in_flight, 0);
    assert_int_equal(hr_store_width(store)->calls, 0);
}

/* `count` requests, one after the other: what is quick here becomes known. */
static void warm_up(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct hr_call *call = start();
        assert_int_equal(hr_loop_run(loop), 0);
        assert_int_equal(call->error, 0);
        hr_call_free(call);
    }
    drain();
}

static void until_hedges(uint64_t count)
{
    int64_t until_ms = hr_clock_ms() + 10000;
    while (stats_now().hedges < count && hr_clock_ms() < until_ms) {
        struct hr_timer timer = HR_TIMER_INIT(spin, NULL);
        assert_int_equal(hr_loop_arm(loop, &timer, 5), 0);
        assert_int_equal(hr_loop_run(loop), 0);
    }
}

static void the_second_answer_wins(void **state)
{
    (void)state;
    open_all(true, 16);
    warm_up(100);
    uint64_t before = stats_now().hedges; /* a machine that stalls may have needed some */
    unsigned number = atomic_load(&server.asked);
    server.held_from = number; /* the next one is never answered */
    server.held_count = 1;
    struct hr_call *call = start();
    assert_int_equal(hr_loop_run(loop), 0);
    char expected[16];
    (void)snprintf(expected, sizeof(expected), "%08u", number + 1);
    assert_int_equal(call->error, 0);
    assert_int_equal(call->retries, 0);
    assert_int_equal(call->body.len, 8);
    assert_memory_equal(call->body.data, expected, 8);
    hr_call_free(call);
    drain(); /* the one that lost was cut off */
    struct hr_store_stats stats = stats_now();
    assert_int_equal(stats.hedges, before + 1);
    assert_true(stats.hedges_won >= 1 && stats.hedges_won <= stats.hedges);
    assert_int_equal(stats.requests_get, atomic_load(&server.asked));
    assert_int_equal(stats.retries, 0);
    struct hr_endpoint_stats of;
    assert_true(hr_stores_endpoint(stores, 0, &of));
    assert_false(hr_stores_endpoint(stores, 1, &of));
    assert_string_equal(of.endpoint, endpoint);
    assert_int_equal(of.hedges, stats.hedges);
    assert_int_equal(of.hedges_won, stats.hedges_won);
    close_all();
    assert_int_equal(atomic_load(&server.given_up), 1);
}

static unsigned begun;

static void on_begun(struct hr_call *call, const struct hr_call_begun *told)
{
    begun++;
    assert_int_equal(pending, 1); /* before it is done */
    assert_null(call->if_match);
    assert_string_equal(told->etag, "e");
    assert_int_equal(told->object_bytes, 100);
    call->if_match = strdup(told->etag);
    atomic_store(&server.gate, true);
}

static void the_second_answer_begins(void **state)
{
    (void)state;
    open_all(true, 16);
    warm_up(100);
    uint64_t before = stats_now().hedges;
    unsigned number = atomic_load(&server.asked);
    server.held_from = number;
    server.held_count = 1;
    server.ranged = true;
    begun = 0;
    struct hr_call *call = hr_call_new(HR_CALL_GET, store, "k", 1);
    call->range_bytes = 8;
    call->begun = on_begun;
    call->done = count_down;
    assert_int_equal(hr_call_start(call), 0);
    pending++;
    assert_int_equal(hr_loop_run(loop), 0);
    char expected[16];
    (void)snprintf(expected, sizeof(expected), "%08u", number + 1);
    assert_int_equal(call->error, 0);
    assert_int_equal(begun, 1);
    assert_int_equal(call->object_bytes, 100);
    assert_memory_equal(call->body.data, expected, 8);
    hr_call_free(call);
    drain();
    assert_int_equal(stats_now().hedges, before + 1);
    close_all();
}

static struct hr_call *given_up;

static void give_up(void *owner)
{
    (void)owner;
    hr_call_cancel(given_up);
}

static void give_up_after(unsigned ms)
{
    struct hr_timer timer = HR_TIMER_INIT(give_up, NULL);
    assert_int_equal(hr_loop_arm(loop, &timer, ms), 0);
    assert_int_equal(hr_loop_run(loop), 0);
}

/* No request that comes from here on is answered. */
static void hold_from_now(void)
{
    server.held_from = atomic_load(&server.asked);
    server.held_count = 1000;
}

/* Half of them are never answered: two hedges for a hundred requests, no more. Cancelled calls take both of
 * their requests with them. */
static void the_budget_is_kept(void **state)
{
    (void)state;
    open_all(true, 64);
    warm_up(100);
    struct hr_call *calls[20];
    hold_from_now();
    for (unsigned i = 0; i < 20; i++) {
        calls[i] = start();
    }
    until_hedges(2);
    struct hr_timer timer = HR_TIMER_INIT(spin, NULL);
    assert_int_equal(hr_loop_arm(loop, &timer, 100), 0);
    assert_int_equal(hr_loop_run(loop), 0);
    assert_int_equal(stats_now().hedges, 2); /* 120 / 50 */
    for (unsigned i = 0; i < 20; i++) {
        hr_call_cancel(calls[i]);
        hr_call_cancel(calls[i]);
    }
    assert_int_equal(hr_loop_run(loop), 0);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(calls[i]->error, -ECANCELED);
        hr_call_free(calls[i]);
    }
    drain();
    assert_int_equal(stats_now().hedges_won, 0);
    close_all();
}

/* Beyond the width nothing is sent: here one line, and it is taken. */
static void a_full_width_has_no_hedges(void **state)
{
    (void)state;
    open_all(true, 1);
    warm_up(100);
    hold_from_now();
    given_up = start();
    give_up_after(300);
    assert_int_equal(given_up->error, -ECANCELED);
    assert_int_equal(stats_now().hedges, 0);
    hr_call_free(given_up);
    drain();
    close_all();
}

static void a_throttling_store_gets_none(void **state)
{
    (void)state;
    open_all(true, 16);
    warm_up(100);
    server.busy_from = atomic_load(&server.asked);
    server.busy_count = 1;
    uint64_t before = stats_now().hedges;
    warm_up(1);
    assert_int_equal(stats_now().throttled, 1);
    hold_from_now();
    given_up = start();
    give_up_after(300);
    assert_int_equal(stats_now().hedges, before);
    hr_call_free(given_up);
    drain();
    close_all();
}

/* The transport ends with both requests of a call in flight. */
static void ends_with_both_under_way(void **state)
{
    (void)state;
    open_all(true, 16);
    warm_up(100);
    hold_from_now();
    struct hr_call *call = start();
    until_hedges(1);
    assert_true(stats_now().hedges >= 1);
    hr_store_unref(store);
    hr_http_free(http);
    assert_int_equal(pending, 0);
    assert_int_equal(call->error, -ECANCELED);
    hr_call_free(call);
    hr_stores_free(stores);
    hr_loop_free(loop);
    close_server();
}

static void off_means_off(void **state)
{
    (void)state;
    open_all(false, 16);
    warm_up(100);
    hold_from_now();
    given_up = start();
    give_up_after(200);
    assert_int_equal(stats_now().hedges, 0);
    assert_int_equal(atomic_load(&server.asked), 101);
    hr_call_free(given_up);
    drain();
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_after_enough_answers),
        cmocka_unit_test(one_in_fifty),
        cmocka_unit_test(the_second_answer_wins),
        cmocka_unit_test(the_second_answer_begins),
        cmocka_unit_test(the_budget_is_kept),
        cmocka_unit_test(a_full_width_has_no_hedges),
        cmocka_unit_test(a_throttling_store_gets_none),
        cmocka_unit_test(ends_with_both_under_way),
        cmocka_unit_test(off_means_off),
    };
    return cmocka_run_group_tests_name("store/hedge", tests, NULL, NULL);
}
