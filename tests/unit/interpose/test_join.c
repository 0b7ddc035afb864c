/* The main process of a loader whose workers alone open what is mapped: it joins the daemon that is there
 * when it writes an index batch, and for nothing else. */
#include "interpose/context.h"
#include "tests/unit/interpose/fake_group.h"

#define JOIN_EVERY 8u /* context.c's */

/* (1, [7, 8]) as pickle's protocol 3 has it */
static const char batch[] = "\x80\3K\1](K\7K\be\x86.";

/* Writes it to a pipe; errno stays. */
static void send(const char *bytes, size_t len)
{
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    errno = 4321;
    assert_int_equal(write(out[1], bytes, len), len);
    assert_int_equal(errno, 4321);
    close(out[0]);
    close(out[1]);
}

static bool has_joined(void)
{
    struct hr_session session;
    return hr_session_peek(&session);
}

/* The descriptor that is free: one that was kept would move it. */
static int next_fd(void)
{
    int fd = dup(0);
    close(fd);
    return fd;
}

static void other_writes_join_nothing(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
    } others[] = {
        {"a line of a text file\n", 22},        {"\0\0\0\x10not a pickle, no", 20},
        {"\x80\3X\5\0\0\0helloq\0.", 13},       /* "hello" */
        {"\x80\3K\1](K\7X\1\0\0\0ae\x86.", 17}, /* (1, [7, "a"]) */
        {"\x80\3K\1](K\7K\be\x86", 12},         /* a batch without its end */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        for (unsigned times = 0; times < 2 * JOIN_EVERY; times++) {
            send(others[i].bytes, others[i].len);
        }
        assert_false(has_joined());
    }
}

static void another_environment_joins_nothing(void **state)
{
    (void)state;
    setenv("HEADRACE_PREFETCH", "off", 1);
    for (unsigned times = 0; times < JOIN_EVERY; times++) {
        send(batch, sizeof batch - 1);
        assert_false(has_joined());
    }
    unsetenv("HEADRACE_PREFETCH");
}

static void without_a_daemon_none_is_started(void **state)
{
    (void)state;
    fake_die(&fake, true);
    for (unsigned times = 0; times < 2 * JOIN_EVERY; times++) {
        send(batch, sizeof batch - 1);
        assert_false(has_joined());
    }
    assert_int_equal(fake_attaches(home), 0);
}

static void a_batch_joins_the_daemon_that_is_there(void **state)
{
    struct hr_session session;
    (void)state;
    fake_start(&fake, cache);
    int with_daemon = next_fd();
    unsigned batches = 0;
    while (batches < JOIN_EVERY && !has_joined()) {
        send(batch, sizeof batch - 1);
        batches++;
    }
    assert_true(hr_session_peek(&session));
    assert_true(session.control->boot == fake.boot);
    send(batch, sizeof batch - 1);
    for (int ms = 0; ms < 10000 && atomic_load(&fake.requests[HR_OP_ANNOUNCE]) < 2; ms++) {
        usleep(1000);
    }
    assert_int_equal(asked(HR_OP_ANNOUNCE), 2); /* the one that joined is told, too */
    assert_int_equal(next_fd(), with_daemon);
    assert_int_equal(fake_attaches(home), 0);
}

int main(int argc, char **argv)
{
    (void)argc;
    group_begin(argv);
    setenv("HEADRACE_CACHE_DIR", cache, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_writes_join_nothing),
        cmocka_unit_test(another_environment_joins_nothing),
        cmocka_unit_test(without_a_daemon_none_is_started),
        cmocka_unit_test(a_batch_joins_the_daemon_that_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, group_end);
}
