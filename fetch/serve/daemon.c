#include "fetch/serve/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "fetch/base/block.h"
#include "fetch/base/cleanup.h"
#include "fetch/base/clock.h"
#include "fetch/base/digest.h"
#include "fetch/base/log.h"
#include "fetch/serve/budgets.h"
#include "fetch/serve/contexts.h"
#include "fetch/serve/crash.h"
#include "fetch/serve/documents.h"
#include "fetch/serve/jobs.h"
#include "fetch/serve/metrics.h"
#include "fetch/serve/shm.h"
#include "fetch/serve/slots.h"
#include "fetch/serve/socket.h"
#include "fetch/serve/waits.h"

#define HR_WRITER_THREADS 2    /* 95 us a 100 KB file: two keep up with 20 k objects/s */
#define HR_BLOCKS_KEPT_MS 2000 /* longer than a round trip with a cell behind it: no gap of a stream */
#define HR_USE_CLOCK_MS 10000  /* step of the clock that clients note; only its order matters */
#define HR_FIRST_BATCH_MS                                                                                    \
    1000 /* local: 80 to 250 ms for 64 pictures; after that it is somebody's slow start */

struct daemon {
    const char *cache_dir;
    const struct hr_settings *settings;
    struct hr_budgets budgets;
    struct hr_loop *loop;
    struct hr_http *http;
    struct hr_stores *stores;
    struct hr_shm shm;
    struct hr_plan *plan;
    struct hr_cache *cache;
    struct hr_contexts *contexts;
    struct hr_errands *errands;
    struct hr_jobs *jobs;
    struct hr_waits *waits;
    struct hr_intake *intake;
    struct hr_socket *socket;
    struct hr_timer heartbeat;
    int signal_fd;
    int64_t started_ms;
    int64_t active_ms;
    int64_t clock_ms;
    int64_t trimmed_ms; /* blocks that nobody needs */
    bool lost;          /* cache_dir leads elsewhere now */
};

static void tell(int ready_fd, const char *word, const char *message)
{
    if (ready_fd >= 0) {
        dprintf(ready_fd, "%s%s%s\n", word, message ? " " : "", message ? message : "");
        close(ready_fd);
    }
}

static char *status_text(void *owner)
{
    struct daemon *daemon = owner;
    struct hr_metrics_sources sources = {
        .http = daemon->http,
        .stores = daemon->stores,
        .cache = daemon->cache,
        .plan = daemon->plan,
        .intake = daemon->intake,
        .waits = daemon->waits,
        .cache_dir = daemon->cache_dir,
        .started_ms = daemon->started_ms,
        .contexts = atomic_load(&daemon->shm.control->context_count),
    };
    return hr_metrics_json(&sources);
}

static void stop(void *owner)
{
    struct daemon *daemon = owner;
    hr_log(HR_LOG_INFO, "stopping");
    hr_loop_stop(daemon->loop);
}

static void on_signal(void *owner, int fd, uint32_t events)
{
    struct signalfd_siginfo info;
    ssize_t got = read(fd, &info, sizeof info);
    (void)events;
    if (got == (ssize_t)sizeof info) {
        stop(owner);
    }
}

static void advance_clock(struct daemon *daemon, int64_t now_ms)
{
    if (now_ms - daemon->clock_ms < HR_USE_CLOCK_MS) {
        return;
    }
    daemon->clock_ms = now_ms;
    uint32_t next = atomic_load(&daemon->shm.control->use_clock) + 1;
    /* Clients note its low byte, which is never 0. */
    atomic_store(&daemon->shm.control->use_clock, (next & 0xff) == 0 ? next + 1 : next);
}

