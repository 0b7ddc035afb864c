/* A small HTTP server for the tests of http: misbehaves as the path asks. Listens on loopback addresses, one
 * thread a connection. Included by one file only. */
#ifndef HR_TEST_SERVER_H
#define HR_TEST_SERVER_H

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SERVER_ADDRESSES 3 /* 127.0.0.1 to 127.0.0.3, one port */
#define SERVER_CONNECTIONS 1024

struct server {
    int port;
    int listeners[SERVER_ADDRESSES];
    int stop_pipe[2];
    pthread_t acceptor;
    SSL_CTX *tls; /* NULL: plain */
    atomic_uint accepted[SERVER_ADDRESSES];
    atomic_uint requests;
    pthread_mutex_t lock;
    pthread_cond_t gone;
    int connections[SERVER_CONNECTIONS]; /* descriptors, -1 free */
    unsigned living;
};

struct peer {
    struct server *server;
    unsigned slot;
    int fd;
    SSL *ssl;
    uint64_t payload_sum; /* of the bytes that came with the request */
};

static inline ssize_t peer_read(struct peer *peer, char *bytes, size_t len)
{
    return peer->ssl ? SSL_read(peer->ssl, bytes, (int)len) : recv(peer->fd, bytes, len, 0);
}

static inline bool peer_write(struct peer *peer, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n =
            peer->ssl ? SSL_write(peer->ssl, bytes, (int)len) : send(peer->fd, bytes, len, MSG_NOSIGNAL);
        if (n <= 0) {
            return false;
        }
        bytes += n;
        len -= (size_t)n;
    }
    return true;
}

__attribute__((format(printf, 2, 3))) static inline bool peer_printf(struct peer *peer, const char *format,
                                                                     ...)
{
    char text[4096];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return peer_write(peer, text, (size_t)len);
}

/* Byte i of every body. */
static inline char body_byte(size_t i)
{
    return (char)('a' + (i * 7 + i / 251) % 26);
}

static inline bool peer_body(struct peer *peer, size_t from, size_t len)
{
    char piece[8192];
    while (len > 0) {
        size_t n = len < sizeof(piece) ? len : sizeof(piece);
        for (size_t i = 0; i < n; i++) {
            piece[i] = body_byte(from + i);
        }
        if (!peer_write(peer, piece, n)) {
            return false;
        }
        from += n;
        len -= n;
    }
    return true;
}

/* Waits until the client goes away (or sends something: then false as well). */
static inline bool peer_linger(struct peer *peer)
{
    char byte;
    (void)peer_read(peer, &byte, 1);
    return false;
}

