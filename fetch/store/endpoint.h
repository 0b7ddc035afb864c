/* URLs of stores, taken apart and put together: endpoints, addressing, redirect targets. Pure functions. */
#ifndef HR_STORE_ENDPOINT_H
#define HR_STORE_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>

#include "fetch/base/buf.h"

#define HR_REGION_BYTES 64    /* AWS' longest are below 20 */
#define HR_ENDPOINT_BYTES 640 /* scheme, host, port, base path */

struct hr_endpoint {
    bool https;
    char host[256];      /* lower case; an IPv6 address keeps its brackets */
    unsigned port;       /* 0: the scheme's own */
    char base_path[256]; /* "" or "/s3": goes before /bucket; no '/' at the end */
};

/* "http://127.0.0.1:9000", "https://host/s3/". 0 or -EINVAL with *ret_why (static). A user name, a query or a
 * fragment is refused. */
int hr_endpoint_parse(const char *url, struct hr_endpoint *ret, const char **ret_why);
/* "s3.REGION.amazonaws.com", https. -EINVAL when the region is no region. */
int hr_endpoint_aws(const char *region, struct hr_endpoint *ret);
/* AWS' plain regional host, which may be exchanged for another region's. */
bool hr_endpoint_is_aws(const struct hr_endpoint *endpoint);
/* What is sent there cannot be read on its way: https, or this machine. */
bool hr_endpoint_is_private(const struct hr_endpoint *endpoint);
/* Without a '/' at the end. */
void hr_endpoint_print(const struct hr_endpoint *endpoint, char ret[HR_ENDPOINT_BYTES]);
/* host[:port] as it stands in the Host header. */
void hr_endpoint_host(const struct hr_endpoint *endpoint, char ret[HR_ENDPOINT_BYTES]);

/* Letters, digits and '-'. */
bool hr_region_valid(const char *region);
/* What may stand in a URL as a bucket: letters, digits, '.', '-', '_'. */
bool hr_bucket_valid(const char *bucket, size_t len);
/* Whether the bucket may become a host name under a wildcard certificate: no dots, no capitals, 3 to 63 long.
 */
bool hr_bucket_is_host(const char *bucket);

/* A redirect's Location against the URL that was asked (scheme://host[:port]/...): the absolute URL to ask
 * next is appended to out. -EINVAL when it cannot be used: another scheme, https to http, blanks or control
 * bytes, too long. */
int hr_redirect_resolve(const char *asked_url, const char *location, struct hr_buf *out);

/* Parts of an absolute URL as we built or accepted it. Points into url. */
struct hr_url_parts {
    struct hr_endpoint endpoint; /* base_path is not used */
    const char *path;
    size_t path_len;
    const char *query; /* "" when none */
};
/* 0 or -EINVAL with *ret_why (static). */
int hr_url_split(const char *url, struct hr_url_parts *ret, const char **ret_why);

#endif