static void on_heartbeat(void *owner)
{
    struct daemon *daemon = owner;
    int64_t now_ms = hr_clock_ms();
    if (!hr_shm_is_named(daemon->cache_dir, &daemon->shm)) {
        daemon->lost = true;
        hr_loop_stop(daemon->loop);
        return;
    }
    atomic_store_explicit(&daemon->shm.control->heartbeat_ms, (uint64_t)now_ms, memory_order_release);
    advance_clock(daemon, now_ms);
    bool active = hr_intake_tick(daemon->intake);
    active |= hr_plan_tick(daemon->plan);
    active |= hr_socket_activity(daemon->socket) > 0;
    active |= hr_errands_tick(daemon->errands);
    hr_waits_tick(daemon->waits);
    hr_jobs_tick(daemon->jobs);
    if (now_ms - daemon->trimmed_ms >= HR_BLOCKS_KEPT_MS) {
        hr_blocks_trim();
        daemon->trimmed_ms = now_ms;
    }
    struct hr_plan_stats stats;
    hr_plan_stats(daemon->plan, &stats);
    if (active || stats.in_flight > 0) {
        daemon->active_ms = now_ms;
    }
    if (now_ms - daemon->active_ms > hr_settings_seconds(daemon->settings, HR_SETTING_IDLE_EXIT_S) * 1000) {
        hr_log(HR_LOG_INFO, "idle");
        hr_loop_stop(daemon->loop);
        return;
    }
    (void)hr_loop_arm(daemon->loop, &daemon->heartbeat, HR_HEARTBEAT_MS);
}

static int open_network(struct daemon *daemon, char message[256])
{
    struct hr_http_options http = {
        .threads = daemon->budgets.net_threads,
        .max_connections = daemon->budgets.connections,
        .user_agent = "headrace/" HR_VERSION,
    };
    int error = hr_http_new(&http, daemon->loop, &daemon->http);
    if (error == 0) {
        struct hr_stores_options stores = {
            .loop = daemon->loop,
            .http = daemon->http,
            .timeout_ms = (unsigned)hr_settings_seconds(daemon->settings, HR_SETTING_TIMEOUT_S) * 1000,
            .hedges = hr_settings_bool(daemon->settings, HR_SETTING_HEDGE),
            .connections = daemon->budgets.connections,
        };
        error = hr_stores_new(&stores, &daemon->stores);
    }
    if (error < 0) {
        snprintf(message, 256,
                 "cannot start the network with %u threads and %u connections: %s (ulimit -u, -n)",
                 http.threads, http.max_connections, strerror(-error));
    }
    return error;
}

static int open_plan_and_cache(struct daemon *daemon, uint64_t boot, char message[256])
{
    const struct hr_settings *settings = daemon->settings;
    struct hr_plan_options plan = {
        .loop = daemon->loop,
        .control = daemon->shm.control,
        .cache_dir = daemon->cache_dir,
        .boot = boot,
        .born_ns = hr_shm_born_ns(&daemon->shm),
        .connections = daemon->budgets.connections,
        .list_lanes = daemon->budgets.list_lanes,
        .memory_bytes = daemon->budgets.memory_bytes,
        .lookahead = hr_settings_bool(settings, HR_SETTING_LOOKAHEAD),
        .first_batch_ms = HR_FIRST_BATCH_MS,
        .cores = daemon->budgets.cores,
        .order_search = hr_settings_enum(settings, HR_SETTING_ORDER_SEARCH),
        .order_idle = true,
        .small_max_bytes = hr_settings_bytes(settings, HR_SETTING_SMALL_MAX, 0),
    };
    int error = hr_plan_new(&plan, &daemon->plan);
    if (error == 0) {
        hr_stores_on_room(daemon->stores, hr_plan_room, daemon->plan);
        hr_stores_on_trouble(daemon->stores, hr_plan_trouble, daemon->plan);
    }
    if (error < 0) {
        snprintf(message, 256, "cannot make %.180s/index: %s", daemon->cache_dir, strerror(-error));
        return error;
    }
    struct statvfs fs;
    uint64_t whole = statvfs(daemon->cache_dir, &fs) == 0 ? (uint64_t)fs.f_blocks * fs.f_frsize : 0;
    struct hr_cache_options cache = {
        .dir = daemon->cache_dir,
        .size_bytes = hr_settings_bytes(settings, HR_SETTING_CACHE_SIZE, whole),
        .free_bytes = hr_settings_bytes(settings, HR_SETTING_CACHE_FREE, whole),
        .writer_threads = HR_WRITER_THREADS,
        .boot = boot,
        .loop = daemon->loop,
        .evicted = hr_plan_evicted,
        .needed_later = hr_plan_needed_later,
        .residents_grown = hr_plan_residents_grown,
        .owner = daemon->plan,
    };
    error = hr_cache_open(&cache, message, &daemon->cache);
    if (error == 0) {
        struct hr_cache_stats stats;
        hr_cache_stats(daemon->cache, &stats);
        daemon->shm.control->cache_dev = stats.cache_dev;
        hr_plan_residents_grown(daemon->plan, stats.residents_gen);
        hr_plan_set_cache(daemon->plan, daemon->cache);
    }
    return error;
}

