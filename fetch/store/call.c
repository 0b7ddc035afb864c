/* The life of a call: prepare, sign, send, judge, and again until it has a result or its time is over. */
#include "fetch/store/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/base/clock.h"
#include "fetch/base/zeroed.h"

/* Where the caller sets none: 10,000 keys of 3 KiB encoded, twice over. */
#define BODY_MAX_BYTES (64 * 1024 * 1024)
#define LIKELY_MAX_BYTES (1ULL << 36) /* an expectation beyond 64 GiB is none */
#define FEW_MAX 4                     /* broken answers that are asked for again */
/* Ours: an object store answers in tens of milliseconds, a listing of some stores in seconds. */
#define GET_FIRST_BYTE_MS 10000
#define LIST_FIRST_BYTE_MS 30000
#define SLOWEST_BYTES_PER_MS 100 /* 100 KB/s: what a body may take beyond the call's time */

static void run_step(struct hr_call_run *run);

static void unlink_run(struct hr_call_run *run)
{
    struct hr_stores *stores = run->store->stores;

    if (run->prev != NULL) {
        run->prev->next = run->next;
    } else {
        stores->running = run->next;
    }
    if (run->next != NULL) {
        run->next->prev = run->prev;
    }
}

static void finish(struct hr_call_run *run, int error)
{
    struct hr_call *call = run->call;
    struct hr_store *store = run->store;
    struct hr_store_stats *stats = &store->stores->stats;

    unlink_run(run);
    hr_keeper_unwait(&run->keys);
    call->error = error;
    call->message[0] = '\0';
    call->retries = run->sent > 0 ? run->sent - 1 : 0;
    call->throttled = run->throttled;
    if (error != 0) {
        hr_call_describe(call, store, &run->judged, error, run->sent);
        stats->errors += error != -ECANCELED;
    } else if (call->kind == HR_CALL_GET) {
        stats->bytes_fetched += call->body.len;
    }
    call->impl = NULL;
    hr_loop_disarm(store->stores->loop, &run->timer);
    free(run->redirect);
    free(run);
    call->done(call);
    hr_store_unref(store);
}

static void on_timer(void *owner)
{
    struct hr_call_run *run = owner;

    if (run->ending != 0) {
        finish(run, run->ending);
    } else if (run->request != NULL) {
        hr_run_hedge(run);
    } else {
        run->next_try_ms = 0;
        run_step(run);
    }
}

static void end_soon(struct hr_call_run *run, int error)
{
    run->ending = error;
    (void)hr_loop_arm(run->store->stores->loop, &run->timer, 0);
}

static void on_answer(struct hr_http_request *request);

static void on_begun(struct hr_http_request *request)
{
    struct hr_call_run *run = request->owner;
    struct hr_call_begun begun;

    if (!run->cancelled && run->call->begun != NULL && hr_judge_begun(run->call, request, &begun)) {
        run->call->begun(run->call, &begun);
    }
}

static uint64_t likely_bytes(const struct hr_call *call)
{
    uint64_t likely = call->expected_bytes != UINT64_MAX ? call->expected_bytes : call->range_bytes;

    return likely < LIKELY_MAX_BYTES ? likely : 0;
}

static size_t body_limit(const struct hr_call *call)
{
    if (call->body_max_bytes > 0) {
        return call->body_max_bytes;
    }
    return call->kind == HR_CALL_GET && likely_bytes(call) > 0 ? likely_bytes(call) : BODY_MAX_BYTES;
}

static void set_limits(const struct hr_call_run *run, struct hr_http_request *request)
{
    const struct hr_call *call = run->call;
    int64_t left_ms = run->deadline_ms - hr_clock_ms();
    unsigned most_ms = call->kind == HR_CALL_LIST ? LIST_FIRST_BYTE_MS : GET_FIRST_BYTE_MS;
    uint64_t likely = call->kind == HR_CALL_GET ? likely_bytes(call) : 0;

    left_ms = left_ms > 1000 ? left_ms : 1000;
    request->first_byte_ms = left_ms < most_ms ? (unsigned)left_ms : most_ms;
    request->total_ms = (unsigned)left_ms + (unsigned)(likely / SLOWEST_BYTES_PER_MS);
    request->body_max_bytes = body_limit(call);
    request->body_hint_bytes = likely <= request->body_max_bytes ? (size_t)likely : 0;
}

int hr_run_submit(struct hr_call_run *run, const struct hr_http_request *rival, struct hr_http_request **ret)
{
    struct hr_store *store = run->store;
    struct hr_stores *stores = store->stores;
    struct hr_http_request *request = NULL;
    int r;

    r = hr_s3_request_new(store, run->call, run->redirect, &request);
    if (r < 0) {
        return r;
    }
    set_limits(run, request);
    request->done = on_answer;
    request->begun = run->call->begun != NULL ? on_begun : NULL;
    request->owner = run;
    if (rival != NULL) {
        hr_http_request_avoid(request, rival);
    }
    r = hr_http_submit(stores->http, request);
    if (r < 0) {
        hr_http_request_free(request);
        return r;
    }
    if (run->call->kind == HR_CALL_LIST) {
        stores->stats.requests_list++;
    } else if (run->call->kind == HR_CALL_HEAD) {
        stores->stats.requests_head++;
    } else {
        stores->stats.requests_get++;
        hr_width_started(&store->state->width, hr_clock_us());
    }
    stores->stats.in_flight++;
    if (stores->stats.in_flight > stores->stats.in_flight_max) {
        stores->stats.in_flight_max = stores->stats.in_flight;
    }
    *ret = request;
    return 0;
}

