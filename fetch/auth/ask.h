/* One asking for credentials: from `hr_ask_start` to `done`, on the main loop, never blocking it. A source
 * gets one in its `ask`, sends requests with the helpers below, and ends it by hr_ask_fail or hr_ask_give.
 *
 * Libraries never log: what happened is in `error` and `message`, which never hold a secret. */
#ifndef HR_AUTH_ASK_H
#define HR_AUTH_ASK_H

#include "fetch/auth/way.h"
#include "fetch/net/http.h"
#include "fetch/net/loop.h"

struct hr_ask;
struct hr_process;
typedef void (*hr_ask_fn)(struct hr_ask *ask);

struct hr_ask {
    /* Of whoever asks. */
    struct hr_loop *loop;
    struct hr_http *http;
    const struct hr_way *way; /* lives until done */
    hr_ask_fn done;           /* once, on the loop; may free the ask */
    void *owner;

    /* Results. */
    int error; /* 0; -EACCES: refused; -EIO: not to be had now; -ENOMEM; -ECANCELED */
    char message[256];
    struct hr_credentials credentials; /* access_key_id NULL with error 0: there are none (no such service) */
    int64_t life_ms;                   /* from now; 0: they do not end, or nobody knows when */

    /* Of the source. */
    struct hr_http_request *request; /* the newest one */
    struct hr_process *process;
    struct hr_ask *base; /* whose credentials sign */
    unsigned stage;
    char *token;

    /* Inside. */
    hr_ask_fn step;
    unsigned tries;
    bool in_flight, cancelled, ended;
    struct hr_timer timer;
};

struct hr_ask *hr_ask_new(struct hr_loop *loop, struct hr_http *http, const struct hr_way *way,
                          hr_ask_fn done, void *owner); /* NULL on ENOMEM */
int hr_ask_start(struct hr_ask *ask);                   /* 0: done will come, never from inside this call */
void hr_ask_cancel(struct hr_ask *ask);                 /* done comes soon, with -ECANCELED */
/* After done; or at any time when `http` has been freed. Accepts NULL. */
void hr_ask_free(struct hr_ask *ask);

/* For sources. A new request in ask->request: 0, or the ask has ended. */
int hr_ask_request(struct hr_ask *ask, enum hr_http_method method, const char *url);
int hr_ask_header(struct hr_ask *ask, const char *name, const char *value); /* likewise */
/* Sends it; what fails on the way, 429 and 5xx are tried again, `tries` times in all, then `step` looks at
 * the answer. total_ms: of one try. */
void hr_ask_send(struct hr_ask *ask, unsigned tries, unsigned total_ms, hr_ask_fn step);
/* Once more, after a while, because of what the answer says. False: no tries left. */
bool hr_ask_again(struct hr_ask *ask);
/* The last answer in words: "no answer ..." or "status 403". */
void hr_ask_say_answer(const struct hr_ask *ask, char ret[128]);

void hr_ask_fail(struct hr_ask *ask, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* found: taken. expires_ms is made a life by the clock of the server that answered, when it told its own. */
void hr_ask_give(struct hr_ask *ask, struct hr_credentials *found);

#endif
