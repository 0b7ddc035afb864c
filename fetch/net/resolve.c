#include "fetch/net/resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fetch/base/clock.h"
#include "fetch/base/thread.h"

#define HOSTS_MAX 256           /* virtual-hosted buckets each have a name; redirects may bring more */
#define ADDRESSES_MAX 32        /* a host; S3 gives up to 8 a lookup, rotating */
#define HOST_NAME_MAX_BYTES 256 /* DNS: 253 */
#define REFRESH_MS 30000        /* between lookups of a host in use; shorter than S3's 60 s rotation */
#define RETRY_MS 5000           /* a refresh that failed; the old addresses stay meanwhile */
#define FAILURE_KEPT_MS 1000    /* a first lookup that failed: asked again after this */
/* An answer this long is a sample of a larger set (S3); a shorter one is all there is. */
#define ROTATING_ADDRESSES 8
#define FORGET_MS 120000     /* an address that samples no longer gave for this long */
#define AVOID_FIRST_MS 10000 /* after one failed connect; doubles with each further one */
#define AVOID_MAX_MS 120000

struct host;

struct hr_address {
    struct host *host;
    char text[INET6_ADDRSTRLEN]; /* "": free slot */
    unsigned in_flight;
    unsigned failures; /* in a row */
    int64_t avoid_until_ms;
    int64_t seen_ms; /* in a lookup's answer */
    bool current;    /* may be picked: the name still leads there */
};

struct host {
    char name[HOST_NAME_MAX_BYTES]; /* "": free slot */
    struct hr_address addresses[ADDRESSES_MAX];
    unsigned in_flight;
    bool looking;    /* the resolver's thread has it */
    bool answered;   /* addresses or failure below are valid */
    int failure;     /* EAI_* of the last lookup, 0 when it gave addresses */
    int64_t next_ms; /* when to look it up again (when somebody uses it) */
    int64_t used_ms;
    int64_t looked_up_ms;
};

struct hr_resolver {
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t changed;
    unsigned references; /* the owner's and the thread's: a lookup may outlive the owner */
    bool stopping;
    hr_resolve_fn answered;
    void *owner;
    struct host *hosts[HOSTS_MAX]; /* grows, slots are reused */
    unsigned host_count;
};

const char *hr_address_text(const struct hr_address *address)
{
    return address->text;
}

static void drop_reference(struct hr_resolver *resolver)
{
    (void)pthread_mutex_lock(&resolver->lock);
    bool last = --resolver->references == 0;
    (void)pthread_mutex_unlock(&resolver->lock);
    if (!last) {
        return;
    }
    for (unsigned i = 0; i < resolver->host_count; i++) {
        free(resolver->hosts[i]);
    }
    (void)pthread_mutex_destroy(&resolver->lock);
    (void)pthread_cond_destroy(&resolver->changed);
    free(resolver);
}

static struct hr_address *address_slot(struct host *host, const char *text)
{
    struct hr_address *vacant = NULL;
    for (unsigned i = 0; i < ADDRESSES_MAX; i++) {
        struct hr_address *address = &host->addresses[i];
        if (strcmp(address->text, text) == 0) {
            return address;
        }
        if (!vacant && address->text[0] == '\0') {
            vacant = address;
        }
    }
    if (vacant) {
        *vacant = (struct hr_address){.host = host};
        memcpy(vacant->text, text, strlen(text) + 1);
    }
    return vacant;
}

static void take_answer(struct host *host, const struct addrinfo *answer, int64_t now_ms)
{
    unsigned count = 0;
    for (; answer; answer = answer->ai_next) {
        char text[INET6_ADDRSTRLEN];
        const void *raw;
        if (answer->ai_family == AF_INET) {
            raw = &((const struct sockaddr_in *)(const void *)answer->ai_addr)->sin_addr;
        } else if (answer->ai_family == AF_INET6) {
            raw = &((const struct sockaddr_in6 *)(const void *)answer->ai_addr)->sin6_addr;
        } else {
            continue;
        }
        if (!inet_ntop(answer->ai_family, raw, text, sizeof(text))) {
            continue;
        }
        struct hr_address *address = address_slot(host, text);
        if (address) {
            address->seen_ms = now_ms;
            count++;
        }
    }
    for (unsigned i = 0; i < ADDRESSES_MAX; i++) {
        struct hr_address *address = &host->addresses[i];
        int64_t keep_ms = count >= ROTATING_ADDRESSES ? FORGET_MS : 0;
        address->current = address->text[0] != '\0' && now_ms - address->seen_ms <= keep_ms;
        if (!address->current && address->in_flight == 0) {
            address->text[0] = '\0';
        }
    }
}

