#include "fetch/auth/keeper.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/auth/ask.h"
#include "fetch/base/clock.h"

#define RENEW_EARLY_MS (15 * 60 * 1000)      /* botocore's */
#define MUST_EARLY_MS 60000                  /* the last minute: nothing that would end on its way is sent */
#define LIFE_MAX_MS (7LL * 24 * 3600 * 1000) /* ours: whatever a service says */
#define FAILED_MS 10000                      /* a failure is not tried again for so long */
#define RETRY_MS 30000                       /* a renewal that failed while the old set still holds */
#define NOTHING_MS 60000 /* after "there are none": the service may have been out of reach, or get a role */
#define REFUSED_MS 10000 /* refused right after they were given: others would not be better */

struct hr_keepers {
    unsigned refs; /* the owner's, and one of each keeper */
    struct hr_loop *loop;
    struct hr_http *http; /* NULL: no more asking */
    struct hr_keeper *list;
};

struct hr_keeper {
    unsigned refs;
    struct hr_keepers *keepers;
    struct hr_keeper *next;
    struct hr_chain *chain;
    struct hr_ask *ask; /* under way */
    struct hr_keeper_wait *waits;
    struct hr_timer renew;
    struct hr_timer wake; /* of those who came while a failure is remembered */
    struct hr_credentials held;
    bool have; /* held was given, be it anonymous */
    bool used; /* since it was given */
    bool due;  /* the time to renew has come, and nobody used it */
    unsigned generation;
    int64_t given_ms, must_ms, ends_ms; /* monotonic; ends_ms 0: never */
    int failure;
    char message[256];
    int64_t failed_until_ms;
};

static void on_renew(void *owner);
static void on_wake(void *owner);
static void begin(struct hr_keeper *keeper);

int hr_keepers_new(struct hr_loop *loop, struct hr_http *http, struct hr_keepers **ret)
{
    struct hr_keepers *keepers = calloc(1, sizeof(*keepers));

    if (keepers == NULL) {
        return -ENOMEM;
    }
    keepers->refs = 1;
    keepers->loop = loop;
    keepers->http = http;
    *ret = keepers;
    return 0;
}

static void keepers_unref(struct hr_keepers *keepers)
{
    if (--keepers->refs == 0) {
        free(keepers);
    }
}

static void drop(struct hr_keeper *keeper)
{
    struct hr_keepers *keepers = keeper->keepers;
    struct hr_keeper **link = &keepers->list;

    while (*link != NULL && *link != keeper) {
        link = &(*link)->next;
    }
    if (*link == keeper) {
        *link = keeper->next;
    }
    if (keepers->http != NULL) {
        hr_loop_disarm(keepers->loop, &keeper->renew);
        hr_loop_disarm(keepers->loop, &keeper->wake);
    }
    hr_credentials_release(&keeper->held);
    hr_chain_free(keeper->chain);
    free(keeper);
    keepers_unref(keepers);
}

void hr_keepers_free(struct hr_keepers *keepers)
{
    if (keepers == NULL) {
        return;
    }
    for (struct hr_keeper *keeper = keepers->list, *next; keeper != NULL; keeper = next) {
        next = keeper->next;
        hr_loop_disarm(keepers->loop, &keeper->renew);
        hr_loop_disarm(keepers->loop, &keeper->wake);
        hr_ask_free(keeper->ask);
        keeper->ask = NULL;
        if (keeper->refs == 0) {
            drop(keeper);
        }
    }
    keepers->http = NULL;
    keepers_unref(keepers);
}

int hr_keeper_get(struct hr_keepers *keepers, struct hr_chain *chain, struct hr_keeper **ret)
{
    struct hr_keeper *keeper;

    for (keeper = keepers->list; keeper != NULL; keeper = keeper->next) {
        if (keeper->refs > 0 && hr_chain_same(keeper->chain, chain)) {
            keeper->refs++;
            *ret = keeper;
            return 0;
        }
    }
    keeper = calloc(1, sizeof(*keeper));
    if (keeper == NULL) {
        return -ENOMEM;
    }
    hr_chain_ref(chain);
    keeper->chain = chain;
    keeper->refs = 1;
    keeper->renew = (struct hr_timer)HR_TIMER_INIT(on_renew, keeper);
    keeper->wake = (struct hr_timer)HR_TIMER_INIT(on_wake, keeper);
    keeper->keepers = keepers;
    keepers->refs++;
    keeper->next = keepers->list;
    keepers->list = keeper;
    *ret = keeper;
    return 0;
}

