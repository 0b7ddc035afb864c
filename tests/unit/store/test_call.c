/* The life of a call against a scripted server: its budget, others beside it, its credentials, its end. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fetch/base/clock.h"
#include "fetch/store/run.h"
#include "tests/unit/store/calls.h"

static char credentials_file[64];
static struct variable file_env[] = {
    {"AWS_SHARED_CREDENTIALS_FILE", credentials_file}, {"AWS_ENDPOINT_URL", endpoint}, {NULL, NULL}};

static void budget_ends_with_eio(void **state)
{
    (void)state;
    static struct script script;
    struct script_step step = {"503 X\r\n", NULL, 0};
    play(&script, &step, 1, false);
    open_stores(1200);
    struct hr_store *store = open_store(keys_env, script.port);
    struct hr_call *call = hr_call_new(HR_CALL_GET, store, "k", 1);
    run_call(call);
    script_stop(&script);
    assert_int_equal(call->error, -EIO);
    assert_in_range(script.asked, 3, 30);
    assert_non_null(strstr(call->message, "503"));
    struct hr_store_stats stats;
    hr_stores_stats(stores, &stats);
    assert_int_equal(stats.requests_get, script.asked);
    assert_int_equal(stats.retries, script.asked - 1);
    assert_int_equal(stats.throttled, script.asked);
    assert_int_equal(stats.errors, 1);
    assert_int_equal(stats.in_flight, 0);
    hr_call_free(call);
    hr_store_unref(store);
    close_stores();
}

static void nobody_listens(void **state)
{
    (void)state;
    static struct script script;
    struct script_step step = {"200 OK\r\n", "x", 0};
    play(&script, &step, 1, false);
    script_stop(&script);
    open_stores(400);
    struct hr_store *store = open_store(keys_env, script.port);
    struct hr_call *call = hr_call_new(HR_CALL_GET, store, "k", 1);
    run_call(call);
    assert_int_equal(call->error, -EIO);
    assert_non_null(strstr(call->message, endpoint));
    assert_non_null(strstr(call->message, "check the endpoint"));
    assert_true(call->retries > 0);
    hr_call_free(call);
    hr_store_unref(store);
    close_stores();
}

/* Every third answer is 503: every call gets its object, none fails because others used the retry budget up.
 */
static void every_third_throttled(void **state)
{
    (void)state;
    static struct script script;
    enum { CALLS = 60 };
    struct hr_call *calls[CALLS];
    struct script_step steps[] = {BODY_STEP("", "hello"), ERROR_STEP("503 X", "SlowDown"),
                                  BODY_STEP("", "hello")};
    play(&script, steps, 3, true);
    open_stores(60000);
    struct hr_store *store = open_store(keys_env, script.port);
    pending = CALLS;
    for (int i = 0; i < CALLS; i++) {
        calls[i] = hr_call_new(HR_CALL_GET, store, "k", 1);
        calls[i]->done = count_down;
        assert_int_equal(hr_call_start(calls[i]), 0);
    }
    assert_int_equal(hr_loop_run(loop), 0);
    script_stop(&script);
    unsigned retries = 0;
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(calls[i]->error, 0);
        assert_int_equal(calls[i]->body.len, 5);
        retries += calls[i]->retries;
        hr_call_free(calls[i]);
    }
    assert_int_equal(script.asked, CALLS + retries);
    struct hr_store_stats stats;
    hr_stores_stats(stores, &stats);
    assert_int_equal(stats.bytes_fetched, CALLS * 5);
    assert_int_equal(stats.throttled, retries);
    hr_store_unref(store);
    close_stores();
}

static void write_credentials(const char *id, const char *token)
{
    FILE *file = fopen(credentials_file, "w");
    assert_non_null(file);
    (void)fprintf(file, "[default]\naws_access_key_id=%s\naws_secret_access_key=s\naws_session_token=%s\n",
                  id, token);
    assert_int_equal(fclose(file), 0);
}

static void expired_token_is_read_again(void **state)
{
    (void)state;
    static struct script script;
    struct script_step steps[] = {ERROR_STEP("400 X", "ExpiredToken"), BODY_STEP("", "hello"),
                                  ERROR_STEP("400 X", "ExpiredToken")};
    (void)snprintf(credentials_file, sizeof(credentials_file), "/tmp/headrace-call-%d", (int)getpid());
    write_credentials("AS1", "tokenone");
    play(&script, steps, 3, false);
    open_stores(5000);
    struct hr_store *store = open_store(file_env, script.port);
    assert_string_equal(hr_store_identity(store), "profile:default");
    write_credentials("AS2", "tokentwo");
    struct hr_call *call = hr_call_new(HR_CALL_GET, store, "k", 1);
    run_call(call);
    assert_int_equal(call->error, 0);
    hr_call_free(call);
    /* Nothing newer to be had: the refusal is final, after one request. */
    call = hr_call_new(HR_CALL_GET, store, "k", 1);
    run_call(call);
    assert_int_equal(call->error, -EACCES);
    assert_non_null(strstr(call->message, "ExpiredToken"));
    assert_null(strstr(call->message, "tokentwo"));
    script_stop(&script);
    assert_int_equal(script.asked, 3);
    assert_non_null(strstr(script.log[0], "x-amz-security-token: tokenone"));
    assert_non_null(strstr(script.log[1], "x-amz-security-token: tokentwo"));
    assert_non_null(strstr(script.log[1], "Credential=AS2/"));
    hr_call_free(call);
    hr_store_unref(store);
    close_stores();
    (void)unlink(credentials_file);
}

