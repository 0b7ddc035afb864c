#include "fetch/list/lister.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/base/cleanup.h"
#include "fetch/base/clock.h"
#include "fetch/list/flights.h"
#include "fetch/list/gather.h"
#include "fetch/list/lanes.h"
#include "fetch/list/page.h"

#define CRUMBS_MAX 16u         /* full pages of fewer keys are not worth lanes; ours */
#define ONE_ANSWER_KEYS 10000u /* more than any store with pages sends in one; ours */
/* While nothing tells that there are more than three pages, probes begin slowly: sixty of them cost a store
 * that has few cores, or no index, more time than the page beside them. Ours. */
#define PROBES_BEGIN 8u /* in flight, and one more for each answer, until */
#define PACED_PAGES 2u  /* more pages than these have come */

struct hr_lister {
    struct hr_lister_options options;
    char *prefix;
    struct hr_gather gather;
    struct hr_flights flights;
    struct hr_list_lanes *lanes; /* NULL: page by page */
    bool wide;                   /* more than one range is listed */
    bool by_key;                 /* a page by start-after has come */
    bool denied;
    bool plain; /* the store was found out, whatever is added or removed meanwhile */
    /* Of a single lane. */
    struct hr_page_watch watch;
    char *token;    /* to go on with; NULL: by last_key */
    char *last_key; /* of the page before, when it was in bytewise order; else NULL */
    uint32_t last_key_len;
    struct hr_lister_progress progress;
    int64_t began_ns;
    char note[160];
};

/* ---- asking ---- */

/* Which held probe has become needless. */
static bool moot(void *owner, const struct hr_flight *flight)
{
    const struct hr_lister *lister = owner;
    return hr_list_lanes_moot(lister->lanes, flight->ask.probe_number);
}

static int send_list(struct hr_lister *lister, const struct hr_list_lanes_ask *ask, const char *token)
{
    return hr_flight_send(&lister->flights, ask, token);
}

/* The next page of a single lane. */
static int ask_plain(struct hr_lister *lister)
{
    struct hr_list_lanes_ask ask = {.after = {lister->last_key, lister->last_key_len}};
    return send_list(lister, &ask, lister->token);
}

/* All that the lanes want now. */
static int ask_lanes(struct hr_lister *lister)
{
    struct hr_list_lanes_ask ask;
    struct hr_list_lanes_progress progress;
    int rc;

    while ((rc = hr_list_lanes_next(lister->lanes, &ask)) > 0) {
        bool page = !ask.probe && !ask.folders;
        bool first = page && ask.lane == 0 && !lister->wide;
        lister->wide = lister->wide || (page && ask.lane != 0);
        rc = first ? ask_plain(lister) : send_list(lister, &ask, NULL);
        if (rc < 0) {
            return rc;
        }
    }
    hr_list_lanes_progress(lister->lanes, &progress);
    lister->progress.lanes_max = progress.listing_max;
    return rc;
}

/* ---- ending ---- */

/* The owner may free the lister inside. */
static void finish(struct hr_lister *lister, int error, const char *message)
{
    hr_flights_abandon(&lister->flights, false);
    if (error != 0) {
        hr_gather_drop(&lister->gather);
    }
    lister->options.done(lister->options.owner, lister, error, message);
}

/* ---- falling back ---- */

/* Page by page from here on; what several lanes brought is dropped and asked for again. */
static int narrow(struct hr_lister *lister, const char *why)
{
    snprintf(lister->note, sizeof(lister->note), "%s", why);
    hr_list_lanes_free(hr_steal_pointer(lister->lanes));
    hr_flights_abandon(&lister->flights, !lister->wide);
    if (!lister->wide) {
        return 0;
    }
    lister->wide = false;
    hr_gather_drop(&lister->gather);
    free(hr_steal_pointer(lister->token));
    free(hr_steal_pointer(lister->last_key));
    lister->last_key_len = 0;
    lister->progress.pages = 0;
    lister->watch = (struct hr_page_watch){.seed = lister->watch.seed};
    int rc = hr_gather_begin(&lister->gather);
    return rc < 0 ? rc : ask_plain(lister);
}

/* The same where one answer alone shows it: no key that came or went can be the cause. */
static int narrow_for_good(struct hr_lister *lister, const char *why)
{
    lister->plain = true;
    return narrow(lister, why);
}

