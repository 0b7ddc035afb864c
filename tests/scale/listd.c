/* A synthetic S3 server: answers ListObjectsV2 (prefix, start-after, continuation-token, max-keys, delimiter
 * "/") over any number of keys that are computed on the fly (shapes.h), each answer a set latency after its
 * request, and counts. Any other GET below the bucket is an object of one byte. Signatures are not looked at.
 *
 *   listd SHAPE COUNT [latency_ms=N] [page=N] [threads=N] [port=N] [no_start_after] [no_max_keys]
 * [slow_down=K] [storm_from=N] [storm_to=M] [disorder] [flicker] [whole]
 *
 * slow_down: every K-th request gets 503; storm: those from the N-th up to the M-th do. disorder: two keys of
 * every fortieth page change places. flicker: every tenth key (number 3, 13, ...) is there in the even
 * hundreds of requests and gone in the odd ones, or the other way round. whole: all keys in one answer.
 * Prints "port N" when it listens and its counters when it is told to end (SIGTERM, SIGINT). */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/scale/shapes.h"

#define REQUEST_MAX 16384
#define ANSWER_ROOM (1u << 20) /* 1000 keys of 256 bytes, percent-encoded, and what is around each */
#define KEY_ROOM 512u          /* of one key among all, which are short in the shapes */
#define PAGE_MAX 1000u
#define EVENTS 64

static struct {
    struct shape_set set;
    int64_t latency_ms;
    unsigned page, threads, slow_down;
    uint16_t port;
    unsigned long storm_from, storm_to;
    bool no_start_after, no_max_keys, disorder, flicker, whole;
} config = {.page = PAGE_MAX, .threads = 1};

static struct {
    atomic_ulong pages, probes, directories, keys, refused, objects, requests;
    atomic_int open, peak;
} counters;

static volatile sig_atomic_t ending;

struct peer {
    struct peer *next; /* in the queue of those that wait for their time */
    int fd;
    int64_t due_ms; /* 0: no request */
    size_t used, sent, size;
    bool listing;
    char request[REQUEST_MAX];
    char *answer;
};

struct server {
    int epoll, listener;
    struct peer *first, *last; /* waiting, soonest first: the latency is the same for all */
};

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- parameters ---- */

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* The value of a parameter, decoded; -1: not given. */
static int parameter(const char *query, const char *name, char *ret, size_t room)
{
    size_t name_len = strlen(name);
    size_t len = 0;
    const char *at = query;
    while (at != NULL && !(strncmp(at, name, name_len) == 0 && at[name_len] == '=')) {
        at = strchr(at, '&');
        at += at != NULL;
    }
    if (at == NULL) {
        return -1;
    }
    for (at += name_len + 1; *at != '\0' && *at != '&' && len + 1 < room; at++) {
        if (*at == '%' && hex(at[1]) >= 0 && hex(at[2]) >= 0) {
            ret[len++] = (char)(hex(at[1]) * 16 + hex(at[2]));
            at += 2;
        } else {
            ret[len++] = *at;
        }
    }
    ret[len] = '\0';
    return (int)len;
}

/* ---- answers ---- */

static size_t put_key(char *out, const char *key, uint32_t len)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t used = 0;
    for (uint32_t i = 0; i < len; i++) {
        unsigned c = (unsigned char)key[i];
        if ((c | 32) - 'a' < 26u || c - '0' < 10u || c == '/' || c == '-' || c == '_' || c == '.') {
            out[used++] = (char)c;
        } else {
            out[used++] = '%';
            out[used++] = digits[c >> 4];
            out[used++] = digits[c & 15];
        }
    }
    return used;
}

static size_t put_text(char *out, const char *text)
{
    size_t len = strlen(text);
    memcpy(out, text, len);
    return len;
}

static size_t put_contents(char *out, uint64_t number)
{
    char key[SHAPE_KEY_MAX];
    size_t used = put_text(out, "<Contents><Key>");
    used += put_key(out + used, key, shape_key(&config.set, number, key));
    return used + put_text(out + used, "</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified>"
                                       "<ETag>&quot;9dd4e461268c8034f5c8564e155c67a6&quot;</ETag>"
                                       "<Size>1</Size><StorageClass>STANDARD</StorageClass></Contents>");
}

/* The first key that is not before the prefix: it may be the prefix itself. */
static uint64_t first_with(const char *prefix, uint32_t len)
{
    char key[SHAPE_KEY_MAX];
    uint64_t behind = shape_seek(&config.set, prefix, len);
    return behind > 0 && shape_key(&config.set, behind - 1, key) == len && memcmp(key, prefix, len) == 0
               ? behind - 1
               : behind;
}

