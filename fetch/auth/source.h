/* A source of credentials: one row of the chain's table and one file. Any thread; may read files, never asks
 * the network. */
#ifndef HR_AUTH_SOURCE_H
#define HR_AUTH_SOURCE_H

#include "fetch/auth/credentials.h"
#include "fetch/auth/env.h"
#include "fetch/auth/profile.h"

struct hr_source_input {
    hr_env_fn env;
    void *env_owner;
    const struct hr_profile *profile;
};

struct hr_source {
    const char *name;
    /* 0: ret filled (access_key_id NULL: anonymous is what was asked for); -ENOENT: not configured, the next
     * source is asked; anything else: configured but unusable, the chain stops and ret_message says why,
     * without a secret. */
    int (*load)(const struct hr_source_input *input, char ret_message[256], struct hr_credentials *ret);
};

extern const struct hr_source hr_source_env;       /* AWS_ACCESS_KEY_ID, ...; set but empty means anonymous */
extern const struct hr_source hr_source_files;     /* the profile's keys */
extern const struct hr_source hr_source_anonymous; /* always answers */

#endif
