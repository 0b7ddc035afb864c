/* One network thread: its loop, and the requests it runs from their start to their end. */
#include "fetch/net/http_impl.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

#include "fetch/base/clock.h"
#include "fetch/base/thread.h"

#define ERROR_ORIGIN_BYTES 100 /* of host:port in an error's line, so that the error itself has room */
#define STALL_BYTES 10240      /* slower than 1 KiB a second ... */
#define STALL_US 10000000      /* ... for 10 s: the transfer is dead */
#define ADDRESSES_TRIED_MAX 3  /* a request; each may cost a connect timeout */

void hr_http_thread_wake(void *owner)
{
    struct hr_http_thread *thread = owner;
    uint64_t one = 1;
    (void)!write(thread->wake_fd, &one, sizeof(one)); /* fails only when full, which wakes as well */
}

static void release_address(struct hr_http_impl *impl, enum hr_address_outcome outcome)
{
    if (impl->address) {
        hr_address_release(impl->thread->http->resolver, impl->address, outcome);
        impl->address = NULL;
    }
}

/* "host:port: what happened", one line. */
__attribute__((format(printf, 2, 0))) static void describe(struct hr_http_impl *impl, const char *format,
                                                           va_list args)
{
    char *text = impl->request.error_text;
    size_t room = sizeof(impl->request.error_text);
    int origin_len = impl->origin_len < ERROR_ORIGIN_BYTES ? impl->origin_len : ERROR_ORIGIN_BYTES;
    int at = snprintf(text, room, "%.*s: ", origin_len, impl->origin);
    (void)vsnprintf(text + at, room - (size_t)at, format, args);
    for (; *text; text++) {
        if ((unsigned char)*text < ' ') {
            *text = ' ';
        }
    }
}

__attribute__((format(printf, 3, 4))) static void finish(struct hr_http_impl *impl, int error,
                                                         const char *format, ...)
{
    struct hr_http_thread *thread = impl->thread;
    struct hr_http_request *request = &impl->request;
    request->error = error;
    request->error_text[0] = '\0';
    if (error != 0) {
        va_list args;
        va_start(args, format);
        describe(impl, format, args);
        va_end(args);
    }
    release_address(impl, HR_ADDRESS_UNKNOWN);
    hr_http_conn_release(impl, error == 0 && impl->reader.part == HR_PART_DONE && impl->reader.keeps);
    hr_loop_disarm(thread->loop, &impl->deadline);
    impl->waits_for_name = false;
    impl->finished = true;
    request->total_us = (uint64_t)(hr_clock_us() - impl->start_us);
    request->reused_connection = impl->connects == 0 && error == 0;
    hr_http_answer_publish(impl);
    if (impl->is_begun) {
        DL_DELETE2(thread->begun, impl, begun_prev, begun_next);
        impl->is_begun = false;
    }
    DL_DELETE(thread->running, impl);
    DL_APPEND(thread->finished, impl);
}

/* The multi handle is in an unknown state: all its transfers end so that they can be tried again, on a new
 * one. */
static void replace_multi(struct hr_http_thread *thread);

static int64_t due_us(const struct hr_http_impl *impl)
{
    const struct hr_http_request *request = &impl->request;
    int64_t due = impl->conn ? impl->stall_due_us : INT64_MAX;
    if (request->first_byte_ms > 0 && !impl->answer_begun) {
        int64_t first_us = impl->start_us + (int64_t)request->first_byte_ms * 1000;
        due = first_us < due ? first_us : due;
    }
    if (request->total_ms > 0 && impl->start_us + (int64_t)request->total_ms * 1000 < due) {
        due = impl->start_us + (int64_t)request->total_ms * 1000;
    }
    return due;
}

/* One timer for all limits; it is armed for the nearest one and, when that was kept, again for the next. */
static void watch_deadline(struct hr_http_impl *impl)
{
    int64_t due = due_us(impl);
    if (due == INT64_MAX) {
        return;
    }
    int64_t left_us = due - hr_clock_us();
    if (hr_loop_arm(impl->thread->loop, &impl->deadline, left_us > 0 ? (left_us + 999) / 1000 : 0) < 0) {
        finish(impl, -ENOMEM, "no memory for a timer");
    }
}

static void launch(struct hr_http_impl *impl)
{
    struct hr_http_thread *thread = impl->thread;
    if (!thread->multi) {
        replace_multi(thread);
    }
    atomic_store_explicit(&impl->asked, impl->address, memory_order_relaxed);
    impl->unreachable = false;
    impl->sent_us = 0;
    impl->came_bytes = impl->stall_bytes = 0;
    impl->stall_due_us = hr_clock_us() + STALL_US;
    hr_http_reader_reset(impl);
    hr_buf_reset(&impl->request.body);
    if (!thread->multi || hr_http_conn_begin(impl) < 0) {
        finish(impl, -ENOMEM, "no memory for a transfer");
        return;
    }
    if (!impl->finished) {
        watch_deadline(impl);
    }
}

