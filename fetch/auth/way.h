/* Where credentials come from: either they are here (environment, files), or what is needed to ask for them.
 * Plain data owned by whoever holds the struct. */
#ifndef HR_AUTH_WAY_H
#define HR_AUTH_WAY_H

#include "fetch/auth/credentials.h"

struct hr_source;

enum hr_way_text {
    HR_WAY_IDENTITY, /* who this is, the same at each renewal: "role:ARN", "container:URL", "instance" */
    HR_WAY_URL,      /* endpoint that is asked */
    HR_WAY_TOKEN,    /* secret: a bearer token (web identity, container, SSO) */
    HR_WAY_REGION,   /* that an STS request is signed for */
    HR_WAY_ROLE_ARN,
    HR_WAY_SESSION_NAME,
    HR_WAY_EXTERNAL_ID,
    HR_WAY_DURATION_S, /* decimal */
    HR_WAY_ACCOUNT,    /* SSO */
    HR_WAY_ROLE_NAME,  /* SSO */
    HR_WAY_COMMAND,    /* credential_process */
    HR_WAY_CA_BUNDLE,
    HR_WAY_TEXTS,
};

#define HR_WAY_VARIABLES_MAX 24 /* source_process.c hands on half as many */

struct hr_way {
    const struct hr_source *source;
    struct hr_credentials credentials;     /* of sources that have them at once */
    char *text[HR_WAY_TEXTS];              /* NULL: not given */
    char *variables[HR_WAY_VARIABLES_MAX]; /* credential_process: the job's own, "NAME=VALUE", then NULL */
    struct hr_way *base;                   /* whose credentials sign the request (AssumeRole) */
};

void hr_way_release(struct hr_way *way); /* zeroes secrets; the struct is empty and usable again */
/* Copies value; NULL or "" is none. 0 or -ENOMEM. */
int hr_way_set(struct hr_way *way, enum hr_way_text which, const char *value);
int hr_way_print(struct hr_way *way, enum hr_way_text which, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
