#include "fetch/auth/chain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/auth/source.h"
#include "fetch/base/cleanup.h"

/* In the order they are asked, botocore's. A further source is one row here and one file. */
static const struct {
    const struct hr_source *source;
    bool of_profile; /* looks at the profile, so it counts for a source_profile too */
} sources[] = {
    {&hr_source_env, false},       {&hr_source_role, true},       {&hr_source_web, true},
    {&hr_source_sso, true},        {&hr_source_shared, true},     {&hr_source_process, true},
    {&hr_source_config, true},     {&hr_source_container, false}, {&hr_source_instance, false},
    {&hr_source_anonymous, false},
};
#define SOURCE_COUNT (sizeof(sources) / sizeof(sources[0]))
#define DEPTH_MAX 5 /* of roles that are assumed as roles; more is a circle */

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
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_CA_BUNDLE",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_STS",
    "AWS_ENDPOINT_URL_SSO",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_EC2_METADATA_DISABLED",
    "AWS_EC2_METADATA_SERVICE_ENDPOINT",
    "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE",
};
#define VARIABLE_COUNT (sizeof(variables) / sizeof(variables[0]))

struct hr_chain {
    unsigned refs;
    char *values[VARIABLE_COUNT]; /* NULL: not set */
    struct hr_way way;
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

static int check_keys(const struct hr_credentials *found, char ret_message[256])
{
    const char *what = "";
    int r = hr_credentials_check(found, &what);

    if (r < 0) {
        (void)snprintf(ret_message, 256,
                       "the %s from the %s has a blank, a line end or another byte that keys cannot have",
                       what, found->source);
    }
    return r;
}

/* The first source that has something to say. from: its row at least. */
static int ask_sources(const struct hr_source_input *input, size_t from, char ret_message[256],
                       struct hr_way *ret)
{
    hr_cleanup(hr_way_release) struct hr_way found = {0};
    int r = -ENOENT;

    for (size_t i = from; i < SOURCE_COUNT && r == -ENOENT; i++) {
        if (input->profile_only && !sources[i].of_profile) {
            continue;
        }
        hr_way_release(&found);
        r = sources[i].source->load(input, ret_message, &found);
        found.source = sources[i].source;
    }
    if (r == 0 && found.source->ask == NULL) {
        r = check_keys(&found.credentials, ret_message);
    }
    if (r < 0) {
        return r;
    }
    *ret = found;
    found = (struct hr_way){0};
    return 0;
}

static size_t row_after(const struct hr_source *source)
{
    size_t i = 0;

    while (i < SOURCE_COUNT && sources[i].source != source) {
        i++;
    }
    return i + 1;
}

/* For source_profile. Keys of that profile go before its own role, as in botocore. */
static int by_profile(const struct hr_source_input *input, const char *name, char ret_message[256],
                      struct hr_way *ret)
{
    hr_cleanup(hr_profile_release) struct hr_profile profile = {0};
    int r;

    if (input->depth >= DEPTH_MAX) {
        (void)snprintf(ret_message, 256, "profile %.100s: source_profile leads in a circle", name);
        return -EINVAL;
    }
    r = hr_profile_load(input->env, input->env_owner, name, ret_message, &profile);
    if (r < 0) {
        return r == -ENOENT ? -EINVAL : r;
    }
    struct hr_source_input inner = *input;
    inner.profile = &profile;
    inner.profile_only = true;
    inner.depth++;
    bool has_keys = profile.shared.access_key_id != NULL || profile.config.access_key_id != NULL;
    return ask_sources(&inner, has_keys ? row_after(&hr_source_role) : 0, ret_message, ret);
}

static char *identity_of(const struct hr_way *way, const struct hr_profile *profile)
{
    const struct hr_credentials *who = &way->credentials;
    bool from_profile = way->source == &hr_source_shared || way->source == &hr_source_config;
    char *text = NULL;
    int len;

    if (way->text[HR_WAY_IDENTITY] != NULL) {
        return strdup(way->text[HR_WAY_IDENTITY]);
    }
    if (who->access_key_id == NULL) {
        return strdup("anonymous");
    }
    if (from_profile && who->session_token != NULL) {
        len = asprintf(&text, "profile:%s", profile->name);
    } else {
        len = asprintf(&text, "key:%s", who->access_key_id);
    }
    return len < 0 ? NULL : text;
}

/* Keys in files may be replaced by others; a way stays the way that it was. */
static bool is_another(const struct hr_chain *chain, const struct hr_way *fresh)
{
    const char *held = chain->way.text[HR_WAY_IDENTITY];
    const char *now = fresh->text[HR_WAY_IDENTITY];

    return chain->way.source != NULL &&
           ((held == NULL) != (now == NULL) || (held != NULL && strcmp(held, now) != 0));
}

/* Changes the chain only when everything was read. */
static int load(struct hr_chain *chain, char ret_message[256])
{
    hr_cleanup(hr_profile_release) struct hr_profile profile = {0};
    hr_cleanup(hr_way_release) struct hr_way way = {0};
    int r;

    (void)snprintf(ret_message, 256, "out of memory");
    r = hr_profile_load(copied_env, chain, NULL, ret_message, &profile);
    if (r < 0) {
        return r;
    }
    struct hr_source_input input = {copied_env, chain, &profile, false, 0, by_profile};
    r = ask_sources(&input, 0, ret_message, &way);
    if (r < 0) {
        return r;
    }
    if (is_another(chain, &way)) {
        (void)snprintf(ret_message, 256, "the AWS files name other credentials than when the job started");
        return -EINVAL;
    }
    ret_message[0] = '\0';
    r = hr_credentials_equal(&way.credentials, &chain->way.credentials) ? 0 : 1;
    hr_way_release(&chain->way);
    hr_profile_release(&chain->profile);
    chain->way = way;
    chain->profile = profile;
    way = (struct hr_way){0};
    profile = (struct hr_profile){0};
    return r;
}

int hr_chain_new(hr_env_fn env, void *env_owner, char ret_message[256], struct hr_chain **ret)
{
    struct hr_chain *chain = calloc(1, sizeof(*chain));
    int r = chain != NULL ? 0 : -ENOMEM;

    if (chain != NULL) {
        chain->refs = 1;
    }
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

void hr_chain_ref(struct hr_chain *chain)
{
    chain->refs++;
}

void hr_chain_free(struct hr_chain *chain)
{
    if (chain == NULL || --chain->refs > 0) {
        return;
    }
    for (size_t i = 0; i < VARIABLE_COUNT; i++) {
        hr_secret_free(chain->values[i]);
    }
    hr_way_release(&chain->way);
    hr_profile_release(&chain->profile);
    free(chain);
}

int hr_chain_reload(struct hr_chain *chain, char ret_message[256])
{
    return load(chain, ret_message);
}

const struct hr_credentials *hr_chain_credentials(const struct hr_chain *chain)
{
    return &chain->way.credentials;
}

const struct hr_profile *hr_chain_profile(const struct hr_chain *chain)
{
    return &chain->profile;
}

const struct hr_way *hr_chain_way(const struct hr_chain *chain)
{
    return chain->way.source->ask != NULL ? &chain->way : NULL;
}

bool hr_chain_same(const struct hr_chain *a, const struct hr_chain *b)
{
    for (size_t i = 0; i < VARIABLE_COUNT; i++) {
        const char *one = a->values[i], *other = b->values[i];

        if ((one == NULL) != (other == NULL) || (one != NULL && strcmp(one, other) != 0)) {
            return false;
        }
    }
    return true;
}

char *hr_chain_identity(const struct hr_chain *chain)
{
    return identity_of(&chain->way, &chain->profile);
}
