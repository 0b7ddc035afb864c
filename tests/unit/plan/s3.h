/* An S3 server for the tests of the plan: just enough of GET and ListObjectsV2, from threads of its own, with
 * bodies that are computed, faults by the number of the request, and counts of what was asked. */
#ifndef TESTS_PLAN_S3_H
#define TESTS_PLAN_S3_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fetch/base/buf.h"
#include "fetch/base/digest.h"
#include "fetch/base/text.h"

#define S3_FN static __attribute__((unused))
#define S3_OBJECTS_MAX 4096
#define S3_CONNECTIONS_MAX 512
#define S3_REQUEST_BYTES 8192
#define S3_FAULTS 8
#define S3_PAGE 1000
#define S3_RANGES 4096

enum s3_fault {
    S3_FINE,
    S3_REFUSED,   /* 403 AccessDenied */
    S3_MISSING,   /* 404 NoSuchKey */
    S3_BUSY,      /* 503 SlowDown */
    S3_BROKEN,    /* 500 InternalError */
    S3_TRUNCATED, /* half of the announced body, then the connection ends */
    S3_DAMAGED,   /* other bytes each time */
};

struct s3_object {
    char key[64];
    uint64_t size;
    uint32_t version;
    char etag[64];                  /* "" : neither listed nor sent */
    char listed_etag[64];           /* what listings say */
    char checksum[80];              /* a header line, "" none */
    enum s3_fault fault[S3_FAULTS]; /* of the n-th GET; S3_FINE behind them */
    enum s3_fault always;
    bool hidden;                /* is not listed */
    unsigned gets, served;      /* asked for; 2xx with the whole body sent */
    unsigned ranges, unmatched; /* GETs with Range; those behind the first byte without If-Match */
    unsigned matched;           /* GETs with If-Match */
    uint64_t changes_at;        /* ranges from here on are of another version; 0: never */
};

struct s3_range { /* of a GET: what was asked for */
    const struct s3_object *object;
    uint64_t first, bytes;
};

struct s3 {
    struct s3_range ranges[S3_RANGES]; /* in the order of their coming */
    unsigned range_count;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct s3_object objects[S3_OBJECTS_MAX]; /* in order of keys */
    unsigned count;
    enum s3_fault list_fault;   /* of every LIST */
    bool gets_held, lists_held; /* requests wait until it is false */
    bool bodies_held;           /* so do bodies of objects, behind their headers */
    bool pages_held;         /* so do full pages of a listing without delimiter, behind pages_let of them */
    bool missing_is_refused; /* 403 for a key that is not there, as to who may not list */
    unsigned delay_ms;
    bool ending;
    unsigned gets, lists, in_gets, in_gets_max;
    unsigned pages, pages_let, delimited, heads; /* full pages without, LISTs with a delimiter; HEADs */
    uint64_t body_bytes;
    uint32_t damage;
    int fd;
    unsigned port;
    pthread_t acceptor;
    int connections[S3_CONNECTIONS_MAX];
    unsigned living;
};

struct s3_peer {
    struct s3 *s3;
    int fd;
};

S3_FN void s3_body(uint32_t version, uint64_t from, size_t len, char *out)
{
    for (size_t i = 0; i < len; i++) {
        uint64_t at = from + i;
        out[i] = (char)(at * 131 + (at >> 9) + version * 29);
    }
}

S3_FN void s3_md5_hex(uint32_t version, uint64_t size, char ret[33])
{
    struct hr_digest_ctx *ctx = NULL;
    uint8_t sum[HR_MD5_BYTES];
    char piece[4096];
    if (hr_digest_new(HR_DIGEST_MD5, &ctx) < 0) {
        abort();
    }
    for (uint64_t at = 0; at < size; at += sizeof piece) {
        size_t len = size - at < sizeof piece ? (size_t)(size - at) : sizeof piece;
        s3_body(version, at, len, piece);
        if (hr_digest_update(ctx, piece, len) < 0) {
            abort();
        }
    }
    if (hr_digest_final(ctx, sum) < 0) {
        abort();
    }
    hr_digest_free(ctx);
    hr_hex_encode(sum, sizeof sum, ret);
}

/* In order of keys only. Large objects get an ETag of parts, which is no MD5. */
S3_FN struct s3_object *s3_add(struct s3 *s3, const char *key, uint64_t size)
{
    struct s3_object *object = &s3->objects[s3->count++];
    memset(object, 0, sizeof *object);
    snprintf(object->key, sizeof object->key, "%s", key);
    object->size = size;
    object->version = s3->count;
    if (size > 1 << 20) {
        snprintf(object->etag, sizeof object->etag, "%032x-%u", s3->count, 3u);
    } else {
        s3_md5_hex(object->version, size, object->etag);
    }
    memcpy(object->listed_etag, object->etag, sizeof object->etag);
    return object;
}

