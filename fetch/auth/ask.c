#include "fetch/auth/ask.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/auth/process.h"
#include "fetch/auth/source.h"
#include "fetch/base/clock.h"
#include "fetch/base/text.h"

/* The largest document, with four tokens of 4 KiB, is far below. */
#define ANSWER_MAX_BYTES ((size_t)64 * 1024)
/* Some services go on giving out what has expired while theirs is down, and stores take it then; or our clock
 * is wrong. They are used, and asked for anew after a while; not for every request. */
#define EXPIRED_LIFE_MS 60000
#define SHORTEST_LIFE_MS 100
#define AGAIN_MS 200 /* to three times that, at random */

static void drop_request(struct hr_ask *ask)
{
    if (ask->request != NULL) {
        if (ask->request->body.data != NULL) {
            hr_secret_zero(ask->request->body.data, ask->request->body.len);
        }
        hr_http_request_free(ask->request);
        ask->request = NULL;
    }
}

static void begin(void *owner)
{
    struct hr_ask *ask = owner;

    if (ask->cancelled) {
        hr_ask_fail(ask, -ECANCELED, "canceled");
    } else {
        ask->way->source->ask(ask);
    }
}

struct hr_ask *hr_ask_new(struct hr_loop *loop, struct hr_http *http, const struct hr_way *way,
                          hr_ask_fn done, void *owner)
{
    struct hr_ask *ask = calloc(1, sizeof(*ask));

    if (ask != NULL) {
        ask->loop = loop;
        ask->http = http;
        ask->way = way;
        ask->done = done;
        ask->owner = owner;
        ask->timer = (struct hr_timer)HR_TIMER_INIT(begin, ask);
    }
    return ask;
}

int hr_ask_start(struct hr_ask *ask)
{
    return hr_loop_arm(ask->loop, &ask->timer, 0);
}

void hr_ask_cancel(struct hr_ask *ask)
{
    if (ask->cancelled || ask->ended) {
        return;
    }
    ask->cancelled = true;
    if (ask->base != NULL && !ask->base->ended) {
        hr_ask_cancel(ask->base);
    } else if (ask->in_flight) {
        hr_http_cancel(ask->http, ask->request);
    } else {
        hr_process_free(ask->process);
        ask->process = NULL;
        ask->timer.fn = begin;
        (void)hr_loop_arm(ask->loop, &ask->timer, 0);
    }
}

void hr_ask_free(struct hr_ask *ask)
{
    if (ask == NULL) {
        return;
    }
    hr_loop_disarm(ask->loop, &ask->timer);
    hr_ask_free(ask->base);
    hr_process_free(ask->process);
    drop_request(ask);
    hr_secret_free(ask->token);
    hr_credentials_release(&ask->credentials);
    free(ask);
}

static void end(struct hr_ask *ask)
{
    ask->ended = true;
    drop_request(ask);
    ask->done(ask);
}

void hr_ask_fail(struct hr_ask *ask, int error, const char *format, ...)
{
    va_list args;

    ask->error = ask->cancelled ? -ECANCELED : error;
    va_start(args, format);
    (void)vsnprintf(ask->message, sizeof(ask->message), format, args);
    va_end(args);
    /* Parts of it come from outside: one line, no control bytes. */
    for (unsigned char *p = (unsigned char *)ask->message; *p != '\0'; p++) {
        *p = *p < ' ' || *p == 0x7f ? ' ' : *p;
    }
    end(ask);
}

/* Wall clock of who answered: the lifetime is what both agree on, even where our clock is wrong. */
static int64_t server_now_ms(const struct hr_ask *ask)
{
    const char *date = ask->request != NULL ? hr_http_answer(ask->request, "date") : NULL;
    int64_t ns;

    if (date == NULL || hr_date_http(date, strlen(date), &ns) < 0) {
        ns = hr_clock_wall_ns();
    }
    return ns / 1000000;
}

