#include "fetch/store/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LOCATION_MAX_BYTES 8192 /* what servers take for a line of headers */

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool url_bytes_valid(const char *url)
{
    for (const unsigned char *p = (const unsigned char *)url; *p != '\0'; p++) {
        if (*p <= ' ' || *p >= 0x7f) {
            return false;
        }
    }
    return true;
}

static int take_scheme(const char **url, bool *ret_https)
{
    if (strncmp(*url, "https://", 8) == 0) {
        *ret_https = true;
        *url += 8;
        return 0;
    }
    if (strncmp(*url, "http://", 7) == 0) {
        *ret_https = false;
        *url += 7;
        return 0;
    }
    return -EINVAL;
}

static bool host_byte_valid(char c, bool in_brackets)
{
    return is_lower(c) || is_digit(c) || c == '.' || c == '-' || c == '_' || (in_brackets && c == ':');
}

static int take_host(const char *text, size_t len, struct hr_endpoint *ret)
{
    bool brackets = len >= 2 && text[0] == '[' && text[len - 1] == ']';

    if (len == 0 || len >= sizeof(ret->host)) {
        return -EINVAL;
    }
    for (size_t i = 0; i < len; i++) {
        char c = is_upper(text[i]) ? (char)(text[i] - 'A' + 'a') : text[i];
        bool edge = brackets && (i == 0 || i == len - 1);

        if (!edge && !host_byte_valid(c, brackets)) {
            return -EINVAL;
        }
        ret->host[i] = c;
    }
    ret->host[len] = '\0';
    return 0;
}

static int take_port(const char *text, size_t len, struct hr_endpoint *ret)
{
    unsigned port = 0;

    if (len == 0 || len > 5) {
        return -EINVAL;
    }
    for (size_t i = 0; i < len; i++) {
        if (!is_digit(text[i])) {
            return -EINVAL;
        }
        port = port * 10 + (unsigned)(text[i] - '0');
    }
    if (port == 0 || port > 65535) {
        return -EINVAL;
    }
    /* The scheme's own port is not written: neither is it in the Host header that we sign. */
    ret->port = port == (ret->https ? 443u : 80u) ? 0 : port;
    return 0;
}

int hr_url_split(const char *url, struct hr_url_parts *ret, const char **ret_why)
{
    struct hr_url_parts parts = {0};
    const char *p = url;

    if (!url_bytes_valid(url)) {
        *ret_why = "it has a blank or a byte that must be percent-encoded";
        return -EINVAL;
    }
    if (take_scheme(&p, &parts.endpoint.https) < 0) {
        *ret_why = "it must start with http:// or https://";
        return -EINVAL;
    }
    size_t authority = strcspn(p, "/?#");
    size_t host_len = authority;
    const char *colon = memrchr(p, ':', authority);

    if (memchr(p, '@', authority) != NULL) {
        *ret_why = "it must not have a user name";
        return -EINVAL;
    }
    if (colon != NULL && memchr(colon, ']', (size_t)(p + authority - colon)) == NULL) {
        host_len = (size_t)(colon - p);
        if (take_port(colon + 1, authority - host_len - 1, &parts.endpoint) < 0) {
            *ret_why = "its port is not a number from 1 to 65535";
            return -EINVAL;
        }
    }
    if (take_host(p, host_len, &parts.endpoint) < 0) {
        *ret_why = "it has no usable host name";
        return -EINVAL;
    }
    p += authority;
    parts.path = p;
    parts.path_len = strcspn(p, "?#");
    p += parts.path_len;
    if (strchr(p, '#') != NULL) {
        *ret_why = "it must not have a '#'";
        return -EINVAL;
    }
    parts.query = *p == '?' ? p + 1 : "";
    *ret = parts;
    return 0;
}

int hr_endpoint_parse(const char *url, struct hr_endpoint *ret, const char **ret_why)
{
    struct hr_url_parts parts;
    int r = hr_url_split(url, &parts, ret_why);

    if (r < 0) {
        return r;
    }
    while (parts.path_len > 0 && parts.path[parts.path_len - 1] == '/') {
        parts.path_len--;
    }
    if (parts.query[0] != '\0' || parts.path_len >= sizeof(ret->base_path)) {
        *ret_why = parts.query[0] != '\0' ? "it must not have a query" : "its path is too long";
        return -EINVAL;
    }
    memcpy(parts.endpoint.base_path, parts.path, parts.path_len);
    parts.endpoint.base_path[parts.path_len] = '\0';
    *ret = parts.endpoint;
    return 0;
}