/* Addresses come from our resolver, one a request; a literal needs none. */
static void find_address(struct hr_http_impl *impl)
{
    struct hr_resolver *resolver = impl->thread->http->resolver;
    const char *why = "";
    impl->waits_for_name = false;
    if (impl->host[0] != '\0') {
        int r = hr_resolve_pick(resolver, impl->host, HR_PICK_ANY, impl->other, &impl->address, &why);
        if (r == -EINPROGRESS) {
            impl->waits_for_name = true;
            return;
        }
        if (r < 0) {
            finish(impl, r, "%s", r == -ENOMEM ? "too many hosts at once" : why);
            return;
        }
    }
    launch(impl);
}

/* Where nothing else ends it, a transfer that gives less than STALL_BYTES within STALL_US does; one whose
 * first byte has a limit of its own, from then on. */
static bool stalls(struct hr_http_impl *impl, int64_t now_us)
{
    const struct hr_http_request *request = &impl->request;
    if (!impl->conn || impl->stall_due_us > now_us) {
        return false;
    }
    int64_t begun_us = impl->start_us + (int64_t)request->first_byte_us;
    bool waits = request->first_byte_ms > 0 && (!impl->answer_begun || now_us - begun_us < STALL_US);
    bool stalled = !waits && impl->came_bytes - impl->stall_bytes < STALL_BYTES;
    impl->stall_bytes = impl->came_bytes;
    impl->stall_due_us = now_us + STALL_US;
    return stalled;
}

static void on_deadline(void *owner)
{
    struct hr_http_impl *impl = owner;
    struct hr_http_request *request = &impl->request;
    int64_t now_us = hr_clock_us();
    bool stalled = stalls(impl, now_us);
    if (!stalled && due_us(impl) > now_us) {
        watch_deadline(impl);
        return;
    }
    if (hr_http_conn_opening(impl)) {
        release_address(impl, HR_ADDRESS_NOT_CONNECTED);
    }
    if (stalled) {
        finish(impl, -ETIMEDOUT, "less than %d bytes within %d s", STALL_BYTES, STALL_US / 1000000);
    } else if (impl->answer_begun || request->first_byte_ms == 0 ||
               (request->total_ms > 0 && request->total_ms < request->first_byte_ms)) {
        finish(impl, -ETIMEDOUT, "not finished within %u ms", request->total_ms);
    } else {
        finish(impl, -ETIMEDOUT, "no answer within %u ms", request->first_byte_ms);
    }
}

static void start(struct hr_http_impl *impl)
{
    impl->deadline = (struct hr_timer)HR_TIMER_INIT(on_deadline, impl);
    DL_APPEND(impl->thread->running, impl);
    if (atomic_load(&impl->cancel)) {
        finish(impl, -ECANCELED, "canceled");
        return;
    }
    find_address(impl);
    if (impl->waits_for_name) {
        watch_deadline(impl);
    }
}

/* Nothing was sent yet and another address is healthy: what libcurl would do had we not pinned one. */
static bool try_next_address(struct hr_http_impl *impl)
{
    struct hr_address *address;
    const char *why;
    release_address(impl, HR_ADDRESS_NOT_CONNECTED);
    impl->addresses_tried++;
    if (impl->addresses_tried >= ADDRESSES_TRIED_MAX ||
        hr_resolve_pick(impl->thread->http->resolver, impl->host, HR_PICK_HEALTHY, NULL, &address, &why) <
            0) {
        return false;
    }
    hr_http_conn_release(impl, false);
    impl->address = address;
    launch(impl);
    return true;
}

/* A kept connection which the server had closed meanwhile. */
static bool try_fresh_connection(struct hr_http_impl *impl, int error)
{
    if (error != -ECONNRESET || impl->connects > 0 || impl->fresh || impl->answer_begun ||
        impl->request.method == HR_HTTP_POST) {
        return false;
    }
    impl->fresh = true;
    hr_http_conn_release(impl, false);
    launch(impl);
    return true;
}

/* Without connecting and the waits before it. */
static uint64_t answer_us_of(const struct hr_http_impl *impl)
{
    int64_t first_us = impl->start_us + (int64_t)impl->request.first_byte_us;
    return impl->answer_begun && first_us > impl->sent_us ? (uint64_t)(first_us - impl->sent_us) : 0;
}

void hr_http_tried(struct hr_http_impl *impl, int error, const char *why)
{
    impl->request.answer_us = answer_us_of(impl);
    if (impl->unreachable) {
        if (impl->address && try_next_address(impl)) {
            return;
        }
    } else if (try_fresh_connection(impl, error)) {
        return;
    } else if (error == 0) {
        release_address(impl, HR_ADDRESS_CONNECTED);
    }
    finish(impl, error, "%s", why);
}