/* 0.0.0.0 leads to this machine, too, but by its name it may be any. */
static void customer_keys_follow_no_redirect_in_clear(void **state)
{
    (void)state;
    static struct script script;
    struct script_step steps[] = {{"307 X\r\nLocation: http://127.0.0.1:@PORT/bkt/k\r\n", NULL, 0},
                                  BODY_STEP("", "hello"),
                                  {"307 X\r\nLocation: http://0.0.0.0:@PORT/bkt/k\r\n", NULL, 0},
                                  BODY_STEP("", "hello")};
    char file[64], message[256] = "";
    struct hr_store_options options = {
        .url = "s3://bkt/", .env = from_table, .env_owner = keys_env, .customer_key_file = file};
    struct hr_store *store = NULL;
    (void)snprintf(file, sizeof(file), "/tmp/headrace-call-key-%d", (int)getpid());
    FILE *out = fopen(file, "w");
    assert_true(out != NULL && fputs("0123456789abcdef0123456789abcdef", out) >= 0 && fclose(out) == 0);
    play(&script, steps, 4, false);
    open_stores(5000);
    (void)snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%u", script.port);
    assert_int_equal(hr_store_new(stores, &options, message, &store), 0);
    for (int i = 0; i < 2; i++) {
        struct hr_call *call = hr_call_new(HR_CALL_GET, store, "k", 1);
        run_call(call);
        assert_int_equal(call->error, i == 0 ? 0 : -EIO);
        hr_call_free(call);
    }
    script_stop(&script);
    assert_int_equal(script.asked, 3);
    assert_non_null(strstr(script.log[1], "x-amz-server-side-encryption-customer-key: "));
    hr_store_unref(store);
    close_stores();
    (void)unlink(file);
}

/* Refused credentials are asked once, not once for each of a million files; new ones are tried at once. */
static void refusal_is_remembered(void **state)
{
    (void)state;
    static struct script script;
    struct script_step steps[] = {ERROR_STEP("403 X", "SignatureDoesNotMatch"), BODY_STEP("", "hello")};
    struct variable right_env[] = {{"AWS_ACCESS_KEY_ID", "AKTEST"},
                                   {"AWS_SECRET_ACCESS_KEY", "right"},
                                   {"AWS_ENDPOINT_URL", endpoint},
                                   {NULL, NULL}};
    play(&script, steps, 2, false);
    open_stores(5000);
    struct hr_store *store = open_store(keys_env, script.port);
    for (int i = 0; i < 3; i++) {
        struct hr_call *call = hr_call_new(HR_CALL_GET, store, "k", 1);
        run_call(call);
        assert_int_equal(call->error, -EACCES);
        assert_non_null(strstr(call->message, "SignatureDoesNotMatch"));
        assert_int_equal(call->retries, 0);
        hr_call_free(call);
    }
    hr_store_refresh(store, from_table, right_env);
    for (int i = 0; i < 2; i++) {
        struct hr_call *call = hr_call_new(HR_CALL_GET, store, "k", 1);
        run_call(call);
        assert_int_equal(call->error, 0);
        hr_call_free(call);
        /* A wrong secret for a key that works, and another identity, change nothing. */
        hr_store_refresh(store, from_table, keys_env);
        right_env[0].value = "AKOTHER";
        hr_store_refresh(store, from_table, right_env);
    }
    script_stop(&script);
    assert_int_equal(script.asked, 3);
    hr_store_unref(store);
    close_stores();
}

static void cancel_while_it_waits(void *owner)
{
    hr_call_cancel(owner);
}

