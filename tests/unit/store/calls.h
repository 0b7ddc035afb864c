/* What the tests of calls share: a family of stores against a scripted server. */
#ifndef TESTS_STORE_CALLS_H
#define TESTS_STORE_CALLS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fetch/store/store.h"
#include "tests/unit/store/script_server.h"
#include "tests/unit/store/variables.h"

static struct hr_loop *loop;
static struct hr_http *http;
static struct hr_stores *stores;
static char endpoint[64];
static unsigned pending;

static struct variable keys_env[] = {{"AWS_ACCESS_KEY_ID", "AKTEST"},
                                     {"AWS_SECRET_ACCESS_KEY", "secret"},
                                     {"AWS_ENDPOINT_URL", endpoint},
                                     {NULL, NULL}};

static inline void open_stores(unsigned timeout_ms)
{
    struct hr_http_options http_options = {.threads = 1, .max_connections = 16, .user_agent = "test"};
    assert_int_equal(hr_loop_new(&loop), 0);
    assert_int_equal(hr_http_new(&http_options, loop, &http), 0);
    struct hr_stores_options options = {.loop = loop, .http = http, .timeout_ms = timeout_ms};
    assert_int_equal(hr_stores_new(&options, &stores), 0);
}

static inline void close_stores(void)
{
    hr_http_free(http);
    hr_stores_free(stores);
    hr_loop_free(loop);
}

static inline struct hr_store *open_store(struct variable *env, unsigned port)
{
    struct hr_store *store = NULL;
    char message[256] = "";
    struct hr_store_options options = {.url = "s3://bkt/", .env = from_table, .env_owner = env};
    (void)snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%u", port);
    if (hr_store_new(stores, &options, message, &store) != 0) {
        fail_msg("%s", message);
    }
    return store;
}

static inline void count_down(struct hr_call *call)
{
    (void)call;
    if (--pending == 0) {
        hr_loop_stop(loop);
    }
}

static inline void run_call(struct hr_call *call)
{
    call->done = count_down;
    pending = 1;
    assert_int_equal(hr_call_start(call), 0);
    assert_int_equal(hr_loop_run(loop), 0);
    assert_int_equal(pending, 0);
}

#define XML_ERROR(code) "<?xml version=\"1.0\"?><Error><Code>" code "</Code><Message>m</Message></Error>"
#define ERROR_STEP(status, code)                                                                             \
    {                                                                                                        \
        status "\r\n", XML_ERROR(code), 0                                                                    \
    }
#define BODY_STEP(headers, body)                                                                             \
    {                                                                                                        \
        "200 OK\r\nETag: \"e1\"\r\n" headers, body, 0                                                        \
    }

static inline void play(struct script *script, const struct script_step *steps, unsigned count, bool again)
{
    memset(script, 0, sizeof(*script));
    memcpy(script->steps, steps, count * sizeof(*steps));
    script->step_count = count;
    script->loop = again;
    assert_int_equal(script_start(script), 0);
}

#endif
