/* One signed request: URL, headers, Authorization. */
#include "fetch/store/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fetch/base/cleanup.h"
#include "fetch/base/clock.h"
#include "fetch/base/text.h"
#include "fetch/store/etag.h"

/* A listing carries a prefix, a start key (3 KiB encoded each) and a token. */
#define URL_MAX_BYTES (128 * 1024)
#define KEY_MAX_BYTES 4096 /* S3 allows 1024; some stores allow more */

static void request_free_p(struct hr_http_request **request)
{
    if (*request != NULL) {
        hr_http_request_free(*request);
    }
}

static int make_base(struct hr_store *store)
{
    hr_cleanup(hr_buf_release) struct hr_buf url = HR_BUF_INIT(URL_MAX_BYTES);
    struct hr_endpoint endpoint = store->endpoint;
    char base[HR_ENDPOINT_BYTES];
    struct hr_url_parts parts;
    const char *why = NULL;
    int r;

    endpoint.base_path[0] = '\0';
    hr_endpoint_print(&endpoint, base);
    const char *host = strstr(base, "://") + 3;
    if (store->path_style) {
        r = hr_buf_printf(&url, "%s%s/%s", base, store->endpoint.base_path, store->bucket);
    } else {
        r = hr_buf_printf(&url, "%.*s%s.%s%s", (int)(host - base), base, store->bucket, host,
                          store->endpoint.base_path);
    }
    r = r < 0 ? r : hr_url_split(url.data, &parts, &why);
    if (r < 0) {
        return r;
    }
    hr_endpoint_host(&parts.endpoint, store->base_host);
    store->base_path_at = (size_t)(host - base) + strcspn(url.data + (host - base), "/");
    store->base = hr_steal_pointer(url.data);
    return 0;
}

static int put_parameter(struct hr_buf *url, const char *name, const char *value, size_t len)
{
    int r = hr_buf_printf(url, "&%s=", name);

    return r < 0 ? r : hr_percent_encode(value, len, false, url);
}

static int put_list_query(const struct hr_call *call, struct hr_buf *url)
{
    int r = hr_buf_puts(url, "/?list-type=2&encoding-type=url");

    if (r == 0 && call->delimiter != NULL) {
        r = put_parameter(url, "delimiter", call->delimiter, strlen(call->delimiter));
    }
    if (r == 0 && call->max_keys > 0) {
        r = hr_buf_printf(url, "&max-keys=%u", call->max_keys);
    }
    if (r == 0) {
        r = put_parameter(url, "prefix", call->key, call->key_len);
    }
    if (r == 0 && call->token != NULL) {
        r = put_parameter(url, "continuation-token", call->token, strlen(call->token));
    } else if (r == 0 && call->start_after != NULL) {
        r = put_parameter(url, "start-after", call->start_after, call->start_after_len);
    }
    return r;
}

static int build_url(struct hr_store *store, const struct hr_call *call, struct hr_buf *url)
{
    int r = store->base != NULL ? 0 : make_base(store);

    if (r == 0) {
        /* The key encoded as it mostly is: without a change. */
        r = hr_buf_reserve(url, strlen(store->base) + call->key_len + 1);
    }
    if (r == 0) {
        r = hr_buf_puts(url, store->base);
    }
    if (r < 0) {
        return r;
    }
    if (call->kind == HR_CALL_LIST) {
        return put_list_query(call, url);
    }
    r = hr_buf_append(url, "/", 1);
    return r < 0 ? r : hr_percent_encode(call->key, call->key_len, true, url);
}

static int add_get_headers(const struct hr_store *store, const struct hr_call *call,
                           struct hr_http_request *request)
{
    char value[HR_ETAG_BYTES + 8];
    int r = 0;

    if (call->range_bytes > 0) {
        if (call->range_first > UINT64_MAX - call->range_bytes) {
            return -EINVAL;
        }
        (void)snprintf(value, sizeof(value), "bytes=%llu-%llu", (unsigned long long)call->range_first,
                       (unsigned long long)(call->range_first + call->range_bytes - 1));
        r = hr_http_request_header(request, "range", value);
    }
    if (r == 0 && call->if_match != NULL) {
        if (!hr_etag_usable(call->if_match, strlen(call->if_match))) {
            return -EINVAL;
        }
        (void)snprintf(value, sizeof(value), "\"%s\"", call->if_match);
        r = hr_http_request_header(request, "if-match", value);
    }
    if (r == 0 && store->quirk->checksum_mode) {
        r = hr_http_request_header(request, "x-amz-checksum-mode", "ENABLED");
    }
    return r;
}