bool hr_region_valid(const char *region)
{
    size_t len = strlen(region);

    if (len == 0 || len >= HR_REGION_BYTES) {
        return false;
    }
    for (; *region != '\0'; region++) {
        if (!is_lower(*region) && !is_upper(*region) && !is_digit(*region) && *region != '-' &&
            *region != '_') {
            return false;
        }
    }
    return true;
}

static const char *aws_suffix(const char *region)
{
    return strncmp(region, "cn-", 3) == 0 ? ".amazonaws.com.cn" : ".amazonaws.com";
}

int hr_endpoint_aws(const char *region, struct hr_endpoint *ret)
{
    struct hr_endpoint endpoint = {.https = true};

    if (!hr_region_valid(region)) {
        return -EINVAL;
    }
    (void)snprintf(endpoint.host, sizeof(endpoint.host), "s3.%s%s", region, aws_suffix(region));
    *ret = endpoint;
    return 0;
}

bool hr_endpoint_is_aws(const struct hr_endpoint *endpoint)
{
    const char *host = endpoint->host;

    if (endpoint->port != 0 || endpoint->base_path[0] != '\0' || strncmp(host, "s3.", 3) != 0) {
        return false;
    }
    host += 3;
    if (strcmp(host, "amazonaws.com") == 0) {
        return true;
    }
    const char *rest = strchr(host, '.');
    return rest != NULL && (strcmp(rest, ".amazonaws.com") == 0 || strcmp(rest, ".amazonaws.com.cn") == 0);
}

bool hr_endpoint_is_private(const struct hr_endpoint *endpoint)
{
    struct in_addr v4;

    return endpoint->https || strcmp(endpoint->host, "localhost") == 0 ||
           strcmp(endpoint->host, "[::1]") == 0 ||
           (inet_pton(AF_INET, endpoint->host, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127);
}

void hr_endpoint_host(const struct hr_endpoint *endpoint, char ret[HR_ENDPOINT_BYTES])
{
    if (endpoint->port != 0) {
        (void)snprintf(ret, HR_ENDPOINT_BYTES, "%s:%u", endpoint->host, endpoint->port);
    } else {
        (void)snprintf(ret, HR_ENDPOINT_BYTES, "%s", endpoint->host);
    }
}

void hr_endpoint_print(const struct hr_endpoint *endpoint, char ret[HR_ENDPOINT_BYTES])
{
    char port[16] = "";

    if (endpoint->port != 0) {
        (void)snprintf(port, sizeof(port), ":%u", endpoint->port);
    }
    (void)snprintf(ret, HR_ENDPOINT_BYTES, "%s://%s%s%s", endpoint->https ? "https" : "http", endpoint->host,
                   port, endpoint->base_path);
}

bool hr_bucket_valid(const char *bucket, size_t len)
{
    if (len == 0 || len > 255) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        char c = bucket[i];

        if (!is_lower(c) && !is_upper(c) && !is_digit(c) && c != '.' && c != '-' && c != '_') {
            return false;
        }
    }
    /* As a part of a path these would not be names. */
    return !(len == 1 && bucket[0] == '.') && !(len == 2 && memcmp(bucket, "..", 2) == 0);
}

bool hr_bucket_is_host(const char *bucket)
{
    size_t len = strlen(bucket);

    if (len < 3 || len > 63 || bucket[0] == '-' || bucket[len - 1] == '-') {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (!is_lower(bucket[i]) && !is_digit(bucket[i]) && bucket[i] != '-') {
            return false;
        }
    }
    return true;
}

int hr_redirect_resolve(const char *asked_url, const char *location, struct hr_buf *out)
{
    struct hr_url_parts asked, target;
    const char *why = NULL;
    char base[HR_ENDPOINT_BYTES];
    int r = hr_url_split(asked_url, &asked, &why);

    if (r < 0 || strlen(location) > LOCATION_MAX_BYTES || !url_bytes_valid(location) ||
        strchr(location, '#') != NULL) {
        return -EINVAL;
    }
    if (location[0] == '/' && location[1] != '/') {
        hr_endpoint_print(&asked.endpoint, base);
        return hr_buf_printf(out, "%s%s", base, location);
    }
    r = hr_url_split(location, &target, &why);
    if (r < 0 || (asked.endpoint.https && !target.endpoint.https)) {
        return -EINVAL;
    }
    hr_endpoint_print(&target.endpoint, base);
    return hr_buf_printf(out, "%s%s%.*s%s%s", base, target.path_len == 0 ? "/" : "", (int)target.path_len,
                         target.path, target.query[0] != '\0' ? "?" : "", target.query);
}
