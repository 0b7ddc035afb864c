/* Web identity (EKS' service accounts): a token in a file, exchanged for a role's credentials by STS,
 * unsigned. The file is replaced about every hour: it is read again before each exchange. */
#include "fetch/auth/source.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fetch/auth/ask.h"
#include "fetch/auth/files.h"
#include "fetch/auth/sts.h"

#define SESSION_NAME "headrace"

static const char *first(const char *a, const char *b)
{
    return a != NULL && a[0] != '\0' ? a : b;
}

static int take_token(const char *path, char ret_message[256], struct hr_way *ret)
{
    char *text = NULL;
    size_t len = 0;
    int r = hr_auth_read(path, &text, &len);

    if (r == 0 && text == NULL) {
        r = -ENOENT;
    }
    if (r == 0) {
        while (len > 0 && strchr(" \t\r\n", text[len - 1]) != NULL) {
            text[--len] = '\0';
        }
        r = len > 0 ? hr_way_set(ret, HR_WAY_TOKEN, text) : -ENODATA;
    }
    hr_secret_free(text);
    if (r < 0) {
        (void)snprintf(ret_message, 256, "AWS_WEB_IDENTITY_TOKEN_FILE %.160s: %s", path, strerror(-r));
        return r == -ENOMEM ? r : -EINVAL; /* -ENOENT would send the chain on */
    }
    return 0;
}

static int load(const struct hr_source_input *input, char ret_message[256], struct hr_way *ret)
{
    const struct hr_profile *profile = input->profile;
    bool by_env = !input->profile_only;
    const char *file = by_env ? input->env(input->env_owner, "AWS_WEB_IDENTITY_TOKEN_FILE") : NULL;
    const char *role = by_env ? input->env(input->env_owner, "AWS_ROLE_ARN") : NULL;
    const char *session = by_env ? input->env(input->env_owner, "AWS_ROLE_SESSION_NAME") : NULL;
    char path[HR_AUTH_PATH_BYTES];
    int r = 0;

    if (file == NULL || file[0] == '\0') {
        file = profile->web_identity_token_file;
        by_env = false;
    }
    if (file == NULL) {
        return -ENOENT;
    }
    role = first(role, profile->role_arn);
    if (role == NULL) {
        (void)snprintf(ret_message, 256, "AWS_WEB_IDENTITY_TOKEN_FILE is set but AWS_ROLE_ARN is not");
        return -EINVAL;
    }
    if (by_env) {
        r = hr_auth_path(input->env, input->env_owner, "AWS_WEB_IDENTITY_TOKEN_FILE", "", ret_message, path);
    } else {
        (void)snprintf(path, sizeof(path), "%s", file);
    }
    r = r < 0 ? r : take_token(path, ret_message, ret);
    r = r < 0 ? r : hr_sts_place(input, ret_message, ret);
    r = r < 0 ? r : hr_way_set(ret, HR_WAY_ROLE_ARN, role);
    session = first(session, first(profile->role_session_name, SESSION_NAME));
    r = r < 0 ? r : hr_way_set(ret, HR_WAY_SESSION_NAME, session);
    r = r < 0 ? r : hr_way_set(ret, HR_WAY_DURATION_S, profile->duration_seconds);
    return r < 0 ? r : hr_way_print(ret, HR_WAY_IDENTITY, "role:%s", role);
}

static void ask_for(struct hr_ask *ask)
{
    hr_sts_ask(ask, "AssumeRoleWithWebIdentity", NULL);
}

const struct hr_source hr_source_web = {"web identity", load, ask_for};
