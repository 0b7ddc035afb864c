/* role_arn of a profile: STS AssumeRole, signed with the credentials of source_profile or credential_source.
 */
#include "fetch/auth/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/auth/ask.h"
#include "fetch/auth/sts.h"

#define SESSION_NAME "headrace" /* in CloudTrail, and for policies on sts:RoleSessionName */

static int no_base(const struct hr_profile *profile, const char *key, const char *value,
                   char ret_message[256])
{
    (void)snprintf(ret_message, 256, "profile %.60s: role_arn with %s = %.60s, which gives no credentials",
                   profile->name, key, value);
    return -EINVAL;
}

static int load_source(const struct hr_source_input *input, char ret_message[256], struct hr_way *ret)
{
    static const struct {
        const char *name;
        const struct hr_source *source;
    } known[] = {
        {"Environment", &hr_source_env},
        {"Ec2InstanceMetadata", &hr_source_instance},
        {"EcsContainer", &hr_source_container},
    };
    const char *asked = input->profile->credential_source;

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(asked, known[i].name) == 0) {
            int r = known[i].source->load(input, ret_message, ret);

            ret->source = known[i].source;
            if (r == 0 && ret->source->ask == NULL && ret->credentials.access_key_id == NULL) {
                r = -ENOENT;
            }
            return r == -ENOENT ? no_base(input->profile, "credential_source", asked, ret_message) : r;
        }
    }
    return no_base(input->profile, "credential_source", asked, ret_message);
}

static int load_base(const struct hr_source_input *input, char ret_message[256], struct hr_way *ret)
{
    const struct hr_profile *profile = input->profile;
    int r;

    if ((profile->source_profile == NULL) == (profile->credential_source == NULL)) {
        (void)snprintf(ret_message, 256,
                       "profile %.60s: role_arn needs source_profile or credential_source, one of them",
                       profile->name);
        return -EINVAL;
    }
    if (profile->credential_source != NULL) {
        return load_source(input, ret_message, ret);
    }
    r = input->by_profile(input, profile->source_profile, ret_message, ret);
    return r == -ENOENT ? no_base(profile, "source_profile", profile->source_profile, ret_message) : r;
}

static int load(const struct hr_source_input *input, char ret_message[256], struct hr_way *ret)
{
    const struct hr_profile *profile = input->profile;
    const char *session = profile->role_session_name;
    int r;

    if (profile->role_arn == NULL || profile->web_identity_token_file != NULL) {
        return -ENOENT;
    }
    if (profile->mfa_serial != NULL) {
        (void)snprintf(ret_message, 256,
                       "profile %.60s asks for a code (mfa_serial), which a daemon cannot: export keys (aws "
                       "configure export-credentials --format env)",
                       profile->name);
        return -EINVAL;
    }
    ret->base = calloc(1, sizeof(*ret->base));
    if (ret->base == NULL) {
        return -ENOMEM;
    }
    r = load_base(input, ret_message, ret->base);
    r = r < 0 ? r : hr_sts_place(input, ret_message, ret);
    r = r < 0 ? r : hr_way_set(ret, HR_WAY_ROLE_ARN, profile->role_arn);
    r = r < 0 ? r : hr_way_set(ret, HR_WAY_SESSION_NAME, session != NULL ? session : SESSION_NAME);
    r = r < 0 ? r : hr_way_set(ret, HR_WAY_EXTERNAL_ID, profile->external_id);
    r = r < 0 ? r : hr_way_set(ret, HR_WAY_DURATION_S, profile->duration_seconds);
    return r < 0 ? r : hr_way_print(ret, HR_WAY_IDENTITY, "role:%s", profile->role_arn);
}

static void on_base(struct hr_ask *base)
{
    struct hr_ask *ask = base->owner;

    if (base->error != 0) {
        hr_ask_fail(ask, base->error, "%.255s", base->message);
    } else if (base->credentials.access_key_id == NULL) {
        hr_ask_fail(ask, -EACCES, "%.100s: the %s has no credentials to assume it with",
                    ask->way->text[HR_WAY_ROLE_ARN], base->way->source->name);
    } else {
        hr_sts_ask(ask, "AssumeRole", &base->credentials);
    }
}

static void ask_for(struct hr_ask *ask)
{
    const struct hr_way *base = ask->way->base;

    if (base->source->ask == NULL) {
        hr_sts_ask(ask, "AssumeRole", &base->credentials);
        return;
    }
    ask->base = hr_ask_new(ask->loop, ask->http, base, on_base, ask);
    if (ask->base == NULL || hr_ask_start(ask->base) < 0) {
        hr_ask_fail(ask, -ENOMEM, "out of memory");
    }
}

const struct hr_source hr_source_role = {"role", load, ask_for};