/* Host, path and query of a URL that was made here; one that a redirect led to is taken apart with care. */
static int split(const struct hr_store *store, const char *url, bool redirected,
                 char ret_room[HR_ENDPOINT_BYTES], struct hr_sigv4_request *ret)
{
    struct hr_url_parts parts;
    const char *why = NULL;

    ret->headers[0] = (struct hr_sigv4_header){"host", store->base_host};
    ret->header_count = 1;
    if (redirected) {
        int r = hr_url_split(url, &parts, &why);
        if (r < 0) {
            return r;
        }
        hr_endpoint_host(&parts.endpoint, ret_room);
        ret->headers[0].value = ret_room;
        ret->path = parts.path;
        ret->query = parts.query;
        return 0;
    }
    ret->path = url + store->base_path_at;
    const char *end = strchrnul(ret->path, '?');
    ret->query = *end == '?' ? end + 1 : "";
    return 0;
}

/* host and every x-amz-* header: what S3 asks for, and nothing that a proxy on the way may rewrite. */
static int sign(struct hr_store *store, const struct hr_credentials *credentials,
                struct hr_http_request *request, bool redirected, const char *payload_hash)
{
    hr_cleanup(hr_buf_release) struct hr_buf authorization = HR_BUF_INIT(4096);
    struct hr_sigv4_request to_sign;
    char host[HR_ENDPOINT_BYTES];
    int r = split(store, request->url, redirected, host, &to_sign);

    if (r < 0) {
        return r;
    }
    to_sign.method = request->method == HR_HTTP_HEAD ? "HEAD" : "GET";
    to_sign.payload_hash = payload_hash;
    to_sign.date = store->date;
    to_sign.region = store->region;
    to_sign.service = "s3";
    for (unsigned i = 0; i < request->header_count && to_sign.header_count < HR_SIGV4_HEADERS_MAX; i++) {
        if (strncmp(request->headers[i].name, "x-amz-", 6) == 0) {
            to_sign.headers[to_sign.header_count++] =
                (struct hr_sigv4_header){request->headers[i].name, request->headers[i].value};
        }
    }
    r = hr_sigv4_sign(store->signer, credentials, &to_sign, &authorization);
    return r < 0 ? r : hr_http_request_header(request, "authorization", authorization.data);
}

/* The date of a signature; many are made within one second. */
static void set_date(struct hr_store *store)
{
    int64_t now_s = (hr_clock_wall_ns() / 1000000 + store->skew_ms) / 1000;

    if (store->date[0] == '\0' || now_s != store->date_s) {
        hr_sigv4_date(now_s, store->date);
        store->date_s = now_s;
    }
}

static int add_authorization(struct hr_store *store, struct hr_http_request *request, bool redirected)
{
    const struct hr_credentials *credentials = hr_store_credentials(store);
    bool https = strncmp(request->url, "https://", 8) == 0;
    const char *payload_hash = https ? HR_SIGV4_UNSIGNED : HR_SIGV4_EMPTY_HASH;
    int r;

    if (credentials->access_key_id == NULL) {
        return 0;
    }
    set_date(store);
    r = hr_http_request_header(request, "x-amz-content-sha256", payload_hash);
    if (r == 0) {
        r = hr_http_request_header(request, "x-amz-date", store->date);
    }
    if (r == 0 && credentials->session_token != NULL) {
        r = hr_http_request_header(request, "x-amz-security-token", credentials->session_token);
    }
    return r < 0 ? r : sign(store, credentials, request, redirected, payload_hash);
}

int hr_s3_request_new(struct hr_store *store, const struct hr_call *call, const char *redirect,
                      struct hr_http_request **ret)
{
    hr_cleanup(hr_buf_release) struct hr_buf url = HR_BUF_INIT(URL_MAX_BYTES);
    hr_cleanup(request_free_p) struct hr_http_request *request = NULL;
    int r;

    if (call->key_len > KEY_MAX_BYTES || (call->kind != HR_CALL_LIST && call->key_len == 0)) {
        return -EINVAL;
    }
    r = redirect != NULL ? hr_buf_puts(&url, redirect) : build_url(store, call, &url);
    if (r < 0) {
        return r == -EFBIG ? -EINVAL : r;
    }
    request = hr_http_request_new();
    if (request == NULL) {
        return -ENOMEM;
    }
    request->method = call->kind == HR_CALL_HEAD ? HR_HTTP_HEAD : HR_HTTP_GET;
    request->url = hr_steal_pointer(url.data);
    request->ca_bundle = store->ca_bundle != NULL ? strdup(store->ca_bundle) : NULL;
    if (request->url == NULL || (store->ca_bundle != NULL && request->ca_bundle == NULL)) {
        return -ENOMEM;
    }
    r = call->kind == HR_CALL_GET ? add_get_headers(store, call, request) : 0;
    if (r == 0 && call->kind != HR_CALL_LIST) {
        r = hr_customer_key_headers(&store->customer_key, request);
    }
    if (r == 0 && store->requester_pays) {
        r = hr_http_request_header(request, "x-amz-request-payer", "requester");
    }
    if (r == 0) {
        r = add_authorization(store, request, redirect != NULL);
    }
    if (r < 0) {
        return r;
    }
    *ret = hr_steal_pointer(request);
    return 0;
}