S3_FN struct s3_object *s3_find(struct s3 *s3, const char *key)
{
    for (unsigned i = 0; i < s3->count; i++) {
        if (strcmp(s3->objects[i].key, key) == 0) {
            return &s3->objects[i];
        }
    }
    return NULL;
}

static bool s3_send(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL);
        if (sent <= 0) {
            return false;
        }
        bytes += sent;
        len -= (size_t)sent;
    }
    return true;
}

static bool s3_error(int fd, const char *status, const char *code)
{
    char body[256], text[512];
    int len = snprintf(body, sizeof body, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, code);
    int all = snprintf(text, sizeof text, "HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", status, len, body);
    return s3_send(fd, text, (size_t)all);
}

static bool s3_fail(int fd, enum s3_fault fault)
{
    switch (fault) {
    case S3_REFUSED:
        return s3_error(fd, "403 Forbidden", "AccessDenied");
    case S3_MISSING:
        return s3_error(fd, "404 Not Found", "NoSuchKey");
    case S3_BUSY:
        return s3_error(fd, "503 Slow Down", "SlowDown");
    default:
        return s3_error(fd, "500 Internal Server Error", "InternalError");
    }
}

/* The value of a query's parameter or a header behind `name`, up to `end`; false: not there. */
static bool s3_value(const char *text, const char *name, const char *ends, char *ret, size_t room)
{
    const char *at = strcasestr(text, name);
    if (!at) {
        return false;
    }
    at += strlen(name);
    snprintf(ret, room, "%.*s", (int)strcspn(at, ends), at);
    struct hr_buf decoded = HR_BUF_INIT(2048);
    if (hr_percent_decode(ret, strlen(ret), false, &decoded) == 0 && decoded.data) {
        snprintf(ret, room, "%s", decoded.data);
    }
    hr_buf_release(&decoded);
    return true;
}

/* The directory directly below the prefix that a key is rolled up into; "" for none. */
static void s3_group(const char *key, size_t prefix_len, bool delimited, char ret[64])
{
    const char *slash = delimited ? strchr(key + prefix_len, '/') : NULL;
    snprintf(ret, 64, "%.*s", slash ? (int)(slash - key + 1) : 0, key);
}

/* Under the lock. */
static void s3_list_turn(struct s3 *s3, bool page, bool delimited)
{
    s3->lists++;
    s3->delimited += delimited;
    s3->pages += page;
    unsigned number = s3->pages;
    while ((s3->lists_held || (page && s3->pages_held && number > s3->pages_let)) && !s3->ending) {
        pthread_cond_wait(&s3->changed, &s3->lock);
    }
}

static bool s3_list(struct s3 *s3, int fd, const char *query)
{
    char prefix[1024] = "", after[1024] = "", max_text[32] = "1000", group[64], last_group[64] = "";
    (void)s3_value(query, "prefix=", "& ", prefix, sizeof prefix);
    if (!s3_value(query, "continuation-token=", "& ", after, sizeof after)) {
        (void)s3_value(query, "start-after=", "& ", after, sizeof after);
    }
    bool page = !s3_value(query, "max-keys=", "& ", max_text, sizeof max_text);
    bool delimited = strstr(query, "delimiter=") != NULL;
    unsigned max = (unsigned)atoi(max_text), sent = 0;
    struct hr_buf body = HR_BUF_INIT(4 << 20);
    (void)hr_buf_puts(&body, "<ListBucketResult>");
    bool truncated = false;
    char last[64] = "";
    pthread_mutex_lock(&s3->lock);
    enum s3_fault fault = s3->list_fault;
    s3_list_turn(s3, page && !delimited, delimited);
    for (unsigned i = 0; i < s3->count; i++) {
        const struct s3_object *object = &s3->objects[i];
        if (object->hidden || strncmp(object->key, prefix, strlen(prefix)) != 0 ||
            strcmp(object->key, after) <= 0) {
            continue;
        }
        s3_group(object->key, strlen(prefix), delimited, group);
        bool again =
            group[0] && (strcmp(group, last_group) == 0 || strncmp(after, group, strlen(group)) == 0);
        if (!again && sent == (max < S3_PAGE ? max : S3_PAGE)) {
            truncated = true;
            break;
        }
        snprintf(last, sizeof last, "%s", object->key);
        if (group[0]) {
            if (!again) {
                (void)hr_buf_printf(&body, "<CommonPrefixes><Prefix>%s</Prefix></CommonPrefixes>", group);
                sent++;
            }
            memcpy(last_group, group, sizeof group);
            continue;
        }
        (void)hr_buf_printf(&body, "<Contents><Key>%s</Key><Size>%llu</Size>", object->key,
                            (unsigned long long)object->size);
        if (object->listed_etag[0]) {
            (void)hr_buf_printf(&body, "<ETag>&quot;%s&quot;</ETag>", object->listed_etag);
        }
        (void)hr_buf_puts(&body, "<LastModified>2026-11-21T10:00:00.000Z</LastModified></Contents>");
        sent++;
    }
    pthread_mutex_unlock(&s3->lock);
    if (truncated) {
        (void)hr_buf_printf(&body, "<NextContinuationToken>%s</NextContinuationToken>", last);
    }
    (void)hr_buf_printf(&body, "<KeyCount>%u</KeyCount><IsTruncated>%s</IsTruncated></ListBucketResult>",
                        sent, truncated ? "true" : "false");
    char head[128];
    int len = snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", body.len);
    bool ok = fault ? s3_fail(fd, fault) : s3_send(fd, head, (size_t)len) && s3_send(fd, body.data, body.len);
    hr_buf_release(&body);
    return ok;
}

