/* Requests of one listing under way: pages, probes for one key, and folders' names. Main loop. */
#ifndef HR_LIST_FLIGHTS_H
#define HR_LIST_FLIGHTS_H

#include "fetch/list/lanes.h"
#include "fetch/store/store.h"

struct hr_flight {
    struct hr_flight *prev, *next;
    struct hr_flights *flights; /* NULL: nobody waits for it any more */
    struct hr_call *call;
    struct hr_list_lanes_ask ask;
    char *after; /* a copy: what keys must be behind; NULL: nothing */
    uint32_t after_len;
    bool held; /* not sent yet */
};

/* The strings are the owner's. */
struct hr_flights {
    struct hr_flight *list;
    struct hr_store *store;
    const char *prefix;
    uint32_t prefix_len;
    /* It was answered, or has failed (flight->call->error): out of the list, the owner's to free. */
    void (*landed)(void *owner, struct hr_flight *flight);
    bool (*moot)(void *owner, const struct hr_flight *flight); /* is a held probe needless by now? */
    void *owner;
    unsigned probing_max; /* probes in flight; those beyond are held until hr_flights_release */
    unsigned probing, held;
    uint64_t probes, folders; /* that were sent */
};

/* A page, a probe or folders; token NULL: by ask->after, which is copied. 0, -ENOMEM, or what hr_call_start
 * says. */
int hr_flight_send(struct hr_flights *flights, const struct hr_list_lanes_ask *ask, const char *token);
/* Sends held probes, in their order, as far as probing_max allows; what is moot is dropped. 0, or what
 * hr_call_start says. */
int hr_flights_release(struct hr_flights *flights);
/* Their answers are thrown away; the flights may go: all, or all but pages. */
void hr_flights_abandon(struct hr_flights *flights, bool but_pages);
/* The same of those that lanes do not wait for any more. */
void hr_flights_thin(struct hr_flights *flights, const struct hr_list_lanes *lanes);
void hr_flight_free(struct hr_flight *flight); /* and its call */

#endif
