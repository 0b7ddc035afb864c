/* Connections: opened by libcurl, which knows TCP, TLS and certificates (CURLOPT_CONNECT_ONLY); requests and
 * answers pass through here, into the body's own memory. */
#include "fetch/net/http_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <utlist.h>

#include "fetch/base/clock.h"

#define IDLE_MAX_MS 4000       /* S3 closes idle connections after about 5 s */
#define LIFETIME_MAX_MS 300000 /* new connections spread over the addresses again */
#define PIECE_BYTES 16384      /* read at once where the body has no place yet; TLS has no longer records */
#define HEAD_PIECE_BYTES 4096  /* ...of an answer with a longer body, the rest of which then needs no copy */
#define CLOSES_SINCE 0x075600  /* libcurl 7.86: a handle that is removed takes its connection along */

static void forget(struct hr_http_conn *conn)
{
    free(conn->ca_bundle);
    conn->ca_bundle = NULL;
    conn->fd = conn->opening_fd = -1;
    conn->writes = false;
}

static void free_conn(struct hr_http_conn *conn)
{
    curl_easy_cleanup(conn->curl);
    forget(conn);
    free(conn);
}

static void close_conn(struct hr_http_conn *conn)
{
    struct hr_http_thread *thread = conn->thread;
    if (conn->fd >= 0) {
        hr_loop_unwatch(thread->loop, conn->fd);
        if (curl_version_info(CURLVERSION_NOW)->version_num < CLOSES_SINCE) {
            (void)shutdown(conn->fd, SHUT_RDWR); /* libcurl then drops it before it opens the next */
        }
    }
    if (conn->fd < 0) {
        /* libcurl closes it, and tells us when its number may be another thread's. */
        hr_loop_unwatch(thread->loop, conn->opening_fd);
    }
    if (conn->is_added && thread->multi) {
        (void)curl_multi_remove_handle(thread->multi, conn->curl);
    }
    conn->is_added = false;
    thread->conn_count--;
    forget(conn);
    if (thread->conn_count + thread->closed_count < thread->conn_max && !thread->broken) {
        LL_PREPEND(thread->closed, conn);
        thread->closed_count++;
    } else {
        free_conn(conn);
    }
}

static void close_idle(struct hr_http_conn *conn)
{
    DL_DELETE(conn->thread->idle, conn);
    close_conn(conn);
}

void hr_http_conns_drop(struct hr_http_thread *thread)
{
    while (thread->idle) {
        close_idle(thread->idle);
    }
    while (thread->closed) {
        struct hr_http_conn *conn = thread->closed;
        LL_DELETE(thread->closed, conn);
        free_conn(conn);
    }
    thread->closed_count = 0;
}

void hr_http_conn_release(struct hr_http_impl *impl, bool keep)
{
    struct hr_http_conn *conn = impl->conn;
    if (!conn) {
        return;
    }
    impl->conn = NULL;
    conn->impl = NULL;
    if (!keep || conn->thread->broken) {
        close_conn(conn);
        return;
    }
    conn->idle_since_ms = hr_clock_ms();
    DL_PREPEND(conn->thread->idle, conn);
}

bool hr_http_conn_opening(const struct hr_http_impl *impl)
{
    return impl->conn && impl->conn->fd < 0;
}

static int failed(CURLcode code)
{
    return code == CURLE_AGAIN ? -EAGAIN : -ECONNRESET;
}

/* How much, or -EAGAIN or -ECONNRESET. What is not encrypted needs no detour. */
static ssize_t send_some(struct hr_http_conn *conn, const char *bytes, size_t len)
{
    if (conn->is_tls) {
        size_t sent = 0;
        CURLcode code = curl_easy_send(conn->curl, bytes, len, &sent);
        return code == CURLE_OK ? (ssize_t)sent : failed(code);
    }
    ssize_t sent = send(conn->fd, bytes, len, MSG_NOSIGNAL);
    return sent >= 0 ? sent : errno == EAGAIN || errno == EINTR ? -EAGAIN : -ECONNRESET;
}

/* The same; 0: the other side has closed. */
static ssize_t receive_some(struct hr_http_conn *conn, char *bytes, size_t room)
{
    if (conn->is_tls) {
        size_t came = 0;
        CURLcode code = curl_easy_recv(conn->curl, bytes, room, &came);
        return code == CURLE_OK ? (ssize_t)came : failed(code);
    }
    ssize_t came = recv(conn->fd, bytes, room, 0);
    return came >= 0 ? came : errno == EAGAIN || errno == EINTR ? -EAGAIN : -ECONNRESET;
}

