/* The main process of a loader whose environment does not name the cache directory: it asks `headrace attach
 * --find` for that, few times, and starts no daemon. Each test is a process that has asked nothing yet. */
#include <sys/wait.h>

#include "interpose/context.h"
#include "tests/unit/interpose/fake_group.h"

#define FIRST_ASKED 8u  /* context.c's, of batches from 0 */
#define ALL_ASKED 1024u /* all three are over */

/* (1, [7, 8]) as pickle's protocol 3 has it */
static const char batch[] = "\x80\3K\1](K\7K\be\x86.";

/* In a child of its own, which gives 0. */
static void in_a_child(int (*what)(void))
{
    int status = 1;
    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        _exit(what());
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
}

static void answer(const char *body)
{
    char path[256], text[800];
    snprintf(text, sizeof text, "[ \"$1 $2 $4\" = 'attach --fd --find' ] || touch %s/other\n%s", home, body);
    fake_command(home, text);
    snprintf(path, sizeof path, "%s/attaches", home);
    unlink(path);
}

static bool asked_only_where(void)
{
    char path[256];
    snprintf(path, sizeof path, "%s/other", home);
    return access(path, F_OK) != 0;
}

static bool has_joined(void)
{
    struct hr_session session;
    return hr_session_peek(&session);
}

static int send(const char *bytes, size_t len, unsigned times)
{
    int out[2];
    int right = pipe2(out, O_CLOEXEC) == 0;
    for (unsigned i = 0; right && i < times; i++) {
        char back[64];
        errno = 4321;
        right = write(out[1], bytes, len) == (ssize_t)len && errno == 4321 &&
                read(out[0], back, sizeof back) == (ssize_t)len;
    }
    close(out[0]);
    close(out[1]);
    return right ? 0 : 1;
}

static bool is_childless(void)
{
    return waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD;
}

static int joins_after_one_question(void)
{
    int before = dup(0);
    close(before);
    if (send(batch, sizeof batch - 1, FIRST_ASKED) || has_joined() || fake_attaches(home) != 0) {
        return 2;
    }
    for (unsigned i = 0; i < ALL_ASKED && !has_joined(); i++) { /* at once, but on a busy machine */
        if (send(batch, sizeof batch - 1, 1)) {
            return 3;
        }
    }
    unsigned questions = fake_attaches(home);
    if (!has_joined() || questions < 1 || questions > 3) {
        return 4;
    }
    int after = dup(0);
    close(after);
    return send(batch, sizeof batch - 1, ALL_ASKED) || fake_attaches(home) != questions || after != before ||
           !is_childless();
}

static void a_daemon_that_workers_have_started(void **state)
{
    char body[400];
    (void)state;
    snprintf(body, sizeof body, "say 'ok %s'", cache);
    answer(body);
    in_a_child(joins_after_one_question);
    assert_true(atomic_load(&fake.requests[HR_OP_ANNOUNCE]) > 0);
    assert_true(asked_only_where());
}

static int asks_three_times(void)
{
    return send(batch, sizeof batch - 1, ALL_ASKED) || has_joined() || fake_attaches(home) != 3 ||
           !is_childless();
}

static void a_place_that_is_not_there(void **state)
{
    (void)state;
    answer("say 'error it is not there yet'");
    in_a_child(asks_three_times);
    answer("exit 1");
    in_a_child(asks_three_times);
    assert_true(asked_only_where());
}

static int asks_once(void)
{
    return send(batch, sizeof batch - 1, ALL_ASKED) || has_joined() || fake_attaches(home) != 1;
}

static void a_place_without_a_daemon(void **state)
{
    char body[400];
    (void)state;
    snprintf(body, sizeof body, "say 'ok %s/empty'", home);
    answer(body);
    in_a_child(asks_once);
}

static int asks_nothing(void)
{
    static const char hello[] = "\x80\3X\5\0\0\0helloq\0.";
    static const char odd[] = "\x80\3K\1](K\7X\1\0\0\0ae\x86.";
    return send("a line of a text file\n", 22, ALL_ASKED) || send(hello, sizeof hello - 1, ALL_ASKED) ||
           send(odd, sizeof odd - 1, ALL_ASKED) || fake_attaches(home) != 0 || has_joined();
}

static void other_writes(void **state)
{
    (void)state;
    answer("say 'error'");
    in_a_child(asks_nothing);
}

int main(int argc, char **argv)
{
    (void)argc;
    unsetenv("HEADRACE_CACHE_DIR");
    group_begin(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_writes),
        cmocka_unit_test(a_place_that_is_not_there),
        cmocka_unit_test(a_place_without_a_daemon),
        cmocka_unit_test(a_daemon_that_workers_have_started),
    };
    return cmocka_run_group_tests(tests, NULL, group_end);
}
