/* Keys written in the AWS files. */
#include "fetch/auth/source.h"

#include <errno.h>
#include <stdio.h>

static int take_keys(const struct hr_profile *profile, const struct hr_profile_keys *keys, const char *name,
                     char ret_message[256], struct hr_way *ret)
{
    if (keys->access_key_id == NULL) {
        return -ENOENT;
    }
    if (keys->secret == NULL) {
        (void)snprintf(ret_message, 256, "profile %.60s has aws_access_key_id but no aws_secret_access_key",
                       profile->name);
        return -EINVAL;
    }
    return hr_credentials_make(keys->access_key_id, keys->secret, keys->session_token, name,
                               &ret->credentials);
}

static int load_shared(const struct hr_source_input *input, char ret_message[256], struct hr_way *ret)
{
    return take_keys(input->profile, &input->profile->shared, hr_source_shared.name, ret_message, ret);
}

static int load_config(const struct hr_source_input *input, char ret_message[256], struct hr_way *ret)
{
    const struct hr_profile *profile = input->profile;
    int r = take_keys(profile, &profile->config, hr_source_config.name, ret_message, ret);

    if (r == -ENOENT && profile->login_session != NULL) {
        (void)snprintf(ret_message, 256,
                       "profile %.40s has a login_session, which headrace cannot use: set "
                       "credential_process = aws configure export-credentials --profile %.40s",
                       profile->name, profile->name);
        return -EINVAL;
    }
    return r;
}

const struct hr_source hr_source_shared = {"profile", load_shared, NULL};
const struct hr_source hr_source_config = {"profile's config", load_config, NULL};
