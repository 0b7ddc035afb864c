/* The socket's requests, from the JSON line to the handler behind it: every line is answered by one line, or
 * the connection ends, and nothing is left on the accounts. An order that is recorded goes to a file of the
 * fuzzer's own. */
#include "fetch/serve/socket.h"

#include <errno.h>
#include <jansson.h>
#include <malloc.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "config/settings.h"
#include "tests/fuzz/daemon.h"

#define TREES_KEPT 900  /* attach makes trees; then the plan starts anew */
#define INPUTS_KEPT 300 /* orders keep a file each */

static struct hr_contexts *contexts;
static struct hr_settings *settings;
static struct hr_socket *server;
static struct hr_timer tick;
static struct hr_errands *errands;
static struct hr_jobs *jobs;
static struct hr_waits *waits;
static unsigned since_renewed;
static int client = -1;
static char answer[1 << 20];
static size_t answer_len;
static unsigned turns;

static char *status(void *owner)
{
    (void)owner;
    return strdup("{}");
}

static void stop(void *owner)
{
    (void)owner;
}

static void zero_free(void *pointer)
{
    if (pointer) {
        explicit_bzero(pointer, malloc_usable_size(pointer));
        free(pointer);
    }
}

/* At each turn's end: has the daemon ended the connection? */
static void listen_for_answer(void *owner)
{
    ssize_t got;
    (void)owner;
    while ((got = recv(client, answer + answer_len, sizeof answer - answer_len, MSG_DONTWAIT)) > 0) {
        answer_len += (size_t)got;
    }
    if (got == 0 || errno != EAGAIN || ++turns > 1000) {
        hr_loop_stop(fuzz.loop);
    }
}

static void on_tick(void *owner)
{
    (void)owner;
    (void)hr_loop_arm(fuzz.loop, &tick, 1); /* so that turns go on */
}

static void open_doors(void)
{
    char why[HR_SETTINGS_MESSAGE_BYTES];
    struct hr_settings_sources sources = {.no_file = true};
    if (!settings) {
        fuzz_check(hr_settings_load(&sources, why, &settings));
        tick = (struct hr_timer)HR_TIMER_INIT(on_tick, NULL);
        fuzz_check(hr_loop_arm(fuzz.loop, &tick, 1));
        hr_loop_each_turn(fuzz.loop, listen_for_answer, NULL);
    }
    fuzz_check(hr_contexts_new(fuzz.shm.control, fuzz.plan, fuzz.stores, settings, &contexts));
    struct hr_jobs_options eyes = {.loop = fuzz.loop,
                                   .cache_dir = scratch,
                                   .plan = fuzz.plan,
                                   .stores = fuzz.stores,
                                   .cache = fuzz.cache,
                                   .connections = 16,
                                   .memory_bytes = 32 << 20};
    fuzz_check(hr_jobs_new(&eyes, &jobs));
    fuzz_check(hr_waits_new(fuzz.plan, hr_jobs_waited, jobs, &waits));
    fuzz_check(hr_errands_new(fuzz.loop, fuzz.plan, &errands));
    struct hr_socket_options options = {.loop = fuzz.loop,
                                        .cache_dir = scratch,
                                        .plan = fuzz.plan,
                                        .contexts = contexts,
                                        .errands = errands,
                                        .waits = waits,
                                        .jobs = jobs,
                                        .control = fuzz.shm.control,
                                        .status = status,
                                        .stop = stop};
    fuzz_check(hr_socket_open(&options, &server));
}

static void renew(void)
{
    hr_socket_close(server);
    hr_jobs_stop(jobs);
    hr_plan_stop(fuzz.plan);
    hr_errands_free(errands);
    hr_plan_free(fuzz.plan);
    hr_waits_free(waits);
    hr_jobs_free(jobs);
    hr_contexts_free(contexts);
    atomic_store(&fuzz.shm.control->context_count, 0);
    atomic_store(&fuzz.shm.control->tree_count, 0);
    memset(fuzz.shm.control->contexts, 0, sizeof fuzz.shm.control->contexts);
    fuzz_new_plan(hr_random_u64());
    open_doors();
}

static void dial(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/" HR_SOCKET_NAME, scratch);
    client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client < 0 || connect(client, (struct sockaddr *)&address, sizeof address) < 0) {
        abort();
    }
}

/* The request with the file's name replaced: the caller's text; NULL: it records nothing. */
static char *kept_here(const uint8_t *data, size_t size)
{
    const uint8_t *end = memchr(data, '\n', size);
    json_t *request = end ? json_loadb((const char *)data, (size_t)(end - data), 0, NULL) : NULL;
    const char *op = json_string_value(json_object_get(request, "op"));
    char path[96], *text = NULL;
    if (op && strcmp(op, "record") == 0 && json_object_get(request, "file")) {
        snprintf(path, sizeof path, "%s/order", scratch);
        if (json_object_set_new(request, "file", json_string(path)) < 0) {
            abort();
        }
        char *line = json_dumps(request, JSON_COMPACT);
        if (!line || asprintf(&text, "%s\n", line) < 0) {
            abort();
        }
        free(line);
    }
    json_decref(request);
    return text;
}

static void send_request(const uint8_t *data, size_t size)
{
    char *own = kept_here(data, size);
    const char *bytes = own ? own : (const char *)data;
    ssize_t len = own ? (ssize_t)strlen(own) : (ssize_t)size;
    if ((len && send(client, bytes, (size_t)len, MSG_NOSIGNAL) != len) || shutdown(client, SHUT_WR) < 0) {
        abort();
    }
    free(own);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!fuzz.loop) {
        json_set_alloc_funcs(malloc, zero_free);
        fuzz_start();
        open_doors();
    }
    if (size > 60000) { /* what a socket holds without a reader */
        return 0;
    }
    dial();
    answer_len = 0;
    turns = 0;
    send_request(data, size);
    (void)hr_loop_run(fuzz.loop);
    close(client);
    if (turns > 1000) {
        abort(); /* never answered */
    }
    bool line = memchr(data, '\n', size) != NULL;
    if (line != (answer_len > 0) || (line && memchr(answer, '\n', answer_len) != answer + answer_len - 1)) {
        abort();
    }
    struct hr_plan_stats stats;
    hr_plan_stats(fuzz.plan, &stats);
    if (stats.in_flight || stats.memory_bytes || stats.queued) {
        abort();
    }
    if (++since_renewed > INPUTS_KEPT || stats.trees > TREES_KEPT ||
        atomic_load(&fuzz.shm.control->context_count) > TREES_KEPT) {
        since_renewed = 0;
        renew();
    }
    return 0;
}
