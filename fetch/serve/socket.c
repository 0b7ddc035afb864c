#include "fetch/serve/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "fetch/base/buf.h"
#include "fetch/base/cleanup.h"
#include "fetch/base/clock.h"
#include "fetch/base/text.h"

#define HR_REQUEST_MAX_BYTES                                                                                 \
    (1u << 20) /* an environment; the kernel's own limit for one string is 128 KiB                           \
                */
#define HR_ANSWER_MAX_BYTES                                                                                  \
    (64u << 20)                /* waits: 4096 of them, each with a name of up to 8 KiB once encoded */
#define HR_CONNECTIONS_MAX 128 /* commands at once; the kernel keeps as many more waiting */
#define HR_ENV_MAX 4096        /* variables of one environment */
#define HR_PATIENCE_MS                                                                                       \
    30000 /* for a request to come whole, or an answer to be taken: both take milliseconds */

struct connection {
    struct connection *next;
    struct hr_socket *server; /* NULL: the server has closed, an answer is dropped */
    int fd;
    struct hr_buf in;
    struct hr_buf out;
    size_t sent;
    int64_t since_ms; /* it came; or its answer was ready */
    unsigned waiting; /* asked the plan: its answer holds on to this struct */
    uint32_t pid;     /* of the other side */
};

struct hr_socket {
    struct hr_socket_options options;
    int fd;
    int dir_fd;     /* of cache_dir */
    dev_t name_dev; /* of the socket's name */
    ino_t name_ino;
    struct connection *connections;
    unsigned count;
    unsigned activity;
};

static void incoming(void *owner, int fd, uint32_t events);

