/* What a failure tells how to ask instead: another region, clock, address, or newer credentials. */
#include "fetch/store/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/base/cleanup.h"
#include "fetch/base/clock.h"

/* Of one call; ours. */
#define REDIRECTS_MAX 3 /* in a row, from the store's own address */
#define REGION_TRIES_MAX 3
#define CLOCK_TRIES_MAX 2
#define CREDENTIAL_TRIES_MAX 2
#define REFUSED_MS 10000   /* refused credentials are not tried again for so long, unless they change */
#define CLOCK_SAME_MS 1000 /* Date has whole seconds */

/* A customer's key goes nowhere in clear, wherever a store sends us. */
static bool may_lead_to(const struct hr_store *store, const char *url)
{
    struct hr_url_parts parts;
    const char *why = NULL;

    return store->customer_key.key[0] == '\0' ||
           (hr_url_split(url, &parts, &why) == 0 && hr_endpoint_is_private(&parts.endpoint));
}

static bool follow(struct hr_call_run *run, const struct hr_http_request *request)
{
    hr_cleanup(hr_buf_release) struct hr_buf target = HR_BUF_INIT(16384);
    const char *location = hr_http_answer(request, "location");

    if (location == NULL || run->redirects >= REDIRECTS_MAX ||
        hr_redirect_resolve(request->url, location, &target) < 0 || !may_lead_to(run->store, target.data)) {
        return false;
    }
    free(run->redirect);
    run->redirect = hr_steal_pointer(target.data);
    run->redirects++;
    return true;
}

static bool set_clock(struct hr_call_run *run)
{
    struct hr_store *store = run->store;

    if (run->judged.server_ms == 0 || run->clock_tries++ >= CLOCK_TRIES_MAX) {
        return false;
    }
    int64_t skew_ms = run->judged.server_ms - hr_clock_wall_ns() / 1000000;
    if (llabs(skew_ms - run->skew_ms) <= CLOCK_SAME_MS) {
        return false;
    }
    store->skew_ms = skew_ms;
    return true;
}

static bool renew(struct hr_call_run *run)
{
    struct hr_store *store = run->store;

    if (run->credential_tries++ >= CREDENTIAL_TRIES_MAX) {
        return false;
    }
    return run->generation != hr_store_generation(store) || hr_store_reload_credentials(store);
}

static bool move_region(struct hr_call_run *run)
{
    struct hr_store *store = run->store;

    if (run->region_tries++ >= REGION_TRIES_MAX) {
        return false;
    }
    if (run->judged.region[0] != '\0') {
        (void)hr_store_learn_region(store, run->judged.region);
    }
    return strcmp(store->region, run->region) != 0;
}

/* The credentials as such were refused: the calls that follow need not ask the store again to learn it. */
static void remember_refusal(struct hr_call_run *run)
{
    struct hr_store *store = run->store;

    if (!store->proven && run->generation == hr_store_generation(store)) {
        store->refused_until_ms = hr_clock_ms() + REFUSED_MS;
        (void)snprintf(store->refused_text, sizeof(store->refused_text), "%s", run->judged.text);
    }
}

bool hr_run_mend(struct hr_call_run *run, const struct hr_http_request *request)
{
    /* An answer that names another region than the one we signed for explains every kind of refusal. */
    if (run->judged.region[0] != '\0' && strcmp(run->judged.region, run->region) != 0 &&
        run->judged.verdict.action != HR_ACTION_RETRY && run->judged.verdict.action != HR_ACTION_THROTTLED &&
        move_region(run)) {
        return true;
    }
    switch (run->judged.verdict.action) {
    case HR_ACTION_CLOCK:
        return set_clock(run);
    case HR_ACTION_CREDENTIALS:
        if (renew(run)) {
            return true;
        }
        remember_refusal(run);
        return false;
    case HR_ACTION_REGION:
        return move_region(run);
    case HR_ACTION_REDIRECT:
        return follow(run, request);
    default:
        return false;
    }
}
