/* The operations of the daemon's socket (socket.h has their form). Main loop. */
#ifndef HR_SERVE_REQUESTS_H
#define HR_SERVE_REQUESTS_H

#include "fetch/serve/connection.h"
#include "fetch/serve/socket.h"

/* Replies, at once or when the plan has answered; options live as long as the connection. *activity grows by
 * one, unless the request only looks. */
void hr_request_do(const struct hr_socket_options *options, struct hr_connection *connection,
                   const json_t *request, unsigned *activity);

#endif