static int open_eyes(struct daemon *daemon)
{
    struct hr_jobs_options jobs = {
        .loop = daemon->loop,
        .cache_dir = daemon->cache_dir,
        .plan = daemon->plan,
        .control = daemon->shm.control,
        .stores = daemon->stores,
        .cache = daemon->cache,
        .connections = daemon->budgets.connections,
        .memory_bytes = daemon->budgets.memory_bytes,
    };
    int error = hr_jobs_new(&jobs, &daemon->jobs);
    return error < 0 ? error : hr_waits_new(daemon->plan, hr_jobs_waited, daemon->jobs, &daemon->waits);
}

static int open_doors(struct daemon *daemon, char message[256])
{
    int error = hr_contexts_new(daemon->shm.control, daemon->plan, daemon->stores, daemon->settings,
                                &daemon->contexts);
    if (error == 0) {
        error = open_eyes(daemon);
    }
    if (error == 0) {
        error = hr_intake_start(daemon->loop, &daemon->shm, daemon->plan, daemon->cache, &daemon->intake);
    }
    if (error == 0) {
        error = hr_errands_new(daemon->loop, daemon->plan, &daemon->errands);
    }
    if (error == 0) {
        hr_intake_watch(daemon->intake, daemon->waits);
    }
    struct hr_socket_options options = {
        .loop = daemon->loop,
        .cache_dir = daemon->cache_dir,
        .plan = daemon->plan,
        .contexts = daemon->contexts,
        .errands = daemon->errands,
        .waits = daemon->waits,
        .jobs = daemon->jobs,
        .control = daemon->shm.control,
        .status = status_text,
        .stop = stop,
        .owner = daemon,
    };
    if (error == 0) {
        error = hr_socket_open(&options, &daemon->socket);
    }
    if (error < 0) {
        snprintf(message, 256, "cannot open %.180s/" HR_SOCKET_NAME ": %s", daemon->cache_dir,
                 strerror(-error));
    }
    return error;
}

/* Blocked before any thread exists, so that every thread inherits it. */
static int watch_signals(struct daemon *daemon)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0) {
        return -errno;
    }
    signal(SIGPIPE, SIG_IGN);
    daemon->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return daemon->signal_fd < 0 ? -errno
                                 : hr_loop_watch(daemon->loop, daemon->signal_fd, EPOLLIN, on_signal, daemon);
}

static int start(struct daemon *daemon, char message[256])
{
    uint64_t boot = 0;
    int error = hr_loop_new(&daemon->loop);
    while (error == 0 && boot == 0) {
        error = getrandom(&boot, sizeof boot, 0) == (ssize_t)sizeof boot ? 0 : -EIO;
    }
    if (error == 0) {
        error = watch_signals(daemon);
    }
    if (error == 0) {
        error = hr_shm_create(daemon->cache_dir, boot, daemon->shm.lock_fd, &daemon->shm);
    }
    if (error < 0) {
        snprintf(message, 256, "cannot write to %.180s: %s", daemon->cache_dir, strerror(-error));
        return error;
    }
    error = hr_digests_ready();
    if (error < 0) {
        snprintf(message, 256, "cannot load OpenSSL's digests: %s", strerror(-error));
        return error;
    }
    error = open_network(daemon, message);
    if (error == 0) {
        error = open_plan_and_cache(daemon, boot, message);
    }
    if (error == 0) {
        error = open_doors(daemon, message);
    }
    return error;
}

