/* hr_http with many requests: cancel, free, two threads, several addresses, and what is left after a failure.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <sys/epoll.h>

#include "harness.h"

/* Lets the tests make epoll refuse a socket, which is how a multi handle is brought to fail. */
static atomic_bool epoll_refuses;
static atomic_uint connecting;    /* sockets that were watched until they are connected */
static atomic_uint closed_before; /* ...that epoll was told of when they were closed */

int epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event)
{
    static int (*real)(int, int, int, struct epoll_event *);
    if (!real) {
        *(void **)&real = dlsym(RTLD_NEXT, "epoll_ctl");
    }
    if (op == EPOLL_CTL_ADD && atomic_load(&epoll_refuses)) {
        errno = ENOSPC;
        return -1;
    }
    int r = real(epoll_fd, op, fd, event);
    atomic_fetch_add(&connecting, op == EPOLL_CTL_ADD && event->events == EPOLLOUT);
    atomic_fetch_add(&closed_before, r < 0 && op == EPOLL_CTL_DEL);
    return r;
}

struct canceling {
    struct bed *bed;
    struct hr_http_request *requests[8];
    struct hr_timer timer;
};

static void cancel_all(void *owner)
{
    struct canceling *canceling = owner;
    for (int i = 0; i < 8; i++) {
        hr_http_cancel(canceling->bed->http, canceling->requests[i]);
        hr_http_cancel(canceling->bed->http, canceling->requests[i]);
    }
}

static void cancel_ends_requests(void **state)
{
    (void)state;
    const int64_t delays_ms[] = {-1, 0, 50}; /* at once, in the next turn, in the middle */
    for (size_t d = 0; d < sizeof(delays_ms) / sizeof(delays_ms[0]); d++) {
        struct bed bed;
        bed_open(&bed, NULL, 2, 8);
        struct canceling canceling = {.bed = &bed, .timer = HR_TIMER_INIT(cancel_all, &canceling)};
        const char *const urls[] = {"http://127.0.0.1:PORT/silent", "http://127.0.0.1:PORT/trickle",
                                    "http://late.test:PORT/ok/1", "http://127.0.0.1:PORT/stalls"};
        for (int i = 0; i < 8; i++) {
            canceling.requests[i] = bed_request(&bed, urls[i % 4]);
            bed_submit(&bed, canceling.requests[i]);
        }
        if (delays_ms[d] < 0) {
            cancel_all(&canceling);
        } else {
            assert_int_equal(hr_loop_arm(bed.loop, &canceling.timer, delays_ms[d]), 0);
        }
        int64_t before_ms = hr_clock_ms();
        bed_run(&bed);
        assert_true(hr_clock_ms() - before_ms < 900);
        for (int i = 0; i < 8; i++) {
            assert_int_equal(canceling.requests[i]->error, -ECANCELED);
            hr_http_request_free(canceling.requests[i]);
        }
        struct hr_http_request *after = bed_get(&bed, "http://127.0.0.1:PORT/ok/5");
        assert_body(after, 5);
        hr_http_cancel(bed.http, after); /* too late: nothing happens */
        hr_http_request_free(after);
        bed_close(&bed);
    }
}

/* A listener whose queue is full, and who fills it: who else connects waits. */
struct full {
    int listener, fillers[4];
    char url[64];
};

static void full_begin(struct full *full)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    full->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(full->listener, (struct sockaddr *)&at, len), 0);
    assert_int_equal(listen(full->listener, 0), 0);
    assert_int_equal(getsockname(full->listener, (struct sockaddr *)&at, &len), 0);
    for (size_t i = 0; i < 4; i++) {
        full->fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(full->fillers[i], (struct sockaddr *)&at, len);
    }
    (void)snprintf(full->url, sizeof(full->url), "http://127.0.0.1:%d/", ntohs(at.sin_port));
}

static void full_end(struct full *full)
{
    for (size_t i = 0; i < 4; i++) {
        (void)close(full->fillers[i]);
    }
    (void)close(full->listener);
}

static void cancel_when_connecting(void *owner)
{
    struct canceling *canceling = owner;
    if (atomic_load(&connecting) == 0) {
        assert_int_equal(hr_loop_arm(canceling->bed->loop, &canceling->timer, 1), 0);
        return;
    }
    hr_http_cancel(canceling->bed->http, canceling->requests[0]);
}

/* libcurl closes a socket that still connects before it says so; its number may be another thread's by then.
 */
static void a_connecting_socket_is_unwatched_before_its_end(void **state)
{
    (void)state;
    struct bed bed;
    struct full full;
    full_begin(&full);
    bed_open(&bed, NULL, 1, 8);
    struct hr_http_request *request = bed_request(&bed, full.url);
    atomic_store(&connecting, 0);
    atomic_store(&closed_before, 0);
    bed_submit(&bed, request);
    struct canceling canceling = {
        .bed = &bed, .requests = {request}, .timer = HR_TIMER_INIT(cancel_when_connecting, &canceling)};
    assert_int_equal(hr_loop_arm(bed.loop, &canceling.timer, 0), 0);
    bed_run(&bed);
    assert_int_equal(atomic_load(&connecting), 1);
    assert_int_equal(request->error, -ECANCELED);
    assert_int_equal(atomic_load(&closed_before), 0);
    hr_http_request_free(request);
    bed_close(&bed);
    full_end(&full);
}