/* Keys [*ret_at, *ret_end) are below the prefix and behind what was asked for. */
static void find_range(const char *query, uint64_t *ret_at, uint64_t *ret_end)
{
    char text[4096];
    int len = parameter(query, "prefix", text, sizeof(text) - 8);
    *ret_at = len > 0 ? first_with(text, (uint32_t)len) : 0;
    *ret_end = config.set.count;
    if (len > 0) {
        memcpy(text + len, "\xff\xff\xff\xff", 5);
        *ret_end = shape_seek(&config.set, text, (uint32_t)len + 4);
    }
    if (parameter(query, "continuation-token", text, sizeof(text)) >= 0) {
        *ret_at = strtoull(text, NULL, 10);
    } else if (!config.no_start_after && (len = parameter(query, "start-after", text, sizeof(text))) >= 0) {
        uint64_t behind = shape_seek(&config.set, text, (uint32_t)len);
        *ret_at = behind > *ret_at ? behind : *ret_at;
    }
}

/* Bytes of the key up to the slash behind the prefix; 0: it lies directly below. */
static uint32_t group_of(const char *key, uint32_t len, uint32_t prefix_len)
{
    const char *slash = len > prefix_len ? memchr(key + prefix_len, '/', len - prefix_len) : NULL;
    return slash != NULL ? (uint32_t)(slash - key) + 1 : 0;
}

/* With a delimiter: at most a page of keys and prefixes from `at` on, and what of it is the rest. */
static size_t list_directory(const char *query, uint64_t at, uint64_t end, char *out)
{
    char prefix[4096] = "";
    char key[SHAPE_KEY_MAX + 8];
    int prefix_len = parameter(query, "prefix", prefix, sizeof(prefix));
    size_t used = 0;
    unsigned count = 0;
    for (; at < end && count < config.page; count++) {
        uint32_t len = shape_key(&config.set, at, key);
        uint32_t group = group_of(key, len, prefix_len > 0 ? (uint32_t)prefix_len : 0);
        if (group == 0) {
            used += put_contents(out + used, at++);
            continue;
        }
        used += put_text(out + used, "<CommonPrefixes><Prefix>");
        used += put_key(out + used, key, group);
        used += put_text(out + used, "</Prefix></CommonPrefixes>");
        memcpy(key + group, "\xff\xff\xff\xff", 4);
        at = shape_seek(&config.set, key, group + 4);
    }
    atomic_fetch_add(&counters.directories, 1);
    used += (size_t)sprintf(out + used, "<IsTruncated>%s</IsTruncated>", at < end ? "true" : "false");
    if (at < end) {
        used += (size_t)sprintf(out + used, "<NextContinuationToken>%llu</NextContinuationToken>",
                                (unsigned long long)at);
    }
    return used;
}

static bool is_there(uint64_t number)
{
    return !config.flicker || number % 10 != 3 ||
           (number / 10 + atomic_load(&counters.requests) / 100) % 2 == 0;
}

/* Where a page of `most` keys from `at` on ends. */
static uint64_t end_of_page(uint64_t at, uint64_t end, unsigned most)
{
    unsigned count = 0;
    while (at < end && count < most) {
        count += is_there(at++);
    }
    return at;
}

static size_t list(const char *query, char *out)
{
    char text[64];
    uint64_t at;
    uint64_t end;
    unsigned most = config.page;

    find_range(query, &at, &end);
    if (parameter(query, "delimiter", text, sizeof(text)) > 0) {
        size_t len = put_text(out, "<ListBucketResult><EncodingType>url</EncodingType>");
        len += list_directory(query, at, end, out + len);
        return len + put_text(out + len, "</ListBucketResult>");
    }
    if (!config.no_max_keys && parameter(query, "max-keys", text, sizeof(text)) > 0 &&
        strtoul(text, NULL, 10) < most) {
        most = (unsigned)strtoul(text, NULL, 10);
    }
    if (config.whole) {
        most = UINT_MAX;
    }
    atomic_fetch_add(most < config.page ? &counters.probes : &counters.pages, 1);
    uint64_t stop = end_of_page(at, end, most);
    atomic_fetch_add(&counters.keys, stop - at);
    bool shuffled = config.disorder && stop - at > 9 && at / config.page % 40 == 39;
    size_t used = put_text(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult>"
                                "<EncodingType>url</EncodingType>");
    used += (size_t)sprintf(out + used, "<IsTruncated>%s</IsTruncated>", stop < end ? "true" : "false");
    if (stop < end) {
        used += (size_t)sprintf(out + used, "<NextContinuationToken>%llu</NextContinuationToken>",
                                (unsigned long long)stop);
    }
    for (uint64_t i = at; i < stop; i++) {
        if (!is_there(i)) {
            continue;
        }
        used += put_contents(out + used, shuffled && i - at == 5   ? i + 1
                                         : shuffled && i - at == 6 ? i - 1
                                                                   : i);
    }
    return used + put_text(out + used, "</ListBucketResult>");
}