static void forget(struct connection *connection)
{
    struct hr_socket *server = connection->server;
    if (server) {
        struct connection **at = &server->connections;
        while (*at != connection) {
            at = &(*at)->next;
        }
        *at = connection->next;
        if (server->count-- == HR_CONNECTIONS_MAX) {
            (void)hr_loop_watch(server->options.loop, server->fd, EPOLLIN, incoming, server);
        }
        connection->server = NULL;
        hr_loop_unwatch(server->options.loop, connection->fd);
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
static void flush_out(struct connection *connection)
{
    while (connection->sent < connection->out.len) {
        ssize_t wrote = send(connection->fd, connection->out.data + connection->sent,
                             connection->out.len - connection->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (wrote < 0 && errno == EINTR) {
            continue;
        }
        if (wrote < 0 && errno == EAGAIN &&
            hr_loop_watch(connection->server->options.loop, connection->fd, EPOLLOUT, writable, connection) ==
                0) {
            return; /* the loop tells when there is room */
        }
        if (wrote <= 0) {
            break;
        }
        connection->sent += (size_t)wrote;
    }
    forget(connection);
}

static void writable(void *owner, int fd, uint32_t events)
{
    (void)fd;
    (void)events;
    flush_out(owner);
}

/* The connection may be gone afterwards. */
static void reply_text(struct connection *connection, const char *text)
{
    if (!connection->server) {
        return;
    }
    if (hr_buf_puts(&connection->out, text) < 0 || hr_buf_puts(&connection->out, "\n") < 0) {
        forget(connection);
        return;
    }
    connection->since_ms = hr_clock_ms();
    flush_out(connection); /* at once: after `stop` there is no next turn of the loop */
}

static void reply_json(struct connection *connection, json_t *document)
{
    char *text = document ? json_dumps(document, JSON_COMPACT) : NULL;
    reply_text(connection, text ? text : "{\"error\":\"out of memory\",\"errno\":12}");
    free(text);
    json_decref(document);
}

static void reply_error(struct connection *connection, int error, const char *message)
{
    json_t *document = json_object();
    json_object_set_new(document, "errno", json_integer(-error));
    json_t *line = json_string(message);
    json_object_set_new(document, "error", line ? line : json_string(strerror(-error)));
    reply_json(connection, document);
}

/* ---- operations ---- */

static int env_of(const json_t *list, char ***ret)
{
    size_t count = json_array_size(list);
    if (count > HR_ENV_MAX) {
        return -E2BIG;
    }
    char **envp = calloc(count + 1, sizeof *envp);
    if (!envp) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        envp[i] = (char *)(uintptr_t)json_string_value(json_array_get(list, i));
        if (!envp[i]) {
            free(envp);
            return -EINVAL;
        }
    }
    *ret = envp;
    return 0;
}

static void op_attach(struct connection *connection, const json_t *request)
{
    struct hr_socket *server = connection->server;
    const char *hex = json_string_value(json_object_get(request, "key"));
    uint8_t key[16];
    hr_cleanup_free char **envp = NULL;
    if (!hex || strlen(hex) != 32 || hr_hex_decode(hex, 32, key) < 0 ||
        env_of(json_object_get(request, "env"), &envp) < 0) {
        reply_error(connection, -EINVAL, "attach: malformed request");
        return;
    }
    char message[512] = "";
    uint32_t number = 0;
    int error = hr_contexts_attach(server->options.contexts, key, envp, message, &number);
    if (error < 0) {
        reply_error(connection, error, message);
        return;
    }
    const char *program = json_string_value(json_object_get(request, "program"));
    if (program && server->options.jobs) {
        hr_jobs_began(server->options.jobs, number, program, program[0] ? connection->pid : 0);
    }
    char warning[512];
    hr_contexts_compare(server->options.contexts, envp, warning);
    const struct hr_context *context = &server->options.control->contexts[number];
    json_t *trees = json_array();
    for (uint32_t i = 0; i < context->map_count; i++) {
        json_array_append_new(trees, json_integer(context->tree[i]));
    }
    reply_json(connection, json_pack("{s:I, s:o, s:s}", "context", (json_int_t)number, "trees", trees,
                                     "warning", warning));
}

/* The connection that asked, when it is still there. */
static struct connection *answered_to(struct connection *connection)
{
    connection->waiting--;
    if (connection->server) {
        return connection;
    }
    forget(connection);
    return NULL;
}

static void reply_failure(struct connection *connection, uint32_t tree, int error)
{
    const char *said = error == -ENOENT || error == -ENOTDIR
                           ? NULL
                           : hr_plan_message(connection->server->options.plan, tree, error);
    reply_error(connection, error, said ? said : strerror(-error));
}

struct question {
    struct connection *connection;
    enum hr_op op;
    uint32_t tree;
    uint32_t path_len;
    char path[HR_KEY_MAX];
};

static void answered(void *owner, uint32_t ticket, const struct hr_answer *answer)
{
    struct question *question = owner;
    struct connection *connection = answered_to(question->connection);
    (void)ticket;
    if (connection && answer->error < 0) {
        reply_failure(connection, question->tree, answer->error);
    } else if (connection) {
        const struct hr_socket_options *options = &connection->server->options;
        char path[PATH_MAX] = "";
        bool face = answer->flags & HR_ANSWER_FACE; /* read by "segment" */
        if (question->op == HR_OP_LIST) {
            (void)hr_plan_index_path(options->plan, question->tree, path, sizeof path);
        } else if (answer->file_id && !face) {
            hr_object_path(options->cache_dir, answer->file_id, path);
        }
        char etag[136];
        hr_plan_etag(options->plan, question->tree, question->path, question->path_len, etag, sizeof etag);
        json_t *tag = json_string(etag); /* NULL: not UTF-8 */
        json_t *document = json_pack("{s:o, s:s, s:I, s:I, s:s}", "etag", tag ? tag : json_string(""), "kind",
                                     answer->kind == HR_KIND_DIR ? "dir" : "file", "size",
                                     (json_int_t)answer->size, "mtime_ns", (json_int_t)answer->mtime_ns,
                                     question->op == HR_OP_LIST ? "index" : "file", path);
        if (face) {
            json_object_set_new(document, "face", json_integer((json_int_t)answer->file_id));
        }
        reply_json(connection, document);
    }
    free(question);
}

static void op_ask(struct connection *connection, const json_t *request, enum hr_op op)
{
    struct hr_socket *server = connection->server;
    const char *encoded = json_string_value(json_object_get(request, "path"));
    json_int_t tree = json_integer_value(json_object_get(request, "tree"));
    struct hr_buf path = HR_BUF_INIT(HR_KEY_MAX);
    struct question *question = malloc(sizeof *question);
    if (!question || tree < 0 || tree >= HR_TREES_MAX || !encoded ||
        hr_percent_decode(encoded, strlen(encoded), false, &path) < 0) {
        reply_error(connection, -EINVAL, "malformed request");
        free(question);
    } else {
        *question = (struct question){
            .connection = connection, .op = op, .tree = (uint32_t)tree, .path_len = (uint32_t)path.len};
        memcpy(question->path, path.data ? path.data : "", path.len);
        struct hr_asker asker = {.fn = answered, .owner = question};
        connection->waiting++;
        hr_plan_ask(server->options.plan, op, (uint32_t)tree, path.data ? path.data : "", (uint32_t)path.len,
                    &asker);
    }
    hr_buf_release(&path);
}

struct reading {
    struct connection *connection;
    uint32_t tree;
};

static void segment_answered(void *owner, uint32_t ticket, const struct hr_answer *answer)
{
    struct reading *reading = owner;
    struct connection *connection = answered_to(reading->connection);
    (void)ticket;
    if (connection && answer->error < 0) {
        reply_failure(connection, reading->tree, answer->error);
    } else if (connection) {
        char path[PATH_MAX];
        hr_object_path(connection->server->options.cache_dir, answer->file_id, path);
        reply_json(connection, json_pack("{s:s, s:I, s:I}", "file", path, "offset",
                                         (json_int_t)answer->offset, "size", (json_int_t)answer->size));
    }
    free(reading);
}

/* Bytes of an object whose "open" was answered with a face: one file that holds `offset`. */
static void op_segment(struct connection *connection, const json_t *request)
{
    json_int_t tree = json_integer_value(json_object_get(request, "tree"));
    json_int_t bytes = json_integer_value(json_object_get(request, "bytes"));
    json_int_t offset = json_integer_value(json_object_get(request, "offset"));
    struct hr_segment_ask ask = {
        .face_id = (uint64_t)json_integer_value(json_object_get(request, "face")),
        .offset = (uint64_t)offset,
        .bytes = (uint64_t)bytes,
    };
    struct reading *reading = malloc(sizeof *reading);
    if (!reading || tree < 0 || tree >= HR_TREES_MAX || offset < 0 || bytes <= 0) {
        reply_error(connection, -EINVAL, "malformed request");
        free(reading);
        return;
    }
    *reading = (struct reading){.connection = connection, .tree = (uint32_t)tree};
    struct hr_reader reader = {
        .context = UINT32_MAX, .tree = (uint32_t)tree, .pid = connection->pid, .tid = connection->pid};
    struct hr_asker asker = {.fn = segment_answered, .owner = reading};
    connection->waiting++;
    hr_plan_segment(connection->server->options.plan, &reader, &ask, false, &asker);
}

static void handle(struct connection *connection, const json_t *request)
{
    struct hr_socket *server = connection->server;
    const char *op = json_string_value(json_object_get(request, "op"));
    op = op ? op : "";
    if (strcmp(op, "status") == 0) {
        char *text = server->options.status(server->options.owner);
        reply_text(connection, text ? text : "{\"error\":\"out of memory\",\"errno\":12}");
        free(text);
        return;
    }
    if (strcmp(op, "waits") == 0 && server->options.waits) {
        reply_json(connection, json_pack("{s:o}", "waits", hr_waits_json(server->options.waits)));
        return;
    }
    if (strcmp(op, "report") == 0 && server->options.jobs) {
        reply_json(connection, hr_jobs_json(server->options.jobs));
        return;
    }
    server->activity++;
    if (strcmp(op, "attach") == 0) {
        op_attach(connection, request);
    } else if (strcmp(op, "look") == 0) {
        op_ask(connection, request, HR_OP_LOOK);
    } else if (strcmp(op, "open") == 0) {
        op_ask(connection, request, HR_OP_OPEN);
    } else if (strcmp(op, "list") == 0) {
        op_ask(connection, request, HR_OP_LIST);
    } else if (strcmp(op, "segment") == 0) {
        op_segment(connection, request);
    } else if (strcmp(op, "stop") == 0) {
        reply_text(connection, "{}");
        server->options.stop(server->options.owner);
    } else {
        json_t *answer = hr_errands_do(server->options.errands, op, request, connection->pid);
        if (answer) {
            reply_json(connection, answer);
        } else {
            reply_error(connection, -EINVAL, "unknown operation");
        }
    }
}

static void readable(void *owner, int fd, uint32_t events)
{
    struct connection *connection = owner;
    if (!(events & EPOLLIN)) {
        if (events & (EPOLLERR | EPOLLHUP)) {
            forget(connection); /* it went away before its answer came */
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
        forget(connection);
        return;
    }
    explicit_bzero(chunk, sizeof chunk);
    char *end = memchr(connection->in.data, '\n', connection->in.len);
    if (!end) {
        return;
    }
    json_t *request = json_loadb(connection->in.data, (size_t)(end - connection->in.data), 0, NULL);
    explicit_bzero(connection->in.data, connection->in.len);
    hr_buf_reset(&connection->in);
    /* Nothing more is read: the answer is next. */
    (void)hr_loop_watch(connection->server->options.loop, fd, 0, readable, connection);
    if (request) {
        handle(connection, request);
    } else {
        reply_error(connection, -EINVAL, "malformed request");
    }
    json_decref(request);
}

static bool peer_is_us(int fd, uint32_t *ret_pid)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 ||
        (peer.uid != geteuid() && peer.uid != 0)) {
        return false;
    }
    *ret_pid = (uint32_t)peer.pid;
    return true;
}

static void incoming(void *owner, int fd, uint32_t events)
{
    struct hr_socket *server = owner;
    (void)events;
    int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (peer < 0) {
        return;
    }
    uint32_t pid;
    struct connection *connection = peer_is_us(peer, &pid) ? calloc(1, sizeof *connection) : NULL;
    if (!connection) {
        close(peer);
        return;
    }
    hr_buf_init(&connection->in, HR_REQUEST_MAX_BYTES);
    hr_buf_init(&connection->out, HR_ANSWER_MAX_BYTES);
    /* All of it at once (pages that are not touched cost nothing): growing would leave copies of secrets. */
    if (hr_buf_reserve(&connection->in, HR_REQUEST_MAX_BYTES) < 0) {
        close(peer);
        free(connection);
        return;
    }
    connection->server = server;
    connection->fd = peer;
    connection->pid = pid;
    connection->since_ms = hr_clock_ms();
    connection->next = server->connections;
    server->connections = connection;
    if (++server->count == HR_CONNECTIONS_MAX) {
        (void)hr_loop_watch(server->options.loop, fd, 0, incoming, server);
    }
    if (hr_loop_watch(server->options.loop, peer, EPOLLIN, readable, connection) < 0) {
        forget(connection);
    }
}

int hr_socket_open(const struct hr_socket_options *options, struct hr_socket **ret)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    hr_cleanup_fd int dir_fd = open(options->cache_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0) {
        return -errno;
    }
    /* By the descriptor: a cache_dir may be longer than the 108 bytes of a socket's address. */
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/" HR_SOCKET_NAME, dir_fd);
    hr_cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -errno;
    }
    (void)unlinkat(dir_fd, HR_SOCKET_NAME, 0); /* an earlier daemon's: we hold the lock */
    mode_t old_mask = umask(0177);
    int bound = bind(fd, (struct sockaddr *)&address, sizeof address);
    int bind_error = errno;
    umask(old_mask);
    if (bound < 0) {
        return -bind_error;
    }
    if (listen(fd, HR_CONNECTIONS_MAX) < 0) {
        return -errno;
    }
    struct hr_socket *server = calloc(1, sizeof *server);
    if (!server) {
        return -ENOMEM;
    }
    server->options = *options;
    int error = hr_loop_watch(options->loop, fd, EPOLLIN, incoming, server);
    if (error < 0) {
        free(server);
        return error;
    }
    struct stat st;
    if (fstatat(dir_fd, HR_SOCKET_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        server->name_dev = st.st_dev;
        server->name_ino = st.st_ino;
    }
    server->fd = hr_steal_fd(fd);
    server->dir_fd = hr_steal_fd(dir_fd);
    *ret = server;
    return 0;
}

unsigned hr_socket_activity(struct hr_socket *server)
{
    unsigned activity = server->activity;
    server->activity = 0;
    int64_t now_ms = hr_clock_ms();
    struct connection *next;
    for (struct connection *connection = server->connections; connection; connection = next) {
        next = connection->next;
        if (connection->waiting == 0 && now_ms - connection->since_ms > HR_PATIENCE_MS) {
            forget(connection);
        }
    }
    return activity;
}

void hr_socket_close(struct hr_socket *server)
{
    if (!server) {
        return;
    }
    while (server->connections) {
        forget(server->connections);
    }
    hr_loop_unwatch(server->options.loop, server->fd);
    close(server->fd);
    struct stat st; /* the name may be another daemon's by now */
    if (fstatat(server->dir_fd, HR_SOCKET_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        st.st_dev == server->name_dev && st.st_ino == server->name_ino) {
        (void)unlinkat(server->dir_fd, HR_SOCKET_NAME, 0);
    }
    close(server->dir_fd);
    free(server);
}
