/* The owner's side: requests submitted, canceled and taken back. */
#include "fetch/net/http_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

#include "fetch/base/clock.h"

/* A network thread is woken at the end of the loop's turn, or for so many requests at once: making one takes
 * about as long as waking a thread and its going to sleep again. */
#define WAKE_REQUESTS 8

static struct hr_http_impl *impl_of(struct hr_http_request *request)
{
    return request->impl;
}

/* A request may be submitted again after it came back: nothing of the last time stays. */
static void clear_results(struct hr_http_impl *impl)
{
    struct hr_http_request *request = &impl->request;
    request->error = 0;
    request->error_text[0] = '\0';
    hr_buf_release(&request->body);
    request->first_byte_us = request->total_us = request->answer_us = 0;
    request->reused_connection = false;
    hr_http_reader_reset(impl);
    impl->finished = false;
    impl->addresses_tried = 0;
    impl->connects = 0;
    impl->fresh = false;
    impl->waits_for_name = false;
    atomic_store(&impl->cancel, false);
    atomic_store(&impl->answering, false);
    atomic_store(&impl->asked, NULL);
    impl->tells_begun = request->begun != NULL;
}

int hr_http_submit(struct hr_http *http, struct hr_http_request *request)
{
    struct hr_http_impl *impl = impl_of(request);
    if (http->closing) {
        return -ECANCELED;
    }
    int r = hr_http_read_url(http, impl);
    if (r < 0) {
        return r;
    }
    clear_results(impl);
    struct hr_http_thread *thread = &http->threads[0];
    for (unsigned i = 1; i < http->thread_count; i++) {
        if (http->threads[i].in_flight < thread->in_flight) {
            thread = &http->threads[i];
        }
    }
    impl->thread = thread;
    impl->start_us = hr_clock_us();
    thread->in_flight++;
    http->stats.requests++;
    if (++http->stats.in_flight > http->stats.in_flight_max) {
        http->stats.in_flight_max = http->stats.in_flight;
    }
    (void)pthread_mutex_lock(&thread->lock);
    DL_APPEND(thread->inbox, impl);
    bool enough = ++thread->inbox_count == WAKE_REQUESTS;
    (void)pthread_mutex_unlock(&thread->lock);
    hr_loop_owe(http->loop, &thread->wake_later);
    if (enough) {
        hr_loop_forget(http->loop, &thread->wake_later);
        hr_http_thread_wake(thread);
    }
    return 0;
}

void hr_http_cancel(struct hr_http *http, struct hr_http_request *request)
{
    struct hr_http_impl *impl = impl_of(request);
    (void)http;
    if (!impl->thread) {
        return; /* never submitted */
    }
    atomic_store(&impl->cancel, true);
    atomic_store(&impl->thread->has_cancels, true);
    hr_http_thread_wake(impl->thread);
}

void hr_http_request_avoid(struct hr_http_request *request, const struct hr_http_request *other)
{
    const struct hr_http_impl *impl = other->impl;
    impl_of(request)->other = atomic_load_explicit(&impl->asked, memory_order_relaxed);
}

bool hr_http_answering(const struct hr_http_request *request)
{
    const struct hr_http_impl *impl = request->impl;
    return atomic_load_explicit(&impl->answering, memory_order_relaxed);
}

void hr_http_asked(const struct hr_http_request *request, char *ret, size_t room)
{
    const struct hr_http_impl *impl = request->impl;
    const struct hr_address *asked = atomic_load_explicit(&impl->asked, memory_order_relaxed);
    if (asked) {
        (void)snprintf(ret, room, "%s", hr_address_text(asked)); /* addresses are kept, their texts stay */
    } else {
        (void)snprintf(ret, room, "%.*s", impl->origin_len, impl->origin);
    }
}

/* Each callback may free its request, submit and cancel others. */
static void take_back(struct hr_http *http)
{
    (void)pthread_mutex_lock(&http->lock);
    struct hr_http_impl *finished = http->finished, *begun = http->begun;
    http->finished = http->begun = NULL;
    (void)pthread_mutex_unlock(&http->lock);
    struct hr_http_impl *impl, *next;
    DL_FOREACH_SAFE2(begun, impl, next, begun_next)
    {
        if (impl->request.begun) {
            impl->request.begun(&impl->request);
        }
    }
    DL_FOREACH_SAFE(finished, impl, next)
    {
        http->stats.in_flight--;
        http->stats.connects += impl->connects;
        http->stats.reused += impl->request.reused_connection;
        impl->thread->in_flight--;
        impl->other = NULL;
        impl->request.done(&impl->request);
    }
}

static void on_done(void *owner, int fd, uint32_t events)
{
    uint64_t ignored;
    (void)events;
    (void)!read(fd, &ignored, sizeof(ignored));
    take_back(owner);
}

/* The resolver's thread: requests of every network thread may have waited for this name. */
static void on_name(void *owner)
{
    struct hr_http *http = owner;
    for (unsigned i = 0; i < http->thread_count; i++) {
        atomic_store(&http->threads[i].has_names, true);
        hr_http_thread_wake(&http->threads[i]);
    }
}

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_ready;

static void init_curl(void)
{
    curl_ready = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static int start_threads(struct hr_http *http, const struct hr_http_options *options)
{
    http->threads = calloc(options->threads, sizeof(*http->threads));
    if (!http->threads) {
        return -ENOMEM;
    }
    unsigned share = (options->max_connections + options->threads - 1) / options->threads;
    for (unsigned i = 0; i < options->threads; i++) {
        http->threads[i].wake_fd = -1;
    }
    http->thread_count = options->threads;
    for (unsigned i = 0; i < options->threads; i++) {
        int r = hr_http_thread_start(&http->threads[i], http, share > 0 ? share : 1);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

int hr_http_new(const struct hr_http_options *options, struct hr_loop *owner_loop, struct hr_http **ret)
{
    (void)pthread_once(&curl_once, init_curl);
    if (options->threads == 0) {
        return -EINVAL;
    }
    struct hr_http *http = calloc(1, sizeof(*http));
    if (!http || curl_ready != CURLE_OK) {
        free(http);
        return -ENOMEM;
    }
    http->loop = owner_loop;
    (void)pthread_mutex_init(&http->lock, NULL);
    http->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int r = http->done_fd < 0 ? -errno : hr_loop_watch(owner_loop, http->done_fd, EPOLLIN, on_done, http);
    if (r == 0 && options->user_agent) {
        http->user_agent = strdup(options->user_agent);
        r = http->user_agent ? 0 : -ENOMEM;
    }
    if (r == 0) {
        r = start_threads(http, options);
    }
    if (r == 0) {
        r = hr_resolver_new(on_name, http, &http->resolver);
    }
    if (r < 0) {
        hr_http_free(http);
        return r;
    }
    *ret = http;
    return 0;
}

void hr_http_free(struct hr_http *http)
{
    if (!http) {
        return;
    }
    http->closing = true;
    for (unsigned i = 0; i < http->thread_count; i++) {
        hr_http_thread_stop(&http->threads[i]);
    }
    take_back(http);
    hr_resolver_free(http->resolver);
    for (unsigned i = 0; i < http->thread_count; i++) {
        hr_http_thread_free(&http->threads[i]);
    }
    if (http->done_fd >= 0) {
        hr_loop_unwatch(http->loop, http->done_fd);
        (void)close(http->done_fd);
    }
    (void)pthread_mutex_destroy(&http->lock);
    free(http->threads);
    free(http->user_agent);
    free(http);
}

void hr_http_stats(const struct hr_http *http, struct hr_http_stats *ret)
{
    *ret = http->stats;
}