void hr_keeper_unref(struct hr_keeper *keeper)
{
    if (keeper == NULL || --keeper->refs > 0) {
        return;
    }
    if (keeper->ask != NULL) {
        hr_ask_cancel(keeper->ask); /* on_done drops the keeper */
    } else {
        drop(keeper);
    }
}

static bool is_held(const struct hr_keeper *keeper, int64_t now_ms)
{
    return keeper->have && (keeper->ends_ms == 0 || now_ms < keeper->must_ms);
}

bool hr_keeper_ready(struct hr_keeper *keeper)
{
    int64_t now_ms = hr_clock_ms();

    if (is_held(keeper, now_ms)) {
        return true;
    }
    /* What cannot be renewed is used to its end. */
    return keeper->have && keeper->failure != 0 && now_ms < keeper->ends_ms &&
           now_ms < keeper->failed_until_ms;
}

const struct hr_credentials *hr_keeper_credentials(struct hr_keeper *keeper)
{
    keeper->used = true;
    if (keeper->due && keeper->keepers->http != NULL) {
        begin(keeper);
    }
    return &keeper->held;
}

unsigned hr_keeper_generation(const struct hr_keeper *keeper)
{
    return keeper->generation;
}

int hr_keeper_failure(const struct hr_keeper *keeper, const char **ret_message)
{
    *ret_message = keeper->message;
    return keeper->failure;
}

void hr_keeper_unwait(struct hr_keeper_wait *wait)
{
    struct hr_keeper *keeper = wait->keeper;

    if (keeper == NULL) {
        return;
    }
    if (wait->prev != NULL) {
        wait->prev->next = wait->next;
    } else {
        keeper->waits = wait->next;
    }
    if (wait->next != NULL) {
        wait->next->prev = wait->prev;
    }
    wait->keeper = NULL;
    hr_keeper_unref(keeper);
}

/* Those who wait now; who comes back during this waits for the next time. */
static void wake_all(struct hr_keeper *keeper)
{
    struct hr_keeper_wait *first = keeper->waits;
    unsigned count = 0;

    for (struct hr_keeper_wait *wait = first; wait != NULL; wait = wait->next) {
        count++;
    }
    keeper->refs++; /* a waiter may let go of the last one */
    for (; count > 0 && keeper->waits != NULL; count--) {
        struct hr_keeper_wait *last = keeper->waits;

        /* New ones come in front. */
        while (last->next != NULL) {
            last = last->next;
        }
        hr_keeper_unwait(last);
        last->fn(last->owner);
    }
    hr_keeper_unref(keeper);
}

/* To renew, unless nobody uses what is held by then. */
static void renew_in(struct hr_keeper *keeper, int64_t about_ms)
{
    int64_t wait_ms = (int64_t)((double)about_ms * (0.75 + 0.5 * hr_random_unit()));

    (void)hr_loop_arm(keeper->keepers->loop, &keeper->renew, wait_ms);
}

static void take(struct hr_keeper *keeper, struct hr_ask *ask)
{
    int64_t now_ms = hr_clock_ms();
    int64_t life_ms = ask->life_ms < LIFE_MAX_MS ? ask->life_ms : LIFE_MAX_MS;
    bool other = !keeper->have || !hr_credentials_equal(&keeper->held, &ask->credentials);

    hr_credentials_release(&keeper->held);
    keeper->held = ask->credentials;
    ask->credentials = (struct hr_credentials){0};
    keeper->have = true;
    keeper->used = keeper->due = false;
    keeper->generation += other;
    keeper->given_ms = now_ms;
    keeper->failure = 0;
    keeper->ends_ms = life_ms > 0 ? now_ms + life_ms : 0;
    if (life_ms > 0) {
        int64_t early_ms = life_ms / 4 < RENEW_EARLY_MS ? life_ms / 4 : RENEW_EARLY_MS;
        int64_t last_ms = life_ms / 10 < MUST_EARLY_MS ? life_ms / 10 : MUST_EARLY_MS;
        early_ms = (int64_t)((double)early_ms * (0.75 + 0.5 * hr_random_unit()));
        keeper->must_ms = keeper->ends_ms - last_ms;
        (void)hr_loop_arm(keeper->keepers->loop, &keeper->renew, life_ms - early_ms);
    } else if (keeper->held.access_key_id == NULL) {
        renew_in(keeper, NOTHING_MS);
    }
}

