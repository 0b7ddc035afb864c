/* EC2 instance metadata, version 2: a token by PUT, the role's name, the role's keys.
 *
 * Last in the chain, so it must cost nothing where there is none: it is asked on machines whose firmware says
 * that they are Amazon's, or where an endpoint is named. */
#include "fetch/auth/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "fetch/auth/ask.h"
#include "fetch/auth/documents.h"
#include "fetch/base/cleanup.h"
#include "fetch/base/text.h"

#define TRIES 2              /* ours; one may get lost */
#define TRY_MS 1000          /* botocore's: on the machine it answers in a millisecond, elsewhere never */
#define TOKEN_LIFE_S "21600" /* the longest that is given */
#define ADDRESS "http://169.254.169.254"
#define ADDRESS_V6 "http://[fd00:ec2::254]"
#define ROLES "/latest/meta-data/iam/security-credentials/"
#define ROLE_MAX_BYTES 64 /* of IAM */

enum stage { STAGE_TOKEN, STAGE_ROLE, STAGE_KEYS };

static bool firmware_says(const char *path, const char *word)
{
    hr_cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char text[128];
    ssize_t got = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

    if (got <= 0) {
        return false;
    }
    text[got] = '\0';
    return strcasestr(text, word) != NULL;
}

static bool is_amazons(void)
{
    return firmware_says("/sys/class/dmi/id/sys_vendor", "amazon ec2") ||
           firmware_says("/sys/class/dmi/id/bios_version", "amazon") ||
           firmware_says("/sys/hypervisor/uuid", "ec2");
}

static int load(const struct hr_source_input *input, char ret_message[256], struct hr_way *ret)
{
    const char *disabled = input->env(input->env_owner, "AWS_EC2_METADATA_DISABLED");
    const char *endpoint = input->env(input->env_owner, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
    const char *mode = input->env(input->env_owner, "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
    bool named = endpoint != NULL && endpoint[0] != '\0';
    int r;

    if (disabled != NULL && strcasecmp(disabled, "true") == 0) {
        return -ENOENT;
    }
    if (named && strncmp(endpoint, "http://", 7) != 0 && strncmp(endpoint, "https://", 8) != 0) {
        (void)snprintf(ret_message, 256, "AWS_EC2_METADATA_SERVICE_ENDPOINT %.100s: give http://HOST",
                       endpoint);
        return -EINVAL;
    }
    if (!named) {
        endpoint = mode != NULL && strcasecmp(mode, "ipv6") == 0 ? ADDRESS_V6 : ADDRESS;
        if (!is_amazons()) {
            return -ENOENT;
        }
    }
    size_t len = strlen(endpoint);
    while (len > 0 && endpoint[len - 1] == '/') {
        len--;
    }
    r = hr_way_print(ret, HR_WAY_URL, "%.*s", (int)len, endpoint);
    if (r < 0 || !named) {
        return r < 0 ? r : hr_way_set(ret, HR_WAY_IDENTITY, "instance");
    }
    return hr_way_print(ret, HR_WAY_IDENTITY, "instance:%s", ret->text[HR_WAY_URL]);
}

static void on_answer(struct hr_ask *ask);

static void ask_path(struct hr_ask *ask, enum stage stage, const char *path, const char *more)
{
    enum hr_http_method method = stage == STAGE_TOKEN ? HR_HTTP_PUT : HR_HTTP_GET;
    char url[512];

    ask->stage = stage;
    if (snprintf(url, sizeof(url), "%s%s%s", ask->way->text[HR_WAY_URL], path, more) >= (int)sizeof(url)) {
        hr_ask_fail(ask, -EIO, "the metadata service: the address is too long");
        return;
    }
    if (hr_ask_request(ask, method, url) < 0) {
        return;
    }
    if (stage == STAGE_TOKEN ? hr_ask_header(ask, "x-aws-ec2-metadata-token-ttl-seconds", TOKEN_LIFE_S) == 0
                             : hr_ask_header(ask, "x-aws-ec2-metadata-token", ask->token) == 0) {
        hr_ask_send(ask, TRIES, TRY_MS, on_answer);
    }
}

static void give_nothing(struct hr_ask *ask)
{
    struct hr_credentials none = {0};

    hr_ask_give(ask, &none);
}

static void take_token(struct hr_ask *ask, const char *body)
{
    hr_secret_free(ask->token);
    ask->token = strdup(body);
    if (ask->token == NULL) {
        hr_ask_fail(ask, -ENOMEM, "out of memory");
        return;
    }
    ask->token[strcspn(ask->token, "\r\n")] = '\0';
    ask_path(ask, STAGE_ROLE, ROLES, "");
}

static void take_role(struct hr_ask *ask, const char *body)
{
    char role[ROLE_MAX_BYTES + 2];
    size_t len = strspn(body, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+=,.@_-");

    if (len == 0) {
        give_nothing(ask);
        return;
    }
    (void)snprintf(role, sizeof(role), "%.*s", (int)(len <= ROLE_MAX_BYTES ? len : ROLE_MAX_BYTES), body);
    ask_path(ask, STAGE_KEYS, ROLES, role);
}

static void take_keys(struct hr_ask *ask, const char *body, size_t len)
{
    struct hr_credentials found = {0};
    struct hr_refusal refusal = {0};
    int r = hr_document_json(HR_DOCUMENT_SERVICE, body, len, &found, &refusal);

    if (r == 0) {
        hr_ask_give(ask, &found);
    } else if (r == -EREMOTEIO) {
        hr_ask_fail(ask, -EACCES, "the instance's role: %s %s", refusal.code, refusal.text);
    } else {
        hr_ask_fail(ask, -EIO, "the metadata service: an answer without credentials");
    }
}

static void on_answer(struct hr_ask *ask)
{
    const struct hr_http_request *request = ask->request;
    const char *body = request->body.data != NULL ? request->body.data : "";
    bool good = request->error == 0 && request->status == 200;
    char said[128];

    hr_ask_say_answer(ask, said);
    if (good && ask->stage == STAGE_TOKEN) {
        take_token(ask, body);
    } else if (good && ask->stage == STAGE_ROLE) {
        take_role(ask, body);
    } else if (good) {
        take_keys(ask, body, request->body.len);
    } else if ((ask->stage == STAGE_TOKEN && request->error != 0) ||
               (ask->stage == STAGE_ROLE && request->error == 0 && request->status == 404)) {
        give_nothing(ask); /* no such service (or too many hops away from it), no role */
    } else {
        bool refused = request->error == 0 && request->status < 500;
        hr_ask_fail(ask, refused ? -EACCES : -EIO, "the metadata service at %.80s: %s",
                    ask->way->text[HR_WAY_URL], said);
    }
}

static void ask_for(struct hr_ask *ask)
{
    ask_path(ask, STAGE_TOKEN, "/latest/api/token", "");
}

const struct hr_source hr_source_instance = {"instance metadata", load, ask_for};
