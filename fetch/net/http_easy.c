/* libcurl's easy handles, which open connections: all that they are told, and what their results mean. */
#include "fetch/net/http_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fetch/net/ca_bundle.h"

#define BUFFER_BYTES (16L * 1024) /* the most that libcurl hands over at once: TLS has no longer records */
#define CONNECT_MS 1500L          /* TCP and TLS; another address is tried after it */

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
    (void)owner;
    (void)purpose;
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    return fd;
}

static int close_socket(void *owner, curl_socket_t fd)
{
    struct hr_http_thread *thread = owner;
    hr_loop_unwatch(thread->loop, fd);
    return close(fd);
}

static int set_defaults(CURL *curl, struct hr_http_thread *thread)
{
    CURLcode bad = CURLE_OK;
#define SET(option, value) bad |= curl_easy_setopt(curl, option, value)
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    if (has_default_bundle()) {
        SET(CURLOPT_CAPATH, NULL);
        bad |= set_default_bundle(curl);
    }
    SET(CURLOPT_CONNECT_ONLY, 1L);
    SET(CURLOPT_FRESH_CONNECT, 1L); /* which one is kept for whom is decided elsewhere */
    SET(CURLOPT_BUFFERSIZE, BUFFER_BYTES);
    SET(CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
#if LIBCURL_VERSION_NUM >= 0x075500
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
#else
    SET(CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    SET(CURLOPT_NOPROXY, "*"); /* the daemon's own environment decides nothing */
    SET(CURLOPT_OPENSOCKETFUNCTION, open_socket);
    SET(CURLOPT_OPENSOCKETDATA, thread);
    SET(CURLOPT_CLOSESOCKETFUNCTION, close_socket);
    SET(CURLOPT_CLOSESOCKETDATA, thread);
    return bad == CURLE_OK ? 0 : -ENOMEM; /* the only way these fail */
}

int hr_http_easy_new(struct hr_http_conn *conn)
{
    conn->curl = curl_easy_init();
    return conn->curl ? set_defaults(conn->curl, conn->thread) : -ENOMEM;
}

/* "::ADDRESS:" sends any host and port of this transfer to ADDRESS, same port; SNI and the certificate's name
 * stay the URL's. */
static struct curl_slist *pin_of(struct hr_http_conn *conn)
{
    if (!conn->address) {
        return NULL;
    }
    const char *address = hr_address_text(conn->address);
    bool is_v6 = strchr(address, ':') != NULL;
    (void)snprintf(conn->pin, sizeof(conn->pin), is_v6 ? "::[%s]:" : "::%s:", address);
    conn->pin_node = (struct curl_slist){.data = conn->pin};
    return &conn->pin_node;
}

int hr_http_easy_prepare(struct hr_http_conn *conn, const struct hr_http_impl *impl)
{
    CURL *curl = conn->curl;
    CURLcode bad = CURLE_OK;
    if (conn->had_ca_bundle) {
        curl_easy_reset(curl); /* the only way back to libcurl's default bundle */
        conn->had_ca_bundle = false;
        if (set_defaults(curl, conn->thread) < 0) {
            return -ENOMEM;
        }
    }
    if (conn->ca_bundle) {
        conn->had_ca_bundle = true;
        SET(CURLOPT_CAINFO, conn->ca_bundle);
        SET(CURLOPT_CAPATH, NULL);
    }
    conn->curl_error[0] = '\0';
    SET(CURLOPT_URL, impl->request.url);
    SET(CURLOPT_CONNECT_TO, pin_of(conn));
    SET(CURLOPT_PRIVATE, conn);
    SET(CURLOPT_ERRORBUFFER, conn->curl_error);
    return bad == CURLE_OK ? 0 : -ENOMEM; /* the only way these fail */
}
#undef SET

static int connect_errno(const struct hr_http_conn *conn)
{
    long os_errno = 0;
    (void)curl_easy_getinfo(conn->curl, CURLINFO_OS_ERRNO, &os_errno);
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

int hr_http_errno(CURLcode code, const struct hr_http_conn *conn)
{
    switch (code) {
    case CURLE_OK:
        return 0;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        return -EHOSTUNREACH;
    case CURLE_COULDNT_CONNECT:
        return connect_errno(conn);
    case CURLE_OPERATION_TIMEDOUT:
        return -ETIMEDOUT;
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
        return -ECONNRESET;
    case CURLE_SSL_CONNECT_ERROR:
        /* A connection that broke during the handshake has no code of its own. */
        return strstr(conn->curl_error, "reset") || strstr(conn->curl_error, "SSL_ERROR_SYSCALL")
                   ? -ECONNRESET
                   : -EPROTO;
    case CURLE_OUT_OF_MEMORY:
        return -ENOMEM;
    default:
        return -EPROTO;
    }
}