static void note_failure(struct hr_keeper *keeper, int error, const char *message)
{
    keeper->failure = error;
    keeper->failed_until_ms = hr_clock_ms() + FAILED_MS;
    (void)snprintf(keeper->message, sizeof(keeper->message), "%s", message);
    if (is_held(keeper, hr_clock_ms())) {
        renew_in(keeper, RETRY_MS);
    }
}

static void on_done(struct hr_ask *ask)
{
    struct hr_keeper *keeper = ask->owner;

    keeper->ask = NULL;
    if (keeper->refs == 0) {
        hr_ask_free(ask);
        drop(keeper);
        return;
    }
    if (ask->error == 0 && ask->credentials.access_key_id == NULL && keeper->held.access_key_id != NULL) {
        note_failure(keeper, -EIO, "where the credentials came from there are none any more");
    } else if (ask->error == 0) {
        take(keeper, ask);
    } else {
        note_failure(keeper, ask->error, ask->message);
    }
    hr_ask_free(ask);
    wake_all(keeper);
}

/* The way is looked at anew: tokens in files are replaced, keys that sign are rotated. */
static void begin(struct hr_keeper *keeper)
{
    struct hr_keepers *keepers = keeper->keepers;
    char message[256];
    int r;

    if (keeper->ask != NULL) {
        return;
    }
    keeper->due = false;
    r = hr_chain_reload(keeper->chain, message);
    if (r >= 0) {
        keeper->ask = hr_ask_new(keepers->loop, keepers->http, hr_chain_way(keeper->chain), on_done, keeper);
        r = keeper->ask != NULL ? hr_ask_start(keeper->ask) : -ENOMEM;
        (void)snprintf(message, sizeof(message), "out of memory");
    }
    if (r < 0) {
        hr_ask_free(keeper->ask);
        keeper->ask = NULL;
        note_failure(keeper, r == -ENOMEM ? r : -EACCES, message);
        (void)hr_loop_arm(keepers->loop, &keeper->wake, 0);
    }
}

static void on_renew(void *owner)
{
    struct hr_keeper *keeper = owner;

    if (keeper->used) {
        begin(keeper);
    } else {
        keeper->due = true;
    }
}

static void on_wake(void *owner)
{
    struct hr_keeper *keeper = owner;

    if (keeper->ask == NULL) {
        wake_all(keeper);
    }
}

int hr_keeper_wait(struct hr_keeper *keeper, struct hr_keeper_wait *wait)
{
    struct hr_keepers *keepers = keeper->keepers;
    bool failed_just_now = keeper->failure != 0 && hr_clock_ms() < keeper->failed_until_ms;
    bool known = keeper->ask == NULL && (failed_just_now || hr_keeper_ready(keeper));

    if (keepers->http == NULL) {
        return -ECANCELED;
    }
    if (known && hr_loop_arm(keepers->loop, &keeper->wake, 0) < 0) {
        return -ENOMEM;
    }
    wait->keeper = keeper;
    keeper->refs++;
    wait->prev = NULL;
    wait->next = keeper->waits;
    if (wait->next != NULL) {
        wait->next->prev = wait;
    }
    keeper->waits = wait;
    if (!known && keeper->ask == NULL) {
        begin(keeper);
    }
    return 0;
}

bool hr_keeper_refused(struct hr_keeper *keeper)
{
    int64_t now_ms = hr_clock_ms(), spacing_ms = REFUSED_MS;

    if (keeper->ask != NULL) {
        return true;
    }
    if (keeper->ends_ms != 0 && (keeper->ends_ms - keeper->given_ms) / 4 < spacing_ms) {
        spacing_ms = (keeper->ends_ms - keeper->given_ms) / 4;
    }
    if (now_ms - keeper->given_ms < spacing_ms || now_ms < keeper->failed_until_ms) {
        return false;
    }
    keeper->have = false;
    return true;
}