static bool s3_head(struct s3 *s3, int fd, const char *key)
{
    char head[512];
    pthread_mutex_lock(&s3->lock);
    s3->heads++;
    const struct s3_object *object = s3_find(s3, key);
    bool refused = object ? object->always == S3_REFUSED : s3->missing_is_refused;
    int len = object && !refused ? snprintf(head, sizeof head,
                                            "HTTP/1.1 200 OK\r\nContent-Length: %llu\r\nETag: \"%s\"\r\n"
                                            "Last-Modified: Sat, 21 Nov 2026 10:00:00 GMT\r\n\r\n",
                                            (unsigned long long)object->size, object->etag)
                                 : snprintf(head, sizeof head, "HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n",
                                            refused ? "403 Forbidden" : "404 Not Found");
    pthread_mutex_unlock(&s3->lock);
    return s3_send(fd, head, (size_t)len);
}

static bool s3_send_body(struct s3 *s3, int fd, const struct s3_object *object, enum s3_fault fault,
                         uint64_t first, uint64_t len)
{
    char piece[65536];
    uint64_t stop = fault == S3_TRUNCATED ? len / 2 : len;
    for (uint64_t at = 0; at < stop; at += sizeof piece) {
        size_t part = stop - at < sizeof piece ? (size_t)(stop - at) : sizeof piece;
        s3_body(object->version, first + at, part, piece);
        if (fault == S3_DAMAGED) {
            pthread_mutex_lock(&s3->lock);
            uint32_t damage = ++s3->damage;
            pthread_mutex_unlock(&s3->lock);
            piece[0] = (char)(piece[0] ^ (char)(damage % 255 + 1));
        }
        if (!s3_send(fd, piece, part)) {
            return false;
        }
    }
    pthread_mutex_lock(&s3->lock);
    s3->body_bytes += stop;
    pthread_mutex_unlock(&s3->lock);
    return fault != S3_TRUNCATED;
}

