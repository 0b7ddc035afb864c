/* Memory that is refused to OpenSSL: while digests are loaded the process says that it is of no use, or has
 * them all; afterwards what failed once succeeds at the next try. Each case in a process of its own, because
 * OpenSSL keeps what it loads and what it could not. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <openssl/crypto.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fetch/base/digest.h"

#define DENSE_UNTIL 120u /* of what OpenSSL asks for, the first ones decide most... */
#define STEP 23u         /* ...and then each such one, until loading asks for no more */
#define ASKED_MAX 100000u

enum { FINE, OF_NO_USE, UNTOUCHED, SPOILT };

static unsigned from, asked; /* 0: nothing is refused */

static int refused(void)
{
    return from && ++asked == from;
}

static void *take(size_t bytes, const char *file, int line)
{
    (void)file;
    (void)line;
    return refused() ? NULL : malloc(bytes);
}

static void *resize(void *old, size_t bytes, const char *file, int line)
{
    (void)file;
    (void)line;
    return refused() ? NULL : realloc(old, bytes);
}

static void give(void *old, const char *file, int line)
{
    (void)file;
    (void)line;
    free(old);
}

static int all_work(void)
{
    uint8_t sum[HR_SHA256_BYTES];
    for (int kind = 0; kind < HR_DIGEST_KIND_COUNT; kind++) {
        if (hr_digest((enum hr_digest_kind)kind, "abc", 3, sum) < 0) {
            return 0;
        }
    }
    return hr_hmac_sha256("key", 3, "abc", 3, sum) == 0;
}

static int while_loading(void)
{
    int ready = hr_digests_ready();
    int touched = asked >= from;
    from = 0;
    return ready < 0 ? OF_NO_USE : !all_work() ? SPOILT : touched ? FINE : UNTOUCHED;
}

static int while_signing(void)
{
    uint8_t mac[HR_SHA256_BYTES];
    unsigned then = from;
    from = 0;
    if (hr_digests_ready() < 0) {
        return SPOILT;
    }
    from = then;
    (void)hr_hmac_sha256("key", 3, "abc", 3, mac);
    int touched = asked >= from;
    from = 0;
    return !all_work() ? SPOILT : touched ? FINE : UNTOUCHED;
}

/* What a process comes to; one that OpenSSL itself brings down is of no use. */
static int outcome_of(int (*run)(void), unsigned refuse)
{
    int status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)signal(SIGSEGV, SIG_DFL); /* cmocka's would go on with the next test */
        if (CRYPTO_set_mem_functions(take, resize, give) != 1) {
            _exit(SPOILT);
        }
        from = refuse;
        _exit(run());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : OF_NO_USE;
}

static void check(int (*run)(void), unsigned ret_outcomes[4])
{
    for (unsigned refuse = 1; refuse < ASKED_MAX; refuse += refuse < DENSE_UNTIL ? 1 : STEP) {
        int outcome = outcome_of(run, refuse);
        ret_outcomes[outcome]++;
        if (outcome == SPOILT) {
            fail_msg("spoilt by the refusal of what is asked for as number %u", refuse);
        }
        if (outcome == UNTOUCHED) {
            return;
        }
    }
    fail_msg("OpenSSL never asks for less");
}

static void test_refused_while_loading(void **state)
{
    unsigned outcomes[4] = {0};
    (void)state;
    check(while_loading, outcomes);
}

static void test_refused_while_signing(void **state)
{
    unsigned outcomes[4] = {0};
    (void)state;
    check(while_signing, outcomes);
    assert_true(outcomes[FINE] > 0);
    assert_int_equal(outcomes[OF_NO_USE], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_while_loading),
        cmocka_unit_test(test_refused_while_signing),
    };
    return cmocka_run_group_tests_name("digest memory", tests, NULL, NULL);
}
