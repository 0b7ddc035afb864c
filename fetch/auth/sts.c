#include "fetch/auth/sts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fetch/auth/documents.h"
#include "fetch/auth/sigv4.h"
#include "fetch/base/cleanup.h"
#include "fetch/base/clock.h"
#include "fetch/base/digest.h"
#include "fetch/base/text.h"

#define TRIES 3                       /* ours */
#define TRY_MS 10000                  /* ours; answers take tens to hundreds of milliseconds */
#define PAYLOAD_MAX_BYTES (64 * 1024) /* a web identity token of 20,000 bytes at most, encoded */
#define DEFAULT_REGION "us-east-1"

static const char *set_or_null(const char *value)
{
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static const char *variable(const struct hr_source_input *input, const char *name)
{
    return set_or_null(input->env(input->env_owner, name));
}

static const char *configured_url(const struct hr_source_input *input)
{
    const char *ignore = variable(input, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
    const char *const places[] = {
        variable(input, "AWS_ENDPOINT_URL_STS"),
        variable(input, "AWS_ENDPOINT_URL"),
        input->profile->sts_endpoint_url,
        input->profile->endpoint_url,
    };

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (places[i] != NULL && (ignore == NULL || strcmp(ignore, "true") != 0)) {
            return places[i];
        }
    }
    return NULL;
}

static bool is_region(const char *text)
{
    size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-");

    return len > 0 && len < 40 && text[len] == '\0';
}

int hr_sts_place(const struct hr_source_input *input, char ret_message[256], struct hr_way *way)
{
    const char *region = variable(input, "AWS_REGION");
    const char *url = configured_url(input);
    const char *ca_bundle = variable(input, "AWS_CA_BUNDLE");
    int r;

    region = region != NULL ? region : variable(input, "AWS_DEFAULT_REGION");
    region = region != NULL ? region : input->profile->region;
    if (region != NULL && !is_region(region)) {
        (void)snprintf(ret_message, 256, "region %.60s is not a region's name (AWS_REGION, profile)", region);
        return -EINVAL;
    }
    r = hr_way_set(way, HR_WAY_REGION, region != NULL ? region : DEFAULT_REGION);
    r = r < 0 ? r : hr_way_set(way, HR_WAY_CA_BUNDLE, ca_bundle ? ca_bundle : input->profile->ca_bundle);
    if (r < 0) {
        return r;
    }
    if (url != NULL) {
        size_t len = strlen(url);

        while (len > 0 && url[len - 1] == '/') {
            len--;
        }
        return hr_way_print(way, HR_WAY_URL, "%.*s/", (int)len, url);
    }
    if (region == NULL) {
        return hr_way_set(way, HR_WAY_URL, "https://sts.amazonaws.com/");
    }
    return hr_way_print(way, HR_WAY_URL, "https://sts.%s.amazonaws.com%s/", region,
                        strncmp(region, "cn-", 3) == 0 ? ".cn" : "");
}

static int add_parameter(struct hr_buf *out, const char *name, const char *value)
{
    int r = value != NULL ? hr_buf_printf(out, "&%s=", name) : 0;

    return r < 0 || value == NULL ? r : hr_percent_encode(value, strlen(value), false, out);
}

static int make_payload(struct hr_ask *ask, const char *action)
{
    hr_cleanup(hr_buf_release) struct hr_buf out = HR_BUF_INIT(PAYLOAD_MAX_BYTES);
    char *const *text = ask->way->text;
    int r = hr_buf_reserve(&out, PAYLOAD_MAX_BYTES); /* once: growing would leave copies of the token */

    r = r < 0 ? r : hr_buf_printf(&out, "Action=%s&Version=2011-06-15", action);
    r = r < 0 ? r : add_parameter(&out, "RoleArn", text[HR_WAY_ROLE_ARN]);
    r = r < 0 ? r : add_parameter(&out, "RoleSessionName", text[HR_WAY_SESSION_NAME]);
    r = r < 0 ? r : add_parameter(&out, "ExternalId", text[HR_WAY_EXTERNAL_ID]);
    r = r < 0 ? r : add_parameter(&out, "DurationSeconds", text[HR_WAY_DURATION_S]);
    r = r < 0 ? r : add_parameter(&out, "WebIdentityToken", text[HR_WAY_TOKEN]);
    if (r == 0) {
        ask->request->payload = strdup(out.data);
        r = ask->request->payload != NULL ? 0 : -ENOMEM;
    }
    if (out.data != NULL) {
        hr_secret_zero(out.data, out.len);
    }
    return r;
}

static void signer_free_p(struct hr_sigv4_signer **signer)
{
    hr_sigv4_signer_free(*signer);
}

/* "host" as it is sent: without the scheme's own port. */
static void host_of(const char *url, char *ret, size_t room, const char **ret_path)
{
    const char *host = strstr(url, "://");

    host = host != NULL ? host + 3 : url;
    size_t len = strcspn(host, "/?");
    *ret_path = host + len;
    if (strncmp(url, "https://", 8) == 0 && len > 4 && memcmp(host + len - 4, ":443", 4) == 0) {
        len -= 4;
    } else if (strncmp(url, "http://", 7) == 0 && len > 3 && memcmp(host + len - 3, ":80", 3) == 0) {
        len -= 3;
    }
    (void)snprintf(ret, room, "%.*s", (int)len, host);
}

static int sign(struct hr_ask *ask, const struct hr_credentials *signer_keys)
{
    hr_cleanup(signer_free_p) struct hr_sigv4_signer *signer = NULL;
    hr_cleanup(hr_buf_release) struct hr_buf authorization = HR_BUF_INIT(4096);
    struct hr_http_request *request = ask->request;
    char host[300], date[HR_SIGV4_DATE_BYTES], hash[2 * HR_SHA256_BYTES + 1];
    uint8_t digest[HR_SHA256_BYTES];
    const char *path = "/";
    int r = hr_digest(HR_DIGEST_SHA256, request->payload, strlen(request->payload), digest);

    r = r < 0 ? r : hr_sigv4_signer_new(&signer);
    if (r < 0) {
        return r;
    }
    hr_hex_encode(digest, sizeof(digest), hash);
    hr_sigv4_date(hr_clock_wall_ns() / 1000000000, date);
    host_of(request->url, host, sizeof(host), &path);
    r = hr_http_request_header(request, "x-amz-date", date);
    if (r == 0 && signer_keys->session_token != NULL) {
        r = hr_http_request_header(request, "x-amz-security-token", signer_keys->session_token);
    }
    struct hr_sigv4_request to_sign = {
        .method = "POST",
        .path = path,
        .headers = {{"host", host}},
        .header_count = 1,
        .payload_hash = hash,
        .date = date,
        .region = ask->way->text[HR_WAY_REGION],
        .service = "sts",
    };
    for (unsigned i = 0; i < request->header_count; i++) {
        to_sign.headers[to_sign.header_count++] =
            (struct hr_sigv4_header){request->headers[i].name, request->headers[i].value};
    }
    r = r < 0 ? r : hr_sigv4_sign(signer, signer_keys, &to_sign, &authorization);
    return r < 0 ? r : hr_http_request_header(request, "authorization", authorization.data);
}

/* A 400 that passes: STS throttles, and asks identity providers on the way. */
static bool passes(const char *code)
{
    static const char *const codes[] = {"Throttling",        "ThrottlingException",   "RequestLimitExceeded",
                                        "RequestThrottled",  "IDPCommunicationError", "InternalFailure",
                                        "ServiceUnavailable"};

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        if (strcmp(code, codes[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void on_answer(struct hr_ask *ask)
{
    const struct hr_http_request *request = ask->request;
    const char *role = ask->way->text[HR_WAY_ROLE_ARN];
    struct hr_credentials found = {0};
    struct hr_refusal refusal = {0};
    char said[128];
    int r = -EPROTO;

    hr_ask_say_answer(ask, said);
    if (request->error == 0) {
        const char *body = request->body.data != NULL ? request->body.data : "";
        r = hr_document_sts(body, request->body.len, &found, &refusal);
    }
    if (request->error == 0 && request->status == 200 && r == 0) {
        hr_ask_give(ask, &found);
        return;
    }
    hr_credentials_release(&found);
    if (r == -EREMOTEIO && passes(refusal.code) && hr_ask_again(ask)) {
        return;
    }
    if (r == -EREMOTEIO && !passes(refusal.code)) {
        hr_ask_fail(ask, request->status < 500 ? -EACCES : -EIO, "STS does not give %.70s: %.40s: %.100s",
                    role, refusal.code, refusal.text);
    } else {
        bool refused = request->error == 0 && (request->status == 401 || request->status == 403);
        hr_ask_fail(ask, refused ? -EACCES : -EIO, "%.70s of STS at %.60s: %.100s", role,
                    ask->way->text[HR_WAY_URL], refusal.code[0] != '\0' ? refusal.code : said);
    }
}

void hr_sts_ask(struct hr_ask *ask, const char *action, const struct hr_credentials *signer)
{
    int r = hr_ask_request(ask, HR_HTTP_POST, ask->way->text[HR_WAY_URL]);

    if (r < 0) {
        return;
    }
    r = make_payload(ask, action);
    r = r < 0 ? r : hr_http_request_header(ask->request, "content-type", "application/x-www-form-urlencoded");
    if (r == 0 && signer != NULL) {
        r = sign(ask, signer);
    }
    if (r < 0) {
        hr_ask_fail(ask, r == -ENOMEM ? r : -EIO, "the request to STS cannot be made: %s", strerror(-r));
        return;
    }
    hr_ask_send(ask, TRIES, TRY_MS, on_answer);
}