/* The next host to look up: one without any answer first, then the one overdue longest. *ret_wait_ms: how
 * long until there is one when there is none now, -1 for ever. */
static struct host *next_host(struct hr_resolver *resolver, int64_t now_ms, int64_t *ret_wait_ms)
{
    struct host *best = NULL;
    int64_t wait_ms = -1;
    for (unsigned i = 0; i < resolver->host_count; i++) {
        struct host *host = resolver->hosts[i];
        bool used = host->used_ms >= host->looked_up_ms || host->in_flight > 0;
        if (host->name[0] == '\0' || !used) {
            continue;
        }
        if (!host->answered) {
            return host;
        }
        if (host->failure != 0) {
            continue; /* looked up again when somebody asks */
        }
        if (host->next_ms <= now_ms) {
            best = !best || host->next_ms < best->next_ms ? host : best;
        } else if (wait_ms < 0 || host->next_ms - now_ms < wait_ms) {
            wait_ms = host->next_ms - now_ms;
        }
    }
    *ret_wait_ms = wait_ms;
    return best;
}

static void wait_for_work(struct hr_resolver *resolver, int64_t wait_ms)
{
    if (wait_ms < 0) {
        (void)pthread_cond_wait(&resolver->changed, &resolver->lock);
        return;
    }
    int64_t until_ms = hr_clock_ms() + wait_ms + 1;
    struct timespec until = {.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};
    (void)pthread_cond_timedwait(&resolver->changed, &resolver->lock, &until);
}

static int look_up(const char *name, struct addrinfo **ret_answer)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    int failure = getaddrinfo(name, NULL, &hints, ret_answer);
    if (failure == EAI_NONAME || failure == EAI_ADDRFAMILY || failure == EAI_NODATA) {
        hints.ai_flags = 0; /* a machine with a loopback interface only has no "configured" family */
        failure = getaddrinfo(name, NULL, &hints, ret_answer);
    }
    return failure;
}

static void *resolver_main(void *arg)
{
    struct hr_resolver *resolver = arg;
    (void)pthread_setname_np(pthread_self(), "hr-resolve");
    (void)pthread_mutex_lock(&resolver->lock);
    while (!resolver->stopping) {
        int64_t wait_ms;
        struct host *host = next_host(resolver, hr_clock_ms(), &wait_ms);
        if (!host) {
            wait_for_work(resolver, wait_ms);
            continue;
        }
        char name[HOST_NAME_MAX_BYTES];
        memcpy(name, host->name, sizeof(name));
        host->looking = true; /* keeps its slot */
        (void)pthread_mutex_unlock(&resolver->lock);
        struct addrinfo *answer = NULL;
        int failure = look_up(name, &answer);
        (void)pthread_mutex_lock(&resolver->lock);

        int64_t now_ms = hr_clock_ms();
        bool had_addresses = host->answered && host->failure == 0;
        if (failure == 0) {
            take_answer(host, answer, now_ms);
            freeaddrinfo(answer);
        }
        host->looking = false;
        host->looked_up_ms = now_ms;
        if (failure == 0 || !had_addresses) {
            host->failure = failure;
        }
        host->answered = true;
        host->next_ms = now_ms + (failure == 0 ? REFRESH_MS : had_addresses ? RETRY_MS : FAILURE_KEPT_MS);
        if (!had_addresses && !resolver->stopping) {
            resolver->answered(resolver->owner);
        }
    }
    (void)pthread_mutex_unlock(&resolver->lock);
    drop_reference(resolver);
    return NULL;
}

int hr_resolver_new(hr_resolve_fn answered, void *owner, struct hr_resolver **ret)
{
    struct hr_resolver *resolver = calloc(1, sizeof(*resolver));
    if (!resolver) {
        return -ENOMEM;
    }
    resolver->answered = answered;
    resolver->owner = owner;
    resolver->references = 2;
    (void)pthread_mutex_init(&resolver->lock, NULL);
    pthread_condattr_t monotonic;
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&resolver->changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);

    pthread_attr_t detached;
    (void)pthread_attr_init(&detached);
    (void)pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_t thread;
    int r = hr_thread_start(&thread, &detached, resolver_main, resolver);
    (void)pthread_attr_destroy(&detached);
    if (r < 0) {
        resolver->references = 1;
        drop_reference(resolver);
        return r;
    }
    *ret = resolver;
    return 0;
}

void hr_resolver_free(struct hr_resolver *resolver)
{
    if (!resolver) {
        return;
    }
    (void)pthread_mutex_lock(&resolver->lock);
    resolver->stopping = true;
    (void)pthread_cond_signal(&resolver->changed);
    (void)pthread_mutex_unlock(&resolver->lock);
    drop_reference(resolver);
}

