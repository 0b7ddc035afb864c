#include "fetch/serve/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "fetch/base/cleanup.h"
#include "fetch/base/clock.h"
#include "fetch/serve/requests.h"

#define HR_CONNECTIONS_MAX 128 /* commands at once; the kernel keeps as many more waiting */
/* For a request to come whole, or an answer to be taken: both take milliseconds. */
#define HR_PATIENCE_MS 30000

struct hr_socket {
    struct hr_socket_options options;
    struct hr_connection_options each;
    int fd;
    int dir_fd;     /* of cache_dir */
    dev_t name_dev; /* of the socket's name */
    ino_t name_ino;
    struct hr_connection *connections;
    unsigned count;
    unsigned activity;
};

static void incoming(void *owner, int fd, uint32_t events);

static void ended(void *owner, struct hr_connection *connection)
{
    struct hr_socket *server = owner;
    struct hr_connection **at = &server->connections;
    while (*at != connection) {
        at = &(*at)->next;
    }
    *at = connection->next;
    if (server->count-- == HR_CONNECTIONS_MAX) {
        (void)hr_loop_watch(server->options.loop, server->fd, EPOLLIN, incoming, server);
    }
}

static void requested(void *owner, struct hr_connection *connection, const json_t *request)
{
    struct hr_socket *server = owner;
    hr_request_do(&server->options, connection, request, &server->activity);
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
    struct hr_connection *connection =
        peer_is_us(peer, &pid) ? hr_connection_new(&server->each, peer, pid) : NULL;
    if (!connection) {
        close(peer);
        return;
    }
    connection->next = server->connections;
    server->connections = connection;
    if (++server->count == HR_CONNECTIONS_MAX) {
        (void)hr_loop_watch(server->options.loop, fd, 0, incoming, server);
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
    server->each = (struct hr_connection_options){
        .loop = options->loop, .request = requested, .ended = ended, .owner = server};
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
    struct hr_connection *next;
    for (struct hr_connection *connection = server->connections; connection; connection = next) {
        next = connection->next;
        if (connection->waiting == 0 && now_ms - connection->since_ms > HR_PATIENCE_MS) {
            hr_connection_end(connection);
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
        hr_connection_end(server->connections);
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
