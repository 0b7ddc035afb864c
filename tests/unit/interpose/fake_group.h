/* What the tests of calls share: a daemon that the test plays, and a program started again below its map. The
 * hooks are linked in: each call here is ours. */
#ifndef HR_TESTS_FAKE_GROUP_H
#define HR_TESTS_FAKE_GROUP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/interpose/fake.h"

static const char *home;
static char cache[220];
static struct fake fake;

/* How many requests of this kind came since it was asked last. */
static inline unsigned asked(enum hr_op op)
{
    return atomic_exchange(&fake.requests[op], 0);
}

static inline void fails(long result, int error)
{
    int got = errno;
    assert_int_equal(result, -1);
    assert_int_equal(got, error);
}

/* Returns in the second run, in `home`. */
static inline void group_begin(char **argv)
{
    home = fake_begin(&fake, argv, cache);
    FAKE_MUST(chdir(home) == 0);
}

/* A group's teardown. */
static inline int group_end(void **state)
{
    (void)state;
    if (!atomic_load(&fake.stop)) {
        fake_die(&fake, false);
    }
    FAKE_MUST(chdir("/") == 0);
    fake_tidy(home);
    return 0;
}

#endif