static void calls_are_canceled(void **state)
{
    (void)state;
    static struct script script;
    struct script_step step = {"503 X\r\nRetry-After: 5\r\n", NULL, 0};
    play(&script, &step, 1, false);
    open_stores(60000);
    struct hr_store *store = open_store(keys_env, script.port);
    struct hr_call *waiting = hr_call_new(HR_CALL_GET, store, "k", 1);
    struct hr_call *flying = hr_call_new(HR_CALL_GET, store, "k", 1);
    struct hr_timer timer = HR_TIMER_INIT(cancel_while_it_waits, waiting);
    waiting->done = flying->done = count_down;
    pending = 2;
    assert_int_equal(hr_call_start(waiting), 0);
    assert_int_equal(hr_call_start(flying), 0);
    assert_int_equal(hr_call_start(flying), -EBUSY);
    hr_call_cancel(flying);
    assert_int_equal(hr_loop_arm(loop, &timer, 300), 0);
    assert_int_equal(hr_loop_run(loop), 0);
    assert_int_equal(waiting->error, -ECANCELED);
    assert_int_equal(flying->error, -ECANCELED);
    script_stop(&script);
    assert_in_range(script.asked, 1, 2); /* neither is asked for again */
    hr_call_free(waiting);
    hr_call_free(flying);
    hr_store_unref(store);
    close_stores();
}

static struct hr_call *hurried;
static int64_t waited_ms, hurried_ms;
static struct hr_timer hurry_timer;

/* As if it had been throttled often: nobody waited for it, so its next try is far away. */
static void hurry_while_it_waits(void *owner)
{
    struct hr_call_run *run = hurried->impl;
    (void)owner;
    if (run->next_try_ms == 0) { /* the answer is on its way */
        assert_int_equal(hr_loop_arm(loop, &hurry_timer, 10), 0);
        return;
    }
    run->waits = 20;
    run->next_try_ms = hr_clock_ms() + 20000;
    assert_int_equal(hr_loop_arm(loop, &run->timer, 20000), 0);
    waited_ms = run->next_try_ms;
    hr_call_hurry(hurried);
    hurried_ms = run->next_try_ms - hr_clock_ms();
    waited_ms -= run->next_try_ms;
    assert_int_equal(run->waits, 20);
    int64_t next_try_ms = run->next_try_ms;
    hr_call_hurry(hurried); /* once */
    assert_int_equal(run->next_try_ms, next_try_ms);
    hr_call_cancel(hurried);
}

static void hurry_shortens_the_wait(void **state)
{
    (void)state;
    static struct script script;
    struct script_step step = {"503 X\r\nRetry-After: 3\r\n", NULL, 0};
    play(&script, &step, 1, false);
    open_stores(60000);
    struct hr_store *store = open_store(keys_env, script.port);
    hurried = hr_call_new(HR_CALL_GET, store, "k", 1);
    hurry_timer = (struct hr_timer)HR_TIMER_INIT(hurry_while_it_waits, NULL);
    hurried->done = count_down;
    pending = 1;
    assert_int_equal(hr_call_start(hurried), 0);
    assert_int_equal(hr_loop_arm(loop, &hurry_timer, 10), 0);
    assert_int_equal(hr_loop_run(loop), 0);
    assert_int_equal(hurried->error, -ECANCELED);
    assert_true(hurried->awaited);
    assert_true(hurried_ms <= 4000);
    assert_true(waited_ms >= 15000);
    script_stop(&script);
    hr_call_free(hurried);
    hr_store_unref(store);
    close_stores();
}

static void family_ends_with_calls_under_way(void **state)
{
    (void)state;
    static struct script script;
    struct script_step step = {"503 X\r\nRetry-After: 5\r\n", NULL, 0};
    play(&script, &step, 1, false);
    open_stores(60000);
    struct hr_store *store = open_store(keys_env, script.port);
    struct hr_call *waiting = hr_call_new(HR_CALL_GET, store, "k", 1);
    struct hr_call *flying = hr_call_new(HR_CALL_GET, store, "k", 1);
    struct hr_timer timer = HR_TIMER_INIT((hr_loop_fn)hr_loop_stop, loop);
    waiting->done = flying->done = count_down;
    pending = 2;
    assert_int_equal(hr_call_start(waiting), 0);
    assert_int_equal(hr_loop_arm(loop, &timer, 300), 0);
    assert_int_equal(hr_loop_run(loop), 0);
    assert_int_equal(hr_call_start(flying), 0);
    assert_int_equal(pending, 2);
    close_stores();
    assert_int_equal(pending, 0);
    assert_int_equal(waiting->error, -ECANCELED);
    assert_int_equal(flying->error, -ECANCELED);
    /* The store outlives its family, and starts nothing. */
    assert_int_equal(hr_call_start(flying), -ECANCELED);
    script_stop(&script);
    hr_call_free(waiting);
    hr_call_free(flying);
    hr_store_unref(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budget_ends_with_eio),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(every_third_throttled),
        cmocka_unit_test(expired_token_is_read_again),
        cmocka_unit_test(customer_keys_follow_no_redirect_in_clear),
        cmocka_unit_test(refusal_is_remembered),
        cmocka_unit_test(calls_are_canceled),
        cmocka_unit_test(hurry_shortens_the_wait),
        cmocka_unit_test(family_ends_with_calls_under_way),
    };
    return cmocka_run_group_tests_name("store/call", tests, NULL, NULL);
}