static bool s3_get_object(struct s3 *s3, int fd, struct s3_object *object, const struct s3_object *now,
                          const char *request, enum s3_fault fault)
{
    char range[64] = "", match[128] = "", head[640];
    bool ranged = s3_value(request, "\r\nRange: bytes=", "\r", range, sizeof range);
    unsigned long long first = 0, last = now->size ? now->size - 1 : 0;
    if (ranged && now->size == 0) {
        return s3_send(fd,
                       "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */0\r\n"
                       "Content-Length: 0\r\n\r\n",
                       strlen("HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */0\r\n"
                              "Content-Length: 0\r\n\r\n"));
    }
    if (ranged && sscanf(range, "%llu-%llu", &first, &last) == 2 && last >= now->size) {
        last = now->size - 1;
    }
    char etag[64];
    bool other = now->changes_at && first >= now->changes_at;
    snprintf(etag, sizeof etag, "%s", other ? "ffffffffffffffffffffffffffffffff-9" : now->etag);
    bool matched = s3_value(request, "\r\nIf-Match: \"", "\"\r", match, sizeof match);
    pthread_mutex_lock(&s3->lock);
    object->ranges += ranged;
    object->matched += matched;
    if (ranged && s3->range_count < S3_RANGES) {
        s3->ranges[s3->range_count++] =
            (struct s3_range){object, (uint64_t)first, (uint64_t)(last - first + 1)};
    }
    object->unmatched += ranged && first > 0 && !matched;
    pthread_mutex_unlock(&s3->lock);
    if (matched && strcmp(match, etag) != 0) {
        return s3_error(fd, "412 Precondition Failed", "PreconditionFailed");
    }
    uint64_t len = now->size ? last - first + 1 : 0;
    int used = snprintf(head, sizeof head, "HTTP/1.1 %s\r\nContent-Length: %llu\r\n%s%s%s%s",
                        ranged ? "206 Partial Content" : "200 OK", (unsigned long long)len,
                        etag[0] ? "ETag: \"" : "", etag, etag[0] ? "\"\r\n" : "", now->checksum);
    if (ranged) {
        used += snprintf(head + used, sizeof head - (size_t)used, "Content-Range: bytes %llu-%llu/%llu\r\n",
                         first, last, (unsigned long long)now->size);
    }
    used += snprintf(head + used, sizeof head - (size_t)used,
                     "Last-Modified: Sat, 21 Nov 2026 10:00:00 GMT\r\n\r\n");
    bool ok = s3_send(fd, head, (size_t)used);
    pthread_mutex_lock(&s3->lock);
    while (s3->bodies_held && !s3->ending) {
        pthread_cond_wait(&s3->changed, &s3->lock);
    }
    pthread_mutex_unlock(&s3->lock);
    ok = ok && s3_send_body(s3, fd, now, fault, first, len);
    pthread_mutex_lock(&s3->lock);
    object->served += ok;
    pthread_mutex_unlock(&s3->lock);
    return ok;
}

static bool s3_get(struct s3 *s3, int fd, const char *key, const char *request)
{
    struct s3_object now = {0};
    pthread_mutex_lock(&s3->lock);
    s3->gets++;
    s3->in_gets++;
    s3->in_gets_max = s3->in_gets > s3->in_gets_max ? s3->in_gets : s3->in_gets_max;
    while (s3->gets_held && !s3->ending) {
        pthread_cond_wait(&s3->changed, &s3->lock);
    }
    struct s3_object *object = s3_find(s3, key);
    enum s3_fault fault = s3->missing_is_refused ? S3_REFUSED : S3_MISSING;
    if (object) {
        fault = object->gets < S3_FAULTS ? object->fault[object->gets] : S3_FINE;
        fault = object->always ? object->always : fault;
        object->gets++;
        now = *object;
    }
    unsigned delay_ms = s3->delay_ms;
    pthread_mutex_unlock(&s3->lock);
    if (delay_ms) {
        usleep(delay_ms * 1000);
    }
    bool fails = fault != S3_FINE && fault != S3_TRUNCATED && fault != S3_DAMAGED;
    bool ok = fails ? s3_fail(fd, fault) : s3_get_object(s3, fd, object, &now, request, fault);
    pthread_mutex_lock(&s3->lock);
    s3->in_gets--;
    pthread_mutex_unlock(&s3->lock);
    return ok;
}

static bool s3_serve(struct s3_peer *peer)
{
    char request[S3_REQUEST_BYTES];
    size_t used = 0;
    while (used + 1 < sizeof request) {
        ssize_t got = recv(peer->fd, request + used, sizeof request - 1 - used, 0);
        if (got <= 0) {
            return false;
        }
        used += (size_t)got;
        request[used] = '\0';
        if (strstr(request, "\r\n\r\n")) {
            break;
        }
    }
    char target[2048] = "";
    char method[8] = "";
    if (sscanf(request, "%7s /bucket%2000s", method, target) != 2 ||
        (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)) {
        return s3_error(peer->fd, "400 Bad Request", "InvalidRequest");
    }
    if (strstr(target, "list-type=2")) {
        return s3_list(peer->s3, peer->fd, target);
    }
    char key[1024] = "";
    (void)s3_value(target, "/", "?", key, sizeof key);
    if (method[0] == 'H') {
        return s3_head(peer->s3, peer->fd, key);
    }
    return s3_get(peer->s3, peer->fd, key, request);
}

static void *s3_connection(void *arg)
{
    struct s3_peer *peer = arg;
    struct s3 *s3 = peer->s3;
    while (s3_serve(peer)) {
    }
    pthread_mutex_lock(&s3->lock);
    for (unsigned i = 0; i < S3_CONNECTIONS_MAX; i++) {
        s3->connections[i] = s3->connections[i] == peer->fd ? -1 : s3->connections[i];
    }
    close(peer->fd);
    s3->living--;
    pthread_cond_broadcast(&s3->changed);
    pthread_mutex_unlock(&s3->lock);
    free(peer);
    return NULL;
}

