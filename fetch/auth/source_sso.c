/* IAM Identity Center: the token that `aws sso login` keeps in ~/.aws/sso/cache gives a role's credentials.
 * The file is only read: who logs in, and who renews the login, is the aws command. */
#include "fetch/auth/source.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fetch/auth/ask.h"
#include "fetch/auth/documents.h"
#include "fetch/auth/files.h"
#include "fetch/base/buf.h"
#include "fetch/base/cleanup.h"
#include "fetch/base/clock.h"
#include "fetch/base/digest.h"
#include "fetch/base/text.h"

#define TRIES 3            /* as with STS */
#define TRY_MS 10000       /* as with STS */
#define URL_MAX_BYTES 4096 /* account and role, percent-encoded, are some hundred */

static int say_login(const struct hr_profile *profile, const char *why, char ret_message[256])
{
    (void)snprintf(ret_message, 256, "profile %.60s: %s; run: aws sso login --profile %.60s", profile->name,
                   why, profile->name);
    return -EACCES;
}

static int take_token(const struct hr_source_input *input, char ret_message[256], struct hr_way *ret)
{
    const struct hr_profile *profile = input->profile;
    const char *named = profile->sso_session != NULL ? profile->sso_session : profile->sso_start_url;
    char hex[2 * HR_SHA1_BYTES + 1], below_home[sizeof(hex) + 32], path[HR_AUTH_PATH_BYTES];
    uint8_t digest[HR_SHA1_BYTES];
    char *text = NULL;
    size_t len = 0;
    int r = hr_digest(HR_DIGEST_SHA1, named, strlen(named), digest);

    if (r < 0) {
        return r;
    }
    hr_hex_encode(digest, sizeof(digest), hex);
    (void)snprintf(below_home, sizeof(below_home), ".aws/sso/cache/%s.json", hex);
    /* No variable names it: the empty name is never set. */
    r = hr_auth_path(input->env, input->env_owner, "", below_home, ret_message, path);
    r = r < 0 ? r : hr_auth_read(path, &text, &len);
    if (r == 0 && text == NULL) {
        return say_login(profile, "nobody has logged in", ret_message);
    }
    if (r == 0) {
        r = hr_document_sso_token(text, len, hr_clock_wall_ns() / 1000000, &ret->text[HR_WAY_TOKEN]);
        hr_secret_zero(text, len);
        free(text);
    }
    if (r == -ESTALE) {
        return say_login(profile, "the login has expired", ret_message);
    }
    if (r == -ENOMEM) {
        return r;
    }
    return r < 0 ? say_login(profile, "the kept login cannot be read", ret_message) : 0;
}

static int make_url(const struct hr_source_input *input, struct hr_way *ret)
{
    const struct hr_profile *profile = input->profile;
    const char *endpoint = input->env(input->env_owner, "AWS_ENDPOINT_URL_SSO");
    hr_cleanup(hr_buf_release) struct hr_buf url = HR_BUF_INIT(URL_MAX_BYTES);
    int r;

    if (endpoint != NULL && endpoint[0] != '\0') {
        r = hr_buf_printf(&url, "%s", endpoint);
    } else {
        r = hr_buf_printf(&url, "https://portal.sso.%s.amazonaws.com%s", profile->sso_region,
                          strncmp(profile->sso_region, "cn-", 3) == 0 ? ".cn" : "");
    }
    r = r < 0 ? r : hr_buf_puts(&url, "/federation/credentials?role_name=");
    r = r < 0 ? r : hr_percent_encode(profile->sso_role_name, strlen(profile->sso_role_name), false, &url);
    r = r < 0 ? r : hr_buf_puts(&url, "&account_id=");
    r = r < 0 ? r : hr_percent_encode(profile->sso_account_id, strlen(profile->sso_account_id), false, &url);
    return r < 0 ? r : hr_way_set(ret, HR_WAY_URL, url.data);
}

static int load(const struct hr_source_input *input, char ret_message[256], struct hr_way *ret)
{
    const struct hr_profile *profile = input->profile;
    const char *ca_bundle = input->env(input->env_owner, "AWS_CA_BUNDLE");
    int r;

    if (profile->sso_session == NULL && profile->sso_start_url == NULL) {
        return -ENOENT;
    }
    if (profile->sso_account_id == NULL && profile->sso_role_name == NULL && profile->sso_session != NULL) {
        return -ENOENT; /* a session for tokens of other services */
    }
    if (profile->sso_account_id == NULL || profile->sso_role_name == NULL || profile->sso_region == NULL ||
        strspn(profile->sso_region, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(profile->sso_region)) {
        (void)snprintf(
            ret_message, 256,
            "profile %.60s: SSO needs sso_account_id, sso_role_name, and sso_region in the profile or "
            "in its [sso-session ...]",
            profile->name);
        return -EINVAL;
    }
    r = take_token(input, ret_message, ret);
    r = r < 0 ? r : make_url(input, ret);
    r = r < 0 ? r : hr_way_set(ret, HR_WAY_ACCOUNT, profile->sso_account_id);
    r = r < 0 ? r : hr_way_set(ret, HR_WAY_ROLE_NAME, profile->sso_role_name);
    r = r < 0 ? r
              : hr_way_set(ret, HR_WAY_CA_BUNDLE,
                           ca_bundle != NULL && ca_bundle[0] != '\0' ? ca_bundle : profile->ca_bundle);
    return r < 0 ? r
                 : hr_way_print(ret, HR_WAY_IDENTITY, "sso:%s/%s", profile->sso_account_id,
                                profile->sso_role_name);
}

static void on_answer(struct hr_ask *ask)
{
    const struct hr_http_request *request = ask->request;
    struct hr_credentials found = {0};
    struct hr_refusal refusal = {0};
    char said[128];

    hr_ask_say_answer(ask, said);
    if (request->error != 0 || request->status >= 500) {
        hr_ask_fail(ask, -EIO, "SSO at %.80s: %s", ask->way->text[HR_WAY_URL], said);
    } else if (request->status == 401) {
        hr_ask_fail(ask, -EACCES, "SSO: the login is no longer valid; run: aws sso login");
    } else if (request->status != 200) {
        hr_ask_fail(ask, -EACCES, "SSO does not give the role %.60s of %.20s: %s",
                    ask->way->text[HR_WAY_ROLE_NAME], ask->way->text[HR_WAY_ACCOUNT], said);
    } else if (hr_document_json(HR_DOCUMENT_SSO, request->body.data != NULL ? request->body.data : "",
                                request->body.len, &found, &refusal) < 0) {
        hr_ask_fail(ask, -EIO, "SSO at %.80s: an answer without credentials", ask->way->text[HR_WAY_URL]);
    } else {
        hr_ask_give(ask, &found);
    }
}

static void ask_for(struct hr_ask *ask)
{
    if (hr_ask_request(ask, HR_HTTP_GET, ask->way->text[HR_WAY_URL]) == 0 &&
        hr_ask_header(ask, "x-amz-sso_bearer_token", ask->way->text[HR_WAY_TOKEN]) == 0) {
        hr_ask_send(ask, TRIES, TRY_MS, on_answer);
    }
}

const struct hr_source hr_source_sso = {"SSO", load, ask_for};
