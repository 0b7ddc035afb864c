/* The documents in which credentials arrive. Pure functions over bytes from outside; any thread. */
#ifndef HR_AUTH_DOCUMENTS_H
#define HR_AUTH_DOCUMENTS_H

#include <stddef.h>
#include <stdint.h>

#include "fetch/auth/credentials.h"

struct hr_refusal { /* what a service said instead, "" where it did not; one line each */
    char code[64];
    char text[128];
};

/* STS' XML: `Credentials` anywhere below the root, or `Error`. 0; -EREMOTEIO: ret_refusal filled; -EPROTO:
 * neither; -ENOMEM. */
int hr_document_sts(const char *text, size_t len, struct hr_credentials *ret, struct hr_refusal *ret_refusal);

enum hr_document_kind {
    HR_DOCUMENT_SERVICE, /* container and instance: AccessKeyId, SecretAccessKey, Token, Expiration */
    HR_DOCUMENT_PROCESS, /* Version 1, SessionToken for Token; long-lived keys have neither it nor an end */
    HR_DOCUMENT_SSO,     /* roleCredentials: accessKeyId, ..., expiration in ms since the epoch */
};
/* As above. JSON with a `Code` that is not Success, a `message`, or an `error` is a refusal. */
int hr_document_json(enum hr_document_kind kind, const char *text, size_t len, struct hr_credentials *ret,
                     struct hr_refusal *ret_refusal);

/* The file that `aws sso login` keeps: the token for the caller to free as a secret. 0; -ESTALE: it has
 * expired; -EPROTO; -ENOMEM. */
int hr_document_sso_token(const char *text, size_t len, int64_t now_ms, char **ret_token);

#endif
