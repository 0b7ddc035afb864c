/* A call under way: what the files call*.c share. */
#ifndef HR_STORE_RUN_H
#define HR_STORE_RUN_H

#include "fetch/store/internal.h"

/* Retries mend most of what happens within a second; who waits longer asks himself what for. */
#define HR_TROUBLE_AFTER_MS 5000

struct hr_call_run {
    struct hr_call_run *prev, *next; /* stores->running */
    struct hr_call *call;
    struct hr_store *store;
    struct hr_http_request *request; /* NULL while waiting */
    struct hr_http_request *hedge;   /* a second one beside it: the first answer wins */
    struct hr_timer timer;           /* the next try; while a request is out: time for a hedge */
    struct hr_keeper_wait keys;      /* waits for credentials, not for an answer */
    int64_t deadline_ms;
    int64_t next_try_ms;  /* when the timer sends it again; 0: no such wait */
    bool slow_try;        /* that wait is a throttled one's */
    int64_t sent_us;      /* request was */
    int64_t hedge_due_us; /* when it is looked at again */
    unsigned sent;        /* without hedges */
    unsigned throttled;   /* answers that said so */
    unsigned waits, few, redirects, region_tries, clock_tries, credential_tries;
    unsigned taken; /* from the retry budget, by the last retry */
    unsigned generation;
    int64_t skew_ms;
    char region[HR_REGION_BYTES];
    char *redirect; /* where the next request goes instead; never kept for another call */
    bool cancelled;
    int ending; /* set: the timer ends the call with it */
    struct hr_judged judged;
};

/* call.c: signs and submits one request. rival: it goes to another address than that one; NULL: wherever. */
int hr_run_submit(struct hr_call_run *run, const struct hr_http_request *rival, struct hr_http_request **ret);

/* call_text.c: the last answer was a failure, and another request follows: people are told when that lasts.
 */
void hr_run_tell(const struct hr_call_run *run);

/* call_mend.c: the last answer (request) was a failure. True: the run, or its store, has changed so that the
 * next request may be answered; it can go at once. */
bool hr_run_mend(struct hr_call_run *run, const struct hr_http_request *request);

/* call_hedge.c */
/* A request has just left: watches how long it takes. */
void hr_run_watch(struct hr_call_run *run);
/* The time is over without a first byte: a second request, if there is room and budget for it. */
void hr_run_hedge(struct hr_call_run *run);
/* One of the run's requests is back; what is left is run->request. True: that was the hedge. */
bool hr_run_take_back(struct hr_call_run *run, const struct hr_http_request *request);
/* The call has its answer: the request that is still out ends by itself. */
void hr_run_drop_rival(struct hr_call_run *run, bool hedge_won);

#endif