static void hand_back(struct hr_http_thread *thread)
{
    struct hr_http *http = thread->http;
    struct hr_http_impl *impl;
    if (!thread->finished && !thread->begun) {
        return;
    }
    DL_FOREACH2(thread->begun, impl, begun_next)
    {
        impl->is_begun = false;
    }
    (void)pthread_mutex_lock(&http->lock);
    bool first = http->finished == NULL && http->begun == NULL;
    DL_CONCAT(http->finished, thread->finished);
    DL_CONCAT2(http->begun, thread->begun, begun_prev, begun_next);
    (void)pthread_mutex_unlock(&http->lock);
    thread->finished = thread->begun = NULL;
    if (first) {
        uint64_t one = 1;
        (void)!write(http->done_fd, &one, sizeof(one));
    }
}

static void on_turn(void *owner)
{
    struct hr_http_thread *thread = owner;
    CURLMsg *message;
    int left;
    while (thread->multi && !thread->broken && (message = curl_multi_info_read(thread->multi, &left))) {
        struct hr_http_conn *conn = NULL;
        CURLcode code = message->data.result; /* the message is gone once the handle is removed */
        (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&conn);
        if (message->msg == CURLMSG_DONE && conn && conn->impl) {
            hr_http_conn_opened(conn, code);
        }
    }
    if (thread->broken) {
        replace_multi(thread);
    }
    hand_back(thread);
}

static void replace_multi(struct hr_http_thread *thread)
{
    struct hr_http_impl *impl, *next;
    thread->broken = true; /* handles are freed instead of pooled */
    DL_FOREACH_SAFE(thread->running, impl, next)
    {
        if (impl->conn) {
            finish(impl, -ECONNRESET, "the transfers of this thread had to be restarted");
        }
    }
    hr_http_multi_drop(thread);
    thread->multi = hr_http_multi_new(thread);
    thread->broken = false;
}

static void on_wake(void *owner, int fd, uint32_t events)
{
    struct hr_http_thread *thread = owner;
    struct hr_http_impl *impl, *next, *arrived;
    uint64_t ignored;
    (void)events;
    (void)!read(fd, &ignored, sizeof(ignored));

    (void)pthread_mutex_lock(&thread->lock);
    arrived = thread->inbox;
    thread->inbox = NULL;
    thread->inbox_count = 0;
    (void)pthread_mutex_unlock(&thread->lock);
    DL_FOREACH_SAFE(arrived, impl, next)
    {
        start(impl);
    }
    if (atomic_exchange(&thread->has_names, false)) {
        DL_FOREACH_SAFE(thread->running, impl, next)
        {
            if (impl->waits_for_name) {
                find_address(impl);
            }
        }
    }
    bool stopping = atomic_load(&thread->stopping);
    if (stopping || atomic_exchange(&thread->has_cancels, false)) {
        DL_FOREACH_SAFE(thread->running, impl, next)
        {
            if (stopping || atomic_load(&impl->cancel)) {
                finish(impl, -ECANCELED, "canceled");
            }
        }
    }
    if (stopping) {
        hr_loop_stop(thread->loop);
    }
}

static void *thread_main(void *arg)
{
    struct hr_http_thread *thread = arg;
    (void)pthread_setname_np(pthread_self(), "hr-net");
    (void)hr_loop_run(thread->loop);
    /* Once more: a request may have come between the last look into the inbox and the stop. */
    on_wake(thread, thread->wake_fd, 0);
    on_turn(thread);
    return NULL;
}

int hr_http_thread_start(struct hr_http_thread *thread, struct hr_http *http, unsigned connections)
{
    thread->http = http;
    thread->conn_max = connections;
    thread->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (thread->wake_fd < 0) {
        return -errno;
    }
    (void)pthread_mutex_init(&thread->lock, NULL);
    thread->wake_later = (struct hr_turn_end){.fn = hr_http_thread_wake, .owner = thread};
    thread->curl_timer = (struct hr_timer)HR_TIMER_INIT(hr_http_multi_timer, thread);
    int r = hr_loop_new(&thread->loop);
    if (r < 0) {
        return r;
    }
    r = hr_loop_watch(thread->loop, thread->wake_fd, EPOLLIN, on_wake, thread);
    if (r < 0) {
        return r;
    }
    hr_loop_each_turn(thread->loop, on_turn, thread);
    thread->multi = hr_http_multi_new(thread);
    if (!thread->multi) {
        return -ENOMEM;
    }
    r = hr_thread_start(&thread->thread, NULL, thread_main, thread);
    thread->started = r == 0;
    return r;
}

void hr_http_thread_stop(struct hr_http_thread *thread)
{
    if (thread->started) {
        hr_loop_forget(thread->http->loop, &thread->wake_later);
        atomic_store(&thread->stopping, true);
        hr_http_thread_wake(thread);
        (void)pthread_join(thread->thread, NULL);
        thread->started = false;
    }
}

void hr_http_thread_free(struct hr_http_thread *thread)
{
    if (thread->loop) {
        hr_http_multi_drop(thread);
        hr_loop_free(thread->loop);
    }
    if (thread->wake_fd >= 0) {
        (void)close(thread->wake_fd);
        (void)pthread_mutex_destroy(&thread->lock);
    }
}