static int send_request(struct hr_call_run *run)
{
    struct hr_store *store = run->store;
    int r = hr_run_submit(run, NULL, &run->request);

    if (r < 0) {
        return r;
    }
    run->generation = hr_store_generation(store);
    run->skew_ms = store->skew_ms;
    memcpy(run->region, store->region, sizeof(run->region));
    run->sent_us = hr_clock_us();
    store->stores->stats.retries += run->sent > 0;
    run->sent++;
    hr_run_watch(run);
    return 0;
}

/* Credentials are here, or are not to be had. */
static void on_keys(void *owner)
{
    struct hr_call_run *run = owner;
    struct hr_keeper *keeper = run->store->keeper;
    const char *why = "";
    int failure = hr_keeper_failure(keeper, &why);

    if (failure != 0 && !hr_keeper_ready(keeper)) {
        run->judged.verdict = (struct hr_verdict){HR_ACTION_FAIL, failure, ""};
        (void)snprintf(run->judged.text, sizeof(run->judged.text), "%s", why);
        finish(run, failure);
    } else {
        run_step(run);
    }
}

static int send_or_wait(struct hr_call_run *run)
{
    struct hr_keeper *keeper = run->store->keeper;

    if (keeper == NULL || hr_keeper_ready(keeper)) {
        return send_request(run);
    }
    run->keys.fn = on_keys;
    run->keys.owner = run;
    return hr_keeper_wait(keeper, &run->keys);
}

/* The next request of a call that runs: what keeps it from leaving ends the call. */
static void run_step(struct hr_call_run *run)
{
    int r = send_or_wait(run);

    if (r < 0) {
        if (run->judged.text[0] == '\0') {
            (void)snprintf(run->judged.text, sizeof(run->judged.text), "the request cannot be sent: %s",
                           strerror(-r));
        }
        finish(run, r == -ENOMEM || r == -ECANCELED ? r : -EIO);
    }
}

/* -1: no time is left for another try. */
static int64_t draw_wait_ms(const struct hr_call_run *run, unsigned attempt)
{
    struct hr_retry_wait wait = {
        .attempt = attempt,
        .slow = run->slow_try,
        .retry_after_ms = run->judged.retry_after_ms,
        .left_ms = run->deadline_ms - hr_clock_ms(),
        .random_unit = hr_random_unit(),
        .awaited = run->call->awaited,
    };

    return hr_retry_wait_ms(&wait);
}

static void wait_and_retry(struct hr_call_run *run)
{
    bool throttled = run->judged.verdict.action == HR_ACTION_THROTTLED;
    bool within = hr_retry_take(&run->store->state->budget, throttled, &run->taken);

    run->slow_try = throttled || !within;
    int64_t ms = draw_wait_ms(run, run->waits);

    /* The address that a redirect led to is asked once; the way starts at the store again. */
    free(run->redirect);
    run->redirect = NULL;
    run->redirects = 0;
    if (ms < 0 || hr_loop_arm(run->store->stores->loop, &run->timer, ms) < 0) {
        finish(run, run->judged.verdict.error);
        return;
    }
    run->next_try_ms = hr_clock_ms() + ms;
    hr_run_tell(run);
    run->waits++;
}

void hr_call_hurry(struct hr_call *call)
{
    struct hr_call_run *run = call->impl;
    bool was_awaited = call->awaited;

    call->awaited = true;
    if (run == NULL || was_awaited || run->next_try_ms == 0 || run->cancelled) {
        return;
    }
    int64_t ms = draw_wait_ms(run, run->waits - 1); /* the same wait, drawn again */

    if (ms >= 0 && hr_clock_ms() + ms < run->next_try_ms &&
        hr_loop_arm(run->store->stores->loop, &run->timer, ms) == 0) {
        run->next_try_ms = hr_clock_ms() + ms;
    }
}

static void decide(struct hr_call_run *run, const struct hr_http_request *request)
{
    struct hr_store *store = run->store;
    enum hr_action action = run->judged.verdict.action;

    if (action == HR_ACTION_NONE) {
        store->proven = store->proven || run->generation == hr_store_generation(store);
        hr_retry_success(&store->state->budget, run->taken);
        finish(run, 0);
    } else if (action == HR_ACTION_RETRY || action == HR_ACTION_THROTTLED ||
               (action == HR_ACTION_FEW && run->few++ < FEW_MAX)) {
        store->stores->stats.throttled += action == HR_ACTION_THROTTLED;
        run->throttled += action == HR_ACTION_THROTTLED;
        wait_and_retry(run);
    } else if (hr_run_mend(run, request)) {
        run_step(run);
    } else {
        finish(run, run->judged.verdict.error);
    }
}

