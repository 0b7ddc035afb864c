/* No signal goes unnoticed: whenever a handler has run, the turn in which it ran says so. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "interpose/doze.h"

#define SIGNALS 1000
#define STRANGER_MS 60000u /* the parent kills it long before */

static volatile sig_atomic_t handled;

static void on_signal(int number)
{
    (void)number;
    handled++;
}

static void handle(int number)
{
    struct sigaction action = {.sa_handler = on_signal};
    assert_int_equal(sigaction(number, &action, NULL), 0);
    handled = 0;
}

static sigset_t own_mask(void)
{
    sigset_t mask;
    assert_int_equal(sigprocmask(SIG_SETMASK, NULL, &mask), 0);
    return mask;
}

static void test_between_two_turns(void **state)
{
    (void)state;
    struct hr_doze doze = {0};
    handle(SIGUSR1);
    assert_false(hr_doze(&doze, 0));
    raise(SIGUSR1);
    assert_int_equal(handled, 0); /* kept until somebody looks */
    assert_true(hr_doze(&doze, STRANGER_MS));
    assert_int_equal(handled, 1);
    assert_false(hr_doze(&doze, 0));
    raise(SIGUSR1);
    assert_true(hr_doze(&doze, 0)); /* also when there is no time to wait */
    assert_int_equal(handled, 2);
    hr_doze_end(&doze);
}

static void test_the_mask_is_the_threads_own_again(void **state)
{
    (void)state;
    struct hr_doze doze = {0};
    sigset_t before, blocked, after;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    assert_int_equal(sigprocmask(SIG_BLOCK, &blocked, NULL), 0);
    handle(SIGUSR2);
    before = own_mask();
    raise(SIGUSR2);
    assert_false(hr_doze(&doze, 1)); /* what the program has blocked is not let in */
    hr_doze_end(&doze);
    after = own_mask();
    assert_int_equal(handled, 0);
    for (int number = 1; number < NSIG; number++) {
        assert_int_equal(sigismember(&before, number), sigismember(&after, number));
    }
    hr_doze_end(&doze);
    assert_int_equal(sigprocmask(SIG_UNBLOCK, &blocked, NULL), 0);
    assert_int_equal(handled, 1);
}

static void test_faults_stay_open(void **state)
{
    (void)state;
    struct hr_doze doze = {0};
    handle(SIGBUS);
    assert_false(hr_doze(&doze, 0));
    raise(SIGBUS);
    assert_int_equal(handled, 1);
    hr_doze_end(&doze);
    signal(SIGBUS, SIG_DFL);
}

static void test_an_ignored_signal_is_none(void **state)
{
    (void)state;
    struct hr_doze doze = {0};
    signal(SIGUSR1, SIG_IGN);
    assert_false(hr_doze(&doze, 0));
    raise(SIGUSR1);
    assert_false(hr_doze(&doze, 1));
    hr_doze_end(&doze);
}

/* Each at another place of the turns: the next is sent when this one was handled. */
static void send_all(int answers)
{
    char byte;
    for (unsigned i = 0; i < SIGNALS; i++) {
        usleep(i * 37 % 1500); /* turns are of 1 ms */
        if (kill(getppid(), SIGUSR1) < 0 || read(answers, &byte, 1) != 1) {
            _exit(1);
        }
    }
    _exit(0);
}

static void test_a_thousand_at_any_time(void **state)
{
    (void)state;
    struct hr_doze doze = {0};
    int answers[2], status;
    unsigned noticed = 0, lost = 0;
    handle(SIGUSR1);
    assert_int_equal(pipe(answers), 0);
    pid_t sender = fork();
    if (sender == 0) {
        send_all(answers[0]);
    }
    for (sig_atomic_t before = 0; noticed + lost < SIGNALS;) {
        bool told = hr_doze(&doze, 1);
        if (handled != before) {
            before = handled;
            noticed += told;
            lost += !told;
            assert_int_equal(write(answers[1], "", 1), 1);
        }
    }
    hr_doze_end(&doze);
    assert_int_equal(waitpid(sender, &status, 0), sender);
    assert_int_equal(status, 0);
    assert_int_equal(lost, 0);
    assert_int_equal(handled, SIGNALS);
    close(answers[0]);
    close(answers[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_between_two_turns),
        cmocka_unit_test(test_the_mask_is_the_threads_own_again),
        cmocka_unit_test(test_faults_stay_open),
        cmocka_unit_test(test_an_ignored_signal_is_none),
        cmocka_unit_test(test_a_thousand_at_any_time),
    };
    return cmocka_run_group_tests_name("doze", tests, NULL, NULL);
}
