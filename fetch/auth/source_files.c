/* Keys written in the AWS files: the credentials file's before the config file's. */
#include "fetch/auth/source.h"

#include <errno.h>
#include <stdio.h>

static int load(const struct hr_source_input *input, char ret_message[256], struct hr_credentials *ret)
{
    const struct hr_profile *profile = input->profile;
    const struct hr_profile_keys *keys =
        profile->shared.access_key_id != NULL ? &profile->shared : &profile->config;
    bool has_keys = keys->access_key_id != NULL;

    if (profile->method != NULL && (profile->method_wins || !has_keys)) {
        (void)snprintf(ret_message, 256,
                       "profile %.60s gets its credentials by %s, which this version cannot do: export keys "
                       "(aws configure export-credentials --format env)",
                       profile->name, profile->method);
        return -EINVAL;
    }
    if (!has_keys) {
        return -ENOENT;
    }
    if (keys->secret == NULL) {
        (void)snprintf(ret_message, 256, "profile %.60s has aws_access_key_id but no aws_secret_access_key",
                       profile->name);
        return -EINVAL;
    }
    return hr_credentials_make(keys->access_key_id, keys->secret, keys->session_token, hr_source_files.name,
                               ret);
}

const struct hr_source hr_source_files = {"profile", load};
