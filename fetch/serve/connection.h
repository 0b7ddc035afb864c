/* One client of the daemon's socket: one JSON line in, one JSON line out, then it ends. Main loop. */
#ifndef HR_SERVE_CONNECTION_H
#define HR_SERVE_CONNECTION_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "fetch/base/buf.h"
#include "fetch/net/loop.h"

struct hr_connection;

/* Shared by all connections of a server; outlives them but those that wait. */
struct hr_connection_options {
    struct hr_loop *loop;
    /* Asks for exactly one reply, now or later. The request is the caller's. */
    void (*request)(void *owner, struct hr_connection *connection, const json_t *request);
    void (*ended)(void *owner, struct hr_connection *connection); /* it leaves the owner's list */
    void *owner;
};

struct hr_connection {
    struct hr_connection *next;                  /* the owner's */
    const struct hr_connection_options *options; /* NULL: it has ended, an answer is dropped */
    int fd;
    struct hr_buf in;
    struct hr_buf out;
    size_t sent;
    int64_t since_ms; /* it came; or its answer was ready */
    unsigned waiting; /* asked the plan: its answer holds on to this struct */
    uint32_t pid;     /* of the other side */
};

/* Takes fd over; NULL, and it is still the caller's: no memory, or the loop does not take it. */
struct hr_connection *hr_connection_new(const struct hr_connection_options *options, int fd, uint32_t pid);
/* Frees it, unless answers are due: then the last of them does. */
void hr_connection_end(struct hr_connection *connection);

/* The connection may be gone after a reply. text: one line, without its end. */
void hr_connection_reply(struct hr_connection *connection, const char *text);
void hr_connection_reply_json(struct hr_connection *connection, json_t *document); /* takes it over */
void hr_connection_reply_error(struct hr_connection *connection, int error, const char *message);
/* An answer that it was waiting for (++waiting) is there. False: nobody listens any more, it may be gone. */
bool hr_connection_answered(struct hr_connection *connection);

#endif