static void answer(struct peer *peer)
{
    static const char *const busy = "<Error><Code>SlowDown</Code><Message>Please reduce your request rate."
                                    "</Message></Error>";
    char *body = peer->answer + 256;
    const char *status = "200 OK";
    size_t len;
    char *query = strchr(peer->request, '?');
    char *line_end = strpbrk(peer->request + 4, " \r");

    if (line_end != NULL) {
        *line_end = '\0';
    }
    peer->listing = query != NULL && strstr(query, "list-type=2") != NULL;
    unsigned long nth = atomic_fetch_add(&counters.requests, 1) + 1;
    if ((config.slow_down > 0 && nth % config.slow_down == 0) ||
        (nth >= config.storm_from && nth < config.storm_to)) {
        status = "503 Slow Down";
        len = put_text(body, busy);
        atomic_fetch_add(&counters.refused, 1);
    } else if (peer->listing) {
        len = list(query + 1, body);
    } else {
        len = put_text(body, "x");
        atomic_fetch_add(&counters.objects, 1);
    }
    int head = snprintf(peer->answer, 256,
                        "HTTP/1.1 %s\r\nContent-Length: %zu\r\nContent-Type: application/xml\r\n"
                        "ETag: \"9dd4e461268c8034f5c8564e155c67a6\"\r\n"
                        "Last-Modified: Fri, 02 Jan 2026 03:04:05 GMT\r\n\r\n",
                        status, len);
    memmove(peer->answer + head, body, len);
    peer->size = (size_t)head + len;
    peer->sent = 0;
}

/* ---- connections ---- */

static void hang_up(struct peer *peer)
{
    close(peer->fd);
    free(peer->answer);
    free(peer);
}

static void ask_for(struct server *server, struct peer *peer, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = peer};
    epoll_ctl(server->epoll, EPOLL_CTL_MOD, peer->fd, &event);
}

static void flush(struct server *server, struct peer *peer)
{
    ssize_t sent = send(peer->fd, peer->answer + peer->sent, peer->size - peer->sent, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) {
        hang_up(peer);
        return;
    }
    peer->sent += sent > 0 ? (size_t)sent : 0;
    if (peer->sent < peer->size) {
        ask_for(server, peer, EPOLLOUT);
        return;
    }
    peer->due_ms = 0;
    peer->used = 0;
    ask_for(server, peer, EPOLLIN);
}

/* The answer's time has come. */
static void serve(struct server *server, struct peer *peer)
{
    answer(peer);
    atomic_fetch_sub(&counters.open, 1);
    flush(server, peer);
}

static void receive(struct server *server, struct peer *peer)
{
    ssize_t got = recv(peer->fd, peer->request + peer->used, REQUEST_MAX - 1 - peer->used, 0);
    if (got <= 0) {
        if (got == 0 || errno != EAGAIN) {
            hang_up(peer);
        }
        return;
    }
    peer->used += (size_t)got;
    peer->request[peer->used] = '\0';
    if (strstr(peer->request, "\r\n\r\n") == NULL) {
        if (peer->used == REQUEST_MAX - 1) {
            hang_up(peer);
        }
        return;
    }
    int open = atomic_fetch_add(&counters.open, 1) + 1;
    for (int peak = atomic_load(&counters.peak); open > peak;) {
        if (atomic_compare_exchange_weak(&counters.peak, &peak, open)) {
            break;
        }
    }
    if (config.latency_ms == 0) {
        serve(server, peer);
        return;
    }
    ask_for(server, peer, 0);
    peer->due_ms = now_ms() + config.latency_ms;
    peer->next = NULL;
    if (server->first == NULL) {
        server->first = peer;
    } else {
        server->last->next = peer;
    }
    server->last = peer;
}

