/* A request as it is sent: every header as the caller gave it, and of our own only what HTTP asks for. */
#include "fetch/net/http_impl.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TEXT_MAX_BYTES (1024 * 1024) /* URL, headers and payload; a token's document has some KiB */
#define NUMBER_BYTES 24

static const char *method_text(enum hr_http_method method)
{
    static const char *const texts[] = {
        [HR_HTTP_GET] = "GET ", [HR_HTTP_HEAD] = "HEAD ", [HR_HTTP_PUT] = "PUT ", [HR_HTTP_POST] = "POST "};
    return texts[method];
}

static size_t text_bytes(const struct hr_http_impl *impl, const char *user_agent, size_t payload_bytes)
{
    const struct hr_http_request *request = &impl->request;
    size_t bytes =
        strlen(request->url) + strlen(user_agent) + payload_bytes +
        sizeof("HEAD / HTTP/1.1\r\nHost: \r\nUser-Agent: \r\nAccept: */*\r\nContent-Length: \r\n\r\n") +
        NUMBER_BYTES;
    for (unsigned i = 0; i < request->header_count; i++) {
        bytes += impl->header_len[i].name + impl->header_len[i].value + sizeof(": \r\n");
    }
    return bytes;
}

static char *put(char *at, const char *bytes, size_t len)
{
    memcpy(at, bytes, len);
    return at + len;
}

static char *puts_at(char *at, const char *text)
{
    return put(at, text, strlen(text));
}

static char *put_headers(char *at, const struct hr_http_impl *impl)
{
    const struct hr_http_request *request = &impl->request;
    bool has_accept = false;
    for (unsigned i = 0; i < request->header_count; i++) {
        const struct hr_http_header *header = &request->headers[i];
        const struct hr_http_header_len *len = &impl->header_len[i];
        has_accept = has_accept || strcasecmp(header->name, "accept") == 0;
        at = put(at, header->name, len->name);
        *at++ = ':';
        if (len->value > 0) {
            *at++ = ' ';
        }
        at = put(at, header->value, len->value);
        at = put(at, "\r\n", 2);
    }
    return has_accept ? at : puts_at(at, "Accept: */*\r\n");
}

/* The memory was reserved in one piece: growing would leave copies of what is secret behind. */
int hr_http_text(struct hr_http_impl *impl)
{
    const struct hr_http_request *request = &impl->request;
    const char *user_agent = impl->thread->http->user_agent ? impl->thread->http->user_agent : "";
    bool has_payload = request->method == HR_HTTP_PUT || request->method == HR_HTTP_POST;
    const char *payload = has_payload && request->payload ? request->payload : "";
    struct hr_buf *text = &impl->text;
    impl->text_sent = 0;
    text->ceiling = TEXT_MAX_BYTES;
    hr_buf_reset(text);
    int r = hr_buf_reserve(text, text_bytes(impl, user_agent, strlen(payload)));
    if (r < 0) {
        return -ENOMEM;
    }
    const char *target = impl->origin + impl->origin_len;
    char *at = puts_at(text->data, method_text(request->method));
    at = puts_at(at, target[0] == '/' ? "" : "/");
    at = puts_at(at, target);
    at = puts_at(at, " HTTP/1.1\r\nHost: ");
    for (int i = 0; i < impl->host_len; i++) {
        *at++ = (char)tolower((unsigned char)impl->origin[i]); /* as it is signed */
    }
    if (user_agent[0] != '\0') {
        at = puts_at(at, "\r\nUser-Agent: ");
        at = puts_at(at, user_agent);
    }
    at = puts_at(at, "\r\n");
    at = put_headers(at, impl);
    if (has_payload) {
        at += snprintf(at, NUMBER_BYTES + sizeof("Content-Length: \r\n"), "Content-Length: %zu\r\n",
                       strlen(payload));
    }
    at = puts_at(at, "\r\n");
    at = puts_at(at, payload);
    *at = '\0';
    text->len = (size_t)(at - text->data);
    return 0;
}
