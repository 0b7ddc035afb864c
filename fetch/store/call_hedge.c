/* The second request of a call that waits for its first byte too long. */
#include "fetch/store/run.h"

#include "fetch/base/clock.h"

#define LOOK_AGAIN_PART 4 /* of the delay: when there was no room or budget for a hedge */
#define LOOK_AGAIN_MIN_MS 10
#define LAG_MS 10 /* so late is our own loop: answers wait for it, too */

static uint64_t bytes_of(const struct hr_call *call)
{
    return call->expected_bytes != UINT64_MAX ? call->expected_bytes : call->range_bytes;
}

/* Without memory for the timer: no hedge. */
static void look_after(struct hr_call_run *run, int64_t delay_ms)
{
    run->hedge_due_us = hr_clock_us() + delay_ms * 1000;
    (void)hr_loop_arm(run->store->stores->loop, &run->timer, delay_ms);
}

void hr_run_watch(struct hr_call_run *run)
{
    struct hr_hedging *hedging = &run->store->state->hedging;
    int64_t delay_ms = hr_hedging_delay_ms(hedging, bytes_of(run->call));

    if (run->call->kind != HR_CALL_GET || !run->store->stores->hedges) {
        return;
    }
    hr_hedging_asked(hedging);
    if (delay_ms >= 0) {
        look_after(run, delay_ms);
    }
}

void hr_run_hedge(struct hr_call_run *run)
{
    struct hr_endpoint_state *state = run->store->state;
    struct hr_stores *stores = run->store->stores;
    int64_t now_us = hr_clock_us();

    if (run->hedge != NULL || run->cancelled || hr_http_answering(run->request) ||
        hr_width_troubled(&state->width, now_us)) {
        return;
    }
    bool lags = now_us - run->hedge_due_us > LAG_MS * 1000;
    if (lags || !hr_width_room(&state->width, true) || !hr_hedging_take(&state->hedging)) {
        int64_t again_ms = hr_hedging_delay_ms(&state->hedging, bytes_of(run->call)) / LOOK_AGAIN_PART;
        look_after(run, again_ms > LOOK_AGAIN_MIN_MS ? again_ms : LOOK_AGAIN_MIN_MS);
        return;
    }
    if (hr_run_submit(run, run->request, &run->hedge) == 0) {
        state->hedging.sent++;
        stores->stats.hedges++;
    }
}

bool hr_run_take_back(struct hr_call_run *run, const struct hr_http_request *request)
{
    bool was_hedge = request == run->hedge;

    run->store->stores->stats.in_flight--;
    if (run->call->kind == HR_CALL_GET) {
        hr_width_ended(&run->store->state->width, hr_clock_us());
    }
    if (!was_hedge) {
        run->request = run->hedge;
    }
    run->hedge = NULL;
    return was_hedge;
}

void hr_stores_on_room(struct hr_stores *stores, void (*fn)(void *owner), void *owner)
{
    stores->room = fn;
    stores->room_owner = owner;
}

static void rival_back(struct hr_http_request *request)
{
    struct hr_store *store = request->owner;

    store->stores->stats.in_flight--;
    hr_width_ended(&store->state->width, hr_clock_us());
    hr_http_request_free(request);
    if (store->stores->room) {
        store->stores->room(store->stores->room_owner);
    }
    hr_store_unref(store);
}

void hr_run_drop_rival(struct hr_call_run *run, bool hedge_won)
{
    struct hr_store *store = run->store;

    run->request->done = rival_back;
    run->request->begun = NULL;
    run->request->owner = store;
    hr_store_ref(store);
    hr_http_cancel(store->stores->http, run->request);
    run->request = NULL;
    store->state->hedging.won += hedge_won;
    store->stores->stats.hedges_won += hedge_won;
}
