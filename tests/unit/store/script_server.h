/* A loopback HTTP server that answers by a script, one request a connection, from a thread of its own. What
 * was asked may be read after script_stop. */
#ifndef TESTS_STORE_SCRIPT_SERVER_H
#define TESTS_STORE_SCRIPT_SERVER_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SCRIPT_STEPS_MAX 12
#define SCRIPT_LOG_MAX 64
#define SCRIPT_REQUEST_BYTES 8192

struct script_step {
    const char *head; /* "200 OK\r\nETag: \"x\"\r\n"; "@PORT" is replaced; NULL: the connection is closed
                         unanswered */
    const char *body; /* NULL: none */
    long announced;   /* Content-Length that is sent; 0: the body's, -1: none at all */
};

struct script {
    struct script_step steps[SCRIPT_STEPS_MAX];
    unsigned step_count;
    bool loop; /* begin again after the last step; else the last one is repeated */
    unsigned port;
    int fd;
    pthread_t thread;
    unsigned asked;
    char log[SCRIPT_LOG_MAX][SCRIPT_REQUEST_BYTES];
};

static void script_send(int fd, const char *text, size_t len)
{
    while (len > 0) {
        ssize_t sent = send(fd, text, len, MSG_NOSIGNAL);
        if (sent <= 0) {
            return;
        }
        text += sent;
        len -= (size_t)sent;
    }
}

static void script_answer(struct script *script, int fd, const struct script_step *step)
{
    char text[4096], port[16];
    size_t used = 0, body_len = step->body != NULL ? strlen(step->body) : 0;
    const char *p = step->head;

    if (p == NULL) {
        return;
    }
    (void)snprintf(port, sizeof(port), "%u", script->port);
    used += (size_t)snprintf(text, sizeof(text), "HTTP/1.1 ");
    while (*p != '\0' && used + 32 < sizeof(text)) {
        if (strncmp(p, "@PORT", 5) == 0) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s", port);
            p += 5;
        } else {
            text[used++] = *p++;
        }
    }
    if (step->announced >= 0) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, "Content-Length: %ld\r\n",
                                 step->announced > 0 ? step->announced : (long)body_len);
    }
    used += (size_t)snprintf(text + used, sizeof(text) - used, "Connection: close\r\n\r\n");
    script_send(fd, text, used);
    if (body_len > 0) {
        script_send(fd, step->body, body_len);
    }
}

static void script_serve(struct script *script, int fd)
{
    char *log = script->log[script->asked % SCRIPT_LOG_MAX];
    unsigned at = script->asked;
    size_t used = 0;

    while (used + 1 < SCRIPT_REQUEST_BYTES) {
        ssize_t got = recv(fd, log + used, SCRIPT_REQUEST_BYTES - 1 - used, 0);
        if (got <= 0) {
            return;
        }
        used += (size_t)got;
        log[used] = '\0';
        const char *end = strstr(log, "\r\n\r\n");
        const char *length = strcasestr(log, "\r\nContent-Length: ");
        if (end != NULL && (length == NULL || length > end ||
                            used >= (size_t)(end + 4 - log) + strtoul(length + 18, NULL, 10))) {
            break;
        }
    }
    script->asked++;
    if (at >= script->step_count) {
        at = script->loop ? at % script->step_count : script->step_count - 1;
    }
    script_answer(script, fd, &script->steps[at]);
    (void)shutdown(fd, SHUT_WR);
    /* Closing with unread bytes would reset what was sent. */
    while (recv(fd, (char[256]){0}, 256, 0) > 0) {
    }
}

static void *script_run(void *arg)
{
    struct script *script = arg;

    for (;;) {
        int fd = accept(script->fd, NULL, NULL);
        if (fd < 0) {
            return NULL;
        }
        struct timeval limit = {5, 0};
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
        script_serve(script, fd);
        (void)close(fd);
    }
}

static int script_start(struct script *script)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);

    script->asked = 0;
    script->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (script->fd < 0 || bind(script->fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(script->fd, 128) < 0 || getsockname(script->fd, (struct sockaddr *)&address, &len) < 0) {
        return -1;
    }
    script->port = ntohs(address.sin_port);
    return pthread_create(&script->thread, NULL, script_run, script);
}

static inline void script_stop(struct script *script)
{
    (void)shutdown(script->fd, SHUT_RDWR);
    (void)pthread_join(script->thread, NULL);
    (void)close(script->fd);
}

#endif