#define WHY_ORDER "the store does not list in bytewise order"
#define WHY_CRUMBS "the store sends very few keys a page"
#define WHY_AFTER "the store does not honour start-after"
#define WHY_MAX "the store does not honour max-keys"
#define WHY_REFUSED "the store refuses a request by start-after"
#define WHY_EMPTY "the store sends empty pages and says there are more"
#define WHY_WHOLE "the store sends all keys in one answer"

/* ---- taking a page ---- */

static int remember_last(struct hr_lister *lister, const struct hr_call *call, bool sorted)
{
    free(hr_steal_pointer(lister->token));
    if (hr_page_has_token(call) && (lister->token = strdup(call->next_token)) == NULL) {
        return -ENOMEM;
    }
    if (call->listed_count == 0) {
        return 0;
    }
    free(hr_steal_pointer(lister->last_key));
    lister->last_key_len = 0;
    if (!sorted) {
        return 0;
    }
    const struct hr_listed *last = &call->listed[call->listed_count - 1];
    lister->last_key = strndup(last->key, last->key_len);
    if (lister->last_key == NULL) {
        return -ENOMEM;
    }
    lister->last_key_len = last->key_len;
    return 0;
}

/* Whether the page allows lanes; they see it. Without them the lister is plain afterwards. */
static int show_lanes(struct hr_lister *lister, const struct hr_call *call, bool sorted)
{
    uint32_t take = 0;
    if (lister->lanes == NULL) {
        return 0;
    }
    if (!sorted) {
        return narrow_for_good(lister, WHY_ORDER);
    }
    if (hr_page_has_more(call) && call->listed_count < CRUMBS_MAX) {
        return narrow(lister, WHY_CRUMBS);
    }
    int rc =
        hr_list_lanes_page(lister->lanes, 0, call->listed, call->listed_count, hr_page_has_more(call), &take);
    return rc == -EPROTO ? narrow(lister, WHY_ORDER) : rc;
}

/* A page of the only lane. 0: the next one is asked for, or *ret_complete. */
static int turn_page(struct hr_lister *lister, const struct hr_call *call, bool *ret_complete,
                     char message[HR_PAGE_MESSAGE_BYTES])
{
    uint64_t page = lister->progress.pages + 1;
    struct hr_key before = {lister->last_key, lister->last_key_len};
    bool sorted = false;

    int rc = hr_page_judge_keys(call, before, page, &sorted, message);
    if (rc == 0 && call->start_after != NULL && !sorted) {
        return hr_page_fault(
            message, page,
            "keys asked for by start-after come out of order or again, and the store gave no token");
    }
    if (rc == 0) {
        rc = hr_page_judge_progress(&lister->watch, call, page, message);
    }
    if (rc == 0) {
        rc = hr_gather_add(&lister->gather, call, call->listed_count, page, message);
    }
    if (rc < 0) {
        return rc;
    }
    *ret_complete = !hr_page_has_more(call);
    if (!*ret_complete && !hr_page_has_token(call) && (call->listed_count == 0 || !sorted)) {
        return hr_page_fault(
            message, page, "there are more keys, but the store gives no continuation token and %s",
            call->listed_count == 0 ? "no key to go on from" : "does not list in bytewise order");
    }
    rc = remember_last(lister, call, sorted);
    if (rc == 0 && !*ret_complete) {
        lister->progress.pages++;
        rc = show_lanes(lister, call, sorted);
        if (rc == 0) {
            rc = lister->lanes != NULL ? ask_lanes(lister) : ask_plain(lister);
        }
    } else if (rc == 0) {
        lister->progress.pages++;
        if (lister->progress.pages == 1 && call->listed_count > ONE_ANSWER_KEYS) {
            snprintf(lister->note, sizeof(lister->note), "%s", WHY_WHOLE);
        }
    }
    if (rc < 0) {
        (void)hr_page_fault(message, lister->progress.pages + 1, "cannot ask for it: %s", strerror(-rc));
    }
    return rc;
}