/* In the order that lets every callback still find what it needs. */
static void end(struct daemon *daemon)
{
    if (daemon->shm.control) {
        hr_shm_retire(&daemon->shm);
    }
    hr_socket_close(daemon->socket);
    hr_intake_stop(daemon->intake);
    hr_jobs_stop(daemon->jobs);
    if (daemon->plan) {
        hr_plan_stop(daemon->plan);
    }
    if (daemon->http) {
        hr_http_free(daemon->http);
    }
    hr_stores_free(daemon->stores); /* calls that wait for their next try come back too */
    if (daemon->cache) {
        hr_cache_close(daemon->cache); /* what is being written arrives in the plan */
    }
    hr_errands_free(daemon->errands);
    hr_plan_free(daemon->plan);
    hr_waits_free(daemon->waits);
    hr_jobs_free(daemon->jobs);
    hr_contexts_free(daemon->contexts);
    if (daemon->signal_fd >= 0) {
        close(daemon->signal_fd);
    }
    hr_loop_free(daemon->loop);
}

/* The directory was removed under us: whoever waits turns to a new daemon, and nothing more may be written
 * under paths that may be that one's. */
static void leave_at_once(struct daemon *daemon)
{
    hr_log(HR_LOG_ERROR, "%s was removed or replaced: ending", daemon->cache_dir);
    hr_shm_retire(&daemon->shm);
    _exit(1);
}

static void open_log(const struct hr_settings *settings, const char *cache_dir)
{
    char path[PATH_MAX];
    const char *chosen = hr_settings_text(settings, HR_SETTING_LOG_FILE);
    if (!chosen[0]) {
        snprintf(path, sizeof path, "%s/daemon.log", cache_dir);
        chosen = path;
    }
    (void)hr_log_open(chosen, (enum hr_log_level)hr_settings_enum(settings, HR_SETTING_LOG_LEVEL));
    hr_cleanup_fd int fd = open(chosen, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
    hr_crash_install(fd < 0 ? STDERR_FILENO : hr_steal_fd(fd));
}

int hr_daemon_run(const char *cache_dir, const struct hr_settings *settings, int ready_fd)
{
    char message[256] = "";
    struct daemon daemon = {
        .cache_dir = cache_dir,
        .settings = settings,
        .signal_fd = -1,
        .started_ms = hr_clock_ms(),
        .active_ms = hr_clock_ms(),
    };
    daemon.heartbeat = (struct hr_timer)HR_TIMER_INIT(on_heartbeat, &daemon);
    hr_documents_init();
    int error = hr_cache_dir_check(cache_dir, message);
    if (error == 0) {
        error = hr_shm_lock(cache_dir, &daemon.shm.lock_fd);
        if (error == -EAGAIN) {
            tell(ready_fd, "ok", NULL);
            return 0;
        }
        if (error < 0) {
            snprintf(message, sizeof message, "cannot lock %.180s/lock: %s", cache_dir, strerror(-error));
        }
    }
    if (error < 0) {
        hr_log(HR_LOG_ERROR, "%s", message); /* to stderr as yet */
        tell(ready_fd, "error", message);
        return 1;
    }
    open_log(settings, cache_dir);
    hr_budgets_take(settings, &daemon.budgets);
    error = start(&daemon, message);
    if (error == 0) {
        hr_log(HR_LOG_INFO, "serving version=%s pid=%d cache_dir=%s", HR_VERSION, (int)getpid(), cache_dir);
        on_heartbeat(&daemon);
        tell(ready_fd, "ok", NULL);
        error = hr_loop_run(daemon.loop);
        if (daemon.lost) {
            leave_at_once(&daemon);
        }
    } else {
        hr_log(HR_LOG_ERROR, "%s", message);
        tell(ready_fd, "error", message);
    }
    end(&daemon);
    hr_log(HR_LOG_INFO, "ended");
    return error < 0 ? 1 : 0;
}