/* The host's slot; a new host takes a fresh one, or the one idle longest. NULL: all in use, or no memory. */
static struct host *host_slot(struct hr_resolver *resolver, const char *name)
{
    struct host *idle = NULL;
    for (unsigned i = 0; i < resolver->host_count; i++) {
        struct host *host = resolver->hosts[i];
        if (strcmp(host->name, name) == 0) {
            return host;
        }
        if (host->in_flight == 0 && !host->looking && (!idle || host->used_ms < idle->used_ms)) {
            idle = host;
        }
    }
    if (resolver->host_count < HOSTS_MAX) {
        idle = malloc(sizeof(*idle));
        if (!idle) {
            return NULL;
        }
        resolver->hosts[resolver->host_count++] = idle;
    }
    if (idle) {
        memset(idle, 0, sizeof(*idle));
        memcpy(idle->name, name, strlen(name));
    }
    return idle;
}

/* Healthy before avoided, then another than `other`, then the least in flight, then the first: few requests
 * at a time stay on one address and its open connections. Of the avoided the one whose time is up soonest. */
static struct hr_address *best_address(struct host *host, enum hr_pick pick, const struct hr_address *other,
                                       int64_t now_ms)
{
    struct hr_address *best = NULL;
    bool best_healthy = false;
    for (unsigned i = 0; i < ADDRESSES_MAX; i++) {
        struct hr_address *address = &host->addresses[i];
        bool healthy = address->avoid_until_ms <= now_ms;
        if (!address->current || (!healthy && (pick == HR_PICK_HEALTHY || best_healthy))) {
            continue;
        }
        bool better = !best || (healthy && !best_healthy);
        if (!better && healthy && (best == other || address == other)) {
            better = best == other;
        } else if (!better && healthy) {
            better = address->in_flight < best->in_flight;
        } else if (!better) {
            better = address->avoid_until_ms < best->avoid_until_ms;
        }
        if (better) {
            best = address;
            best_healthy = healthy;
        }
    }
    if (!best_healthy && now_ms - host->looked_up_ms >= FAILURE_KEPT_MS) {
        host->next_ms = now_ms; /* nothing healthy left: perhaps the name has moved */
    }
    return best;
}

int hr_resolve_pick(struct hr_resolver *resolver, const char *host_name, enum hr_pick pick,
                    const struct hr_address *other, struct hr_address **ret, const char **ret_why)
{
    if (strlen(host_name) >= HOST_NAME_MAX_BYTES || host_name[0] == '\0') {
        *ret_why = "not a host name";
        return -EHOSTUNREACH;
    }
    int r = 0;
    (void)pthread_mutex_lock(&resolver->lock);
    int64_t now_ms = hr_clock_ms();
    struct host *host = host_slot(resolver, host_name);
    if (!host) {
        r = -ENOMEM;
        goto out;
    }
    host->used_ms = now_ms;
    if (host->answered && host->failure != 0 && host->next_ms <= now_ms) {
        host->answered = false;
    }
    if (!host->answered) {
        (void)pthread_cond_signal(&resolver->changed);
        r = -EINPROGRESS;
        goto out;
    }
    struct hr_address *address = host->failure == 0 ? best_address(host, pick, other, now_ms) : NULL;
    if (!address) {
        *ret_why = host->failure != 0 ? gai_strerror(host->failure) : "no address that connects";
        r = -EHOSTUNREACH;
        goto out;
    }
    if (host->next_ms <= now_ms) {
        (void)pthread_cond_signal(&resolver->changed);
    }
    address->in_flight++;
    host->in_flight++;
    *ret = address;
out:
    (void)pthread_mutex_unlock(&resolver->lock);
    return r;
}

void hr_address_release(struct hr_resolver *resolver, struct hr_address *address,
                        enum hr_address_outcome outcome)
{
    (void)pthread_mutex_lock(&resolver->lock);
    address->in_flight--;
    address->host->in_flight--;
    if (outcome == HR_ADDRESS_CONNECTED) {
        address->failures = 0;
        address->avoid_until_ms = 0;
    } else if (outcome == HR_ADDRESS_NOT_CONNECTED) {
        int64_t avoid_ms = AVOID_FIRST_MS << (address->failures < 4 ? address->failures : 4);
        address->failures++;
        address->avoid_until_ms = hr_clock_ms() + (avoid_ms < AVOID_MAX_MS ? avoid_ms : AVOID_MAX_MS);
    }
    (void)pthread_mutex_unlock(&resolver->lock);
}
