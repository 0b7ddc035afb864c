#include "fetch/list/flights.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void unlink_flight(struct hr_flight *flight)
{
    flight->flights->held -= flight->held;
    flight->flights->probing -= flight->ask.probe && !flight->held;
    if (flight->prev != NULL) {
        flight->prev->next = flight->next;
    } else {
        flight->flights->list = flight->next;
    }
    if (flight->next != NULL) {
        flight->next->prev = flight->prev;
    }
    flight->prev = flight->next = NULL;
    flight->flights = NULL;
}

void hr_flight_free(struct hr_flight *flight)
{
    hr_call_free(flight->call);
    free(flight->after);
    free(flight);
}

static void answered(struct hr_call *call)
{
    struct hr_flight *flight = call->owner;
    struct hr_flights *flights = flight->flights;

    if (flights == NULL) {
        hr_flight_free(flight);
        return;
    }
    unlink_flight(flight);
    flights->landed(flights->owner, flight);
}

static void abandon(struct hr_flight *flight)
{
    unlink_flight(flight);
    if (flight->held) {
        hr_flight_free(flight);
    } else {
        hr_call_cancel(flight->call);
    }
}

void hr_flights_abandon(struct hr_flights *flights, bool but_pages)
{
    struct hr_flight *next;
    for (struct hr_flight *flight = flights->list; flight != NULL; flight = next) {
        next = flight->next;
        if (flight->ask.probe || flight->ask.folders || !but_pages) {
            abandon(flight);
        }
    }
}

void hr_flights_thin(struct hr_flights *flights, const struct hr_list_lanes *lanes)
{
    struct hr_flight *next;
    for (struct hr_flight *flight = flights->list; flight != NULL; flight = next) {
        next = flight->next;
        if (!hr_list_lanes_waits(lanes, &flight->ask)) {
            abandon(flight);
        }
    }
}

static void note_sent(struct hr_flights *flights, const struct hr_flight *flight)
{
    flights->probing += flight->ask.probe;
    flights->probes += flight->ask.probe;
    flights->folders += flight->ask.folders;
}

int hr_flights_release(struct hr_flights *flights)
{
    while (flights->held > 0 && flights->probing < flights->probing_max) {
        struct hr_flight *first = NULL;
        for (struct hr_flight *flight = flights->list; flight != NULL; flight = flight->next) {
            first = flight->held ? flight : first;
        }
        if (flights->moot(flights->owner, first)) {
            unlink_flight(first);
            hr_flight_free(first);
            continue;
        }
        int rc = hr_call_start(first->call);
        if (rc < 0) {
            return rc;
        }
        first->held = false;
        flights->held--;
        note_sent(flights, first);
    }
    return 0;
}

int hr_flight_send(struct hr_flights *flights, const struct hr_list_lanes_ask *ask, const char *token)
{
    bool whole = ask->dir.at == NULL;
    struct hr_call *call = hr_call_new(HR_CALL_LIST, flights->store, whole ? flights->prefix : ask->dir.at,
                                       whole ? flights->prefix_len : ask->dir.len);
    struct hr_flight *flight = calloc(1, sizeof(*flight));
    if (call == NULL || flight == NULL) {
        hr_call_free(call);
        free(flight);
        return -ENOMEM;
    }
    flight->ask = *ask;
    if (ask->after.at != NULL) {
        flight->after = strndup(ask->after.at, ask->after.len);
        flight->after_len = ask->after.len;
    }
    if (token != NULL) {
        call->token = strdup(token);
    } else if (ask->after.at != NULL) {
        call->start_after = strndup(ask->after.at, ask->after.len);
        call->start_after_len = ask->after.len;
    }
    call->max_keys = ask->probe ? 1 : 0;
    call->delimiter = ask->folders ? "/" : NULL;
    call->done = answered;
    call->owner = flight;
    flight->call = call;
    bool copied = (ask->after.at == NULL || flight->after != NULL) &&
                  (token != NULL ? call->token != NULL : ask->after.at == NULL || call->start_after != NULL);
    flight->held = ask->probe && flights->probing >= flights->probing_max;
    int rc = !copied ? -ENOMEM : flight->held ? 0 : hr_call_start(call);
    if (rc < 0) {
        hr_flight_free(flight);
        return rc;
    }
    if (flight->held) {
        flights->held++;
    } else {
        note_sent(flights, flight);
    }
    flight->flights = flights;
    flight->next = flights->list;
    if (flight->next != NULL) {
        flight->next->prev = flight;
    }
    flights->list = flight;
    return 0;
}