/* What its endpoint's width and hedges learn from an answer, or from none in time. Listings take as long as
 * the store likes, so they count for nothing but the very first width. */
static void learn_pace(struct hr_call_run *run, const struct hr_http_request *request, bool was_hedge)
{
    struct hr_endpoint_state *state = run->store->state;
    bool good = run->judged.verdict.action == HR_ACTION_NONE;
    int64_t now_us = hr_clock_us();

    if (run->judged.verdict.action == HR_ACTION_THROTTLED) {
        hr_width_throttled(&state->width, run->sent_us, now_us);
    } else if (run->call->kind == HR_CALL_LIST && good) {
        hr_width_listed(&state->width, request->answer_us);
    } else if (run->call->kind == HR_CALL_GET && (good || request->error == -ETIMEDOUT)) {
        uint64_t waited_us = good ? request->answer_us : request->total_us;
        hr_width_answered(&state->width, run->sent_us, waited_us, now_us);
    }
    if (run->call->kind == HR_CALL_GET && good) {
        /* Where the hedge won, the first one would have taken longer still. */
        hr_hedging_answered(&state->hedging, run->call->body.len,
                            was_hedge ? (uint64_t)(now_us - run->sent_us) : request->first_byte_us);
    }
}

static bool is_passing(enum hr_action action)
{
    return action == HR_ACTION_RETRY || action == HR_ACTION_THROTTLED || action == HR_ACTION_FEW;
}

static void on_answer(struct hr_http_request *request)
{
    struct hr_call_run *run = request->owner;
    struct hr_store *store = run->store;
    bool was_hedge = hr_run_take_back(run, request);

    if (run->cancelled || request->error == -ECANCELED) {
        if (run->request == NULL) { /* else the other one ends the call */
            finish(run, -ECANCELED);
        }
        hr_http_request_free(request);
        return;
    }
    hr_loop_disarm(store->stores->loop, &run->timer);
    if (request->error == 0) {
        hr_store_learn_server(store, hr_http_answer(request, "server"));
    }
    hr_judge(run->call, request, store->quirk, &run->judged);
    learn_pace(run, request, was_hedge);
    if (run->request != NULL && is_passing(run->judged.verdict.action)) {
        store->stores->stats.throttled += run->judged.verdict.action == HR_ACTION_THROTTLED;
        hr_http_request_free(request);
        return; /* the other one may still bring it */
    }
    if (run->request != NULL) {
        hr_run_drop_rival(run, was_hedge && run->judged.verdict.action == HR_ACTION_NONE);
    }
    decide(run, request);
    hr_http_request_free(request);
}

/* A call under way must not show what an earlier one left. */
static void clear_results(struct hr_call *call)
{
    call->error = 0;
    call->message[0] = '\0';
    call->object_bytes = 0;
    call->crc_kind = HR_CRC_NONE;
    call->md5_is_etag = false;
    call->denied = call->refused_alone = false;
    call->etag[0] = '\0';
}

int hr_call_start(struct hr_call *call)
{
    struct hr_store *store = call->store;
    struct hr_stores *stores = store->stores;
    struct hr_call_run *run;
    int r = 0;

    if (call->impl != NULL) {
        return -EBUSY;
    }
    if (stores->http == NULL) {
        return -ECANCELED;
    }
    run = hr_zeroed(sizeof(*run));
    if (run == NULL) {
        return -ENOMEM;
    }
    clear_results(call);
    run->call = call;
    run->store = store;
    run->timer = (struct hr_timer)HR_TIMER_INIT(on_timer, run);
    run->deadline_ms = hr_clock_ms() + stores->timeout_ms;
    if (store->refused_until_ms > hr_clock_ms()) {
        run->judged.verdict = (struct hr_verdict){HR_ACTION_FAIL, -EACCES, "not asked again yet"};
        memcpy(run->judged.text, store->refused_text, sizeof(run->judged.text));
        run->ending = -EACCES;
        r = hr_loop_arm(stores->loop, &run->timer, 0);
    } else {
        r = send_or_wait(run);
    }
    if (r < 0) {
        free(run);
        return r;
    }
    hr_store_ref(store);
    run->next = stores->running;
    if (run->next != NULL) {
        run->next->prev = run;
    }
    stores->running = run;
    call->impl = run;
    return 0;
}

void hr_call_cancel(struct hr_call *call)
{
    struct hr_call_run *run = call->impl;

    if (run == NULL || run->cancelled) {
        return;
    }
    run->cancelled = true;
    if (run->request != NULL) {
        hr_http_cancel(run->store->stores->http, run->request);
        if (run->hedge != NULL) {
            hr_http_cancel(run->store->stores->http, run->hedge);
        }
    } else {
        hr_keeper_unwait(&run->keys); /* which may come before that: then nothing is sent any more */
        end_soon(run, -ECANCELED);
    }
}

void hr_calls_abort(struct hr_stores *stores)
{
    while (stores->running != NULL) {
        struct hr_call_run *run = stores->running;

        hr_loop_disarm(stores->loop, &run->timer);
        finish(run, -ECANCELED);
    }
}
