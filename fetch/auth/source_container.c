/* The endpoint of a container's agent: ECS (a path on its address) and EKS Pod Identity (a URL and a token).
 */
#include "fetch/auth/source.h"

#include <errno.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "fetch/auth/ask.h"
#include "fetch/auth/documents.h"
#include "fetch/auth/files.h"
#include "fetch/base/cleanup.h"

#define TRIES 3     /* botocore's */
#define TRY_MS 2000 /* botocore's; the agent is on this machine */
#define AGENT "http://169.254.170.2"
#define TOKEN_FILE "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"

/* Plain http is for hosts that cannot be elsewhere: loopback, ECS' and EKS' agents (the SDKs' rule). */
static bool is_near(const char *url)
{
    static const char *const near[] = {"169.254.170.2", "169.254.170.23", "[fd00:ec2::23]", "[::1]",
                                       "localhost"};
    const char *host = url + 7; /* "http://" */
    size_t len = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?");
    char name[64];
    struct in_addr v4;

    if (len >= sizeof(name) || strchr("/:?", host[len]) == NULL) {
        return false;
    }
    (void)snprintf(name, sizeof(name), "%.*s", (int)len, host);
    for (size_t i = 0; i < sizeof(near) / sizeof(near[0]); i++) {
        if (strcmp(name, near[i]) == 0) {
            return true;
        }
    }
    return inet_pton(AF_INET, name, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

static int take_url(const char *relative, const char *full, char ret_message[256], struct hr_way *ret)
{
    if (relative != NULL && relative[0] != '\0') {
        if (relative[0] != '/') {
            (void)snprintf(ret_message, 256,
                           "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI does not begin with a /");
            return -EINVAL;
        }
        return hr_way_print(ret, HR_WAY_URL, AGENT "%s", relative);
    }
    if (strncmp(full, "https://", 8) != 0 && !(strncmp(full, "http://", 7) == 0 && is_near(full))) {
        (void)snprintf(
            ret_message, 256,
            "AWS_CONTAINER_CREDENTIALS_FULL_URI %.100s: https, or http to this machine, 169.254.170.2, "
            "169.254.170.23 or fd00:ec2::23",
            full);
        return -EINVAL;
    }
    return hr_way_set(ret, HR_WAY_URL, full);
}

/* The file is replaced while the job runs: it is read again before each request. */
static int take_token(const struct hr_source_input *input, char ret_message[256], struct hr_way *ret)
{
    const char *file = input->env(input->env_owner, TOKEN_FILE);
    const char *token = input->env(input->env_owner, "AWS_CONTAINER_AUTHORIZATION_TOKEN");
    char path[HR_AUTH_PATH_BYTES];
    char *text = NULL;
    size_t len = 0;
    int r = 0;

    if (file != NULL && file[0] != '\0') {
        r = hr_auth_path(input->env, input->env_owner, TOKEN_FILE, "", ret_message, path);
        r = r < 0 ? r : hr_auth_read(path, &text, &len);
        if (r < 0 || text == NULL) {
            (void)snprintf(ret_message, 256, TOKEN_FILE " %.150s: %s", file, strerror(r < 0 ? -r : ENOENT));
            return -EINVAL;
        }
        while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r')) {
            text[--len] = '\0';
        }
        token = text;
    }
    if (token != NULL && strpbrk(token, "\r\n") != NULL) {
        (void)snprintf(ret_message, 256, "the container's authorization token has a line end in it");
        r = -EINVAL;
    }
    r = r < 0 ? r : hr_way_set(ret, HR_WAY_TOKEN, token);
    hr_secret_free(text);
    return r;
}

static int load(const struct hr_source_input *input, char ret_message[256], struct hr_way *ret)
{
    const char *relative = input->env(input->env_owner, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *full = input->env(input->env_owner, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
    int r;

    if ((relative == NULL || relative[0] == '\0') && (full == NULL || full[0] == '\0')) {
        return -ENOENT;
    }
    r = take_url(relative, full, ret_message, ret);
    r = r < 0 ? r : take_token(input, ret_message, ret);
    r = r < 0 ? r : hr_way_set(ret, HR_WAY_CA_BUNDLE, input->env(input->env_owner, "AWS_CA_BUNDLE"));
    return r < 0 ? r : hr_way_print(ret, HR_WAY_IDENTITY, "container:%s", ret->text[HR_WAY_URL]);
}

static void on_answer(struct hr_ask *ask)
{
    const struct hr_http_request *request = ask->request;
    const char *body = request->body.data != NULL ? request->body.data : "";
    const char *url = ask->way->text[HR_WAY_URL];
    struct hr_credentials found = {0};
    struct hr_refusal refusal = {0};
    char said[128];
    int r = -EPROTO;

    hr_ask_say_answer(ask, said);
    if (request->error == 0) {
        r = hr_document_json(HR_DOCUMENT_SERVICE, body, request->body.len, &found, &refusal);
    }
    if (request->error == 0 && request->status == 200 && r == 0) {
        hr_ask_give(ask, &found);
        return;
    }
    hr_credentials_release(&found);
    bool refused = request->error == 0 && request->status >= 400 && request->status < 500;
    hr_ask_fail(ask, refused ? -EACCES : -EIO, "the container's credentials at %.70s: %.60s %.30s %.60s", url,
                said, refusal.code, refusal.text);
}

static void ask_for(struct hr_ask *ask)
{
    const char *token = ask->way->text[HR_WAY_TOKEN];

    if (hr_ask_request(ask, HR_HTTP_GET, ask->way->text[HR_WAY_URL]) == 0 &&
        (token == NULL || hr_ask_header(ask, "authorization", token) == 0)) {
        hr_ask_send(ask, TRIES, TRY_MS, on_answer);
    }
}

const struct hr_source hr_source_container = {"container", load, ask_for};