static inline void peer_reset(struct peer *peer)
{
    struct linger hard = {.l_onoff = 1};
    (void)setsockopt(peer->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
}

static inline bool answer_headers(struct peer *peer)
{
    return peer_printf(peer,
                       "HTTP/1.1 103 Early Hints\r\nETag: \"early\"\r\n\r\n"
                       "HTTP/1.1 206 Partial Content\r\nETag:   \"abc\"  \r\nContent-Range: bytes 0-4/10\r\n"
                       "X-Amz-Checksum-Empty:\r\nX-AMZ-Request-Id: R1\r\nServer: Test/1\r\nVary: hidden\r\n"
                       "X-Amz-Meta-Mode: 33188\r\n"
                       "Last-Modified: Sat, 21 Nov 2026 10:41:00 GMT\r\nTransfer-Encoding: chunked\r\n"
                       "Trailer: ETag\r\n\r\n5\r\nhello\r\n0\r\nETag: \"late\"\r\n\r\n");
}

static inline bool answer_trickle(struct peer *peer)
{
    bool ok = peer_printf(peer, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
    for (size_t i = 0; ok && i < 100000; i += 10) {
        ok = peer_body(peer, i, 10);
        (void)usleep(20000);
    }
    return ok;
}

static inline bool answer_many_headers(struct peer *peer, size_t count, size_t bytes_each)
{
    char *filler = malloc(bytes_each + 1);
    memset(filler, 'v', bytes_each);
    filler[bytes_each] = '\0';
    bool ok = peer_printf(peer, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n");
    for (size_t i = 0; ok && i < count; i++) {
        ok = peer_printf(peer, "x-amz-checksum-%zu: ", i) && peer_write(peer, filler, bytes_each) &&
             peer_printf(peer, "\r\n");
    }
    free(filler);
    return ok && peer_printf(peer, "\r\n");
}

/* One that leaves the connection closed, cut or silent. False: it ends; *ret_done: path is such a one. */
static inline bool answer_broken(struct peer *peer, const char *path, unsigned nth, bool *ret_done)
{
    *ret_done = true;
    if (strcmp(path, "/truncated") == 0) {
        (void)(peer_printf(peer, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n") &&
               peer_body(peer, 0, 500));
        return false;
    }
    if (strcmp(path, "/truncated-chunk") == 0) {
        (void)(peer_printf(peer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n400\r\n") &&
               peer_body(peer, 0, 500));
        return false;
    }
    if (strcmp(path, "/reset") == 0) {
        (void)(peer_printf(peer, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n") &&
               peer_body(peer, 0, 500));
        (void)usleep(20000);
        peer_reset(peer);
        return false;
    }
    if (strcmp(path, "/then-close") == 0) {
        (void)peer_printf(peer, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        return false;
    }
    /* The first request of a connection gets an answer, the second meets a close. */
    if (strcmp(path, "/once") == 0) {
        return nth == 1 && peer_printf(peer, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    }
    if (strcmp(path, "/once-reset") == 0) {
        peer_reset(peer);
        return nth == 1 && peer_printf(peer, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    }
    if (strcmp(path, "/nothing") == 0) {
        return false;
    }
    if (strcmp(path, "/silent") == 0) {
        return peer_linger(peer);
    }
    if (strcmp(path, "/stalls") == 0) {
        (void)(peer_printf(peer, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n") &&
               peer_body(peer, 0, 500));
        return peer_linger(peer);
    }
    unsigned status = 0, len = 0;
    if (sscanf(path, "/begins/%u/%u", &status, &len) == 2) {
        (void)peer_printf(peer, "HTTP/1.1 %u X\r\nContent-Length: %u\r\nETag: \"b\"\r\n\r\n", status, len);
        return peer_linger(peer);
    }
    if (strcmp(path, "/garbage") == 0) {
        (void)peer_printf(peer, "SSH-2.0-OpenSSH_9.2\r\n");
        return false;
    }
    *ret_done = false;
    return true;
}

/* One request's answer; false: the connection ends. `nth` counts the requests of this connection from 1. */
static inline bool answer(struct peer *peer, const char *head, unsigned nth)
{
    char method[16] = "", path[64] = "";
    size_t size = 0, more = 0;
    (void)sscanf(head, "%15s %63s", method, path);
    bool is_head = strcmp(method, "HEAD") == 0, done = false;
    bool open = answer_broken(peer, path, nth, &done);
    if (done) {
        return open;
    }
    if (sscanf(path, "/ok/%zu", &size) == 1) {
        return peer_printf(peer, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", size) &&
               (is_head || peer_body(peer, 0, size));
    }
    if (sscanf(path, "/chunked/%zu", &size) == 1) {
        return peer_printf(peer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%zx\r\n", size) &&
               peer_body(peer, 0, size) && peer_printf(peer, "\r\n0\r\n\r\n");
    }
    if (sscanf(path, "/error/%zu/%zu", &size, &more) == 2) {
        return peer_printf(peer, "HTTP/1.1 %zu Bad\r\nContent-Length: %zu\r\n\r\n", size, more) &&
               peer_body(peer, 0, more);
    }
    if (sscanf(path, "/delay/%zu", &size) == 1) {
        (void)usleep((unsigned)size * 1000);
        return peer_printf(peer, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    }
    if (sscanf(path, "/fields/%zu/%zu", &size, &more) == 2) {
        return answer_many_headers(peer, size, more);
    }
    if (strcmp(path, "/trickle") == 0) {
        return answer_trickle(peer);
    }
    if (strcmp(path, "/headers") == 0) {
        return answer_headers(peer);
    }
    if (strncmp(path, "/echo", 5) == 0) {
        size_t len = is_head ? 0 : strlen(head);
        return peer_printf(peer, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", len) &&
               peer_write(peer, head, len);
    }
    if (strcmp(path, "/sum") == 0) {
        char sum[24];
        int len = snprintf(sum, sizeof(sum), "%llu", (unsigned long long)peer->payload_sum);
        return peer_printf(peer, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len, sum);
    }
    if (strcmp(path, "/says-close") == 0) { /* and leaves it to the client */
        return peer_printf(peer, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
    }
    if (strcmp(path, "/old") == 0) {
        return peer_printf(peer, "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok");
    }
    if (strcmp(path, "/surplus") == 0) {
        return peer_printf(peer, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
                                 "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno");
    }
    if (strcmp(path, "/redirect") == 0) {
        return peer_printf(peer,
                           "HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n");
    }
    return peer_printf(peer, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
}

/* The payload behind the head, of which `len` bytes are here. How many of them were its. */
static inline size_t take_payload(struct peer *peer, const char *head, const char *begin, size_t len)
{
    const char *text = strstr(head, "Content-Length: ");
    size_t left = text ? strtoul(text + strlen("Content-Length: "), NULL, 10) : 0, used = 0;
    char piece[4096];
    peer->payload_sum = 0;
    while (left > 0) {
        bool here = used < len;
        ssize_t n = here ? 1 : peer_read(peer, piece, left < sizeof(piece) ? left : sizeof(piece));
        if (n <= 0) {
            break;
        }
        for (ssize_t i = 0; i < n; i++) {
            peer->payload_sum += (unsigned char)(here ? begin[used] : piece[i]);
        }
        used += here;
        left -= (size_t)n;
        if (!here) {
            (void)usleep(100); /* slower than who sends */
        }
    }
    return used;
}

static inline void *serve_peer(void *arg)
{
    struct peer *peer = arg;
    struct server *server = peer->server;
    char head[8192];
    size_t len = 0;
    unsigned nth = 0;
    bool open = true;
    if (server->tls) {
        peer->ssl = SSL_new(server->tls);
        (void)SSL_set_fd(peer->ssl, peer->fd);
        open = SSL_accept(peer->ssl) == 1;
    }
    while (open) {
        char *end = NULL;
        while (!end && len < sizeof(head) - 1) {
            ssize_t n = peer_read(peer, head + len, sizeof(head) - 1 - len);
            if (n <= 0) {
                open = false;
                break;
            }
            len += (size_t)n;
            head[len] = '\0';
            if (!server->tls && head[0] == 0x16) { /* a TLS handshake: answered as common servers do */
                (void)peer_printf(peer, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
                open = false;
                break;
            }
            end = strstr(head, "\r\n\r\n");
        }
        if (!end) {
            break;
        }
        end[2] = '\0';
        atomic_fetch_add(&server->requests, 1);
        size_t used = (size_t)(end + 4 - head);
        used += take_payload(peer, head, head + used, len - used);
        open = answer(peer, head, ++nth);
        memmove(head, head + used, len - used);
        len -= used;
    }
    if (peer->ssl) {
        SSL_free(peer->ssl);
    }
    (void)pthread_mutex_lock(&server->lock);
    server->connections[peer->slot] = -1;
    (void)close(peer->fd);
    server->living--;
    (void)pthread_cond_signal(&server->gone);
    (void)pthread_mutex_unlock(&server->lock);
    free(peer);
    return NULL;
}

static inline void serve_new(struct server *server, unsigned which)
{
    struct peer *peer = calloc(1, sizeof(*peer));
    peer->server = server;
    peer->fd = accept(server->listeners[which], NULL, NULL);
    if (peer->fd < 0) {
        free(peer);
        return;
    }
    atomic_fetch_add(&server->accepted[which], 1);
    (void)pthread_mutex_lock(&server->lock);
    while (peer->slot < SERVER_CONNECTIONS && server->connections[peer->slot] >= 0) {
        peer->slot++;
    }
    if (peer->slot == SERVER_CONNECTIONS) {
        abort();
    }
    server->connections[peer->slot] = peer->fd;
    server->living++;
    (void)pthread_mutex_unlock(&server->lock);
    pthread_attr_t attr;
    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attr, 256 * 1024);
    pthread_t thread;
    if (pthread_create(&thread, &attr, serve_peer, peer) != 0) {
        abort();
    }
    (void)pthread_attr_destroy(&attr);
}

static inline void *serve_all(void *arg)
{
    struct server *server = arg;
    struct pollfd polled[SERVER_ADDRESSES + 1];
    for (unsigned i = 0; i < SERVER_ADDRESSES; i++) {
        polled[i] = (struct pollfd){.fd = server->listeners[i], .events = POLLIN};
    }
    polled[SERVER_ADDRESSES] = (struct pollfd){.fd = server->stop_pipe[0], .events = POLLIN};
    while (poll(polled, SERVER_ADDRESSES + 1, -1) >= 0 && polled[SERVER_ADDRESSES].revents == 0) {
        for (unsigned i = 0; i < SERVER_ADDRESSES; i++) {
            if (polled[i].revents) {
                serve_new(server, i);
            }
        }
    }
    return NULL;
}

static inline int listen_on(unsigned which, int *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)*port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK + which);
    socklen_t len = sizeof(at);
    int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, len) < 0 || listen(fd, 1024) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) < 0) {
        (void)close(fd);
        return -1;
    }
    *port = ntohs(at.sin_port);
    return fd;
}

static inline struct server *server_start(SSL_CTX *tls)
{
    struct server *server = calloc(1, sizeof(*server));
    server->tls = tls;
    (void)pthread_mutex_init(&server->lock, NULL);
    (void)pthread_cond_init(&server->gone, NULL);
    for (unsigned i = 0; i < SERVER_CONNECTIONS; i++) {
        server->connections[i] = -1;
    }
    for (int tries = 0; tries < 20; tries++) { /* the port must be free on all addresses */
        bool all = true;
        server->port = 0;
        for (unsigned i = 0; i < SERVER_ADDRESSES; i++) {
            server->listeners[i] = all ? listen_on(i, &server->port) : -1;
            all = all && server->listeners[i] >= 0;
        }
        if (all) {
            break;
        }
        for (unsigned i = 0; i < SERVER_ADDRESSES; i++) {
            (void)close(server->listeners[i]);
        }
    }
    if (pipe(server->stop_pipe) < 0 || pthread_create(&server->acceptor, NULL, serve_all, server) != 0) {
        abort();
    }
    return server;
}

static inline unsigned server_accepted(struct server *server)
{
    unsigned sum = 0;
    for (unsigned i = 0; i < SERVER_ADDRESSES; i++) {
        sum += atomic_load(&server->accepted[i]);
    }
    return sum;
}

static inline void server_stop(struct server *server)
{
    (void)!write(server->stop_pipe[1], "x", 1);
    (void)pthread_join(server->acceptor, NULL);
    (void)pthread_mutex_lock(&server->lock);
    for (unsigned i = 0; i < SERVER_CONNECTIONS; i++) {
        if (server->connections[i] >= 0) {
            (void)shutdown(server->connections[i], SHUT_RDWR);
        }
    }
    while (server->living > 0) {
        (void)pthread_cond_wait(&server->gone, &server->lock);
    }
    (void)pthread_mutex_unlock(&server->lock);
    for (unsigned i = 0; i < SERVER_ADDRESSES; i++) {
        (void)close(server->listeners[i]);
    }
    (void)close(server->stop_pipe[0]);
    (void)close(server->stop_pipe[1]);
    (void)pthread_mutex_destroy(&server->lock);
    (void)pthread_cond_destroy(&server->gone);
    free(server);
}

#endif
