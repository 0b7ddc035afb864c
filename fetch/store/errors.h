/* What a failure means: status and Code -> what to do next, and the errno once that is of no use. One table.
 * Pure functions. */
#ifndef HR_STORE_ERRORS_H
#define HR_STORE_ERRORS_H

#include <stdbool.h>

enum hr_action {
    HR_ACTION_NONE,        /* not a failure */
    HR_ACTION_FAIL,        /* final */
    HR_ACTION_RETRY,       /* transient: again within the budget, short waits */
    HR_ACTION_THROTTLED,   /* again within the budget, long waits */
    HR_ACTION_FEW,         /* again, but a few times only: a broken answer tends to stay broken */
    HR_ACTION_CLOCK,       /* take the server's clock, sign again */
    HR_ACTION_CREDENTIALS, /* ask the credential sources again, sign again */
    HR_ACTION_REGION,      /* take the bucket's region from the answer, sign again */
    HR_ACTION_REDIRECT,    /* ask the address in Location, sign for it */
    HR_ACTION_COUNT
};

struct hr_verdict {
    enum hr_action action;
    int error;        /* -errno */
    const char *hint; /* static: what the user can do; "" when there is nothing to say */
};

/* A request that brought no answer: the transport's -errno. */
struct hr_verdict hr_errors_transport(int error);
/* An answer with a status that is no success. code: of its Error document, "" when it has none. */
struct hr_verdict hr_errors_http(unsigned status, const char *code, bool has_location);
/* A success that carries an Error document. */
struct hr_verdict hr_errors_in_success(const char *code);

#endif
