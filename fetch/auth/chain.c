#include "fetch/auth/chain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/auth/source.h"
#include "fetch/base/cleanup.h"

/* In the order they are asked. A further source is one row here and one file. */
static const struct hr_source *const sources[] = {
    &hr_source_env,
    &hr_source_files,
    &hr_source_anonymous,
};

/* What the sources may ask for. */
static const char *const variables[] = {
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_CONFIG_FILE",
    "HOME",
    "PWD",
};
#define VARIABLE_COUNT (sizeof(variables) / sizeof(variables[0]))

struct hr_chain {
    char *values[VARIABLE_COUNT]; /* NULL: not set */
    struct hr_credentials credentials;
    struct hr_profile profile;
};

static const char *copied_env(void *owner, const char *name)
{
    const struct hr_chain *chain = owner;

    for (size_t i = 0; i < VARIABLE_COUNT; i++) {
        if (strcmp(variables[i], name) == 0) {
            return chain->values[i];
        }
    }
    return NULL;
}

static int ask_sources(const struct hr_source_input *input, char ret_message[256], struct hr_credentials *ret)
{
    hr_cleanup(hr_credentials_release) struct hr_credentials found = {0};
    const char *what = "";
    int r = -ENOENT;

    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]) && r == -ENOENT; i++) {
        r = sources[i]->load(input, ret_message, &found);
    }
    if (r < 0) {
        return r;
    }
    r = hr_credentials_check(&found, &what);
    if (r < 0) {
        (void)snprintf(ret_message, 256,
                       "the %s from the %s has a blank, a line end or another byte that keys cannot have",
                       what, found.source);
        return r;
    }
    *ret = found;
    found = (struct hr_credentials){0};
    return 0;
}

/* Changes the chain only when everything was read. */
static int load(struct hr_chain *chain, char ret_message[256])
{
    hr_cleanup(hr_profile_release) struct hr_profile profile = {0};
    struct hr_credentials credentials = {0};
    int r;

    (void)snprintf(ret_message, 256, "out of memory");
    r = hr_profile_load(copied_env, chain, ret_message, &profile);
    if (r < 0) {
        return r;
    }
    struct hr_source_input input = {copied_env, chain, &profile};
    r = ask_sources(&input, ret_message, &credentials);
    if (r < 0) {
        return r;
    }
    ret_message[0] = '\0';
    r = hr_credentials_equal(&credentials, &chain->credentials) ? 0 : 1;
    hr_credentials_release(&chain->credentials);
    hr_profile_release(&chain->profile);
    chain->credentials = credentials;
    chain->profile = profile;
    profile = (struct hr_profile){0};
    return r;
}

int hr_chain_new(hr_env_fn env, void *env_owner, char ret_message[256], struct hr_chain **ret)
{
    struct hr_chain *chain = calloc(1, sizeof(*chain));
    int r = chain != NULL ? 0 : -ENOMEM;

    for (size_t i = 0; i < VARIABLE_COUNT && r == 0; i++) {
        const char *value = env(env_owner, variables[i]);

        if (value != NULL) {
            chain->values[i] = strdup(value);
            r = chain->values[i] != NULL ? 0 : -ENOMEM;
        }
    }
    if (r < 0) {
        (void)snprintf(ret_message, 256, "out of memory");
    } else {
        r = load(chain, ret_message);
    }
    if (r < 0) {
        hr_chain_free(chain);
        return r;
    }
    *ret = chain;
    return 0;
}

void hr_chain_free(struct hr_chain *chain)
{
    if (chain == NULL) {
        return;
    }
    for (size_t i = 0; i < VARIABLE_COUNT; i++) {
        hr_secret_free(chain->values[i]);
    }
    hr_credentials_release(&chain->credentials);
    hr_profile_release(&chain->profile);
    free(chain);
}

int hr_chain_reload(struct hr_chain *chain, char ret_message[256])
{
    return load(chain, ret_message);
}

const struct hr_credentials *hr_chain_credentials(const struct hr_chain *chain)
{
    return &chain->credentials;
}

const struct hr_profile *hr_chain_profile(const struct hr_chain *chain)
{
    return &chain->profile;
}

char *hr_chain_identity(const struct hr_chain *chain)
{
    const struct hr_credentials *who = &chain->credentials;
    bool from_profile = who->source == hr_source_files.name;
    char *text = NULL;
    int len;

    if (who->access_key_id == NULL) {
        return strdup("anonymous");
    }
    if (from_profile && who->session_token != NULL) {
        len = asprintf(&text, "profile:%s", chain->profile.name);
    } else {
        len = asprintf(&text, "key:%s", who->access_key_id);
    }
    return len < 0 ? NULL : text;
}
