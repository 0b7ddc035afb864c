/* libcurl's multi handle of a thread, driven by the thread's loop while connections open: which sockets it
 * waits for, and its one timer. */
#include "fetch/net/http_impl.h"

#include <sys/epoll.h>

static void act(struct hr_http_thread *thread, curl_socket_t fd, int actions)
{
    int still_running;
    if (thread->multi && !thread->broken &&
        curl_multi_socket_action(thread->multi, fd, actions, &still_running) != CURLM_OK) {
        thread->broken = true;
    }
}

static void on_socket(void *owner, int fd, uint32_t events)
{
    int actions = (events & EPOLLIN ? CURL_CSELECT_IN : 0) | (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                  (events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
    act(owner, fd, actions);
}

void hr_http_multi_timer(void *owner)
{
    act(owner, CURL_SOCKET_TIMEOUT, 0);
}

static int watch_socket(CURL *curl, curl_socket_t fd, int what, void *owner, void *unused)
{
    struct hr_http_thread *thread = owner;
    struct hr_http_conn *conn = NULL; /* libcurl's own handles have none */
    (void)unused;
    if (curl_easy_getinfo(curl, CURLINFO_PRIVATE, &conn) == CURLE_OK && conn) {
        conn->opening_fd = what == CURL_POLL_REMOVE ? -1 : fd;
    }
    if (what == CURL_POLL_REMOVE) {
        hr_loop_unwatch(thread->loop, fd);
        return 0;
    }
    uint32_t events = (what & CURL_POLL_IN ? EPOLLIN : 0) | (what & CURL_POLL_OUT ? EPOLLOUT : 0);
    if (hr_loop_watch(thread->loop, fd, events, on_socket, thread) < 0) {
        thread->broken = true; /* older libcurl ignores the answer of this function */
        return -1;
    }
    return 0;
}

static int watch_timer(CURLM *multi, long timeout_ms, void *owner)
{
    struct hr_http_thread *thread = owner;
    (void)multi;
    if (timeout_ms < 0) {
        hr_loop_disarm(thread->loop, &thread->curl_timer);
    } else if (hr_loop_arm(thread->loop, &thread->curl_timer, timeout_ms) < 0) {
        thread->broken = true;
        return -1;
    }
    return 0;
}

CURLM *hr_http_multi_new(struct hr_http_thread *thread)
{
    CURLM *multi = curl_multi_init();
    if (multi) {
        (void)curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
        (void)curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, thread);
        (void)curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, watch_timer);
        (void)curl_multi_setopt(multi, CURLMOPT_TIMERDATA, thread);
        (void)curl_multi_setopt(multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    }
    return multi;
}

void hr_http_multi_drop(struct hr_http_thread *thread)
{
    hr_http_conns_drop(thread);
    if (thread->multi) {
        (void)curl_multi_cleanup(thread->multi);
        thread->multi = NULL;
    }
    hr_loop_disarm(thread->loop, &thread->curl_timer);
}
