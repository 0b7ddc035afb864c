/* A source of credentials: one row of the chain's table and one file.
 *
 * `load` looks at the job's variables and files, on any thread, and never at the network. `ask` goes
 * elsewhere for what load could only point to; it runs on the main loop and never blocks it. */
#ifndef HR_AUTH_SOURCE_H
#define HR_AUTH_SOURCE_H

#include "fetch/auth/env.h"
#include "fetch/auth/profile.h"
#include "fetch/auth/way.h"

struct hr_ask;

struct hr_source_input {
    hr_env_fn env;
    void *env_owner;
    const struct hr_profile *profile;
    bool profile_only; /* a source_profile: the environment says nothing about it */
    unsigned depth;    /* of source_profile in source_profile */
    /* The way that another profile leads to; given by the chain. As load; -ENOENT when it leads nowhere. */
    int (*by_profile)(const struct hr_source_input *input, const char *name, char ret_message[256],
                      struct hr_way *ret);
};

struct hr_source {
    const char *name;
    /* 0: ret filled (no access_key_id and no `ask`: anonymous is what was asked for); -ENOENT: not
     * configured, the next source is asked; anything else: configured but unusable, the chain stops and
     * ret_message says why, without a secret. *ret is empty when load is called, and released by the caller
     * whatever comes. */
    int (*load)(const struct hr_source_input *input, char ret_message[256], struct hr_way *ret);
    /* NULL: load gives the credentials themselves. See ask.h. */
    void (*ask)(struct hr_ask *ask);
};

extern const struct hr_source hr_source_env;     /* AWS_ACCESS_KEY_ID, ...; set but empty means anonymous */
extern const struct hr_source hr_source_role;    /* role_arn of a profile: STS AssumeRole */
extern const struct hr_source hr_source_web;     /* a token file and a role: STS AssumeRoleWithWebIdentity */
extern const struct hr_source hr_source_sso;     /* the token that `aws sso login` left */
extern const struct hr_source hr_source_shared;  /* keys of the credentials file */
extern const struct hr_source hr_source_process; /* credential_process */
extern const struct hr_source hr_source_config;  /* keys of the config file */
extern const struct hr_source hr_source_container; /* ECS, EKS Pod Identity */
extern const struct hr_source hr_source_instance;  /* EC2 instance metadata, version 2 */
extern const struct hr_source hr_source_anonymous; /* always answers */

#endif
