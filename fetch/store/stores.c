/* The family of stores: what they share, and how it ends. */
#include "fetch/store/internal.h"

#include <errno.h>
#include <stdlib.h>

int hr_stores_new(const struct hr_stores_options *options, struct hr_stores **ret)
{
    struct hr_stores *stores = calloc(1, sizeof(*stores));

    if (stores == NULL) {
        return -ENOMEM;
    }
    stores->refs = 1;
    stores->loop = options->loop;
    stores->http = options->http;
    stores->timeout_ms = options->timeout_ms;
    if (hr_keepers_new(options->loop, options->http, &stores->keepers) < 0) {
        free(stores);
        return -ENOMEM;
    }
    stores->connections = options->connections;
    stores->hedges = options->hedges;
    *ret = stores;
    return 0;
}

void hr_stores_unref(struct hr_stores *stores)
{
    if (--stores->refs == 0) {
        free(stores);
    }
}

void hr_stores_free(struct hr_stores *stores)
{
    if (stores == NULL) {
        return;
    }
    stores->http = NULL;
    hr_calls_abort(stores);
    hr_keepers_free(stores->keepers);
    stores->keepers = NULL;
    hr_stores_unref(stores);
}

void hr_stores_stats(const struct hr_stores *stores, struct hr_store_stats *ret)
{
    *ret = stores->stats;
}

bool hr_stores_endpoint(const struct hr_stores *stores, unsigned n, struct hr_endpoint_stats *ret)
{
    const struct hr_endpoint_state *state = stores->endpoints;

    for (; state != NULL && n > 0; n--) {
        state = state->next;
    }
    if (state != NULL) {
        *ret = (struct hr_endpoint_stats){
            .endpoint = state->name,
            .width = hr_width_now(&state->width),
            .calls = state->width.calls,
            .grown = state->width.grown,
            .cuts = state->width.cuts,
            .throttled = state->width.throttled,
            .hedges = state->hedging.sent,
            .hedges_won = state->hedging.won,
        };
    }
    return state != NULL;
}