/* A page of one of several lanes. */
static int turn_wide(struct hr_lister *lister, const struct hr_flight *flight, bool *ret_complete,
                     char message[HR_PAGE_MESSAGE_BYTES])
{
    const struct hr_call *call = flight->call;
    uint64_t page = lister->progress.pages + 1;
    uint32_t take = 0;
    bool sorted = false;

    int rc =
        hr_page_judge_keys(call, (struct hr_key){flight->after, flight->after_len}, page, &sorted, message);
    if (rc < 0) {
        return rc;
    }
    if (!sorted) {
        struct hr_key first = {call->listed[0].key, call->listed[0].key_len};
        bool behind = hr_key_compare(first, (struct hr_key){flight->after, flight->after_len}) > 0;
        return narrow_for_good(lister, behind ? WHY_ORDER : WHY_AFTER);
    }
    if (call->listed_count == 0 && hr_page_has_more(call)) {
        return narrow(lister, WHY_EMPTY);
    }
    lister->by_key = lister->by_key || call->start_after != NULL;
    rc = hr_list_lanes_page(lister->lanes, flight->ask.lane, call->listed, call->listed_count,
                            hr_page_has_more(call), &take);
    if (rc == -EPROTO) {
        return narrow(lister, WHY_ORDER);
    }
    if (rc == 0) {
        rc = hr_gather_add(&lister->gather, call, take, page, message);
    }
    if (rc < 0) {
        return rc;
    }
    lister->progress.pages++;
    *ret_complete = hr_list_lanes_done(lister->lanes);
    return *ret_complete ? 0 : ask_lanes(lister);
}

/* It may be the last answer: a lane at its end asks for one key. */
static int turn_probe(struct hr_lister *lister, const struct hr_flight *flight, bool *ret_complete,
                      char message[HR_PAGE_MESSAGE_BYTES])
{
    const struct hr_call *call = flight->call;
    struct hr_key key = {NULL, 0};
    bool sorted;

    if (call->error != 0) {
        return call->error == -ECANCELED || call->error == -EACCES ? call->error
                                                                   : narrow(lister, WHY_REFUSED);
    }
    int rc = hr_page_judge_keys(call, key, lister->progress.pages + 1, &sorted, message);
    if (rc < 0) {
        return rc;
    }
    if (call->listed_count > 1) {
        return narrow_for_good(lister, WHY_MAX);
    }
    if (call->listed_count == 0 && hr_page_has_more(call)) {
        return narrow(lister, WHY_EMPTY);
    }
    if (call->listed_count > 0) {
        key = (struct hr_key){call->listed[0].key, call->listed[0].key_len};
    }
    rc = hr_list_lanes_probe(lister->lanes, flight->ask.probe_number, key);
    if (rc == -EPROTO) {
        bool behind = hr_key_compare(key, (struct hr_key){flight->after, flight->after_len}) > 0;
        return behind ? narrow(lister, WHY_ORDER) : narrow_for_good(lister, WHY_AFTER);
    }
    if (rc < 0) {
        return rc;
    }
    *ret_complete = hr_list_lanes_done(lister->lanes);
    return *ret_complete ? 0 : ask_lanes(lister);
}

/* Nobody waits for it, and a store that cannot tell is asked no more than that. */
static int turn_folders(struct hr_lister *lister, const struct hr_flight *flight)
{
    const struct hr_call *call = flight->call;
    struct hr_key dir = {call->key, call->key_len};

    int rc = call->error != 0 ? 0
                              : hr_list_lanes_folders(lister->lanes, dir, call->prefixes, call->prefix_count,
                                                      hr_page_has_more(call));
    return rc < 0 || lister->progress.pages == 0 ? rc : ask_lanes(lister);
}

/* ---- answers ---- */

static int turn(struct hr_lister *lister, const struct hr_flight *flight, bool *ret_complete,
                char message[HR_PAGE_MESSAGE_BYTES])
{
    const struct hr_call *call = flight->call;

    if (lister->lanes != NULL && call->retries > 0) {
        hr_list_lanes_throttled(lister->lanes);
    }
    if (flight->ask.folders) {
        return turn_folders(lister, flight);
    }
    if (call->error != 0) {
        lister->denied = call->denied;
        (void)hr_page_fault(message, lister->progress.pages + 1, "%s", call->message);
    }
    if (flight->ask.probe) {
        return turn_probe(lister, flight, ret_complete, message);
    }
    if (call->error != 0) {
        bool refused = call->error != -ECANCELED && call->error != -EACCES && call->start_after != NULL;
        return refused && lister->lanes != NULL && !lister->by_key ? narrow(lister, WHY_REFUSED)
                                                                   : call->error;
    }
    return lister->wide ? turn_wide(lister, flight, ret_complete, message)
                        : turn_page(lister, call, ret_complete, message);
}

