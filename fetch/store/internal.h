/* What the files of this room share: the structs behind store.h's opaque ones. One thread owns all of it: the
 * loop's. */
#ifndef HR_STORE_INTERNAL_H
#define HR_STORE_INTERNAL_H

#include "fetch/auth/chain.h"
#include "fetch/auth/keeper.h"
#include "fetch/auth/sigv4.h"
#include "fetch/store/customer_key.h"
#include "fetch/store/endpoint.h"
#include "fetch/store/hedge.h"
#include "fetch/store/judge.h"
#include "fetch/store/quirks.h"
#include "fetch/store/retry.h"
#include "fetch/store/store.h"
#include "fetch/store/width.h"

/* What all stores of one endpoint share. */
struct hr_endpoint_state {
    struct hr_endpoint_state *next;
    unsigned refs;
    struct hr_retry_budget budget;
    struct hr_width width;
    struct hr_hedging hedging;
    char name[HR_ENDPOINT_BYTES];
};

struct hr_call_run;

struct hr_stores {
    unsigned refs; /* the owner's, and one of each store */
    struct hr_loop *loop;
    struct hr_http *http; /* NULL once the owner freed the family */
    unsigned timeout_ms, connections;
    bool hedges;
    struct hr_keepers *keepers; /* NULL once the owner freed the family */
    struct hr_store_stats stats;
    struct hr_endpoint_state *endpoints;
    struct hr_call_run *running;
    void (*room)(void *owner); /* hr_stores_on_room */
    void *room_owner;
    /* hr_stores_on_trouble */
    void (*trouble)(void *owner, const struct hr_store *store, const char *message, int64_t left_ms);
    void *trouble_owner;
};

struct hr_store {
    unsigned refs;
    struct hr_stores *stores;
    char endpoint_text[HR_ENDPOINT_BYTES]; /* as chosen at the start; does not follow a learned region */
    struct hr_endpoint endpoint;           /* as asked now */
    bool aws;                              /* endpoint is AWS' and follows the region */
    bool path_style;
    char *bucket;
    char *base; /* URL of the bucket, as asked now; NULL: s3_request.c makes it anew */
    char base_host[HR_ENDPOINT_BYTES];
    size_t base_path_at; /* in `base`, behind host and port */
    char *identity;
    char *ca_bundle; /* NULL: the system's */
    bool requester_pays;
    struct hr_customer_key customer_key;
    char region[HR_REGION_BYTES];
    const struct hr_quirk *quirk;
    struct hr_endpoint_state *state;

    struct hr_chain *chain;
    struct hr_keeper *keeper; /* NULL: the chain has the credentials */
    struct hr_sigv4_signer *signer;
    unsigned generation; /* counts changes of chain or keeper */
    bool proven;         /* these credentials have been accepted once */
    int64_t reloaded_ms; /* monotonic time of the last look at the sources */
    int64_t skew_ms;     /* server's clock minus ours */
    int64_t date_s;      /* the second of `date`, by the server's clock */
    char date[HR_SIGV4_DATE_BYTES];
    int64_t refused_until_ms; /* credentials refused: until then calls fail without being sent */
    char refused_text[200];
    int64_t trouble_ms; /* monotonic time at which trouble may be told again */
};

void hr_stores_unref(struct hr_stores *stores);

/* call.c: ends every call that runs with -ECANCELED; none may have a request in flight. */
void hr_calls_abort(struct hr_stores *stores);
/* call_text.c: writes call->message. sent: requests that went out. */
void hr_call_describe(struct hr_call *call, const struct hr_store *store, const struct hr_judged *judged,
                      int error, unsigned sent);

/* s3.c. True when something changed, or is asked for anew, so that signing again makes sense. */
bool hr_store_learn_region(struct hr_store *store, const char *region);
bool hr_store_reload_credentials(struct hr_store *store);
const struct hr_credentials *hr_store_credentials(const struct hr_store *store);
unsigned hr_store_generation(const struct hr_store *store); /* counts changes of credentials */
void hr_store_learn_server(struct hr_store *store, const char *server_header);

/* s3_request.c: url, headers and signature of the call's next request. redirect: absolute URL, or NULL.
 * The caller sets limits and done. 0, -EINVAL (key or ETag that cannot be sent), -ENOMEM, -EIO. */
int hr_s3_request_new(struct hr_store *store, const struct hr_call *call, const char *redirect,
                      struct hr_http_request **ret);

#endif