static void welcome(struct server *server)
{
    int fd;
    while ((fd = accept4(server->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct peer *peer = calloc(1, sizeof(*peer));
        size_t room = ANSWER_ROOM + (config.whole ? config.set.count * KEY_ROOM : 0);
        int one = 1;
        if (peer == NULL || (peer->answer = malloc(room)) == NULL) {
            abort();
        }
        peer->fd = fd;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = peer};
        epoll_ctl(server->epoll, EPOLL_CTL_ADD, fd, &event);
    }
}

static void *run(void *argument)
{
    struct server *server = argument;
    struct epoll_event events[EVENTS];

    while (!ending) {
        int64_t wait_ms = server->first != NULL ? server->first->due_ms - now_ms() : 100;
        int count = epoll_wait(server->epoll, events, EVENTS,
                               wait_ms < 0     ? 0
                               : wait_ms > 100 ? 100
                                               : (int)wait_ms);
        for (int i = 0; i < count; i++) {
            struct peer *peer = events[i].data.ptr;
            if (peer == NULL) {
                welcome(server);
            } else if (peer->due_ms != 0 && !(events[i].events & EPOLLOUT)) {
                continue; /* hung up while it waits: seen when the answer is sent */
            } else if (events[i].events & EPOLLOUT) {
                flush(server, peer);
            } else {
                receive(server, peer);
            }
        }
        while (server->first != NULL && server->first->due_ms <= now_ms()) {
            struct peer *peer = server->first;
            server->first = peer->next;
            serve(server, peer);
        }
    }
    return NULL;
}

/* ---- beginning ---- */

static void stop(int number)
{
    (void)number;
    ending = 1;
}

static void open_server(struct server *server)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(config.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int one = 1;

    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(server->listener, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
    if (bind(server->listener, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(server->listener, 512) < 0 ||
        getsockname(server->listener, (struct sockaddr *)&address, &len) < 0) {
        perror("listd");
        exit(1);
    }
    config.port = ntohs(address.sin_port);
    server->epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(server->epoll, EPOLL_CTL_ADD, server->listener, &event);
}

static bool take_option(const char *text)
{
    const char *value = strchr(text, '=');
    unsigned long number = value != NULL ? strtoul(value + 1, NULL, 10) : 0;
    size_t len = value != NULL ? (size_t)(value - text) : strlen(text);
#define IS(name) (len == strlen(name) && memcmp(text, name, len) == 0)
    config.latency_ms = IS("latency_ms") ? (int64_t)number : config.latency_ms;
    config.page = IS("page") && number > 0 && number <= PAGE_MAX ? (unsigned)number : config.page;
    config.threads = IS("threads") && number > 0 && number <= 16 ? (unsigned)number : config.threads;
    config.port = IS("port") ? (uint16_t)number : config.port;
    config.slow_down = IS("slow_down") ? (unsigned)number : config.slow_down;
    config.storm_from = IS("storm_from") ? number : config.storm_from;
    config.storm_to = IS("storm_to") ? number : config.storm_to;
    config.flicker = config.flicker || IS("flicker");
    config.no_start_after = config.no_start_after || IS("no_start_after");
    config.no_max_keys = config.no_max_keys || IS("no_max_keys");
    config.disorder = config.disorder || IS("disorder");
    config.whole = config.whole || IS("whole");
    return IS("latency_ms") || IS("page") || IS("threads") || IS("port") || IS("slow_down") ||
           IS("no_start_after") || IS("no_max_keys") || IS("disorder") || IS("flicker") || IS("storm_from") ||
           IS("storm_to") || IS("whole");
#undef IS
}

int main(int argc, char **argv)
{
    static struct server servers[16];
    pthread_t threads[16];
    int shape = 0;

    while (argc > 1 && shape < SHAPE_COUNT && strcmp(argv[1], shape_names[shape]) != 0) {
        shape++;
    }
    bool good = argc > 2 && shape < SHAPE_COUNT && strtoull(argv[2], NULL, 10) > 0;
    for (int i = 3; good && i < argc; i++) {
        good = take_option(argv[i]);
    }
    if (!good) {
        fprintf(stderr, "usage: listd SHAPE COUNT [OPTION...]; see the head of listd.c\n");
        return 2;
    }
    shape_init(&config.set, (enum shape)shape, strtoull(argv[2], NULL, 10));
    signal(SIGTERM, stop);
    signal(SIGINT, stop);
    for (unsigned i = 0; i < config.threads; i++) {
        open_server(&servers[i]);
    }
    printf("port %u\n", config.port);
    fflush(stdout);
    for (unsigned i = 0; i < config.threads; i++) {
        pthread_create(&threads[i], NULL, run, &servers[i]);
    }
    for (unsigned i = 0; i < config.threads; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("{\"pages\": %lu, \"probes\": %lu, \"directories\": %lu, \"keys\": %lu, \"refused\": %lu, "
           "\"objects\": %lu, \"peak\": "
           "%d}\n",
           counters.pages, counters.probes, counters.directories, counters.keys, counters.refused,
           counters.objects, counters.peak);
    return 0;
}