static void landed(void *owner, struct hr_flight *flight)
{
    struct hr_lister *lister = owner;
    char message[HR_PAGE_MESSAGE_BYTES] = "";
    bool complete = false;
    bool probe = flight->ask.probe;
    bool page = !probe && !flight->ask.folders;

    lister->flights.probing_max += probe && lister->flights.probing_max < UINT_MAX;
    int rc = turn(lister, flight, &complete, message);
    hr_flight_free(flight);
    if (rc == 0 && !complete) {
        if (lister->lanes != NULL) {
            hr_flights_thin(&lister->flights, lister->lanes);
        }
        if (lister->progress.pages > PACED_PAGES) {
            lister->flights.probing_max = UINT_MAX;
        }
        rc = hr_flights_release(&lister->flights);
    }
    if (rc < 0 && message[0] == '\0') {
        (void)hr_page_fault(message, lister->progress.pages + 1, "cannot ask for it: %s", strerror(-rc));
    }
    if (rc < 0 || complete) {
        finish(lister, rc, rc < 0 ? message : "");
    } else if (page && lister->options.more != NULL) {
        lister->options.more(lister->options.owner, lister);
    }
}

/* ---- the door ---- */

int hr_lister_start(const struct hr_lister_options *options, struct hr_lister **ret)
{
    struct hr_lister *lister = calloc(1, sizeof(*lister));
    if (lister == NULL) {
        return -ENOMEM;
    }
    lister->options = *options;
    lister->began_ns = hr_clock_wall_ns();
    lister->watch.seed = hr_random_u64();
    lister->progress.lanes_max = 1;
    lister->gather.prefix_len = options->prefix_len;
    lister->gather.filter = options->filter;
    lister->gather.scratch_dir = options->scratch_dir;
    lister->prefix = malloc((size_t)options->prefix_len + 1);
    int rc = lister->prefix == NULL ? -ENOMEM : hr_gather_begin(&lister->gather);
    if (rc == 0 && options->lanes > 1) {
        rc = hr_list_lanes_new(options->prefix_len, options->lanes, options->hurry, &lister->lanes);
    }
    if (rc == 0) {
        memcpy(lister->prefix, options->prefix, options->prefix_len);
        lister->prefix[options->prefix_len] = '\0';
        lister->flights = (struct hr_flights){.store = options->store,
                                              .prefix = lister->prefix,
                                              .prefix_len = options->prefix_len,
                                              .landed = landed,
                                              .moot = moot,
                                              .probing_max = PROBES_BEGIN,
                                              .owner = lister};
        rc = lister->lanes != NULL ? ask_lanes(lister) : ask_plain(lister);
    }
    if (rc < 0) {
        hr_lister_free(lister);
        return rc;
    }
    *ret = lister;
    return 0;
}

struct hr_index_builder *hr_lister_take(struct hr_lister *lister)
{
    return hr_steal_pointer(lister->gather.builder);
}

void hr_lister_progress(const struct hr_lister *lister, struct hr_lister_progress *ret)
{
    *ret = lister->progress;
    ret->keys = lister->gather.keys;
    ret->probes = lister->flights.probes;
    ret->folders = lister->flights.folders;
}

bool hr_lister_all_in(const struct hr_lister *lister, const char *dir, uint32_t dir_len)
{
    return hr_gather_all_in(&lister->gather, dir, dir_len);
}

bool hr_lister_denied(const struct hr_lister *lister)
{
    return lister->denied;
}

const char *hr_lister_note(const struct hr_lister *lister)
{
    return lister->note;
}

bool hr_lister_plain(const struct hr_lister *lister)
{
    return lister->plain;
}

int64_t hr_lister_began_ns(const struct hr_lister *lister)
{
    return lister->began_ns;
}

void hr_lister_free(struct hr_lister *lister)
{
    if (lister == NULL) {
        return;
    }
    hr_flights_abandon(&lister->flights, false);
    hr_list_lanes_free(lister->lanes);
    hr_gather_drop(&lister->gather);
    free(lister->prefix);
    free(lister->token);
    free(lister->last_key);
    free(lister);
}
