/* Credentials that are asked for elsewhere, kept fresh: one keeper for all stores whose chains were made of
 * the same variables, so that a node asks once. Main loop.
 *
 * What is held is renewed a while before it ends (15 minutes, or a quarter of a shorter life, give or take a
 * quarter of that), but only while it is in use; until then it goes on being given out, so nobody waits. When
 * nothing is held, or its last moments have come, whoever needs it waits. A failure is remembered for a
 * while. That there are none is a failure once there were some; else it is believed, and asked again each
 * minute of use. */
#ifndef HR_AUTH_KEEPER_H
#define HR_AUTH_KEEPER_H

#include <stdbool.h>

#include "fetch/auth/chain.h"
#include "fetch/net/http.h"
#include "fetch/net/loop.h"

struct hr_keepers;
struct hr_keeper;

int hr_keepers_new(struct hr_loop *loop, struct hr_http *http, struct hr_keepers **ret);
/* http is freed, or about to be without any asking under way. Nobody may wait. Keepers that are still held
 * live on, but ask no more. Accepts NULL. */
void hr_keepers_free(struct hr_keepers *keepers);

/* A keeper for a chain that has a way; it keeps the chain. 0 or -ENOMEM. */
int hr_keeper_get(struct hr_keepers *keepers, struct hr_chain *chain, struct hr_keeper **ret);
void hr_keeper_unref(struct hr_keeper *keeper); /* accepts NULL */

/* Whether there is something to sign with, or known not to be (anonymous). False: wait. */
bool hr_keeper_ready(struct hr_keeper *keeper);
/* Valid until the loop's next turn. Empty when nothing is held. */
const struct hr_credentials *hr_keeper_credentials(struct hr_keeper *keeper);
unsigned hr_keeper_generation(const struct hr_keeper *keeper); /* counts changes */
/* Why hr_keeper_ready is false after a wait: -EACCES, -EIO, ..., with one line. 0: no failure. */
int hr_keeper_failure(const struct hr_keeper *keeper, const char **ret_message);

struct hr_keeper_wait {
    void (*fn)(void *owner); /* once, never from inside hr_keeper_wait */
    void *owner;
    struct hr_keeper *keeper; /* NULL: not waiting */
    struct hr_keeper_wait *prev, *next;
};
/* Asks when nobody does yet, and calls fn when that has ended, either way. 0 or -ENOMEM. */
int hr_keeper_wait(struct hr_keeper *keeper, struct hr_keeper_wait *wait);
void hr_keeper_unwait(struct hr_keeper_wait *wait); /* also when not waiting */

/* The store refused what is held. True: it is not ready any more, and waiting asks for others. False: it was
 * asked for only just now, asking again would give the same. */
bool hr_keeper_refused(struct hr_keeper *keeper);

#endif
