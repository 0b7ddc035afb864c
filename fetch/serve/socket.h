/* The daemon's Unix socket: one JSON request line in, one JSON answer line out, then the connection ends.
 *
 *   {"op":"attach","key":HEX32,"env":["NAME=VALUE",...],"program":NAME} (a job's: jobs.h)
 *     -> {"context":N,"trees":[...],"warning":"..."}
 *   {"op":"look"|"open"|"list","tree":N,"path":"..."}
 *     -> {"kind":"file"|"dir","size":..,"mtime_ns":..,"file":PATH}
 *        list: "index":PATH of the published names; open of a large object: "file" is "", "face" its number
 *   {"op":"segment","tree":N,"face":N,"offset":N,"bytes":N}
 *     -> {"file":PATH,"offset":N,"size":N}: what lies where in the object, the byte asked for in it
 *   {"op":"status"} -> the status document
 *   {"op":"waits"}  -> {"waits":[...]}: waits.h
 *   {"op":"report"} -> {"jobs":[...]}: jobs.h
 *   {"op":"stop"}   -> {} once it is on its way
 *   and those of errands.h
 * An answer that failed is {"error":"one line","errno":N}. Paths are percent-encoded (keys may hold any
 * byte). The environment of attach carries secrets: the socket is 0600, the peer's uid is checked, buffers
 * are zeroed. */
#ifndef HR_SERVE_SOCKET_H
#define HR_SERVE_SOCKET_H

#include "fetch/net/loop.h"
#include "fetch/plan/plan.h"
#include "fetch/serve/contexts.h"
#include "fetch/serve/errands.h"
#include "fetch/serve/jobs.h"
#include "fetch/serve/waits.h"

#define HR_SOCKET_NAME "sock" /* in cache_dir */

struct hr_socket;

struct hr_socket_options {
    struct hr_loop *loop;
    const char *cache_dir;
    struct hr_plan *plan;
    struct hr_contexts *contexts;
    struct hr_errands *errands;
    struct hr_waits *waits; /* NULL: nobody looks */
    struct hr_jobs *jobs;   /* NULL: none are told apart */
    struct hr_control *control;
    char *(*status)(void *owner); /* malloc'ed JSON text, one line */
    void (*stop)(void *owner);
    void *owner;
};

/* 0 or -errno, of the socket's place as a rule. */
int hr_socket_open(const struct hr_socket_options *options, struct hr_socket **ret);
/* Every heartbeat: lets go of clients that neither ask nor listen. Requests handled since the last call,
 * those that only look not counted: a sign of life from clients. */
unsigned hr_socket_activity(struct hr_socket *server);
void hr_socket_close(struct hr_socket *server); /* accepts NULL; removes the socket's name */

#endif