void hr_ask_give(struct hr_ask *ask, struct hr_credentials *found)
{
    const char *what = "";

    if (ask->cancelled) {
        hr_credentials_release(found);
        hr_ask_fail(ask, -ECANCELED, "canceled");
        return;
    }
    if (hr_credentials_check(found, &what) < 0) {
        hr_credentials_release(found);
        hr_ask_fail(ask, -EIO, "the %s from the %s has a byte that keys cannot have", what,
                    ask->way->source->name);
        return;
    }
    ask->credentials = *found;
    *found = (struct hr_credentials){0};
    ask->credentials.source = ask->way->source->name;
    if (ask->credentials.expires_ms != 0) {
        ask->life_ms = ask->credentials.expires_ms - server_now_ms(ask);
        ask->life_ms = ask->life_ms > SHORTEST_LIFE_MS ? ask->life_ms : EXPIRED_LIFE_MS;
    }
    end(ask);
}

int hr_ask_request(struct hr_ask *ask, enum hr_http_method method, const char *url)
{
    const char *ca_bundle = ask->way->text[HR_WAY_CA_BUNDLE];

    drop_request(ask);
    ask->request = hr_http_request_new();
    if (ask->request != NULL) {
        ask->request->method = method;
        ask->request->url = strdup(url);
        ask->request->ca_bundle = ca_bundle != NULL ? strdup(ca_bundle) : NULL;
        ask->request->body_max_bytes = ANSWER_MAX_BYTES;
    }
    if (ask->request == NULL || ask->request->url == NULL ||
        (ca_bundle != NULL && ask->request->ca_bundle == NULL)) {
        hr_ask_fail(ask, -ENOMEM, "out of memory");
        return -ENOMEM;
    }
    return 0;
}

int hr_ask_header(struct hr_ask *ask, const char *name, const char *value)
{
    int r = hr_http_request_header(ask->request, name, value);

    if (r < 0) {
        hr_ask_fail(ask, r == -ENOMEM ? r : -EIO, "%s: cannot be sent", name);
    }
    return r;
}

static void submit(void *owner)
{
    struct hr_ask *ask = owner;
    int r;

    if (ask->cancelled) {
        hr_ask_fail(ask, -ECANCELED, "canceled");
        return;
    }
    r = hr_http_submit(ask->http, ask->request);
    if (r < 0) {
        hr_ask_fail(ask, r == -ECANCELED ? r : -EIO, "%.120s: cannot be asked", ask->request->url);
        return;
    }
    ask->in_flight = true;
}

bool hr_ask_again(struct hr_ask *ask)
{
    if (ask->tries <= 1) {
        return false;
    }
    ask->tries--;
    ask->timer.fn = submit;
    int64_t wait_ms = AGAIN_MS + (int64_t)(hr_random_unit() * 2 * AGAIN_MS);
    return hr_loop_arm(ask->loop, &ask->timer, wait_ms) == 0;
}

static void on_answer(struct hr_http_request *request)
{
    struct hr_ask *ask = request->owner;
    bool later = request->error == -ETIMEDOUT || request->error == -ECONNRESET ||
                 request->error == -ECONNREFUSED || request->error == -EHOSTUNREACH ||
                 (request->error == 0 && (request->status == 429 || request->status >= 500));

    ask->in_flight = false;
    if (ask->cancelled || request->error == -ECANCELED) {
        ask->cancelled = true;
        hr_ask_fail(ask, -ECANCELED, "canceled");
    } else if (!later || !hr_ask_again(ask)) {
        ask->step(ask);
    }
}

void hr_ask_send(struct hr_ask *ask, unsigned tries, unsigned total_ms, hr_ask_fn step)
{
    ask->tries = tries;
    ask->step = step;
    ask->request->first_byte_ms = total_ms;
    ask->request->total_ms = total_ms;
    ask->request->done = on_answer;
    ask->request->owner = ask;
    submit(ask);
}

void hr_ask_say_answer(const struct hr_ask *ask, char ret[128])
{
    if (ask->request->error != 0) {
        (void)snprintf(ret, 128, "%.127s", ask->request->error_text);
    } else {
        (void)snprintf(ret, 128, "status %u", ask->request->status);
    }
}
