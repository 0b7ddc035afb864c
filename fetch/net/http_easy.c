/* libcurl's easy handles: everything that one transfer is told, and what its result means. */
#include "fetch/net/http_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fetch/net/ca_bundle.h"

#define BUFFER_BYTES (64L * 1024)     /* with twice as much a byte costs the same, a connection more memory */
#define IDLE_MAX_S 4L                 /* S3 closes idle connections after about 5 s */
#define LIFETIME_MAX_S 300L           /* new connections spread over the addresses again */
#define CONNECT_MS 1500L              /* TCP and TLS; another address is tried after it */
#define STALL_BYTES_A_SECOND 1024L    /* slower than this ... */
#define STALL_S 10L                   /* ... for this long: the transfer is dead */
#define HEADER_TEXT_BYTES (64 * 1024) /* all request headers; S3 takes 8 KiB... */
#define HEADER_LIKELY_BYTES 512       /* ...and a signed GET has 350 */

/* Debian configures libcurl with a CA bundle and a CA directory; with a directory set, libcurl re-reads the
 * bundle for every connection (25 ms of CPU). A libcurl that has only the directory keeps it. */
static bool has_default_bundle(void)
{
#if LIBCURL_VERSION_NUM >= 0x074600
    const curl_version_info_data *info = curl_version_info(CURLVERSION_NOW);
    return info->age < CURLVERSION_SEVENTH || info->cainfo != NULL;
#else
    return true;
#endif
}

/* The compiled place is that of the machine where libcurl was built. */
static CURLcode set_default_bundle(CURL *curl)
{
    const char *compiled = NULL;
    char path[PATH_MAX];
#if LIBCURL_VERSION_NUM >= 0x074600
    const curl_version_info_data *info = curl_version_info(CURLVERSION_NOW);
    compiled = info->age < CURLVERSION_SEVENTH ? NULL : info->cainfo;
#endif
    return hr_ca_bundle(compiled, path) ? curl_easy_setopt(curl, CURLOPT_CAINFO, path) : CURLE_OK;
}

/* The daemon starts credential helpers: they must not inherit connections. */
static curl_socket_t open_socket(void *owner, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct hr_http_thread *thread = owner;
    (void)purpose;
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    if (fd >= 0) {
        (void)hr_loop_lend(thread->loop, fd); /* each request of a connection watches it anew */
    }
    return fd;
}

static int close_socket(void *owner, curl_socket_t fd)
{
    struct hr_http_thread *thread = owner;
    hr_loop_return(thread->loop, fd);
    return close(fd);
}

static int set_defaults(CURL *curl, struct hr_http_thread *thread)
{
    const char *user_agent = thread->http->user_agent;
    CURLcode bad = CURLE_OK;
#define SET(option, value) bad |= curl_easy_setopt(curl, option, value)
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    if (has_default_bundle()) {
        SET(CURLOPT_CAPATH, NULL);
        bad |= set_default_bundle(curl);
    }
    SET(CURLOPT_PATH_AS_IS, 1L);
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_BUFFERSIZE, BUFFER_BYTES);
    SET(CURLOPT_MAXAGE_CONN, IDLE_MAX_S);
#if LIBCURL_VERSION_NUM >= 0x075000
    SET(CURLOPT_MAXLIFETIME_CONN, LIFETIME_MAX_S);
