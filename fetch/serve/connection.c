#include "fetch/serve/connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fetch/base/clock.h"
#include "fetch/serve/documents.h"

/* An environment; the kernel's own limit for one string is 128 KiB. */
#define HR_REQUEST_MAX_BYTES (1u << 20)
/* waits: 4096 of them, each with a name of up to 8 KiB once encoded. */
#define HR_ANSWER_MAX_BYTES (64u << 20)

void hr_connection_end(struct hr_connection *connection)
{
    const struct hr_connection_options *options = connection->options;
    if (options) {
        connection->options = NULL;
        options->ended(options->owner, connection);
        hr_loop_unwatch(options->loop, connection->fd);
        close(connection->fd);
    }
    if (connection->waiting == 0) {
        if (connection->in.data) {
            explicit_bzero(connection->in.data, connection->in.len);
        }
        hr_buf_release(&connection->in);
        hr_buf_release(&connection->out);
        free(connection);
    }
}

static void writable(void *owner, int fd, uint32_t events);

/* Sends what there is to send and, once all of it went, ends the connection. */
static void flush_out(struct hr_connection *connection)
{
    while (connection->sent < connection->out.len) {
        ssize_t wrote = send(connection->fd, connection->out.data + connection->sent,
                             connection->out.len - connection->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (wrote < 0 && errno == EINTR) {
            continue;
        }
        if (wrote < 0 && errno == EAGAIN &&
            hr_loop_watch(connection->options->loop, connection->fd, EPOLLOUT, writable, connection) == 0) {
            return; /* the loop tells when there is room */
        }
        if (wrote <= 0) {
            break;
        }
        connection->sent += (size_t)wrote;
    }
    hr_connection_end(connection);
}

static void writable(void *owner, int fd, uint32_t events)
{
    (void)fd;
    (void)events;
    flush_out(owner);
}

void hr_connection_reply(struct hr_connection *connection, const char *text)
{
    if (!connection->options) {
        return;
    }
    if (hr_buf_puts(&connection->out, text) < 0 || hr_buf_puts(&connection->out, "\n") < 0) {
        hr_connection_end(connection);
        return;
    }
    connection->since_ms = hr_clock_ms();
    flush_out(connection); /* at once: after `stop` there is no next turn of the loop */
}

void hr_connection_reply_json(struct hr_connection *connection, json_t *document)
{
    char *text = document ? json_dumps(document, JSON_COMPACT) : NULL;
    bool whole = !hr_documents_short() && text;
    hr_connection_reply(connection, whole ? text : "{\"error\":\"out of memory\",\"errno\":12}");
    free(text);
    json_decref(document);
}

void hr_connection_reply_error(struct hr_connection *connection, int error, const char *message)
{
    json_t *document = json_object();
    json_object_set_new(document, "errno", json_integer(-error));
    json_t *line = json_string(message);
    json_object_set_new(document, "error", line ? line : json_string(strerror(-error)));
    hr_connection_reply_json(connection, document);
}

bool hr_connection_answered(struct hr_connection *connection)
{
    connection->waiting--;
    if (!connection->options) {
        hr_connection_end(connection);
        return false;
    }
    return true;
}

static void readable(void *owner, int fd, uint32_t events)
{
    struct hr_connection *connection = owner;
    if (!(events & EPOLLIN)) {
        if (events & (EPOLLERR | EPOLLHUP)) {
            hr_connection_end(connection); /* it went away before its answer came */
        }
        return;
    }
    char chunk[16384];
    ssize_t got = recv(fd, chunk, sizeof chunk, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (got <= 0 || hr_buf_append(&connection->in, chunk, (size_t)got) < 0) {
        explicit_bzero(chunk, sizeof chunk);
        hr_connection_end(connection);
        return;
    }
    explicit_bzero(chunk, sizeof chunk);
    char *end = memchr(connection->in.data, '\n', connection->in.len);
    if (!end) {
        return;
    }
    (void)hr_documents_short();
    json_t *request = json_loadb(connection->in.data, (size_t)(end - connection->in.data), 0, NULL);
    explicit_bzero(connection->in.data, connection->in.len);
    hr_buf_reset(&connection->in);
    /* Nothing more is read: the answer is next. */
    (void)hr_loop_watch(connection->options->loop, fd, 0, readable, connection);
    if (request) {
        connection->options->request(connection->options->owner, connection, request);
    } else {
        bool memory = hr_documents_short();
        hr_connection_reply_error(connection, memory ? -ENOMEM : -EINVAL,
                                  memory ? strerror(ENOMEM) : "malformed request");
    }
    json_decref(request);
}

struct hr_connection *hr_connection_new(const struct hr_connection_options *options, int fd, uint32_t pid)
{
    struct hr_connection *connection = calloc(1, sizeof *connection);
    if (!connection) {
        return NULL;
    }
    hr_buf_init(&connection->in, HR_REQUEST_MAX_BYTES);
    hr_buf_init(&connection->out, HR_ANSWER_MAX_BYTES);
    /* All of it at once (pages that are not touched cost nothing): growing would leave copies of secrets. */
    if (hr_buf_reserve(&connection->in, HR_REQUEST_MAX_BYTES) < 0 ||
        hr_loop_watch(options->loop, fd, EPOLLIN, readable, connection) < 0) {
        hr_buf_release(&connection->in);
        free(connection);
        return NULL;
    }
    connection->options = options;
    connection->fd = fd;
    connection->pid = pid;
    connection->since_ms = hr_clock_ms();
    return connection;
}