static void s3_take(struct s3 *s3, int fd)
{
    pthread_attr_t attributes;
    pthread_t thread;
    struct s3_peer *peer = malloc(sizeof *peer);
    *peer = (struct s3_peer){s3, fd};
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 512 * 1024);
    pthread_mutex_lock(&s3->lock);
    unsigned slot = 0;
    int on = 1; /* head and body are sent apart: no wait for an acknowledgement between them */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    while (slot < S3_CONNECTIONS_MAX && s3->connections[slot] >= 0) {
        slot++;
    }
    if (slot == S3_CONNECTIONS_MAX || pthread_create(&thread, &attributes, s3_connection, peer) != 0) {
        close(fd);
        free(peer);
    } else {
        s3->connections[slot] = fd;
        s3->living++;
    }
    pthread_mutex_unlock(&s3->lock);
    pthread_attr_destroy(&attributes);
}

static void *s3_accept(void *arg)
{
    struct s3 *s3 = arg;
    int fd;
    while ((fd = accept(s3->fd, NULL, NULL)) >= 0) {
        s3_take(s3, fd);
    }
    return NULL;
}

S3_FN struct s3 *s3_start(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof address;
    struct s3 *s3 = calloc(1, sizeof *s3);
    pthread_mutex_init(&s3->lock, NULL);
    pthread_cond_init(&s3->changed, NULL);
    for (unsigned i = 0; i < S3_CONNECTIONS_MAX; i++) {
        s3->connections[i] = -1;
    }
    s3->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s3->fd < 0 || bind(s3->fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        listen(s3->fd, 512) < 0 || getsockname(s3->fd, (struct sockaddr *)&address, &len) < 0 ||
        pthread_create(&s3->acceptor, NULL, s3_accept, s3) != 0) {
        abort();
    }
    s3->port = ntohs(address.sin_port);
    return s3;
}

S3_FN void s3_stop(struct s3 *s3)
{
    (void)shutdown(s3->fd, SHUT_RDWR);
    (void)pthread_join(s3->acceptor, NULL);
    (void)close(s3->fd);
    pthread_mutex_lock(&s3->lock);
    s3->ending = true;
    pthread_cond_broadcast(&s3->changed);
    for (unsigned i = 0; i < S3_CONNECTIONS_MAX; i++) {
        if (s3->connections[i] >= 0) {
            (void)shutdown(s3->connections[i], SHUT_RDWR);
        }
    }
    while (s3->living > 0) {
        pthread_cond_wait(&s3->changed, &s3->lock);
    }
    pthread_mutex_unlock(&s3->lock);
    pthread_mutex_destroy(&s3->lock);
    pthread_cond_destroy(&s3->changed);
    free(s3);
}

S3_FN void s3_hold(struct s3 *s3, bool gets, bool lists)
{
    pthread_mutex_lock(&s3->lock);
    s3->gets_held = gets;
    s3->lists_held = lists;
    pthread_cond_broadcast(&s3->changed);
    pthread_mutex_unlock(&s3->lock);
}

S3_FN void s3_hold_bodies(struct s3 *s3, bool held)
{
    pthread_mutex_lock(&s3->lock);
    s3->bodies_held = held;
    pthread_cond_broadcast(&s3->changed);
    pthread_mutex_unlock(&s3->lock);
}

/* Full pages of listings without delimiter wait, behind `let` more of them. */
S3_FN void s3_hold_pages(struct s3 *s3, bool held, unsigned let)
{
    pthread_mutex_lock(&s3->lock);
    s3->pages_held = held;
    s3->pages_let = s3->pages + let;
    pthread_cond_broadcast(&s3->changed);
    pthread_mutex_unlock(&s3->lock);
}

S3_FN unsigned s3_gets(struct s3 *s3)
{
    pthread_mutex_lock(&s3->lock);
    unsigned gets = s3->gets;
    pthread_mutex_unlock(&s3->lock);
    return gets;
}

S3_FN unsigned s3_lists(struct s3 *s3)
{
    pthread_mutex_lock(&s3->lock);
    unsigned lists = s3->lists;
    pthread_mutex_unlock(&s3->lock);
    return lists;
}

S3_FN unsigned s3_delimited(struct s3 *s3)
{
    pthread_mutex_lock(&s3->lock);
    unsigned delimited = s3->delimited;
    pthread_mutex_unlock(&s3->lock);
    return delimited;
}

#endif