static void on_event(void *owner, int fd, uint32_t events);

static bool watch(struct hr_http_conn *conn, bool writes)
{
    uint32_t events = EPOLLIN | (writes ? EPOLLOUT : 0);
    if (hr_loop_watch(conn->thread->loop, conn->fd, events, on_event, conn) < 0) {
        conn->thread->broken = true; /* all of the thread's connections end, this one too */
        return false;
    }
    conn->writes = writes;
    return true;
}

/* False: the try has ended. */
static bool send_text(struct hr_http_conn *conn)
{
    struct hr_http_impl *impl = conn->impl;
    while (impl->text_sent < impl->text.len) {
        ssize_t sent = send_some(conn, impl->text.data + impl->text_sent, impl->text.len - impl->text_sent);
        if (sent == -EAGAIN || sent == 0) {
            break;
        }
        if (sent < 0) {
            hr_http_tried(impl, (int)sent, "the connection ended while the request was sent");
            return false;
        }
        impl->text_sent += (size_t)sent;
    }
    bool writes = impl->text_sent < impl->text.len;
    if (writes != conn->writes) {
        (void)watch(conn, writes);
    }
    return true;
}

static const char *end_text(const struct hr_http_impl *impl)
{
    return impl->answer_begun ? "the connection ended before the answer did"
                              : "the connection ended without an answer";
}

/* True: there may be more to read. */
static bool receive_piece(struct hr_http_conn *conn)
{
    struct hr_http_impl *impl = conn->impl;
    struct hr_http_reader *reader = &impl->reader;
    char piece[PIECE_BYTES];
    char *at = piece;
    size_t room = hr_http_reader_room(impl, &at);
    bool direct = room > 0;
    if (!direct) {
        bool in_head = reader->part == HR_PART_STATUS || reader->part == HR_PART_FIELDS;
        room = in_head && impl->request.body_hint_bytes > PIECE_BYTES ? HEAD_PIECE_BYTES : PIECE_BYTES;
    }
    /* One more than is left, into the place of the terminator: there must be none. */
    size_t asked = direct && room == reader->left ? room + 1 : room;
    ssize_t came = receive_some(conn, at, asked);
    if (came == -EAGAIN) {
        return false;
    }
    if (came <= 0) {
        int error = came == 0 ? hr_http_reader_end(impl) : -ECONNRESET;
        hr_http_tried(impl, error, end_text(impl));
        return false;
    }
    impl->came_bytes += (uint64_t)came;
    size_t used = (size_t)came < room ? (size_t)came : room;
    int r = 0;
    if (direct) {
        hr_http_reader_came(impl, used);
    } else {
        r = hr_http_reader_take(impl, piece, (size_t)came, &used);
    }
    if (r < 0 || reader->part == HR_PART_DONE) {
        /* Bytes behind the answer, or an answer before the request's end: nobody knows what comes next. */
        reader->keeps = reader->keeps && used == (size_t)came && impl->text_sent == impl->text.len;
        hr_http_tried(impl, r, impl->why);
        return false;
    }
    return conn->is_tls || (size_t)came == asked; /* TLS may hold more that epoll knows nothing of */
}

static void on_event(void *owner, int fd, uint32_t events)
{
    struct hr_http_conn *conn = owner;
    (void)fd;
    if (!conn->impl) {
        close_idle(conn); /* as a rule closed by the other side; bytes that nobody asked for are no better */
        return;
    }
    /* A try that has ended may have taken this very struct for its next connection. */
    if ((events & EPOLLOUT) && !send_text(conn)) {
        return;
    }
    if (events & (uint32_t)~EPOLLOUT) {
        while (receive_piece(conn)) {
        }
    }
}

static bool same_bundle(const struct hr_http_conn *conn, const struct hr_http_impl *impl)
{
    const char *wanted = impl->request.ca_bundle;
    return conn->ca_bundle && wanted ? strcmp(conn->ca_bundle, wanted) == 0 : !conn->ca_bundle && !wanted;
}