#endif
    SET(CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    SET(CURLOPT_LOW_SPEED_LIMIT, STALL_BYTES_A_SECOND);
    SET(CURLOPT_LOW_SPEED_TIME, STALL_S);
    SET(CURLOPT_HTTP09_ALLOWED, 0L);
#if LIBCURL_VERSION_NUM >= 0x075500
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
#else
    SET(CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    SET(CURLOPT_NOPROXY, "*"); /* the daemon's own environment decides nothing */
    if (user_agent) {
        SET(CURLOPT_USERAGENT, user_agent);
    }
    SET(CURLOPT_OPENSOCKETFUNCTION, open_socket);
    SET(CURLOPT_OPENSOCKETDATA, thread);
    SET(CURLOPT_CLOSESOCKETFUNCTION, close_socket);
    SET(CURLOPT_CLOSESOCKETDATA, thread);
    SET(CURLOPT_HEADERFUNCTION, hr_http_on_header);
    SET(CURLOPT_WRITEFUNCTION, hr_http_on_body);
    SET(CURLOPT_HTTPGET, 1L);
    return bad == CURLE_OK ? 0 : -ENOMEM; /* the only way these fail */
}

struct hr_http_easy *hr_http_easy_new(struct hr_http_thread *thread)
{
    struct hr_http_easy *easy = calloc(1, sizeof(*easy));
    if (!easy) {
        return NULL;
    }
    easy->curl = curl_easy_init();
    if (!easy->curl || set_defaults(easy->curl, thread) < 0) {
        hr_http_easy_free(easy);
        return NULL;
    }
    easy->method = HR_HTTP_GET;
    return easy;
}

void hr_http_easy_free(struct hr_http_easy *easy)
{
    if (easy) {
        curl_easy_cleanup(easy->curl);
        free(easy);
    }
}

static CURLcode set_method(struct hr_http_easy *easy, enum hr_http_method method)
{
    CURL *curl = easy->curl;
    CURLcode bad = CURLE_OK;
    if (easy->method == method) {
        return bad;
    }
    SET(CURLOPT_HTTPGET, 1L); /* undoes the others */
    SET(CURLOPT_CUSTOMREQUEST, NULL);
    if (method == HR_HTTP_HEAD) {
        SET(CURLOPT_NOBODY, 1L);
    } else if (method == HR_HTTP_DELETE) {
        SET(CURLOPT_CUSTOMREQUEST, "DELETE");
    } else if (method == HR_HTTP_POST || method == HR_HTTP_PUT) {
        SET(CURLOPT_POST, 1L);
        if (method == HR_HTTP_PUT) {
            SET(CURLOPT_CUSTOMREQUEST, "PUT");
        }
    }
    easy->method = method;
    return bad;
}

/* With its terminator. "Name;" is libcurl's way to send an empty value. */
static int append_header(struct hr_buf *text, const struct hr_http_header *header)
{
    bool empty = header->value[0] == '\0';
    int r = hr_buf_puts(text, header->name);
    r = r < 0 ? r : hr_buf_puts(text, empty ? ";" : ": ");
    return r < 0 ? r : hr_buf_append(text, header->value, strlen(header->value) + 1);
}

/* The caller's headers as libcurl's list, in one piece of memory. "Name:" is libcurl's way to leave one of
 * its own out. */
static int set_headers(struct hr_http_impl *impl, struct curl_slist **ret_list)
{
    struct hr_http_request *request = &impl->request;
    size_t starts[HR_HTTP_HEADERS_MAX + 2];
    unsigned count = 0;
    bool has_type = false;
    struct hr_buf *text = &impl->header_text;
    text->ceiling = HEADER_TEXT_BYTES;
    hr_buf_reset(text);
    int r = hr_buf_reserve(text, HEADER_LIKELY_BYTES);
    for (unsigned i = 0; i < request->header_count && r == 0; i++) {
        const struct hr_http_header *header = &request->headers[i];
        starts[count++] = text->len;
        has_type = has_type || strcasecmp(header->name, "content-type") == 0;
        r = append_header(text, header);
    }
    if (request->method == HR_HTTP_PUT || request->method == HR_HTTP_POST) {
        starts[count++] = text->len;
        r = r < 0 ? r : hr_buf_append(text, "Expect:", sizeof("Expect:"));
        if (!has_type) {
            starts[count++] = text->len;
            r = r < 0 ? r : hr_buf_append(text, "Content-Type:", sizeof("Content-Type:"));
        }
    }
    if (r < 0) {
        return -ENOMEM;
    }
    for (unsigned i = 0; i < count; i++) {
        impl->header_nodes[i].data = text->data + starts[i];
        impl->header_nodes[i].next = i + 1 < count ? &impl->header_nodes[i + 1] : NULL;
    }
    *ret_list = count > 0 ? impl->header_nodes : NULL;
    return 0;
}

/* "::ADDRESS:" sends any host and port of this transfer to ADDRESS, same port; Host, SNI and the
 * certificate's name stay the URL's, and connections are kept by address. */
static struct curl_slist *pin_of(struct hr_http_impl *impl)
{
    if (!impl->address) {
        return NULL;
    }
    const char *address = hr_address_text(impl->address);
    bool is_v6 = strchr(address, ':') != NULL;
    (void)snprintf(impl->pin, sizeof(impl->pin), is_v6 ? "::[%s]:" : "::%s:", address);
    impl->pin_node.data = impl->pin;
    return &impl->pin_node;
}

int hr_http_easy_prepare(struct hr_http_impl *impl)
{
    struct hr_http_easy *easy = impl->easy;
    struct hr_http_request *request = &impl->request;
    CURL *curl = easy->curl;
    if (easy->has_ca_bundle) {
        curl_easy_reset(curl); /* the only way back to libcurl's default bundle */
        easy->has_ca_bundle = false;
        easy->method = HR_HTTP_GET;
        if (set_defaults(curl, impl->thread) < 0) {
            return -ENOMEM;
        }
    }
    struct curl_slist *headers;
    int r = set_headers(impl, &headers);
    if (r < 0) {
        return r;
    }
    impl->curl_error[0] = '\0';
    CURLcode bad = set_method(easy, request->method);
    if (request->ca_bundle) {
        easy->has_ca_bundle = true;
        SET(CURLOPT_CAINFO, request->ca_bundle);
        SET(CURLOPT_CAPATH, NULL);
    }
    if (request->method == HR_HTTP_POST || request->method == HR_HTTP_PUT) {
        const char *payload = request->payload ? request->payload : "";
        SET(CURLOPT_POSTFIELDSIZE, (long)strlen(payload));
        SET(CURLOPT_POSTFIELDS, payload);
    }
    SET(CURLOPT_URL, request->url);
    SET(CURLOPT_HTTPHEADER, headers);
    SET(CURLOPT_CONNECT_TO, pin_of(impl));
    SET(CURLOPT_FRESH_CONNECT, impl->fresh ? 1L : 0L);
    SET(CURLOPT_PRIVATE, impl);
    SET(CURLOPT_HEADERDATA, impl);
    SET(CURLOPT_WRITEDATA, impl);
    SET(CURLOPT_ERRORBUFFER, impl->curl_error);
    return bad == CURLE_OK ? 0 : -ENOMEM;
}
#undef SET

static int connect_errno(const struct hr_http_impl *impl)
{
    long os_errno = 0;
    (void)curl_easy_getinfo(impl->easy->curl, CURLINFO_OS_ERRNO, &os_errno);
    switch (os_errno) {
    case ETIMEDOUT:
        return -ETIMEDOUT;
    case EHOSTUNREACH:
    case ENETUNREACH:
        return -EHOSTUNREACH;
    case ENOMEM:
    case ENOBUFS:
    case EMFILE:
    case ENFILE:
        return -ENOMEM;
    default:
        return -ECONNREFUSED;
    }
}

int hr_http_errno(CURLcode code, const struct hr_http_impl *impl)
{
    switch (code) {
    case CURLE_OK:
        return 0;
    case CURLE_WRITE_ERROR:
        return impl->cut ? 0 : impl->verdict < 0 ? impl->verdict : -EPROTO;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        return -EHOSTUNREACH;
    case CURLE_COULDNT_CONNECT:
        return connect_errno(impl);
    case CURLE_OPERATION_TIMEDOUT:
        return -ETIMEDOUT;
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
        return -ECONNRESET;
    case CURLE_SSL_CONNECT_ERROR:
        /* A connection that broke during the handshake has no code of its own. */
        return strstr(impl->curl_error, "reset") || strstr(impl->curl_error, "SSL_ERROR_SYSCALL")
                   ? -ECONNRESET
                   : -EPROTO;
    case CURLE_OUT_OF_MEMORY:
        return -ENOMEM;
    default:
        return -EPROTO;
    }
}
