/* Credentials in the environment. */
#include "fetch/auth/source.h"

#include <errno.h>
#include <stdio.h>

static int load(const struct hr_source_input *input, char ret_message[256], struct hr_way *ret)
{
    const char *id = input->env(input->env_owner, "AWS_ACCESS_KEY_ID");
    const char *secret = input->env(input->env_owner, "AWS_SECRET_ACCESS_KEY");
    const char *token = input->env(input->env_owner, "AWS_SESSION_TOKEN");

    if (id == NULL) {
        return -ENOENT;
    }
    if (id[0] == '\0') {
        ret->credentials = (struct hr_credentials){.source = hr_source_anonymous.name};
        return 0;
    }
    if (secret == NULL || secret[0] == '\0') {
        (void)snprintf(ret_message, 256, "AWS_ACCESS_KEY_ID is set but AWS_SECRET_ACCESS_KEY is not");
        return -EINVAL;
    }
    return hr_credentials_make(id, secret, token, hr_source_env.name, &ret->credentials);
}

const struct hr_source hr_source_env = {"environment", load, NULL};