/* Nothing has come, no end either. What cannot be sent twice is not sent without that look. */
static bool is_quiet(const struct hr_http_conn *conn)
{
    char byte;
    return recv(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* The list has the one used last first, so the oldest are at its end. */
static struct hr_http_conn *find_idle(struct hr_http_thread *thread, const struct hr_http_impl *impl)
{
    int64_t now_ms = hr_clock_ms();
    struct hr_http_conn *conn, *next;
    while (thread->idle && thread->idle->prev->idle_since_ms + IDLE_MAX_MS < now_ms) {
        close_idle(thread->idle->prev);
    }
    DL_FOREACH_SAFE(thread->idle, conn, next)
    {
        bool fits = conn->address == impl->address && conn->is_tls == impl->is_tls &&
                    conn->origin_len == impl->origin_len &&
                    strncasecmp(conn->origin, impl->origin, (size_t)impl->origin_len) == 0 &&
                    same_bundle(conn, impl);
        if (conn->made_ms + LIFETIME_MAX_MS < now_ms ||
            (fits && impl->request.method == HR_HTTP_POST && !is_quiet(conn))) {
            close_idle(conn);
        } else if (fits) {
            DL_DELETE(thread->idle, conn);
            return conn;
        }
    }
    return NULL;
}

static struct hr_http_conn *take_handle(struct hr_http_thread *thread)
{
    struct hr_http_conn *conn = thread->closed;
    if (conn) {
        LL_DELETE(thread->closed, conn);
        thread->closed_count--;
        return conn;
    }
    conn = calloc(1, sizeof(*conn));
    if (!conn) {
        return NULL;
    }
    conn->thread = thread;
    conn->fd = conn->opening_fd = -1;
    if (hr_http_easy_new(conn) < 0) {
        free_conn(conn);
        return NULL;
    }
    return conn;
}

static int open_conn(struct hr_http_impl *impl)
{
    struct hr_http_thread *thread = impl->thread;
    if (thread->conn_count >= thread->conn_max && thread->idle) {
        close_idle(thread->idle->prev);
    }
    struct hr_http_conn *conn = take_handle(thread);
    if (!conn) {
        return -ENOMEM;
    }
    conn->origin_len = impl->origin_len;
    memcpy(conn->origin, impl->origin, (size_t)impl->origin_len);
    conn->is_tls = impl->is_tls;
    conn->address = impl->address;
    conn->made_ms = hr_clock_ms();
    thread->conn_count++;
    conn->ca_bundle = impl->request.ca_bundle ? strdup(impl->request.ca_bundle) : NULL;
    if ((impl->request.ca_bundle && !conn->ca_bundle) || hr_http_easy_prepare(conn, impl) < 0) {
        close_conn(conn);
        return -ENOMEM;
    }
    conn->impl = impl;
    impl->conn = conn;
    impl->connects++;
    conn->is_added = curl_multi_add_handle(thread->multi, conn->curl) == CURLM_OK;
    if (!conn->is_added) {
        thread->broken = true; /* and is ended with the others */
    }
    return 0;
}

int hr_http_conn_begin(struct hr_http_impl *impl)
{
    int r = hr_http_text(impl);
    if (r < 0) {
        return r;
    }
    struct hr_http_conn *conn = impl->fresh ? NULL : find_idle(impl->thread, impl);
    if (!conn) {
        return open_conn(impl);
    }
    conn->impl = impl;
    impl->conn = conn;
    impl->sent_us = hr_clock_us();
    (void)send_text(conn);
    return 0;
}

void hr_http_conn_opened(struct hr_http_conn *conn, CURLcode code)
{
    struct hr_http_impl *impl = conn->impl;
    curl_socket_t fd = CURL_SOCKET_BAD;
    char byte;
    size_t came = 0;
    if (code == CURLE_OK) {
        code = curl_easy_getinfo(conn->curl, CURLINFO_ACTIVESOCKET, &fd);
    }
    if (code != CURLE_OK) {
        impl->unreachable = code == CURLE_COULDNT_CONNECT || code == CURLE_OPERATION_TIMEDOUT;
        const char *why = conn->curl_error[0] != '\0' ? conn->curl_error : curl_easy_strerror(code);
        hr_http_tried(impl, hr_http_errno(code, conn), why);
        return;
    }
    conn->fd = fd;
    /* The first call of this kind ties handle and connection together: libcurl leaves it alone from now on.
     */
    code = curl_easy_recv(conn->curl, &byte, 1, &came);
    if (code != CURLE_AGAIN) {
        bool speaks = code == CURLE_OK && came > 0;
        hr_http_tried(impl, speaks ? -EPROTO : -ECONNRESET,
                      speaks ? "the server speaks before it is asked" : end_text(impl));
        return;
    }
    if (watch(conn, false)) {
        impl->sent_us = hr_clock_us();
        (void)send_text(conn);
    }
}
