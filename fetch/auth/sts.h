/* Requests to the Security Token Service. */
#ifndef HR_AUTH_STS_H
#define HR_AUTH_STS_H

#include "fetch/auth/ask.h"
#include "fetch/auth/source.h"

/* Endpoint, region and CA bundle of the input into the way. 0, -EINVAL with one line, -ENOMEM. */
int hr_sts_place(const struct hr_source_input *input, char ret_message[256], struct hr_way *way);

/* POSTs the way's role, session, duration and external id with `action`; the way's token goes along as
 * WebIdentityToken. signer NULL: unsigned. Ends the ask. */
void hr_sts_ask(struct hr_ask *ask, const char *action, const struct hr_credentials *signer);

#endif