static void free_ends_requests(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed, NULL, 2, 64);
    struct hr_http_request *requests[60];
    const char *const urls[] = {"http://127.0.0.1:PORT/silent", "http://many.test:PORT/trickle",
                                "http://late.test:PORT/ok/1", "http://127.0.0.1:PORT/stalls"};
    for (int i = 0; i < 60; i++) {
        requests[i] = bed_request(&bed, urls[i % 4]);
        bed_submit(&bed, requests[i]);
    }
    (void)usleep(100000);
    hr_http_free(bed.http);
    bed.http = NULL;
    assert_int_equal(bed.pending, 0);
    for (int i = 0; i < 60; i++) {
        assert_int_equal(requests[i]->error, -ECANCELED);
        hr_http_request_free(requests[i]);
    }
    bed_close(&bed);
}

static void many_at_once(void **state)
{
    (void)state;
    enum { COUNT = 200 };
    struct bed bed;
    bed_open(&bed, NULL, 2, COUNT);
    struct hr_http_request *requests[COUNT];
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < COUNT; i++) {
            char url[128];
            (void)snprintf(url, sizeof(url), "http://%s:PORT/%s/%d", i % 2 ? "127.0.0.1" : "many.test",
                           i % 3 ? "ok" : "chunked", 1 + i * 300);
            requests[i] = bed_request(&bed, url);
            bed_submit(&bed, requests[i]);
        }
        bed_run(&bed);
        for (int i = 0; i < COUNT; i++) {
            assert_body(requests[i], (size_t)(1 + i * 300));
            hr_http_request_free(requests[i]);
        }
    }
    struct hr_http_stats stats;
    hr_http_stats(bed.http, &stats);
    assert_true(stats.requests == 5 * COUNT && stats.in_flight == 0 && stats.in_flight_max == COUNT);
    assert_int_equal(stats.connects, server_accepted(bed.server));
    assert_true(stats.connects <= 2 * COUNT); /* most rounds ran on kept connections */
    bed_close(&bed);
}

static void addresses_share_the_load(void **state)
{
    (void)state;
    enum { COUNT = 60 };
    struct bed bed;
    bed_open(&bed, NULL, 2, COUNT);
    struct hr_http_request *requests[COUNT];
    for (int i = 0; i < COUNT; i++) {
        requests[i] = bed_request(&bed, "http://many.test:PORT/delay/200");
        bed_submit(&bed, requests[i]);
    }
    bed_run(&bed);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(requests[i]->error, 0);
        hr_http_request_free(requests[i]);
    }
    for (int i = 0; i < SERVER_ADDRESSES; i++) {
        assert_int_equal(atomic_load(&bed.server->accepted[i]), COUNT / SERVER_ADDRESSES);
    }
    bed_close(&bed);
}

/* half.test's first address refuses: the request goes to the second, later ones go there at once. */
static void dead_address_is_left_out(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed, NULL, 1, 8);
    unsigned before = atomic_load(&lookups);
    for (int i = 0; i < 10; i++) {
        struct hr_http_request *request = bed_get(&bed, "http://half.test:PORT/ok/10");
        assert_body(request, 10);
        assert_int_equal(request->reused_connection, i > 0);
        hr_http_request_free(request);
    }
    assert_int_equal(atomic_load(&lookups) - before, 1);
    struct hr_http_stats stats;
    hr_http_stats(bed.http, &stats);
    assert_true(stats.connects <= 2 && server_accepted(bed.server) == 1);
    bed_close(&bed);
}

static void failed_lookup_is_shared(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed, NULL, 2, 8);
    unsigned before = atomic_load(&lookups);
    struct hr_http_request *requests[50];
    for (int i = 0; i < 50; i++) {
        requests[i] = bed_request(&bed, "http://none.test:PORT/ok/10");
        bed_submit(&bed, requests[i]);
    }
    bed_run(&bed);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(requests[i]->error, -EHOSTUNREACH);
        hr_http_request_free(requests[i]);
    }
    assert_true(atomic_load(&lookups) - before <= 4); /* with and without AI_ADDRCONFIG */
    bed_close(&bed);
}

/* A multi handle that failed is replaced: its requests come back to be tried again, later ones work. */
static void failed_multi_is_replaced(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed, NULL, 1, 8);
    struct hr_http_request *good = bed_get(&bed, "http://127.0.0.1:PORT/ok/10");
    assert_body(good, 10);
    struct hr_http_request *hit[4];
    atomic_store(&epoll_refuses, true);
    for (int i = 0; i < 4; i++) {
        hit[i] = bed_request(&bed, "http://127.0.0.1:PORT/delay/50");
        bed_submit(&bed, hit[i]);
    }
    bed_run(&bed);
    atomic_store(&epoll_refuses, false);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(hit[i]->error, -ECONNRESET);
        bed_submit(&bed, hit[i]);
    }
    bed_run(&bed);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(hit[i]->error, 0);
        hr_http_request_free(hit[i]);
    }
    hr_http_request_free(good);
    bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancel_ends_requests),
        cmocka_unit_test(a_connecting_socket_is_unwatched_before_its_end),
        cmocka_unit_test(free_ends_requests),
        cmocka_unit_test(many_at_once),
        cmocka_unit_test(addresses_share_the_load),
        cmocka_unit_test(dead_address_is_left_out),
        cmocka_unit_test(failed_lookup_is_shared),
        cmocka_unit_test(failed_multi_is_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
